//! A snapshot's way into the store: its rows go into the slot that does not count, and one synced frame of the log makes it the one
//! that does. A crash before that frame leaves the old state, one after it the new one.
//!
//! Refuses to know who sends. Invariants: until the frame is written, nothing that goes wrong here touches the state; when it is
//! written, the slot is durable, its digest is the announced one, and its fleet was read; a view of the old state stays good.

use super::{PublishedState, Receipt, Store};
use crate::database;
use crate::fault::Fault;
use crate::log_batch::LogBatch;
use crate::snapshot::{Malformed, RowParser, SnapshotHeader};
use crate::tables::{AppliedState, STATE};
use redb::{Database, Durability};
use scheduler::fleet::Fleet;
use std::fmt;
use std::sync::Arc;
use wire::record;

/// So many bytes of rows are made durable together: the last sync is not to be a long one.
const SYNC_EVERY_BYTES: usize = 4 << 20;
/// What an empty database takes.
const EMPTY_BYTES: u64 = 1 << 20;

pub(super) struct Incoming {
    database: Database,
    header: SnapshotHeader,
    applied: AppliedState,
    parser: RowParser,
    feature_level: u32,
    unsynced_bytes: usize,
    /// All rows are there, durable and verified.
    complete: Option<Fleet>,
}

/// A database that counts no more, and who still reads it.
pub(super) struct Retired {
    _database: Arc<Database>,
    in_use: Arc<()>,
}

/// Why a snapshot was not taken. The state is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotInstalled {
    /// The state before the last snapshot is still being read.
    Busy,
    NoRoom {
        needed: u64,
        free: u64,
    },
    Malformed(Malformed),
    /// The disk failed under the slot that does not count.
    Fault(Fault),
}

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotInstalled::Busy => f.write_str("the state before the last snapshot is still being read"),
            NotInstalled::NoRoom { needed, free } => {
                write!(f, "the snapshot may need {needed} bytes of the disk, {free} are free")
            }
            NotInstalled::Malformed(why) => why.fmt(f),
            NotInstalled::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for NotInstalled {}

impl From<Malformed> for NotInstalled {
    fn from(why: Malformed) -> Self {
        NotInstalled::Malformed(why)
    }
}

impl<E: Into<Fault>> From<E> for NotInstalled {
    fn from(e: E) -> Self {
        NotInstalled::Fault(e.into())
    }
}

impl Store {
    /// The size of the state's file.
    pub fn state_bytes(&self) -> Result<u64, Fault> {
        self.slots[usize::from(self.slot)].bytes()
    }

    /// Makes ready for the rows of this snapshot. What came of an earlier one is thrown away.
    pub fn receive_snapshot(&mut self, header: SnapshotHeader) -> Result<(), NotInstalled> {
        self.abandon_snapshot();
        self.clear_retired()?;
        if self.retired.is_some() {
            return Err(NotInstalled::Busy);
        }
        let applied = header.applied()?;
        // in the order of its keys, a database is filled less well than by and by
        let needed = header.bytes.saturating_add(header.bytes / 2).saturating_add(EMPTY_BYTES);
        let free = (self.free_bytes)().map_err(redb::StorageError::from)?;
        if free < needed {
            return Err(NotInstalled::NoRoom { needed, free });
        }
        let slot = &self.slots[usize::from(self.other_slot())];
        slot.clear()?;
        let database = database::open(slot, self.options)?;
        database::create(&database)?;
        self.incoming = Some(Incoming {
            database,
            header,
            applied,
            parser: RowParser::default(),
            feature_level: self.options.feature_level,
            unsynced_bytes: 0,
            complete: None,
        });
        Ok(())
    }

    /// Takes the next bytes of the rows. After an error, nothing of the snapshot is left.
    pub fn receive_chunk(&mut self, bytes: &[u8]) -> Result<(), NotInstalled> {
        let taken = self.incoming().and_then(|incoming| incoming.take(bytes));
        self.or_abandon(taken)
    }

    /// All rows have come. Two syncs.
    pub fn complete_snapshot(&mut self) -> Result<(), NotInstalled> {
        let completed = self.incoming().and_then(Incoming::complete);
        self.or_abandon(completed)
    }

    /// Throws away what came of a snapshot, if there is one.
    pub fn abandon_snapshot(&mut self) {
        if self.incoming.take().is_some() {
            // bytes that this cannot free are freed by the next snapshot, or by the next opening
            let _ = self.slots[usize::from(self.other_slot())].clear();
        }
    }

