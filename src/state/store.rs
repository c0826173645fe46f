//! The store: a log that is durable turn by turn, and a database that is made durable when a segment of the log is full.
//!
//! Refuses to know raft's rules beyond "no gaps, and nothing applied is taken back", and what a command means. Invariants:
//! a `Receipt` exists only after its batch is on the disk; what is applied and not yet durable is replayed from the log
//! after a crash, because an entry leaves the log only after a durable commit of what it did; a reader sees rows and
//! fleet of one index. After a fault the store is to be dropped and opened again.

use super::apply::{self, ApplyResult, Applying, Committed, FleetEdit};
use super::checksummed;
use super::fault::Fault;
use super::log_batch::{LogBatch, Replay};
use super::tables::{self, Applied, FORMAT, Kind, META, Region, STATE, StoredMembers};
use super::view::{self, View};
use super::wal::{Wal, WalContents, WalFile};
use model::alloc::Allocation;
use model::id::{NodeId, Uuid};
use redb::{Database, Durability, ReadableDatabase, StorageBackend, TableError, WriteTransaction};
use scheduler::fleet::{Fleet, FleetSnapshot};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use wire::record;

/// Turns that change more rows by themselves than are to be put off are saved this many at a time: saving is to stay the
/// smaller part of the work.
const LARGE_BATCHES_PER_SAVE: usize = 4;

/// Index and term of the snapshot that a region begins with.
const FOUNDED: (u64, u64) = (1, 1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the database may keep in memory of its file.
    pub cache_bytes: usize,
    /// A segment of the log that holds more is full. What a crash leaves to be applied again is at most about twice as
    /// much.
    pub segment_bytes: u64,
    /// A turn with which more rows have changed than this since the last durable commit makes them durable: what is put off must
    /// not become a long turn.
    pub unsaved_rows: usize,
    /// Checksums are off: shows that another check would find the corruption.
    #[cfg(any(test, feature = "testing"))]
    pub unverified: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache_bytes: 1 << 20,
            segment_bytes: 1 << 20,
            unsaved_rows: 2048,
            #[cfg(any(test, feature = "testing"))]
            unverified: false,
        }
    }
}

impl Options {
    /// A 256th of the machine's memory for the cache, from 1 MiB to 32: it is filled by what is stored, not by what is spared.
    pub fn on_machine(memory_bytes: u64) -> Options {
        let cache_bytes = (memory_bytes / 256).clamp(1 << 20, 32 << 20) as usize;
        Options { cache_bytes, ..Options::default() }
    }
}

/// Where a store lies.
pub struct StoreFiles<S> {
    pub state: S,
    pub log: [WalFile; 2],
}

/// What a store held when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The whole log, oldest first, without gaps.
    pub entries: Vec<(u64, Vec<u8>)>,
    pub hard_state: Option<Vec<u8>>,
    /// The members as of `applied`; of a log that is older than any change of them, as it says.
    pub conf_state: Option<Vec<u8>>,
    /// Index and term of the newest entry that was compacted away.
    pub truncated: Option<(u64, u64)>,
    pub applied: u64,
    pub region_id: Option<Uuid>,
}

/// Proof that a batch is durable: only `Store::append` makes one.
#[derive(Debug)]
pub struct Receipt {
    last_index: u64,
}

