//! A snapshot on its way in, as the follower sees it: it asks for one chunk after the other, and again for one that does not come.
//!
//! Refuses to know: what is in a chunk, and where it is put. Invariant: only the chunk that was asked for is taken, of the
//! transfer that it was asked of, and once.

use model::time::{Mono, Span};
use wire::snapshot::SnapshotMessage;

/// No chunk for so long: the sender has gone.
pub const IDLE_TIMEOUT: Span = Span::seconds(90);
/// A chunk takes some eight seconds on a line of 64 kbit/s.
const PULL_RETRY: Span = Span::seconds(20);

#[derive(Debug)]
pub struct Receiver {
    from: u64,
    transfer: u64,
    snapshot: raft::Snapshot,
    /// The chunk that is awaited.
    next: u64,
    asked: Mono,
    last_contact: Mono,
}

/// What has to be done because time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullDue {
    Nothing,
    PullAgain,
    GiveUp,
}

impl Receiver {
    pub fn new((from, transfer): (u64, u64), snapshot: raft::Snapshot, now: Mono) -> Receiver {
        Receiver { from, transfer, snapshot, next: 0, asked: now, last_contact: now }
    }

    pub fn from(&self) -> u64 {
        self.from
    }

    pub fn transfer(&self) -> u64 {
        self.transfer
    }

    pub fn snapshot(&self) -> &raft::Snapshot {
        &self.snapshot
    }

    pub fn is_of(&self, (from, transfer): (u64, u64)) -> bool {
        (self.from, self.transfer) == (from, transfer)
    }

    pub fn awaits(&self, sender: (u64, u64), chunk: u64) -> bool {
        self.is_of(sender) && self.next == chunk
    }

    /// The chunk that was awaited is here.
    pub fn arrived(&mut self, now: Mono) {
        self.next += 1;
        (self.asked, self.last_contact) = (now, now);
    }

    pub fn pull(&self) -> SnapshotMessage {
        SnapshotMessage::Pull { transfer: self.transfer, chunk: self.next }
    }

    pub fn due(&mut self, now: Mono) -> PullDue {
        if now >= self.last_contact.after(IDLE_TIMEOUT) {
            return PullDue::GiveUp;
        }
        if now >= self.asked.after(PULL_RETRY) {
            self.asked = now;
            return PullDue::PullAgain;
        }
        PullDue::Nothing
    }

    pub fn deadline(&self) -> Mono {
        self.last_contact.after(IDLE_TIMEOUT).min(self.asked.after(PULL_RETRY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Mono = Mono(1);
    const SENDER: (u64, u64) = (3, 7);

    fn receiver() -> Receiver {
        Receiver::new(SENDER, raft::Snapshot::founding([1, 2, 3]), NOW)
    }

    #[test]
    fn only_the_awaited_chunk_of_its_own_transfer_is_taken() {
        let mut receiver = receiver();
        receiver.arrived(NOW);
        assert!(receiver.awaits(SENDER, 1));
        for (sender, chunk) in [(SENDER, 0), (SENDER, 2), ((3, 8), 1), ((2, 7), 1)] {
            assert!(!receiver.awaits(sender, chunk), "chunk {chunk} of {sender:?}");
        }
        assert_eq!(receiver.pull(), SnapshotMessage::Pull { transfer: 7, chunk: 1 });
    }

    #[test]
    fn a_chunk_that_does_not_come_is_asked_for_again() {
        let mut receiver = receiver();
        let mut now = receiver.deadline();
        assert_eq!(now, NOW.after(PULL_RETRY));
        for _ in 0..4 {
            assert_eq!((receiver.due(now), receiver.due(now)), (PullDue::PullAgain, PullDue::Nothing));
            now = receiver.deadline();
        }
        assert_eq!((now, receiver.due(now)), (NOW.after(IDLE_TIMEOUT), PullDue::GiveUp));
    }

    #[test]
    fn each_chunk_restarts_the_timeout() {
        let mut receiver = receiver();
        let mut now = NOW;
        for _ in 0..20 {
            now = now.after(Span::seconds(19));
            assert_eq!(receiver.due(now), PullDue::Nothing);
            receiver.arrived(now);
        }
        assert_eq!(receiver.deadline(), now.after(PULL_RETRY));
    }
}
