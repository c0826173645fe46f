//! epoll with typed tokens.
//!
//! Refuses to know: what is done about an event.

use model::time::Span;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::{self, Errno};
use std::os::fd::{AsFd, OwnedFd};

/// What is ready. The numbers name clients and the event loop's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyToken {
    Listener,
    Signals,
    Agent,
    Client(u32),
    /// A process that is not our child ended.
    Process(u32),
    /// The released process executed, or could not.
    Exec(u32),
    Stdout(u32),
    Stderr(u32),
}

impl ReadyToken {
    fn to_u64(self) -> u64 {
        let (kind, number) = match self {
            ReadyToken::Listener => (0, 0),
            ReadyToken::Signals => (1, 0),
            ReadyToken::Agent => (2, 0),
            ReadyToken::Client(n) => (3, n),
            ReadyToken::Process(n) => (4, n),
            ReadyToken::Exec(n) => (5, n),
            ReadyToken::Stdout(n) => (6, n),
            ReadyToken::Stderr(n) => (7, n),
        };
        kind << 32 | u64::from(number)
    }

    fn of(data: u64) -> ReadyToken {
        let number = data as u32;
        match data >> 32 {
            0 => ReadyToken::Listener,
            1 => ReadyToken::Signals,
            2 => ReadyToken::Agent,
            3 => ReadyToken::Client(number),
            4 => ReadyToken::Process(number),
            5 => ReadyToken::Exec(number),
            6 => ReadyToken::Stdout(number),
            _ => ReadyToken::Stderr(number),
        }
    }
}

pub struct Epoll {
    fd: OwnedFd,
    buffer: Vec<epoll::Event>,
}

/// The most events of one turn.
const MAX_EVENTS: usize = 128;

impl Epoll {
    pub fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Epoll { fd, buffer: Vec::with_capacity(MAX_EVENTS) })
    }

    pub fn watch(&self, fd: impl AsFd, token: ReadyToken) -> io::Result<()> {
        epoll::add(&self.fd, fd, epoll::EventData::new_u64(token.to_u64()), epoll::EventFlags::IN)
    }

    /// Stops watching `fd`; call it before `fd` is closed. Closing alone does not do it as long as a child that was forked meanwhile and has
    /// not yet executed its command holds a copy: epoll would report the copy ready again and again, with no reader for it.
    pub fn unwatch(&self, fd: impl AsFd) {
        // Not watched, because watching it failed: then there is nothing to forget.
        let _ = epoll::delete(&self.fd, fd);
    }

    /// Also tells when `fd` can be written, if `writable`.
    pub fn watch_writable(&self, fd: impl AsFd, token: ReadyToken, writable: bool) -> io::Result<()> {
        let flags =
            if writable { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token.to_u64()), flags)
    }

    /// `None`: as long as it takes.
    pub fn wait(&mut self, timeout: Option<Span>) -> io::Result<Vec<ReadyToken>> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.0.max(0) / 1_000_000_000,
            tv_nsec: (t.0.max(0) % 1_000_000_000) as _,
        });
        self.buffer.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut self.buffer), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        Ok(self.buffer.iter().map(|e| ReadyToken::of(e.data.u64())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_tokens_round_trip() {
        let all = [
            ReadyToken::Listener,
            ReadyToken::Signals,
            ReadyToken::Agent,
            ReadyToken::Client(7),
            ReadyToken::Process(u32::MAX),
        ];
        for token in
            all.into_iter().chain([ReadyToken::Exec(1), ReadyToken::Stdout(2), ReadyToken::Stderr(3)])
        {
            assert_eq!(ReadyToken::of(token.to_u64()), token);
        }
    }
}
