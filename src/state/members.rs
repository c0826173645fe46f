//! What the state says of the region itself: how it began, and which servers it has and had.
//!
//! Refuses to know consensus, and what follows from any of it.

use super::fault::Fault;
use super::tables::{self, Kind};
use super::view::View;
use model::member::{Founding, ServerMember};
use wire::record;

impl View {
    /// How the region began. `None`: there is none yet.
    pub fn founding(&self) -> Result<Option<Founding>, Fault> {
        tables::get(&self.rows, &Kind::Region.key(&[]))
    }

    /// Every server of the region, and every one that was removed, by raft id.
    pub fn members(&self) -> Result<Vec<ServerMember>, Fault> {
        let mut out = Vec::new();
        tables::each(&self.rows, &Kind::Member.key(&[]), None, |_, value| {
            out.push(record::decode(value)?);
            Ok(true)
        })?;
        Ok(out)
    }
}
