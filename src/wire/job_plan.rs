//! A job that somebody plans to register: the question what would come of it, and the answer. Nothing is written.

use model::alloc::{AllocMetric, Allocation};
use model::cron::Schedule;
use model::eval::Evaluation;
use model::job::{Job, JobSpec};
use model::plan::GroupChanges;
use model::time::Wall;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub struct JobPlanRequest {
    /// Canonical and valid by itself.
    pub spec: Arc<JobSpec>,
    /// When it would launch children.
    pub schedule: Option<Schedule>,
    /// Decides what is random in the answer.
    pub seed: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPlanReply {
    /// The job as it is.
    pub before: Option<Arc<Job>>,
    /// Those that would have to make way, with their jobs.
    pub preempted: Vec<(Allocation, Option<Arc<Job>>)>,
    /// By group.
    pub desired: BTreeMap<String, GroupChanges>,
    /// Groups of which some allocation would find no node.
    pub failed: BTreeMap<String, AllocMetric>,
    /// What would look again later.
    pub created: Vec<Evaluation>,
    pub next_launch: Option<Wall>,
    /// The index of the state that was read.
    pub index: u64,
}
