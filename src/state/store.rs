//! The store: opening a database, one durable commit for a turn's log, one that need not be durable for what it applies.
//!
//! Refuses to know raft's rules beyond "no gaps, and nothing applied is taken back", and what a command means. Invariants:
//! a `Receipt` exists only after its batch is on the disk; what is applied and not yet durable is replayed from the log
//! after a crash, because an entry leaves the log only when it is applied, in the same durable commit; a reader sees
//! rows and fleet of one index. After a fault the store is to be dropped and opened again.

use super::apply::{self, Applying, FleetEdit};
use super::fault::Fault;
use super::tables::{self, Applied, BOOK, FORMAT, Kind, LOG, Region, STATE, log_key};
use super::verified;
use super::view::{self, View};
use crate::model::alloc::Allocation;
use crate::model::id::{NodeId, Uuid};
use crate::scheduler::fleet::{Fleet, Snapshot};
use crate::wire::change::Change;
use crate::wire::event::Events;
use crate::wire::record;
use crate::wire::request::{Done, Refusal};
use redb::{Database, Durability, ReadableDatabase, StorageBackend, TableError};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the database may keep in memory of its file.
    pub cache_bytes: usize,
    /// What rots is not looked for: shows that somebody else would find it.
    #[cfg(test)]
    pub unverified: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache_bytes: 1 << 20,
            #[cfg(test)]
            unverified: false,
        }
    }
}

/// What a store held when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The whole log, oldest first, without gaps.
    pub entries: Vec<(u64, Vec<u8>)>,
    pub hard_state: Option<Vec<u8>>,
    pub conf_state: Option<Vec<u8>>,
    /// Index and term of the newest entry that was compacted away.
    pub truncated: Option<(u64, u64)>,
    pub applied: u64,
    pub region_id: Option<Uuid>,
}

/// What one turn wants on the disk. Entries are opaque.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBatch {
    /// Entries from here on are removed first. They must not be applied.
    pub truncate_from: Option<u64>,
    /// In order and without gaps. They replace what the log has from the first one's index on.
    pub entries: Vec<(u64, Vec<u8>)>,
    pub hard_state: Option<Vec<u8>>,
    pub conf_state: Option<Vec<u8>>,
    /// Entries up to and with this index, of this term, are no longer needed. They must be applied.
    pub compact_to: Option<(u64, u64)>,
}

impl LogBatch {
    fn is_empty(&self) -> bool {
        *self == LogBatch::default()
    }
}

/// Proof that a batch is durable: only `Store::append` makes one.
#[derive(Debug)]
pub struct Receipt(());

/// A committed entry of the log.
#[derive(Clone, Copy, Debug)]
pub struct Committed<'a> {
    pub index: u64,
    /// Empty: a leader's empty entry, or one that concerns raft alone.
    pub command: &'a [u8],
}

/// What became of one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub index: u64,
    pub reply: Result<Done, Refusal>,
    pub changes: Vec<Change>,
    /// `None`: nothing that has events changed.
    pub events: Option<Events>,
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

/// Owns the database. One per data directory.
pub struct Store {
    shared: Arc<Shared>,
    /// As of the last commit, durable or not.
    applied: Applied,
    fleet: Fleet,
    /// Of the log; the compacted one's index when it is empty.
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
    published: Mutex<Published>,
}

/// What goes with the rows of a view.
struct Published {
    applied: Applied,
    fleet: Snapshot,
}

impl Store {
    /// Creates the tables on first use.
    ///
    /// After a crash redb walks the whole file, and the fleet is read from the rows: 69 ms together for 10,000 jobs with
    /// an allocation each (43 MB, unoptimised build), so that redb's quick-repair, which writes more and syncs twice in
    /// each commit, stays off.
    ///
    /// Of a database whose creation was cut off, nothing was ever promised: the caller
    /// may remove a file that was never opened before and that does not open now.
    pub fn open(backend: impl StorageBackend, options: Options) -> Result<(Store, Recovered), OpenError> {
        let database = open_database(backend, options).map_err(Fault::from)?;
        match format_of(&database)? {
            None => create(&database)?,
            Some(FORMAT) => {}
            Some(found) => return Err(OpenError::Format { found, known: FORMAT }),
        }
        let (recovered, applied) = recover(&database)?;
        let compacted = recovered.truncated.map_or(0, |(index, _)| index);
        let last_index = recovered.entries.last().map_or(compacted, |(index, _)| *index);
        let fleet = rebuild_fleet(&database)?;
        let published = Mutex::new(Published { applied, fleet: fleet.snapshot() });
        let shared = Arc::new(Shared { database, published });
        Ok((Store { shared, applied, fleet, last_index }, recovered))
    }

