//! How the client's store fails, and what is to be done about it. Refuses to know what is stored.

use std::fmt;
use std::io;

/// The disk failed. The store refuses everything from here on: a sync that failed is not tried again by the process that saw it
/// fail. Drop the store and the brain, and open both in the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientStoreFault {
    pub message: String,
}

impl fmt::Display for ClientStoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the disk under the client's store failed ({}): the agent has to be started again; tasks go on meanwhile",
            self.message
        )
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
    /// The file's bytes are not what was written. The file is as it was found.
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

impl ClientStoreOpenError {
    pub(super) fn of(error: io::Error) -> ClientStoreOpenError {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                ClientStoreOpenError::Damaged(error.to_string())
            }
            _ => ClientStoreOpenError::Storage(error.to_string()),
        }
    }
}
