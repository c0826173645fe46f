//! The servers of a region, as the region lists them: who they are, where they are reached, and whether they vote.
//!
//! Refuses to know: consensus, and how a server comes to be listed.

use super::id::Uuid;
use super::scheduling::SchedulerSettings;
use super::time::Wall;
use serde::{Deserialize, Serialize};

/// Larger ids would not survive JSON tools, which keep numbers as doubles.
pub const MAX_SERVER_ID: u64 = (1 << 53) - 1;
/// The longest name, address or version of a server.
const MAX_TEXT_BYTES: usize = 256;
/// The longest list of servers that a node keeps.
const MAX_LISTED: usize = 64;

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    pub name: String,
    pub region: String,
    pub datacenter: String,
    pub http_addr: String,
    pub rpc_addr: String,
    /// The version of its build.
    pub version: String,
    /// Commands of higher levels are unknown to it.
    pub feature_level: u32,
}

impl ServerInfo {
    /// Whether all texts are short enough to be kept.
    pub fn is_bounded(&self) -> bool {
        let ServerInfo { name, region, datacenter, http_addr, rpc_addr, version, feature_level: _ } = self;
        [name, region, datacenter, http_addr, rpc_addr, version]
            .iter()
            .all(|text| text.len() <= MAX_TEXT_BYTES)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Suffrage {
    /// Gets the log, and does not vote.
    Learner,
    Voter,
    /// No member any more, for good.
    Removed,
}

/// A server of the region, or one that was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMember {
    /// The server's raft id.
    pub id: u64,
    pub info: ServerInfo,
    pub suffrage: Suffrage,
    pub create_index: u64,
    /// The entry that changed it last.
    pub modify_index: u64,
}

/// Where a server of the region is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerAddress {
    /// The server's raft id.
    pub id: u64,
    pub rpc_addr: String,
}

/// Where all of the region's servers are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerList {
    /// The entry that changed it last; 0: nothing is known.
    pub index: u64,
    /// By raft id, ascending.
    pub servers: Vec<ServerAddress>,
}

impl ServerList {
    /// Whether the list is short enough to be kept.
    pub fn is_bounded(&self) -> bool {
        self.servers.len() <= MAX_LISTED && self.servers.iter().all(|s| s.rpc_addr.len() <= MAX_TEXT_BYTES)
    }

    /// `members`: all servers that there are and were.
    pub fn of(members: &[ServerMember]) -> ServerList {
        let present = members.iter().filter(|member| member.suffrage != Suffrage::Removed);
        let address = |m: &ServerMember| ServerAddress { id: m.id, rpc_addr: m.info.rpc_addr.clone() };
        ServerList {
            index: members.iter().map(|member| member.modify_index).max().unwrap_or(0),
            servers: present.map(address).collect(),
        }
    }
}

/// What all of a region's servers know: commands of higher levels are not proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionLevel {
    pub level: u32,
    /// The entry that raised it.
    pub modify_index: u64,
}

/// How a region began: the same on all of its servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Founding {
    pub region_id: Uuid,
    pub at: Wall,
    /// By raft id, ascending: the first voters.
    pub servers: Vec<(u64, ServerInfo)>,
    /// How its scheduler works at first.
    pub scheduler: SchedulerSettings,
}

/// The history that an index of the state counts in. Within one, the higher index is the newer state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    pub region_id: Uuid,
    /// How often an operator has put an older state of the region in the place of the newer one.
    pub restores: u64,
}

impl Founding {
    /// The region's first one.
    pub fn generation(&self) -> Generation {
        Generation { region_id: self.region_id, restores: 0 }
    }

    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.servers.iter().map(|(id, _)| *id)
    }

    /// Each server is listed once, in order, and what is said of it is short enough.
    pub fn is_sound(&self) -> bool {
        let ids: Vec<u64> = self.ids().collect();
        let ascending = ids.windows(2).all(|pair| pair[0] < pair[1]);
        let valid = ids.iter().all(|id| (1..=MAX_SERVER_ID).contains(id));
        !ids.is_empty() && ascending && valid && self.servers.iter().all(|(_, info)| info.is_bounded())
    }
}
