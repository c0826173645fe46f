//! A store's file. redb gives up for good on the first error of its storage, so a full disk must never reach it: a reserve
//! of allocated space lies beside the file, and is released as soon as the disk is full. From then on the owner must
//! write nothing until the reserve is allocated again.

use redb::StorageBackend;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The size of the reserve: more than one turn can write.
pub const RESERVE_BYTES: u64 = 8 << 20;

/// What has to be free besides a released reserve before it is allocated again. Without this margin it would at once take back the
/// space that it has just released, and the disk would be full again.
const REFILL_MARGIN_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub struct Disk {
    file: File,
    reserve: Arc<Reserve>,
    pending_create: PendingCreate,
}

/// A new store's file has another name until the store in it is whole: a file under its own name was whole once, and is
/// damaged if it is not now.
#[derive(Clone, Debug)]
#[must_use = "a store that is not born is made anew by the next start"]
pub struct PendingCreate(Option<(PathBuf, PathBuf)>);

impl PendingCreate {
    /// The store is whole: from now on it is never made anew.
    pub fn complete(self) -> io::Result<()> {
        let Some((from, to)) = self.0 else { return Ok(()) };
        fs::rename(from, &to)?;
        match to.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Space kept for the turn that finds the disk full.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    kept: bool,
    /// The reserve was released, or could never be allocated: no new writes.
    spent: AtomicBool,
    /// A quota is exceeded: the free space of the file system does not show that.
    by_quota: AtomicBool,
    lock: Mutex<()>,
}

impl Disk {
    /// Opens or creates the store's file (0600) and, if `keep_reserve`, its reserve; a store that is thrown away needs
    /// none. A full disk is no error: the store opens for reading what it has, and `Reserve::is_exhausted` tells.
    pub fn open(path: &Path, keep_reserve: bool) -> io::Result<Disk> {
        let (file, pending_create) = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) if file.metadata()?.len() == 0 => {
                return Err(io::Error::other(
                    "is empty: restore it, or remove it to begin anew without what it held",
                ));
            }
            Ok(file) => (file, PendingCreate(None)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let unborn = path.with_extension("new");
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(true).mode(0o600);
                (options.open(&unborn)?, PendingCreate(Some((unborn, path.to_path_buf()))))
            }
            Err(e) => return Err(e),
        };
        Ok(Disk { file, reserve: Reserve::beside(path, keep_reserve), pending_create })
    }

    /// Opens or creates the two slots of a server's state in `dir`, as `open` does with one file. A slot that does not count is
    /// empty; which one that is, the log beside them says.
    pub fn open_slots(dir: &Path, keep_reserve: bool) -> io::Result<[Disk; 2]> {
        let draft = dir.join("state.redb");
        if draft.exists() {
            return Err(io::Error::other(
                "state.redb is of a draft of drover: use the build that wrote it, or remove this directory to begin anew \
                 without what it held",
            ));
        }
        let (first, second) = (dir.join("state.0"), dir.join("state.1"));
        let open = match fs::metadata(&second) {
            // a store that was never whole has nothing there
            Ok(found) if found.len() > 0 => Disk::open_existing(&first, keep_reserve),
            _ => Disk::open(&first, keep_reserve),
        };
        let first = open.map_err(|e| io::Error::new(e.kind(), format!("state.0: {e}")))?;
        let second = first.sibling("state.1")?;
        Ok([first, second])
    }

    /// Opens a file that may be empty, but must exist.
    fn open_existing(path: &Path, keep_reserve: bool) -> io::Result<Disk> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other("is missing beside state.1: restore the whole directory")
            }
            _ => e,
        })?;
        let reserve = Reserve::beside(path, keep_reserve);
        Ok(Disk { file, reserve, pending_create: PendingCreate(None) })
    }

    /// A file beside the store that belongs to it and shares its reserve; made anew with it, and never without it.
    pub fn sibling(&self, name: &str) -> io::Result<Disk> {
        let path = self.reserve.path.with_file_name(name);
        let mut options = OpenOptions::new();
        let is_new = self.pending_create.0.is_some();
        options.read(true).write(true).create(is_new).truncate(is_new).mode(0o600);
        let file = options.open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!(
                "{name} is missing beside it: restore both, or remove the store to begin anew without what it held"
            )),
            _ => io::Error::other(format!("{name} beside it: {e}")),
        })?;
        Ok(Disk { file, reserve: self.reserve.clone(), pending_create: PendingCreate(None) })
    }

    /// The creation to be completed once the store on this disk is open.
    pub fn pending_create(&self) -> PendingCreate {
        self.pending_create.clone()
    }

    pub fn reserve(&self) -> Arc<Reserve> {
        self.reserve.clone()
    }

    /// Runs `op` again after giving up the reserve, if the disk was full.
    fn with_reserve<T>(&self, op: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match op() {
            Err(e) if is_full(&e) && self.reserve.release_for(&e) => op(),
            result => result,
        }
    }

    /// Runs `sync` once. Where the disk is found full only now (quotas, thin volumes), the kernel may have dropped what was to be
    /// written, and call a second sync good: the process has to end, and the next one finds the room that is given up here.
    fn synced(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        sync().inspect_err(|e| {
            if is_full(e) {
                self.reserve.release_for(e);
            }
        })
    }
}

