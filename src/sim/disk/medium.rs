//! Files with a memory of what was synced, and the faults that strike them together. Refuses to know what they are for.

use super::bit_rot::BitRot;
use model::random::Stream;
use std::io;
use std::ops::Range;

/// What a disk writes as a whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

/// What has happened to a disk or a file so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes, changes of length and syncs.
    pub operations: u64,
    pub bytes_written: u64,
    pub syncs: u64,
    pub power_cuts: u64,
    /// Unsynced sectors that a power cut lost.
    pub sectors_lost: u64,
    /// Writes of which a power cut lost some sectors and kept others.
    pub writes_torn: u64,
    pub refused_for_space: u64,
    pub errors: u64,
    /// Syncs that failed and forgot what they were to make durable.
    pub syncs_forgotten: u64,
    pub bits_rotten: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    SetLength,
    Sync,
}

#[derive(Debug)]
enum Unsynced {
    Write { offset: usize, data: Vec<u8> },
    Length(usize),
}

/// One file: as processes see it, and as a power cut would find it.
#[derive(Debug, Default)]
struct File {
    /// As written. What a process reads has `bit_rot` in it.
    visible: Vec<u8>,
    durable: Vec<u8>,
    bit_rot: BitRot,
    unsynced: Vec<Unsynced>,
    /// By sector: takes no more room when it is written again.
    allocated: Vec<bool>,
}

/// Files that one power cut finds.
#[derive(Debug)]
pub(super) struct Medium {
    files: Vec<File>,
    pub draws: Stream,
    pub counts: Counts,
    /// Sectors that may still be allocated.
    pub room: Option<u64>,
    /// The next such operation fails, once.
    pub fails: Option<Option<Operation>>,
    /// How many syncs that have something to do are left until one fails and forgets it; 0: none will.
    pub forgets_in: u64,
    /// The power fails at this operation.
    pub cut_at: Option<u64>,
    pub dead: bool,
    /// No fault strikes: somebody looks who is not of the world.
    pub held: bool,
}

impl File {
    fn new(image: Vec<u8>) -> File {
        File {
            durable: image.clone(),
            allocated: vec![true; image.len().div_ceil(SECTOR_BYTES)],
            visible: image,
            ..File::default()
        }
    }

    fn sync(&mut self) {
        let mut places: Vec<Range<usize>> = Vec::new();
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Unsynced::Length(length) => self.durable.resize(length, 0),
                Unsynced::Write { offset, data } => {
                    put(&mut self.durable, offset, &data);
                    places.push(offset..offset + data.len());
                }
            }
        }
        self.bit_rot.synced(places);
    }

    /// A failed sync: what was written is as good as synced to the kernel, and on no disk. A file's length is not lost: that would take its
    /// file system along. `cached`: processes go on reading what was written.
    fn forget(&mut self, cached: bool) {
        self.unsynced.retain(|change| matches!(change, Unsynced::Length(_)));
        if !cached {
            let length = self.visible.len();
            self.visible.clone_from(&self.durable);
            self.visible.resize(length, 0);
            self.bit_rot.forget_unsynced(length);
        }
    }

    fn cut_power(&mut self, kept_percent: u64, draws: &mut Stream, counts: &mut Counts) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Unsynced::Length(length) => {
                    if draws.below(100) < kept_percent.max(50) {
                        self.durable.resize(length, 0);
                    }
                }
                Unsynced::Write { offset, data } => {
                    let (kept, lost) = self.keep_some(offset, &data, kept_percent, draws);
                    counts.sectors_lost += lost;
                    counts.writes_torn += u64::from(kept > 0 && lost > 0);
                }
            }
        }
        self.visible.clone_from(&self.durable);
        self.bit_rot.cut_power();
    }

    /// Sectors kept and lost.
    fn keep_some(&mut self, offset: usize, data: &[u8], kept_percent: u64, draws: &mut Stream) -> (u64, u64) {
        let (mut at, mut kept, mut lost) = (0, 0, 0);
        while at < data.len() {
            let bytes = (SECTOR_BYTES - (offset + at) % SECTOR_BYTES).min(data.len() - at);
            if draws.below(100) < kept_percent {
                put(&mut self.durable, offset + at, &data[at..at + bytes]);
                self.bit_rot.kept(offset + at..offset + at + bytes);
                kept += 1;
            } else {
                lost += 1;
            }
            at += bytes;
        }
        (kept, lost)
    }

    fn settle(&mut self) {
        let images = [&mut self.visible, &mut self.durable];
        for (image, bits) in images.into_iter().zip(self.bit_rot.settle()) {
            for (at, mask) in bits {
                if let Some(byte) = image.get_mut(at) {
                    *byte ^= mask;
                }
            }
        }
    }

    fn rot_at(&mut self, at: usize, bits: u8) -> bool {
        let there = at < self.visible.len().max(self.durable.len());
        there && self.bit_rot.flip(at, bits)
    }
}

