//! An evaluation: one unit of scheduling work for one job.

use super::alloc::AllocMetric;
use super::id::{DeploymentId, EvalId, JobKey, NodeId};
use super::job::JobType;
use super::time::{Span, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvalStatus {
    Pending,
    Blocked,
    Complete,
    Failed,
    Canceled,
}

impl EvalStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            EvalStatus::Pending => "pending",
            EvalStatus::Blocked => "blocked",
            EvalStatus::Complete => "complete",
            EvalStatus::Failed => "failed",
            EvalStatus::Canceled => "canceled",
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, EvalStatus::Complete | EvalStatus::Failed | EvalStatus::Canceled)
    }
}

/// Why an evaluation exists. Encoded by position: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    JobRegister,
    JobDeregister,
    NodeUpdate,
    FailedFollowUp,
    MaxPlanAttempts,
    AllocFailure,
    QueuedAllocs,
    AllocReschedule,
    MaxDisconnectTimeout,
    AllocStop,
    NodeDrain,
    DeploymentWatcher,
    Reconnect,
    RollingUpdate,
    PeriodicJob,
    Preemption,
    JobScaling,
}

impl Trigger {
    pub fn as_str(self) -> &'static str {
        match self {
            Trigger::JobRegister => "job-register",
            Trigger::JobDeregister => "job-deregister",
            Trigger::NodeUpdate => "node-update",
            Trigger::FailedFollowUp => "failed-follow-up",
            Trigger::MaxPlanAttempts => "max-plan-attempts",
            Trigger::AllocFailure => "alloc-failure",
            Trigger::QueuedAllocs => "queued-allocs",
            Trigger::AllocReschedule => "alloc-reschedule",
            Trigger::MaxDisconnectTimeout => "max-disconnect-timeout",
            Trigger::AllocStop => "alloc-stop",
            Trigger::NodeDrain => "node-drain",
            Trigger::DeploymentWatcher => "deployment-watcher",
            Trigger::Reconnect => "reconnect",
            Trigger::RollingUpdate => "rolling-update",
            Trigger::PeriodicJob => "periodic-job",
            Trigger::Preemption => "preemption",
            Trigger::JobScaling => "job-scaling",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub id: EvalId,
    pub job: JobKey,
    pub priority: i64,
    /// Which scheduler runs it.
    pub job_type: JobType,
    pub trigger: Trigger,
    pub job_modify_index: u64,
    /// The node whose change made it, with the index of that change.
    pub node_id: Option<NodeId>,
    pub node_modify_index: u64,
    pub status: EvalStatus,
    pub status_description: String,
    /// Not to be scheduled before this much time has passed since the leader saw it.
    pub wait: Span,
    pub next_eval: Option<EvalId>,
    pub previous_eval: Option<EvalId>,
    pub blocked_eval: Option<EvalId>,
    /// Groups of which some allocation could not be placed.
    pub failed_groups: BTreeMap<String, AllocMetric>,
    /// For a blocked evaluation: computed node class to "could it run there". A class that is missing was never seen.
    pub class_eligibility: BTreeMap<String, bool>,
    /// For a blocked evaluation: eligibility depends on more than the class, so any change of any node wakes it.
    pub escaped_class: bool,
    /// Allocations still wanted, per group.
    pub queued: BTreeMap<String, u64>,
    /// The state's index that the scheduler saw first.
    pub snapshot_index: u64,
    pub create_time: Wall,
    pub modify_time: Wall,
    pub create_index: u64,
    pub modify_index: u64,
    /// Not to be scheduled before.
    pub wait_until: Option<Wall>,
    /// The deployment that it moved on.
    pub deployment: Option<DeploymentId>,
}

impl Evaluation {
    /// A pending evaluation with nothing known yet. Indexes are set when it is applied.
    pub fn pending(
        id: EvalId,
        job: JobKey,
        job_type: JobType,
        priority: i64,
        trigger: Trigger,
        at: Wall,
    ) -> Self {
        Evaluation {
            id,
            job,
            priority,
            job_type,
            trigger,
            job_modify_index: 0,
            node_id: None,
            node_modify_index: 0,
            status: EvalStatus::Pending,
            status_description: String::new(),
            wait: Span::ZERO,
            next_eval: None,
            previous_eval: None,
            blocked_eval: None,
            failed_groups: BTreeMap::new(),
            class_eligibility: BTreeMap::new(),
            escaped_class: false,
            queued: BTreeMap::new(),
            snapshot_index: 0,
            create_time: at,
            modify_time: at,
            create_index: 0,
            modify_index: 0,
            wait_until: None,
            deployment: None,
        }
    }
}

/// The priority of a job that names none, and of evaluations for a job that is gone.
pub const DEFAULT_PRIORITY: i64 = 50;
