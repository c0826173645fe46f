//! The checksumming layer between redb and the medium, so that no store answers from corrupted bytes. Opening verifies every
//! page of the committed trees by redb's own checksums; from then on a sum of each page, of what was last read as good or
//! written, is kept in memory, and each read from the medium is held against it.
//!
//! Refuses to know: rows, and what anyone does about damage. Invariants: an opening that fails has changed nothing, for the
//! headers that redb writes on its way stay in memory until all is verified; after it, nothing that does not match its
//! sum is given to redb; a commit that the medium has acknowledged is never taken back by an opening: its header
//! says so (redb's mark of a two-phase commit: "this commit was on the disk before it counted"), and then redb refuses to
//! fall back to the commit before it. A commit that was cut off has no such mark, and is taken back as ever. The header
//! itself ends in a seal, written with it in one sector: one that does not fit its seal is not given to redb, which would
//! look for an older commit in it.

use super::checksum::checksum;
use redb::{Database, DatabaseError, StorageBackend};
use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// redb's page. 8 bytes of memory for each: 2 KiB for each MiB of a store.
const PAGE_BYTES: usize = 4096;

/// redb's header, of its file format 3. It is read and written as a whole.
const HEADER_BYTES: usize = 320;
const FLAGS_AT: usize = 9;
const TWO_PHASE: u8 = 4;
/// The header and, in bytes that redb does not use, its sum.
const SEALED_BYTES: usize = HEADER_BYTES + 8;

/// Bytes that are not what was last known of them.
#[derive(Debug)]
struct DamagedPage {
    from: u64,
}

impl fmt::Display for DamagedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.from + PAGE_BYTES as u64 - 1;
        write!(f, "the store is damaged: bytes {} to {last} are not what was written there", self.from)
    }
}

impl std::error::Error for DamagedPage {}

fn damaged(page: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, DamagedPage { from: (page * PAGE_BYTES) as u64 })
}

/// Whether the error tells of bytes that are not what they must be, and not of a medium that failed.
pub(super) fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => true,
        redb::Error::Io(e) => matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof),
        _ => false,
    }
}

/// Opens or creates the database on `medium`, after every page that it can reach was verified.
pub fn open(medium: impl StorageBackend, cache_bytes: usize) -> Result<Database, DatabaseError> {
    let verified = Arc::new(ChecksummedFile { medium, known: Mutex::default() });
    let database = redb::Builder::new()
        .set_cache_size(cache_bytes)
        .set_check_integrity_on_open(true)
        .create_with_backend(Backend(verified.clone()))?;
    if let Err(e) = verified.finish_open() {
        // or dropping the database would close it in good order, by a commit on a header that was never written
        lock(&verified.known).given_up = true;
        return Err(redb::StorageError::from(e).into());
    }
    Ok(database)
}

/// What is known of the medium's bytes.
#[derive(Debug, Default)]
struct PageChecksums {
    /// By page. `None`: not known, so not to be read once the store is open.
    sums: Vec<Option<NonZeroU64>>,
    /// redb has verified what it can reach. Until then what is read is only remembered.
    opened: bool,
    /// The first page as redb wrote it while the store was being opened.
    unwritten: Option<Vec<u8>>,
    /// The flags of the header when it was last written.
    flags: Option<u8>,
    /// The opening failed at its last step: nothing more reaches the medium.
    given_up: bool,
}

#[derive(Debug)]
struct ChecksummedFile<M> {
    medium: M,
    known: Mutex<PageChecksums>,
}

/// The storage that redb is given.
#[derive(Debug)]
struct Backend<M>(Arc<ChecksummedFile<M>>);

