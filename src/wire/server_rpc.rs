//! Messages between servers of one region beside raft: requests that one forwards for its users and its nodes, evaluations that its
//! scheduler workers take off the leader, and the leader's answers. A request's number is in its frame's header, and its answer
//! repeats it.

use super::http::{ForwardedResponse, Request};
use super::request::Refusal;
use super::rpc::{NodeReply, NodeRequest};
use model::eval::Evaluation;
use model::id::{EvalId, EvalToken, NodeId};
use model::job::JobType;
use model::member::{Founding, ServerInfo};
use model::plan::Decision;
use model::resources::Holding;
use model::time::Wall;
use serde::{Deserialize, Serialize};

/// Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ServerRequest {
    /// A user's request, to be answered by the leader alone.
    Http(Box<Request>),
    /// What a node that is connected to the sender asks, under the node's own number.
    Node { node: NodeId, request: NodeRequest },
    /// So many scheduler workers are free, for evaluations of jobs of these types. Answered by `Deliver` when there is work for them; a server's newer number replaces
    /// the older one.
    Dequeue { free: u32, enabled: Vec<JobType> },
    /// What a worker has decided, or why it has not.
    Planned(Box<RemoteDecision>),
    /// A server that has no region yet says it to all, and one that has answers with it.
    Hello(Box<Hello>),
    /// What a server says of itself, so that the leader lists it so. One that follows passes it on.
    Announce { id: u64, info: Box<ServerInfo> },
    /// What the sender's clock shows. Not answered.
    Clock { wall: Wall },
}

/// Who is there, while no region is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub info: ServerInfo,
    /// How many servers shall begin a region; 0: not this one.
    pub expect: u32,
    /// The servers that have said the same, with the sender, ascending.
    pub sees: Vec<u64>,
    /// How the sender's region began, if it has one.
    pub founding: Option<Founding>,
}

/// What a follower's scheduler worker has made of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteDecision {
    pub eval: EvalId,
    pub token: EvalToken,
    pub result: Result<Decision, String>,
    /// Not all of the plan fits into one entry: what is missing is planned anew.
    pub is_split: bool,
}

/// An evaluation for a follower's scheduler worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteTask {
    pub eval: Evaluation,
    pub token: EvalToken,
    pub attempt: u32,
    /// The index of the state that the first attempt saw.
    pub snapshot_index: u64,
    /// The state that the worker looks at has to have reached it.
    pub min_index: u64,
    pub at: Wall,
    pub seed: u64,
    /// What plans that are proposed take of nodes, and the state at `min_index` does not show.
    pub in_flight: Vec<InFlightPlan>,
}

/// What a proposed plan takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InFlightPlan {
    pub eval: EvalId,
    pub token: EvalToken,
    /// The state of this index shows it, if not one before.
    pub visible_at: u64,
    pub nodes: Vec<TakenOnNode>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TakenOnNode {
    pub node: NodeId,
    pub holding: Holding,
    /// Places for allocations, which an amount does not carry.
    pub allocs: i64,
}

/// Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ServerReply {
    Http(ForwardedResponse),
    /// The asked server does not lead: the request was not carried out.
    NotLeader,
    /// Nor was it for this reason.
    Refused(Refusal),
    /// To be passed on to the node.
    Node {
        node: NodeId,
        reply: NodeReply,
    },
    /// Work for the asker's free scheduler workers.
    Deliver {
        tasks: Vec<RemoteTask>,
    },
    /// The asker is no member any more, and never will be again under its id.
    Removed,
    /// The region's feature level is this, and the asker's build knows less.
    TooOld {
        level: u32,
    },
}
