//! What one turn puts into the log, as a record, and what a log's batches amount to when they are read again.
//!
//! Refuses to know where batches lie, and what an entry says. Invariant: an entry is left out only when the state holds what
//! it did: of the cuts that the log knows, the last one that the state has reached counts.

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
    /// In order and without gaps. They replace what the log has from the first one's index on.
    #[serde(serialize_with = "in_one_piece")]
    pub entries: Vec<Entry>,
    pub hard_state: Option<Vec<u8>>,
    pub conf_state: Option<Vec<u8>>,
    /// Entries up to and with this index, of this term, are no longer needed. They must be applied.
    pub compact_to: Option<(u64, u64)>,
}

wire::records! {
    LogBatch = "log batch" 1;
}

/// The same bytes as serde's own way, which takes them one by one.
fn in_one_piece<S: Serializer>(entries: &[Entry], serializer: S) -> Result<S::Ok, S::Error> {
    struct Piece<'a>(&'a [u8]);
    impl Serialize for Piece<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }
    let mut seq = serializer.serialize_seq(Some(entries.len()))?;
    for (index, bytes) in entries {
        seq.serialize_element(&(index, Piece(bytes)))?;
    }
    seq.end()
}

impl LogBatch {
    pub fn is_empty(&self) -> bool {
        *self == LogBatch::default()
    }

    /// Entries from here on are not what they were.
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
    cuts: Vec<(u64, u64)>,
}

impl Replay {
    pub fn add(&mut self, batch: LogBatch) {
        if let Some(from) = batch.replaced_from() {
            let kept = self.entries.partition_point(|(index, _)| *index < from);
            self.entries.truncate(kept);
        }
        self.entries.extend(batch.entries);
        self.hard_state = batch.hard_state.or(self.hard_state.take());
        self.conf_state = batch.conf_state.or(self.conf_state.take());
        self.cuts.extend(batch.compact_to);
    }

    pub fn last_index(&self) -> Option<u64> {
        self.entries.last().map(|(index, _)| *index)
    }

    /// Leaves out what the state has and nobody needs, and gives the cut before which that was. What is left must follow it
    /// without gaps.
    pub fn cut(&mut self, applied: u64) -> Result<Option<(u64, u64)>, Fault> {
        let cut = self.cuts.iter().copied().filter(|(index, _)| *index <= applied).max();
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
