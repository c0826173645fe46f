//! Consensus over opaque entries, around the `raft` crate's pure core.
//!
//! Refuses to know: jobs, disks, sockets and clocks. It keeps the part of the log that is not yet compacted in memory, so
//! that the engine's storage cannot fail; whoever drives it writes the same entries to disk before calling `persisted`.
//! Invariant: nothing that depends on an entry being durable leaves before `persisted` was called for it.

mod log;

use log::Log;
use raft_engine::eraftpb::{Entry, EntryType, HardState, Message};
use raft_engine::{Config, RawNode, StateRole, Storage};
use serde::{Deserialize, Serialize};
use std::fmt;

pub use log::Saved;

/// One replica of one group.
pub struct Node {
    raw: RawNode<Log>,
}

/// A step's work, in order: send `early`, write `batch`, then call `persisted`.
pub struct Step {
    /// What raft allows before persisting: a leader's appends.
    pub early: Vec<Outbound>,
    pub batch: Batch,
    ready: raft_engine::Ready,
    late: Vec<Outbound>,
    committed: Vec<Entry>,
}

/// To be written in one durable commit. Opaque to whoever writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Entries from here on are replaced.
    pub truncate_from: Option<u64>,
    pub entries: Vec<(u64, Vec<u8>)>,
    pub hard_state: Option<Vec<u8>>,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.hard_state.is_none()
    }
}

/// What a durable batch set free.
pub struct Released {
    pub messages: Vec<Outbound>,
    /// In log order; to be applied, then told by `applied`.
    pub committed: Vec<Committed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub index: u64,
    pub term: u64,
    /// As it was proposed. `None`: the entry concerns raft alone, as the one does with which a leader opens its term.
    pub data: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    pub to: u64,
    pub message: Vec<u8>,
}

/// The entry was not taken: this replica does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLeader;

/// Stored log or hard state that this build cannot read, or that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stored raft log is damaged: {}", self.0)
    }
}

impl std::error::Error for Damaged {}

/// Election timeout in ticks. A tick's length is the driver's choice.
const ELECTION_TICKS: usize = 10;
const HEARTBEAT_TICKS: usize = 2;
const MAX_BYTES_PER_MESSAGE: u64 = 256 << 10;
const MAX_INFLIGHT_MESSAGES: usize = 64;

