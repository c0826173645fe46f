//! A server whose disk is full (server.md 2.7, decision 0092): it goes on, with what is left of its reserve. One that leads asks the
//! others in turn to lead; one that follows takes entries while enough is left, and lags from then on.
//!
//! Refuses to know: how full a disk is, but for the store's own figure; and what the parts of a leader do about it.

use super::Server;
use super::replica::Replica;
use model::time::{Mono, Span};
use raft::LogSpace;
use state::fault::Fault;

/// A follower takes no entries while less than this is left of the reserve. A turn may have taken 4 MiB of them before, and writes
/// what they come to, and votes.
pub const MIN_RESERVE_BYTES: u64 = 6 << 20;
/// Longer than raft waits for a server to take over.
const ASK_EVERY: Span = Span::seconds(5);

/// The voter that a leader without room asks to lead next, and when.
#[derive(Default)]
pub struct HandoverRequests {
    next: Mono,
    asked: usize,
}

impl Server {
    /// The disk is full, or has room again.
    pub(super) fn space_changed(&mut self, free: bool, now: Mono) -> Result<(), Fault> {
        self.space_free = free;
        self.with_leader(now, |leader, cx| leader.evals.follow_disk_space(cx))
    }

    /// Asks one voter after the other to lead; one that has no room either does not take over.
    pub(super) fn hand_over_on_full_disk(&mut self, now: Mono) {
        let Some(due) = self.next_handover() else { return };
        if now < due {
            return;
        }
        let raft = self.replica.raft();
        let others: Vec<u64> = raft.voters().into_iter().filter(|voter| *voter != raft.id()).collect();
        let to = others[self.handovers.asked % others.len()];
        self.handovers = HandoverRequests { next: now.after(ASK_EVERY), asked: self.handovers.asked + 1 };
        tracing::warn!(target: "nomad", to, "this server's disk is full: another one is asked to lead; make room");
        if let Err(refused) = self.replica.transfer_leader(to) {
            tracing::debug!(target: "nomad", %refused, "leadership is not transferred");
        }
    }

    /// When this leader asks the next one, if there is any.
    pub(super) fn next_handover(&self) -> Option<Mono> {
        let raft = self.replica.raft();
        (!self.space_free && raft.successor().is_some()).then_some(self.handovers.next)
    }
}

impl Replica {
    /// What the disk has room for. `space_free`: the reserve is whole.
    pub fn log_space(&self, space_free: bool) -> LogSpace {
        match self.free_bytes() {
            _ if space_free => LogSpace::Enough,
            Ok(free) if free >= MIN_RESERVE_BYTES => LogSpace::Little,
            _ => LogSpace::None,
        }
    }
}

#[cfg(test)]
mod tests;
