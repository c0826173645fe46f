//! One replica of the region, as leaders and followers have it: the raft group, the store, and what is applied. The only
//! place where raft's work and the store's receipt meet: what a step releases cannot be had before its batch is durable.
//!
//! Refuses to know: who waits for an entry, and what a leader makes of what is applied.

use super::NO_LEADER;
use super::members::MemberList;
use super::snapshots::{Parts, Snapshots};
use model::member::Founding;
use model::time::{Mono, Span, Wall};
use state::apply::{ApplyResult, Committed};
use state::fault::Fault;
use state::log_batch::LogBatch;
use state::store::{Reader, Receipt, Recovered, Store};
use wire::command::Command;
use wire::feature_level::{MAX_FEATURE_LEVEL, decode_command};
use wire::record;
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;
use wire::snapshot::SnapshotMessage;

/// How many applied entries stay in the log for peers that lag behind, and how many more there may be before a compaction.
const KEEP_ENTRIES: u64 = 256;
const COMPACT_EVERY: u64 = 256;
/// Compaction also follows from size, so that a few large entries do not fill the memory.
const COMPACT_BYTES: usize = 1 << 20;
/// While a snapshot is on its way, the log may be so many times as long: what is written meanwhile has to follow from it.
const SENDING_FACTOR: usize = 8;
/// The unit in which the group counts time. A heartbeat is due after 2 of them, an election after 10 to 19 (decision 0074).
const TICK: Span = Span::millis(100);

/// How many of the newest entries are searched for a stamp: few commands have none.
const MAX_ENTRIES_SEARCHED: usize = 64;

pub struct Replica {
    raft: raft::RaftNode,
    store: Store,
    reader: Reader,
    /// `None`: no other replica is in the group, so time plays no role.
    next_tick: Option<Mono>,
    compacted: u64,
    last_applied_term: u64,
    /// When a leader was last heard of. A replica that leads hears of itself.
    last_contact: Option<Mono>,
    /// When this replica had its first turn.
    listens_since: Option<Mono>,
    snapshots: Snapshots,
    members: MemberList,
    config: raft::Config,
    is_retired: bool,
}

/// What one durable step led to.
pub struct StepOutcome {
    /// Raft's messages that rest on the batch: to be sent.
    pub messages: Vec<raft::Outbound>,
    /// The applied entries in log order; those that concern raft alone included.
    pub applied: Vec<AppliedEntry>,
    /// Which index each read has to wait for.
    pub reads: Vec<raft::ReadAnswer>,
    /// A snapshot has taken the state's place before that.
    pub restored: bool,
}

/// An entry that is applied.
pub struct AppliedEntry {
    pub term: u64,
    pub outcome: ApplyResult,
}

/// A step whose batch is to be made durable.
pub struct PreparedStep {
    /// May be sent before that: a leader's appends.
    pub early: Vec<raft::Outbound>,
    batch: LogBatch,
    installs: Option<raft::Snapshot>,
    step: UnpersistedStep,
}

/// A step that must not be taken further before its batch is durable.
struct UnpersistedStep(raft::Step);

impl UnpersistedStep {
    fn persisted(self, proof: &Receipt) -> raft::Step {
        let last = self.0.batch.entries.last().map_or(proof.last_index(), |(index, _)| *index);
        assert_eq!(proof.last_index(), last, "the receipt is this step's");
        self.0
    }

    fn needs_no_disk(&self) -> bool {
        !self.0.batch.must_sync()
    }
}

