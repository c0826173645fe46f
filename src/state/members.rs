//! The region's own rows in the state: how it began, and which servers it has and had.
//!
//! Refuses to know consensus, and what follows from any of it.

use super::fault::Fault;
use super::tables::{self, Kind, Rows};
use super::view::View;
use model::member::{Founding, RegionLevel, ServerMember};
use wire::feature_level::FIRST_FEATURE_LEVEL;
use wire::record;

impl View {
    /// How the region began. `None`: there is none yet.
    pub fn founding(&self) -> Result<Option<Founding>, Fault> {
        tables::get(&self.rows, &Kind::Region.key(&[]))
    }

    /// Commands of higher levels are not proposed.
    pub fn feature_level(&self) -> Result<u32, Fault> {
        Ok(region_level(&self.rows)?.level)
    }

    /// Every server of the region, and every one that was removed, by raft id.
    pub fn members(&self) -> Result<Vec<ServerMember>, Fault> {
        members(&self.rows)
    }
}

/// By raft id, those that were removed included.
pub(super) fn members(rows: &impl Rows) -> Result<Vec<ServerMember>, Fault> {
    let mut out = Vec::new();
    tables::each(rows, &Kind::Member.key(&[]), None, |_, value| {
        out.push(record::decode(value)?);
        Ok(true)
    })?;
    Ok(out)
}

pub(super) fn region_level(rows: &impl Rows) -> Result<RegionLevel, Fault> {
    let first = RegionLevel { level: FIRST_FEATURE_LEVEL, modify_index: 0 };
    Ok(tables::get(rows, &Kind::FeatureLevel.key(&[]))?.unwrap_or(first))
}
