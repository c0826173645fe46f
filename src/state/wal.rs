//! The log's two files, the segments: one is written at its end, the other keeps what went before it, until both change places.
//!
//! Refuses to know what its frames hold, and which of them are still needed. Invariants: a frame is acknowledged when it is
//! synced, and nothing of an acknowledged frame is written again before its segment is begun anew; what was acknowledged
//! and cannot be read is damage, what was not is the end of the log.
//!
//! A frame begins a page of its own: a sync writes no more than it must, and what a power cut tears is new. Its first bytes
//! are the mark of the frame before it, written there, without a sync, as soon as that one was acknowledged. So the last
//! frame's mark lies where the next frame will come, and costs no page. Frames of an earlier use of the file are told
//! apart by a salt in their sums.

use super::checksum::checksum;
use redb::StorageBackend;
use std::fmt;
use std::io;

/// What a disk writes at once, and what a frame begins with.
pub const PAGE_BYTES: u64 = 4096;

/// How much longer a segment is made at once.
const GROWTH_BYTES: u64 = 16 * PAGE_BYTES;

/// The first frame of a segment fits into a page and is there twice: with it everything behind it would be lost.
const HEADS: u64 = 2;

const MARK_BYTES: usize = 16;
pub const HEADER_BYTES: usize = MARK_BYTES + 8 + 24;

/// An acknowledged frame that is not what was written.
#[derive(Debug)]
struct Damaged {
    segment: usize,
    frame: u64,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damaged { segment, frame } = self;
        write!(f, "the log is damaged: frame {frame} of log.{segment} is not what was written there")
    }
}

impl std::error::Error for Damaged {}

/// A file of the log.
pub type WalFile = Box<dyn StorageBackend>;

pub struct Wal {
    media: [WalFile; 2],
    /// The size of the files. It is kept here rather than asked for: a file that was looked at since it was written has its new time stamped by the
    /// next write, and that would be a second block for each sync.
    lengths: [u64; 2],
    at: Position,
}

/// Where the next frame comes.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    segment: usize,
    /// How many segments were begun so far.
    generation: u64,
    salt: u64,
    /// In this segment.
    frame: u64,
    offset: u64,
}

/// What the segments hold, oldest first.
#[derive(Debug, Default)]
pub struct WalContents {
    /// The frames of the segment before the one that is written. Incomplete, or empty, when that one was being begun anew.
    pub before: Vec<Vec<u8>>,
    pub current: Vec<Vec<u8>>,
}

/// A segment's first frame.
struct Head {
    generation: u64,
    salt: u64,
    payload: Vec<u8>,
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)
    }
}

impl Wal {
    /// An empty log, whatever lies there. `first` is in its first frame.
    pub fn create(media: [WalFile; 2], salt: u64, first: &[u8]) -> io::Result<Wal> {
        media.iter().try_for_each(|m| m.set_len(0))?;
        let at = Position { segment: 1, ..Position::default() };
        let mut segments = Wal { media, lengths: [0, 0], at };
        segments.begin(salt, first)?;
        Ok(segments)
    }

    pub fn open(media: [WalFile; 2]) -> io::Result<(Wal, WalContents)> {
        let lengths = [media[0].len()?, media[1].len()?];
        if let Some(cut) = lengths.iter().position(|length| !length.is_multiple_of(GROWTH_BYTES)) {
            return Err(damaged(cut, 0));
        }
        let heads = [head(&*media[0])?, head(&*media[1])?];
        let newest = match &heads {
            [Some(a), Some(b)] if b.generation > a.generation => 1,
            [Some(_), _] => 0,
            [None, Some(_)] => 1,
            [None, None] => return Err(damaged(0, 0)),
        };
        let mut found = WalContents::default();
        let mut at = Position::default();
        for (segment, head) in heads.into_iter().enumerate() {
            let Some(head) = head else { continue };
            let (end, frames) = frames_of(&*media[segment], segment, head)?;
            match segment == newest {
                true => (at, found.current) = (end, frames),
                false => found.before = frames,
            }
        }
        if let Some(frame) = acknowledged(&*media[newest], at)? {
            return Err(damaged(newest, frame));
        }
        let mut segments = Wal { media, lengths, at };
        segments.acknowledge_all()?;
        Ok((segments, found))
    }

