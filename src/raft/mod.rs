//! Consensus over opaque entries, around the `raft` crate's pure core.
//!
//! Refuses to know: jobs, disks, sockets and clocks. Ticks and the seed of its timeouts come in as values. It keeps the part of
//! the log that is not yet compacted in memory, so that the engine's storage cannot fail; whoever drives it writes the same
//! entries to disk before calling `persisted`. Invariants: nothing that depends on an entry being durable leaves before
//! `persisted` was called for it; a replica without members neither votes nor campaigns; equal inputs have equal outputs.

mod election;
mod log;
mod members;
mod outgoing;
mod progress;
mod reads;
mod received;
mod record;
mod snapshot;
#[cfg(test)]
mod tests;

use election::{ELECTION_TICKS, HEARTBEAT_TICKS, Timeouts};
use log::{Log, MAX_ENTRIES_PER_READ};
use outgoing::{MAX_BYTES_PER_MESSAGE, Windows};
use progress::RecentEnds;
use raft_engine::eraftpb::{Entry, EntryType, HardState};
use raft_engine::{RawNode, StateRole, Storage};
use reads::ReadIndexes;
use received::Check;
use std::fmt;

pub use log::Saved;
pub use members::{ChangeRefused, Members, MembershipChange, TransferRefused};
pub use outgoing::{MAX_INFLIGHT_BYTES, MAX_INFLIGHT_MESSAGES, Outbound};
pub use reads::{ReadAnswer, ReadLost, ReadRefused};
pub use received::{LogSpace, MAX_MESSAGE_BYTES, Refused};
pub use record::Damaged;
pub use snapshot::{InstallRefused, Installed, Snapshot, WantsSnapshot};

/// The most that one proposal may hold where others have to get it: it has to fit into a message with what surrounds it.
pub const MAX_ENTRY_BYTES: usize = 2 << 20;
/// What a leader with others takes before some of it is committed.
const MAX_UNCOMMITTED_BYTES: usize = 8 << 20;
/// The same without others, where a turn commits whatever it proposes.
const MAX_UNCOMMITTED_BYTES_ALONE: u64 = 64 << 20;
const MAX_COMMITTED_BYTES_PER_STEP: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub id: u64,
    /// Decides the election timeouts, and what tells this run's reads from an earlier one's. Another one at each start.
    pub seed: u64,
}

/// One replica of one group.
pub struct RaftNode {
    raw: RawNode<Log>,
    timeouts: Timeouts,
    reads: ReadIndexes,
    windows: Windows,
    /// As of `delivered`.
    members: Members,
    /// The last index that was released.
    delivered: u64,
    /// As it is on the disk, where a commit index alone is not written, unless it commits a change of members.
    written: HardState,
    /// The index of the last change of members that came into the log.
    last_change: u64,
    recent_ends: RecentEnds,
    step_is_pending: bool,
}

/// A step's work, in order: send `early`, write `batch`, then call `persisted`. Nothing else may be asked of the node meanwhile.
pub struct Step {
    /// What raft allows before persisting: a leader's appends.
    pub early: Vec<Outbound>,
    pub batch: Batch,
    ready: raft_engine::Ready,
    late: Vec<Outbound>,
}

/// To be written in one durable commit. Opaque to whoever writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Comes first: log and state are replaced by the rows that came with it.
    pub install: Option<Snapshot>,
    /// Entries from here on are replaced.
    pub truncate_from: Option<u64>,
    pub entries: Vec<(u64, Vec<u8>)>,
    pub hard_state: Option<Vec<u8>>,
}

impl Batch {
    /// A step that only learns of a commit index writes nothing: the next leader tells it again.
    pub fn must_sync(&self) -> bool {
        self.install.is_some() || !self.entries.is_empty() || self.hard_state.is_some()
    }
}

