//! A node's own store: what it was told to run and how far it has come, in redb over any backend. With it a node goes
//! on after a crash or a reboot with no server in reach.
//!
//! Refuses to know: what an allocation's state means and when it changes. Invariants: a row that cannot be read is set
//! aside and never ends the process; a commit with nothing in it touches no disk.

use super::checksummed;
use model::id::{AllocId, DeploymentId, RunId, Uuid};
use model::task::TaskState;
use model::time::Wall;
use redb::{Database, Durability, ReadableDatabase, StorageBackend, TableDefinition};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wire::record;
use wire::rpc::Assignment;

/// All rows; the first byte of a key says of which kind. One tree, because a commit writes every root that it touches.
const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");
/// The format as a big-endian number of eight bytes. Its key is the kind alone.
const FORMAT_ROW: u8 = 0;
/// By allocation: its head.
const ALLOC_ROW: u8 = 1;
/// By allocation and task name: the task.
const TASK_ROW: u8 = 2;
/// By allocation: it ended here and was collected while the servers still knew it, never to be run again.
const ENDED_ROW: u8 = 3;
/// What was set of the node while it ran. Its key is the kind alone.
const DYNAMIC_META_ROW: u8 = 4;

const FORMAT: u64 = 1;
pub const CACHE_BYTES: usize = 1 << 20;

/// What becomes of an allocation's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retention {
    Kept,
    /// The servers no longer know it: stopped, its directory removed, then forgotten.
    Removed,
    /// Ended and collected to make room: its directory is removed, and it is remembered as ended.
    Collected,
}

/// The half of an allocation's record that rarely changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocRecord {
    pub assignment: Assignment,
    pub dir_built: bool,
    pub retention: Retention,
    /// What was found of it as a part of its deployment: found once, and never found otherwise.
    pub health: Option<HealthResult>,
    /// When this node first had it.
    pub received: Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthResult {
    pub deployment: Option<DeploymentId>,
    pub healthy: bool,
}

/// One start of a task. Stored before the keeper is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: RunId,
    /// The machine's boot in which the start was asked for.
    pub boot: Uuid,
    /// The keeper said that it runs. Stored lazily: false proves nothing.
    pub confirmed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    pub state: TaskState,
    pub run: Option<RunRecord>,
    /// The task's directory was announced; it is announced once.
    pub set_up: bool,
    /// `run` is to end, and to be followed by another.
    pub restart: Option<WantedRestart>,
}

/// What a restart that somebody asked for is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WantedRestart {
    Alone,
    /// All tasks restart together: none starts before all have ended.
    WithAll,
}

/// Metadata that was set or unset (`None`) over what the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicMeta(pub BTreeMap<String, Option<String>>);

wire::records! {
    DynamicMeta = "dynamic node meta" 1;
    AllocRecord = "local allocation" 1;
    TaskRecord = "local task" 1;
}

/// An allocation as it was found in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredAlloc {
    pub record: AllocRecord,
    /// By task name. A task without a row has not begun.
    pub tasks: BTreeMap<String, TaskRecord>,
}

/// One turn's changes. `None` removes.
#[derive(Debug, Default)]
pub struct WriteBatch {
    allocs: BTreeMap<AllocId, Option<Vec<u8>>>,
    tasks: BTreeMap<(AllocId, String), Option<Vec<u8>>>,
    ended: BTreeMap<AllocId, bool>,
    dynamic_meta: Option<Vec<u8>>,
    durable: bool,
}

impl WriteBatch {
    pub fn put_alloc(&mut self, record: &AllocRecord) {
        self.allocs.insert(record.assignment.id, Some(record::encode(record)));
    }

    pub fn put_task(&mut self, alloc: AllocId, name: &str, task: &TaskRecord) {
        self.tasks.insert((alloc, name.to_string()), Some(record::encode(task)));
    }

    pub fn remove<'a>(&mut self, alloc: AllocId, tasks: impl Iterator<Item = &'a str>) {
        self.allocs.insert(alloc, None);
        for name in tasks {
            self.tasks.insert((alloc, name.to_string()), None);
        }
    }

    /// Remembers (or no longer remembers) an allocation that ended here.
    pub fn set_ended(&mut self, alloc: AllocId, ended: bool) {
        self.ended.insert(alloc, ended);
    }

    /// Survives a power cut.
    pub fn set_dynamic_meta(&mut self, meta: &DynamicMeta) {
        self.dynamic_meta = Some(record::encode(meta));
        self.require_durable();
    }

    /// Something here must survive a power cut from now on. Without it the changes ride along with a later commit.
    pub fn require_durable(&mut self) {
        self.durable = true;
    }

    fn is_empty(&self) -> bool {
        self.allocs.is_empty() && self.tasks.is_empty() && self.ended.is_empty() && !self.durable
    }
}

