//! The write-ahead log: two segment files. One is appended to, the other holds the entries before it; when the first is full, they swap.
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

/// The least by which a segment is made longer at once, and the most: as much as it has, in between.
const GROWTH_BYTES: u64 = 16 * PAGE_BYTES;
const MOST_GROWTH_BYTES: u64 = 4 * GROWTH_BYTES;

/// The first frame of a segment fits into a page and is there twice: with it everything behind it would be lost.
const HEAD_COPIES: u64 = 2;

const MARK_BYTES: usize = 16;
pub const HEADER_BYTES: usize = MARK_BYTES + 8 + 24;

/// An acknowledged frame that is not what was written.
#[derive(Debug)]
struct DamagedFrame {
    segment: usize,
    frame: u64,
}

impl fmt::Display for DamagedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DamagedFrame { segment, frame } = self;
        write!(f, "the log is damaged: frame {frame} of log.{segment} is not what was written there")
    }
}

impl std::error::Error for DamagedFrame {}

/// A file of the log.
pub type WalFile = Box<dyn StorageBackend>;

pub struct Wal {
    files: [WalFile; 2],
    /// The size of the files, kept rather than asked for: a file that was looked at since it was written has its new time stamped by the
    /// next write, and that would be a second block for each sync.
    lengths: [u64; 2],
    at: WalPosition,
}

/// Where the next frame comes.
#[derive(Clone, Copy, Debug, Default)]
struct WalPosition {
    segment: usize,
    /// How many segments were begun so far.
    generation: u64,
    salt: u64,
    /// The frame's number in this segment.
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

/// A log as it was read.
#[derive(Debug)]
pub struct WalFound {
    pub contents: WalContents,
    lengths: [u64; 2],
    at: WalPosition,
}

/// A segment's first frame.
struct SegmentHead {
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
    /// Creates an empty log over whatever the files hold. `first` is in its first frame.
    pub fn create(files: [WalFile; 2], salt: u64, first: &[u8]) -> io::Result<Wal> {
        files.iter().try_for_each(|m| m.set_len(0))?;
        let at = WalPosition { segment: 1, ..WalPosition::default() };
        let mut wal = Wal { files, lengths: [0, 0], at };
        wal.begin_segment(salt, first)?;
        Ok(wal)
    }

    pub fn open(files: [WalFile; 2]) -> io::Result<(Wal, WalContents)> {
        let found = Wal::scan(&files)?;
        Wal::resume(files, found)
    }

    /// Reads the whole log, and writes nothing.
    pub fn scan(files: &[WalFile; 2]) -> io::Result<WalFound> {
        let lengths = [files[0].len()?, files[1].len()?];
        if let Some(cut) = lengths.iter().position(|length| !length.is_multiple_of(GROWTH_BYTES)) {
            return Err(damaged(cut, 0));
        }
        let heads = [head(&*files[0])?, head(&*files[1])?];
        let newest = match &heads {
            [Some(a), Some(b)] if b.generation > a.generation => 1,
            [Some(_), _] => 0,
            [None, Some(_)] => 1,
            [None, None] => return Err(damaged(0, 0)),
        };
        let mut contents = WalContents::default();
        let mut at = WalPosition::default();
        let generation = heads[newest].as_ref().map_or(0, |head| head.generation);
        for (segment, head) in heads.into_iter().enumerate() {
            let Some(head) = head else {
                if begun_after(&*files[segment], generation)? {
                    return Err(damaged(segment, 0));
                }
                continue;
            };
            let (end, frames) = frames_of(&*files[segment], segment, head)?;
            match segment == newest {
                true => (at, contents.current) = (end, frames),
                false => contents.before = frames,
            }
        }
        if let Some(frame) = acknowledged(&*files[newest], at)? {
            return Err(damaged(newest, frame));
        }
        Ok(WalFound { contents, lengths, at })
    }

    /// False when nothing was ever acknowledged here: creating the log was cut off, or it is not created yet.
    pub fn was_begun(files: &[WalFile; 2]) -> io::Result<bool> {
        let first = &files[0];
        let is_cut = !first.len()?.is_multiple_of(GROWTH_BYTES);
        if is_cut || files[1].len()? > 0 || head(&**first)?.is_some() {
            return Ok(true);
        }
        let behind_head = HEAD_COPIES * PAGE_BYTES;
        let mut bytes = vec![0; first.len()?.saturating_sub(behind_head) as usize];
        if !bytes.is_empty() {
            first.read(behind_head, &mut bytes)?;
        }
        Ok(bytes.iter().any(|byte| *byte != 0))
    }