fn is_full(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// How many bytes the disk under `dir` still takes.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(dir)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

impl Reserve {
    fn beside(path: &Path, kept: bool) -> Arc<Reserve> {
        let path = path.with_extension("reserve");
        let (spent, by_quota) = (AtomicBool::new(kept), AtomicBool::new(false));
        let reserve = Reserve { path, kept, spent, by_quota, lock: Mutex::new(()) };
        reserve.reallocate(0);
        Arc::new(reserve)
    }

    pub fn is_exhausted(&self) -> bool {
        self.spent.load(Ordering::Acquire)
    }

    /// Tries to make a spent reserve whole, once there is some room besides it; true when it is whole.
    pub fn refill(&self) -> bool {
        // trying takes all that is left, for a moment in which others find nothing
        let has_room = |dir| free_bytes(dir).is_ok_and(|free| free >= RESERVE_BYTES + REFILL_MARGIN_BYTES);
        if self.path.parent().is_some_and(has_room) {
            self.reallocate(REFILL_MARGIN_BYTES);
        }
        !self.is_exhausted()
    }

    /// How many bytes the disk still takes, as far as that is known.
    pub fn free_bytes(&self) -> io::Result<u64> {
        match self.path.parent() {
            Some(dir) if !(self.is_exhausted() && self.by_quota.load(Ordering::Acquire)) => free_bytes(dir),
            _ => Ok(0),
        }
    }

    fn reallocate(&self, margin_bytes: u64) -> bool {
        let Ok(_guard) = self.lock.lock() else { return false };
        if !self.is_exhausted() {
            return true;
        }
        match self.allocate(margin_bytes) {
            Ok(()) => self.spent.store(false, Ordering::Release),
            Err(error) => {
                tracing::debug!(path = %self.path.display(), %error, "no room for the reserve");
                // a partial reserve would only take the space that others need
                let _ = fs::remove_file(&self.path);
            }
        }
        !self.is_exhausted()
    }

    fn allocate(&self, margin_bytes: u64) -> io::Result<()> {
        let wanted = RESERVE_BYTES + margin_bytes;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, wanted) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => {
                // a file system that cannot reserve: zeros are the next best
                for at in (0..wanted).step_by(1 << 16) {
                    file.write_all_at(&[0; 1 << 16], at)?;
                }
            }
            Err(e) => return Err(e.into()),
        }
        file.set_len(RESERVE_BYTES)
    }

    fn release_for(&self, error: &io::Error) -> bool {
        self.by_quota.store(error.kind() == io::ErrorKind::QuotaExceeded, Ordering::Release);
        self.release()
    }

    /// True when there was a reserve to give up.
    pub fn release(&self) -> bool {
        let Ok(_guard) = self.lock.lock() else { return false };
        if self.is_exhausted() || !self.kept {
            return false;
        }
        self.spent.store(true, Ordering::Release);
        tracing::error!(path = %self.path.display(), "the disk is full: no new writes until there is room again");
        fs::remove_file(&self.path).is_ok()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_reserve(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.synced(|| self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_reserve(|| self.file.write_all_at(data, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_rpc::scratch::Scratch;
    use std::cell::Cell;

    fn opened(name: &str) -> (Scratch, Disk) {
        let scratch = Scratch::new(name, &[""]);
        let disk = Disk::open(&scratch.path().join("store"), true).expect("it opens");
        assert!(!disk.reserve().is_exhausted(), "these tests need {RESERVE_BYTES} bytes there");
        (scratch, disk)
    }

    #[test]
    fn a_write_that_finds_the_disk_full_is_tried_again_once() {
        let (_scratch, disk) = opened("full-write");
        let tries = Cell::new(0);
        let write = || {
            tries.set(tries.get() + 1);
            if tries.get() == 1 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        };
        disk.with_reserve(write).expect("the reserve was given up for it");
        let reserve = disk.reserve();
        assert_eq!((tries.get(), reserve.is_exhausted(), reserve.path.exists()), (2, true, false));
        assert!(reserve.refill() && reserve.path.exists());
        assert_eq!(reserve.path.metadata().expect("it is there").len(), RESERVE_BYTES);
    }

    /// What it was to make durable may be lost, and the kernel calls the next one good.
    #[test]
    fn a_sync_that_finds_the_disk_full_fails_for_good() {
        let (_scratch, disk) = opened("full-sync");
        let failed = disk.synced(|| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(failed.map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
        assert!(disk.reserve().is_exhausted(), "who comes next finds room");
    }

    #[test]
    fn an_exceeded_quota_leaves_no_room() {
        let (_scratch, disk) = opened("full-quota");
        let reserve = disk.reserve();
        assert!(reserve.free_bytes().expect("it is told") > 0);
        let write = || Err::<(), _>(io::ErrorKind::QuotaExceeded.into());
        assert!(disk.with_reserve(write).is_err());
        assert_eq!(reserve.free_bytes().expect("it is told"), 0, "whatever the file system has");
        assert!(reserve.refill() && reserve.free_bytes().expect("it is told") > 0);
    }
}