    /// What was found counts from now on: a kernel may not have it on the disk yet, and the last mark may be lost.
    fn acknowledge_all(&mut self) -> io::Result<()> {
        self.media[self.at.segment].sync_data()?;
        self.make_room(self.at.segment, self.at.offset + PAGE_BYTES)?;
        let medium = &self.media[self.at.segment];
        let mut mark = [0; MARK_BYTES];
        medium.read(self.at.offset, &mut mark)?;
        if mark == self.at.mark() { Ok(()) } else { medium.write(self.at.offset, &self.at.mark()) }
    }

    /// Written and synced: this frame is acknowledged when this returns.
    pub fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        assert!(self.at.frame > 0, "a segment begins with its head");
        assert!(self.at.offset.is_multiple_of(PAGE_BYTES), "a frame begins a page of its own");
        let frame = self.at.frame(payload);
        let end = self.at.offset + frame.len() as u64;
        // with room for the mark
        self.make_room(self.at.segment, end + PAGE_BYTES)?;
        let medium = &self.media[self.at.segment];
        medium.write(self.at.offset, &frame)?;
        medium.sync_data()?;
        self.at.frame += 1;
        self.at.offset = end;
        medium.write(end, &self.at.mark())
    }

    /// Makes the segment at least so long, and syncs that before anything lies there: a file of another length was cut. Zeros are
    /// written, too, so that a frame finds its blocks.
    fn make_room(&mut self, segment: usize, length: u64) -> io::Result<()> {
        let (medium, known) = (&self.media[segment], &mut self.lengths[segment]);
        while *known < length {
            medium.set_len(*known + GROWTH_BYTES)?;
            medium.sync_data()?;
            medium.write(*known, &vec![0; GROWTH_BYTES as usize])?;
            *known += GROWTH_BYTES;
        }
        Ok(())
    }

    /// The size of the segment that is written.
    pub fn bytes(&self) -> u64 {
        self.at.offset
    }

    /// Goes on in the other segment. What that one held is gone.
    pub fn begin(&mut self, salt: u64, payload: &[u8]) -> io::Result<()> {
        let (segment, generation) = (1 - self.at.segment, self.at.generation + 1);
        let mut at = Position { segment, generation, salt, frame: 0, offset: 0 };
        let salted = [&salt.to_le_bytes(), payload].concat();
        let head = at.frame(&salted);
        if head.len() as u64 > PAGE_BYTES {
            return Err(io::Error::other("the first frame of a segment is longer than a page"));
        }
        self.make_room(segment, (HEADS + 1) * PAGE_BYTES)?;
        let medium = &self.media[segment];
        medium.write(0, &head.repeat(HEADS as usize))?;
        medium.sync_data()?;
        (at.frame, at.offset) = (1, HEADS * PAGE_BYTES);
        medium.write(at.offset, &at.mark())?;
        self.at = at;
        Ok(())
    }
}

impl Position {
    /// The payload with what goes before it, to a page's end: mark, sum, generation, number, length.
    fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let bytes = (HEADER_BYTES + payload.len()).next_multiple_of(PAGE_BYTES as usize);
        let mut frame = Vec::with_capacity(bytes);
        frame.extend_from_slice(&self.mark());
        frame.extend_from_slice(&[0; 8]);
        for number in [self.generation, self.frame, payload.len() as u64] {
            frame.extend_from_slice(&number.to_le_bytes());
        }
        frame.extend_from_slice(payload);
        let sum = self.sum(&frame[MARK_BYTES + 8..]);
        frame[MARK_BYTES..MARK_BYTES + 8].copy_from_slice(&sum.to_le_bytes());
        frame.resize(bytes, 0);
        frame
    }

    /// A head tells its salt, so that its own sum is without.
    fn sum(&self, bytes: &[u8]) -> u64 {
        let salt = if self.frame == 0 { 0 } else { self.salt };
        checksum(salt, bytes)
    }

    /// Says that every frame before this one was acknowledged.
    fn mark(&self) -> [u8; MARK_BYTES] {
        let number = self.frame.to_le_bytes();
        let mut mark = [0; MARK_BYTES];
        mark[..8].copy_from_slice(&number);
        let of = [self.generation.to_le_bytes(), number].concat();
        mark[8..].copy_from_slice(&checksum(self.salt, &of).to_le_bytes());
        mark
    }
}

