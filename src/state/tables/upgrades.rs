//! The rows of nodes have changed since their first version; what the older ones lacked.

use super::NodeRow;
use crate::wire::record::{self, Malformed, Record};

impl Record for NodeRow {
    const NAME: &'static str = "node row";
    const VERSION: u8 = 2;

    /// Version 1 ended before the two drains: there was none.
    fn upgrade(version: u8, body: &[u8]) -> Result<Self, Malformed> {
        record::lengthened(version, &[0, 0], body)
    }
}
