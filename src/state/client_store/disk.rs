//! For tests: a disk that loses over a power cut what was not synced, and that fills up. Refuses to know what is stored on it.

use crate::wal::WalFile;
use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The two files of a log.
type Files = [Vec<u8>; 2];

#[derive(Debug, Default)]
pub struct Bytes {
    pub written: Files,
    pub synced: Files,
    pub syncs: u64,
    pub full: bool,
    /// The next sync fails.
    pub fails: bool,
}

/// A disk that keeps over a power cut what was synced and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Bytes>>);

#[derive(Debug)]
struct DiskFile {
    disk: Disk,
    file: usize,
}

impl Disk {
    pub fn new(files: Files) -> Disk {
        let bytes = Bytes { written: files.clone(), synced: files, ..Bytes::default() };
        Disk(Arc::new(Mutex::new(bytes)))
    }

    pub fn with<T>(&self, act: impl FnOnce(&mut Bytes) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// For a store.
    pub fn files(&self) -> [WalFile; 2] {
        [0, 1].map(|file| Box::new(DiskFile { disk: self.clone(), file }) as WalFile)
    }

    pub fn syncs(&self) -> u64 {
        self.with(|b| b.syncs)
    }

    pub fn fill(&self, full: bool) {
        self.with(|b| b.full = full);
    }

    pub fn after_power_cut(&self) -> Disk {
        Disk::new(self.with(|b| b.synced.clone()))
    }
}

impl StorageBackend for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.with(|b| b.written[self.file].len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = offset as usize;
        self.disk.with(|b| out.copy_from_slice(&b.written[self.file][at..at + out.len()]));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.with(|b| b.written[self.file].resize(len as usize, 0));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.with(|b| {
            if std::mem::take(&mut b.fails) {
                return Err(io::Error::other("EIO"));
            }
            b.synced[self.file].clone_from(&b.written[self.file]);
            b.syncs += 1;
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = offset as usize;
        self.disk.with(|b| {
            (!b.full).then_some(()).ok_or(io::ErrorKind::StorageFull)?;
            b.written[self.file][at..at + data.len()].copy_from_slice(data);
            Ok(())
        })
    }
}
