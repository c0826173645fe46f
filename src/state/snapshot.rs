//! Snapshots as a stream of bytes: every row of a view in the order of the keys, cut into chunks of a bounded size, and read again
//! from them whole, wherever they were cut.
//!
//! Refuses to know: who sends and receives it, and what a row means. Invariants: of a state, a row and a chunk are in memory at a
//! time; what is read has ascending keys, and the digest that was announced, or it is refused.

use super::digest::row_hash;
use super::fault::Fault;
use super::log_batch::Installation;
use super::tables::AppliedState;
use super::view::View;
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use wire::record::{self, DecodeError};

/// A row begins with the lengths of key and value.
const ROW_HEADER_BYTES: usize = 8;
/// No row is longer: a server that is alone takes no larger entry.
const MAX_ROW_BYTES: usize = 64 << 20;

/// What a snapshot's rows stand for, and how many bytes of a disk they take at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    pub index: u64,
    pub term: u64,
    /// The members as raft encodes them.
    pub members: Vec<u8>,
    /// Index, digest, and when each table changed last: `View::applied_state`.
    pub applied_state: Vec<u8>,
    pub bytes: u64,
}

impl SnapshotHeader {
    /// The applied state that the header announces, if it is of the header's index.
    pub(super) fn applied(&self) -> Result<AppliedState, Malformed> {
        let applied: AppliedState = record::decode(&self.applied_state).map_err(Malformed::AppliedState)?;
        if applied.index != self.index {
            return Err(Malformed::Index { applied: applied.index, header: self.index });
        }
        Ok(applied)
    }

    pub(super) fn installation(&self, applied: &AppliedState) -> Installation {
        Installation { index: self.index, term: self.term, digest: applied.digest }
    }
}

/// What came is no snapshot, or not the one that was announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    AppliedState(DecodeError),
    Index { applied: u64, header: u64 },
    Row { key: u64, value: u64 },
    Order,
    Cut { bytes: usize },
    Digest { found: u64, announced: u64 },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::AppliedState(e) => write!(f, "the snapshot's applied state cannot be read: {e}"),
            Malformed::Index { applied, header } => {
                write!(f, "the snapshot's applied state is of index {applied}, and not of {header}")
            }
            Malformed::Row { key, value } => {
                write!(f, "a row of the snapshot has a key of {key} and a value of {value} bytes")
            }
            Malformed::Order => f.write_str("the rows of the snapshot are not in order"),
            Malformed::Cut { bytes } => {
                write!(f, "the snapshot ends within a row, {bytes} bytes after its begin")
            }
            Malformed::Digest { found, announced } => {
                write!(f, "the rows of the snapshot have digest {found:016x}, and not {announced:016x}")
            }
        }
    }
}

impl std::error::Error for Malformed {}

/// Part of a snapshot's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotChunk {
    pub bytes: Vec<u8>,
    /// Nothing follows.
    pub last: bool,
}

/// Reads a view from its first row to its last. The view lives as long as this.
#[derive(Debug)]
pub struct SnapshotRows {
    view: View,
    /// The last key that was read.
    after: Option<Vec<u8>>,
    /// Bytes that were read and not handed out yet.
    ahead: Vec<u8>,
    all_read: bool,
}

impl SnapshotRows {
    pub fn new(view: View) -> SnapshotRows {
        SnapshotRows { view, after: None, ahead: vec![], all_read: false }
    }

    /// The next bytes: as many as asked for, or the last ones.
    pub fn next_chunk(&mut self, bytes: usize) -> Result<SnapshotChunk, Fault> {
        self.read_ahead(bytes)?;
        let length = self.ahead.len().min(bytes);
        let rest = self.ahead.split_off(length);
        let bytes = std::mem::replace(&mut self.ahead, rest);
        Ok(SnapshotChunk { bytes, last: self.all_read && self.ahead.is_empty() })
    }

    fn read_ahead(&mut self, bytes: usize) -> Result<(), Fault> {
        let start = self.after.as_deref().map_or(Unbounded, Excluded);
        let mut last = None;
        let mut rows = self.view.rows.range::<&[u8]>((start, Unbounded))?;
        while self.ahead.len() < bytes && !self.all_read {
            let Some(row) = rows.next() else {
                self.all_read = true;
                break;
            };
            let (key, value) = row?;
            put_row(&mut self.ahead, key.value(), value.value());
            last = Some(key.value().to_vec());
        }
        self.after = last.or(self.after.take());
        Ok(())
    }
}

