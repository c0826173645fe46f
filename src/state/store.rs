//! The store: a log that is durable turn by turn, and a database that is made durable when a segment of the log is full.
//!
//! Refuses to know raft's rules beyond "no gaps, and nothing applied is taken back", and what a command means. Invariants:
//! a `Receipt` exists only after its batch is on the disk; what is applied and not yet durable is replayed from the log
//! after a crash, because an entry leaves the log only after a durable commit of what it did; a reader sees rows and
//! fleet of one index; of the two slots that may hold the database, the log says which one counts. After a fault the store
//! is to be dropped and opened again.

mod founding;
mod installation;

use super::apply::{self, ApplyResult, Applying, Committed, FleetEdit};
use super::database::{self, Meta, Slot};
use super::fault::Fault;
use super::log_batch::{LogBatch, Replay};
use super::tables::{AppliedState, FORMAT, STATE};
use super::view::View;
use super::wal::{Wal, WalContents, WalFile, WalFound};
use installation::{Incoming, Retired};
use redb::{Database, Durability, ReadableDatabase, StorageBackend};
use scheduler::fleet::{Fleet, FleetSnapshot};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use wire::record;

pub use super::options::Options;
pub use installation::NotInstalled;

/// Turns that change more rows by themselves than are to be put off are saved this many at a time: saving is to stay the
/// smaller part of the work.
const LARGE_BATCHES_PER_SAVE: usize = 4;

/// How many bytes the disk still takes.
pub type FreeBytes = Box<dyn Fn() -> io::Result<u64> + Send + Sync>;

/// Where a store lies.
pub struct StoreFiles<S> {
    /// The slots. One holds the state, the other is empty, or takes a snapshot.
    pub state: [S; 2],
    pub log: [WalFile; 2],
    pub free_bytes: FreeBytes,
}

/// What a store held when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The raft id of the server whose store it is.
    pub server_id: u64,
    /// The whole log, oldest first, without gaps.
    pub entries: Vec<(u64, Vec<u8>)>,
    pub hard_state: Option<Vec<u8>>,
    /// The members as of `applied`; where the database has none, those of the log.
    pub conf_state: Option<Vec<u8>>,
    /// Index and term of the newest entry that was compacted away.
    pub truncated: Option<(u64, u64)>,
    pub applied: u64,
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
    /// Whether nothing was ever written but the server's id.
    pub fn is_empty(&self) -> bool {
        *self == Recovered { server_id: self.server_id, ..Recovered::default() }
    }

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
    database: Arc<Database>,
    slots: [Slot; 2],
    /// The slot that holds the state.
    slot: u8,
    free_bytes: FreeBytes,
    /// A snapshot on its way into the other slot.
    incoming: Option<Incoming>,
    /// The database that the other slot held before.
    retired: Option<Retired>,
    log: Wal,
    options: Options,
    /// What a new segment of the log begins with.
    segment_head: LogBatch,
    /// The last index in the segment before the one that is written.
    last_before: u64,
    /// The applied state as of the last commit, durable or not.
    applied: AppliedState,
    /// Rows changed since the last durable commit.
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
    /// Locked while the rows and what goes with them change together.
    published: Mutex<PublishedState>,
}

/// The parts of a view.
struct PublishedState {
    database: Arc<Database>,
    /// Each view of this database has a clone.
    in_use: Arc<()>,
    applied: AppliedState,
    fleet: FleetSnapshot,
}

