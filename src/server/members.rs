//! The servers of the region as this replica's state lists them, kept at hand: every frame of another server is held against it.
//!
//! Refuses to know: how the list changes.

use model::id::Uuid;
use model::member::{Founding, ServerMember, Suffrage};
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct MemberList {
    /// `None`: this server's state is of no region yet.
    pub founding: Option<Founding>,
    /// The region's feature level: no command of a higher one is proposed.
    pub feature_level: u32,
    by_id: BTreeMap<u64, ServerMember>,
    /// The servers that belong to the region now, for readers.
    pub present: Arc<Vec<ServerMember>>,
}

impl MemberList {
    pub fn read(view: &View) -> Result<MemberList, Fault> {
        let all = view.members()?;
        let present = all.iter().filter(|member| member.suffrage != Suffrage::Removed).cloned().collect();
        let by_id = all.into_iter().map(|member| (member.id, member)).collect();
        let (founding, feature_level) = (view.founding()?, view.feature_level()?);
        Ok(MemberList { founding, feature_level, by_id, present: Arc::new(present) })
    }

    pub fn region_id(&self) -> Option<Uuid> {
        self.founding.as_ref().map(|founding| founding.region_id)
    }

    /// The highest level that the builds of all servers know, which may be above the region's.
    pub fn common_level(&self) -> u32 {
        let known = self.present.iter().map(|member| member.info.feature_level);
        known.min().unwrap_or(self.feature_level)
    }

    pub fn get(&self, id: u64) -> Option<&ServerMember> {
        self.by_id.get(&id)
    }

    /// Whether the server was a member, and never will be again.
    pub fn is_removed(&self, id: u64) -> bool {
        self.get(id).is_some_and(|member| member.suffrage == Suffrage::Removed)
    }
}