/// Proof that a turn's changes are kept as well as they had to be. Only `ClientStore::commit` makes one.
#[derive(Debug)]
pub struct CommitReceipt {
    durable: bool,
}

impl CommitReceipt {
    /// Everything up to here survives a power cut.
    pub fn durable(&self) -> bool {
        self.durable
    }
}

/// The disk failed, or gave back what was never written to it. The store refuses everything from here on: drop it and the
/// brain, and open both again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientStoreFault {
    pub message: String,
    /// What was read is not what was written. Whether that can be borne is found out by opening the store again.
    pub damaged: bool,
}

impl From<redb::Error> for ClientStoreFault {
    fn from(e: redb::Error) -> ClientStoreFault {
        ClientStoreFault { message: e.to_string(), damaged: checksummed::is_damage(&e) }
    }
}

impl fmt::Display for ClientStoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the client's store failed ({}); it has to be opened again", self.message)
    }
}

impl std::error::Error for ClientStoreFault {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientStoreOpenError {
    /// Written by another build; without a number when it does not say by which.
    Format {
        found: Option<u64>,
        known: u64,
    },
    Storage(String),
    /// Its bytes are not what was written. The file is as it was found.
    Damaged(String),
}

impl fmt::Display for ClientStoreOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientStoreOpenError::Format { found, known } => {
                let found = found.map_or("no known format".into(), |found| format!("format {found}"));
                write!(
                    f,
                    "the client's store has {found}, this build knows format {known}: start the drover that wrote it, or move the file away and the servers will assign anew"
                )
            }
            ClientStoreOpenError::Storage(why) => write!(
                f,
                "the client's store cannot be opened: {why}; if the disk is sound, move the file away and the servers will assign anew"
            ),
            ClientStoreOpenError::Damaged(why) => write!(
                f,
                "the client's store is damaged: {why}; restore it from a good copy, or move the file away and the servers will assign anew"
            ),
        }
    }
}

impl std::error::Error for ClientStoreOpenError {}

impl<E: Into<redb::Error>> From<E> for ClientStoreOpenError {
    fn from(e: E) -> Self {
        let e = e.into();
        match checksummed::is_damage(&e) {
            true => ClientStoreOpenError::Damaged(e.to_string()),
            false => ClientStoreOpenError::Storage(e.to_string()),
        }
    }
}

pub struct ClientStore {
    db: Database,
    ended: BTreeSet<AllocId>,
    dynamic_meta: DynamicMeta,
    unreadable_rows: Vec<String>,
}

impl fmt::Debug for ClientStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientStore").field("ended", &self.ended.len()).finish_non_exhaustive()
    }
}

impl ClientStore {
    pub fn open(
        backend: impl StorageBackend,
    ) -> Result<(ClientStore, Vec<RecoveredAlloc>), ClientStoreOpenError> {
        ClientStore::open_with(backend, CACHE_BYTES)
    }

    /// `cache_bytes`: what the database may keep in memory of its file.
    pub fn open_with(
        backend: impl StorageBackend,
        cache_bytes: usize,
    ) -> Result<(ClientStore, Vec<RecoveredAlloc>), ClientStoreOpenError> {
        checksummed::clear_unfinished(&backend).map_err(redb::StorageError::from)?;
        let db = checksummed::open(backend, cache_bytes)?;
        check_format(&db)?;
        let mut store = ClientStore {
            db,
            ended: BTreeSet::new(),
            dynamic_meta: DynamicMeta::default(),
            unreadable_rows: Vec::new(),
        };
        let allocs = store.load()?;
        Ok((store, allocs))
    }

    /// Rows that could not be read, one sentence each. They stay where they are until something writes over them.
    pub fn unreadable_rows(&self) -> &[String] {
        &self.unreadable_rows
    }

    /// As it was found when the store was opened.
    pub fn dynamic_meta(&self) -> &DynamicMeta {
        &self.dynamic_meta
    }

    /// Allocations that ended here and that the servers may still list.
    pub fn ended(&self) -> &BTreeSet<AllocId> {
        &self.ended
    }

    pub fn commit(&mut self, writes: &WriteBatch) -> Result<CommitReceipt, ClientStoreFault> {
        if !writes.is_empty() {
            write(&self.db, writes)?;
            for (id, ended) in &writes.ended {
                if *ended {
                    self.ended.insert(*id);
                } else {
                    self.ended.remove(id);
                }
            }
        }
        Ok(CommitReceipt { durable: writes.durable })
    }

