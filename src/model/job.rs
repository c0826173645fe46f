//! A job as its user wrote it, after canonical defaults: groups of tasks and the rules under which they run.
//! The record that a region keeps of it (version, status, indexes) is `Job`; the spec alone is what is compared to
//! decide whether a submission changed anything.

use super::claims::{Network, TaskHoldings, VolumeAsk, VolumeMount};
use super::constraint::Constraint;
use super::dispatch::{Dispatch, DispatchPayload, Parameterized};
use super::id::JobKey;
use super::periodic::Periodic;
use super::preference::{Affinity, Spread};
use super::resources::{AllocResources, EphemeralDisk, Lifecycle, Resources, TaskResources};
use super::scaling::{Scaling, TaskScaling};
use super::schema::policies::{MULTIREGION, TASK_SCALING};
use super::schema::services::{
    ARTIFACT, CONSUL, CSI_PLUGIN, IDENTITY, SCHEDULE, SECRET, SERVICE, TEMPLATE, VAULT,
};
use super::schema::{
    Declared, DecodeHook, Shape, ValueKind, block, filled, ignored, many, maybe, member, named, nullable,
    one, plain, soon, words, zeroed,
};
use super::time::{Span, Wall};
use super::ui::Ui;
use super::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Also of a task that says zero.
pub const DEFAULT_KILL_TIMEOUT: Span = Span::seconds(5);

words! {
    /// Which scheduler works on the job. Encoded by position: append only.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum JobType {
        Service = "service",
        Batch = "batch",
        System = "system",
        Sysbatch = "sysbatch",
    }
}

impl JobType {
    pub const ALL: [JobType; 4] = [JobType::Service, JobType::Batch, JobType::System, JobType::Sysbatch];

    /// Whether jobs of this type run on every node that may run them; a count is for each node.
    pub fn runs_on_every_node(self) -> bool {
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

block! {
    /// The user's part of a job, canonical: every default is filled in.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct JobSpec in named("job", "Job").labelled("ID").hooked(DecodeHook::Job) => {
        pub namespace: String => nullable("namespace", "Namespace");
        pub id: String => nullable("id", "ID").diff_by_hand();
        pub name: String => nullable("name", "Name");
        pub region: String => nullable("region", "Region");
        pub job_type: JobType = JobType::Service => nullable("type", "Type").read_by_hand();
        /// 1 (least) to 100 (most urgent); 0 in what is submitted: the region's default.
        pub priority: i64 => nullable("priority", "Priority");
        pub all_at_once: bool => nullable("all_at_once", "AllAtOnce");
        /// Globs; at least one.
        pub datacenters: Vec<String> => nullable("datacenters", "Datacenters");
        pub node_pool: String => nullable("node_pool", "NodePool");
        pub constraints: Vec<Constraint> => nullable("constraint", "Constraints");
        pub affinities: Vec<Affinity> => nullable("affinity", "Affinities");
        /// For every group, before the group's own.
        pub spreads: Vec<Spread> => nullable("spread", "Spreads");
        pub groups: Vec<TaskGroup> => nullable("group", "TaskGroups").by_hand().diff_by_hand();
        /// What the job-level `update` block leaves for the whole job (service only).
        pub update: Option<JobUpdate>;
        pub meta: BTreeMap<String, String> => nullable("meta", "Meta").destructive();
        /// The user asked for the job to be stopped: part of the spec, so that stopping makes a version.
        pub stop: bool => nullable("", "Stop");
        pub periodic: Option<Periodic> => nullable("periodic", "Periodic");
        /// Which job has made it; servers alone say so. Empty: none.
        pub parent: String;
        pub parameterized: Option<Parameterized> => nullable("parameterized", "ParameterizedJob");
        /// What it was dispatched with; servers alone say so.
        pub dispatch: Option<Dispatch>;
        pub ui: Option<Ui> => nullable("ui", "UI");
    }
    and [
        many("task", "", Task::BLOCK),
        one("update", "Update", UpdatePolicy::BLOCK).by_hand(),
        one("migrate", "Migrate", MigratePolicy::BLOCK).by_hand(),
        one("reschedule", "Reschedule", ReschedulePolicy::BLOCK).by_hand(),
        soon(one("multiregion", "Multiregion", &MULTIREGION)),
        soon(one("vault", "", &VAULT)),
        soon(maybe("vault_token", "VaultToken", ValueKind::Text)).zero_for_none(),
        soon(maybe("consul_token", "ConsulToken", ValueKind::Text)).zero_for_none(),
        maybe("", "Payload", ValueKind::Opaque).by_hand(),
        soon(maybe("", "ConsulNamespace", ValueKind::Text)).zero_for_none(),
        soon(maybe("", "VaultNamespace", ValueKind::Text)).zero_for_none(),
        ignored("ParentID"),
        member("", "Dispatched", Shape::Value(ValueKind::Bool), false).by_hand(),
        ignored("DispatchIdempotencyToken"),
        ignored("NomadTokenID"),
        ignored("Status"),
        ignored("StatusDescription"),
        ignored("Stable"),
        ignored("Version"),
        ignored("SubmitTime"),
        ignored("CreateIndex"),
        ignored("ModifyIndex"),
        ignored("JobModifyIndex"),
        ignored("VersionTag"),
    ]
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

    /// Whether the job is there to be dispatched, and runs nothing itself. A dispatched job has its parent's `parameterized`, too.
    pub fn is_parameterized(&self) -> bool {
        self.parameterized.is_some() && self.dispatch.is_none()
    }
}

block! {
    /// The two members of `update` that concern a job as a whole. In the job's JSON the others are zero.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct JobUpdate in named("update", "Update") => {
        pub stagger: Span = Span::seconds(30) => zeroed("stagger", "Stagger");
        pub max_parallel: i64 = 1 => zeroed("max_parallel", "MaxParallel");
    }
    and [
        plain("health_check", "HealthCheck", ValueKind::Text),
        plain("min_healthy_time", "MinHealthyTime", ValueKind::Span),
        plain("healthy_deadline", "HealthyDeadline", ValueKind::Span),
        plain("progress_deadline", "ProgressDeadline", ValueKind::Span),
        plain("auto_revert", "AutoRevert", ValueKind::Bool),
        plain("auto_promote", "AutoPromote", ValueKind::Bool),
        plain("canary", "Canary", ValueKind::Int),
    ]
}

