//! The files that may hold a store's state, and the database in one of them: how it is opened and made, and what its META table says.
//! There are two such files, called slots: the state is in one of them, and a snapshot is written to the other.
//!
//! Refuses to know which slot counts, and the log. Invariant: a slot that is looked at is not changed by that.

use super::checksummed;
use super::fault::Fault;
use super::log_batch::Installation;
use super::members;
use super::options::Options;
use super::tables::{self, AppliedState, FORMAT, Kind, META, STATE, StoredMembers};
use super::view;
use model::alloc::Allocation;
use model::id::NodeId;
use redb::{Database, ReadableDatabase, StorageBackend, TableError, WriteTransaction};
use scheduler::fleet::Fleet;
use std::io;
use std::sync::Arc;
use wire::record;

/// What redb's header begins with, of its file format 3.
const REDB_MAGIC_BYTES: usize = 9;

/// One of the two files. Clones are the same file.
#[derive(Clone, Debug)]
pub(super) struct Slot(Arc<dyn StorageBackend>);

impl Slot {
    pub fn new(file: impl StorageBackend) -> Slot {
        Slot(Arc::new(file))
    }

    pub fn bytes(&self) -> Result<u64, Fault> {
        Ok(self.0.len().map_err(redb::StorageError::from)?)
    }

    /// Empties a slot that is needed no more. Not synced: an opening does it again.
    pub fn clear(&self) -> Result<(), Fault> {
        match self.bytes()? {
            0 => Ok(()),
            _ => Ok(self.0.set_len(0).map_err(redb::StorageError::from)?),
        }
    }

    /// Creating a database ends with its header: one without was cut off, and holds nothing.
    pub fn clear_unfinished(&self) -> Result<(), Fault> {
        let mut magic = [0; REDB_MAGIC_BYTES];
        if self.bytes()? >= magic.len() as u64 {
            self.0.read(0, &mut magic).map_err(redb::StorageError::from)?;
        }
        if magic == [0; REDB_MAGIC_BYTES] { self.clear() } else { Ok(()) }
    }
}

impl StorageBackend for Slot {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

/// What a database says of the state in it.
#[derive(Debug)]
pub(super) struct Meta {
    pub applied: AppliedState,
    pub members: Option<Vec<u8>>,
    pub installed: Option<Installation>,
}

pub(super) fn open(slot: &Slot, options: Options) -> Result<Database, redb::DatabaseError> {
    #[cfg(any(test, feature = "testing"))]
    if options.unverified {
        return redb::Builder::new().set_cache_size(options.cache_bytes).create_with_backend(slot.clone());
    }
    checksummed::open(slot.clone(), options.cache_bytes)
}

/// `None`: nothing was ever written.
pub(super) fn format_of(database: &Database) -> Result<Option<u32>, Fault> {
    let transaction = database.begin_read()?;
    let meta = match transaction.open_table(META) {
        Err(TableError::TableDoesNotExist(_)) if transaction.list_tables()?.next().is_none() => {
            return Ok(None);
        }
        meta => meta?,
    };
    let Some(format) = meta.get(tables::META_FORMAT)? else {
        return Err(Fault::corrupt("the database has a META table but no format"));
    };
    let bytes = format.value().try_into().map_err(|_| Fault::corrupt("the format is not a number"))?;
    Ok(Some(u32::from_be_bytes(bytes)))
}

/// A state of a higher level may hold what a build of this one cannot read.
pub(super) fn check_feature_level(database: &Database, known: u32) -> Result<(), Fault> {
    let level = members::region_level(&database.begin_read()?.open_table(STATE)?)?.level;
    if level > known { Err(Fault::needs_level(level, known)) } else { Ok(()) }
}

pub(super) fn create(database: &Database) -> Result<(), Fault> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(tables::META_FORMAT, FORMAT.to_be_bytes().as_slice())?;
    transaction.open_table(STATE)?;
    Ok(transaction.commit()?)
}

pub(super) fn write_applied(
    transaction: &WriteTransaction,
    applied: AppliedState,
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

pub(super) fn write_installed(transaction: &WriteTransaction, installed: &Installation) -> Result<(), Fault> {
    let mut meta = transaction.open_table(META)?;
    meta.insert(tables::META_INSTALLED, record::encode(installed).as_slice())?;
    Ok(())
}

pub(super) fn read_meta(database: &Database) -> Result<Meta, Fault> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let members: Option<StoredMembers> = tables::get(&meta, tables::META_MEMBERS)?;
    Ok(Meta {
        applied: tables::get(&meta, tables::META_APPLIED)?.unwrap_or_default(),
        members: members.map(|m| m.conf_state),
        installed: tables::get(&meta, tables::META_INSTALLED)?,
    })
}

/// Equals the fleet that all edits since the first entry would have given.
pub(super) fn rebuild_fleet(database: &Database) -> Result<Fleet, Fault> {
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