    fn load(&mut self) -> Result<Vec<RecoveredAlloc>, redb::Error> {
        let rows = self.db.begin_read()?.open_table(ROWS)?;
        let mut found = BTreeMap::new();
        for row in rows.range([ALLOC_ROW].as_slice()..&[DYNAMIC_META_ROW + 1])? {
            let (key, value) = row?;
            self.load_row(key.value(), value.value(), &mut found);
        }
        Ok(found.into_values().collect())
    }

    /// An allocation's row comes before those of its tasks.
    fn load_row(&mut self, key: &[u8], value: &[u8], found: &mut BTreeMap<AllocId, RecoveredAlloc>) {
        if let [DYNAMIC_META_ROW] = key {
            match record::decode(value) {
                Ok(meta) => self.dynamic_meta = meta,
                Err(why) => self.unreadable_rows.push(why.to_string()),
            }
            return;
        }
        let Some((kind, id, name)) = split_key(key) else {
            self.unreadable_rows.push(format!("a row with a key of {} bytes that nobody reads", key.len()));
            return;
        };
        match kind {
            ALLOC_ROW => match record::decode::<AllocRecord>(value) {
                Ok(record) if record.assignment.id == id => {
                    found.insert(id, RecoveredAlloc { record, tasks: BTreeMap::new() });
                }
                Ok(_) => {
                    self.unreadable_rows.push(format!("allocation {id}: the row holds another allocation"))
                }
                Err(why) => self.unreadable_rows.push(format!("allocation {id}: {why}")),
            },
            ENDED_ROW => drop(self.ended.insert(id)),
            _ => {
                let Some(alloc) = found.get_mut(&id) else { return };
                match record::decode::<TaskRecord>(value) {
                    Ok(task) => drop(alloc.tasks.insert(name.to_string(), task)),
                    Err(why) => self.unreadable_rows.push(format!("task {name} of allocation {id}: {why}")),
                }
            }
        }
    }
}

/// Checks the format, or writes it into a new store.
fn check_format(db: &Database) -> Result<(), ClientStoreOpenError> {
    let tx = db.begin_read()?;
    let rows = match tx.open_table(ROWS) {
        Err(redb::TableError::TableDoesNotExist(_)) if tx.list_tables()?.next().is_none() => {
            return Ok(create(db)?);
        }
        // another program's
        Err(redb::TableError::TableDoesNotExist(_)) => {
            return Err(ClientStoreOpenError::Format { found: None, known: FORMAT });
        }
        rows => rows?,
    };
    let format = rows.get([FORMAT_ROW].as_slice())?;
    match format.and_then(|f| f.value().try_into().ok()).map(u64::from_be_bytes) {
        Some(FORMAT) => Ok(()),
        found => Err(ClientStoreOpenError::Format { found, known: FORMAT }),
    }
}

fn create(db: &Database) -> Result<(), redb::Error> {
    let tx = db.begin_write()?;
    tx.open_table(ROWS)?.insert([FORMAT_ROW].as_slice(), FORMAT.to_be_bytes().as_slice())?;
    tx.commit()?;
    Ok(())
}

fn write(db: &Database, writes: &WriteBatch) -> Result<(), redb::Error> {
    let mut tx = db.begin_write()?;
    tx.set_durability(if writes.durable { Durability::Immediate } else { Durability::None })?;
    {
        let mut rows = tx.open_table(ROWS)?;
        let mut put = |key: &[u8], row: Option<&[u8]>| match row {
            Some(bytes) => rows.insert(key, bytes).map(drop),
            None => rows.remove(key).map(drop),
        };
        for (id, row) in &writes.allocs {
            put(&key_of(ALLOC_ROW, *id, ""), row.as_deref())?;
        }
        for ((id, name), row) in &writes.tasks {
            put(&key_of(TASK_ROW, *id, name), row.as_deref())?;
        }
        for (id, ended) in &writes.ended {
            put(&key_of(ENDED_ROW, *id, ""), ended.then_some(&[]))?;
        }
        if let Some(meta) = &writes.dynamic_meta {
            put(&[DYNAMIC_META_ROW], Some(meta))?;
        }
    }
    tx.commit()?;
    Ok(())
}

fn key_of(kind: u8, id: AllocId, task: &str) -> Vec<u8> {
    [&[kind], id.0.as_bytes().as_slice(), task.as_bytes()].concat()
}

fn split_key(key: &[u8]) -> Option<(u8, AllocId, &str)> {
    let (kind, rest) = key.split_first()?;
    let (id, task) = rest.split_first_chunk::<16>()?;
    Some((*kind, AllocId(Uuid::from_bytes(*id)), str::from_utf8(task).ok()?))
}

#[cfg(any(test, feature = "testing"))]
pub mod disk;
#[cfg(test)]
mod tests;
