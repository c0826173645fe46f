//! For tests: the files of a folder, in the order of their names.

use std::fs;
use std::path::{Path, PathBuf};

/// Names without their extensions, and contents.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    paths.into_iter().map(|path| (name(&path), fs::read(path).expect("a file"))).collect()
}
