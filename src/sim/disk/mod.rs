//! Simulated disks: bytes that outlive the process that wrote them, lose what was not synced when the power fails, run
//! full, and answer with errors. `SimDisk` carries a database, the two files of a log and the slot of another database through
//! redb's `StorageBackend`;
//! `SimFile` is one append-only file.
//!
//! Refuses to know what the bytes mean. Invariants: a seed and a sequence of operations decide every byte; what a sync
//! acknowledged is there after any power cut; of what was not synced, each 512-byte sector of each write is kept or lost
//! by itself, so that writes come back torn and out of order. A sync may fail in two ways: its writes stay unsynced, or the
//! kernel forgets them, may go on showing them to readers, and acknowledges the next sync, as Linux does.

mod bit_rot;
mod medium;

use medium::Medium;
pub use medium::{Counts, Operation};
use state::store::StoreFiles;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// On a `SimDisk`: a database, the files of its log, and the slot for a snapshot.
const FILES: usize = 4;
/// The place of that slot.
const SECOND_SLOT: usize = 3;

/// A disk with one database on it. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    medium: Medium,
    /// The generation of the process that may use the disk: an earlier one's backend is refused.
    life: u64,
}

impl SimDisk {
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::with_images(seed, vec![Vec::new(); FILES])
    }

    /// A disk that holds what `images` gave, all of it durable.
    pub fn with_images(seed: u64, images: Vec<Vec<u8>>) -> SimDisk {
        let shared = Shared { medium: Medium::new(seed, images), life: 0 };
        SimDisk { shared: Arc::new(Mutex::new(shared)) }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a process that starts now. What earlier ones hold is refused from here on.
    pub fn backend(&self) -> SimBackend {
        SimBackend { life: self.detach(), file: 0, shared: self.shared.clone() }
    }

    /// The same, for a server.
    pub fn media(&self) -> StoreFiles<SimBackend> {
        let life = self.detach();
        let file = |file| SimBackend { life, file, shared: self.shared.clone() };
        let disk = file(0);
        StoreFiles {
            state: [file(0), file(SECOND_SLOT)],
            log: [1, 2].map(|n| Box::new(file(n)) as _),
            free_bytes: Box::new(move || disk.on(|m| Ok(m.free_bytes()))),
        }
    }

    /// The process is killed: what it wrote stays, unsynced things too, but it can write no more. To be called before
    /// its store is dropped, or dropping would close it in good order. Gives the number of the next life.
    pub fn detach(&self) -> u64 {
        let mut shared = self.lock();
        shared.life += 1;
        shared.life
    }

    /// Now. Unsynced sectors are kept or lost; everything fails until `power_on`.
    pub fn cut_power(&self) {
        self.lock().medium.cut_power();
    }

    /// At the n-th write, change of length or sync from now (1: the next one), which may get half-way.
    pub fn cut_power_after(&self, operations: u64) {
        let medium = &mut self.lock().medium;
        medium.cut_at = Some(medium.counts.operations + operations.max(1));
    }

    pub fn is_dead(&self) -> bool {
        self.lock().medium.dead
    }

    /// After a power cut. Needs a new `backend`.
    pub fn power_on(&self) {
        let mut shared = self.lock();
        shared.life += 1;
        shared.medium.power_on();
    }

    /// Lets nothing fail while somebody looks who is not of the world.
    pub fn hold_faults(&self, held: bool) {
        self.lock().medium.held = held;
    }

    /// The next operation of any kind fails, once.
    pub fn fail_next(&self) {
        self.lock().medium.fails = Some(None);
    }

    /// The next operation of this kind fails, once.
    pub fn fail_next_of(&self, operation: Operation) {
        self.lock().medium.fails = Some(Some(operation));
    }

    /// The n-th sync from now that has something to do fails (1: the next one), and what was unsynced in its file never becomes durable.
    pub fn forget_at_sync(&self, n: u64) {
        self.lock().medium.forgets_in = n;
    }

    /// Room for this many bytes that were never written before; `None`: room for all.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.lock().medium.room = bytes.map(medium::sectors);
    }

    /// What it still takes.
    pub fn free_bytes(&self) -> u64 {
        self.lock().medium.free_bytes()
    }

    /// Takes back every fault that has not struck yet.
    pub fn heal(&self) {
        self.lock().medium.heal();
    }

    /// Flips bits, anywhere.
    pub fn rot(&self, bits: u64) {
        self.lock().medium.rot(bits);
    }

    /// Flips bits of the first `end` bytes.
    pub fn rot_below(&self, end: usize, bits: u64) {
        self.lock().medium.rot_below(end, bits);
    }

    /// Flips these bits of one byte of the database.
    pub fn rot_at(&self, at: usize, bits: u8) {
        self.rot_of(0, at, bits);
    }

    /// The same, of any file: 0 is the database until a snapshot was installed.
    pub fn rot_of(&self, file: usize, at: usize, bits: u8) {
        self.lock().medium.rot_at(file, at, bits);
    }

    pub fn is_rotten(&self) -> bool {
        self.lock().medium.is_rotten()
    }

    /// What was written is put back where it has rotted. Not under a process that lives: it may hold rotten bytes, of a part
    /// of a page that nobody uses, for good. What one still holds is refused from here on.
    pub fn mend(&self) {
        let mut shared = self.lock();
        shared.life += 1;
        shared.medium.mend();
    }

    /// A process has opened what lies here: what is rotten and was borne counts as written.
    pub fn settle(&self) {
        self.lock().medium.settle();
    }

    pub fn counts(&self) -> Counts {
        self.lock().medium.counts
    }

    /// What a process would read of the database now.
    pub fn image(&self) -> Vec<u8> {
        self.lock().medium.contents(0)
    }

    /// And of all files: the database, then the log's, then the second slot.
    pub fn images(&self) -> Vec<Vec<u8>> {
        self.lock().medium.images()
    }
}

