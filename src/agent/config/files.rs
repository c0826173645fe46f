//! Reads configuration files and folders from disk, and asks the machine for what defaults need.

use super::{HostDefaults, SourceFile};
use ::io::interfaces;
use jobspec::diagnostic::Diagnostic;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// A folder with more configuration files than this is surely the wrong one.
const MAX_FILES: usize = 1000;

/// The files that `-config` names: a file, or of a folder its `*.hcl` and `*.json` in alphabetical order, not of folders within.
pub fn read(path: &str) -> Result<Vec<SourceFile>, Diagnostic> {
    let fail = |name: &str, e: std::io::Error| {
        Diagnostic::nowhere(name, "Cannot read the configuration", os_error(&e))
    };
    if !fs::metadata(path).map_err(|e| fail(path, e))?.is_dir() {
        return Ok(vec![read_one(path).map_err(|e| fail(path, e))?]);
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| fail(path, e))?.take(MAX_FILES) {
        let entry = entry.map_err(|e| fail(path, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_config(&name) && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort();
    let full = |name: &String| Path::new(path).join(name).to_string_lossy().into_owned();
    names.iter().map(full).map(|p| read_one(&p).map_err(|e| fail(&p, e))).collect()
}

/// An error of the operating system in its own words, as scripts look for them: "no such file or directory".
pub fn os_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    let Some(code) = error.raw_os_error() else { return text };
    let words = text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text);
    let mut chars = words.chars();
    chars.next().into_iter().flat_map(char::to_lowercase).chain(chars).collect()
}

fn read_one(path: &str) -> std::io::Result<SourceFile> {
    Ok(SourceFile { name: path.to_string(), text: fs::read_to_string(path)? })
}

/// Editors leave `name~`, `.#name`, `#name#` and `.name.swp` behind.
fn is_config(name: &str) -> bool {
    let temporary = name.starts_with(['.', '#']) || name.ends_with('~');
    !temporary && (name.ends_with(".hcl") || name.ends_with(".json"))
}

/// The host's name, the processors that this process may use, and the address of the default route.
pub fn machine() -> HostDefaults {
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let network = interfaces::chosen(None, &interfaces::addresses());
    let addresses = network.into_iter().flat_map(|network| network.addresses);
    let address = addresses.filter_map(|ip| ip.parse().ok()).find(|ip: &IpAddr| !ip.is_loopback());
    HostDefaults { hostname, cpus: u32::try_from(cpus).unwrap_or(1), address }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_errors_are_in_lower_case_without_a_number() {
        assert_eq!(os_error(&std::io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(os_error(&std::io::Error::other("Ours")), "Ours");
    }

    #[test]
    fn only_configuration_files_of_a_folder_are_read() {
        for (name, expected) in [
            ("a.hcl", true),
            ("b.json", true),
            ("c.txt", false),
            (".a.hcl", false),
            ("#a.hcl#", false),
            ("a.hcl~", false),
            ("a.hcl.swp", false),
        ] {
            assert_eq!(is_config(name), expected, "{name}");
        }
    }
}
