//! A range of bytes with a memory of what was synced, and the faults that strike it. Refuses to know whether it is a disk
//! or a file.

use super::decay::Decay;
use crate::model::random::Stream;
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

/// One range of bytes on a disk: as processes see it, and as a power cut would find it.
#[derive(Debug)]
pub(super) struct Medium {
    /// As written. What a process reads has `decay` in it.
    seen: Vec<u8>,
    durable: Vec<u8>,
    decay: Decay,
    unsynced: Vec<Unsynced>,
    pub draws: Stream,
    pub counts: Counts,
    /// By sector: takes no more room when it is written again.
    allocated: Vec<bool>,
    /// Sectors that may still be allocated.
    pub room: Option<u64>,
    /// The next such operation fails, once.
    pub fails: Option<Option<Operation>>,
    /// The power fails at this operation.
    pub cut_at: Option<u64>,
    pub dead: bool,
    /// No fault strikes: somebody looks who is not of the world.
    pub held: bool,
}

impl Medium {
    pub fn new(seed: u64, image: Vec<u8>) -> Medium {
        Medium {
            durable: image.clone(),
            allocated: vec![true; image.len().div_ceil(SECTOR_BYTES)],
            seen: image,
            decay: Decay::default(),
            unsynced: Vec::new(),
            draws: Stream::new(seed, 0xd15c),
            counts: Counts::default(),
            room: None,
            fails: None,
            cut_at: None,
            dead: false,
            held: false,
        }
    }

    pub fn len(&self) -> u64 {
        self.seen.len() as u64
    }

    /// All of it, as a process would read it.
    pub fn contents(&self) -> Vec<u8> {
        let mut bytes = self.seen.clone();
        self.decay.show(0, &mut bytes);
        bytes
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

    pub fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.strike(Operation::Read)?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = start.checked_add(out.len()).and_then(|end| self.seen.get(start..end));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        if !self.held {
            self.decay.show(start, out);
        }
        Ok(())
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.strike(Operation::Write)?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        self.allocate(offset, data.len())?;
        put(&mut self.seen, offset, data);
        self.decay.written(offset..offset + data.len());
        self.counts.bytes_written += data.len() as u64;
        self.unsynced.push(Unsynced::Write { offset, data: data.to_vec() });
        self.advance()
    }

    pub fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.strike(Operation::SetLength)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.seen.resize(length, 0);
        self.allocated.truncate(length.div_ceil(SECTOR_BYTES));
        self.decay.shorten(length);
        self.unsynced.push(Unsynced::Length(length));
        self.advance()
    }

    pub fn sync(&mut self) -> io::Result<()> {
        self.strike(Operation::Sync)?;
        self.advance()?;
        self.counts.syncs += 1;
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
        self.decay.synced(places);
        Ok(())
    }

    /// Everything at once, synced. One that fails may have happened all the same.
    pub fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let struck = self.strike(Operation::Write);
        if struck.is_err() && (self.dead || self.one_in(2)) {
            return struck;
        }
        self.counts.bytes_written += bytes.len() as u64;
        self.counts.syncs += 1;
        self.unsynced.clear();
        self.seen = bytes.to_vec();
        self.durable = bytes.to_vec();
        self.decay.mend();
        struck
    }

    fn allocate(&mut self, offset: usize, bytes: usize) -> io::Result<()> {
        let sectors = offset / SECTOR_BYTES..(offset + bytes).div_ceil(SECTOR_BYTES);
        if self.allocated.len() < sectors.end {
            self.allocated.resize(sectors.end, false);
        }
        let fresh = self.allocated[sectors.clone()].iter().filter(|a| !**a).count() as u64;
        if let Some(room) = &mut self.room {
            if *room < fresh {
                self.counts.refused_for_space += 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            *room -= fresh;
        }
        self.allocated[sectors].fill(true);
        Ok(())
    }

    pub fn cut_power(&mut self) {
        if self.dead {
            return;
        }
        let kept_percent = [0, 20, 50, 80, 100][self.draws.below(5) as usize];
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Unsynced::Length(length) => {
                    if self.draws.below(100) < kept_percent.max(50) {
                        self.durable.resize(length, 0);
                    }
                }
                Unsynced::Write { offset, data } => self.keep_some(offset, &data, kept_percent),
            }
        }
        self.seen.clone_from(&self.durable);
        self.decay.cut_power();
        self.counts.power_cuts += 1;
        self.cut_at = None;
        self.dead = true;
    }

    fn keep_some(&mut self, offset: usize, data: &[u8], kept_percent: u64) {
        let (mut at, mut kept, mut lost) = (0, 0, 0);
        while at < data.len() {
            let bytes = (SECTOR_BYTES - (offset + at) % SECTOR_BYTES).min(data.len() - at);
            if self.draws.below(100) < kept_percent {
                put(&mut self.durable, offset + at, &data[at..at + bytes]);
                self.decay.kept(offset + at..offset + at + bytes);
                kept += 1;
            } else {
                lost += 1;
            }
            at += bytes;
        }
        self.counts.sectors_lost += lost;
        self.counts.writes_torn += u64::from(kept > 0 && lost > 0);
    }

    pub fn power_on(&mut self) {
        self.dead = false;
    }

    pub fn heal(&mut self) {
        self.room = None;
        self.fails = None;
        self.cut_at = None;
    }

    /// Flips bits of sectors that were written.
    pub fn rot(&mut self, bits: u64) {
        self.rot_below(usize::MAX, bits);
    }

    /// The same, of bytes before `end` alone.
    pub fn rot_below(&mut self, end: usize, bits: u64) {
        let written: Vec<usize> = (0..self.allocated.len().min(end.div_ceil(SECTOR_BYTES)))
            .filter(|sector| self.allocated[*sector])
            .collect();
        for _ in 0..bits {
            let Some(sector) = written.get(self.draws.below(written.len().max(1) as u64) as usize) else {
                return;
            };
            let start = sector * SECTOR_BYTES;
            let at = start + self.draws.below(SECTOR_BYTES.min(end - start) as u64) as usize;
            let bit = 1 << self.draws.below(8);
            self.rot_at(at, bit);
        }
    }

    pub fn rot_at(&mut self, at: usize, bits: u8) {
        let there = at < self.seen.len().max(self.durable.len());
        self.counts.bits_rotten += u64::from(there && self.decay.flip(at, bits));
    }

    pub fn is_rotten(&self) -> bool {
        self.decay.is_any()
    }

    /// The bytes are again what was written.
    pub fn mend(&mut self) {
        self.decay.mend();
    }

    /// What is rotten now was opened and found good: it stays as it is.
    pub fn settle(&mut self) {
        let images = [&mut self.seen, &mut self.durable];
        for (image, bits) in images.into_iter().zip(self.decay.settle()) {
            for (at, mask) in bits {
                if let Some(byte) = image.get_mut(at) {
                    *byte ^= mask;
                }
            }
        }
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