impl Store {
    /// Creates the tables and the log on first use.
    ///
    /// After a crash redb walks the whole file, and the fleet is read from the rows: 69 ms together for 10,000 jobs with
    /// an allocation each (43 MB, unoptimised build), so that redb's quick-repair, which writes more and syncs twice in
    /// each commit, stays off.
    ///
    /// A first opening that was cut off has acknowledged nothing: the next one begins again.
    pub fn open<S: StorageBackend>(
        media: StoreFiles<S>,
        options: Options,
    ) -> Result<(Store, Recovered), OpenError> {
        let slots = media.state.map(Slot::new);
        let log = OpenedLog::read(&media.log, &slots)?;
        let slot = log.slot();
        // the log is begun once the database is there: with any of it, a database without a header is a damaged one
        if log.is_absent {
            slots[usize::from(slot)].clear_unfinished()?;
        }
        let database = database::open(&slots[usize::from(slot)], options).map_err(Fault::from)?;
        let (log, replay, last_before) = match database::format_of(&database)? {
            None => {
                log.check_is_new()?;
                // the log first: a database that says what it is has one
                let server_id = Some(options.new_server_id);
                let head = LogBatch { server_id, ..LogBatch::default() };
                let log = Wal::create(media.log, 0, &record::encode(&head)).map_err(Fault::of_log)?;
                database::create(&database)?;
                (log, Replay::of_new(head), 0)
            }
            Some(FORMAT) => log.resume(media.log)?,
            Some(found) => return Err(OpenError::Format { found, known: FORMAT }),
        };
        database::check_feature_level(&database, options.feature_level)?;
        let meta = database::read_meta(&database)?;
        let applied = meta.applied;
        let recovered = recover(meta, replay)?;
        assert!(recovered.applied <= recovered.last_index(), "what is applied is in the log");
        let fleet = database::rebuild_fleet(&database)?;
        slots[usize::from(1 - slot)].clear()?;
        let (database, in_use) = (Arc::new(database), Arc::new(()));
        let published =
            PublishedState { database: database.clone(), in_use, applied, fleet: fleet.snapshot() };
        let store = Store {
            shared: Arc::new(Shared { published: Mutex::new(published) }),
            database,
            slots,
            slot,
            free_bytes: media.free_bytes,
            incoming: None,
            retired: None,
            log,
            options,
            segment_head: segment_head(&recovered, slot),
            last_before,
            applied,
            unsaved_rows: 0,
            fleet,
            last_index: recovered.last_index(),
        };
        Ok((store, recovered))
    }

    /// ONE sync, of the log alone; where that fills a segment, a durable commit of what is applied, and another one.
    pub fn append(&mut self, batch: &LogBatch) -> Result<Receipt, Fault> {
        if batch.is_empty() {
            return Ok(Receipt { last_index: self.last_index });
        }
        assert!(batch.install.is_none() && batch.slot.is_none(), "a snapshot is not appended");
        self.clear_retired()?;
        let last_index = self.checked_last_index(batch)?;
        assert!(last_index >= self.applied.index, "nothing that is applied leaves the log by a replacement");
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
        assert!(self.last_before <= self.applied.index, "an entry leaves the log once it is applied");
        self.database.begin_write()?.commit()?;
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
        let mut transaction = self.database.begin_write()?;
        let Applying { outcomes, applied, fleet, rows_changed } =
            apply::apply(transaction.open_table(STATE)?, self.applied, entries, self.options.feature_level)?;
        assert!(applied.index > self.applied.index, "the applied index only grows");
        assert_eq!(outcomes.len(), entries.len(), "each entry has its outcome");
        assert!(applied.index <= self.last_index, "what is applied is in the log");
        self.unsaved_rows += rows_changed;
        if self.unsaved_rows <= self.options.unsaved_rows.max(LARGE_BATCHES_PER_SAVE * rows_changed) {
            transaction.set_durability(Durability::None)?;
        } else {
            self.unsaved_rows = 0;
        }
        database::write_applied(&transaction, applied, entries.iter().rev().find_map(|e| e.conf_state))?;
        let mut published = self.shared.published();
        transaction.commit()?;
        self.applied = applied;
        apply_fleet_edits(&mut self.fleet, fleet);
        (published.applied, published.fleet) = (applied, self.fleet.snapshot());
        drop(published);
        Ok(outcomes)
    }

    pub fn applied(&self) -> u64 {
        self.applied.index
    }

    /// What its disk still takes.
    pub fn free_bytes(&self) -> io::Result<u64> {
        (self.free_bytes)()
    }

