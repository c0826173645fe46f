//! The agent's own log as a file that is rotated by size and age (cli.md 4).
//!
//! Refuses to know: what a line says. Invariants: a line is never split over two files; rotated files are named by numbers that only
//! grow, whatever the clock does, so the oldest go first; what cannot be written is dropped, since it also went to stderr.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationPolicy {
    /// 0: no limit.
    pub bytes: u64,
    /// Zero: no limit.
    pub age: Duration,
    /// How many rotated files are kept; `None`: all.
    pub keep: Option<usize>,
}

pub struct LogFile {
    path: PathBuf,
    rotation: RotationPolicy,
    file: File,
    bytes: u64,
    opened: Instant,
}

impl LogFile {
    /// Opens the file and goes on where it ends. The directory is made if it is missing.
    pub fn open(path: &Path, rotation: RotationPolicy) -> io::Result<LogFile> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(LogFile { path: path.to_path_buf(), rotation, file, bytes, opened: Instant::now() })
    }

    fn is_due(&self, more: usize) -> bool {
        let RotationPolicy { bytes, age, .. } = self.rotation;
        let too_long = bytes > 0 && self.bytes + more as u64 > bytes;
        let too_old = !age.is_zero() && self.opened.elapsed() >= age;
        self.bytes > 0 && (too_long || too_old)
    }

    fn rotate(&mut self) -> io::Result<()> {
        let mut old = self.rotated()?;
        let number = old.last().map_or(0, |(n, _)| n + 1).max(wall_nanos());
        let name = self.rotated_name(number);
        fs::rename(&self.path, &name)?;
        old.push((number, name));
        self.file = append_to(&self.path)?;
        (self.bytes, self.opened) = (0, Instant::now());
        let surplus = self.rotation.keep.map_or(0, |keep| old.len().saturating_sub(keep));
        old.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
    }

    /// `drover.log` becomes `drover-NUMBER.log`.
    fn rotated_name(&self, number: u128) -> PathBuf {
        let (stem, extension) = self.parts();
        self.path.with_file_name(format!("{stem}-{number}.{extension}"))
    }

    fn parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.map(|p| p.to_string_lossy().into_owned());
        (
            text(self.path.file_stem()).unwrap_or_default(),
            text(self.path.extension()).unwrap_or_else(|| "log".into()),
        )
    }

    /// The oldest first.
    fn rotated(&self) -> io::Result<Vec<(u128, PathBuf)>> {
        let (stem, extension) = self.parts();
        let mut found = vec![];
        for entry in fs::read_dir(self.path.parent().unwrap_or(Path::new("/")))? {
            let path = entry?.path();
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let number = name
                .strip_prefix(&format!("{stem}-"))
                .and_then(|n| n.strip_suffix(&format!(".{extension}")))
                .and_then(|n| n.parse().ok());
            if let Some(number) = number {
                found.push((number, path));
            }
        }
        found.sort();
        Ok(found)
    }
}

impl Write for LogFile {
    /// Writes one line, whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // a directory that cannot be changed: the file grows on rather than that lines are lost
        if self.is_due(line.len()) && self.rotate().is_err() {
            self.opened = Instant::now();
        }
        if self.file.write_all(line).is_ok() {
            self.bytes += line.len() as u64;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

fn wall_nanos() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let dir = std::env::temp_dir().join(format!("drover-log-file-{name}-{}", std::process::id()));
            // left over from a test that was killed
            let _ = fs::remove_dir_all(&dir);
            Dir(dir)
        }

        /// The texts of all files, the current one last.
        fn texts(&self) -> Vec<String> {
            let mut names: Vec<PathBuf> = fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().path()).collect();
            names.sort_by_key(|p| (p.file_name() == Some("a.log".as_ref()), p.clone()));
            names.iter().map(|p| fs::read_to_string(p).unwrap()).collect()
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn log(dir: &Dir, bytes: u64, age: Duration, keep: Option<usize>) -> LogFile {
        LogFile::open(&dir.0.join("a.log"), RotationPolicy { bytes, age, keep }).unwrap()
    }

    #[test]
    fn a_file_is_rotated_by_size_and_the_oldest_go() {
        let dir = Dir::new("size");
        for (keep, expected) in [
            (None, &["one\n", "two\n", "a long line\n", "3\n4\n"][..]),
            (Some(1), &["a long line\n", "3\n4\n"]),
            (Some(0), &["3\n4\n"]),
        ] {
            let _ = fs::remove_dir_all(&dir.0);
            let mut file = log(&dir, 6, Duration::ZERO, keep);
            for line in ["one\n", "two\n", "a long line\n", "3\n"] {
                file.write_all(line.as_bytes()).unwrap();
            }
            drop(file);
            log(&dir, 6, Duration::ZERO, keep).write_all(b"4\n").unwrap();
            assert_eq!(dir.texts(), expected, "{keep:?}");
        }
    }

    #[test]
    fn a_file_is_rotated_by_age_but_never_empty() {
        let dir = Dir::new("age");
        let mut file = log(&dir, 0, Duration::from_nanos(1), None);
        for line in ["1\n", "2\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(dir.texts(), ["1\n", "2\n"]);
        let mut young = log(&dir, 0, Duration::from_secs(3600), None);
        young.write_all(b"3\n").unwrap();
        assert_eq!(dir.texts(), ["1\n", "2\n3\n"]);
    }

    #[test]
    fn log_file_numbers_grow_whatever_the_clock_says() {
        let dir = Dir::new("clock");
        let mut file = log(&dir, 1, Duration::ZERO, Some(2));
        let of_the_future = wall_nanos() * 2;
        fs::write(dir.0.join(format!("a-{of_the_future}.log")), "future\n").unwrap();
        fs::write(dir.0.join("a-b.log"), "another's\n").unwrap();
        for line in ["1\n", "2\n", "3\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(dir.texts(), ["1\n", "2\n", "another's\n", "3\n"]);
    }
}
