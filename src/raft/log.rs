//! The log's tail in memory, as the engine's storage: everything that is not yet compacted. Knows nothing of disks;
//! what it is given was made durable by the caller.

use super::members::Members;
use super::record::{Damaged, decode_entry, decode_hard_state};
use super::snapshot::Snapshot;
use raft_engine::eraftpb::{Entry, EntryType, HardState, Snapshot as EngineSnapshot};
use raft_engine::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use std::collections::VecDeque;

/// What one message takes from the log, and what may be proposed in one turn where others have to get it.
pub const MAX_ENTRIES_PER_READ: usize = 1024;
/// What an entry takes in memory beside its data.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// What a replica left on its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// By index, without gaps, after `truncated`.
    pub entries: Vec<(u64, Vec<u8>)>,
    pub hard_state: Option<Vec<u8>>,
    /// `None`: the group does not exist yet.
    pub conf_state: Option<Vec<u8>>,
    /// Index and term of the last compacted entry.
    pub truncated: Option<(u64, u64)>,
    pub applied: u64,
}

impl Saved {
    /// A replica that begins with this snapshot and nothing after it: the founding one, or one that was installed.
    pub fn from_snapshot(snapshot: &Snapshot) -> Saved {
        Saved {
            conf_state: Some(snapshot.members.encode()),
            truncated: Some((snapshot.index, snapshot.term)),
            applied: snapshot.index,
            ..Saved::default()
        }
    }
}

pub struct Log {
    /// The entries from index `truncated.0 + 1` on.
    entries: VecDeque<Entry>,
    truncated: (u64, u64),
    hard_state: HardState,
    /// What a snapshot would stand for.
    applied: Snapshot,
    bytes: usize,
}

impl Log {
    pub fn restore(saved: Saved) -> Result<Log, Damaged> {
        let members = saved.conf_state.as_deref().map(Members::decode).transpose()?.unwrap_or_default();
        let mut hard_state =
            saved.hard_state.as_deref().map(decode_hard_state).transpose()?.unwrap_or_default();
        let truncated = saved.truncated.unwrap_or_default();
        // what is applied was committed, and what is compacted had its term: that was not stored again
        hard_state.commit = hard_state.commit.max(saved.applied);
        hard_state.term = hard_state.term.max(truncated.1);
        let applied = Snapshot { index: saved.applied, term: 0, members };
        let mut log = Log { entries: VecDeque::new(), truncated, hard_state, applied, bytes: 0 };
        for (index, bytes) in &saved.entries {
            if *index != log.last() + 1 {
                return Err(Damaged(format!("entry {index} follows entry {}", log.last())));
            }
            log.push(decode_entry(*index, bytes)?);
        }
        log.check_order()?;
        log.applied.term = log.term(saved.applied).map_err(|e| Damaged(e.to_string()))?;
        Ok(log)
    }

    fn check_order(&self) -> Result<(), Damaged> {
        let (first, applied, commit, last) =
            (self.truncated.0, self.applied.index, self.hard_state.commit, self.last());
        if applied < first || commit > last {
            return Err(Damaged(format!(
                "compacted {first}, applied {applied}, committed {commit} and last {last} are out of order"
            )));
        }
        if last > 0 && self.applied.members.voters.is_empty() {
            return Err(Damaged(format!("the log goes to {last}, but there are no voters")));
        }
        Ok(())
    }

    pub fn last(&self) -> u64 {
        self.truncated.0 + self.entries.len() as u64
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev()
    }

    pub fn truncated(&self) -> (u64, u64) {
        self.truncated
    }

    pub fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    /// The index of the last change of members that is in memory; 0 if none is.
    pub fn last_change(&self) -> u64 {
        let mut newest = self.entries.iter().rev();
        newest.find(|entry| entry.entry_type != EntryType::EntryNormal).map_or(0, |entry| entry.index)
    }

    pub fn applied(&self) -> &Snapshot {
        &self.applied
    }

    pub fn set_applied(&mut self, index: u64, members: &Members) {
        assert!(
            index >= self.applied.index && index <= self.hard_state.commit,
            "what is applied is committed"
        );
        let term = self.term(index).expect("what is applied is in the log, or was compacted last");
        self.applied = Snapshot { index, term, members: members.clone() };
    }

