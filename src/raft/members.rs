//! The group's members, and how they change: a learner comes, is promoted when it has caught up, or a member goes. One
//! change at a time, and only after the leader has committed in its own term. Leadership is transferred here, too.
//!
//! Refuses to know what a member is besides a number, and what the bytes say that a change carries.

use super::record::{self, Damaged};
use super::{MAX_ENTRY_BYTES, RaftNode};
use raft_engine::eraftpb::{ConfChangeType, ConfState};
use raft_engine::{ProgressState, Raft, Storage};
use std::fmt;

/// Voters and learners together.
pub const MAX_MEMBERS: usize = 16;
/// A learner that lacks more entries than this is not promoted.
pub const PROMOTION_LAG_ENTRIES: u64 = 64;

/// The members as of some index of the log. Sorted, without repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    pub voters: Vec<u64>,
    pub learners: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// Gets the log and does not vote.
    AddLearner(u64),
    /// A learner becomes a voter.
    Promote(u64),
    /// A voter or a learner is no member any more, for good. A number is not used again.
    Remove(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    NotLeader,
    /// The leader has not committed in its own term, or an earlier change is not applied.
    Pending,
    Transferring,
    InvalidId,
    AlreadyMember(u64),
    NotMember(u64),
    NotLearner(u64),
    Behind {
        id: u64,
        entries: u64,
    },
    OwnRemoval,
    LastVoter,
    TooManyMembers,
    /// The log still holds its first entry: a new member would get it without the members of the beginning.
    NothingCompacted,
    TooLarge {
        bytes: usize,
    },
    TooMuchUncommitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferRefused {
    NotLeader,
    NotVoter(u64),
    ToItself,
    Transferring { to: u64 },
}

impl Members {
    pub fn of_voters(ids: impl IntoIterator<Item = u64>) -> Members {
        Members { voters: sorted(ids.into_iter().collect()), learners: vec![] }
    }

    pub fn is_empty(&self) -> bool {
        self.voters.is_empty() && self.learners.is_empty()
    }

    pub fn contains(&self, id: u64) -> bool {
        self.voters.contains(&id) || self.learners.contains(&id)
    }

    /// As it is stored.
    pub fn encode(&self) -> Vec<u8> {
        record::encoded(&self.conf_state())
    }

    pub fn decode(bytes: &[u8]) -> Result<Members, Damaged> {
        let stored: ConfState = record::decoded("members", bytes)?;
        let joint =
            !stored.voters_outgoing.is_empty() || !stored.learners_next.is_empty() || stored.auto_leave;
        let members = Members::from_engine(&stored);
        let count = members.voters.len() + members.learners.len();
        let twice = members.voters.iter().any(|id| members.learners.contains(id));
        if joint || twice || members.contains(0) || count != stored.voters.len() + stored.learners.len() {
            return Err(Damaged("members: a member is listed twice, or is none".into()));
        }
        Ok(members)
    }

    pub(super) fn from_engine(conf_state: &ConfState) -> Members {
        Members { voters: sorted(conf_state.voters.clone()), learners: sorted(conf_state.learners.clone()) }
    }

    pub(super) fn conf_state(&self) -> ConfState {
        ConfState::from((self.voters.clone(), self.learners.clone()))
    }
}

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl RaftNode {
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The disks of a majority of the voters say that everything up to `index` is committed: of a change of members there, no
    /// restart makes them forget. Only a leader knows.
    pub fn is_stored_by_majority(&self, index: u64) -> bool {
        let own = self.id();
        let knows = |id: &u64| match self.raw.raft.prs().get(*id) {
            _ if *id == own => self.written.commit >= index,
            Some(progress) => progress.committed_index >= index,
            None => false,
        };
        let voters = &self.members.voters;
        self.is_leader() && voters.iter().filter(|id| knows(id)).count() > voters.len() / 2
    }

    /// Appends a change of membership that carries `context`; its index.
    pub fn propose_change(
        &mut self,
        change: MembershipChange,
        context: Vec<u8>,
    ) -> Result<u64, ChangeRefused> {
        self.assert_no_pending_step();
        if context.len() > MAX_ENTRY_BYTES {
            return Err(ChangeRefused::TooLarge { bytes: context.len() });
        }
        self.check_leader_may_change()?;
        let (id, change_type) = self.check_change(change)?;
        let change = record::encode_change(id, change_type, context);
        // the engine's own refusals are checked above, but for the bytes that are not committed yet
        self.raw.propose_conf_change(vec![], change).map_err(|_| ChangeRefused::TooMuchUncommitted)?;
        let index = self.raw.raft.raft_log.last_index();
        assert_eq!(self.raw.raft.pending_conf_index, index, "the engine took the change as one");
        Ok(index)
    }

    fn check_leader_may_change(&self) -> Result<(), ChangeRefused> {
        let raft = &self.raw.raft;
        if !self.is_leader() {
            Err(ChangeRefused::NotLeader)
        } else if raft.lead_transferee.is_some() {
            Err(ChangeRefused::Transferring)
        } else if !raft.commit_to_current_term() || raft.has_pending_conf() {
            Err(ChangeRefused::Pending)
        } else {
            Ok(())
        }
    }

    fn check_change(&self, change: MembershipChange) -> Result<(u64, ConfChangeType), ChangeRefused> {
        let members = &self.members;
        match change {
            MembershipChange::AddLearner(0) => Err(ChangeRefused::InvalidId),
            MembershipChange::AddLearner(id) if members.contains(id) => Err(ChangeRefused::AlreadyMember(id)),
            MembershipChange::AddLearner(_)
                if members.voters.len() + members.learners.len() >= MAX_MEMBERS =>
            {
                Err(ChangeRefused::TooManyMembers)
            }
            MembershipChange::AddLearner(_) if self.raw.store().truncated().0 == 0 => {
                Err(ChangeRefused::NothingCompacted)
            }
            MembershipChange::AddLearner(id) => Ok((id, ConfChangeType::AddLearnerNode)),
            MembershipChange::Promote(id) if !members.learners.contains(&id) => {
                Err(ChangeRefused::NotLearner(id))
            }
            MembershipChange::Promote(id) => match self.lag(id) {
                0..=PROMOTION_LAG_ENTRIES => Ok((id, ConfChangeType::AddNode)),
                entries => Err(ChangeRefused::Behind { id, entries }),
            },
            MembershipChange::Remove(id) if !members.contains(id) => Err(ChangeRefused::NotMember(id)),
            MembershipChange::Remove(id) if members.voters == [id] => Err(ChangeRefused::LastVoter),
            MembershipChange::Remove(id) if id == self.id() => Err(ChangeRefused::OwnRemoval),
            MembershipChange::Remove(id) => Ok((id, ConfChangeType::RemoveNode)),
        }
    }

    /// How many entries the leader does not know the member to have. All of them while it is not known what the member has.
    pub(super) fn lag(&self, id: u64) -> u64 {
        let raft = &self.raw.raft;
        match raft.prs().get(id) {
            Some(p) if p.state == ProgressState::Replicate => {
                raft.raft_log.last_index().saturating_sub(p.matched)
            }
            _ => u64::MAX,
        }
    }

    /// The voter that lacks least of the log, and of those the lowest; one that was not heard of lately comes last. `None`: no other
    /// voter is there, or this replica does not lead.
    pub fn successor(&self) -> Option<u64> {
        let progress = |id: &u64| self.raw.raft.prs().get(*id).map(|p| (p.recent_active, p.matched));
        let others = self.members.voters.iter().copied().filter(|id| *id != self.id() && self.is_leader());
        others.max_by_key(|id| (progress(id), std::cmp::Reverse(*id)))
    }

    /// Asks `to` to take over. Proposals are refused meanwhile; after an election timeout it is given up.
    pub fn transfer_leader(&mut self, to: u64) -> Result<(), TransferRefused> {
        self.assert_no_pending_step();
        if !self.is_leader() {
            return Err(TransferRefused::NotLeader);
        }
        if to == self.id() {
            return Err(TransferRefused::ToItself);
        }
        if !self.members.voters.contains(&to) {
            return Err(TransferRefused::NotVoter(to));
        }
        if let Some(other) = self.raw.raft.lead_transferee {
            return Err(TransferRefused::Transferring { to: other });
        }
        self.raw.transfer_leader(to);
        self.settle();
        Ok(())
    }
}

/// Applies the change. `None`: it is impossible for these members, so that it changes nothing, on every replica alike.
pub(super) fn apply<S: Storage>(
    raft: &mut Raft<S>,
    change: &raft_engine::eraftpb::ConfChangeV2,
) -> Option<Members> {
    let members = Members::from_engine(&raft.apply_conf_change(change).ok()?);
    // the engine goes on leading, and panics at the next commit
    if raft.state == raft_engine::StateRole::Leader && !members.voters.contains(&raft.id) {
        raft.become_follower(raft.term, 0);
    }
    Some(members)
}

impl fmt::Display for ChangeRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeRefused::NotLeader => f.write_str("this server does not lead: ask the leader"),
            ChangeRefused::Pending => {
                f.write_str("an earlier change, or the leader's first entry, is not applied yet: try again")
            }
            ChangeRefused::Transferring => f.write_str("leadership is being transferred: try again"),
            ChangeRefused::InvalidId => f.write_str("0 is no member's number: use another"),
            ChangeRefused::AlreadyMember(id) => write!(f, "{id} is a member already"),
            ChangeRefused::NotMember(id) => write!(f, "{id} is no member"),
            ChangeRefused::NotLearner(id) => write!(f, "{id} is no learner: add it as one first"),
            ChangeRefused::Behind { id, entries: u64::MAX } => {
                write!(f, "learner {id} has not caught up: wait until it follows the log")
            }
            ChangeRefused::Behind { id, entries } => {
                write!(
                    f,
                    "learner {id} lacks {entries} entries: wait until it has at most {PROMOTION_LAG_ENTRIES} to go"
                )
            }
            ChangeRefused::OwnRemoval => {
                f.write_str("the leader does not remove itself: transfer leadership first")
            }
            ChangeRefused::LastVoter => f.write_str("the last voter is not removed: promote another first"),
            ChangeRefused::TooManyMembers => {
                write!(f, "there are {MAX_MEMBERS} members already: remove one first")
            }
            ChangeRefused::NothingCompacted => {
                f.write_str("the log still holds its first entry: compact it before a member is added")
            }
            ChangeRefused::TooLarge { bytes } => {
                write!(f, "the change carries {bytes} bytes, at most {MAX_ENTRY_BYTES} are allowed")
            }
            ChangeRefused::TooMuchUncommitted => {
                f.write_str("too much waits to be committed: try again when the others have caught up")
            }
        }
    }
}

impl std::error::Error for ChangeRefused {}

impl fmt::Display for TransferRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransferRefused::NotLeader => f.write_str("this server does not lead: ask the leader"),
            TransferRefused::NotVoter(id) => write!(f, "{id} is no voter: name one"),
            TransferRefused::ToItself => f.write_str("this server leads already: name another"),
            TransferRefused::Transferring { to } => {
                write!(f, "leadership is being transferred to {to}: try again")
            }
        }
    }
}

impl std::error::Error for TransferRefused {}