impl JobUpdate {
    /// How a job without any says so.
    pub const NONE: JobUpdate = JobUpdate { stagger: Span::ZERO, max_parallel: 0 };
}

block! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct TaskGroup in named("group", "TaskGroup").labelled("Name").hooked(DecodeHook::Group) => {
        pub name: String => nullable("", "Name").diff_by_hand();
        /// Where the block says nothing, what its scaling begins with.
        pub count: i64 = 1 => nullable("count", "Count");
        pub constraints: Vec<Constraint> => nullable("constraint", "Constraints");
        pub affinities: Vec<Affinity> => nullable("affinity", "Affinities");
        pub spreads: Vec<Spread> => nullable("spread", "Spreads");
        /// The default is the one of the job's type.
        pub restart: RestartPolicy => nullable("restart", "RestartPolicy");
        pub reschedule: Option<ReschedulePolicy> => nullable("reschedule", "ReschedulePolicy");
        pub update: Option<UpdatePolicy> => nullable("update", "Update");
        pub migrate: Option<MigratePolicy> => nullable("migrate", "Migrate");
        pub ephemeral_disk: EphemeralDisk => nullable("ephemeral_disk", "EphemeralDisk").destructive();
        pub shutdown_delay: Option<Span> => nullable("shutdown_delay", "ShutdownDelay");
        pub tasks: Vec<Task> => nullable("task", "Tasks").by_hand().diff_by_hand();
        pub meta: BTreeMap<String, String> => nullable("meta", "Meta").destructive();
        pub disconnect: Option<DisconnectPolicy> => nullable("disconnect", "Disconnect");
        pub networks: Vec<Network> => nullable("network", "Networks").destructive();
        /// By the name that mounts know.
        pub volumes: BTreeMap<String, VolumeAsk> => nullable("volume", "Volumes").destructive();
        /// A policy's id and target follow from where it stands.
        pub scaling: Option<Scaling> => nullable("scaling", "Scaling").written_by_hand();
        /// How long an allocation may take, from the moment in which its node receives it. Jobs that end alone have it.
        pub max_run_duration: Option<Span> => nullable("max_run_duration", "MaxRunDuration");
    }
    and [
        soon(many("service", "Services", &SERVICE)),
        maybe("stop_after_client_disconnect", "StopAfterClientDisconnect", ValueKind::Span),
        maybe("max_client_disconnect", "MaxClientDisconnect", ValueKind::Span),
        maybe("prevent_reschedule_on_lost", "PreventRescheduleOnLost", ValueKind::Bool).zero_for_none(),
        soon(one("vault", "", &VAULT)),
        soon(filled(one("consul", "Consul", &CONSUL), r#"{"Cluster":"default"}"#)),
    ]
}

impl TaskGroup {
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|t| t.name == name)
    }

    /// What one allocation of this group holds, but for what its node has to choose.
    pub fn resources(&self) -> AllocResources {
        AllocResources {
            tasks: self.tasks.iter().map(|t| (t.name.clone(), t.task_resources())).collect(),
            disk_mb: self.ephemeral_disk.size_mb,
            networks: Vec::new(),
        }
    }

    /// Lets each task of an allocation go as far beyond its memory as its group says.
    pub fn allow_memory(&self, held: &mut AllocResources) {
        for task in &self.tasks {
            if let Some(resources) = held.tasks.get_mut(&task.name) {
                resources.held.memory_max_mb = task.resources.memory_max_mb;
            }
        }
    }
}

block! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Task in named("task", "Task").labelled("Name") => {
        pub name: String => zeroed("", "Name").diff_by_hand();
        pub driver: String => zeroed("driver", "Driver").destructive();
        /// The driver's own keys, not looked at before the driver does.
        pub config: BTreeMap<String, Value> => nullable("config", "Config").destructive().as_block();
        pub env: BTreeMap<String, String> => nullable("env", "Env").destructive();
        pub meta: BTreeMap<String, String> => nullable("meta", "Meta").destructive();
        pub user: String => zeroed("user", "User").destructive();
        pub constraints: Vec<Constraint> => nullable("constraint", "Constraints");
        pub affinities: Vec<Affinity> => nullable("affinity", "Affinities");
        pub resources: Resources => nullable("resources", "Resources").destructive();
        /// The default is the group's.
        pub restart: RestartPolicy => nullable("restart", "RestartPolicy");
        /// A block that says nothing is none.
        pub lifecycle: Option<Lifecycle> => nullable("lifecycle", "Lifecycle").read_by_hand();
        /// When this task ends, the group's other tasks are stopped.
        pub leader: bool => zeroed("leader", "Leader");
        /// Empty: the driver's default, SIGINT.
        pub kill_signal: String => zeroed("kill_signal", "KillSignal");
        pub kill_timeout: Span = DEFAULT_KILL_TIMEOUT => nullable("kill_timeout", "KillTimeout");
        pub shutdown_delay: Span => zeroed("shutdown_delay", "ShutdownDelay");
        pub logs: LogConfig => nullable("logs", "LogConfig");
        pub volume_mounts: Vec<VolumeMount> => nullable("volume_mount", "VolumeMounts").destructive();
        pub dispatch_payload: Option<DispatchPayload> => nullable("dispatch_payload", "DispatchPayload");
        pub actions: Vec<TaskAction> => nullable("action", "Actions").in_order();
        /// At most one of each type.
        pub scaling: Vec<TaskScaling>;
    }
    and [
        soon(many("artifact", "Artifacts", &ARTIFACT)),
        soon(many("template", "Templates", &TEMPLATE)),
        soon(many("service", "Services", &SERVICE)),
        many("scaling", "ScalingPolicies", &TASK_SCALING).by_hand(),
        soon(many("identity", "Identities", &IDENTITY)),
        soon(filled(
            member("", "Identity", Shape::One(&IDENTITY), true),
            r#"{"Name":"default","Audience":["nomadproject.io"]}"#,
        )),
        soon(one("csi_plugin", "CSIPluginConfig", &CSI_PLUGIN)).omitted(),
        soon(one("vault", "Vault", &VAULT)),
        soon(filled(one("consul", "Consul", &CONSUL), r#"{"Cluster":"default"}"#)),
        soon(plain("kind", "Kind", ValueKind::Text)),
        soon(many("secret", "Secrets", &SECRET)),
        soon(one("schedule", "Schedule", &SCHEDULE)),
    ]
}

impl Task {
    pub fn action(&self, name: &str) -> Option<&TaskAction> {
        self.actions.iter().find(|a| a.name == name)
    }

    /// What it will hold, but for what its node has to choose.
    pub fn task_resources(&self) -> TaskResources {
        TaskResources {
            cpu_mhz: self.resources.cpu_mhz,
            memory_mb: self.resources.memory_mb,
            lifecycle: self.lifecycle,
            held: TaskHoldings::default(),
        }
    }
}

block! {
    /// A command that its job's author lets operators run beside the task, by its name.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TaskAction in named("action", "Action").labelled("Name") => {
        pub name: String => zeroed("", "Name");
        pub command: String => zeroed("command", "Command");
        pub args: Vec<String> => nullable("args", "Args").in_order();
    }
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

block! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LogConfig in named("logs", "LogConfig") => {
        pub max_files: i64 = 10 => nullable("max_files", "MaxFiles");
        pub max_file_size_mb: i64 = 10 => nullable("max_file_size", "MaxFileSizeMB");
        pub disabled: bool => nullable("disabled", "Disabled").destructive();
    }
    and [maybe("enabled", "Enabled", ValueKind::Bool).by_hand()]
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum RestartMode {
        /// After `attempts` in `interval`, the task has failed.
        Fail = "fail",
        /// After `attempts` in `interval`, the next start waits for the next interval.
        Delay = "delay",
    }
}

