//! Replacing the binary of a running keeper: same process, same children, same listening socket.
//!
//! Refuses to know: state. That goes through the journal, as after any other end of a keeper.

use super::KeeperOptions;
use super::process::open_descriptors;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Everything that was open when this process began, except what the options name. Held until the tasks' FIFOs are open
/// again (the old binary's ends are among them, and keep what the pipes hold), then dropped: tasks inherit none of it.
pub fn inherited(options: &KeeperOptions) -> Vec<OwnedFd> {
    let kept = [options.dev_fd, options.listen_fd];
    let mut held = Vec::new();
    for fd in open_descriptors().into_iter().filter(|fd| *fd > 2) {
        // SAFETY: the number was open when listed; a number that is no longer open makes fcntl fail, and nothing more.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let open = fcntl_setfd(borrowed, FdFlags::CLOEXEC).is_ok();
        if open && !kept.contains(&Some(fd)) {
            // SAFETY: this runs first in the process, which owns nothing yet: no other owner of the number exists.
            held.push(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    held
}

/// Executes `exe` in place. Returns only the reason why that failed.
pub fn replace(
    exe: &Path,
    options: &KeeperOptions,
    listener: &UnixListener,
    agent: Option<&File>,
) -> io::Error {
    let mut command = Command::new(exe);
    command.args(["keeper", "run", "-data-dir"]).arg(&options.data_dir);
    command.arg("-listen-fd").arg(listener.as_raw_fd().to_string());
    if let Some(agent) = agent {
        command.arg("-dev-fd").arg(agent.as_raw_fd().to_string());
    }
    let passed = fifos().into_iter().chain([listener.as_raw_fd()]).chain(agent.map(AsRawFd::as_raw_fd));
    let passed: Vec<RawFd> = passed.collect();
    set_inherited(&passed, true);
    let error = command.exec();
    set_inherited(&passed, false);
    error
}

/// The pipes among our descriptors: a task that ends meanwhile must not take its last output with it.
fn fifos() -> Vec<RawFd> {
    let is_fifo = |fd: &RawFd| {
        // SAFETY: only fstat is called on it; a number that is no longer open makes that fail, and nothing more.
        let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
        rustix::fs::fstat(fd.as_fd())
            .is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode) == rustix::fs::FileType::Fifo)
    };
    open_descriptors().into_iter().filter(|fd| *fd > 2).filter(is_fifo).collect()
}

fn set_inherited(fds: &[RawFd], inherited: bool) {
    let flags = if inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
    for fd in fds {
        // SAFETY: only flags are changed; a number that is no longer open makes that fail, and nothing more.
        let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
        // a descriptor that is closed by now has no flags to set
        let _ = fcntl_setfd(fd, flags);
    }
}
