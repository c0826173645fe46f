//! The disk, for the filesystem functions of job files.

use agent::config::files::os_error;
use jobspec::Files;
use std::fs;
use std::io::Read;
use std::path::Path;

/// A longer file is not taken into a job.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// A folder with more files than this is not listed.
const MAX_FILES: usize = 10_000;
const MAX_DEPTH: usize = 16;

pub struct LocalFiles;

impl Files for LocalFiles {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(|e| format!("{path}: {}", os_error(&e)))?;
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| format!("{path}: {}", os_error(&e)))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(format!("{path} is longer than {MAX_FILE_BYTES} bytes"));
        }
        Ok(bytes)
    }

    fn exists(&self, path: &str) -> Result<bool, String> {
        Ok(fs::metadata(path).is_ok_and(|m| m.is_file()))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        walk(Path::new(dir), "", 0, &mut found).map_err(|e| format!("{dir}: {}", os_error(&e)))?;
        found.sort();
        Ok(found)
    }

    fn working_dir(&self) -> String {
        std::env::current_dir().map(|p| p.to_string_lossy().into_owned()).unwrap_or_else(|_| ".".to_string())
    }

    fn home(&self) -> String {
        std::env::var("HOME").unwrap_or_default()
    }
}

fn walk(dir: &Path, prefix: &str, depth: usize, found: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        // a link to a folder is not followed: it may lead back here
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if depth >= MAX_DEPTH {
                return Err(std::io::Error::other(format!("folders are nested more than {MAX_DEPTH} deep")));
            }
            walk(&entry.path(), &format!("{name}/"), depth + 1, found)?;
        } else if entry.path().is_file() {
            if found.len() >= MAX_FILES {
                return Err(std::io::Error::other(format!("it holds more than {MAX_FILES} files")));
            }
            found.push(name);
        }
    }
    Ok(())
}
