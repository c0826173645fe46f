//! A job as its user wrote it, after canonical defaults: groups of tasks and the rules under which they run.
//! The record that a region keeps of it (version, status, indexes) is `Job`; the spec alone is what is compared to
//! decide whether a submission changed anything.

use super::claims::{GroupAsks, TaskAsks, TaskHoldings};
use super::constraint::Constraint;
use super::family::dispatch::{Dispatch, Parameterized};
use super::family::{Children, Periodic};
use super::id::JobKey;
use super::preference::{Affinity, Spread};
use super::resources::{AllocResources, Lifecycle, TaskResources};
use super::scaling::{Scaling, TaskScaling};
use super::time::{Span, Wall};
use super::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Which scheduler works on the job. Encoded by position: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobType {
    Service,
    Batch,
    System,
    Sysbatch,
}

impl JobType {
    pub fn as_str(self) -> &'static str {
        match self {
            JobType::Service => "service",
            JobType::Batch => "batch",
            JobType::System => "system",
            JobType::Sysbatch => "sysbatch",
        }
    }

    /// It runs on every node that may run it; its count is for each.
    pub fn is_everywhere(self) -> bool {
        matches!(self, JobType::System | JobType::Sysbatch)
    }

    /// Why a job of this type cannot become one of that type, if it cannot.
    pub fn refuses(self, new: JobType) -> Option<String> {
        (self != new).then(|| format!("cannot update job from type \"{self}\" to \"{new}\""))
    }
}

impl fmt::Display for JobType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The user's part of a job, canonical: every default is filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    pub namespace: String,
    pub id: String,
    pub name: String,
    pub region: String,
    pub job_type: JobType,
    /// 1 (least) to 100 (most urgent).
    pub priority: i64,
    pub all_at_once: bool,
    /// Globs; at least one.
    pub datacenters: Vec<String>,
    pub node_pool: String,
    pub constraints: Vec<Constraint>,
    pub affinities: Vec<Affinity>,
    /// For every group, before the group's own.
    pub spreads: Vec<Spread>,
    pub groups: Vec<TaskGroup>,
    /// What the job-level `update` block leaves for the whole job (service only).
    pub update: Option<JobUpdate>,
    pub meta: BTreeMap<String, String>,
    /// The user asked for the job to be stopped: part of the spec, so that stopping makes a version.
    pub stop: bool,
    #[serde(default)]
    pub periodic: Option<Periodic>,
    /// Which job has made it; servers alone say so. Empty: none.
    #[serde(default)]
    pub parent: String,
    #[serde(default)]
    pub parameterized: Option<Parameterized>,
    /// What it was dispatched with; servers alone say so.
    #[serde(default)]
    pub dispatch: Option<Dispatch>,
}

impl JobSpec {
    pub fn key(&self) -> JobKey {
        JobKey::new(self.namespace.clone(), self.id.clone())
    }

    pub fn group(&self, name: &str) -> Option<&TaskGroup> {
        self.groups.iter().find(|g| g.name == name)
    }

    /// To look up many.
    pub fn groups_by_name(&self) -> BTreeMap<&str, &TaskGroup> {
        let mut groups = BTreeMap::new();
        for group in &self.groups {
            groups.insert(group.name.as_str(), group);
        }
        groups
    }

    /// It is there to be dispatched, and runs nothing itself. What was dispatched from it says what it was, too.
    pub fn is_parameterized(&self) -> bool {
        self.parameterized.is_some() && self.dispatch.is_none()
    }
}

/// The two members of `update` that concern a job as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobUpdate {
    pub stagger: Span,
    pub max_parallel: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskGroup {
    pub name: String,
    pub count: i64,
    pub constraints: Vec<Constraint>,
    pub affinities: Vec<Affinity>,
    pub spreads: Vec<Spread>,
    pub restart: RestartPolicy,
    pub reschedule: Option<ReschedulePolicy>,
    pub update: Option<UpdatePolicy>,
    pub migrate: Option<MigratePolicy>,
    pub ephemeral_disk_mb: i64,
    pub shutdown_delay: Option<Span>,
    pub tasks: Vec<Task>,
    pub meta: BTreeMap<String, String>,
    pub disconnect: Option<DisconnectPolicy>,
    #[serde(default)]
    pub asks: GroupAsks,
    #[serde(default)]
    pub scaling: Option<Scaling>,
}

impl TaskGroup {
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|t| t.name == name)
    }

    /// What one allocation of this group holds, but for what its node has to choose.
    pub fn resources(&self) -> AllocResources {
        AllocResources {
            tasks: self.tasks.iter().map(|t| (t.name.clone(), t.resources())).collect(),
            disk_mb: self.ephemeral_disk_mb,
            networks: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub name: String,
    pub driver: String,
    /// The driver's own keys, not looked at before the driver does.
    pub config: BTreeMap<String, Value>,
    pub env: BTreeMap<String, String>,
    pub meta: BTreeMap<String, String>,
    pub user: String,
    pub constraints: Vec<Constraint>,
    pub affinities: Vec<Affinity>,
    pub cpu_mhz: i64,
    pub memory_mb: i64,
    pub restart: RestartPolicy,
    pub lifecycle: Option<Lifecycle>,
    /// When this task ends, the group's other tasks are stopped.
    pub leader: bool,
    /// Empty: the driver's default, SIGINT.
    pub kill_signal: String,
    pub kill_timeout: Span,
    pub shutdown_delay: Span,
    pub logs: LogConfig,
    #[serde(default)]
    pub asks: TaskAsks,
    /// The file below its `local/` that a dispatch's payload is written to. Empty: none.
    #[serde(default)]
    pub payload_file: String,
    #[serde(default)]
    pub actions: Vec<TaskAction>,
    /// At most one of each type.
    #[serde(default)]
    pub scaling: Vec<TaskScaling>,
}

impl Task {
    pub fn action(&self, name: &str) -> Option<&TaskAction> {
        self.actions.iter().find(|a| a.name == name)
    }

    pub fn resources(&self) -> TaskResources {
        TaskResources {
            cpu_mhz: self.cpu_mhz,
            memory_mb: self.memory_mb,
            lifecycle: self.lifecycle,
            held: TaskHoldings::default(),
        }
    }
}

/// A command that its job's author lets operators run beside the task, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAction {
    pub name: String,
    pub command: String,
    pub args: Vec<String>,
}

