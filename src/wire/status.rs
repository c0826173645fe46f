//! A server's status, published for readers by each turn: one immutable value, replaced whole.

use super::metrics::MetricsSnapshot;
use model::id::Uuid;
use model::member::ServerMember;
use model::time::{Mono, Span};
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStatus {
    /// This server's raft id.
    pub id: u64,
    pub leader: Option<u64>,
    pub term: u64,
    pub applied_index: u64,
    pub log: LogStatus,
    /// The leader has applied everything of the terms before its own: reads are consistent.
    pub ready: bool,
    pub region_id: Uuid,
    /// What all of the region's servers know.
    pub feature_level: u32,
    /// Raft ids of the voters.
    pub voters: Vec<u64>,
    /// The region's servers as its state lists them, by raft id.
    pub members: Arc<Vec<ServerMember>>,
    /// Raft ids of those that get the log and do not vote.
    pub learners: Vec<u64>,
    /// This server is no member of its region any more, and takes no part.
    pub is_removed: bool,
    /// Other servers are members of the region.
    pub has_peers: bool,
    /// Raft ids of the servers that this one has a connection to, ascending.
    pub links: Vec<u64>,
    /// How far the others follow, by raft id; only a leader knows.
    pub followers: Vec<FollowerStatus>,
    /// When this server last heard of a leader, or led. `None`: it leads, or has done neither yet.
    pub last_contact: Option<Mono>,
    /// This server's first turn; `None` before it, and where no server runs.
    pub listens_since: Option<Mono>,
    pub broker: BrokerStatus,
    /// Up to a second old.
    pub measured: Arc<MetricsSnapshot>,
    /// Why writes are refused at present, if they are.
    pub storage_fault: Option<String>,
}

/// A member of the group, as its leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerStatus {
    pub id: u64,
    /// Where its log is known to agree with the leader's.
    pub matched_index: u64,
    /// Lacks what the leader's log held a second ago.
    pub is_behind: bool,
}

impl ServerStatus {
    /// This server can speak to that one, or is it.
    pub fn reaches(&self, server: u64) -> bool {
        server == self.id || self.links.contains(&server)
    }

    /// The server that leads, as the state lists it.
    pub fn leading_member(&self) -> Option<&ServerMember> {
        self.members.iter().find(|member| Some(member.id) == self.leader)
    }

    /// How long the leader has not been heard of: for as long as this server runs, if it never was.
    pub fn silence(&self, now: Mono) -> Span {
        let leads = self.leader == Some(self.id);
        let since = self.last_contact.or(self.listens_since).filter(|_| !leads);
        since.map_or(Span::ZERO, |at| now.since(at))
    }

    /// What this server has applied is all that there is: it leads, and no other server could have been elected meanwhile.
    pub fn is_sole_authority(&self) -> bool {
        self.ready && !self.has_peers
    }
}

/// Where the log of this server ends, what of it is committed, and what of it is not kept any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    pub last_index: u64,
    pub last_term: u64,
    pub commit_index: u64,
    /// The state holds what the entries up to here did; 0: all entries are kept.
    pub compacted_index: u64,
    pub compacted_term: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerStatus {
    pub ready: u64,
    pub unacked: u64,
    pub pending: u64,
    pub waiting: u64,
    pub blocked: u64,
    pub failed: u64,
}
