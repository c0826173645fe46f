//! What the commands read of the API's answers (http-api.md). Everything has a default: an older agent may say less.

use crate::alloc::addresses::Allocated;
use crate::error::{CommandError, CommandResult};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobStub {
    #[serde(rename = "ID")]
    pub id: String,
    #[serde(rename = "ParentID")]
    pub parent_id: String,
    pub name: String,
    pub namespace: String,
    #[serde(rename = "Type")]
    pub kind: String,
    pub priority: i64,
    pub periodic: bool,
    pub parameterized_job: bool,
    pub stop: bool,
    pub status: String,
    pub submit_time: i64,
    pub job_summary: JobSummary,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Job {
    #[serde(rename = "ID")]
    pub id: String,
    pub name: String,
    pub namespace: String,
    #[serde(rename = "Type")]
    pub kind: String,
    pub priority: i64,
    pub datacenters: Vec<String>,
    pub node_pool: String,
    pub periodic: Option<Value>,
    pub parameterized_job: Option<Value>,
    pub dispatched: bool,
    pub dispatch_idempotency_token: String,
    pub stop: bool,
    pub status: String,
    pub submit_time: i64,
    pub version: u64,
    pub stable: bool,
    pub task_groups: Vec<TaskGroup>,
    pub version_tag: Option<VersionTag>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VersionTag {
    pub name: String,
    pub description: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskGroup {
    pub name: String,
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Task {
    pub name: String,
    pub lifecycle: Option<Lifecycle>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobAction {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Lifecycle {
    pub hook: String,
    pub sidecar: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobSummary {
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub namespace: String,
    pub summary: BTreeMap<String, GroupSummary>,
    pub children: Children,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Children {
    pub pending: u64,
    pub running: u64,
    pub dead: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GroupSummary {
    pub queued: i64,
    pub starting: i64,
    pub running: i64,
    pub failed: i64,
    pub complete: i64,
    pub lost: i64,
    pub unknown: i64,
}

/// Allocation and its list stub alike: the stub leaves out `job`, `task_resources`, `metrics` and so on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Alloc {
    #[serde(rename = "ID")]
    pub id: String,
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub name: String,
    pub namespace: String,
    #[serde(rename = "NodeID")]
    pub node_id: String,
    pub node_name: String,
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub allocated_resources: Option<Allocated>,
    pub job_version: u64,
    pub task_group: String,
    pub desired_status: String,
    pub desired_description: String,
    pub client_status: String,
    pub client_description: String,
    pub task_states: BTreeMap<String, TaskState>,
    #[serde(rename = "DeploymentID")]
    pub deployment_id: String,
    pub deployment_status: Option<DeploymentHealth>,
    #[serde(rename = "FollowupEvalID")]
    pub followup_eval_id: String,
    pub next_allocation: String,
    pub reschedule_tracker: Option<RescheduleTracker>,
    pub preempted_allocations: Vec<String>,
    pub preempted_by_allocation: String,
    pub create_index: u64,
    pub modify_index: u64,
    pub create_time: i64,
    pub modify_time: i64,
    pub job: Option<AllocJob>,
    pub task_resources: BTreeMap<String, LegacyResources>,
    pub resources: LegacyResources,
    pub metrics: AllocMetric,
}

/// What the tasks of an allocation use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocResourceUsage {
    pub resource_usage: Usage,
    pub tasks: BTreeMap<String, TaskResourceUsage>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskResourceUsage {
    pub resource_usage: Usage,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Usage {
    pub memory_stats: MemoryUsage,
    pub cpu_stats: CpuUsage,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MemoryUsage {
    #[serde(rename = "RSS")]
    pub rss: u64,
    pub cache: u64,
    pub swap: u64,
    pub mapped_file: u64,
    pub usage: u64,
    pub max_usage: u64,
    pub kernel_usage: u64,
    pub kernel_max_usage: u64,
    pub measured: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CpuUsage {
    pub user_mode: f64,
    pub system_mode: f64,
    pub total_ticks: f64,
    pub percent: f64,
    pub throttled_periods: u64,
    /// Nanoseconds.
    pub throttled_time: u64,
    pub measured: Vec<String>,
}

/// A file of an allocation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct File {
    pub name: String,
    pub is_dir: bool,
    pub size: u64,
    pub file_mode: String,
    pub mod_time: String,
    pub content_type: String,
}

impl Alloc {
    /// The version of its job: a list has it beside the allocation, a whole allocation within its job.
    pub fn version(&self) -> u64 {
        self.job.as_ref().map_or(self.job_version, |job| job.version)
    }

    /// The named task, or the only one.
    pub fn task_named(&self, name: Option<&String>) -> CommandResult<String> {
        let groups = self.job.iter().flat_map(|j| &j.task_groups).filter(|g| g.name == self.task_group);
        let mut known: Vec<&str> = groups.flat_map(|g| &g.tasks).map(|t| t.name.as_str()).collect();
        if known.is_empty() {
            known = self.task_states.keys().map(String::as_str).collect();
        }
        let list = known.join(", ");
        match (name, &known[..]) {
            (Some(name), _) if known.is_empty() || known.contains(&name.as_str()) => Ok(name.clone()),
            (Some(name), _) => {
                Err(CommandError::new(format!("Allocation has no task {name:?}; it has: {list}")))
            }
            (None, [only]) => Ok(only.to_string()),
            (None, []) => Err(CommandError::new("Allocation has no tasks yet")),
            (None, _) => Err(CommandError::new(format!("Allocation has several tasks, name one: {list}"))),
        }
    }
}

/// The job within an allocation, whose version stands on the job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocJob {
    pub version: u64,
    pub task_groups: Vec<AllocGroup>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocGroup {
    pub name: String,
    pub tasks: Vec<Task>,
    pub reschedule_policy: Option<ReschedulePolicy>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ReschedulePolicy {
    pub attempts: u64,
    pub unlimited: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RescheduleTracker {
    pub events: Vec<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentHealth {
    pub healthy: Option<bool>,
    pub canary: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LegacyResources {
    #[serde(rename = "CPU")]
    pub cpu: i64,
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: i64,
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskState {
    pub state: String,
    pub failed: bool,
    pub restarts: u64,
    pub last_restart: String,
    pub started_at: String,
    pub finished_at: String,
    /// Oldest first.
    pub events: Vec<TaskEvent>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskEvent {
    #[serde(rename = "Type")]
    pub kind: String,
    pub time: i64,
    pub display_message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocMetric {
    pub nodes_evaluated: u64,
    pub nodes_filtered: u64,
    pub nodes_exhausted: u64,
    pub nodes_available: BTreeMap<String, u64>,
    pub class_filtered: BTreeMap<String, u64>,
    pub constraint_filtered: BTreeMap<String, u64>,
    pub class_exhausted: BTreeMap<String, u64>,
    pub dimension_exhausted: BTreeMap<String, u64>,
    pub quota_exhausted: Vec<String>,
    pub score_meta_data: Vec<NodeScore>,
    /// Nanoseconds.
    pub allocation_time: i64,
    pub coalesced_failures: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeScore {
    #[serde(rename = "NodeID")]
    pub node_id: String,
    pub scores: BTreeMap<String, f64>,
    pub norm_score: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Eval {
    #[serde(rename = "ID")]
    pub id: String,
    pub namespace: String,
    #[serde(rename = "Type")]
    pub kind: String,
    pub priority: i64,
    pub triggered_by: String,
    #[serde(rename = "JobID")]
    pub job_id: String,
    #[serde(rename = "NodeID")]
    pub node_id: String,
    #[serde(rename = "DeploymentID")]
    pub deployment_id: String,
    pub status: String,
    pub status_description: String,
    /// Nanoseconds.
    pub wait: i64,
    pub wait_until: String,
    pub next_eval: String,
    pub previous_eval: String,
    pub blocked_eval: String,
    pub related_evals: Vec<Eval>,
    #[serde(rename = "FailedTGAllocs")]
    pub failed_tg_allocs: BTreeMap<String, AllocMetric>,
    pub create_index: u64,
    pub create_time: i64,
    pub modify_time: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Namespace {
    pub name: String,
    pub description: String,
    pub quota: String,
    pub capabilities: NamespaceCapabilities,
    pub meta: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NamespaceCapabilities {
    pub enabled_task_drivers: Vec<String>,
    pub disabled_task_drivers: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Versions {
    /// Jobs, newest first.
    pub versions: Vec<Value>,
    pub diffs: Vec<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Submission {
    pub source: String,
    pub format: String,
    pub variable_flags: BTreeMap<String, String>,
    pub variables: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ValidateAnswer {
    pub error: String,
    pub warnings: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RegisterAnswer {
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub warnings: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DispatchAnswer {
    #[serde(rename = "DispatchedJobID")]
    pub dispatched_job_id: String,
    #[serde(rename = "EvalID")]
    pub eval_id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SearchAnswer {
    pub matches: BTreeMap<String, Vec<String>>,
}
