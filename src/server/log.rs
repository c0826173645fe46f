//! The replicated log as a server uses it: propose, make durable, apply. The only place where raft's work and the
//! store's receipt meet: what a step releases cannot be had before its batch is durable.

use state::batch::LogBatch;
use state::fault::Fault;
use state::store::{Committed, Outcome, Reader, Receipt, Recovered, Store};
use wire::command::Command;
use wire::record;
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;

/// How many applied entries stay in the log for peers that lag behind, and how many more may gather before a compaction.
const KEEP_ENTRIES: u64 = 256;
const COMPACT_EVERY: u64 = 256;
/// Compaction also follows from size, so that a few large entries do not fill the memory.
const COMPACT_BYTES: usize = 1 << 20;

pub struct Log {
    raft: raft::Node,
    store: Store,
    reader: Reader,
    /// The members are not stored yet: the group is being created.
    unsaved_members: bool,
    compacted: u64,
    last_applied_term: u64,
}

/// What one durable step led to.
pub struct Round {
    /// To be sent: raft's messages.
    pub messages: Vec<raft::Outbound>,
    pub outcomes: Vec<Outcome>,
    /// Entries were applied, those that concern raft alone included.
    pub applied: bool,
}

/// A step that must not be taken further before its batch is durable.
struct Held(raft::Step);

impl Held {
    fn open(self, proof: &Receipt) -> raft::Step {
        let last = self.0.batch.entries.last().map_or(proof.last_index(), |(index, _)| *index);
        assert_eq!(proof.last_index(), last, "the receipt is this step's");
        self.0
    }

    fn needs_no_disk(&self) -> bool {
        !self.0.batch.must_sync()
    }
}

impl Log {
    pub fn open(config: raft::Config, store: Store, recovered: Recovered) -> Result<Log, raft::Damaged> {
        let unsaved_members = recovered.conf_state.is_none();
        let alone = || raft::Members::of_voters([config.id]).encode();
        let compacted = recovered.truncated.map_or(0, |t| t.0);
        let saved = raft::Saved {
            entries: recovered.entries,
            hard_state: recovered.hard_state,
            conf_state: Some(recovered.conf_state.unwrap_or_else(alone)),
            truncated: recovered.truncated,
            applied: recovered.applied,
        };
        let reader = store.reader();
        Ok(Log {
            raft: raft::Node::open(config, saved)?,
            store,
            reader,
            unsaved_members,
            compacted,
            last_applied_term: 0,
        })
    }

    pub fn raft(&self) -> &raft::Node {
        &self.raft
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

    pub fn propose(&mut self, command: &Command) -> Result<u64, raft::ProposalRefused> {
        self.raft.propose(record::encode(command))
    }

    /// A raft message from a peer; what is refused is dropped, as if it had been lost on the way.
    pub fn receive(&mut self, from: Peer, message: &[u8]) {
        let Peer::Server(peer) = from else {
            tracing::warn!(%from, "dropped a raft message of no server");
            return;
        };
        if let Err(e) = self.raft.receive(peer, message) {
            tracing::warn!(%from, error = %e, "dropped a raft message");
        }
    }

    pub fn has_work(&self) -> bool {
        self.raft.has_work()
    }

    /// One step: at most one durable commit, then the application of what it committed.
    pub fn round(&mut self) -> Result<Option<Round>, Fault> {
        let Some(step) = self.raft.step() else { return Ok(None) };
        let mut messages = step.early.clone();
        let batch = self.batch(&step.batch);
        let held = Held(step);
        let step = if held.needs_no_disk() { held.0 } else { held.open(&self.store.append(&batch)?) };
        let released = self.raft.persisted(step);
        messages.extend(released.messages);
        let members = |c: &raft::CommittedEntry| c.conf_state.as_ref().map(raft::Members::encode);
        let conf_states: Vec<_> = released.committed.iter().map(members).collect();
        let entries: Vec<_> = released
            .committed
            .iter()
            .zip(&conf_states)
            .map(|(c, conf_state)| Committed {
                index: c.index,
                command: c.data.as_deref(),
                conf_state: conf_state.as_deref(),
            })
            .collect();
        let applied = !entries.is_empty();
        self.last_applied_term = released.committed.last().map_or(self.last_applied_term, |c| c.term);
        let outcomes = self.store.apply(&entries)?;
        self.raft.applied();
        Ok(Some(Round { messages, outcomes, applied }))
    }

    fn batch(&mut self, batch: &raft::Batch) -> LogBatch {
        let compact_to = if batch.must_sync() { self.compaction() } else { None };
        let members = self.unsaved_members && batch.must_sync();
        self.unsaved_members &= !members;
        LogBatch {
            truncate_from: batch.truncate_from,
            entries: batch.entries.clone(),
            hard_state: batch.hard_state.clone(),
            conf_state: members.then(|| self.raft.members().encode()),
            compact_to,
        }
    }

    /// The entries that are applied: the store drops them when what they did is durable.
    fn compaction(&mut self) -> Option<(u64, u64)> {
        let applied = self.store.applied();
        let surplus = applied.saturating_sub(self.compacted);
        let large = self.raft.log_bytes() > COMPACT_BYTES && surplus > 0;
        if surplus < KEEP_ENTRIES + COMPACT_EVERY && !large {
            return None;
        }
        let to = if large { applied } else { applied - KEEP_ENTRIES };
        let term = self.raft.compact(to)?;
        self.compacted = to;
        Some((to, term))
    }
}

/// What whoever asked is told of a command that was not proposed.
pub fn not_proposed(refused: raft::ProposalRefused) -> Refusal {
    use raft::ProposalRefused as R;
    match refused {
        R::NotLeader => Refusal::new(RefusalKind::Unavailable, "No cluster leader"),
        R::Transferring => Refusal::new(RefusalKind::Unavailable, refused.to_string()),
        R::TooLarge { .. } => Refusal::new(RefusalKind::Invalid, refused.to_string()),
        R::TooMuchUncommitted => Refusal::new(RefusalKind::Busy, refused.to_string()),
    }
}