/// What a durable batch set free.
pub struct Released {
    pub messages: Vec<Outbound>,
    /// In log order, without gaps; to be applied, then told by `applied`.
    pub committed: Vec<CommittedEntry>,
    pub reads: Vec<ReadAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedEntry {
    pub index: u64,
    pub term: u64,
    /// As it was proposed. `None`: the entry concerns raft alone, as the one does with which a leader opens its term.
    pub data: Option<Vec<u8>>,
    /// The members from this entry on, where it changes them: to be stored with the applied index, in one commit.
    pub conf_state: Option<Members>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub last_index: u64,
    pub last_term: u64,
    pub commit: u64,
    /// The last entry that is not kept any more, and its term; 0: all are.
    pub compacted: u64,
    pub compacted_term: u64,
}

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalRefused {
    NotLeader,
    Transferring,
    TooLarge { bytes: usize },
    TooMuchUncommitted,
}

impl ProposalRefused {
    /// The same entry may be taken later by the same leader.
    pub fn passes(&self) -> bool {
        matches!(self, ProposalRefused::Transferring | ProposalRefused::TooMuchUncommitted)
    }
}

impl fmt::Display for ProposalRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProposalRefused::NotLeader => f.write_str("this server does not lead: ask the leader"),
            ProposalRefused::Transferring => f.write_str("leadership is being transferred: try again"),
            ProposalRefused::TooLarge { bytes } => {
                write!(f, "the entry has {bytes} bytes, at most {MAX_ENTRY_BYTES} are allowed: split it")
            }
            ProposalRefused::TooMuchUncommitted => {
                f.write_str("too much waits to be committed: try again when the others have caught up")
            }
        }
    }
}

impl std::error::Error for ProposalRefused {}