impl Medium {
    pub fn new(seed: u64, images: Vec<Vec<u8>>) -> Medium {
        Medium {
            files: images.into_iter().map(File::new).collect(),
            draws: Stream::new(seed, 0xd15c),
            counts: Counts::default(),
            room: None,
            fails: None,
            forgets_in: 0,
            cut_at: None,
            dead: false,
            held: false,
        }
    }

    pub fn free_bytes(&self) -> u64 {
        self.room.map_or(u64::MAX, |sectors| sectors * SECTOR_BYTES as u64)
    }

    pub fn len(&self, file: usize) -> u64 {
        self.files[file].visible.len() as u64
    }

    /// All of it, as a process would read it.
    pub fn contents(&self, file: usize) -> Vec<u8> {
        let file = &self.files[file];
        let mut bytes = file.visible.clone();
        file.bit_rot.show(0, &mut bytes);
        bytes
    }

    pub fn images(&self) -> Vec<Vec<u8>> {
        (0..self.files.len()).map(|file| self.contents(file)).collect()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.draws.below(n) == 0
    }

    /// Whether this operation is the one that fails.
    fn strike(&mut self, operation: Operation) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("the power is off"));
        }
        if self.held {
            return Ok(());
        }
        if self.fails.is_some_and(|f| f.is_none_or(|o| o == operation)) {
            self.fails = None;
            self.counts.errors += 1;
            return Err(io::Error::other("simulated I/O error"));
        }
        Ok(())
    }

    /// Counts an operation; at the one that the power does not survive, it may have got half-way.
    fn advance(&mut self) -> io::Result<()> {
        self.counts.operations += 1;
        if !self.held && self.cut_at.is_some_and(|at| self.counts.operations >= at) {
            self.cut_power();
            return Err(io::Error::other("the power failed"));
        }
        Ok(())
    }

    pub fn read(&mut self, file: usize, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.strike(Operation::Read)?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let file = &self.files[file];
        let bytes = start.checked_add(out.len()).and_then(|end| file.visible.get(start..end));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        if !self.held {
            file.bit_rot.show(start, out);
        }
        Ok(())
    }

    pub fn write(&mut self, file: usize, offset: u64, data: &[u8]) -> io::Result<()> {
        self.strike(Operation::Write)?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        self.allocate(file, offset, data.len())?;
        let file = &mut self.files[file];
        put(&mut file.visible, offset, data);
        file.bit_rot.written(offset..offset + data.len());
        self.counts.bytes_written += data.len() as u64;
        file.unsynced.push(Unsynced::Write { offset, data: data.to_vec() });
        self.advance()
    }

    pub fn set_length(&mut self, file: usize, length: u64) -> io::Result<()> {
        self.strike(Operation::SetLength)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let file = &mut self.files[file];
        file.visible.resize(length, 0);
        let freed = file.allocated.iter().skip(length.div_ceil(SECTOR_BYTES)).filter(|a| **a).count();
        file.allocated.truncate(length.div_ceil(SECTOR_BYTES));
        self.room = self.room.map(|room| room + freed as u64);
        file.bit_rot.shorten(length);
        file.unsynced.push(Unsynced::Length(length));
        self.advance()
    }

    pub fn sync(&mut self, file: usize) -> io::Result<()> {
        self.strike(Operation::Sync)?;
        self.advance()?;
        if self.forgets_now(file) {
            return Err(self.forget(file));
        }
        self.counts.syncs += 1;
        self.files[file].sync();
        Ok(())
    }

    fn forgets_now(&mut self, file: usize) -> bool {
        if self.held || self.forgets_in == 0 || self.files[file].unsynced.is_empty() {
            return false;
        }
        self.forgets_in -= 1;
        self.forgets_in == 0
    }

    fn forget(&mut self, file: usize) -> io::Error {
        self.counts.syncs_forgotten += 1;
        let cached = self.one_in(2);
        self.files[file].forget(cached);
        io::Error::other("simulated failure of a sync, which forgets")
    }

    /// Everything of the only file at once, written beside it, synced, and renamed: for a while there are two. One that fails may have
    /// happened all the same, unless there was no room.
    pub fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let struck = self.strike(Operation::Write);
        if struck.is_err() && (self.dead || self.one_in(2)) {
            return struck;
        }
        self.make_room_for_another(bytes.len())?;
        self.counts.bytes_written += bytes.len() as u64;
        self.counts.syncs += 1;
        let file = &mut self.files[0];
        file.unsynced.clear();
        file.visible = bytes.to_vec();
        file.durable = bytes.to_vec();
        file.allocated = vec![true; bytes.len().div_ceil(SECTOR_BYTES)];
        file.bit_rot.mend();
        struck
    }

    /// Room for a second file as long as this, and then without the first.
    fn make_room_for_another(&mut self, bytes: usize) -> io::Result<()> {
        let Some(room) = &mut self.room else { return Ok(()) };
        let needed = bytes.div_ceil(SECTOR_BYTES) as u64;
        if *room < needed {
            self.counts.refused_for_space += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let freed = self.files[0].allocated.iter().filter(|a| **a).count() as u64;
        *room = *room - needed + freed;
        Ok(())
    }

    fn allocate(&mut self, file: usize, offset: usize, bytes: usize) -> io::Result<()> {
        let allocated = &mut self.files[file].allocated;
        let sectors = offset / SECTOR_BYTES..(offset + bytes).div_ceil(SECTOR_BYTES);
        if allocated.len() < sectors.end {
            allocated.resize(sectors.end, false);
        }
        let fresh = allocated[sectors.clone()].iter().filter(|a| !**a).count() as u64;
        if let Some(room) = &mut self.room {
            if *room < fresh {
                self.counts.refused_for_space += 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            *room -= fresh;
        }
        allocated[sectors].fill(true);
        Ok(())
    }

    pub fn cut_power(&mut self) {
        if self.dead {
            return;
        }
        let kept_percent = [0, 20, 50, 80, 100][self.draws.below(5) as usize];
        for file in &mut self.files {
            file.cut_power(kept_percent, &mut self.draws, &mut self.counts);
        }
        self.counts.power_cuts += 1;
        self.cut_at = None;
        self.dead = true;
    }

    pub fn power_on(&mut self) {
        self.dead = false;
    }

    pub fn heal(&mut self) {
        self.room = None;
        self.fails = None;
        self.forgets_in = 0;
        self.cut_at = None;
    }

    /// Flips bits of sectors that were written, of any file.
    pub fn rot(&mut self, bits: u64) {
        self.rot_sectors(self.files.len(), usize::MAX, bits);
    }

    /// The same, of the first file's bytes before `end` alone.
    pub fn rot_below(&mut self, end: usize, bits: u64) {
        self.rot_sectors(1, end, bits);
    }

    fn rot_sectors(&mut self, files: usize, end: usize, bits: u64) {
        let mut written: Vec<(usize, usize)> = Vec::new();
        for (n, file) in self.files.iter().take(files).enumerate() {
            let sectors = 0..file.allocated.len().min(end.div_ceil(SECTOR_BYTES));
            written.extend(sectors.filter(|sector| file.allocated[*sector]).map(|sector| (n, sector)));
        }
        for _ in 0..bits {
            let draw = self.draws.below(written.len().max(1) as u64) as usize;
            let Some((file, sector)) = written.get(draw).copied() else { return };
            let start = sector * SECTOR_BYTES;
            let at = start + self.draws.below(SECTOR_BYTES.min(end - start) as u64) as usize;
            let bit = 1 << self.draws.below(8);
            self.rot_at(file, at, bit);
        }
    }

    pub fn rot_at(&mut self, file: usize, at: usize, bits: u8) {
        self.counts.bits_rotten += u64::from(self.files[file].rot_at(at, bits));
    }

    pub fn is_rotten(&self) -> bool {
        self.files.iter().any(|file| file.bit_rot.is_any())
    }

    /// The bytes are again what was written.
    pub fn mend(&mut self) {
        self.files.iter_mut().for_each(|file| file.bit_rot.mend());
    }

    /// What is rotten now was opened and found good: it stays as it is.
    pub fn settle(&mut self) {
        self.files.iter_mut().for_each(File::settle);
    }
}

/// Whole sectors in this many bytes.
pub(super) fn sectors(bytes: u64) -> u64 {
    bytes / SECTOR_BYTES as u64
}

/// Writes, and lengthens with zeros if it must.
fn put(image: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if end > image.len() {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(data);
}