impl Receipt {
    /// The last index of the log, with the batch: it tells which turn this is.
    pub fn last_index(&self) -> u64 {
        self.last_index
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The data is of another format than this build writes.
    Format {
        found: u32,
        known: u32,
    },
    Fault(Fault),
}

impl Recovered {
    /// The last index of the log; the compacted one's index when it is empty.
    pub fn last_index(&self) -> u64 {
        let compacted = self.truncated.map_or(0, |(index, _)| index);
        self.entries.last().map_or(compacted, |(index, _)| *index)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Format { found, known } => {
                let newer = if found > known { ", or a newer one" } else { "" };
                write!(
                    f,
                    "the server's state is of format {found}, this build knows format {known}: use the build that wrote it{newer}"
                )
            }
            OpenError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl<E: Into<Fault>> From<E> for OpenError {
    fn from(e: E) -> Self {
        OpenError::Fault(e.into())
    }
}

/// Owns the database and the log. One per data directory.
pub struct Store {
    shared: Arc<Shared>,
    log: Wal,
    options: Options,
    /// What a new segment of the log begins with.
    segment_head: LogBatch,
    /// The last index in the segment before the one that is written.
    last_before: u64,
    /// As of the last commit, durable or not.
    applied: Applied,
    /// Changed since the last durable commit.
    unsaved_rows: usize,
    fleet: Fleet,
    /// The last index of the log; the compacted one's index when it is empty.
    last_index: u64,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("applied", &self.applied).finish_non_exhaustive()
    }
}

struct Shared {
    database: Database,
    /// Held while the rows and this change together.
    published: Mutex<PublishedState>,
}

/// What goes with the rows of a view.
struct PublishedState {
    applied: Applied,
    fleet: FleetSnapshot,
}

impl Store {
    /// Creates the tables and the log on first use.
    ///
    /// After a crash redb walks the whole file, and the fleet is read from the rows: 69 ms together for 10,000 jobs with
    /// an allocation each (43 MB, unoptimised build), so that redb's quick-repair, which writes more and syncs twice in
    /// each commit, stays off.
    ///
    /// A database whose creation was cut off never acknowledged anything: the caller
    /// may remove a file that was never opened before and that does not open now.
    pub fn open<S: StorageBackend>(
        media: StoreFiles<S>,
        options: Options,
    ) -> Result<(Store, Recovered), OpenError> {
        let database = open_database(media.state, options).map_err(Fault::from)?;
        let (log, found) = match format_of(&database)? {
            // the log first: a database that says what it is has one
            None => {
                let log = Wal::create(media.log, 0, &record::encode(&LogBatch::default()));
                let log = log.map_err(Fault::of_log)?;
                create(&database)?;
                (log, WalContents::default())
            }
            Some(FORMAT) => Wal::open(media.log).map_err(Fault::of_log)?,
            Some(found) => return Err(OpenError::Format { found, known: FORMAT }),
        };
        let (recovered, applied, last_before) = recover(&database, found)?;
        let last_index = recovered.last_index();
        let segment_head = LogBatch {
            hard_state: recovered.hard_state.clone(),
            conf_state: recovered.conf_state.clone(),
            compact_to: recovered.truncated,
            ..LogBatch::default()
        };
        let fleet = rebuild_fleet(&database)?;
        let published = Mutex::new(PublishedState { applied, fleet: fleet.snapshot() });
        let shared = Arc::new(Shared { database, published });
        let store = Store {
            shared,
            log,
            options,
            segment_head,
            last_before,
            applied,
            unsaved_rows: 0,
            fleet,
            last_index,
        };
        Ok((store, recovered))
    }

    /// The region begins: nothing is applied but who its members are, which takes the place of entry 1 of term 1. Two syncs.
    /// The cut goes to the log first: it counts only once the state has reached it.
    pub fn found(&mut self, conf_state: &[u8]) -> Result<Receipt, Fault> {
        if self.applied != Applied::default() || self.last_index != 0 {
            return Err(Fault::corrupt("a region that has begun cannot be founded again"));
        }
        let (index, term) = FOUNDED;
        let cut = LogBatch { compact_to: Some((index, term)), ..LogBatch::default() };
        self.log.append(&record::encode(&cut)).map_err(Fault::of_log)?;
        let applied = Applied { index, ..Applied::default() };
        let transaction = self.shared.database.begin_write()?;
        write_applied(&transaction, applied, Some(conf_state))?;
        let mut published = self.shared.published();
        transaction.commit()?;
        published.applied = applied;
        drop(published);
        self.applied = applied;
        self.segment_head.compact_to = cut.compact_to;
        self.last_index = index;
        Ok(Receipt { last_index: index })
    }

    /// ONE sync, of the log alone; where that fills a segment, a durable commit of what is applied, and another one.
    pub fn append(&mut self, batch: &LogBatch) -> Result<Receipt, Fault> {
        if batch.is_empty() {
            return Ok(Receipt { last_index: self.last_index });
        }
        let last_index = self.checked_last_index(batch)?;
        self.log.append(&record::encode(batch)).map_err(Fault::of_log)?;
        self.last_index = last_index;
        for (kept, new) in [
            (&mut self.segment_head.hard_state, &batch.hard_state),
            (&mut self.segment_head.conf_state, &batch.conf_state),
        ] {
            if new.is_some() {
                kept.clone_from(new);
            }
        }
        self.segment_head.compact_to = batch.compact_to.or(self.segment_head.compact_to);
        if self.log.bytes() > self.options.segment_bytes {
            self.begin_segment()?;
        }
        Ok(Receipt { last_index })
    }

