//! Policy as a function: what a job should have, against what it has, on the nodes there are, gives a plan. Equal
//! inputs give equal plans, bit for bit.
//!
//! Refuses to know: where state is stored, how plans are verified, committed and carried out, what time it is, and
//! when an evaluation is due. Reads one consistent state through `SchedulerState` and one fleet at the same index.
//!
//! Invariants: a plan never puts more on a node than it has; no allocation goes to a node that a hard condition of its
//! job excludes; a world that is as it should be gives an empty plan.

mod bitmap;
mod demand;
mod device;
mod distinct;
mod feasibility;
pub mod fleet;
mod node_order;
mod operand;
mod preempt;
mod process;
mod proposal;
mod reconcile;
mod score;
mod search;
mod spread;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod update;
mod values;
mod version;
pub mod why;

use feasibility::Eligibility;
use model::alloc::Allocation;
use model::deployment::Deployment;
use model::eval::{EvalStatus, Evaluation, Trigger};
use model::id::{EvalId, JobKey, NodeId};
use model::job::{Job, JobSpec, JobType};
use model::node::NodeInfo;
use model::plan::{Decision, Plan};
use model::random::Stream;
use model::scheduling::Scheduling;
use model::time::Wall;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a scheduler may read: one consistent state. The fleet that comes with it is at the same index.
pub trait SchedulerState {
    fn index(&self) -> u64;

    /// The current version; None when there is no such job (any more).
    fn job(&self, key: &JobKey) -> Option<Arc<Job>>;

    /// The spec that an allocation names; None when it is not kept any more.
    fn job_version(&self, key: &JobKey, create_index: u64, version: u64) -> Option<Arc<JobSpec>>;

    /// All allocations of the job, of any version and incarnation, ordered by id.
    fn allocs_by_job(&self, key: &JobKey) -> Vec<Allocation>;

    /// All allocations on the node.
    fn allocs_by_node(&self, node: NodeId) -> Vec<Allocation>;

    /// The allocations of jobs whose newest version is of at most this priority, in any order; what is over may be left out.
    fn allocs_up_to_priority(&self, priority: i64, each: &mut dyn FnMut(Allocation));

    /// The job's newest.
    fn latest_deployment(&self, key: &JobKey) -> Option<Deployment>;

    /// Whether this evaluation is still to come, or is being processed.
    fn is_pending(&self, eval: EvalId) -> bool;

    /// The scheduling settings for jobs of this node pool.
    fn scheduling(&self, pool: &str) -> Scheduling;
}

/// How often an evaluation's plans were not committed in full. Whoever submits the plans keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// 1 for the first; counted anew whenever something of a plan was committed.
    pub number: u32,
    /// The index of the state that the first attempt saw.
    pub snapshot_index: u64,
}

impl Attempt {
    /// `index`: of the view that is used for it.
    pub fn first(index: u64) -> Self {
        Attempt { number: 1, snapshot_index: index }
    }

    /// After a plan that was not committed in full; `progressed`: something of it was. None: there were enough, and
    /// `max_attempts_reached` says what becomes of the evaluation.
    pub fn next(self, job_type: JobType, progressed: bool) -> Option<Attempt> {
        let number = if progressed { 1 } else { self.number + 1 };
        (number <= max_attempts(job_type)).then_some(Attempt { number, ..self })
    }
}

/// How often one evaluation is tried (scheduler.md 7.1).
fn max_attempts(job_type: JobType) -> u32 {
    match job_type {
        JobType::Service | JobType::System => 5,
        JobType::Batch | JobType::Sysbatch => 2,
    }
}

/// Decides one evaluation. `fleet` is at the view's index; all that is new gets its id from `seed`, which must never
/// be used twice.
pub fn schedule(
    view: &dyn SchedulerState,
    fleet: &fleet::FleetSnapshot,
    eval: &Evaluation,
    attempt: Attempt,
    now: Wall,
    seed: u64,
) -> Decision {
    process::run(view, fleet, eval, attempt, now, seed)
}

/// Whether allocations of a job of one priority may send away those of a job of the other.
pub fn may_preempt(own: i64, other: i64) -> bool {
    preempt::may_preempt(own, other)
}

/// Whether the job is meant for nodes in this one's datacenter and pool.
pub fn in_datacenters_and_pool(job: &JobSpec, node: &NodeInfo) -> bool {
    feasibility::in_datacenters_and_pool(job, &node.datacenter, &node.pool)
}

const CONFLICTS: &str = "created due to placement conflicts";

/// What becomes of an evaluation whose plans could not be committed: it failed, and a blocked one will try again.
/// `last`: the last decision on it.
pub fn max_attempts_reached(
    eval: &Evaluation,
    attempt: Attempt,
    last: &Decision,
    now: Wall,
    seed: u64,
) -> Decision {
    let why = format!("maximum attempts reached ({})", max_attempts(eval.job_type));
    let mut failed = finished(eval, EvalStatus::Failed, why, now);
    failed.failed_groups = last.eval.failed_groups.clone();
    failed.queued = last.eval.queued.clone();
    failed.snapshot_index = attempt.snapshot_index;
    // Where all could have been placed, no class is known to be of no use.
    let blocked_again = (last.eval.status == EvalStatus::Blocked).then_some(&last.eval);
    let eligibility = last.created.first().or(blocked_again).map_or_else(Eligibility::default, |e| {
        Eligibility { classes: e.class_eligibility.clone(), escaped: e.escaped_class }
    });
    let id = EvalId::from_random(Stream::new(seed, 0).next_u128());
    let blocked = process::blocked_eval(id, &failed, Trigger::MaxPlanAttempts, CONFLICTS, eligibility, now);
    failed.blocked_eval = Some(id);
    Decision {
        plan: no_plan(&failed, attempt),
        eval: failed,
        created: vec![blocked],
        desired: BTreeMap::new(),
    }
}

fn no_plan(eval: &Evaluation, attempt: Attempt) -> Plan {
    let snapshot_index = attempt.snapshot_index;
    Plan { eval_id: eval.id, priority: eval.priority, snapshot_index, ..Plan::default() }
}

/// A copy with another status. It changed after it was created, whatever the clocks say.
fn finished(eval: &Evaluation, status: EvalStatus, status_description: String, now: Wall) -> Evaluation {
    let after_creation = Wall(eval.create_time.0.saturating_add(1));
    Evaluation { status, status_description, modify_time: now.max(after_creation), ..eval.clone() }
}
