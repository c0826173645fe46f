//! Rows that have changed since their first version, and what the older ones lacked.

use super::{Applied, NodeRow};
use crate::wire::record::{self, Malformed, Record};

impl Record for NodeRow {
    const NAME: &'static str = "node row";
    const VERSION: u8 = 2;

    /// Version 1 ended before the two drains: there was none.
    fn upgrade(version: u8, body: &[u8]) -> Result<Self, Malformed> {
        record::lengthened(version, &[0, 0], body)
    }
}

impl Record for Applied {
    const NAME: &'static str = "applied index";
    const VERSION: u8 = 2;

    /// Version 1 knew four tables.
    fn upgrade(version: u8, body: &[u8]) -> Result<Self, Malformed> {
        let refused = Malformed::Version { name: Self::NAME, found: version, known: Self::VERSION };
        if version != 1 {
            return Err(refused);
        }
        let (index, digest, [jobs, evals, allocs, nodes]) =
            postcard::from_bytes(body).map_err(|_| Malformed::Body(Self::NAME))?;
        Ok(Applied { index, digest, tables: [jobs, evals, allocs, nodes, 0] })
    }
}
