//! A node's own store: what it was told to run and how far it has come, in redb over any backend. With it a node goes
//! on after a crash or a reboot with no server in reach.
//!
//! Refuses to know: what an allocation's state means and when it changes. Invariants: a row that cannot be read is set
//! aside and never ends the process; a commit with nothing in it touches no disk.

use super::verified;
use crate::model::id::{AllocId, RunId, Uuid};
use crate::model::task::TaskState;
use crate::wire::record::{self, Malformed, Record};
use crate::wire::rpc::Assignment;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const ALLOCS: TableDefinition<u128, &[u8]> = TableDefinition::new("allocs");
const TASKS: TableDefinition<(u128, &str), &[u8]> = TableDefinition::new("tasks");
/// Allocations that ended here and were collected while the servers still knew them: never to be run again.
const ENDED: TableDefinition<u128, ()> = TableDefinition::new("ended");

/// What was set of the node while it ran.
const NODE: TableDefinition<&str, &[u8]> = TableDefinition::new("node");

const DYNAMIC_META_KEY: &str = "dynamic meta";
const FORMAT_KEY: &str = "format";
const FORMAT: u64 = 1;
pub const CACHE_BYTES: usize = 1 << 20;

/// What becomes of an allocation's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    Kept,
    /// The servers no longer know it: stopped, its directory removed, then forgotten.
    Removed,
    /// Ended and collected to make room: its directory is removed, and it is remembered as ended.
    Collected,
}

/// The half of an allocation's record that rarely changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocHead {
    pub assignment: Assignment,
    pub dir_built: bool,
    pub fate: Fate,
}

/// One start of a task. Stored before the keeper is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRun {
    pub id: RunId,
    /// The machine's boot in which the start was asked for.
    pub boot: Uuid,
    /// The keeper said that it runs. Stored lazily: false proves nothing.
    pub confirmed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalTask {
    pub state: TaskState,
    pub run: Option<LocalRun>,
    /// The task's directory was announced; it is announced once.
    pub set_up: bool,
    /// `run` is to end, and to be followed by another.
    pub restart: Option<WantedRestart>,
}

/// What a restart that somebody asked for is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WantedRestart {
    Alone,
    /// Of all tasks: none starts before all have ended.
    WithAll,
}

/// Metadata that was set or unset (`None`) over what the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicMeta(pub BTreeMap<String, Option<String>>);

impl Record for DynamicMeta {
    const NAME: &'static str = "dynamic node meta";
    const VERSION: u8 = 1;
}

impl Record for AllocHead {
    const NAME: &'static str = "local allocation";
    const VERSION: u8 = 1;
}

impl Record for LocalTask {
    const NAME: &'static str = "local task";
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, Malformed> {
        let newer = Malformed::Version { name: Self::NAME, found: version, known: Self::VERSION };
        let first: LocalTask1 =
            if version == 1 { record::body(Self::NAME, body)? } else { return Err(newer) };
        let LocalTask1 { state, run, set_up } = first;
        Ok(LocalTask { state, run, set_up, restart: None })
    }
}

/// As version 1 wrote it.
#[derive(Deserialize)]
struct LocalTask1 {
    state: TaskState,
    run: Option<LocalRun>,
    set_up: bool,
}

/// An allocation as it was found in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalAlloc {
    pub head: AllocHead,
    /// By task name. A task without a row has not begun.
    pub tasks: BTreeMap<String, LocalTask>,
}

/// One turn's changes. `None` removes.
#[derive(Debug, Default)]
pub struct Writes {
    allocs: BTreeMap<AllocId, Option<Vec<u8>>>,
    tasks: BTreeMap<(AllocId, String), Option<Vec<u8>>>,
    ended: BTreeMap<AllocId, bool>,
    dynamic_meta: Option<Vec<u8>>,
    durable: bool,
}

impl Writes {
    pub fn put_alloc(&mut self, head: &AllocHead) {
        self.allocs.insert(head.assignment.id, Some(record::encode(head)));
    }

    pub fn put_task(&mut self, alloc: AllocId, name: &str, task: &LocalTask) {
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
        self.must_last();
    }