/// One process's hold on a `SimDisk`.
#[derive(Debug)]
pub struct SimBackend {
    shared: Arc<Mutex<Shared>>,
    life: u64,
    file: usize,
}

impl SimBackend {
    fn on<T>(&self, act: impl FnOnce(&mut Medium) -> io::Result<T>) -> io::Result<T> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.life != self.life {
            return Err(io::Error::other("the process that opened this is gone"));
        }
        act(&mut shared.medium)
    }
}

impl redb::StorageBackend for SimBackend {
    fn len(&self) -> io::Result<u64> {
        self.on(|m| Ok(m.len(self.file)))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.on(|m| m.read(self.file, offset, out))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.on(|m| m.set_length(self.file, length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.on(|m| m.sync(self.file))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.on(|m| m.write(self.file, offset, data))
    }
}

/// An append-only file. It is open for as long as it exists: a process that dies just stops using it.
#[derive(Debug)]
pub struct SimFile {
    medium: Medium,
}

impl SimFile {
    pub fn new(seed: u64) -> SimFile {
        SimFile { medium: Medium::new(seed, vec![Vec::new()]) }
    }

    /// As a process would read it now.
    pub fn contents(&self) -> Vec<u8> {
        self.medium.contents(0)
    }

    pub fn size_bytes(&self) -> u64 {
        self.medium.len(0)
    }

    pub fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium.read(0, offset, out)
    }

    /// A write that fails may leave a part of itself behind.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.medium.write(0, self.size_bytes(), bytes);
        if written.is_err() && !self.medium.dead {
            let part = self.medium.draws.below(bytes.len() as u64 + 1) as usize;
            self.medium.write(0, self.size_bytes(), &bytes[..part])?;
        }
        written
    }

    pub fn sync(&mut self) -> io::Result<()> {
        self.medium.sync(0)
    }

