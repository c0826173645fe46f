//! For tests: a disk that loses over a power cut what was not synced, and that fills up. Refuses to know what is stored on it.

use redb::StorageBackend;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Default)]
pub struct Bytes {
    pub written: Vec<u8>,
    pub synced: Vec<u8>,
    pub syncs: u64,
    pub full: bool,
}

/// A disk that keeps over a power cut what was synced and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Bytes>>);

impl Disk {
    pub fn new(bytes: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(Bytes { written: bytes.clone(), synced: bytes, syncs: 0, full: false })))
    }

    pub fn with<T>(&self, act: impl FnOnce(&mut Bytes) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
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

impl StorageBackend for Disk {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.with(|b| b.written.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let at = offset as usize;
        self.with(|b| out.copy_from_slice(&b.written[at..at + out.len()]));
        Ok(())
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.with(|b| b.written.resize(len as usize, 0));
        Ok(())
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.with(|b| (b.synced, b.syncs) = (b.written.clone(), b.syncs + 1));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        let at = offset as usize;
        (!self.with(|b| b.full)).then_some(()).ok_or(std::io::ErrorKind::StorageFull)?;
        self.with(|b| b.written[at..at + data.len()].copy_from_slice(data));
        Ok(())
    }
}
