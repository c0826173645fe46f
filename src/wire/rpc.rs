//! Messages between nodes and servers. A node asks, a server answers; each request has an id that its answer
//! repeats. Messages to one peer travel on one ordered stream, and may be lost with it.

use super::command::AllocUpdate;
use model::alloc::DesiredStatus;
use model::deployment::Verdict;
use model::id::{AllocId, DeploymentId, JobKey, NodeId, NodeSecret};
use model::job::{JobType, TaskGroup};
use model::member::{Generation, ServerList};
use model::node::NodeInfo;
use model::resources::AllocResources;
use model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Who a frame comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Peer {
    /// A server, by its raft id.
    Server(u64),
    Node(NodeId),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Server(id) => write!(f, "server {id}"),
            Peer::Node(id) => write!(f, "node {}", id.0.short()),
        }
    }
}

/// Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeRequest {
    Register {
        info: Box<NodeInfo>,
    },
    Heartbeat {
        node: NodeId,
        secret: NodeSecret,
    },
    /// Answered once something of this node's allocations has an index above `since`, at once where the state is of another
    /// generation or there is a newer list of servers, or after `WATCH_HOLD`.
    Watch {
        node: NodeId,
        secret: NodeSecret,
        /// All zero: the node has seen none yet.
        generation: Generation,
        since: u64,
        /// The index of the list of servers that the node has.
        servers: u64,
    },
    /// Allocations in full; at most `MAX_ASSIGNMENTS`.
    Fetch {
        node: NodeId,
        secret: NodeSecret,
        allocs: Vec<AllocId>,
    },
    /// At most `MAX_UPDATES`, with what the node found of allocations' health: at most one verdict for each of the updates.
    Report {
        node: NodeId,
        secret: NodeSecret,
        /// The newest index of the state that servers had shown to the node when it wrote this. A report that was applied later
        /// may be the newer one of the two.
        seen: u64,
        updates: Vec<AllocUpdate>,
        verdicts: Vec<Verdict>,
    },
}

impl NodeRequest {
    /// The node that this is said to come from.
    pub fn node(&self) -> NodeId {
        match self {
            NodeRequest::Register { info } => info.id,
            NodeRequest::Heartbeat { node, .. }
            | NodeRequest::Watch { node, .. }
            | NodeRequest::Fetch { node, .. }
            | NodeRequest::Report { node, .. } => *node,
        }
    }

    /// Each update with what was found of it, if that is to be told.
    pub fn report(
        node: NodeId,
        secret: NodeSecret,
        seen: u64,
        told: &[(AllocUpdate, Option<Verdict>)],
    ) -> NodeRequest {
        let updates = told.iter().map(|(update, _)| update.clone()).collect();
        let verdicts = told.iter().filter_map(|(_, verdict)| *verdict).collect();
        NodeRequest::Report { node, secret, seen, updates, verdicts }
    }
}

/// Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeReply {
    /// The next heartbeat is due within `ttl`. `info`: a digest of what the servers have the node registered as.
    Alive {
        ttl: Span,
        info: u64,
    },
    /// An older index of the same generation is from a server that is behind.
    Watched {
        generation: Generation,
        set: AllocSet,
        /// If the node does not have it yet.
        servers: Option<ServerList>,
    },
    Fetched {
        assignments: Vec<Assignment>,
    },
    /// The report is durable. `index`: of the state that it is in.
    Reported {
        index: u64,
    },
    /// The server does not know the node: register again.
    UnknownNode,
    /// No leader is in reach of the server, or it changed before anything was done: ask again.
    NoLeader,
    /// The node is down or disconnected to the servers: a heartbeat comes first.
    HeartbeatFirst,
    Refused {
        message: String,
    },
    /// As `Alive`, after heartbeats that the servers have missed: the node is to report all its allocations again.
    Missed {
        ttl: Span,
        info: u64,
    },
    /// The report was not taken: one that was applied since `seen` may be newer. `index`: what to have seen before the next one.
    StaleReport {
        index: u64,
    },
    /// The leader's disk is full: ask this server again in a second or two. Another one would say the same.
    TryLater,
}

pub const MAX_ASSIGNMENTS: usize = 64;
pub const MAX_UPDATES: usize = 64;
/// The most that a report holds: with the evaluations that follow, its entry has to fit into a message to other servers.
pub const MAX_REPORT_BYTES: usize = 1 << 20;
/// How long a watch with nothing new is held.
pub const WATCH_HOLD: Span = Span::minutes(5);

/// What a node shall run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocSet {
    /// The `since` of the next watch.
    pub index: u64,
    /// Every allocation of the node that the servers still know, with its `alloc_modify_index`. What is missing was
    /// collected by the servers and is to be removed.
    pub wanted: Vec<(AllocId, u64)>,
    /// Those that moved past `since`, as many as fit; the rest is to be fetched.
    pub assignments: Vec<Assignment>,
}

/// An allocation with all that a node needs to run it, also after a reboot with no server in reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub id: AllocId,
    pub name: String,
    pub job: JobKey,
    pub job_name: String,
    pub job_type: JobType,
    pub job_version: u64,
    pub job_meta: BTreeMap<String, String>,
    pub region: String,
    pub group: TaskGroup,
    pub resources: AllocResources,
    pub desired: DesiredStatus,
    pub previous: Option<AllocId>,
    pub alloc_modify_index: u64,
    /// Whose member it is, if that is under way or was.
    pub deployment: Option<DeploymentId>,
    /// The job that has made this one. Empty: none.
    pub job_parent: String,
    /// What it was dispatched with, if one of its tasks wants that.
    pub payload: Vec<u8>,
    /// Preempted allocations, which have to end before this one begins.
    pub preempted: Vec<AllocId>,
    /// The allocation's end does not wait for anybody's `shutdown_delay`.
    pub no_shutdown_delay: bool,
}
