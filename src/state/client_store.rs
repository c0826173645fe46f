//! A node's own store: what it was told to run and how far it has come. With it a node goes on after a crash or a reboot with no
//! server in reach. All rows are in memory; on the disk there is only a log of what changed them, which begins with all of them
//! again when it has grown.
//!
//! Refuses to know: what an allocation's state means and when it changes. Invariants: a row that cannot be read is set
//! aside and never ends the process; a commit with nothing new in it touches no disk; what a receipt calls durable is in the log.

use super::checksum::checksum;
use super::wal::{Wal, WalContents, WalFile};
use model::id::{AllocId, DeploymentId, RunId, Uuid};
use model::member::{Generation, ServerList};
use model::task::TaskState;
use model::time::Wall;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use wire::record;
use wire::rpc::Assignment;

pub use errors::{ClientStoreFault, ClientStoreOpenError};

/// The first byte of a key says of which kind its row is.
/// By allocation: its head.
const ALLOC_ROW: u8 = 1;
/// By allocation and task name: the task.
const TASK_ROW: u8 = 2;
/// By allocation: it ended here and was collected while the servers still knew it, never to be run again.
const ENDED_ROW: u8 = 3;
/// Metadata that was set on the node while it ran. Its key is the kind alone.
const DYNAMIC_META_ROW: u8 = 4;
/// The newest state that servers have shown. Its key is the kind alone.
const SHOWN_ROW: u8 = 5;
/// The servers of the region. Its key is the kind alone.
const SERVERS_ROW: u8 = 6;

const FORMAT: u64 = 1;

/// The log begins anew once this much was appended behind its checkpoint, or as much as `CHECKPOINT_SHARE` times the rows take.
pub const SEGMENT_BYTES: u64 = 256 << 10;
/// All rows are written again for this many times as much of changes.
const CHECKPOINT_SHARE: u64 = 2;

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
    /// The health verdict in the allocation's deployment: found once, and never changed.
    pub health: Option<HealthResult>,
    /// When this node first had the allocation.
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

impl RunRecord {
    pub fn new(random: u128, boot: Uuid) -> RunRecord {
        RunRecord { id: RunId::from_random(random), boot, confirmed: false }
    }
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

/// Whether a wanted restart is of one task, or of all tasks of its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WantedRestart {
    Alone,
    /// All tasks restart together: none starts before all have ended.
    WithAll,
}

/// Metadata that was set or unset (`None`) over what the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicMeta(pub BTreeMap<String, Option<String>>);

/// The newest state that servers have shown to this node: none that is older is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownState {
    pub generation: Generation,
    pub index: u64,
}

/// What a segment of the log begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLogHead {
    pub format: u64,
    /// Frames of the segment before this one. It counts until this one has its checkpoint.
    pub frames_before: u64,
}

/// Rows by key, as one frame of the log holds them. Without a value the row is removed. The first frame behind a head is a
/// checkpoint: it holds all rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowBatch(pub Vec<(Vec<u8>, Option<Vec<u8>>)>);

wire::records! {
    ClientLogHead = "client log head" 1;
    RowBatch = "client rows" 1;
    DynamicMeta = "dynamic node meta" 1;
    ShownState = "shown state" 1;
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

/// One turn's changes, by key. `None` removes.
#[derive(Debug, Default)]
pub struct WriteBatch {
    rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    durable: bool,
}

impl WriteBatch {
    pub fn put_alloc(&mut self, record: &AllocRecord) {
        self.rows.insert(key_of(ALLOC_ROW, record.assignment.id, ""), Some(record::encode(record)));
    }

    pub fn put_task(&mut self, alloc: AllocId, name: &str, task: &TaskRecord) {
        self.rows.insert(key_of(TASK_ROW, alloc, name), Some(record::encode(task)));
    }

    pub fn remove<'a>(&mut self, alloc: AllocId, tasks: impl Iterator<Item = &'a str>) {
        self.rows.insert(key_of(ALLOC_ROW, alloc, ""), None);
        for name in tasks {
            self.rows.insert(key_of(TASK_ROW, alloc, name), None);
        }
    }

    /// Remembers (or no longer remembers) an allocation that ended here.
    pub fn set_ended(&mut self, alloc: AllocId, ended: bool) {
        self.rows.insert(key_of(ENDED_ROW, alloc, ""), ended.then(Vec::new));
    }

    /// Sets metadata, which has to survive a power cut.
    pub fn set_dynamic_meta(&mut self, meta: &DynamicMeta) {
        self.rows.insert(vec![DYNAMIC_META_ROW], Some(record::encode(meta)));
        self.require_durable();
    }

    /// Another generation has to survive a power cut; a newer index is stored with the next durable commit.
    pub fn set_shown(&mut self, shown: &ShownState, is_other_generation: bool) {
        self.rows.insert(vec![SHOWN_ROW], Some(record::encode(shown)));
        self.durable |= is_other_generation;
    }

    /// Sets the list of servers, which has to survive a power cut.
    pub fn set_servers(&mut self, servers: &ServerList) {
        self.rows.insert(vec![SERVERS_ROW], Some(record::encode(servers)));
        self.require_durable();
    }

    /// Makes the commit of these changes durable. Otherwise they are with a later one that is.
    pub fn require_durable(&mut self) {
        self.durable = true;
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

pub struct ClientStore {
    log: Wal,
    /// The rows as of the last commit, durable or not.
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Bytes of all rows.
    row_bytes: u64,
    /// Keys of rows that are not as the log has them.
    unsaved: BTreeSet<Vec<u8>>,
    segment_bytes: u64,
    /// The length of the log at which it begins anew.
    full_at: u64,
    /// Frames of this segment, its head included.
    frames: u64,
    has_failed: bool,
    ended: BTreeSet<AllocId>,
    dynamic_meta: DynamicMeta,
    shown: ShownState,
    servers: ServerList,
    unreadable_rows: Vec<String>,
}

impl fmt::Debug for ClientStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientStore").field("ended", &self.ended.len()).finish_non_exhaustive()
    }
}

