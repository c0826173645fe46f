//! The mark that every process of a run carries in its environment: whose keeper's it is, and which run's.
//!
//! Refuses to know: how processes are found. A program may overwrite its own environment, or give its children another:
//! the journal decides what a run is, the mark only finds what the journal has lost.

use super::journal::Process;
use super::run::is_label;
use model::id::RunId;

/// Reserved: what a job sets under this name is replaced.
pub const VARIABLE: &str = "DROVER_RUN";

/// A living process that carries this keeper's mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked {
    pub run: RunId,
    pub label: String,
    pub process: Process,
}

/// `home`: the name of the keeper's directory, which no other directory of this boot has.
pub fn value(home: &str, run: RunId, label: &str) -> String {
    format!("{home}/{run}/{label}")
}

/// Finds the mark in an environment as the kernel shows it: `name=value`, each ended by a NUL byte. The first entry of a name
/// counts.
pub fn find(home: &str, environ: &[u8]) -> Option<(RunId, String)> {
    let texts = environ.split(|b| *b == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let mut marks = texts.filter_map(|text| text.strip_prefix(VARIABLE)?.strip_prefix('='));
    let (run, label) = marks.next()?.strip_prefix(home)?.strip_prefix('/')?.split_once('/')?;
    is_label(label).then_some((run.parse().ok()?, label.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_only_by_its_own_keeper() {
        let run = RunId::from_random(7);
        let mark = value("fd.2a", run, "alloc.web");
        let ours = (run, "alloc.web".to_string());
        for (environ, found) in [
            (format!("A=b\0{VARIABLE}={mark}\0"), true),
            (format!("{VARIABLE}={mark}"), true),
            (format!("{VARIABLE}={mark}\0{VARIABLE}=other\0"), true),
            (format!("{VARIABLE}=other\0{VARIABLE}={mark}\0"), false),
            (format!("X{VARIABLE}={mark}\0"), false),
            (format!("{VARIABLE}S={mark}\0"), false),
            (format!("{VARIABLE}={}\0", value("fd.2", run, "alloc.web")), false),
            (format!("{VARIABLE}={}\0", value("fd.2a", run, "../web")), false),
            (format!("{VARIABLE}=fd.2a/no-run/alloc.web\0"), false),
            (String::new(), false),
        ] {
            assert_eq!(find("fd.2a", environ.as_bytes()), found.then(|| ours.clone()), "{environ:?}");
        }
        let noise = [b"\xff\xfe=\0".as_slice(), format!("{VARIABLE}={mark}").as_bytes()].concat();
        assert_eq!(find("fd.2a", &noise), Some(ours));
    }
}
