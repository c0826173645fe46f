//! Log batches, each a record of what one turn appends to the log, and the state of the log after its batches are replayed.
//!
//! Refuses to know where batches lie, and what an entry says. Invariant: an entry is left out only when the state holds what
//! it did: of the compactions that the log knows, the last one that the state has reached counts. The newest batch that names
//! the state's file decides which one it is.

use super::fault::Fault;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

/// Index and bytes.
pub type Entry = (u64, Vec<u8>);

/// What one turn wants on the disk. Entries are opaque.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogBatch {
    /// Entries from here on are removed first. They must not be applied.
    pub truncate_from: Option<u64>,
    /// Entries in order and without gaps. They replace what the log has from the first one's index on.
    #[serde(serialize_with = "serialize_entries")]
    pub entries: Vec<Entry>,
    pub hard_state: Option<Vec<u8>>,
    pub conf_state: Option<Vec<u8>>,
    /// Entries up to and with this index, of this term, are no longer needed. They must be applied.
    pub compact_to: Option<(u64, u64)>,
    /// A snapshot takes the place of the state and of every entry before this batch. `conf_state` holds its members.
    pub install: Option<Installation>,
    /// The file that holds the state from here on: of an installation, and of a segment's first batch. Before the first of
    /// them, it is 0.
    pub slot: Option<u8>,
    /// The raft id of the log's server, in a segment's first batch: so an id is never without its log.
    pub server_id: Option<u64>,
}

/// What the state began with in a file that a snapshot was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    pub index: u64,
    pub term: u64,
    /// The sum over its rows.
    pub digest: u64,
}

wire::records! {
    LogBatch = "log batch" 1;
    Installation = "installation" 1;
}

/// Encodes as serde would, but each entry's bytes at once instead of one by one.
fn serialize_entries<S: Serializer>(entries: &[Entry], serializer: S) -> Result<S::Ok, S::Error> {
    struct EntryBytes<'a>(&'a [u8]);
    impl Serialize for EntryBytes<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }
    let mut seq = serializer.serialize_seq(Some(entries.len()))?;
    for (index, bytes) in entries {
        seq.serialize_element(&(index, EntryBytes(bytes)))?;
    }
    seq.end()
}

impl LogBatch {
    pub fn is_empty(&self) -> bool {
        *self == LogBatch::default()
    }

    /// The first index whose entry this batch removes or replaces.
    fn replaced_from(&self) -> Option<u64> {
        self.truncate_from.into_iter().chain(self.entries.first().map(|(index, _)| *index)).min()
    }
}

/// A log that is read again, batch by batch.
#[derive(Debug, Default)]
pub struct Replay {
    pub entries: Vec<Entry>,
    pub hard_state: Option<Vec<u8>>,
    pub conf_state: Option<Vec<u8>>,
    /// The newest installation, if the log still has one.
    pub install: Option<Installation>,
    pub slot: u8,
    pub server_id: Option<u64>,
    compactions: Vec<(u64, u64)>,
}

impl Replay {
    /// A log whose first batch is this one.
    pub fn of_new(head: LogBatch) -> Replay {
        let mut replay = Replay::default();
        replay.add(head);
        replay
    }

    pub fn add(&mut self, batch: LogBatch) {
        if batch.install.is_some() {
            self.entries.clear();
            self.compactions.clear();
            self.install = batch.install;
        }
        self.slot = batch.slot.unwrap_or(self.slot);
        self.server_id = batch.server_id.or(self.server_id);
        if let Some(from) = batch.replaced_from() {
            let kept = self.entries.partition_point(|(index, _)| *index < from);
            self.entries.truncate(kept);
        }
        self.entries.extend(batch.entries);
        self.hard_state = batch.hard_state.or(self.hard_state.take());
        self.conf_state = batch.conf_state.or(self.conf_state.take());
        self.compactions.extend(batch.compact_to);
    }

    /// Whether nothing was ever written but the first batch of the first segment.
    pub fn is_new(&self) -> bool {
        let Replay { entries, hard_state, conf_state, install, slot, server_id: _, compactions } = self;
        let nothing = entries.is_empty() && hard_state.is_none() && conf_state.is_none();
        nothing && install.is_none() && *slot == 0 && compactions.is_empty()
    }

    pub fn last_index(&self) -> Option<u64> {
        self.entries.last().map(|(index, _)| *index)
    }

    /// Leaves out the entries up to the newest compaction that the state has reached, and gives that. The rest must follow it without
    /// gaps.
    pub fn compact(&mut self, applied: u64) -> Result<Option<(u64, u64)>, Fault> {
        let installed = self.install.map(|i| (i.index, i.term));
        let compactions = self.compactions.iter().copied().chain(installed);
        let cut = compactions.filter(|(index, _)| *index <= applied).max();
        let start = cut.map_or(0, |(index, _)| index);
        self.entries.retain(|(index, _)| *index > start);
        for ((index, _), wanted) in self.entries.iter().zip(start + 1..) {
            if *index != wanted {
                return Err(Fault::corrupt(format!(
                    "the log lacks entry {wanted}, and goes on with {index}"
                )));
            }
        }
        let last = start + self.entries.len() as u64;
        if applied > last {
            return Err(Fault::corrupt(format!("entry {applied} is applied, but the log ends with {last}")));
        }
        Ok(cut)
    }
}