    /// Continues a log behind its last frame.
    pub fn resume(files: [WalFile; 2], found: WalFound) -> io::Result<(Wal, WalContents)> {
        let WalFound { contents, lengths, at } = found;
        let mut wal = Wal { files, lengths, at };
        if let Some(last) = contents.current.last() {
            wal.acknowledge_all(last)?;
        }
        Ok((wal, contents))
    }

    /// Makes durable what was found, since it counts from now on. The last frame is written again unless a mark says that it was synced:
    /// a kernel whose sync has failed forgets what it was to write, shows it all the same, and calls the next sync good.
    fn acknowledge_all(&mut self, last_payload: &[u8]) -> io::Result<()> {
        let at = self.at;
        self.allocate(at.segment, at.offset + PAGE_BYTES)?;
        let medium = &self.files[at.segment];
        let mut mark = [0; MARK_BYTES];
        medium.read(at.offset, &mut mark)?;
        if mark == at.mark() {
            return medium.sync_data();
        }
        let (offset, frame) = at.last_frame(last_payload);
        medium.write(offset, &frame)?;
        medium.sync_data()?;
        medium.write(at.offset, &at.mark())
    }

    /// Writes and syncs a frame: it is acknowledged when this returns.
    pub fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        assert!(self.at.frame > 0, "a segment begins with its head");
        assert!(self.at.offset.is_multiple_of(PAGE_BYTES), "a frame begins a page of its own");
        let frame = self.at.frame(payload);
        let end = self.at.offset + frame.len() as u64;
        // with room for the mark
        self.allocate(self.at.segment, end + PAGE_BYTES)?;
        let file = &self.files[self.at.segment];
        file.write(self.at.offset, &frame)?;
        file.sync_data()?;
        self.at.frame += 1;
        self.at.offset = end;
        file.write(end, &self.at.mark())
    }

    /// Makes the segment at least so long, and syncs that before anything lies there: a file of another length was cut. Zeros are
    /// written, too, so that a frame finds its blocks.
    fn allocate(&mut self, segment: usize, length: u64) -> io::Result<()> {
        let (file, known) = (&self.files[segment], &mut self.lengths[segment]);
        assert!(known.is_multiple_of(GROWTH_BYTES), "a file grows by whole steps: another length is a cut");
        while *known < length {
            let growth = (*known).clamp(GROWTH_BYTES, MOST_GROWTH_BYTES);
            file.set_len(*known + growth)?;
            file.sync_data()?;
            file.write(*known, &vec![0; growth as usize])?;
            *known += growth;
        }
        Ok(())
    }

    /// The size of the segment that is written.
    pub fn bytes(&self) -> u64 {
        self.at.offset
    }

    /// Begins the other segment anew: what it held is lost.
    pub fn begin_segment(&mut self, salt: u64, payload: &[u8]) -> io::Result<()> {
        let (segment, generation) = (1 - self.at.segment, self.at.generation + 1);
        let mut at = WalPosition { segment, generation, salt, frame: 0, offset: 0 };
        let head = at.head(payload);
        if head.len() as u64 > PAGE_BYTES {
            return Err(io::Error::other("the first frame of a segment is longer than a page"));
        }
        self.allocate(segment, (HEAD_COPIES + 1) * PAGE_BYTES)?;
        let file = &self.files[segment];
        file.write(0, &head.repeat(HEAD_COPIES as usize))?;
        file.sync_data()?;
        (at.frame, at.offset) = (1, HEAD_COPIES * PAGE_BYTES);
        file.write(at.offset, &at.mark())?;
        self.at = at;
        Ok(())
    }
}

impl WalPosition {
    /// A segment's first frame, once.
    fn head(&self, payload: &[u8]) -> Vec<u8> {
        self.frame(&[&self.salt.to_le_bytes(), payload].concat())
    }