block! {
    /// What the client does on its own when a task ends. The defaults are a service's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct RestartPolicy in named("restart", "RestartPolicy") => {
        pub attempts: i64 = 2 => nullable("attempts", "Attempts");
        pub interval: Span = Span::minutes(30) => nullable("interval", "Interval");
        pub delay: Span = Span::seconds(15) => nullable("delay", "Delay");
        pub mode: RestartMode = RestartMode::Fail => nullable("mode", "Mode");
        pub render_templates: bool => nullable("render_templates", "RenderTemplates").destructive();
    }
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum DelayFunction {
        Constant = "constant",
        Exponential = "exponential",
        Fibonacci = "fibonacci",
    }
}

block! {
    /// What the servers do when an allocation has failed. The defaults are a service's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ReschedulePolicy in named("reschedule", "ReschedulePolicy") => {
        pub attempts: i64 => nullable("attempts", "Attempts");
        pub interval: Span => nullable("interval", "Interval");
        pub delay: Span = Span::seconds(30) => nullable("delay", "Delay");
        pub delay_function: DelayFunction = DelayFunction::Exponential => nullable("delay_function", "DelayFunction");
        pub max_delay: Span = Span::hours(1) => nullable("max_delay", "MaxDelay");
        pub unlimited: bool = true => nullable("unlimited", "Unlimited");
    }
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum HealthCheck {
        Checks = "checks",
        TaskStates = "task_states",
        Manual = "manual",
    }
}

words! {
    /// Which of two stays when a node comes back and its allocation was replaced meanwhile.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Reconcile {
        BestScore = "best_score",
        KeepOriginal = "keep_original",
        KeepReplacement = "keep_replacement",
        LongestRunning = "longest_running",
    }
}

block! {
    /// What becomes of a group's allocations while their node does not answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct DisconnectPolicy in named("disconnect", "Disconnect") => {
        /// Until then it is unknown how they are. None: they are lost at once.
        pub lost_after: Option<Span> => nullable("lost_after", "LostAfter").zero_for_none();
        /// The node stops them by itself after this; they are not replaced before.
        pub stop_on_client_after: Option<Span> => nullable("stop_on_client_after", "StopOnClientAfter");
        /// Whether what is unknown is replaced.
        pub replace: bool = true => nullable("replace", "Replace");
        pub reconcile: Reconcile = Reconcile::BestScore => nullable("reconcile", "Reconcile");
    }
}

block! {
    /// How a new version of a group replaces the old one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct UpdatePolicy in named("update", "Update") => {
        pub stagger: Span = Span::seconds(30) => nullable("stagger", "Stagger").without_effect();
        pub max_parallel: i64 = 1 => nullable("max_parallel", "MaxParallel");
        pub health_check: HealthCheck = HealthCheck::Checks => nullable("health_check", "HealthCheck");
        pub min_healthy_time: Span = Span::seconds(10) => nullable("min_healthy_time", "MinHealthyTime");
        pub healthy_deadline: Span = Span::minutes(5) => nullable("healthy_deadline", "HealthyDeadline");
        pub progress_deadline: Span = Span::minutes(10) => nullable("progress_deadline", "ProgressDeadline");
        pub auto_revert: bool => nullable("auto_revert", "AutoRevert");
        pub auto_promote: bool => nullable("auto_promote", "AutoPromote");
        pub canary: i64 => nullable("canary", "Canary");
    }
}

block! {
    /// How a group leaves a draining node.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MigratePolicy in named("migrate", "Migrate") => {
        pub max_parallel: i64 = 1 => nullable("max_parallel", "MaxParallel");
        pub health_check: HealthCheck = HealthCheck::Checks => nullable("health_check", "HealthCheck");
        pub min_healthy_time: Span = Span::seconds(10) => nullable("min_healthy_time", "MinHealthyTime");
        pub healthy_deadline: Span = Span::minutes(5) => nullable("healthy_deadline", "HealthyDeadline");
    }
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
