//! Allocations as JSON: the whole allocation (zero values left out), its stub in lists (every member written), its tasks'
//! states and events.

use super::super::filter::OmitEmpty;
use super::claims::{AllocatedDeviceShape, NetworkShape, PortMappingShape, listed};
use super::deployment::AllocHealthShape;
use super::job::{JobShape, LifecycleShape, ResourcesShape};
use super::metric::MetricShape;
use super::reschedule::{AllocStateShape, TrackerShape};
use super::{Null, is_zero, list_or_null, rfc3339};
use jobspec::duration;
use model::alloc::{Allocation, Transition};
use model::job::Job;
use model::resources::{AllocResources, TaskResources};
use model::task::{TaskEvent, TaskState};
use model::time::Span;
use serde::Serialize;
use std::collections::BTreeMap;

/// An allocation in a list.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocStub<'a> {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "EvalID")]
    eval_id: String,
    name: &'a str,
    namespace: &'a str,
    #[serde(rename = "NodeID")]
    node_id: String,
    node_name: &'a str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    job_type: &'static str,
    job_version: u64,
    task_group: &'a str,
    allocated_resources: Option<AllocatedShape<'a>>,
    desired_status: &'static str,
    desired_description: &'a str,
    client_status: &'static str,
    client_description: &'a str,
    desired_transition: TransitionShape,
    task_states: Option<BTreeMap<&'a str, TaskStateShape<'a>>>,
    deployment_status: Option<AllocHealthShape>,
    #[serde(rename = "FollowupEvalID")]
    followup_eval_id: String,
    next_allocation: String,
    reschedule_tracker: Option<TrackerShape>,
    preempted_allocations: Option<Vec<String>>,
    preempted_by_allocation: String,
    create_index: u64,
    modify_index: u64,
    /// Nanoseconds since 1970.
    create_time: i64,
    modify_time: i64,
}

/// Which of a stub's heavy members the caller wants.
#[derive(Clone, Copy)]
pub struct StubOptions {
    pub resources: bool,
    pub task_states: bool,
}

impl Default for StubOptions {
    fn default() -> Self {
        StubOptions { resources: false, task_states: true }
    }
}

impl<'a> AllocStub<'a> {
    /// `job` is the spec that the allocation names, where the region still has it.
    pub fn new(a: &'a Allocation, job: Option<&Job>, wants: StubOptions) -> Self {
        AllocStub {
            id: a.id.to_string(),
            eval_id: a.eval_id.to_string(),
            name: &a.name,
            namespace: &a.job.namespace,
            node_id: a.node_id.to_string(),
            node_name: &a.node_name,
            job_id: &a.job.id,
            job_type: job.map_or("", |j| j.spec.job_type.as_str()),
            job_version: a.job_version,
            task_group: &a.group,
            allocated_resources: wants.resources.then(|| AllocatedShape::new(&a.resources)),
            desired_status: a.desired.as_str(),
            desired_description: &a.desired_description,
            client_status: a.client.as_str(),
            client_description: &a.client_description,
            desired_transition: TransitionShape::new(a),
            task_states: if wants.task_states { task_states(a) } else { None },
            deployment_status: a.health.as_ref().map(AllocHealthShape::new),
            followup_eval_id: a.followup_eval.map(|e| e.to_string()).unwrap_or_default(),
            next_allocation: a.next.map(|n| n.to_string()).unwrap_or_default(),
            reschedule_tracker: TrackerShape::new(a),
            preempted_allocations: preempted(a),
            preempted_by_allocation: a.preempted_by.map(|p| p.to_string()).unwrap_or_default(),
            create_index: a.create_index,
            modify_index: a.modify_index,
            create_time: a.create_time.0,
            modify_time: a.modify_time.0,
        }
    }
}

/// The whole allocation with its job. Zero values are left out (http-api.md 0.2.6, 2.7).
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocShape<'a> {
    #[serde(rename = "ID")]
    id: String,
    namespace: &'a str,
    #[serde(rename = "EvalID")]
    eval_id: String,
    name: &'a str,
    #[serde(rename = "NodeID")]
    node_id: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    node_name: &'a str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobShape<'a>>,
    task_group: &'a str,
    resources: ResourcesShape<'a>,
    shared_resources: ResourcesShape<'a>,
    task_resources: BTreeMap<&'a str, ResourcesShape<'a>>,
    allocated_resources: AllocatedShape<'a>,
    metrics: MetricShape<'a>,
    desired_status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    desired_description: &'a str,
    desired_transition: TransitionShape,
    client_status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client_description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_states: Option<BTreeMap<&'a str, TaskStateShape<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_allocation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_allocation: Option<String>,
    #[serde(rename = "DeploymentID", skip_serializing_if = "Option::is_none")]
    deployment_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment_status: Option<AllocHealthShape>,
    #[serde(rename = "FollowupEvalID", skip_serializing_if = "Option::is_none")]
    followup_eval_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reschedule_tracker: Option<TrackerShape>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alloc_states: Vec<AllocStateShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preempted_allocations: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preempted_by_allocation: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    create_index: u64,
    #[serde(skip_serializing_if = "is_zero")]
    modify_index: u64,
    #[serde(skip_serializing_if = "is_zero")]
    alloc_modify_index: u64,
    #[serde(skip_serializing_if = "is_zero")]
    create_time: i64,
    #[serde(skip_serializing_if = "is_zero")]
    modify_time: i64,
}