    /// Where the frame before this position begins, and its bytes. A head is there as often as it was written.
    fn last_frame(&self, payload: &[u8]) -> (u64, Vec<u8>) {
        assert!(self.frame > 0, "before a segment's head there is no frame");
        let last = WalPosition { frame: self.frame - 1, ..*self };
        let bytes = match last.frame {
            0 => last.head(payload).repeat(HEAD_COPIES as usize),
            _ => last.frame(payload),
        };
        (self.offset - bytes.len() as u64, bytes)
    }

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
    io::Error::new(io::ErrorKind::InvalidData, DamagedFrame { segment, frame })
}

/// `None`: nothing was ever begun here, or it was not finished.
fn head(file: &dyn StorageBackend) -> io::Result<Option<SegmentHead>> {
    for copy in 0..HEAD_COPIES {
        let at = WalPosition { offset: copy * PAGE_BYTES, ..WalPosition::default() };
        let Some(found) = read_frame(file, at)? else { continue };
        let Some((salt, payload)) = found.payload.split_first_chunk() else { continue };
        let (generation, salt) = (found.generation, u64::from_le_bytes(*salt));
        return Ok(Some(SegmentHead { generation, salt, payload: payload.to_vec() }));
    }
    Ok(None)
}

/// Whether a segment without a head is newer than this generation. One that was being begun anew has older frames, or none.
fn begun_after(file: &dyn StorageBackend, generation: u64) -> io::Result<bool> {
    let second_frame = HEAD_COPIES * PAGE_BYTES;
    if file.len()? < second_frame + PAGE_BYTES {
        return Ok(false);
    }
    let mut header = [0; HEADER_BYTES];
    file.read(second_frame, &mut header)?;
    Ok(read_u64(&header, MARK_BYTES + 16) == 1 && read_u64(&header, MARK_BYTES + 8) > generation)
}

fn read_u64(bytes: &[u8], place: usize) -> u64 {
    bytes[place..].first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

struct WalFrame {
    generation: u64,
    payload: Vec<u8>,
}

/// The frame that is to lie there, if one does and is whole. A head may be of any generation.
fn read_frame(file: &dyn StorageBackend, at: WalPosition) -> io::Result<Option<WalFrame>> {
    let left = file.len()?.saturating_sub(at.offset);
    if left < PAGE_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; PAGE_BYTES as usize];
    file.read(at.offset, &mut bytes)?;
    let number = |place: usize| read_u64(&bytes, MARK_BYTES + 8 * place);
    let (sum, generation, frame, length) = (number(0), number(1), number(2), number(3));
    let is_it = frame == at.frame && (at.frame == 0 || generation == at.generation);
    if !is_it || length > left - HEADER_BYTES as u64 {
        return Ok(None);
    }
    let end = HEADER_BYTES + length as usize;
    let read = bytes.len();
    if end > read {
        bytes.resize(end, 0);
        file.read(at.offset + read as u64, &mut bytes[read..])?;
    }
    bytes.truncate(end);
    if at.sum(&bytes[MARK_BYTES + 8..]) != sum {
        return Ok(None);
    }
    Ok(Some(WalFrame { generation, payload: bytes.split_off(HEADER_BYTES) }))
}

/// The frames of a segment, and the place behind the last one.
fn frames_of(
    file: &dyn StorageBackend,
    segment: usize,
    head: SegmentHead,
) -> io::Result<(WalPosition, Vec<Vec<u8>>)> {
    let SegmentHead { generation, salt, payload } = head;
    let mut at = WalPosition { segment, generation, salt, frame: 1, offset: HEAD_COPIES * PAGE_BYTES };
    let mut frames = vec![payload];
    while let Some(found) = read_frame(file, at)? {
        let bytes = (HEADER_BYTES + found.payload.len()) as u64;
        at.offset += bytes.next_multiple_of(PAGE_BYTES);
        at.frame += 1;
        frames.push(found.payload);
    }
    Ok((at, frames))
}

/// A frame from `at` on of which a mark says that it was acknowledged.
fn acknowledged(file: &dyn StorageBackend, at: WalPosition) -> io::Result<Option<u64>> {
    let mut mark = [0; MARK_BYTES];
    let mut offset = at.offset + PAGE_BYTES;
    while offset + PAGE_BYTES <= file.len()? {
        file.read(offset, &mut mark)?;
        let frame = read_u64(&mark, 0);
        if frame > at.frame && mark == (WalPosition { frame, ..at }).mark() {
            return Ok(Some(at.frame));
        }
        offset += PAGE_BYTES;
    }
    Ok(None)
}