    /// How many bytes of the log are kept, applied or not, for replicas that lag behind.
    pub fn segment_bytes(&self) -> usize {
        usize::try_from(self.options.segment_bytes).unwrap_or(usize::MAX)
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
        let rows = published.database.begin_read()?.open_table(STATE)?;
        Ok(View::new(rows, published.applied, published.fleet.clone(), published.in_use.clone()))
    }
}

/// The log as it was found, before anything is written.
struct OpenedLog {
    /// The log's contents, its batches replayed, and the last index in the segment before the one that is written.
    found: Result<(WalFound, Replay, u64), Fault>,
    slot: u8,
    /// Whether nothing of the log was ever written.
    is_absent: bool,
}

impl OpenedLog {
    fn read(files: &[WalFile; 2], slots: &[Slot; 2]) -> Result<OpenedLog, Fault> {
        let found = Wal::scan(files).map_err(Fault::of_log).and_then(|found| {
            let (replay, last_before) = replay(&found.contents)?;
            Ok((found, replay, last_before))
        });
        let (slot, is_new) = match &found {
            Ok((_, replay, _)) => (replay.slot, replay.is_new()),
            // a log that was never begun cannot be told from a damaged one, but then the other slot was never used
            Err(Fault::Corrupt(_)) if slots[1].bytes()? == 0 => (0, true),
            Err(fault) => return Err(fault.clone()),
        };
        let Some(counts) = slots.get(usize::from(slot)) else {
            return Err(Fault::corrupt(format!("the log says that the state is in slot {slot}")));
        };
        if !is_new && counts.bytes()? == 0 {
            return Err(Fault::corrupt(format!("the log goes on, but state.{slot} is empty")));
        }
        let is_absent = files.iter().all(|file| file.len().is_ok_and(|bytes| bytes == 0));
        Ok(OpenedLog { found, slot, is_absent })
    }

    fn slot(&self) -> u8 {
        self.slot
    }

    /// Checks that nothing was ever written to the log, because the database holds nothing.
    fn check_is_new(&self) -> Result<(), Fault> {
        match &self.found {
            Ok((_, replay, _)) if !replay.is_new() => {
                Err(Fault::corrupt(format!("the log goes on, but state.{} holds nothing", self.slot)))
            }
            _ => Ok(()),
        }
    }

    fn resume(self, files: [WalFile; 2]) -> Result<(Wal, Replay, u64), Fault> {
        let (found, replay, last_before) = self.found?;
        let (log, _) = Wal::resume(files, found).map_err(Fault::of_log)?;
        Ok((log, replay, last_before))
    }
}

fn replay(contents: &WalContents) -> Result<(Replay, u64), Fault> {
    let mut replay = Replay::default();
    let mut last_before = 0;
    for (frames, is_before) in [(&contents.before, true), (&contents.current, false)] {
        for frame in frames {
            replay.add(record::decode(frame)?);
        }
        if is_before {
            last_before = replay.last_index().unwrap_or(0);
        }
    }
    Ok((replay, last_before))
}

/// What the log and the database say together.
fn recover(meta: Meta, mut replay: Replay) -> Result<Recovered, Fault> {
    if replay.install.is_some() && replay.install != meta.installed {
        let slot = replay.slot;
        return Err(Fault::corrupt(format!(
            "state.{slot} does not hold the snapshot that was installed there"
        )));
    }
    let server_id = replay.server_id.ok_or_else(|| Fault::corrupt("the log does not say whose it is"))?;
    let applied = meta.applied.index;
    let truncated = replay.compact(applied)?;
    Ok(Recovered {
        server_id,
        entries: replay.entries,
        hard_state: replay.hard_state,
        conf_state: meta.members.or(replay.conf_state),
        truncated,
        applied,
    })
}

/// What a new segment begins with.
fn segment_head(recovered: &Recovered, slot: u8) -> LogBatch {
    LogBatch {
        hard_state: recovered.hard_state.clone(),
        conf_state: recovered.conf_state.clone(),
        compact_to: recovered.truncated,
        slot: Some(slot),
        server_id: Some(recovered.server_id),
        ..LogBatch::default()
    }
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
