//! How far a replica's log reaches, and whether a member of a leader's group keeps up with it.
//!
//! Refuses to know what follows for a member that does not.

use super::{Position, RaftNode};
use raft_engine::ProgressState;
use raft_engine::eraftpb::{Message, MessageType};
use std::collections::{BTreeMap, VecDeque};

/// A member that lacks what the log held so many ticks ago is behind.
const BEHIND_TICKS: usize = 10;

/// Where a leader's log ended at its last ticks, the oldest first.
#[derive(Default)]
pub struct RecentEnds(VecDeque<u64>);

impl RaftNode {
    /// Where its log ends, and what of it is sure.
    pub fn position(&self) -> Position {
        let log = &self.raw.raft.raft_log;
        let (compacted, compacted_term) = self.raw.store().truncated();
        Position {
            last_index: log.last_index(),
            last_term: log.last_term(),
            commit: log.committed,
            compacted,
            compacted_term,
        }
    }

    /// The leader does not know that the member has what the log held a second ago.
    pub fn is_behind(&self, id: u64) -> bool {
        let end = self.recent_ends.0.front().copied().unwrap_or_default();
        let follows = |p: &raft_engine::Progress| p.state == ProgressState::Replicate && p.matched >= end;
        id != self.id() && self.raw.raft.prs().get(id).is_some_and(|progress| !follows(progress))
    }

    /// A leader's members but itself, ascending: where the log of each agrees with its own, and whether that is behind.
    pub fn followers(&self) -> impl Iterator<Item = (u64, u64, bool)> {
        let members: BTreeMap<u64, u64> = match self.is_leader() {
            true => self.raw.raft.prs().iter().map(|(id, progress)| (*id, progress.matched)).collect(),
            false => BTreeMap::new(),
        };
        let others = members.into_iter().filter(|(id, _)| *id != self.id());
        others.map(|(id, matched)| (id, matched, self.is_behind(id)))
    }

    /// The engine goes from probing to replicating with the next entry that is acknowledged. A member that lacks nothing gets none as
    /// long as nobody writes, and would not be promoted.
    pub(super) fn replicate_at_end(&mut self, id: u64) {
        let last = self.raw.raft.raft_log.last_index();
        if self.is_leader()
            && let Some(progress) = self.raw.raft.mut_prs().get_mut(id)
            && progress.state == ProgressState::Probe
            && progress.matched == last
        {
            progress.become_replicate();
        }
    }

    pub(super) fn note_end(&mut self) {
        if !self.is_leader() {
            return self.recent_ends.0.clear();
        }
        if self.recent_ends.0.len() == BEHIND_TICKS {
            self.recent_ends.0.pop_front();
        }
        self.recent_ends.0.push_back(self.raw.raft.raft_log.last_index());
    }
}

/// Whether a member says with the message that it follows the sender of what it answers.
pub fn acknowledges(message: &Message) -> bool {
    match message.msg_type {
        MessageType::MsgAppendResponse => !message.reject,
        MessageType::MsgHeartbeatResponse => true,
        _ => false,
    }
}