/// Why there is none of that name, and which there are.
pub fn no_action(name: &str, tasks: &[&Task]) -> String {
    let actions = |task: &Task| -> Vec<String> {
        task.actions.iter().map(|a| format!("{} (task {})", a.name, task.name)).collect()
    };
    match tasks.iter().flat_map(|t| actions(t)).collect::<Vec<_>>().join(", ").as_str() {
        "" => format!("action {name:?} not found: there are none"),
        known => format!("action {name:?} not found; there are: {known}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogConfig {
    pub max_files: i64,
    pub max_file_size_mb: i64,
    pub disabled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartMode {
    /// After `attempts` in `interval`, the task has failed.
    Fail,
    /// After `attempts` in `interval`, the next start waits for the next interval.
    Delay,
}

impl RestartMode {
    pub fn as_str(self) -> &'static str {
        match self {
            RestartMode::Fail => "fail",
            RestartMode::Delay => "delay",
        }
    }
}

/// What the client does on its own when a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartPolicy {
    pub attempts: i64,
    pub interval: Span,
    pub delay: Span,
    pub mode: RestartMode,
    pub render_templates: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DelayFunction {
    Constant,
    Exponential,
    Fibonacci,
}

impl DelayFunction {
    pub fn as_str(self) -> &'static str {
        match self {
            DelayFunction::Constant => "constant",
            DelayFunction::Exponential => "exponential",
            DelayFunction::Fibonacci => "fibonacci",
        }
    }
}

/// What the servers do when an allocation has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReschedulePolicy {
    pub attempts: i64,
    pub interval: Span,
    pub delay: Span,
    pub delay_function: DelayFunction,
    pub max_delay: Span,
    pub unlimited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HealthCheck {
    Checks,
    TaskStates,
    Manual,
}

impl HealthCheck {
    pub fn as_str(self) -> &'static str {
        match self {
            HealthCheck::Checks => "checks",
            HealthCheck::TaskStates => "task_states",
            HealthCheck::Manual => "manual",
        }
    }
}

/// Which of two stays when a node comes back and its allocation was replaced meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reconcile {
    BestScore,
    KeepOriginal,
    KeepReplacement,
    LongestRunning,
}

impl Reconcile {
    pub fn as_str(self) -> &'static str {
        match self {
            Reconcile::BestScore => "best_score",
            Reconcile::KeepOriginal => "keep_original",
            Reconcile::KeepReplacement => "keep_replacement",
            Reconcile::LongestRunning => "longest_running",
        }
    }
}

/// What becomes of a group's allocations while their node does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisconnectPolicy {
    /// Until then it is unknown how they are. None: they are lost at once.
    pub lost_after: Option<Span>,
    /// The node stops them by itself after this; they are not replaced before.
    pub stop_on_client_after: Option<Span>,
    /// Whether what is unknown is replaced.
    pub replace: bool,
    pub reconcile: Reconcile,
}

/// How a new version of a group replaces the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdatePolicy {
    pub stagger: Span,
    pub max_parallel: i64,
    pub health_check: HealthCheck,
    pub min_healthy_time: Span,
    pub healthy_deadline: Span,
    pub progress_deadline: Span,
    pub auto_revert: bool,
    pub auto_promote: bool,
    pub canary: i64,
}

/// How a group leaves a draining node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigratePolicy {
    pub max_parallel: i64,
    pub health_check: HealthCheck,
    pub min_healthy_time: Span,
    pub healthy_deadline: Span,
}

/// Derived from the job's allocations and evaluations on every change (server.md 3.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobStatus {
    Pending,
    Running,
    Dead,
}

impl JobStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            JobStatus::Pending => "pending",
            JobStatus::Running => "running",
            JobStatus::Dead => "dead",
        }
    }
}

/// A job as the region keeps it: the current spec and what the servers know about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub spec: JobSpec,
    pub version: u64,
    pub stable: bool,
    pub status: JobStatus,
    pub status_description: String,
    pub submit_time: Wall,
    pub create_index: u64,
    /// Moves with any change.
    pub modify_index: u64,
    /// Moves with a change of the spec only; what a client compares to submit safely.
    pub job_modify_index: u64,
    #[serde(default)]
    pub tag: Option<VersionTag>,
}

/// A name that a user gave to a version, which is kept for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionTag {
    pub name: String,
    pub description: String,
    pub at: Wall,
}

impl VersionTag {
    /// So many versions of a job may have one.
    pub const MOST: usize = 64;
    pub const MAX_NAME_CHARS: usize = 128;
    pub const MAX_DESCRIPTION_CHARS: usize = 1000;
}

/// How many allocations of a group are in which state. `complete` and `failed` only ever grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    pub queued: u64,
    pub starting: u64,
    pub running: u64,
    pub failed: u64,
    pub complete: u64,
    pub lost: u64,
    pub unknown: u64,
}

/// Kept beside each job, so that listing jobs counts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    pub groups: BTreeMap<String, GroupSummary>,
    pub create_index: u64,
    pub modify_index: u64,
    #[serde(default)]
    pub children: Children,
}
