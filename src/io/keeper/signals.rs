//! Signals as something to read, and what a child must get back of them.
//!
//! Refuses to know: what a signal means to the keeper.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    /// Some child changed its state.
    Child,
    /// Exit; the tasks keep running.
    Terminate,
    /// Replace the binary.
    Upgrade,
}

/// Blocks the keeper's signals and makes them readable.
pub struct KeeperSignals {
    fd: File,
}

impl KeeperSignals {
    pub fn new() -> io::Result<Self> {
        // SAFETY: `set` is initialised by sigemptyset before it is read; all pointers are to this live local; sigaddset
        // gets valid signal numbers; signalfd returns a descriptor that nobody else owns.
        unsafe {
            let mut set = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR2] {
                libc::sigaddset(&mut set, signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(KeeperSignals { fd: File::from_raw_fd(fd) }),
            }
        }
    }

    /// The signals since the last call. SIGHUP, which a closing terminal sends, is taken and means nothing.
    pub fn read(&mut self) -> Vec<SignalKind> {
        const INFO_BYTES: usize = size_of::<libc::signalfd_siginfo>();
        let mut told = Vec::new();
        let mut buffer = [0u8; 16 * INFO_BYTES];
        let read = self.fd.read(&mut buffer).unwrap_or(0);
        for info in buffer[..read].chunks_exact(INFO_BYTES) {
            // The signal's number is the first field (signalfd(2)).
            match i32::from_ne_bytes([info[0], info[1], info[2], info[3]]) {
                libc::SIGCHLD => told.push(SignalKind::Child),
                libc::SIGTERM | libc::SIGINT => told.push(SignalKind::Terminate),
                libc::SIGUSR2 => told.push(SignalKind::Upgrade),
                _ => {}
            }
        }
        told
    }
}

impl AsFd for KeeperSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// In a fresh child: every signal as a new process expects it, and none blocked.
///
/// # Safety
/// Only between fork and exec: it drops every handler of the process. Calls async-signal-safe functions only.
pub unsafe fn reset_in_child() {
    const LAST_SIGNAL: i32 = 64;
    // SAFETY: signal and sigprocmask are async-signal-safe; `none` is initialised before it is read. Numbers that cannot
    // be changed (SIGKILL, SIGSTOP, those of the C library) fail harmlessly.
    unsafe {
        for signal in 1..=LAST_SIGNAL {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}
