//! The log's tail in memory, as the engine's storage: everything that is not yet compacted. Knows nothing of disks;
//! what it is given was made durable by the caller.

use super::{Damaged, decode_entry, decode_hard_state, decoded, encoded};
use raft_engine::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft_engine::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use std::collections::VecDeque;

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

pub struct Log {
    /// The entries from index `truncated.0 + 1` on.
    entries: VecDeque<Entry>,
    truncated: (u64, u64),
    hard_state: HardState,
    conf_state: ConfState,
    bytes: usize,
}

impl Log {
    pub fn restore(id: u64, saved: Saved) -> Result<Log, Damaged> {
        let conf_state = match &saved.conf_state {
            Some(bytes) => decoded("members", bytes)?,
            None => ConfState::from((vec![id], vec![])),
        };
        let mut hard_state =
            saved.hard_state.as_deref().map(decode_hard_state).transpose()?.unwrap_or_default();
        // what is applied was committed: that was not stored again
        hard_state.commit = hard_state.commit.max(saved.applied);
        let truncated = saved.truncated.unwrap_or_default();
        let mut log = Log { entries: VecDeque::new(), truncated, hard_state, conf_state, bytes: 0 };
        for (index, bytes) in &saved.entries {
            if *index != log.last() + 1 {
                return Err(Damaged(format!("entry {index} follows entry {}", log.last())));
            }
            log.push(decode_entry(*index, bytes)?);
        }
        let (first, commit) = (log.truncated.0, log.hard_state.commit);
        if saved.applied < first || commit > log.last() {
            return Err(Damaged(format!(
                "compacted {first}, applied {}, committed {commit} and last {} are out of order",
                saved.applied,
                log.last()
            )));
        }
        Ok(log)
    }

    pub fn last(&self) -> u64 {
        self.truncated.0 + self.entries.len() as u64
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn voters(&self) -> &[u64] {
        &self.conf_state.voters
    }

    pub fn encoded_conf_state(&self) -> Vec<u8> {
        encoded(&self.conf_state)
    }

    /// Entries replace what they overlap: raft never overlaps what is committed.
    pub fn append(&mut self, entries: Vec<Entry>, hard_state: Option<HardState>) {
        if let Some(first) = entries.first() {
            assert!(first.index > self.hard_state.commit, "what is committed is not replaced");
            while self.last() >= first.index && !self.entries.is_empty() {
                self.bytes -= self.entries.pop_back().map_or(0, |e| e.data.len());
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
        assert!(index <= self.hard_state.commit, "only what is committed leaves the log");
        while self.truncated.0 < index {
            let Some(entry) = self.entries.pop_front() else { break };
            self.bytes -= entry.data.len();
            self.truncated = (entry.index, term);
        }
    }

    fn push(&mut self, entry: Entry) {
        debug_assert_eq!(entry.index, self.last() + 1, "the log has no gaps");
        self.bytes += entry.data.len();
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
        Ok(RaftState { hard_state: self.hard_state.clone(), conf_state: self.conf_state.clone() })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft_engine::Result<Vec<Entry>> {
        let from = self.position(low)?;
        let count = high.saturating_sub(low) as usize;
        if from + count > self.entries.len() {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let limit = max_size.into().unwrap_or(u64::MAX);
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

    /// Only asked for by a leader whose follower lags behind the compaction: with one voter there is none.
    fn snapshot(&self, _request_index: u64, _to: u64) -> raft_engine::Result<Snapshot> {
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