    /// Cuts off what a failed append left behind.
    pub fn shorten(&mut self, length: u64) -> io::Result<()> {
        self.medium.set_length(0, length)
    }

    pub fn is_dead(&self) -> bool {
        self.medium.dead
    }

    /// At the n-th write, change of length or sync from now (1: the next one), which may get half-way.
    pub fn cut_power_after(&mut self, operations: u64) {
        self.medium.cut_at = Some(self.medium.counts.operations + operations.max(1));
    }

    /// The next operation of this kind fails, once.
    pub fn fail_next_of(&mut self, operation: Operation) {
        self.medium.fails = Some(Some(operation));
    }

    /// The next sync that has something to do fails, and what was unsynced never becomes durable.
    pub fn forget_at_next_sync(&mut self) {
        self.medium.forgets_in = 1;
    }

    /// A new file under the old name: written, synced, renamed. One that fails may have happened all the same.
    pub fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.medium.replace(bytes)
    }

    /// Unsynced sectors are kept or lost; the file can be used again at once.
    pub fn cut_power(&mut self) {
        self.medium.cut_power();
        self.medium.power_on();
    }

    /// The next operation fails, once.
    pub fn fail_next(&mut self) {
        self.medium.fails = Some(None);
    }

    /// Room for this many bytes more; `None`: room for all.
    pub fn set_room(&mut self, bytes: Option<u64>) {
        self.medium.room = bytes.map(medium::sectors);
    }

    pub fn rot(&mut self, bits: u64) {
        self.medium.rot(bits);
    }

    pub fn heal(&mut self) {
        self.medium.heal();
    }

    pub fn counts(&self) -> Counts {
        self.medium.counts
    }
}

#[cfg(test)]
mod tests {
    use super::medium::SECTOR_BYTES;
    use super::*;
    use redb::StorageBackend;

    fn filled(disk: &SimDisk) -> SimBackend {
        let backend = disk.backend();
        backend.set_len(8192).expect("has room");
        backend.write(0, &[1; 4096]).expect("has room");
        backend.sync_data().expect("syncs");
        backend.write(2048, &[2; 4096]).expect("has room");
        backend
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_tears_the_rest() {
        let (mut torn, mut lost, mut whole) = (0, 0, 0);
        for seed in 0..100 {
            let disk = SimDisk::new(seed);
            let backend = filled(&disk);
            disk.cut_power();
            assert!(disk.is_dead() && backend.len().is_ok() && backend.read(0, &mut [0]).is_err());
            disk.power_on();
            assert!(backend.len().is_err(), "an earlier life has no disk");
            let image = disk.image();
            assert_eq!((image.len(), &image[..2048]), (8192, &[1; 2048][..]));
            let sectors: Vec<_> = image[2048..6144].chunks(SECTOR_BYTES).collect();
            assert!(sectors.iter().all(|s| s.iter().all(|b| *b == s[0])), "sectors are whole");
            match sectors.iter().filter(|s| s[0] == 2).count() {
                0 => lost += 1,
                8 => whole += 1,
                _ => torn += 1,
            }
            let again = SimDisk::new(seed);
            filled(&again);
            again.cut_power();
            assert_eq!(again.image(), image, "a seed decides");
        }
        assert!(torn > 20 && lost > 5 && whole > 5, "{torn} torn, {lost} lost, {whole} whole");
    }

    #[test]
    fn faults_strike_once_and_where_they_were_ordered() {
        let disk = SimDisk::new(1);
        let backend = filled(&disk);
        disk.fail_next_of(Operation::Sync);
        assert!(
            backend.read(0, &mut [0]).is_ok() && backend.sync_data().is_err() && backend.sync_data().is_ok()
        );
        disk.fail_next();
        assert!(backend.read(0, &mut [0]).is_err() && backend.read(0, &mut [0]).is_ok());
        disk.set_room(Some(1024));
        assert!(backend.write(100, &[3; 5000]).is_ok(), "written before");
        assert!(backend.write(6144, &[3; 1024]).is_ok());
        let full = backend.write(7168, &[3; 1]).map_err(|e| e.kind());
        assert_eq!(full, Err(io::ErrorKind::StorageFull));
        disk.heal();
        assert!(backend.write(7168, &[3; 1]).is_ok());
        disk.cut_power_after(2);
        assert!(backend.write(0, &[4]).is_ok() && !disk.is_dead());
        assert!(backend.sync_data().is_err() && disk.is_dead());
        disk.settle();
        let before = disk.image();
        disk.rot(3);
        let flipped: u32 = before.iter().zip(disk.image()).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!((1..=3).contains(&flipped));
        let counts = disk.counts();
        assert_eq!((counts.power_cuts, counts.errors, counts.refused_for_space), (1, 2, 1));
    }

    #[test]
    fn a_failed_sync_forgets_what_later_syncs_do_not_bring_back() {
        let (mut cached, mut gone) = (0, 0);
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            let backend = filled(&disk);
            disk.forget_at_sync(1);
            assert!(backend.sync_data().is_err() && backend.sync_data().is_ok());
            match disk.image()[2048] {
                2 => cached += 1,
                _ => gone += 1,
            }
            disk.cut_power();
            assert_eq!((disk.image().len(), disk.image()[2048]), (8192, 1), "the first write is there alone");
            assert_eq!((disk.counts().syncs_forgotten, disk.counts().errors), (1, 0));
        }
        assert!(cached > 2 && gone > 2, "{cached} shown, {gone} not");
    }