fn lock(known: &Mutex<PageChecksums>) -> MutexGuard<'_, PageChecksums> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PageChecksums {
    /// Holds a page that was read against what is known of it.
    fn verify(&mut self, page: usize, bytes: &[u8]) -> io::Result<()> {
        match self.sums.get(page).copied().flatten() {
            Some(sum) if sum == sum_of(bytes) => Ok(()),
            None if !self.opened => {
                self.remember(page, Some(sum_of(bytes)));
                Ok(())
            }
            _ => Err(damaged(page)),
        }
    }

    fn remember(&mut self, page: usize, sum: Option<NonZeroU64>) {
        if self.sums.len() <= page {
            self.sums.resize(page + 1, None);
        }
        self.sums[page] = sum;
    }
}

fn sum_of(bytes: &[u8]) -> NonZeroU64 {
    NonZeroU64::new(checksum(0, bytes)).unwrap_or(NonZeroU64::MAX)
}

fn page_and_offset(offset: u64) -> io::Result<(usize, usize)> {
    let offset = usize::try_from(offset).map_err(io::Error::other)?;
    Ok((offset / PAGE_BYTES, offset % PAGE_BYTES))
}

impl<M: StorageBackend> ChecksummedFile<M> {
    /// Every page that was verified is good: the pages are made durable, and then the header that redb wrote meanwhile.
    fn finish_open(&self) -> io::Result<()> {
        self.write_unacknowledged_pages()?;
        let header = lock(&self.known).unwritten.clone();
        if let Some(header) = header.as_deref().and_then(|page| page.get(..HEADER_BYTES)) {
            self.medium.sync_data()?;
            self.write_within(&mut lock(&self.known), (0, 0), header)?;
            self.medium.sync_data()?;
        }
        let mut known = lock(&self.known);
        known.unwritten = None;
        known.opened = true;
        Ok(())
    }

    /// The sync of the last commit may have failed: then a kernel forgets what it was to write, shows it all the same, and calls
    /// the next sync good. So, unless the header says that it was synced, all pages in use are written again.
    fn write_unacknowledged_pages(&self) -> io::Result<()> {
        let mut flags = [TWO_PHASE];
        if self.medium.len()? > 0 {
            self.medium.read(FLAGS_AT as u64, &mut flags)?;
        }
        if flags[0] & TWO_PHASE != 0 {
            return Ok(());
        }
        let mut known = lock(&self.known);
        let in_use: Vec<usize> = (1..known.sums.len()).filter(|page| known.sums[*page].is_some()).collect();
        for page in in_use {
            let bytes = self.page(&mut known, page)?;
            self.medium.write((page * PAGE_BYTES) as u64, &bytes)?;
        }
        self.medium.sync_data()
    }

