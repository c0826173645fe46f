//! The reconciler: what a job's groups should have against what they have (scheduler.md 8). For each group it
//! says which allocations to stop, to update and to place; where they go is not its business.
//!
//! Refuses to know: nodes (beyond which ones are lost), resources, scores, plans.
//!
//! Invariants: equal input gives equal output, in an order that depends on ids and names only; an allocation is in at
//! most one of the sets that come out, and what is to be looked at again later is in none of them.

mod canary;
mod disconnect;
mod group;
mod name_index;
mod reschedule;
mod rollout;
mod surplus;
mod system;
mod system_rollout;
mod tainted;

pub use disconnect::UNKNOWN;
pub use name_index::NameIndex;
pub use reschedule::Followup;
pub use system::{SystemChanges, reconcile_system};
pub use system_rollout::{Fill, GroupRollout};
pub use tainted::LOST;

use group::{Classify, GroupReconciler};
use model::alloc::{Allocation, ClientStatus};
use model::deployment::{Deployment, DeploymentUpdate};
use model::eval::Evaluation;
use model::id::{AllocId, DeploymentId, EvalId, NodeId};
use model::job::{Job, TaskGroup};
use model::node::NodeStatus;
use model::time::Wall;
use rollout::Rollout;
use std::collections::{BTreeMap, BTreeSet};
use tainted::Tainted;

const NOT_NEEDED: &str = "alloc not needed due to job update";
pub const UPDATED: &str = "alloc is being updated due to job update";
pub const MIGRATING: &str = "alloc is being migrated";

/// Allocations by id.
type AllocSet<'a> = BTreeMap<AllocId, &'a Allocation>;

/// What is known of the nodes that hold the job's allocations and are not as they should be: None when a node is gone,
/// `Ready` when it is draining.
pub type TaintedNodes = BTreeMap<NodeId, Option<NodeStatus>>;

pub struct ReconcileInput<'a> {
    /// None: purged.
    pub job: Option<&'a Job>,
    pub batch: bool,
    /// All allocations of the job, of any version and incarnation.
    pub allocs: &'a [Allocation],
    pub tainted: &'a TaintedNodes,
    pub eval: &'a Evaluation,
    pub now: Wall,
    pub deployments: Deployments<'a>,
    /// Whether an evaluation is still to come.
    pub is_pending: &'a dyn Fn(EvalId) -> bool,
}

/// The job's deployments.
#[derive(Clone, Copy)]
pub struct Deployments<'a> {
    /// The job's newest.
    pub latest: Option<&'a Deployment>,
    /// The id of the next deployment.
    pub new_id: DeploymentId,
}

/// How an allocation follows a change of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    Ignore,
    InPlace,
    Destructive,
}

