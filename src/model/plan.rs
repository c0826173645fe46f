//! A plan: what a scheduler wants changed, as an immutable value that leaves its executor no choice.

use super::alloc::{Allocation, ClientStatus};
use super::deployment::{Deployment, DeploymentUpdate};
use super::eval::Evaluation;
use super::id::{AllocId, EvalId, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Plans are verified node by node, so they are grouped by node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub eval_id: EvalId,
    pub priority: i64,
    /// Any node that refuses its part empties the whole plan.
    pub all_at_once: bool,
    /// Ordered by node id; one entry per node.
    pub nodes: Vec<NodePlan>,
    /// The state's index that the plan was made from.
    pub snapshot_index: u64,
    /// To be created; one that there is learns from it what it wants now.
    pub deployment: Option<Deployment>,
    pub deployment_updates: Vec<DeploymentUpdate>,
}

impl Plan {
    /// The allocations that make way, each with the new one that it makes way for.
    pub fn preemptions(&self) -> impl Iterator<Item = (&Allocation, AllocId)> {
        self.nodes.iter().flat_map(NodePlan::preemptions)
    }

    pub fn is_no_op(&self) -> bool {
        let untouched = self.nodes.iter().all(|n| n.stops.is_empty() && n.places.is_empty());
        untouched && self.deployment.is_none() && self.deployment_updates.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePlan {
    pub node_id: NodeId,
    pub stops: Vec<AllocStop>,
    /// New allocations, and existing ones (same id) that are updated in place.
    pub places: Vec<Allocation>,
}

impl NodePlan {
    /// What preempts it; the first, if it makes room for several. What is updated in place had its place before.
    pub fn preemptions(&self) -> impl Iterator<Item = (&Allocation, AllocId)> {
        let new = || self.places.iter().filter(|a| a.create_index == 0);
        let earlier = move |n, id| new().take(n).any(|a| a.preempted.contains(&id));
        let each = new().enumerate().flat_map(|(n, a)| a.preempted.iter().map(move |id| (n, a, *id)));
        each.filter(move |(n, _, id)| !earlier(*n, *id)).map(|(_, a, id)| (a, id))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocStop {
    pub id: AllocId,
    pub description: String,
    /// Set only for what servers own: `Lost`, `Unknown`.
    pub client: Option<ClientStatus>,
}

/// What a scheduler made of one evaluation: the plan, and what becomes of the evaluation if all of it is committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub plan: Plan,
    /// The evaluation as it is after this decision: complete, failed, or blocked again.
    pub eval: Evaluation,
    /// Evaluations to create beside it: the blocked one for what could not be placed.
    pub created: Vec<Evaluation>,
    /// By group, for those who only ask.
    pub desired: BTreeMap<String, GroupChanges>,
}

/// What a decision comes to for one group, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChanges {
    pub ignore: u64,
    pub place: u64,
    pub migrate: u64,
    pub stop: u64,
    pub in_place: u64,
    pub destructive: u64,
    pub canary: u64,
    /// Allocations of other jobs that make way.
    pub preemptions: u64,
}
