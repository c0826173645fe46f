//! The keeper's directory: its lock, its socket, and a name that tells it from every other.
//!
//! Refuses to know: what is said over the socket, and what the name is for.

use super::KeeperOptions;
use model::id::Uuid;
use rustix::fs::{AtFlags, FlockOperation, StatxFlags, flock, statx};
use rustix::io::retry_on_intr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// How long another keeper of the same directory may take to go.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

pub fn create(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// A name that no other directory has in this boot of the machine, not even a copy: device, inode and, because inodes are
/// reused, the time of its creation (where the file system knows). It is stored nowhere, so nothing can damage it.
pub fn name(dir: &Path) -> io::Result<String> {
    let (meta, dir) = (fs::metadata(dir)?, File::open(dir)?);
    let made = statx(&dir, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok();
    let made = made.filter(|s| s.stx_mask & StatxFlags::BTIME.bits() != 0);
    let made = made.map_or((0, 0), |s| (s.stx_btime.tv_sec, s.stx_btime.tv_nsec));
    Ok(format!("{:x}.{:x}.{:x}.{:x}", meta.dev(), meta.ino(), made.0, made.1))
}

/// Takes the lock: two keepers in one directory would start everything twice.
pub fn lock(dir: &Path) -> Result<File, String> {
    let path = dir.join("lock");
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = open.map_err(|e| format!("{}: {e}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(file);
    }
    // the other keeper may be about to exit: the kernel wakes who waits for a lock, but knows no deadline
    let (sender, held) = sync_channel(1);
    std::thread::spawn(move || {
        let locked = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
        // when nobody receives the file any more, it is closed, and so unlocked
        locked.is_ok().then(|| sender.send(file))
    });
    held.recv_timeout(LOCK_TIMEOUT).map_err(|_| {
        format!(
            "another keeper runs in {}: one data directory has one keeper (drover keeper status shows it)",
            dir.display()
        )
    })
}

pub fn listen(options: &KeeperOptions) -> Result<UnixListener, String> {
    let path = super::socket_path(&options.data_dir);
    let failed = |e: io::Error| format!("the socket {}: {e}", path.display());
    if let Some(fd) = options.listen_fd {
        // SAFETY: the keeper that executed us left this number to us.
        let listener = UnixListener::from(unsafe { OwnedFd::from_raw_fd(fd) });
        listener.set_nonblocking(true).map_err(failed)?;
        return Ok(listener);
    }
    // We hold the lock: a socket that is there is stale.
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    // A socket's name may be 108 bytes, a directory's more: bind through the directory's descriptor.
    let dir = File::open(super::dir(&options.data_dir)).map_err(failed)?;
    let short = format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&dir));
    let listener = UnixListener::bind(short).map_err(failed)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Connects to the keeper of `data_dir`, however long its path.
pub fn connect(data_dir: &Path) -> io::Result<UnixStream> {
    let dir = File::open(super::dir(data_dir))?;
    UnixStream::connect(format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&dir)))
}

pub fn boot_id() -> Result<Uuid, String> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(PATH).map_err(|e| format!("{PATH}: {e}"))?;
    text.trim().parse().map_err(|e| format!("{PATH}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_a_stable_name_of_its_own() {
        let base = std::env::temp_dir().join(format!("drover-home-{}", std::process::id()));
        let (one, other, moved) = (base.join("one"), base.join("other"), base.join("moved"));
        create(&one).expect("a directory");
        create(&other).expect("a directory");
        let named = name(&one).expect("a name");
        assert_ne!(named, name(&other).expect("a name"));
        fs::rename(&one, &moved).expect("moved");
        assert_eq!(named, name(&moved).expect("a name"));
        assert!(named.bytes().all(|b| b.is_ascii_hexdigit() || b == b'.'), "{named}");
        fs::remove_dir_all(&base).expect("removed");
    }
}
