//! The rows of servers, by themselves and against raft's members.

use super::{AllRows, fault_text};
use crate::view::View;
use model::member::{MAX_SERVER_ID, RegionLevel, ServerMember, Suffrage};
use wire::feature_level::FIRST_FEATURE_LEVEL;

impl AllRows {
    pub(super) fn add_member(&mut self, key: &[u8], member: ServerMember) -> Result<(), String> {
        if member.id.to_be_bytes() != *key {
            return Err(format!("server {} lies at {key:02x?}", member.id));
        }
        self.members.push(member);
        Ok(())
    }

    pub(super) fn members(&self) -> Result<(), String> {
        for member in &self.members {
            let ServerMember { id, create_index, modify_index, .. } = member;
            let known = 1..=self.index;
            let valid = (1..=MAX_SERVER_ID).contains(id) && known.contains(create_index);
            if !valid || create_index > modify_index || !known.contains(modify_index) {
                return Err(format!("a server is listed that cannot be: {member:?}"));
            }
        }
        let votes = |member: &ServerMember| member.suffrage == Suffrage::Voter;
        if !self.members.is_empty() && !self.members.iter().any(votes) {
            return Err("none of the region's servers votes".into());
        }
        let level = self.region_level.map_or(FIRST_FEATURE_LEVEL, |row| row.level);
        let lower = |member: &&ServerMember| {
            member.suffrage != Suffrage::Removed && member.info.feature_level < level
        };
        if let Some(member) = self.members.iter().find(lower) {
            return Err(format!("the region's feature level is {level}, and higher than that of {member:?}"));
        }
        match &self.region_level {
            None => Ok(()),
            Some(RegionLevel { level, modify_index })
                if *level > FIRST_FEATURE_LEVEL && (1..=self.index).contains(modify_index) =>
            {
                Ok(())
            }
            Some(level) => Err(format!("the region has a feature level that cannot be: {level:?}")),
        }
    }
}

/// The state lists the servers that raft knows as of the same index.
pub fn members_are(view: &View, voters: &[u64], learners: &[u64]) -> Result<(), String> {
    let all = view.members().map_err(fault_text)?;
    let with = |suffrage: Suffrage| -> Vec<u64> {
        all.iter().filter(|member| member.suffrage == suffrage).map(|member| member.id).collect()
    };
    let (listed, learning) = (with(Suffrage::Voter), with(Suffrage::Learner));
    if listed != voters || learning != learners {
        return Err(format!(
            "raft's voters are {voters:?} and its learners {learners:?}; listed are {listed:?} and {learning:?}"
        ));
    }
    Ok(())
}