    /// Something here must survive a power cut from now on. Without it the changes ride along with a later commit.
    pub fn must_last(&mut self) {
        self.durable = true;
    }

    fn is_empty(&self) -> bool {
        self.allocs.is_empty() && self.tasks.is_empty() && self.ended.is_empty() && !self.durable
    }
}

/// Proof that a turn's changes are kept as well as they had to be. Only `LocalStore::commit` makes one.
#[derive(Debug)]
pub struct Receipt {
    durable: bool,
}

impl Receipt {
    /// Everything up to here survives a power cut.
    pub fn durable(&self) -> bool {
        self.durable
    }
}

/// The disk failed, or gave back what was never written to it. The store refuses everything from here on: drop it and the
/// brain, and open both again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub message: String,
    /// What was read is not what was written. Whether that can be borne is found out by opening the store again.
    pub damaged: bool,
}

impl From<redb::Error> for Fault {
    fn from(e: redb::Error) -> Fault {
        Fault { message: e.to_string(), damaged: verified::is_damage(&e) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the client's store failed ({}); it has to be opened again", self.message)
    }
}

impl std::error::Error for Fault {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Written by a newer build.
    Newer {
        found: u64,
        known: u64,
    },
    Storage(String),
    /// Its bytes are not what was written. The file is as it was found.
    Damaged(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Newer { found, known } => write!(
                f,
                "the client's store has format {found}, this build knows {known}: start a newer drover, or move the store away"
            ),
            OpenError::Storage(why) => write!(
                f,
                "the client's store cannot be opened: {why}; if the disk is sound, move the file away and the servers will assign anew"
            ),
            OpenError::Damaged(why) => write!(
                f,
                "the client's store is damaged: {why}; restore it from a good copy, or move the file away and the servers will assign anew"
            ),
        }
    }
}

impl std::error::Error for OpenError {}

impl<E: Into<redb::Error>> From<E> for OpenError {
    fn from(e: E) -> Self {
        let e = e.into();
        match verified::is_damage(&e) {
            true => OpenError::Damaged(e.to_string()),
            false => OpenError::Storage(e.to_string()),
        }
    }
}

pub struct LocalStore {
    db: Database,
    ended: BTreeSet<AllocId>,
    dynamic_meta: DynamicMeta,
    set_aside: Vec<String>,
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore").field("ended", &self.ended.len()).finish_non_exhaustive()
    }
}

impl LocalStore {
    pub fn open(backend: impl StorageBackend) -> Result<(LocalStore, Vec<LocalAlloc>), OpenError> {
        LocalStore::open_with(backend, CACHE_BYTES)
    }

    /// `cache_bytes`: what the database may keep in memory of its file.
    pub fn open_with(
        backend: impl StorageBackend,
        cache_bytes: usize,
    ) -> Result<(LocalStore, Vec<LocalAlloc>), OpenError> {
        let db = verified::open(backend, cache_bytes)?;
        prepare(&db)?;
        let mut store = LocalStore {
            db,
            ended: BTreeSet::new(),
            dynamic_meta: DynamicMeta::default(),
            set_aside: Vec::new(),
        };
        let allocs = store.load()?;
        Ok((store, allocs))
    }

    /// Rows that could not be read, one sentence each. They stay where they are until something writes over them.
    pub fn set_aside(&self) -> &[String] {
        &self.set_aside
    }

    /// As it was found when the store was opened.
    pub fn dynamic_meta(&self) -> &DynamicMeta {
        &self.dynamic_meta
    }

    /// Allocations that ended here and that the servers may still list.
    pub fn ended(&self) -> &BTreeSet<AllocId> {
        &self.ended
    }

    pub fn commit(&mut self, writes: &Writes) -> Result<Receipt, Fault> {
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
        Ok(Receipt { durable: writes.durable })
    }