    /// Begins the segment before the full one anew, once its entries are compacted.
    fn begin_segment(&mut self) -> Result<(), Fault> {
        if self.segment_head.compact_to.map_or(0, |(index, _)| index) < self.last_before {
            return Ok(());
        }
        self.shared.database.begin_write()?.commit()?;
        self.unsaved_rows = 0;
        self.log
            .begin_segment(self.applied.digest, &record::encode(&self.segment_head))
            .map_err(Fault::of_log)?;
        self.last_before = self.last_index;
        Ok(())
    }

    /// The log's last index once `batch` is written; a fault if the batch would leave a gap or take back what is applied.
    fn checked_last_index(&self, batch: &LogBatch) -> Result<u64, Fault> {
        let applied = self.applied.index;
        let mut last = self.last_index;
        if let Some(from) = batch.truncate_from {
            last = last.min(from.saturating_sub(1));
        }
        if let Some((first, _)) = batch.entries.first() {
            last = last.min(first.saturating_sub(1));
        }
        if last < applied.min(self.last_index) {
            return Err(Fault::corrupt(format!(
                "entries after {last} are replaced, but {applied} is applied"
            )));
        }
        for (index, _) in &batch.entries {
            if *index != last + 1 {
                return Err(Fault::corrupt(format!("entry {index} of the log was to follow entry {last}")));
            }
            last = *index;
        }
        match batch.compact_to {
            Some((to, _)) if to > applied => {
                Err(Fault::corrupt(format!("the log is cut to {to}, but only {applied} is applied")))
            }
            Some((to, _)) => Ok(last.max(to)),
            None => Ok(last),
        }
    }