    /// The whole page, verified.
    fn page(&self, known: &mut PageChecksums, page: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; PAGE_BYTES];
        self.medium.read((page * PAGE_BYTES) as u64, &mut bytes)?;
        known.verify(page, &bytes)?;
        Ok(bytes)
    }

    fn read_within(&self, (page, at): (usize, usize), out: &mut [u8]) -> io::Result<()> {
        let mut known = lock(&self.known);
        let bytes = match known.unwritten.clone().filter(|_| page == 0) {
            Some(unwritten) => unwritten,
            None => self.page(&mut known, page)?,
        };
        if page == 0 && known.unwritten.is_none() && !is_sealed(&bytes) {
            return Err(damaged(page));
        }
        out.copy_from_slice(bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// Whole pages. Between the two steps nobody else writes them: a page that is read is never written before its readers
    /// have gone.
    fn write_pages(&self, first: usize, offset: u64, data: &[u8]) -> io::Result<()> {
        let pages = || (first..).zip(data.chunks_exact(PAGE_BYTES));
        pages().for_each(|(page, _)| lock(&self.known).remember(page, None));
        self.medium.write(offset, data)?;
        pages().for_each(|(page, bytes)| lock(&self.known).remember(page, Some(sum_of(bytes))));
        Ok(())
    }

    /// Some bytes of one page, which is what redb does with its header alone.
    fn write_within(
        &self,
        known: &mut PageChecksums,
        (page, at): (usize, usize),
        data: &[u8],
    ) -> io::Result<()> {
        let mut bytes = self.page(known, page)?;
        overlay(&mut bytes, at, data)?;
        known.remember(page, None);
        if page == 0 {
            let seal = sum_of(&bytes[..HEADER_BYTES]).get().to_le_bytes();
            bytes[HEADER_BYTES..SEALED_BYTES].copy_from_slice(&seal);
            known.flags = bytes.get(FLAGS_AT).copied();
            self.medium.write(0, &bytes[..SEALED_BYTES])?;
        } else {
            self.medium.write((page * PAGE_BYTES + at) as u64, data)?;
        }
        known.remember(page, Some(sum_of(&bytes)));
        Ok(())
    }

    /// While the store is being opened.
    fn keep_unwritten(&self, known: &mut PageChecksums, at: usize, data: &[u8]) -> io::Result<()> {
        let mut bytes = match known.unwritten.take() {
            Some(unwritten) => unwritten,
            None => self.page(known, 0)?,
        };
        overlay(&mut bytes, at, data)?;
        known.unwritten = Some(bytes);
        Ok(())
    }

    /// Marks the header's commit as one that is on the disk. The mark is not synced: a power cut that loses it costs nothing but the
    /// proof.
    fn mark_acknowledged(&self) -> io::Result<()> {
        let mut known = lock(&self.known);
        match known.flags {
            Some(flags) if flags & TWO_PHASE == 0 => {
                self.write_within(&mut known, (0, FLAGS_AT), &[flags | TWO_PHASE])
            }
            _ => Ok(()),
        }
    }
}

fn overlay(page: &mut [u8], at: usize, data: &[u8]) -> io::Result<()> {
    let neither = || io::Error::other("a write that is neither whole pages nor within one");
    page.get_mut(at..at + data.len()).ok_or_else(neither)?.copy_from_slice(data);
    Ok(())
}

impl<M: StorageBackend> Backend<M> {
    fn verified(&self) -> io::Result<&ChecksummedFile<M>> {
        match lock(&self.0.known).given_up {
            true => Err(io::Error::other("the store was not opened")),
            false => Ok(&self.0),
        }
    }
}

impl<M: StorageBackend> StorageBackend for Backend<M> {
    fn len(&self) -> io::Result<u64> {
        self.verified()?.medium.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (first, at) = page_and_offset(offset)?;
        let verified = self.verified()?;
        if at > 0 || !out.len().is_multiple_of(PAGE_BYTES) {
            return verified.read_within((first, at), out);
        }
        verified.medium.read(offset, out)?;
        let mut known = lock(&verified.known);
        (first..).zip(out.chunks_exact(PAGE_BYTES)).try_for_each(|(page, bytes)| known.verify(page, bytes))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let verified = self.verified()?;
        verified.medium.set_len(length)?;
        let (pages, _) = page_and_offset(length)?;
        lock(&verified.known).sums.truncate(pages);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let verified = self.verified()?;
        if !lock(&verified.known).opened {
            return Ok(());
        }
        verified.medium.sync_data()?;
        verified.mark_acknowledged()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let verified = self.verified()?;
        let (page, at) = page_and_offset(offset)?;
        if at == 0 && data.len().is_multiple_of(PAGE_BYTES) {
            return verified.write_pages(page, offset, data);
        }
        let mut known = lock(&verified.known);
        match page {
            0 if !known.opened => verified.keep_unwritten(&mut known, at, data),
            _ => verified.write_within(&mut known, (page, at), data),
        }
    }

    fn close(&self) -> io::Result<()> {
        self.0.medium.close()
    }
}

/// A first page without any seal is of a store that another program made, or empty.
fn is_sealed(first_page: &[u8]) -> bool {
    let (header, rest) = first_page.split_at(HEADER_BYTES);
    let seal = rest.first_chunk().map_or(0, |seal| u64::from_le_bytes(*seal));
    seal == 0 || seal == sum_of(header).get()
}