fn damaged(segment: usize, frame: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Damaged { segment, frame })
}

/// `None`: nothing was ever begun here, or it was not finished.
fn head(medium: &dyn StorageBackend) -> io::Result<Option<Head>> {
    for copy in 0..HEADS {
        let at = Position { offset: copy * PAGE_BYTES, ..Position::default() };
        let Some(found) = read_frame(medium, at)? else { continue };
        let Some((salt, payload)) = found.payload.split_first_chunk() else { continue };
        let (generation, salt) = (found.generation, u64::from_le_bytes(*salt));
        return Ok(Some(Head { generation, salt, payload: payload.to_vec() }));
    }
    Ok(None)
}

fn number_at(bytes: &[u8], place: usize) -> u64 {
    bytes[place..].first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

struct Frame {
    generation: u64,
    payload: Vec<u8>,
}

/// The frame that is to lie there, if it does and is whole. A head may be of any generation.
fn read_frame(medium: &dyn StorageBackend, at: Position) -> io::Result<Option<Frame>> {
    let left = medium.len()?.saturating_sub(at.offset);
    if left < PAGE_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; PAGE_BYTES as usize];
    medium.read(at.offset, &mut bytes)?;
    let number = |place: usize| number_at(&bytes, MARK_BYTES + 8 * place);
    let (sum, generation, frame, length) = (number(0), number(1), number(2), number(3));
    let is_it = frame == at.frame && (at.frame == 0 || generation == at.generation);
    if !is_it || length > left - HEADER_BYTES as u64 {
        return Ok(None);
    }
    let end = HEADER_BYTES + length as usize;
    let read = bytes.len();
    if end > read {
        bytes.resize(end, 0);
        medium.read(at.offset + read as u64, &mut bytes[read..])?;
    }
    bytes.truncate(end);
    if at.sum(&bytes[MARK_BYTES + 8..]) != sum {
        return Ok(None);
    }
    Ok(Some(Frame { generation, payload: bytes.split_off(HEADER_BYTES) }))
}

/// The frames of a segment, and the place behind the last one.
fn frames_of(
    medium: &dyn StorageBackend,
    segment: usize,
    head: Head,
) -> io::Result<(Position, Vec<Vec<u8>>)> {
    let Head { generation, salt, payload } = head;
    let mut at = Position { segment, generation, salt, frame: 1, offset: HEADS * PAGE_BYTES };
    let mut frames = vec![payload];
    while let Some(found) = read_frame(medium, at)? {
        let bytes = (HEADER_BYTES + found.payload.len()) as u64;
        at.offset += bytes.next_multiple_of(PAGE_BYTES);
        at.frame += 1;
        frames.push(found.payload);
    }
    Ok((at, frames))
}

/// A frame from `at` on of which a mark says that it was acknowledged.
fn acknowledged(medium: &dyn StorageBackend, at: Position) -> io::Result<Option<u64>> {
    let mut mark = [0; MARK_BYTES];
    let mut offset = at.offset + PAGE_BYTES;
    while offset + PAGE_BYTES <= medium.len()? {
        medium.read(offset, &mut mark)?;
        let frame = number_at(&mark, 0);
        if frame > at.frame && mark == (Position { frame, ..at }).mark() {
            return Ok(Some(at.frame));
        }
        offset += PAGE_BYTES;
    }
    Ok(None)
}