impl Node {
    /// A replica as it was saved; with nothing saved, the first and only voter of a new group.
    pub fn open(id: u64, saved: Saved) -> Result<Node, Damaged> {
        let applied = saved.applied;
        let log = Log::restore(id, saved)?;
        let config = Config {
            id,
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            pre_vote: true,
            check_quorum: true,
            max_size_per_msg: MAX_BYTES_PER_MESSAGE,
            max_inflight_msgs: MAX_INFLIGHT_MESSAGES,
            applied,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, log, &logger).map_err(|e| Damaged(e.to_string()))?;
        let mut node = Node { raw };
        if node.is_only_voter() {
            // nobody else to wait for; the engine refuses only while it already leads
            node.raw.campaign().map_err(|e| Damaged(e.to_string()))?;
        }
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

    pub fn voters(&self) -> Vec<u64> {
        self.raw.store().voters().to_vec()
    }

    /// No other replica takes part: time plays no role.
    pub fn is_only_voter(&self) -> bool {
        self.raw.store().voters() == [self.id()]
    }

    /// The stored form of the members, to be written once by whoever creates the group.
    pub fn conf_state(&self) -> Vec<u8> {
        self.raw.store().encoded_conf_state()
    }

    /// Appends `data`, which is not empty; the index that it has if this replica still leads when it commits.
    pub fn propose(&mut self, data: Vec<u8>) -> Result<u64, NotLeader> {
        assert!(!data.is_empty(), "an empty entry is raft's own: nobody proposes one");
        if !self.is_leader() {
            return Err(NotLeader);
        }
        self.raw.propose(vec![], data).map_err(|_| NotLeader)?;
        Ok(self.raw.raft.raft_log.last_index())
    }

    /// A peer's message. What is no message is refused; what raft has no use for is ignored.
    pub fn receive(&mut self, message: &[u8]) -> Result<(), Damaged> {
        let message: Message = decoded("message", message)?;
        match self.raw.step(message) {
            // of a replica that is no member, or came when nobody leads: as if it had been lost on the way
            Ok(()) | Err(raft_engine::Error::StepPeerNotFound | raft_engine::Error::ProposalDropped) => {
                Ok(())
            }
            Err(e) => Err(Damaged(e.to_string())),
        }
    }

    pub fn has_work(&self) -> bool {
        self.raw.has_ready()
    }

    pub fn step(&mut self) -> Option<Step> {
        if !self.raw.has_ready() {
            return None;
        }
        let mut ready = self.raw.ready();
        let early = outbound(ready.take_messages());
        let late = outbound(ready.take_persisted_messages());
        let committed = ready.take_committed_entries();
        let entries = ready.entries();
        assert!(
            entries.windows(2).all(|pair| pair[0].index + 1 == pair[1].index),
            "the entries of a step are contiguous"
        );
        let batch = Batch {
            truncate_from: entries.first().map(|e| e.index).filter(|&i| i <= self.raw.store().last()),
            entries: entries.iter().map(|e| (e.index, encode_entry(e))).collect(),
            hard_state: ready.hs().map(encode_hard_state),
        };
        Some(Step { early, batch, ready, late, committed })
    }

    /// The batch of `step` is durable.
    pub fn persisted(&mut self, step: Step) -> Released {
        let Step { mut ready, late, mut committed, .. } = step;
        let hard_state = ready.hs().cloned();
        let entries = ready.take_entries();
        self.raw.mut_store().append(entries, hard_state);
        let mut light = self.raw.advance(ready);
        let mut messages = late;
        messages.extend(outbound(light.take_messages()));
        committed.extend(light.take_committed_entries());
        if let Some(commit) = light.commit_index() {
            self.raw.mut_store().commit_to(commit);
        }
        assert!(
            committed.windows(2).all(|pair| pair[0].index + 1 == pair[1].index),
            "what a step commits is contiguous"
        );
        let last = self.raw.store().last();
        assert!(
            committed.last().is_none_or(|e| e.index <= last),
            "what is committed is in this replica's log"
        );
        Released { messages, committed: committed.into_iter().map(told).collect() }
    }

    /// All released entries are applied.
    pub fn applied(&mut self) {
        self.raw.advance_apply();
    }

    /// The log's length in bytes of entries, as kept in memory.
    pub fn log_bytes(&self) -> usize {
        self.raw.store().bytes()
    }

    /// Entries up to `index` are needed by nobody: returns its term, to be stored with the compaction.
    pub fn compact(&mut self, index: u64) -> Option<u64> {
        let term = self.raw.store().term(index).ok()?;
        self.raw.mut_store().compact(index, term);
        Some(term)
    }
}

fn outbound(messages: Vec<Message>) -> Vec<Outbound> {
    messages.into_iter().map(|m| Outbound { to: m.to, message: encoded(&m) }).collect()
}

/// The engine's own entries are empty, or of another kind.
fn told(entry: Entry) -> Committed {
    let proposed = entry.entry_type == EntryType::EntryNormal && !entry.data.is_empty();
    Committed { index: entry.index, term: entry.term, data: proposed.then(|| entry.data.to_vec()) }
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("messages, entries and states are plain structs, which can be encoded")
}

/// All of the bytes.
fn decoded<'a, T: Deserialize<'a>>(what: impl fmt::Display, bytes: &'a [u8]) -> Result<T, Damaged> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, more)) => Err(Damaged(format!("{what}: {} bytes too many", more.len()))),
        Err(e) => Err(Damaged(format!("{what}: {e}"))),
    }
}

/// An entry as it is stored; its index is its key.
#[derive(Serialize, Deserialize)]
struct StoredEntry<'a> {
    kind: u8,
    term: u64,
    #[serde(borrow)]
    data: &'a [u8],
}

fn encode_entry(e: &Entry) -> Vec<u8> {
    encoded(&StoredEntry { kind: e.entry_type as u8, term: e.term, data: &e.data })
}

fn decode_entry(index: u64, bytes: &[u8]) -> Result<Entry, Damaged> {
    let stored: StoredEntry<'_> = decoded(format_args!("entry {index}"), bytes)?;
    let kind = EntryType::from_i32(i32::from(stored.kind))
        .ok_or_else(|| Damaged(format!("entry {index} is of unknown kind {}", stored.kind)))?;
    let data = stored.data.to_vec().into();
    Ok(Entry { entry_type: kind, term: stored.term, index, data, ..Entry::default() })
}