/// What `AllocShape` leaves out, or what no allocation has yet.
pub static OMIT_EMPTY: OmitEmpty = OmitEmpty {
    text: &[
        "NodeName",
        "DesiredDescription",
        "ClientDescription",
        "PreviousAllocation",
        "NextAllocation",
        "DeploymentID",
        "FollowupEvalID",
        "PreemptedByAllocation",
        "SigningKeyID",
    ],
    numbers: &["CreateIndex", "ModifyIndex", "AllocModifyIndex", "CreateTime", "ModifyTime"],
    flags: &[],
    others: &[
        "Job",
        "TaskStates",
        "AllocStates",
        "DeploymentStatus",
        "RescheduleTracker",
        "NetworkStatus",
        "PreemptedAllocations",
    ],
};

impl<'a> AllocShape<'a> {
    pub fn new(a: &'a Allocation, job: Option<&'a Job>) -> Self {
        let total = a.resources.total();
        let legacy = |(name, t): (&'a String, &'a TaskResources)| (name.as_str(), ResourcesShape::held(t));
        AllocShape {
            id: a.id.to_string(),
            namespace: &a.job.namespace,
            eval_id: a.eval_id.to_string(),
            name: &a.name,
            node_id: a.node_id.to_string(),
            node_name: &a.node_name,
            job_id: &a.job.id,
            job: job.map(JobShape::new),
            task_group: &a.group,
            resources: ResourcesShape::new(total.cpu_mhz, total.memory_mb, total.disk_mb)
                .with_networks(&a.resources.networks),
            shared_resources: ResourcesShape::new(0, 0, a.resources.disk_mb)
                .with_networks(&a.resources.networks),
            task_resources: a.resources.tasks.iter().map(legacy).collect(),
            allocated_resources: AllocatedShape::new(&a.resources),
            metrics: MetricShape::new(&a.metrics, job.map_or("", |j| &j.spec.node_pool)),
            desired_status: a.desired.as_str(),
            desired_description: &a.desired_description,
            desired_transition: TransitionShape::new(a),
            client_status: a.client.as_str(),
            client_description: &a.client_description,
            task_states: task_states(a),
            previous_allocation: a.previous.map(|p| p.to_string()),
            next_allocation: a.next.map(|n| n.to_string()),
            deployment_id: a.deployment.map(|d| d.to_string()),
            deployment_status: a.health.as_ref().map(AllocHealthShape::new),
            followup_eval_id: a.followup_eval.map(|e| e.to_string()),
            reschedule_tracker: TrackerShape::new(a),
            alloc_states: a.states.iter().map(AllocStateShape::new).collect(),
            preempted_allocations: preempted(a),
            preempted_by_allocation: a.preempted_by.map(|p| p.to_string()),
            create_index: a.create_index,
            modify_index: a.modify_index,
            alloc_modify_index: a.alloc_modify_index,
            create_time: a.create_time.0,
            modify_time: a.modify_time.0,
        }
    }
}

/// `PUT /v1/allocation/:id/stop`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocStopShape {
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub index: u64,
}

/// `DesiredTransition`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TransitionShape {
    migrate: Option<bool>,
    reschedule: Option<bool>,
    force_reschedule: Option<bool>,
    no_shutdown_delay: Option<bool>,
    migrate_disable_placement: Null,
}