impl RaftNode {
    /// A replica as it was saved. With nothing saved it is empty: it waits for a snapshot.
    pub fn open(config: Config, saved: Saved) -> Result<RaftNode, Damaged> {
        let applied = saved.applied;
        let log = Log::restore(saved)?;
        let (members, written) = (log.applied().members.clone(), log.hard_state().clone());
        let last_change = log.last_change();
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&engine_config(config.id, applied), log, &logger);
        let mut timeouts = Timeouts::new(config.seed, config.id);
        let reads = ReadIndexes::new(timeouts.number());
        let mut node = RaftNode {
            raw: raw.map_err(|e| Damaged(e.to_string()))?,
            timeouts,
            reads,
            windows: Windows::default(),
            members,
            delivered: applied,
            written,
            last_change,
            recent_ends: RecentEnds::default(),
            step_is_pending: false,
        };
        node.settle();
        node.campaign_alone();
        Ok(node)
    }

    pub fn id(&self) -> u64 {
        self.raw.raft.id
    }

    pub fn is_leader(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    pub fn leader(&self) -> Option<u64> {
        Some(self.raw.raft.leader_id).filter(|&id| id != 0)
    }

    pub fn term(&self) -> u64 {
        self.raw.raft.term
    }

    /// What was proposed and is in the log, the newest first.
    pub fn newest_proposals(&self) -> impl Iterator<Item = &[u8]> {
        let entries = self.raw.store().newest_first();
        let normal = entries.filter(|e| e.entry_type == EntryType::EntryNormal && !e.data.is_empty());
        normal.map(|e| e.data.as_ref())
    }

    pub fn voters(&self) -> Vec<u64> {
        self.members.voters.clone()
    }

    /// No other replica votes: time plays no role.
    pub fn is_only_voter(&self) -> bool {
        self.members.voters == [self.id()]
    }

    /// A unit of time has passed.
    pub fn tick(&mut self) {
        self.assert_no_pending_step();
        self.windows.tick();
        self.note_end();
        self.tick_reads();
        if self.may_campaign() && self.raw.tick() {
            self.timeouts.draw();
        }
        self.forget_silent_leader();
        self.settle();
    }

    /// The engine makes a lone voter the leader within the call, and panics if its log is not on the disk.
    fn may_campaign(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        !self.is_only_voter()
            || self.is_leader()
            || (log.unstable_entries().is_empty() && log.unstable_snapshot().is_none())
    }

    fn campaign_alone(&mut self) {
        if self.is_only_voter() && !self.is_leader() && self.may_campaign() {
            let done = self.raw.campaign();
            assert!(done.is_ok(), "a campaign is refused by nobody");
            self.settle();
        }
    }

    /// Appends `data`, which is not empty; the index that it has if this replica still leads when it commits.
    pub fn propose(&mut self, data: Vec<u8>) -> Result<u64, ProposalRefused> {
        assert!(!data.is_empty(), "an empty entry is raft's own: nobody proposes one");
        self.assert_no_pending_step();
        let raft = &self.raw.raft;
        if raft.state != StateRole::Leader {
            return Err(ProposalRefused::NotLeader);
        }
        if raft.lead_transferee.is_some() {
            return Err(ProposalRefused::Transferring);
        }
        if !self.is_alone() {
            self.check_room(data.len())?;
        }
        // the engine's other reasons are checked above
        self.raw.propose(vec![], data).map_err(|_| ProposalRefused::TooMuchUncommitted)?;
        Ok(self.raw.raft.raft_log.last_index())
    }

    /// A leader becomes a follower: whoever is elected next leads, perhaps this replica.
    pub fn step_down(&mut self) {
        self.assert_no_pending_step();
        if self.is_leader() {
            let term = self.term();
            self.raw.raft.become_follower(term, 0);
            self.settle();
            self.campaign_alone();
        }
    }

    /// The link to a member was lost, and with it what was under way.
    pub fn link_lost(&mut self, member: u64) {
        self.assert_no_pending_step();
        if self.is_leader() {
            self.windows.forget(member);
            self.raw.report_unreachable(member);
        }
    }

    /// There are no other members, nor will be by a pending change: a later one gets present entries by a snapshot alone.
    fn is_alone(&self) -> bool {
        self.raw.raft.prs().iter().len() == 1 && !self.raw.raft.has_pending_conf()
    }

    fn check_room(&self, bytes: usize) -> Result<(), ProposalRefused> {
        if bytes > MAX_ENTRY_BYTES {
            return Err(ProposalRefused::TooLarge { bytes });
        }
        let raft = &self.raw.raft;
        let waiting = raft.uncommitted_size();
        let many = raft.raft_log.unstable_entries().len() >= MAX_ENTRIES_PER_READ;
        if many || (waiting > 0 && waiting + bytes > MAX_UNCOMMITTED_BYTES) {
            return Err(ProposalRefused::TooMuchUncommitted);
        }
        Ok(())
    }

    /// A message that came over the link to `peer`.
    pub fn receive(&mut self, peer: u64, message: &[u8], space: LogSpace) -> Result<(), Refused> {
        self.assert_no_pending_step();
        let check = Check { raft: &self.raw.raft, members: &self.members, peer };
        let mut message = check.decode(message)?;
        space.limit(&mut message)?;
        let (from, is_acknowledged) = (message.from, progress::acknowledges(&message));
        let done = self.raw.step(message).map_err(|e| match e {
            raft_engine::Error::StepPeerNotFound => Refused::NotMember { from },
            e => Refused::Malformed(e.to_string()),
        });
        if is_acknowledged {
            self.replicate_at_end(from);
        }
        self.settle();
        done
    }

    pub fn has_work(&self) -> bool {
        let commits_change = self.commits_change(self.raw.store().hard_state().commit);
        self.raw.has_ready() || commits_change || self.reads.has_answers() || self.can_request_read_index()
    }

    pub fn step(&mut self) -> Option<Step> {
        self.assert_no_pending_step();
        assert_eq!(
            self.delivered,
            self.snapshot().index,
            "what was released is applied before the next step"
        );
        self.request_read_index();
        if !self.has_work() {
            return None;
        }
        let leads = self.is_leader();
        let mut ready = self.raw.ready();
        let mut messages = ready.take_messages();
        messages.extend(ready.take_persisted_messages());
        let outgoing = self.windows.sort(&mut self.raw, leads, messages);
        self.reads.take_states(self.raw.raft.id, ready.take_read_states());
        let batch = self.batch(&ready);
        self.step_is_pending = true;
        Some(Step { early: outgoing.early, batch, ready, late: outgoing.late })
    }

    fn batch(&mut self, ready: &raft_engine::Ready) -> Batch {
        let entries = ready.entries();
        let contiguous = entries.windows(2).all(|pair| pair[0].index + 1 == pair[1].index);
        assert!(contiguous, "the entries of a step are contiguous");
        let install = (!ready.snapshot().is_empty()).then(|| Snapshot::from_engine(ready.snapshot()));
        let last = install.as_ref().map_or(self.raw.store().last(), |snapshot| snapshot.index);
        let hard_state = self.hard_state_to_write(ready);
        Batch {
            install,
            truncate_from: entries.first().map(|e| e.index).filter(|&i| i <= last),
            entries: entries.iter().map(|e| (e.index, record::encode_entry(e))).collect(),
            hard_state: hard_state.map(|hs| record::encode_hard_state(&hs)),
        }
    }

    /// A commit index alone is not written, but for one that commits a change of members: who has applied the removal of a dead member
    /// is not to need its vote again after a restart; and a replica that restarts with members two changes old could win an
    /// election that another wins, too.
    fn hard_state_to_write(&mut self, ready: &raft_engine::Ready) -> Option<HardState> {
        let mut changes = ready.entries().iter().filter(|e| e.entry_type != EntryType::EntryNormal);
        self.last_change = changes.next_back().map_or(self.last_change, |change| change.index);
        let known = ready.hs().unwrap_or_else(|| self.raw.store().hard_state());
        let is_news = ready.hs().is_some() && ready.must_sync();
        if is_news || self.commits_change(known.commit) {
            self.written = known.clone();
            return Some(self.written.clone());
        }
        None
    }

    /// With that commit index a change of members is committed, and the disk does not say so.
    fn commits_change(&self, commit: u64) -> bool {
        self.written.commit < self.last_change && self.last_change <= commit
    }

    /// The batch of `step` is durable.
    pub fn persisted(&mut self, step: Step) -> Released {
        assert!(self.step_is_pending, "the step is this node's");
        self.step_is_pending = false;
        let Step { mut ready, late, batch, .. } = step;
        let mut committed = ready.take_committed_entries();
        let hard_state = ready.hs().cloned();
        if let Some(snapshot) = &batch.install {
            self.raw.mut_store().install(snapshot);
            self.members.clone_from(&snapshot.members);
            self.delivered = snapshot.index;
        }
        let entries = ready.take_entries();
        self.raw.mut_store().append(entries, hard_state);
        let mut light = self.raw.advance_append(ready);
        if let Some(commit) = light.commit_index() {
            self.raw.mut_store().commit_to(commit);
        }
        let leads = self.is_leader();
        let more = self.windows.sort(&mut self.raw, leads, light.take_messages());
        committed.extend(light.take_committed_entries());
        let messages = [late, more.early, more.late].concat();
        let committed = committed.into_iter().map(|entry| self.deliver(entry)).collect();
        self.settle();
        Released { messages, committed, reads: self.reads.take_answers() }
    }

    /// The engine's own entries are empty.
    fn deliver(&mut self, entry: Entry) -> CommittedEntry {
        assert_eq!(entry.index, self.delivered + 1, "what is committed is delivered without gaps");
        assert!(entry.index <= self.raw.store().last(), "what is committed is in this replica's log");
        self.delivered = entry.index;
        let change = record::decode_change(&entry).expect("entries are checked before the log takes them");
        let (data, conf_state) = match change {
            None => (entry.data, None),
            Some(change) => {
                let members = members::apply(&mut self.raw.raft, &change);
                if let Some(members) = &members {
                    self.members.clone_from(members);
                }
                (change.context, members)
            }
        };
        let data = (!data.is_empty()).then(|| data.to_vec());
        CommittedEntry { index: entry.index, term: entry.term, data, conf_state }
    }

    /// All released entries are applied.
    pub fn applied(&mut self) {
        self.assert_no_pending_step();
        self.raw.advance_apply_to(self.delivered);
        self.raw.mut_store().set_applied(self.delivered, &self.members);
        self.campaign_alone();
    }

    /// The log's length in bytes, as kept in memory.
    pub fn log_bytes(&self) -> usize {
        self.raw.store().bytes()
    }

    /// Up to where the log may be compacted. A leader keeps what some member lacks, a follower all, because it may come to
    /// lead: as far as it fits into the budget. What does not fit goes as soon as it is applied. `None`: nothing.
    pub fn compactable(&self, budget_bytes: usize) -> Option<u64> {
        let log = self.raw.store();
        let others = self.raw.raft.prs().iter().filter(|(id, _)| **id != self.id());
        let needed = if self.is_leader() {
            others.map(|(_, progress)| progress.matched).min().unwrap_or(u64::MAX)
        } else {
            0
        };
        let to = needed.max(log.fits(budget_bytes)).min(log.applied().index);
        (to > log.truncated().0).then_some(to)
    }

    /// Drops the entries up to `index`, which are applied: returns its term, to be stored with the compaction.
    pub fn compact(&mut self, index: u64) -> Option<u64> {
        let term = self.raw.store().term(index).ok()?;
        self.raw.mut_store().compact(index, term);
        Some(term)
    }

    /// After whatever may have changed term, role or leader.
    fn settle(&mut self) {
        let raft = &mut self.raw.raft;
        self.timeouts.follow(raft);
        self.reads.follow((raft.term, raft.leader_id));
        if raft.state != StateRole::Leader {
            self.windows.clear();
        }
    }

    fn assert_no_pending_step(&self) {
        assert!(!self.step_is_pending, "a step is persisted before anything else is asked of the node");
    }
}

fn engine_config(id: u64, applied: u64) -> raft_engine::Config {
    raft_engine::Config {
        id,
        election_tick: ELECTION_TICKS,
        heartbeat_tick: HEARTBEAT_TICKS,
        pre_vote: true,
        check_quorum: true,
        max_size_per_msg: MAX_BYTES_PER_MESSAGE,
        max_inflight_msgs: MAX_INFLIGHT_MESSAGES,
        max_uncommitted_size: MAX_UNCOMMITTED_BYTES_ALONE,
        max_committed_size_per_ready: MAX_COMMITTED_BYTES_PER_STEP,
        applied,
        ..raft_engine::Config::default()
    }
}
