//! Snapshots, as raft sees them: an index, its term, and the members as of it. The rows travel outside of raft's messages: the
//! leader is told who needs some, streams them, and reports how that went; the follower installs what it has received.
//!
//! Refuses to know what a row is. Invariant: no message of this room holds a snapshot.

use super::RaftNode;
use super::members::Members;
use raft_engine::eraftpb::{Message, MessageType, Snapshot as EngineSnapshot};
use raft_engine::{ProgressState, SnapshotStatus, StateRole};
use std::fmt;

/// What the rows of a snapshot stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub index: u64,
    pub term: u64,
    pub members: Members,
}

/// A member that cannot be served from the log any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantsSnapshot {
    pub member: u64,
    /// Rows of an earlier index do not help.
    pub at_least: u64,
}

/// What becomes of rows that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The next step's batch replaces log and state by them.
    Taken,
    /// This replica has what they hold: to be thrown away.
    NotNeeded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallRefused {
    Leading,
    /// This replica is not among the snapshot's members.
    NotMember,
    /// Index and term that no snapshot has.
    Invalid,
}

/// Where every region begins: nothing is applied but who votes. Only a replica with members ever votes or campaigns.
pub const FOUNDING_INDEX: u64 = 1;
pub const FOUNDING_TERM: u64 = 1;
/// No peer is that many elections ahead.
pub const MAX_TERMS_AHEAD: u64 = 1 << 32;

impl Snapshot {
    pub fn founding(voters: impl IntoIterator<Item = u64>) -> Snapshot {
        Snapshot { index: FOUNDING_INDEX, term: FOUNDING_TERM, members: Members::of_voters(voters) }
    }

    pub(super) fn from_engine(snapshot: &EngineSnapshot) -> Snapshot {
        let metadata = &snapshot.metadata;
        let members = Members::from_engine(&metadata.conf_state);
        Snapshot { index: metadata.index, term: metadata.term, members }
    }

    pub(super) fn to_engine(&self) -> EngineSnapshot {
        let mut snapshot = EngineSnapshot::default();
        snapshot.metadata.index = self.index;
        snapshot.metadata.term = self.term;
        snapshot.metadata.conf_state = self.members.conf_state();
        snapshot
    }
}

impl RaftNode {
    /// What the state stands for as it is applied: to be sent before its rows.
    pub fn snapshot(&self) -> &Snapshot {
        self.raw.store().applied()
    }

    /// In the members' order. One stays on the list until it has caught up, or the outcome of its snapshot is reported.
    pub fn wants_snapshot(&self) -> Vec<WantsSnapshot> {
        if !self.is_leader() {
            return vec![];
        }
        let waiting = |id: &u64| {
            let progress = self.raw.raft.prs().get(*id)?;
            (progress.state == ProgressState::Snapshot)
                .then_some(WantsSnapshot { member: *id, at_least: progress.pending_snapshot })
        };
        let mut wanted: Vec<_> = self.members.voters.iter().filter_map(waiting).collect();
        wanted.extend(self.members.learners.iter().filter_map(waiting));
        wanted.sort_unstable_by_key(|w| w.member);
        wanted
    }

    /// The rows for `member` arrived, or did not: it is served from the log again, or asked for another snapshot.
    pub fn report_snapshot(&mut self, member: u64, arrived: bool) {
        self.assert_no_pending_step();
        let status = if arrived { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.raw.report_snapshot(member, status);
        self.settle();
    }

    /// Rows of `snapshot` are here, complete. What it answers is acknowledged only after the next step's batch.
    pub fn install(&mut self, snapshot: &Snapshot) -> Result<Installed, InstallRefused> {
        self.assert_no_pending_step();
        let raft = &mut self.raw.raft;
        let most = raft.term.saturating_add(MAX_TERMS_AHEAD);
        let terms = FOUNDING_TERM..=most;
        if snapshot.index < FOUNDING_INDEX || snapshot.index == u64::MAX || !terms.contains(&snapshot.term) {
            return Err(InstallRefused::Invalid);
        }
        if raft.state == StateRole::Leader {
            return Err(InstallRefused::Leading);
        }
        if !snapshot.members.contains(raft.id) {
            return Err(InstallRefused::NotMember);
        }
        if raft.term < snapshot.term {
            raft.become_follower(snapshot.term, 0);
        } else if raft.state != StateRole::Follower {
            // the engine would take another term for it
            raft.become_follower(raft.term, 0);
        }
        self.take_snapshot(snapshot.to_engine());
        self.settle();
        let taken = self.raw.raft.raft_log.unstable_snapshot().is_some();
        Ok(if taken { Installed::Taken } else { Installed::NotNeeded })
    }

    /// In the leader's name where one is known: it is answered, and goes on from there.
    fn take_snapshot(&mut self, snapshot: EngineSnapshot) {
        let raft = &mut self.raw.raft;
        if raft.leader_id == 0 {
            raft.restore(snapshot);
            return;
        }
        let mut message =
            Message { to: raft.id, from: raft.leader_id, term: raft.term, ..Message::default() };
        message.msg_type = MessageType::MsgSnapshot;
        message.snapshot = snapshot;
        let done = raft.step(message);
        assert!(done.is_ok(), "a follower takes a snapshot");
    }
}

impl fmt::Display for InstallRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InstallRefused::Leading => "this server leads: it needs nobody's snapshot",
            InstallRefused::NotMember => "the snapshot's members do not include this server: add it first",
            InstallRefused::Invalid => "no snapshot has such an index or term: send it again",
        })
    }
}

impl std::error::Error for InstallRefused {}