impl ClientStore {
    pub fn open(files: [WalFile; 2]) -> Result<(ClientStore, Vec<RecoveredAlloc>), ClientStoreOpenError> {
        ClientStore::open_with(files, SEGMENT_BYTES)
    }

    /// `segment_bytes`: see `SEGMENT_BYTES`.
    pub fn open_with(
        files: [WalFile; 2],
        segment_bytes: u64,
    ) -> Result<(ClientStore, Vec<RecoveredAlloc>), ClientStoreOpenError> {
        let (log, contents) = open_log(files)?;
        let mut store = ClientStore {
            log,
            rows: BTreeMap::new(),
            row_bytes: 0,
            unsaved: BTreeSet::new(),
            segment_bytes,
            full_at: 0,
            frames: contents.current.len() as u64,
            has_failed: false,
            ended: BTreeSet::new(),
            dynamic_meta: DynamicMeta::default(),
            shown: ShownState::default(),
            servers: ServerList::default(),
            unreadable_rows: Vec::new(),
        };
        for frame in frames_that_count(&contents)? {
            let batch: RowBatch =
                record::decode(frame).map_err(|e| ClientStoreOpenError::Damaged(e.to_string()))?;
            batch.0.into_iter().for_each(|(key, row)| store.change(key, row));
        }
        if store.frames == 1 {
            store.write_checkpoint().map_err(ClientStoreOpenError::of)?;
        }
        store.full_at = store.log.bytes() + store.room_for_changes();
        let allocs = store.load();
        Ok((store, allocs))
    }

    /// Rows that could not be read, one sentence each. They stay where they are until something writes over them.
    pub fn unreadable_rows(&self) -> &[String] {
        &self.unreadable_rows
    }

    /// The metadata when the store was opened.
    pub fn dynamic_meta(&self) -> &DynamicMeta {
        &self.dynamic_meta
    }

    /// The newest state of the servers when the store was opened; all zero: none was shown yet.
    pub fn shown(&self) -> ShownState {
        self.shown
    }

    /// The list of servers when the store was opened.
    pub fn servers(&self) -> &ServerList {
        &self.servers
    }

    /// Allocations that ended here and that the servers may still list.
    pub fn ended(&self) -> &BTreeSet<AllocId> {
        &self.ended
    }

    /// One sync if anything has to be durable that is not yet; two more when the log starts again with a checkpoint.
    pub fn commit(&mut self, writes: WriteBatch) -> Result<CommitReceipt, ClientStoreFault> {
        let WriteBatch { rows, durable } = writes;
        for (key, row) in rows {
            if self.rows.get(&key) != row.as_ref() {
                self.unsaved.insert(key.clone());
                self.change(key, row);
            }
        }
        if durable && !self.unsaved.is_empty() {
            self.save()?;
        }
        Ok(CommitReceipt { durable })
    }

    fn change(&mut self, key: Vec<u8>, row: Option<Vec<u8>>) {
        if let Some((ENDED_ROW, id, "")) = split_key(&key) {
            match row {
                Some(_) => self.ended.insert(id),
                None => self.ended.remove(&id),
            };
        }
        let bytes = |row: &Vec<u8>| (key.len() + row.len()) as u64;
        self.row_bytes += row.as_ref().map_or(0, bytes);
        self.row_bytes -= self.rows.get(&key).map_or(0, bytes);
        match row {
            Some(row) => drop(self.rows.insert(key, row)),
            None => drop(self.rows.remove(&key)),
        }
    }

