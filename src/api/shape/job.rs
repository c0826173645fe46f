//! The whole job as JSON: what its user wrote after defaults, and what the servers know of it.

use super::Null;
use super::block::BlockShape;
use super::claims::{NetworkShape, listed};
use super::dispatch::payload_text;
use super::scaling::PolicyShape;
use super::version_tag::TagShape;
use model::claims::HeldNetwork;
use model::job::{Job, JobSpec, JobUpdate, Task, TaskGroup};
use model::resources::{Lifecycle, TaskResources};
use serde::{Serialize, Serializer};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobShape<'a> {
    #[serde(flatten)]
    fields: BlockShape<'a>,
    #[serde(rename = "ParentID")]
    parent_id: &'a str,
    task_groups: Vec<TaskGroupShape<'a>>,
    /// Always present on a job; only the two members that concern a job as a whole have values.
    update: BlockShape<'a>,
    dispatched: bool,
    dispatch_idempotency_token: &'a str,
    payload: Option<String>,
    #[serde(rename = "NomadTokenID")]
    nomad_token_id: &'static str,
    status: &'static str,
    status_description: &'a str,
    stable: bool,
    version: u64,
    /// Nanoseconds since 1970.
    submit_time: i64,
    create_index: u64,
    modify_index: u64,
    job_modify_index: u64,
    version_tag: Option<TagShape<'a>>,
}

impl<'a> JobShape<'a> {
    pub fn new(job: &'a Job) -> Self {
        JobShape {
            status: job.status.as_str(),
            status_description: &job.status_description,
            stable: job.stable,
            version: job.version,
            submit_time: job.submit_time.0,
            create_index: job.create_index,
            modify_index: job.modify_index,
            job_modify_index: job.job_modify_index,
            version_tag: job.tag.as_ref().map(TagShape::new),
            ..JobShape::of_spec(&job.spec)
        }
    }

    /// A job that the region does not know: nothing of what servers add.
    pub fn of_spec(spec: &'a JobSpec) -> Self {
        JobShape {
            fields: BlockShape::new(spec),
            parent_id: &spec.parent,
            task_groups: spec.groups.iter().map(|g| TaskGroupShape::new(spec, g)).collect(),
            update: BlockShape::new(spec.update.as_ref().unwrap_or(&JobUpdate::NONE)),
            dispatched: spec.dispatch.is_some(),
            dispatch_idempotency_token: spec.dispatch.as_ref().map_or("", |d| &d.token),
            payload: spec.dispatch.as_ref().and_then(payload_text),
            nomad_token_id: "",
            status: "",
            status_description: "",
            stable: false,
            version: 0,
            submit_time: 0,
            create_index: 0,
            modify_index: 0,
            job_modify_index: 0,
            version_tag: None,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskGroupShape<'a> {
    #[serde(flatten)]
    fields: BlockShape<'a>,
    scaling: Option<PolicyShape<'a>>,
    tasks: Vec<TaskShape<'a>>,
}

impl<'a> TaskGroupShape<'a> {
    fn new(spec: &'a JobSpec, g: &'a TaskGroup) -> Self {
        TaskGroupShape {
            fields: BlockShape::new(g),
            scaling: PolicyShape::of_group(spec, g),
            tasks: g.tasks.iter().map(|t| TaskShape::new(spec, g, t)).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskShape<'a> {
    #[serde(flatten)]
    fields: BlockShape<'a>,
    scaling_policies: Option<Vec<PolicyShape<'a>>>,
}

impl<'a> TaskShape<'a> {
    fn new(spec: &'a JobSpec, g: &'a TaskGroup, t: &'a Task) -> Self {
        TaskShape { fields: BlockShape::new(t), scaling_policies: PolicyShape::of_task(spec, g, t) }
    }
}

/// What an allocation holds in the one-block form, as a job asks for it.
#[derive(Serialize)]
pub struct ResourcesShape<'a> {
    #[serde(rename = "CPU")]
    cpu: i64,
    #[serde(rename = "Cores")]
    cores: i64,
    #[serde(rename = "MemoryMB")]
    memory_mb: i64,
    #[serde(rename = "MemoryMaxMB")]
    memory_max_mb: i64,
    #[serde(rename = "DiskMB")]
    disk_mb: i64,
    #[serde(rename = "IOPS")]
    iops: i64,
    #[serde(rename = "SecretsMB")]
    secrets_mb: i64,
    #[serde(rename = "Networks")]
    networks: Option<Vec<NetworkShape<'a>>>,
    #[serde(rename = "Devices")]
    devices: Null,
    #[serde(rename = "NUMA")]
    numa: Null,
}

impl<'a> ResourcesShape<'a> {
    pub fn new(cpu: i64, memory_mb: i64, disk_mb: i64) -> Self {
        ResourcesShape {
            cpu,
            cores: 0,
            memory_mb,
            memory_max_mb: 0,
            disk_mb,
            iops: 0,
            secrets_mb: 0,
            networks: None,
            devices: (),
            numa: (),
        }
    }

    /// The resources that an allocation's task holds.
    pub fn held(t: &'a TaskResources) -> Self {
        ResourcesShape {
            cores: t.held.cores.len() as i64,
            memory_max_mb: t.held.memory_max_mb,
            networks: listed(&t.held.networks, NetworkShape::held),
            ..ResourcesShape::new(t.cpu_mhz, t.memory_mb, 0)
        }
    }

    pub fn with_networks(self, networks: &'a [HeldNetwork]) -> Self {
        ResourcesShape { networks: listed(networks, NetworkShape::held), ..self }
    }
}

/// Kept where there may be no job to borrow from.
pub struct LifecycleShape(pub Lifecycle);

impl Serialize for LifecycleShape {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        BlockShape::new(&self.0).serialize(s)
    }
}