    /// The snapshot that is complete takes the place of the state and of the log, and `batch` follows it. ONE sync.
    pub fn install_snapshot(&mut self, batch: &LogBatch) -> Result<Receipt, Fault> {
        let Some(Incoming { database, header, applied, complete: Some(fleet), .. }) = self.incoming.take()
        else {
            return Err(Fault::corrupt("no snapshot is complete that could be installed"));
        };
        let last_index = contiguous(header.index, batch)?;
        assert_eq!(applied.index, header.index, "a snapshot is the state at its index");
        let (slot, place) = (self.other_slot(), (header.index, header.term));
        let frame = LogBatch {
            truncate_from: None,
            compact_to: None,
            install: Some(header.installation(&applied)),
            slot: Some(slot),
            conf_state: Some(header.members),
            ..batch.clone()
        };
        self.log.append(&record::encode(&frame)).map_err(Fault::of_log)?;
        let hard_state = frame.hard_state.or(self.segment_head.hard_state.take());
        self.segment_head = LogBatch {
            hard_state,
            conf_state: frame.conf_state,
            compact_to: Some(place),
            slot: Some(slot),
            server_id: self.segment_head.server_id,
            ..LogBatch::default()
        };
        (self.slot, self.last_index, self.last_before) = (slot, last_index, 0);
        self.publish(Arc::new(database), applied, fleet);
        Ok(Receipt { last_index })
    }

    fn publish(&mut self, database: Arc<Database>, applied: AppliedState, fleet: Fleet) {
        let published = PublishedState {
            database: database.clone(),
            in_use: Arc::new(()),
            applied,
            fleet: fleet.snapshot(),
        };
        let old = std::mem::replace(&mut *self.shared.published(), published);
        self.retired = Some(Retired { _database: old.database, in_use: old.in_use });
        (self.database, self.applied, self.fleet, self.unsaved_rows) = (database, applied, fleet, 0);
    }

    /// Frees what was the state before a snapshot came, once nobody reads it.
    pub(super) fn clear_retired(&mut self) -> Result<(), Fault> {
        match &self.retired {
            Some(retired) if Arc::strong_count(&retired.in_use) == 1 => {
                self.retired = None;
                self.slots[usize::from(self.other_slot())].clear()
            }
            _ => Ok(()),
        }
    }

    fn other_slot(&self) -> u8 {
        1 - self.slot
    }

    fn incoming(&mut self) -> Result<&mut Incoming, NotInstalled> {
        let incoming = self.incoming.as_mut().filter(|incoming| incoming.complete.is_none());
        incoming.ok_or_else(|| Fault::corrupt("no snapshot is on its way").into())
    }

    fn or_abandon(&mut self, done: Result<(), NotInstalled>) -> Result<(), NotInstalled> {
        if done.is_err() {
            self.abandon_snapshot();
        }
        done
    }
}

impl Incoming {
    fn take(&mut self, bytes: &[u8]) -> Result<(), NotInstalled> {
        let mut transaction = self.database.begin_write()?;
        self.unsynced_bytes += bytes.len();
        if self.unsynced_bytes < SYNC_EVERY_BYTES {
            transaction.set_durability(Durability::None)?;
        } else {
            self.unsynced_bytes = 0;
        }
        let mut rows = transaction.open_table(STATE)?;
        self.parser.take(bytes, |key, value| -> Result<(), NotInstalled> {
            rows.insert(key, value)?;
            Ok(())
        })?;
        drop(rows);
        Ok(transaction.commit()?)
    }

    fn complete(&mut self) -> Result<(), NotInstalled> {
        self.parser.finish(self.applied.digest)?;
        let transaction = self.database.begin_write()?;
        database::write_applied(&transaction, self.applied, Some(&self.header.members))?;
        database::write_installed(&transaction, &self.header.installation(&self.applied))?;
        transaction.commit()?;
        database::check_feature_level(&self.database, self.feature_level)?;
        self.complete = Some(database::rebuild_fleet(&self.database)?);
        Ok(())
    }
}

/// The log's last index, with the batch behind the snapshot.
fn contiguous(snapshot: u64, batch: &LogBatch) -> Result<u64, Fault> {
    let mut last = snapshot;
    for (index, _) in &batch.entries {
        if *index != last + 1 {
            return Err(Fault::corrupt(format!(
                "entry {index} of the log was to follow the snapshot of {last}"
            )));
        }
        last = *index;
    }
    Ok(last)
}