    #[test]
    fn a_replacement_needs_room_beside_the_file_it_replaces() {
        let mut file = SimFile::new(1);
        file.append(&[1; 4096]).expect("has room");
        file.set_room(Some(2048));
        assert!(file.replace(&[2; 4096]).is_err(), "there is no room for two");
        assert_eq!((file.contents(), file.counts().refused_for_space), (vec![1; 4096], 1));
        assert!(file.replace(&[3; 1024]).is_ok(), "there is for a shorter one");
        assert!(file.replace(&[4; 4096]).is_ok(), "and the first one's room is free now");
    }

    #[test]
    fn files_lose_their_unsynced_tail_and_are_replaced_as_a_whole() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..50 {
            let mut file = SimFile::new(seed);
            file.append(&[1; 700]).expect("appends");
            file.sync().expect("syncs");
            file.append(&[2; 700]).expect("appends");
            file.cut_power();
            let contents = file.contents();
            assert_eq!(contents[..700], [1; 700]);
            assert!(contents[700..].iter().all(|b| *b == 2 || *b == 0));
            lost += u32::from(contents.len() == 700);
            kept += u32::from(contents[700..] == [2; 700]);
            file.fail_next();
            let before = file.contents();
            assert!(file.replace(&[3; 10]).is_err());
            assert!(file.contents() == before || file.contents() == [3; 10]);
            assert!(file.replace(&[4; 10]).is_ok());
            file.cut_power();
            assert_eq!(file.contents(), [4; 10]);
        }
        assert!(lost > 5 && kept > 5, "{lost} lost, {kept} kept");
    }

    #[test]
    fn a_file_fills_up_rots_and_is_counted() {
        let mut file = SimFile::new(1);
        file.append(&[7; 1000]).expect("has room");
        file.sync().expect("syncs");
        let mut read = [0; 10];
        file.read(990, &mut read).expect("is there");
        assert_eq!((read, file.counts().syncs), ([7; 10], 1));
        file.rot(1);
        let flipped: u32 = file.contents().iter().map(|b| (b ^ 7).count_ones()).sum();
        assert_eq!(flipped, 1);
        file.set_room(Some(0));
        assert!(file.append(&[7; 10_000]).is_err());
        file.heal();
        file.append(&[7; 10_000]).expect("has room again");
    }
}
