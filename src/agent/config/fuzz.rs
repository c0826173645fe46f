//! Properties that hold for any text given as a configuration.

use super::{Config, HostDefaults, SourceFile, Sources};
use jobspec::render;

/// A configuration is accepted, or refused with its reasons; as one file or as the same file twice.
pub fn load(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let base = SourceFile {
        name: "base.hcl".into(),
        text: "data_dir = \"/d\" bind_addr = \"127.0.0.1\" server { enabled = true bootstrap_expect = 1 } client { enabled = true }"
            .into(),
    };
    let file = SourceFile { name: "f.hcl".into(), text };
    let machine = HostDefaults { hostname: "board".into(), cpus: 4, address: None };
    let load = |files: Vec<SourceFile>| Config::load(&Sources { files, ..Sources::default() }, &machine);
    let once = load(vec![base.clone(), file.clone()]);
    let twice = load(vec![base, file.clone(), file]);
    match (once, twice) {
        (Ok(once), Ok(twice)) => assert_eq!(once, twice, "saying it twice changes nothing"),
        (Err(problems), Err(_)) => assert!(!render(&problems).is_empty()),
        (once, _) => panic!("once it is {:?}, twice it is not", once.map(|loaded| loaded.settings)),
    }
}