    /// ONE durable commit; with it, everything applied so far is durable too.
    pub fn append(&mut self, batch: &LogBatch) -> Result<Receipt, Fault> {
        if batch.is_empty() {
            return Ok(Receipt(()));
        }
        let last_index = self.checked_last_index(batch)?;
        let transaction = self.shared.database.begin_write()?;
        write_batch(&mut transaction.open_table(LOG)?, batch)?;
        transaction.commit()?;
        self.last_index = last_index;
        Ok(Receipt(()))
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
            if *index != last + 1 || *index >= BOOK {
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
    pub fn apply(
        &mut self,
        entries: &[Committed<'_>],
        hard_state: Option<&[u8]>,
    ) -> Result<Vec<Outcome>, Fault> {
        if entries.is_empty() && hard_state.is_none() {
            return Ok(Vec::new());
        }
        let mut transaction = self.shared.database.begin_write()?;
        transaction.set_durability(Durability::None)?;
        let Applying { outcomes, applied, fleet } =
            apply::apply(transaction.open_table(STATE)?, self.applied, entries)?;
        {
            let mut log = transaction.open_table(LOG)?;
            log.insert(log_key(tables::BOOK_APPLIED).as_slice(), record::encode(&applied).as_slice())?;
            if let Some(hard_state) = hard_state {
                log.insert(log_key(tables::BOOK_HARD_STATE).as_slice(), hard_state)?;
            }
        }
        let mut published = self.shared.published();
        transaction.commit()?;
        self.applied = applied;
        follow(&mut self.fleet, fleet);
        *published = Published { applied, fleet: self.fleet.snapshot() };
        drop(published);
        Ok(outcomes)
    }

    pub fn applied(&self) -> u64 {
        self.applied.index
    }

    /// Of all replicated rows, whatever the order in which they were written: equal on replicas at an equal index.
    #[cfg(test)]
    pub fn digest(&self) -> u64 {
        self.applied.digest
    }

    pub fn reader(&self) -> Reader {
        Reader { shared: Arc::downgrade(&self.shared) }
    }
}

impl Shared {
    fn published(&self) -> MutexGuard<'_, Published> {
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
    #[cfg(test)]
    if options.unverified {
        return redb::Builder::new().set_cache_size(options.cache_bytes).create_with_backend(backend);
    }
    verified::open(backend, options.cache_bytes)
}

/// `None`: nothing was ever written.
fn format_of(database: &Database) -> Result<Option<u32>, Fault> {
    let transaction = database.begin_read()?;
    let log = match transaction.open_table(LOG) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(TableError::TableTypeMismatch { .. }) => return Ok(Some(1)),
        log => log?,
    };
    let Some(format) = log.get(log_key(tables::BOOK_FORMAT).as_slice())? else {
        return Err(Fault::corrupt("the database has a log but no format"));
    };
    let bytes = format.value().try_into().map_err(|_| Fault::corrupt("the format is not a number"))?;
    Ok(Some(u32::from_be_bytes(bytes)))
}

fn create(database: &Database) -> Result<(), Fault> {
    let transaction = database.begin_write()?;
    let format = (log_key(tables::BOOK_FORMAT), FORMAT.to_be_bytes());
    transaction.open_table(LOG)?.insert(format.0.as_slice(), format.1.as_slice())?;
    transaction.open_table(STATE)?;
    Ok(transaction.commit()?)
}

fn recover(database: &Database) -> Result<(Recovered, Applied), Fault> {
    let transaction = database.begin_read()?;
    let log = transaction.open_table(LOG)?;
    let book = |key: u64| -> Result<Option<Vec<u8>>, Fault> {
        Ok(log.get(log_key(key).as_slice())?.map(|v| v.value().to_vec()))
    };
    let applied = match book(tables::BOOK_APPLIED)? {
        Some(bytes) => record::decode(&bytes)?,
        None => Applied::default(),
    };
    let truncated = book(tables::BOOK_TRUNCATED)?.map(|b| tables::decode_pair(&b)).transpose()?;
    let mut entries = Vec::new();
    let mut next = truncated.map(|(index, _)| index + 1);
    for row in log.range(..log_key(BOOK).as_slice())? {
        let (index, entry) = row?;
        let index = tables::number(index.value())?;
        let entry = entry.value().to_vec();
        if next.is_some_and(|next| next != index) {
            return Err(Fault::corrupt(format!("the log has a gap before entry {index}")));
        }
        next = Some(index + 1);
        entries.push((index, entry));
    }
    let region: Option<Region> = tables::get(&transaction.open_table(STATE)?, &Kind::Region.key(&[]))?;
    let recovered = Recovered {
        entries,
        hard_state: book(tables::BOOK_HARD_STATE)?,
        conf_state: book(tables::BOOK_CONF_STATE)?,
        truncated,
        applied: applied.index,
        region_id: region.map(|r| r.id),
    };
    Ok((recovered, applied))
}

/// The same fleet as following every edit from the first entry on would have given.
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
            fleet.add_usage(alloc.node_id, alloc.resources.total());
        }
        Ok(true)
    })?;
    Ok(fleet)
}

fn follow(fleet: &mut Fleet, edits: Vec<FleetEdit>) {
    for edit in edits {
        match edit {
            FleetEdit::Node(node) => fleet.upsert_node(&node),
            FleetEdit::Gone(id) => fleet.remove_node(id),
            FleetEdit::Hold(node, amount) => fleet.add_usage(node, amount),
            FleetEdit::Release(node, amount) => fleet.sub_usage(node, amount),
        }
    }
}

fn write_batch(log: &mut redb::Table<'_, &[u8], &[u8]>, batch: &LogBatch) -> Result<(), Fault> {
    let first = batch.entries.first().map(|(index, _)| *index);
    if let Some(from) = batch.truncate_from.into_iter().chain(first).min() {
        log.retain_in(log_key(from).as_slice()..&log_key(BOOK), |_, _| false)?;
    }
    for (index, entry) in &batch.entries {
        log.insert(log_key(*index).as_slice(), entry.as_slice())?;
    }
    if let Some(hard_state) = &batch.hard_state {
        log.insert(log_key(tables::BOOK_HARD_STATE).as_slice(), hard_state.as_slice())?;
    }
    if let Some(conf_state) = &batch.conf_state {
        log.insert(log_key(tables::BOOK_CONF_STATE).as_slice(), conf_state.as_slice())?;
    }
    if let Some((index, term)) = batch.compact_to {
        log.retain_in(..=log_key(index).as_slice(), |_, _| false)?;
        let pair = tables::encode_pair(index, term);
        log.insert(log_key(tables::BOOK_TRUNCATED).as_slice(), pair.as_slice())?;
    }
    Ok(())
}
