//! How storage fails, as one type, with the one thing that callers must know: may the state have changed?
//!
//! Refuses to know what anyone does about it. After any fault that is not `Corrupt` redb refuses reads too: drop the
//! store and open it again.

use super::checksummed;
use std::fmt;
use std::io;
use wire::record::DecodeError;

/// The environment's fault, never a caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No space left. Free some, then open the store again.
    Full(Detail),
    /// The disk failed, or the store was closed.
    Storage(Detail),
    /// Stored bytes, or committed ones, are not what they must be.
    Corrupt(Detail),
    /// A newer build wrote what this one cannot read.
    Newer(Detail),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    pub message: String,
    /// The commit itself failed, so that it may or may not be on the disk. Otherwise nothing changed.
    pub may_have_changed: bool,
}

impl Fault {
    pub fn corrupt(message: impl Into<String>) -> Fault {
        Fault::Corrupt(Detail { message: message.into(), may_have_changed: false })
    }

    fn newer(message: impl Into<String>) -> Fault {
        Fault::Newer(Detail { message: message.into(), may_have_changed: false })
    }

    /// The region has that feature level, and this build's is lower.
    pub fn needs_level(level: u32, known: u32) -> Fault {
        Fault::newer(format!("the region's feature level is {level}, this build knows {known}"))
    }

    /// The store that this came from may hold the change that was asked for.
    #[cfg(any(test, feature = "testing"))]
    pub fn may_have_changed(&self) -> bool {
        self.detail().may_have_changed
    }

    fn detail(&self) -> &Detail {
        match self {
            Fault::Full(d) | Fault::Storage(d) | Fault::Corrupt(d) | Fault::Newer(d) => d,
        }
    }

    /// The log could not be read or written. What was to be written may be there.
    pub(super) fn of_log(error: io::Error) -> Fault {
        Fault::of(redb::Error::Io(error), true)
    }

    fn of(error: redb::Error, may_have_changed: bool) -> Fault {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let detail = Detail { message: error.to_string(), may_have_changed };
        match error {
            redb::Error::Io(e) if matches!(e.kind(), StorageFull | QuotaExceeded) => Fault::Full(detail),
            error if checksummed::is_damage(&error) => Fault::Corrupt(detail),
            _ => Fault::Storage(detail),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Fault::Full(_) => "no space left for the server's state: free some",
            Fault::Storage(_) => "the disk under the server's state failed",
            Fault::Corrupt(_) => "the server's state is damaged: restore it from a good copy",
            Fault::Newer(_) => "the region is written by newer builds: install one of them on this server",
        };
        let Detail { message, may_have_changed } = self.detail();
        let changed =
            if *may_have_changed { "the last change may have been stored" } else { "nothing changed" };
        write!(f, "{what} ({message}); {changed}")
    }
}

impl std::error::Error for Fault {}

impl From<DecodeError> for Fault {
    fn from(e: DecodeError) -> Fault {
        match e {
            DecodeError::Version { found, known, .. } if found > known => Fault::newer(e.to_string()),
            _ => Fault::corrupt(e.to_string()),
        }
    }
}

macro_rules! before_commit {
    ($($error:ty),*) => { $(
        impl From<$error> for Fault {
            fn from(e: $error) -> Fault {
                Fault::of(e.into(), false)
            }
        }
    )* };
}

before_commit!(
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::SetDurabilityError,
    redb::DatabaseError
);

impl From<redb::CommitError> for Fault {
    fn from(e: redb::CommitError) -> Fault {
        Fault::of(e.into(), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_say_whether_the_state_may_have_changed() {
        let full = || redb::StorageError::Io(io::ErrorKind::StorageFull.into());
        assert!(matches!(Fault::from(full()), Fault::Full(_)));
        assert!(!Fault::from(full()).may_have_changed());
        let commit = Fault::from(redb::CommitError::Storage(full()));
        assert!(matches!(commit, Fault::Full(_)));
        assert!(commit.may_have_changed());
        assert!(commit.to_string().contains("may have been stored"), "{commit}");
        let damaged = redb::StorageError::Corrupted("x".into());
        assert!(matches!(Fault::from(damaged), Fault::Corrupt(_)));
        let eio = redb::StorageError::Io(io::Error::other("EIO"));
        assert!(matches!(Fault::from(eio), Fault::Storage(_)));
        assert!(matches!(Fault::from(DecodeError::Empty("job")), Fault::Corrupt(_)));
        let version = |found| Fault::from(DecodeError::Version { name: "job", found, known: 1 });
        assert!(matches!(version(2), Fault::Newer(_)));
        assert!(matches!(version(0), Fault::Corrupt(_)), "no build has ever written it");
    }
}
