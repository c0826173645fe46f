//! A server whose disk is full (server.md 2.7, decision 0092): it goes on, with what is left of its reserve. One that leads asks the
//! others in turn to lead; one that follows takes entries while enough is left, and lags from then on.
//!
//! Refuses to know: how full a disk is, but for the store's own figure; and what the parts of a leader do about it.

use super::replica::Replica;
use model::time::{Mono, Span};
use raft::LogSpace;

/// A follower takes no entries while less than this is left of the reserve. A turn that began before
/// may still write 4 MiB of entries, what they change, and votes.
pub const MIN_RESERVE_BYTES: u64 = 6 << 20;
/// Longer than raft waits for a server to take over.
const TRANSFER_INTERVAL: Span = Span::seconds(5);

/// Whether this server's disk is full, and which voter its leader asks to lead then.
pub struct StoreSpace {
    /// There is room for a full turn's writes.
    pub is_free: bool,
    next: Mono,
    asked: usize,
}

impl Default for StoreSpace {
    fn default() -> StoreSpace {
        StoreSpace { is_free: true, next: Mono::default(), asked: 0 }
    }
}

impl StoreSpace {
    /// A leader without room asks one voter after the other to lead; one that has no room either does not take over.
    pub fn transfer_if_full(&mut self, replica: &mut Replica, now: Mono) {
        let raft = replica.raft();
        let Some(due) = self.next_transfer(raft) else { return };
        if now < due {
            return;
        }
        let others: Vec<u64> = raft.voters().into_iter().filter(|voter| *voter != raft.id()).collect();
        let to = others[self.asked % others.len()];
        (self.next, self.asked) = (now.after(TRANSFER_INTERVAL), self.asked + 1);
        tracing::warn!(target: "nomad", to, "this server's disk is full: another one is asked to lead; make room");
        if let Err(refused) = replica.transfer_leader(to) {
            tracing::debug!(target: "nomad", %refused, "leadership is not transferred");
        }
    }

    /// When a leader asks the next one, if there is any.
    pub fn next_transfer(&self, raft: &raft::RaftNode) -> Option<Mono> {
        (!self.is_free && raft.successor().is_some()).then_some(self.next)
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