fn put_row(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for part in [key, value] {
        let length = u32::try_from(part.len()).expect("redb has no longer keys and values");
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// Puts a snapshot's rows together again.
#[derive(Debug, Default)]
pub(super) struct RowParser {
    /// The begin of a row.
    rest: Vec<u8>,
    last_key: Option<Vec<u8>>,
    digest: u64,
}

impl RowParser {
    /// Hands out every row that `bytes` completes.
    pub fn take<E: From<Malformed>>(
        &mut self,
        bytes: &[u8],
        mut put: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((key, value, end)) = row_at(&self.rest, at)? {
            if self.last_key.as_deref().is_some_and(|last| last >= key) {
                return Err(Malformed::Order.into());
            }
            put(key, value)?;
            self.digest = self.digest.wrapping_add(row_hash(key, value));
            self.last_key = Some(key.to_vec());
            at = end;
        }
        self.rest.drain(..at);
        Ok(())
    }

    /// Whether every row came, and they are what was announced.
    pub fn finish(&self, announced: u64) -> Result<(), Malformed> {
        if !self.rest.is_empty() {
            return Err(Malformed::Cut { bytes: self.rest.len() });
        }
        if self.digest != announced {
            return Err(Malformed::Digest { found: self.digest, announced });
        }
        Ok(())
    }
}

/// Key, value and end of the row that begins there, once it is complete.
type Row<'a> = (&'a [u8], &'a [u8], usize);

fn row_at(bytes: &[u8], at: usize) -> Result<Option<Row<'_>>, Malformed> {
    let Some((header, _)) = bytes[at..].split_first_chunk::<ROW_HEADER_BYTES>() else { return Ok(None) };
    let [a, b, c, d, e, f, g, h] = *header;
    let (key, value) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize);
    if key.saturating_add(value) > MAX_ROW_BYTES {
        return Err(Malformed::Row { key: key as u64, value: value as u64 });
    }
    let (begin, middle) = (at + ROW_HEADER_BYTES, at + ROW_HEADER_BYTES + key);
    let end = middle + value;
    Ok((end <= bytes.len()).then(|| (&bytes[begin..middle], &bytes[middle..end], end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use crate::samples::{Region, eval, register, spec};

    type Rows = Vec<(Vec<u8>, Vec<u8>)>;

    fn sample() -> Region {
        let mut region = Region::default();
        region.ready_node(1);
        for n in 0..20 {
            let id = format!("job-{n}");
            region.run(&register(spec(&id, 2), Some(eval(n, &id))));
        }
        region
    }

    fn chunks(region: &Region, bytes: usize) -> Vec<SnapshotChunk> {
        let mut rows = SnapshotRows::new(region.view());
        let mut out = vec![rows.next_chunk(bytes).expect("reads")];
        while out.last().is_some_and(|chunk| !chunk.last) {
            out.push(rows.next_chunk(bytes).expect("reads"));
        }
        out
    }

    fn parse(parser: &mut RowParser, bytes: &[u8], rows: &mut Rows) -> Result<(), Malformed> {
        parser.take(bytes, |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(())
        })
    }

    #[test]
    fn rows_come_out_as_they_went_in_however_cut() {
        let region = sample();
        let wanted = check::rows(&region.view()).expect("reads");
        for bytes in [1, 7, 100, 4096, 1 << 20] {
            let chunks = chunks(&region, bytes);
            assert!(chunks.iter().all(|chunk| chunk.bytes.len() <= bytes), "a chunk is bounded");
            let (mut parser, mut found) = (RowParser::default(), Rows::new());
            for chunk in &chunks {
                parse(&mut parser, &chunk.bytes, &mut found).expect("is sound");
            }
            assert_eq!(parser.finish(region.view().digest()), Ok(()));
            assert!(found == wanted, "in chunks of {bytes} bytes");
        }
    }

    #[test]
    fn an_empty_state_is_one_empty_chunk() {
        let chunks = chunks(&Region::default(), 100);
        assert_eq!(chunks, [SnapshotChunk { bytes: vec![], last: true }]);
        assert_eq!(RowParser::default().finish(0), Ok(()));
    }

    #[test]
    fn a_lost_doubled_or_changed_chunk_is_found() {
        let region = sample();
        let chunks = chunks(&region, 1000);
        let digest = region.view().digest();
        let read = |order: &[usize], flipped: Option<usize>| {
            let (mut parser, mut rows) = (RowParser::default(), Rows::new());
            for n in order {
                let mut bytes = chunks[*n].bytes.clone();
                if let Some(at) = flipped {
                    bytes[at] ^= 1;
                }
                parse(&mut parser, &bytes, &mut rows)?;
            }
            parser.finish(digest)
        };
        let all: Vec<usize> = (0..chunks.len()).collect();
        assert!(all.len() > 4);
        assert_eq!(read(&all, None), Ok(()));
        assert!(read(&all[..all.len() - 1], None).is_err(), "its end is gone");
        assert!(read(&[&[0, 0], &all[1..]].concat(), None).is_err(), "its begin came twice");
        assert!(read(&[&all[..2], &all[3..]].concat(), None).is_err(), "a part is gone");
        for at in 0..chunks[1].bytes.len().min(60) {
            assert!(read(&all, Some(at)).is_err(), "byte {at}");
        }
    }

    #[test]
    fn lengths_that_no_row_has_are_refused_at_once() {
        let mut parser = RowParser::default();
        let huge = [&u32::MAX.to_le_bytes()[..], &u32::MAX.to_le_bytes()].concat();
        let refused = parse(&mut parser, &huge, &mut Rows::new());
        assert!(matches!(refused, Err(Malformed::Row { .. })), "{refused:?}");
    }

    #[test]
    fn an_applied_state_of_another_index_is_refused() {
        let applied_state = sample().view().applied_state();
        let header = |index| SnapshotHeader {
            index,
            term: 1,
            members: vec![],
            applied_state: applied_state.clone(),
            bytes: 0,
        };
        assert!(header(22).applied().is_ok());
        let refused = header(23).applied();
        assert_eq!(refused, Err(Malformed::Index { applied: 22, header: 23 }));
        assert!(matches!(
            SnapshotHeader { applied_state: vec![9], ..header(22) }.applied(),
            Err(Malformed::AppliedState(_))
        ));
    }
}