    /// ONE commit that is not durable by itself. A refused command is an outcome; one that cannot be read is a fault,
    /// and then nothing of `entries` is applied.
    pub fn apply(&mut self, entries: &[Committed<'_>]) -> Result<Vec<ApplyResult>, Fault> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let mut transaction = self.shared.database.begin_write()?;
        let Applying { outcomes, applied, fleet, rows_changed } =
            apply::apply(transaction.open_table(STATE)?, self.applied, entries)?;
        assert!(applied.index > self.applied.index, "the applied index only grows");
        assert!(applied.index <= self.last_index, "what is applied is in the log");
        self.unsaved_rows += rows_changed;
        if self.unsaved_rows <= self.options.unsaved_rows.max(LARGE_BATCHES_PER_SAVE * rows_changed) {
            transaction.set_durability(Durability::None)?;
        } else {
            self.unsaved_rows = 0;
        }
        write_applied(&transaction, applied, entries.iter().rev().find_map(|e| e.conf_state))?;
        let mut published = self.shared.published();
        transaction.commit()?;
        self.applied = applied;
        apply_fleet_edits(&mut self.fleet, fleet);
        *published = PublishedState { applied, fleet: self.fleet.snapshot() };
        drop(published);
        Ok(outcomes)
    }

    pub fn applied(&self) -> u64 {
        self.applied.index
    }

    /// The digest of all replicated rows, in whatever order they were written: equal on replicas at an equal index.
    #[cfg(any(test, feature = "testing"))]
    pub fn digest(&self) -> u64 {
        self.applied.digest
    }

    pub fn reader(&self) -> Reader {
        Reader { shared: Arc::downgrade(&self.shared) }
    }
}

impl Shared {
    fn published(&self) -> MutexGuard<'_, PublishedState> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes views, on any thread. Does not keep the store open.
#[derive(Clone)]
pub struct Reader {
    shared: Weak<Shared>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    /// The state as of the last `apply`. To be dropped within a second or so: pages that it sees cannot be reused.
    pub fn view(&self) -> Result<View, Fault> {
        let shared = self.shared.upgrade().ok_or(redb::StorageError::DatabaseClosed)?;
        let published = shared.published();
        let rows = shared.database.begin_read()?.open_table(STATE)?;
        Ok(View::new(rows, published.applied, published.fleet.clone()))
    }
}

fn open_database(backend: impl StorageBackend, options: Options) -> Result<Database, redb::DatabaseError> {
    #[cfg(any(test, feature = "testing"))]
    if options.unverified {
        return redb::Builder::new().set_cache_size(options.cache_bytes).create_with_backend(backend);
    }
    checksummed::open(backend, options.cache_bytes)
}

/// `None`: nothing was ever written.
fn format_of(database: &Database) -> Result<Option<u32>, Fault> {
    let transaction = database.begin_read()?;
    let meta = match transaction.open_table(META) {
        Err(TableError::TableDoesNotExist(_)) if transaction.list_tables()?.next().is_none() => {
            return Ok(None);
        }
        meta => meta?,
    };
    let Some(format) = meta.get(tables::META_FORMAT)? else {
        return Err(Fault::corrupt("the database has a book but no format"));
    };
    let bytes = format.value().try_into().map_err(|_| Fault::corrupt("the format is not a number"))?;
    Ok(Some(u32::from_be_bytes(bytes)))
}

fn create(database: &Database) -> Result<(), Fault> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(tables::META_FORMAT, FORMAT.to_be_bytes().as_slice())?;
    transaction.open_table(STATE)?;
    Ok(transaction.commit()?)
}

fn write_applied(
    transaction: &WriteTransaction,
    applied: Applied,
    conf_state: Option<&[u8]>,
) -> Result<(), Fault> {
    let mut meta = transaction.open_table(META)?;
    meta.insert(tables::META_APPLIED, record::encode(&applied).as_slice())?;
    if let Some(conf_state) = conf_state {
        let members = StoredMembers { conf_state: conf_state.to_vec() };
        meta.insert(tables::META_MEMBERS, record::encode(&members).as_slice())?;
    }
    Ok(())
}

/// What the log and the database say together, and the last index in the segment before the one that is written.
fn recover(database: &Database, found: WalContents) -> Result<(Recovered, Applied, u64), Fault> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let applied: Applied = tables::get(&meta, tables::META_APPLIED)?.unwrap_or_default();
    let members: Option<StoredMembers> = tables::get(&meta, tables::META_MEMBERS)?;
    let mut replay = Replay::default();
    let mut last_before = 0;
    for (frames, is_before) in [(found.before, true), (found.current, false)] {
        for frame in frames {
            replay.add(record::decode(&frame)?);
        }
        if is_before {
            last_before = replay.last_index().unwrap_or(0);
        }
    }
    let truncated = replay.compact(applied.index)?;
    let region: Option<Region> = tables::get(&transaction.open_table(STATE)?, &Kind::Region.key(&[]))?;
    let recovered = Recovered {
        entries: replay.entries,
        hard_state: replay.hard_state,
        conf_state: members.map(|m| m.conf_state).or(replay.conf_state),
        truncated,
        applied: applied.index,
        region_id: region.map(|r| r.id),
    };
    Ok((recovered, applied, last_before))
}

/// Equals the fleet that all edits since the first entry would have given.
fn rebuild_fleet(database: &Database) -> Result<Fleet, Fault> {
    let rows = database.begin_read()?.open_table(STATE)?;
    let mut fleet = Fleet::default();
    tables::each(&rows, &Kind::Node.key(&[]), None, |key, _| {
        let id = NodeId(tables::id_at_end(key)?);
        let node = view::read_node(&rows, id)?.ok_or_else(|| Fault::corrupt("a node is gone"))?;
        fleet.upsert_node(&node);
        Ok(true)
    })?;
    tables::each(&rows, &Kind::Alloc.key(&[]), None, |_, value| {
        let alloc: Allocation = record::decode(value)?;
        if !alloc.client_terminal() {
            fleet.hold(alloc.node_id, &alloc.resources.holding());
        }
        Ok(true)
    })?;
    Ok(fleet)
}

fn apply_fleet_edits(fleet: &mut Fleet, edits: Vec<FleetEdit>) {
    for edit in edits {
        match edit {
            FleetEdit::Node(node) => fleet.upsert_node(&node),
            FleetEdit::Gone(id) => fleet.remove_node(id),
            FleetEdit::Hold(node, holding) => fleet.hold(node, &holding),
            FleetEdit::Release(node, holding) => fleet.release(node, &holding),
        }
    }
}
