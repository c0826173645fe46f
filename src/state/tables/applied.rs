//! How far a replica has come, as it is stored: one small record, in every version that it ever had.

use crate::wire::record::{self, Malformed, Record};
use serde::{Deserialize, Serialize};

/// How far this replica has applied the log, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub index: u64,
    /// Sum of `row_hash` over all rows of `STATE`.
    pub digest: u64,
    /// The index of the last change, by `view::Table`.
    pub tables: [u64; 7],
}

impl Record for Applied {
    const NAME: &'static str = "applied index";
    const VERSION: u8 = 4;

    /// Version 1 knew four tables, and each one after it one more.
    fn upgrade(version: u8, body: &[u8]) -> Result<Self, Malformed> {
        let mut tables = [0; 7];
        let (index, digest) = match version {
            1 => {
                let (index, digest, old): (u64, u64, [u64; 4]) = record::body(Self::NAME, body)?;
                tables[..4].copy_from_slice(&old);
                (index, digest)
            }
            2 => {
                let (index, digest, old): (u64, u64, [u64; 5]) = record::body(Self::NAME, body)?;
                tables[..5].copy_from_slice(&old);
                (index, digest)
            }
            3 => {
                let (index, digest, old): (u64, u64, [u64; 6]) = record::body(Self::NAME, body)?;
                tables[..6].copy_from_slice(&old);
                (index, digest)
            }
            _ => {
                return Err(Malformed::Version { name: Self::NAME, found: version, known: Self::VERSION });
            }
        };
        Ok(Applied { index, digest, tables })
    }
}
