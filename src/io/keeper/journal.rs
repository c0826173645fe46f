//! The journal's file: appended to, synced, and replaced as a whole.
//!
//! Refuses to know: what the bytes mean. A failed append leaves the file as it was before.

use keeper::effects::Write as JournalWrite;
use keeper::journal::MAX_JOURNAL_BYTES;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Kept free behind the journal's end, so that a full disk does not reach it soon.
const RESERVE_BYTES: u64 = 64 << 10;

pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    must_be_replaced: bool,
}

impl Journal {
    /// The journal and what is in it.
    pub fn open(path: PathBuf) -> io::Result<(Self, Vec<u8>)> {
        let file = options().open(&path)?;
        let mut content = Vec::new();
        (&file).take(MAX_JOURNAL_BYTES as u64).read_to_end(&mut content)?;
        let journal = Journal { path, file, bytes: content.len() as u64, must_be_replaced: false };
        journal.reserve();
        Ok((journal, content))
    }

    /// Returns once what has to be durable is.
    pub fn write(&mut self, wanted: &JournalWrite) -> io::Result<()> {
        match wanted {
            JournalWrite::Nothing => Ok(()),
            JournalWrite::Append { bytes, sync } => self.append(bytes, *sync),
            JournalWrite::Replace(bytes) => self.replace(bytes),
        }
    }

    fn append(&mut self, bytes: &[u8], sync: bool) -> io::Result<()> {
        let written = (&self.file).write_all(bytes);
        let synced = written.and_then(|()| match sync {
            true => self.file.sync_data().inspect_err(|_| self.must_be_replaced = true),
            false => Ok(()),
        });
        match synced {
            Ok(()) => self.bytes += bytes.len() as u64,
            // Half an entry in the middle would cost the entries behind it; what cannot even be cut is skipped by reading.
            Err(_) => {
                if let Err(e) = self.file.set_len(self.bytes) {
                    super::log(format_args!("half an entry stays in the journal: {e}"));
                }
            }
        }
        synced
    }

    /// A sync has failed: what was written before it, unsynced, may be lost, and a later sync of the same file proves nothing.
    pub fn must_be_replaced(&self) -> bool {
        self.must_be_replaced
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let made = fs::remove_file(&beside);
        if let Err(e) = made
            && e.kind() != io::ErrorKind::NotFound
        {
            return Err(e);
        }
        let file = options().create_new(true).open(&beside)?;
        (&file).write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        sync_dir(&self.path)?;
        self.file = file;
        self.bytes = bytes.len() as u64;
        self.must_be_replaced = false;
        self.reserve();
        Ok(())
    }

    /// Best effort: file systems that cannot do it have no reserve.
    fn reserve(&self) {
        let reserved = fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.bytes, RESERVE_BYTES);
        if let Err(e) = reserved
            && e == rustix::io::Errno::NOSPC
        {
            super::log(format_args!("the disk is full: the journal has no reserve"));
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options
}

fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_and_replacements_are_what_is_read_back() {
        let dir = std::env::temp_dir().join(format!("drover-journal-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("journal");
        let (mut journal, content) = Journal::open(path.clone()).expect("open");
        assert!(content.is_empty());
        for (wanted, after) in [
            (JournalWrite::Append { bytes: b"abc".to_vec(), sync: true }, "abc"),
            (JournalWrite::Append { bytes: b"d".to_vec(), sync: false }, "abcd"),
            (JournalWrite::Nothing, "abcd"),
            (JournalWrite::Replace(b"x".to_vec()), "x"),
            (JournalWrite::Append { bytes: b"y".to_vec(), sync: true }, "xy"),
        ] {
            journal.write(&wanted).expect("write");
            assert_eq!(Journal::open(path.clone()).expect("open").1, after.as_bytes());
        }
        fs::remove_dir_all(&dir).expect("remove");
    }
}
