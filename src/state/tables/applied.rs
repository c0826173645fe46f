//! How far a replica has come, as it is stored: one small record, in every version that it ever had.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::record::{self, Malformed, Record};

/// How far this replica has applied the log, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub index: u64,
    /// Sum of `row_hash` over all rows of `STATE`.
    pub digest: u64,
    /// The index of the last change, by `view::Table`.
    pub tables: [u64; 8],
}

impl Record for Applied {
    const NAME: &'static str = "applied index";
    const VERSION: u8 = 5;

    /// Version 1 knew four tables, and each one after it one more.
    fn upgrade(version: u8, body: &[u8]) -> Result<Self, Malformed> {
        match version {
            1 => with_tables::<4>(body),
            2 => with_tables::<5>(body),
            3 => with_tables::<6>(body),
            4 => with_tables::<7>(body),
            _ => Err(Malformed::Version { name: Self::NAME, found: version, known: Self::VERSION }),
        }
    }
}

/// When there were so many.
fn with_tables<const N: usize>(body: &[u8]) -> Result<Applied, Malformed>
where
    [u64; N]: DeserializeOwned,
{
    let (index, digest, old): (u64, u64, [u64; N]) = record::body(Applied::NAME, body)?;
    let mut tables = [0; 8];
    tables[..N].copy_from_slice(&old);
    Ok(Applied { index, digest, tables })
}
