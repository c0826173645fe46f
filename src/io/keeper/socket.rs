//! The keeper's socket: where it listens, and how to reach it, however long the data directory's path is.

use super::driver::Options;
use std::fs::{self, File};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

pub fn listen(options: &Options) -> Result<UnixListener, String> {
    let path = super::socket_path(&options.data_dir);
    let failed = |e: io::Error| format!("the socket {}: {e}", path.display());
    if let Some(fd) = options.listen_fd {
        // SAFETY: the keeper that executed us left this number to us.
        let listener = UnixListener::from(unsafe { OwnedFd::from_raw_fd(fd) });
        listener.set_nonblocking(true).map_err(failed)?;
        return Ok(listener);
    }
    // We hold the lock: whatever is there is nobody's.
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