    /// The snapshot takes the place of everything.
    pub fn install(&mut self, snapshot: &Snapshot) {
        assert!(snapshot.index >= self.hard_state.commit, "what is committed is not taken back");
        self.entries.clear();
        self.bytes = 0;
        self.truncated = (snapshot.index, snapshot.term);
        self.hard_state.commit = snapshot.index;
        self.applied = snapshot.clone();
    }

    /// The least index after which at most `budget_bytes` follow.
    pub fn fits(&self, budget_bytes: usize) -> u64 {
        let (mut index, mut bytes) = (self.truncated.0, self.bytes);
        for entry in &self.entries {
            if bytes <= budget_bytes {
                break;
            }
            bytes -= size(entry);
            index = entry.index;
        }
        index
    }

    /// Entries replace what they overlap: raft never overlaps what is committed.
    pub fn append(&mut self, entries: Vec<Entry>, hard_state: Option<HardState>) {
        if let Some(first) = entries.first() {
            assert!(first.index > self.hard_state.commit, "what is committed is not replaced");
            while self.last() >= first.index && !self.entries.is_empty() {
                self.bytes -= self.entries.pop_back().map_or(0, |e| size(&e));
            }
            assert_eq!(first.index, self.last() + 1, "new entries follow the log without a gap");
        }
        for entry in entries {
            self.push(entry);
        }
        if let Some(hs) = hard_state {
            let was = &self.hard_state;
            assert!(hs.term >= was.term && hs.commit >= was.commit, "terms and the commit index only grow");
            self.hard_state = hs;
        }
    }

    pub fn commit_to(&mut self, index: u64) {
        assert!(index >= self.hard_state.commit, "the commit index only grows");
        assert!(index <= self.last(), "what is committed is in the log");
        self.hard_state.commit = index;
    }

    pub fn compact(&mut self, index: u64, term: u64) {
        assert!(index <= self.applied.index, "only what is applied leaves the log");
        while self.truncated.0 < index {
            let Some(entry) = self.entries.pop_front() else { break };
            self.bytes -= size(&entry);
            self.truncated = (entry.index, term);
        }
    }

    fn push(&mut self, entry: Entry) {
        debug_assert_eq!(entry.index, self.last() + 1, "the log has no gaps");
        self.bytes += size(&entry);
        self.entries.push_back(entry);
    }

    fn position(&self, index: u64) -> raft_engine::Result<usize> {
        if index <= self.truncated.0 {
            Err(Error::Store(StorageError::Compacted))
        } else if index > self.last() {
            Err(Error::Store(StorageError::Unavailable))
        } else {
            Ok((index - self.truncated.0 - 1) as usize)
        }
    }
}

impl Storage for Log {
    fn initial_state(&self) -> raft_engine::Result<RaftState> {
        Ok(RaftState { hard_state: self.hard_state.clone(), conf_state: self.applied.members.conf_state() })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft_engine::Result<Vec<Entry>> {
        let from = self.position(low)?;
        let mut count = high.saturating_sub(low) as usize;
        if from + count > self.entries.len() {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let limit = max_size.into();
        if limit.is_some() {
            count = count.min(MAX_ENTRIES_PER_READ);
        }
        let limit = limit.unwrap_or(u64::MAX);
        let mut size = 0;
        let mut out = vec![];
        for entry in self.entries.iter().skip(from).take(count) {
            size += entry.data.len() as u64;
            if !out.is_empty() && size > limit {
                break;
            }
            out.push(entry.clone());
        }
        Ok(out)
    }

    fn term(&self, index: u64) -> raft_engine::Result<u64> {
        if index == self.truncated.0 {
            return Ok(self.truncated.1);
        }
        let at = self.position(index)?;
        self.entries.get(at).map(|e| e.term).ok_or(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft_engine::Result<u64> {
        Ok(self.truncated.0 + 1)
    }

    fn last_index(&self) -> raft_engine::Result<u64> {
        Ok(self.last())
    }

    /// Makes the engine wait for the snapshot's report; the message that it makes of this is not sent. A member that came after
    /// what is applied would refuse rows that do not know it.
    fn snapshot(&self, request_index: u64, to: u64) -> raft_engine::Result<EngineSnapshot> {
        if self.applied.members.contains(to) && self.applied.index >= request_index {
            Ok(self.applied.to_engine())
        } else {
            Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
        }
    }
}

fn size(entry: &Entry) -> usize {
    entry.data.len() + ENTRY_OVERHEAD_BYTES
}