fn encode_hard_state(hs: &HardState) -> Vec<u8> {
    encoded(&(hs.term, hs.vote, hs.commit))
}

fn decode_hard_state(bytes: &[u8]) -> Result<HardState, Damaged> {
    let (term, vote, commit) = decoded("hard state", bytes)?;
    Ok(HardState { term, vote, commit })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drives the node until it rests; returns what was committed. `disk` collects what a restart would find.
    fn settle(node: &mut Node, disk: &mut Saved) -> Vec<Committed> {
        let mut done = vec![];
        while let Some(step) = node.step() {
            let batch = step.batch.clone();
            if let Some(from) = batch.truncate_from {
                disk.entries.retain(|(i, _)| *i < from);
            }
            disk.entries.extend(batch.entries);
            disk.hard_state = batch.hard_state.or(disk.hard_state.take());
            let released = node.persisted(step);
            if let Some(last) = released.committed.last() {
                disk.applied = last.index;
            }
            done.extend(released.committed);
            node.applied();
        }
        disk.conf_state = Some(node.conf_state());
        done
    }

    #[test]
    fn a_lone_voter_leads_at_once_and_commits_what_is_durable() {
        let mut disk = Saved::default();
        let mut node = Node::open(1, Saved::default()).unwrap();
        let opening = settle(&mut node, &mut disk);
        assert!(node.is_leader());
        assert_eq!(opening.len(), 1);
        assert_eq!(opening[0].data, None);

        let index = node.propose(b"a".to_vec()).unwrap();
        let step = node.step().unwrap();
        assert_eq!(step.batch.entries.len(), 1);
        let released = node.persisted(step);
        assert_eq!(released.committed, [Committed { index, term: node.term(), data: Some(b"a".to_vec()) }]);
    }

    #[test]
    fn a_restart_replays_what_was_durable_but_not_applied() {
        let mut disk = Saved::default();
        let mut node = Node::open(1, Saved::default()).unwrap();
        settle(&mut node, &mut disk);
        for data in [b"a", b"b", b"c"] {
            node.propose(data.to_vec()).unwrap();
        }
        settle(&mut node, &mut disk);
        let term = node.term();
        disk.applied -= 2;

        let mut again = Node::open(1, disk.clone()).unwrap();
        let replayed: Vec<_> = settle(&mut again, &mut disk).into_iter().map(|c| c.data).collect();
        assert_eq!(replayed, [Some(b"b".to_vec()), Some(b"c".to_vec()), None]);
        assert_eq!(again.term(), term + 1);
    }

    #[test]
    fn compaction_forgets_the_prefix_and_survives_a_restart() {
        let mut disk = Saved::default();
        let mut node = Node::open(1, Saved::default()).unwrap();
        settle(&mut node, &mut disk);
        for _ in 0..10 {
            node.propose(vec![7; 100]).unwrap();
        }
        settle(&mut node, &mut disk);
        let before = node.log_bytes();
        let term = node.compact(disk.applied - 2).unwrap();
        assert!(node.log_bytes() < before / 2);
        disk.entries.retain(|(i, _)| *i > disk.applied - 2);
        disk.truncated = Some((disk.applied - 2, term));

        let mut again = Node::open(1, disk.clone()).unwrap();
        assert_eq!(settle(&mut again, &mut disk).len(), 1);
    }

    #[test]
    fn damage_is_told_not_guessed() {
        let mut disk = Saved::default();
        let mut node = Node::open(1, Saved::default()).unwrap();
        settle(&mut node, &mut disk);
        node.propose(b"a".to_vec()).unwrap();
        settle(&mut node, &mut disk);
        let mut gap = disk.clone();
        gap.entries.remove(0);
        assert!(Node::open(1, gap).is_err());
        let mut torn = disk.clone();
        torn.entries[1].1.clear();
        assert!(Node::open(1, torn).is_err());
        let mut ahead = disk.clone();
        ahead.applied = 99;
        assert!(Node::open(1, ahead).is_err());
        let mut longer = disk.clone();
        longer.entries[1].1.push(0);
        assert!(Node::open(1, longer).is_err());
        assert!(node.receive(b"\xff\xff").is_err());
    }
}