impl TransitionShape {
    fn new(a: &Allocation) -> Self {
        let Transition { migrate, reschedule, force_reschedule, no_shutdown_delay } = a.transition;
        TransitionShape {
            migrate: migrate.map(|_| a.transition.leaves()),
            reschedule,
            force_reschedule,
            no_shutdown_delay,
            migrate_disable_placement: (),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocatedShape<'a> {
    tasks: BTreeMap<&'a str, AllocatedTaskShape<'a>>,
    task_lifecycles: BTreeMap<&'a str, Option<LifecycleShape>>,
    shared: AllocatedSharedShape<'a>,
}

impl<'a> AllocatedShape<'a> {
    fn new(r: &'a AllocResources) -> Self {
        let task = |t: &'a TaskResources| AllocatedTaskShape {
            cpu: AllocatedCpuShape { cpu_shares: t.cpu_mhz, reserved_cores: list_or_null(&t.held.cores) },
            memory: AllocatedMemoryShape { memory_mb: t.memory_mb, memory_max_mb: t.held.memory_max_mb },
            networks: listed(&t.held.networks, NetworkShape::held),
            devices: listed(&t.held.devices, AllocatedDeviceShape::new),
        };
        AllocatedShape {
            tasks: r.tasks.iter().map(|(n, t)| (n.as_str(), task(t))).collect(),
            task_lifecycles: r
                .tasks
                .iter()
                .map(|(n, t)| (n.as_str(), t.lifecycle.map(LifecycleShape)))
                .collect(),
            shared: AllocatedSharedShape {
                networks: listed(&r.networks, NetworkShape::held),
                disk_mb: r.disk_mb,
                ports: PortMappingShape::of(&r.networks),
            },
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocatedTaskShape<'a> {
    cpu: AllocatedCpuShape<'a>,
    memory: AllocatedMemoryShape,
    networks: Option<Vec<NetworkShape<'a>>>,
    devices: Option<Vec<AllocatedDeviceShape<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocatedCpuShape<'a> {
    cpu_shares: i64,
    reserved_cores: Option<&'a [u16]>,
}

#[derive(Serialize)]
struct AllocatedMemoryShape {
    #[serde(rename = "MemoryMB")]
    memory_mb: i64,
    #[serde(rename = "MemoryMaxMB")]
    memory_max_mb: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocatedSharedShape<'a> {
    networks: Option<Vec<NetworkShape<'a>>>,
    #[serde(rename = "DiskMB")]
    disk_mb: i64,
    ports: Option<Vec<PortMappingShape<'a>>>,
}

/// The allocations that it preempted.
fn preempted(a: &Allocation) -> Option<Vec<String>> {
    let ids = || a.preempted.iter().map(ToString::to_string).collect();
    (!a.preempted.is_empty()).then(ids)
}

fn task_states(a: &Allocation) -> Option<BTreeMap<&str, TaskStateShape<'_>>> {
    let states = || a.task_states.iter().map(|(n, s)| (n.as_str(), TaskStateShape::new(s))).collect();
    (!a.task_states.is_empty()).then(states)
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskStateShape<'a> {
    state: &'static str,
    failed: bool,
    restarts: u64,
    last_restart: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
    events: Vec<TaskEventShape<'a>>,
    task_handle: Null,
}

impl<'a> TaskStateShape<'a> {
    fn new(s: &'a TaskState) -> Self {
        TaskStateShape {
            state: s.phase.as_str(),
            failed: s.failed,
            restarts: s.restarts,
            last_restart: rfc3339(s.last_restart),
            started_at: rfc3339(s.started_at),
            finished_at: rfc3339(s.finished_at),
            events: s.events.iter().map(TaskEventShape::new).collect(),
            task_handle: (),
        }
    }
}

/// A task's event. The typed members are older forms of what `Details` says; they are filled from it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskEventShape<'a> {
    #[serde(rename = "Type")]
    kind: &'a str,
    /// Nanoseconds since 1970.
    time: i64,
    message: &'a str,
    display_message: &'a str,
    details: &'a BTreeMap<String, String>,
    fails_task: bool,
    restart_reason: &'a str,
    setup_error: &'a str,
    driver_error: &'a str,
    exit_code: i64,
    signal: i64,
    /// Nanoseconds.
    kill_timeout: i64,
    kill_error: &'a str,
    kill_reason: &'a str,
    /// Nanoseconds.
    start_delay: i64,
    download_error: &'a str,
    validation_error: &'a str,
    disk_limit: i64,
    failed_sibling: &'a str,
    vault_error: &'a str,
    task_signal_reason: &'a str,
    task_signal: &'a str,
    driver_message: &'a str,
    generic_source: &'a str,
}

impl<'a> TaskEventShape<'a> {
    fn new(e: &'a TaskEvent) -> Self {
        let text = |key: &str| e.details.get(key).map_or("", String::as_str);
        let number = |key: &str| text(key).parse().unwrap_or(0);
        TaskEventShape {
            kind: &e.kind,
            time: e.at.0,
            message: text("message"),
            display_message: &e.message,
            details: &e.details,
            fails_task: text("fails_task") == "true",
            restart_reason: text("restart_reason"),
            setup_error: text("setup_error"),
            driver_error: text("driver_error"),
            exit_code: number("exit_code"),
            signal: number("signal"),
            kill_timeout: nanos(text("kill_timeout")),
            kill_error: text("kill_error"),
            kill_reason: text("kill_reason"),
            start_delay: nanos(text("start_delay")),
            download_error: text("download_error"),
            validation_error: text("validation_error"),
            disk_limit: number("disk_limit"),
            failed_sibling: text("failed_sibling"),
            vault_error: text("vault_error"),
            task_signal_reason: text("task_signal_reason"),
            task_signal: text("task_signal"),
            driver_message: text("driver_message"),
            generic_source: "",
        }
    }
}

/// A detail that is a duration: nanoseconds as a number, or `5s`, `1m30s` as Go prints them. What is neither counts as 0.
fn nanos(text: &str) -> i64 {
    text.parse().ok().or_else(|| duration::parse(text).ok().map(Span::as_nanos)).unwrap_or(0)
}