/// What has to be done about the job's allocations and its deployment.
#[derive(Default)]
pub struct Changes<'a> {
    pub stops: Vec<Stop<'a>>,
    /// Allocations to stop and to place again.
    pub destructive: Vec<Replacement<'a>>,
    /// Allocations on draining nodes: stopped only if they can be placed elsewhere.
    pub migrating_when_placed: Vec<Replacement<'a>>,
    /// Allocations to place again; the stop, if there is one, is among `stops`.
    pub replacements: Vec<Replacement<'a>>,
    /// Failed, or on a node that does not answer: to place again, and what has failed is stopped if that went well.
    pub rescheduled: Vec<Replacement<'a>>,
    /// The indexes of new canaries.
    pub canaries: Vec<(&'a TaskGroup, Vec<u64>)>,
    /// How many to place under new names: a number, because it may be absurdly large.
    pub missing: Vec<(&'a TaskGroup, u64)>,
    /// By group: where new names come from.
    pub names: BTreeMap<&'a str, NameIndex>,
    /// When to look again, and at what.
    pub followups: Vec<Followup<'a>>,
    /// Allocations whose nodes stopped reporting: they become unknown.
    pub disconnected: Vec<&'a Allocation>,
    /// Allocations that run and whose nodes report again.
    pub reconnected: Vec<&'a Allocation>,
    /// By group: the deployment that its new and updated allocations join.
    pub deployment_ids: BTreeMap<&'a str, DeploymentId>,
    /// A new deployment, or the current one with other desired totals.
    pub deployment: Option<Deployment>,
    pub deployment_updates: Vec<DeploymentUpdate>,
}

impl Changes<'_> {
    /// No allocation is stopped twice, or stopped at once although it is to stop only if its successor finds a node.
    fn assert_disjoint(&self) {
        let mut ids: BTreeSet<AllocId> = BTreeSet::new();
        let replaced = self.destructive.iter().chain(&self.migrating_when_placed).map(|r| r.alloc.id);
        for id in self.stops.iter().map(|s| s.alloc.id).chain(replaced) {
            assert!(ids.insert(id), "an allocation is in at most one of the sets: {id}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Stop<'a> {
    pub alloc: &'a Allocation,
    pub description: &'static str,
    pub client: Option<ClientStatus>,
}

/// A new allocation is to take the place and the name of this one.
#[derive(Clone, Copy, Debug)]
pub struct Replacement<'a> {
    pub group: &'a TaskGroup,
    pub alloc: &'a Allocation,
    /// While a deployment is paused, failed or awaits promotion, what ends is replaced in the same version.
    pub keeps_version: bool,
}

/// `classify` says how an allocation that stays follows the job; it is asked once per allocation, in order, and makes the
/// updates in place itself.
pub fn reconcile<'a>(input: &ReconcileInput<'a>, classify: &mut Classify<'_, 'a>) -> Changes<'a> {
    let mut changes = Changes::default();
    let mut matrix = by_group(input);
    let mut rollout = Rollout::new(input, &mut changes);
    let mut complete = true;
    if let Some(job) = input.job.filter(|j| !j.spec.stop) {
        for group in job.spec.groups.iter().filter(|g| desired_count(g) > 0) {
            let allocs = matrix.remove(group.name.as_str()).unwrap_or_default();
            let reconciler =
                GroupReconciler { input, job, group, rollout: &mut rollout, changes: &mut changes };
            complete &= reconciler.compute(allocs, classify);
        }
    }
    matrix.values().for_each(|allocs| stop_all(input, allocs, &mut changes));
    let groups = input.job.iter().flat_map(|j| &j.spec.groups);
    changes.deployment_ids =
        groups.filter_map(|g| Some((g.name.as_str(), rollout.deployment_of(g)?))).collect();
    rollout.finish(complete, &mut changes);
    changes.assert_disjoint();
    changes
}

fn by_group<'a>(input: &ReconcileInput<'a>) -> BTreeMap<&'a str, AllocSet<'a>> {
    let mut matrix: BTreeMap<&str, AllocSet> = BTreeMap::new();
    for alloc in input.allocs {
        matrix.entry(&alloc.group).or_default().insert(alloc.id, alloc);
    }
    matrix
}

/// Stops what no longer is wanted, the job or one group of it (scheduler.md 8.1.3, scheduler.md 8.2.1).
fn stop_all<'a>(input: &ReconcileInput<'a>, allocs: &AllocSet<'a>, changes: &mut Changes<'a>) {
    let running = allocs.iter().filter(|(_, a)| !a.terminal()).map(|(id, a)| (*id, *a)).collect();
    let Tainted { untainted, migrating, lost, .. } = tainted::split(running, None, input);
    changes.stops.extend(untainted.into_values().chain(migrating.into_values()).map(stop_not_needed));
    changes.stops.extend(lost.into_values().map(tainted::stop_lost));
}

fn stop_not_needed(alloc: &Allocation) -> Stop<'_> {
    Stop { alloc, description: NOT_NEEDED, client: None }
}

/// Whether the allocation runs this version of the job.
fn is_of_version(alloc: &Allocation, job: &Job) -> bool {
    (alloc.job_create_index, alloc.job_version) == (job.create_index, job.version)
}

/// A count below zero wants nothing.
fn desired_count(group: &TaskGroup) -> u64 {
    u64::try_from(group.count).unwrap_or(0)
}

#[cfg(test)]
mod tests;