impl Replica {
    /// On an empty disk it has no members: it waits for a region.
    pub fn open(config: raft::Config, store: Store, recovered: Recovered) -> Result<Replica, Fault> {
        let saved = raft::Saved {
            entries: recovered.entries,
            hard_state: recovered.hard_state,
            conf_state: recovered.conf_state,
            truncated: recovered.truncated,
            applied: recovered.applied,
        };
        let compacted = saved.truncated.map_or(0, |(index, _)| index);
        let snapshots = Snapshots::new(config.seed);
        let raft = raft::RaftNode::open(config, saved).map_err(|e| Fault::corrupt(e.to_string()))?;
        let reader = store.reader();
        Ok(Replica {
            raft,
            store,
            reader,
            next_tick: None,
            compacted,
            last_applied_term: 0,
            last_contact: None,
            listens_since: None,
            snapshots,
            members: MemberList::default(),
            config,
            is_retired: false,
        })
    }

    /// A region begins, and this replica, which was never part of any, with it.
    pub fn found(&mut self, founding: &Founding) -> Result<(), Fault> {
        let snapshot = raft::Snapshot::founding(founding.ids());
        self.store.found(founding, &snapshot.members.encode())?;
        let saved = raft::Saved::from_snapshot(&snapshot);
        self.raft = raft::RaftNode::open(self.config, saved).map_err(|e| Fault::corrupt(e.to_string()))?;
        self.compacted = snapshot.index;
        Ok(())
    }

    /// The group does without this replica: it never campaigns again.
    pub fn retire(&mut self) {
        self.is_retired = true;
        self.raft.lose_reads();
    }

    /// Time passes for the group. Ticks that were missed do not all come at once: a replica that was paused has received
    /// nothing meanwhile, and is not to start an election before its leader had time to send a heartbeat.
    pub fn tick(&mut self, now: Mono) {
        self.listens_since.get_or_insert(now);
        if self.raft.is_leader() {
            self.last_contact = Some(now);
        }
        // one without members does not know its peers yet, and counts how long a leader has been silent
        let is_alone = !self.has_peers() && self.raft.leader().is_none_or(|leader| leader == self.raft.id());
        // a leader goes on until the others have deposed it
        if is_alone || (self.is_retired && !self.raft.is_leader()) {
            self.next_tick = None;
            return;
        }
        let due = *self.next_tick.get_or_insert(now.after(TICK));
        if due <= now {
            self.raft.tick();
            self.next_tick = Some(now.after(TICK));
        }
    }

    pub fn next_tick(&self) -> Option<Mono> {
        self.next_tick
    }

    pub fn has_peers(&self) -> bool {
        let members = self.raft.members();
        members.voters.len() + members.learners.len() > 1
    }

    pub fn raft(&self) -> &raft::RaftNode {
        &self.raft
    }

    /// The region's servers, as the state listed them when that was last read.
    pub fn members(&self) -> &MemberList {
        &self.members
    }

    pub fn read_members(&mut self) -> Result<(), Fault> {
        self.members = MemberList::read(&self.reader.view()?)?;
        Ok(())
    }