    /// Everything up to here is in the log when this returns.
    fn save(&mut self) -> Result<(), ClientStoreFault> {
        let failed = |error: &dyn fmt::Display| ClientStoreFault { message: error.to_string() };
        if self.has_failed {
            return Err(failed(&"it has failed before"));
        }
        let saved = self.append_changes().and_then(|()| match self.log.bytes() > self.full_at {
            true => self.begin_segment(),
            false => Ok(()),
        });
        self.has_failed = saved.is_err();
        saved.map_err(|error| failed(&error))
    }

    fn append_changes(&mut self) -> io::Result<()> {
        let rows = &self.rows;
        let changed = self.unsaved.iter().map(|key| (key.clone(), rows.get(key).cloned()));
        self.log.append(&record::encode(&RowBatch(changed.collect())))?;
        self.frames += 1;
        self.unsaved.clear();
        Ok(())
    }

    /// Every row is in the segment at hand, so the other is begun anew. The one at hand counts until the other has its checkpoint.
    fn begin_segment(&mut self) -> io::Result<()> {
        let head = record::encode(&ClientLogHead { format: FORMAT, frames_before: self.frames });
        let salt = checksum(self.frames, &self.checkpoint());
        self.log.begin_segment(salt, &head)?;
        self.frames = 1;
        self.write_checkpoint()?;
        self.full_at = self.log.bytes() + self.room_for_changes();
        Ok(())
    }

    fn write_checkpoint(&mut self) -> io::Result<()> {
        self.log.append(&self.checkpoint())?;
        self.frames += 1;
        Ok(())
    }

    fn checkpoint(&self) -> Vec<u8> {
        let rows = self.rows.iter().map(|(key, row)| (key.clone(), Some(row.clone())));
        record::encode(&RowBatch(rows.collect()))
    }

    fn room_for_changes(&self) -> u64 {
        self.segment_bytes.max(CHECKPOINT_SHARE * self.row_bytes)
    }

    fn load(&mut self) -> Vec<RecoveredAlloc> {
        let rows = std::mem::take(&mut self.rows);
        let mut found = BTreeMap::new();
        rows.iter().for_each(|(key, row)| self.load_row(key, row, &mut found));
        self.rows = rows;
        found.into_values().collect()
    }

    /// An allocation's row comes before those of its tasks.
    fn load_row(&mut self, key: &[u8], value: &[u8], found: &mut BTreeMap<AllocId, RecoveredAlloc>) {
        if let [kind @ (DYNAMIC_META_ROW | SHOWN_ROW | SERVERS_ROW)] = key {
            let read = match *kind {
                DYNAMIC_META_ROW => record::decode(value).map(|meta| self.dynamic_meta = meta),
                SHOWN_ROW => record::decode(value).map(|shown| self.shown = shown),
                _ => record::decode(value).map(|servers| self.servers = servers),
            };
            self.unreadable_rows.extend(read.err().map(|why| why.to_string()));
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

/// The log and what is in it; a new one where none was ever begun.
fn open_log(files: [WalFile; 2]) -> Result<(Wal, WalContents), ClientStoreOpenError> {
    let found = match Wal::scan(&files) {
        Err(why) if Wal::was_begun(&files).map_err(ClientStoreOpenError::of)? => {
            return Err(ClientStoreOpenError::of(why));
        }
        Err(_) => {
            let head = record::encode(&ClientLogHead { format: FORMAT, frames_before: 0 });
            let log = Wal::create(files, 0, &head).map_err(ClientStoreOpenError::of)?;
            return Ok((log, WalContents { before: vec![], current: vec![head] }));
        }
        Ok(found) => found,
    };
    match found.contents.current.first().map(|head| record::decode::<ClientLogHead>(head)) {
        Some(Ok(head)) if head.format == FORMAT => {}
        head => {
            let found = head.and_then(Result::ok).map(|head| head.format);
            return Err(ClientStoreOpenError::Format { found, known: FORMAT });
        }
    }
    Wal::resume(files, found).map_err(ClientStoreOpenError::of)
}

/// The frames that hold all rows: those of the newest segment, or of the one before it while the newest lacks its checkpoint.
fn frames_that_count(contents: &WalContents) -> Result<&[Vec<u8>], ClientStoreOpenError> {
    let damaged = || ClientStoreOpenError::Damaged("the log lacks frames that were written".into());
    let (head, changes) = contents.current.split_first().ok_or_else(damaged)?;
    if !changes.is_empty() {
        return Ok(changes);
    }
    let head: ClientLogHead = record::decode(head).map_err(|_| damaged())?;
    match contents.before.len() as u64 == head.frames_before {
        true => Ok(contents.before.get(1..).unwrap_or_default()),
        false => Err(damaged()),
    }
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
mod errors;
#[cfg(test)]
mod tests;
