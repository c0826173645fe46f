//! epoll with typed tokens.
//!
//! Refuses to know: what is done about an event.

use model::time::Span;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::{self, Errno};
use std::os::fd::{AsFd, OwnedFd};

/// What is ready. The numbers name clients and the driver's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
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

impl Token {
    fn to_u64(self) -> u64 {
        let (kind, number) = match self {
            Token::Listener => (0, 0),
            Token::Signals => (1, 0),
            Token::Agent => (2, 0),
            Token::Client(n) => (3, n),
            Token::Process(n) => (4, n),
            Token::Exec(n) => (5, n),
            Token::Stdout(n) => (6, n),
            Token::Stderr(n) => (7, n),
        };
        kind << 32 | u64::from(number)
    }

    fn of(data: u64) -> Token {
        let number = data as u32;
        match data >> 32 {
            0 => Token::Listener,
            1 => Token::Signals,
            2 => Token::Agent,
            3 => Token::Client(number),
            4 => Token::Process(number),
            5 => Token::Exec(number),
            6 => Token::Stdout(number),
            _ => Token::Stderr(number),
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

    pub fn watch(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        epoll::add(&self.fd, fd, epoll::EventData::new_u64(token.to_u64()), epoll::EventFlags::IN)
    }

    /// Stops watching `fd`; call it before `fd` is closed. Closing alone does not do it as long as a child that was forked meanwhile and has
    /// not yet executed its command holds a copy: the copy would be told ready again and again, and nobody could answer it.
    pub fn unwatch(&self, fd: impl AsFd) {
        // Not watched, because watching it failed: then there is nothing to forget.
        let _ = epoll::delete(&self.fd, fd);
    }

    /// Also tells when `fd` can be written, if `writable`.
    pub fn watch_writable(&self, fd: impl AsFd, token: Token, writable: bool) -> io::Result<()> {
        let flags =
            if writable { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token.to_u64()), flags)
    }

    /// `None`: as long as it takes.
    pub fn wait(&mut self, timeout: Option<Span>) -> io::Result<Vec<Token>> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.0.max(0) / 1_000_000_000,
            tv_nsec: (t.0.max(0) % 1_000_000_000) as _,
        });
        self.buffer.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut self.buffer), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        Ok(self.buffer.iter().map(|e| Token::of(e.data.u64())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_tokens_round_trip() {
        let all = [Token::Listener, Token::Signals, Token::Agent, Token::Client(7), Token::Process(u32::MAX)];
        for token in all.into_iter().chain([Token::Exec(1), Token::Stdout(2), Token::Stderr(3)]) {
            assert_eq!(Token::of(token.to_u64()), token);
        }
    }
}