    /// This replica leads and has applied an entry of its own term: all that came before is applied, too.
    pub fn leads_its_term(&self) -> bool {
        self.raft.is_leader() && self.last_applied_term == self.raft.term()
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub fn applied(&self) -> u64 {
        self.store.applied()
    }

    /// The index and the term of the new entry.
    pub fn propose(&mut self, command: &Command) -> Result<(u64, u64), raft::ProposalRefused> {
        let index = self.raft.propose(record::encode(command))?;
        assert!(index > self.applied(), "a new entry follows what is applied");
        Ok((index, self.raft.term()))
    }

    /// The same of an entry that changes the group's members and carries `command`.
    pub fn propose_change(
        &mut self,
        change: raft::MembershipChange,
        command: &Command,
    ) -> Result<(u64, u64), raft::ChangeRefused> {
        let index = self.raft.propose_change(change, record::encode(command))?;
        Ok((index, self.raft.term()))
    }

    pub fn transfer_leader(&mut self, to: u64) -> Result<(), raft::TransferRefused> {
        self.raft.transfer_leader(to)
    }

    pub fn link_lost(&mut self, server: u64) {
        self.raft.link_lost(server);
    }

    /// Gives up leadership; the group elects somebody.
    pub fn step_down(&mut self) {
        self.raft.step_down();
    }

    /// Whether this replica leads in that term.
    pub fn leads(&self, term: u64) -> bool {
        self.raft.is_leader() && self.raft.term() == term
    }

    /// The newest stamp of the commands that the log still holds.
    pub fn last_stamp(&self) -> Option<Wall> {
        let newest = self.raft.newest_proposals().take(MAX_ENTRIES_SEARCHED);
        newest.filter_map(|data| decode_command(data, MAX_FEATURE_LEVEL).ok()?.at()).next()
    }

    /// A raft message from a peer; what is refused is dropped, as if it had been lost on the way.
    pub fn receive(&mut self, from: Peer, message: &[u8], now: Mono, space_free: bool) {
        let Peer::Server(peer) = from else {
            tracing::warn!(%from, "dropped a raft message of no server");
            return;
        };
        let space = self.log_space(space_free);
        match self.raft.receive(peer, message, space) {
            Ok(()) if self.raft.leader() == Some(peer) => self.last_contact = Some(now),
            Ok(()) => {}
            Err(e) => tracing::warn!(%from, error = %e, "dropped a raft message"),
        }
    }

    /// What its disk still takes.
    pub fn free_bytes(&self) -> std::io::Result<u64> {
        self.store.free_bytes()
    }

    /// `None`: this replica leads, or has neither led nor heard of any leader.
    pub fn last_contact(&self) -> Option<Mono> {
        self.last_contact.filter(|_| !self.raft.is_leader())
    }

    /// `None`: it has had no turn yet.
    pub fn listens_since(&self) -> Option<Mono> {
        self.listens_since
    }

    /// Asks which index a read has to wait for: a later step has the answer.
    pub fn read_index(&mut self, token: u64) -> Result<(), raft::ReadRefused> {
        self.raft.read_index(token)
    }

    /// Takes a message of another server about a snapshot.
    pub fn receive_snapshot(
        &mut self,
        from: u64,
        message: SnapshotMessage,
        now: Mono,
        space_free: bool,
    ) -> Result<(), Fault> {
        let mut parts = Parts { raft: &mut self.raft, store: &mut self.store, now };
        self.snapshots.receive(from, message, &mut parts, space_free)
    }

    /// Messages about snapshots that are to be sent to other servers.
    pub fn take_snapshot_messages(&mut self) -> Vec<(u64, SnapshotMessage)> {
        self.snapshots.take_messages()
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn is_installing(&self) -> bool {
        self.snapshots.is_installing()
    }

    pub fn next_snapshot_deadline(&self) -> Option<Mono> {
        self.snapshots.next_deadline()
    }

    pub fn has_work(&self) -> bool {
        self.raft.has_work()
    }

    /// The next step, if there is something to do.
    pub fn prepare(&mut self, now: Mono, space_free: bool) -> Result<Option<PreparedStep>, Fault> {
        let mut parts = Parts { raft: &mut self.raft, store: &mut self.store, now };
        self.snapshots.advance(&mut parts, space_free)?;
        let Some(mut step) = self.raft.step() else { return Ok(None) };
        let early = std::mem::take(&mut step.early);
        let batch = self.batch(&step.batch, now);
        let installs = step.batch.install.clone();
        Ok(Some(PreparedStep { early, batch, installs, step: UnpersistedStep(step) }))
    }

    /// At most one durable commit, then the application of what it committed.
    pub fn commit(&mut self, prepared: PreparedStep) -> Result<StepOutcome, Fault> {
        let PreparedStep { batch, installs, step, .. } = prepared;
        let step = match &installs {
            None if step.needs_no_disk() => step.0,
            None => step.persisted(&self.store.append(&batch)?),
            Some(snapshot) => {
                let receipt = self.store.install_snapshot(&batch)?;
                self.restored(snapshot);
                step.persisted(&receipt)
            }
        };
        let released = self.raft.persisted(step);
        let applied = self.apply(&released.committed)?;
        let restored = installs.is_some();
        Ok(StepOutcome { messages: released.messages, applied, reads: released.reads, restored })
    }

    fn apply(&mut self, committed: &[raft::CommittedEntry]) -> Result<Vec<AppliedEntry>, Fault> {
        let members = |c: &raft::CommittedEntry| c.conf_state.as_ref().map(raft::Members::encode);
        let conf_states: Vec<_> = committed.iter().map(members).collect();
        let entries: Vec<_> = committed
            .iter()
            .zip(&conf_states)
            .map(|(c, conf_state)| Committed {
                index: c.index,
                command: c.data.as_deref(),
                conf_state: conf_state.as_deref(),
            })
            .collect();
        let outcomes = self.store.apply(&entries)?;
        assert_eq!(outcomes.len(), entries.len(), "each entry has its outcome");
        self.raft.applied();
        let terms = committed.iter().map(|c| c.term);
        let applied: Vec<AppliedEntry> =
            terms.zip(outcomes).map(|(term, outcome)| AppliedEntry { term, outcome }).collect();
        if let Some(last) = applied.last() {
            assert!(last.term >= self.last_applied_term, "terms in the log only grow");
            self.last_applied_term = last.term;
        }
        Ok(applied)
    }

    /// State and log begin with this snapshot now.
    fn restored(&mut self, snapshot: &raft::Snapshot) {
        assert_eq!(self.store.applied(), snapshot.index, "raft and the store have installed the same");
        (self.compacted, self.last_applied_term) = (snapshot.index, snapshot.term);
        self.snapshots.installed();
    }

    fn batch(&mut self, batch: &raft::Batch, now: Mono) -> LogBatch {
        let compacts = batch.must_sync() && batch.install.is_none();
        let compact_to = if compacts { self.compaction(now) } else { None };
        LogBatch {
            truncate_from: batch.truncate_from,
            entries: batch.entries.clone(),
            hard_state: batch.hard_state.clone(),
            compact_to,
            ..LogBatch::default()
        }
    }

    /// The entries that are applied: the store drops them when what they did is durable.
    fn compaction(&mut self, now: Mono) -> Option<(u64, u64)> {
        let to = if self.has_peers() {
            let least = self.store.segment_bytes();
            let budget = if self.snapshots.need_log(now) { least * SENDING_FACTOR } else { least };
            let to = self.raft.compactable(budget)?;
            // a few large entries are not to fill the memory
            let is_large = self.raft.log_bytes() > budget + least;
            (is_large || to - self.compacted >= COMPACT_EVERY).then_some(to)?
        } else {
            self.compaction_alone()?
        };
        let term = self.raft.compact(to)?;
        self.compacted = to;
        Some((to, term))
    }

    fn compaction_alone(&self) -> Option<u64> {
        let applied = self.store.applied();
        let surplus = applied.saturating_sub(self.compacted);
        let large = self.raft.log_bytes() > COMPACT_BYTES && surplus > 0;
        if surplus < KEEP_ENTRIES + COMPACT_EVERY && !large {
            return None;
        }
        Some(if large { applied } else { applied - KEEP_ENTRIES })
    }
}

/// The refusal of a command that was not proposed.
pub fn not_proposed(refused: raft::ProposalRefused) -> Refusal {
    use raft::ProposalRefused as R;
    match refused {
        R::NotLeader => Refusal::new(RefusalKind::Unavailable, NO_LEADER),
        R::Transferring => Refusal::new(RefusalKind::Unavailable, refused.to_string()),
        R::TooLarge { .. } => Refusal::new(RefusalKind::Invalid, refused.to_string()),
        R::TooMuchUncommitted => Refusal::new(RefusalKind::Busy, refused.to_string()),
    }
}

#[cfg(test)]
mod tests;