    fn load(&mut self) -> Result<Vec<LocalAlloc>, redb::Error> {
        let tx = self.db.begin_read()?;
        let mut found = BTreeMap::new();
        for row in tx.open_table(ALLOCS)?.iter()? {
            let (key, value) = row?;
            let id = id_of(key.value());
            match record::decode::<AllocHead>(value.value()) {
                Ok(head) if head.assignment.id == id => {
                    found.insert(id, LocalAlloc { head, tasks: BTreeMap::new() });
                }
                Ok(_) => self.set_aside.push(format!("allocation {id}: the row holds another allocation")),
                Err(why) => self.set_aside.push(format!("allocation {id}: {why}")),
            }
        }
        for row in tx.open_table(TASKS)?.iter()? {
            let (key, value) = row?;
            let (id, name) = key.value();
            let Some(alloc) = found.get_mut(&id_of(id)) else { continue };
            match record::decode::<LocalTask>(value.value()) {
                Ok(task) => drop(alloc.tasks.insert(name.to_string(), task)),
                Err(why) => self.set_aside.push(format!("task {name} of allocation {}: {why}", id_of(id))),
            }
        }
        for row in tx.open_table(ENDED)?.iter()? {
            self.ended.insert(id_of(row?.0.value()));
        }
        match tx.open_table(NODE) {
            // a store from before there was any
            Err(redb::TableError::TableDoesNotExist(_)) => {}
            table => match table?.get(DYNAMIC_META_KEY)?.map(|row| record::decode(row.value())) {
                None => {}
                Some(Ok(meta)) => self.dynamic_meta = meta,
                Some(Err(why)) => self.set_aside.push(why.to_string()),
            },
        }
        Ok(found.into_values().collect())
    }
}

/// Checks the format, or writes it into a new store together with the empty tables.
fn prepare(db: &Database) -> Result<(), OpenError> {
    let tx = db.begin_read()?;
    let found = match tx.open_table(META) {
        Ok(meta) => meta.get(FORMAT_KEY)?.map(|v| v.value()),
        Err(redb::TableError::TableDoesNotExist(_)) => None,
        Err(e) => return Err(e.into()),
    };
    match found {
        Some(FORMAT) => Ok(()),
        Some(found) => Err(OpenError::Newer { found, known: FORMAT }),
        None => Ok(create(db)?),
    }
}

fn create(db: &Database) -> Result<(), redb::Error> {
    let tx = db.begin_write()?;
    tx.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
    tx.open_table(ALLOCS)?;
    tx.open_table(TASKS)?;
    tx.open_table(ENDED)?;
    tx.commit()?;
    Ok(())
}

fn write(db: &Database, writes: &Writes) -> Result<(), redb::Error> {
    let mut tx = db.begin_write()?;
    tx.set_durability(if writes.durable { Durability::Immediate } else { Durability::None })?;
    if !writes.allocs.is_empty() {
        let mut table = tx.open_table(ALLOCS)?;
        for (id, row) in &writes.allocs {
            match row {
                Some(bytes) => table.insert(key_of(*id), bytes.as_slice())?,
                None => table.remove(key_of(*id))?,
            };
        }
    }
    if !writes.tasks.is_empty() {
        let mut table = tx.open_table(TASKS)?;
        for ((id, name), row) in &writes.tasks {
            match row {
                Some(bytes) => table.insert((key_of(*id), name.as_str()), bytes.as_slice())?,
                None => table.remove((key_of(*id), name.as_str()))?,
            };
        }
    }
    if let Some(meta) = &writes.dynamic_meta {
        tx.open_table(NODE)?.insert(DYNAMIC_META_KEY, meta.as_slice())?;
    }
    if !writes.ended.is_empty() {
        let mut table = tx.open_table(ENDED)?;
        for (id, ended) in &writes.ended {
            match ended {
                true => table.insert(key_of(*id), ())?,
                false => table.remove(key_of(*id))?,
            };
        }
    }
    tx.commit()?;
    Ok(())
}

fn key_of(id: AllocId) -> u128 {
    u128::from_be_bytes(*id.0.as_bytes())
}

fn id_of(key: u128) -> AllocId {
    AllocId(Uuid::from_bytes(key.to_be_bytes()))
}

#[cfg(test)]
pub mod tests;
