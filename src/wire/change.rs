//! Changes that applying a command made: the leader's queues take their work from them, and waiting readers are woken by them.
//! Derived from the state alone, so that a new leader can build from the state what the changes would have given it.

use model::eval::Evaluation;
use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId};
use model::node::NodeStatus;

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Registered, stopped, purged, or its status or summary changed.
    Job {
        job: JobKey,
    },
    Eval(Box<Evaluation>),
    Alloc(AllocChange),
    Node(NodeChange),
    /// Written or deleted.
    Namespace,
    /// Written or deleted.
    NodePool,
    /// How the scheduler is to work.
    Scheduler,
    /// Deleted, as it was.
    EvalDeleted(Box<Evaluation>),
    /// Created, updated, or deleted with its job.
    Deployment(DeploymentChange),
    /// One of the region's servers.
    Member {
        id: u64,
    },
    /// What all servers know, which only rises.
    FeatureLevel {
        level: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocChange {
    pub id: AllocId,
    pub job: JobKey,
    pub node: NodeId,
    pub eval: EvalId,
    /// The node has something to fetch.
    pub for_node: bool,
    /// Holds less of its node than before: it has ended, is lost or removed, or was updated to less.
    pub freed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentChange {
    pub id: DeploymentId,
    pub job: JobKey,
    /// Whether the deployment may still change what runs.
    pub active: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    pub id: NodeId,
    pub status: NodeStatus,
    pub computed_class: String,
    /// Became able to take tasks, or changed while it was.
    pub opened: bool,
}
