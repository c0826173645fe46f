//! The whole job as JSON: what its user wrote after defaults, and what the servers know of it.

use super::action::ActionShape;
use super::claims::{DeviceAskShape, DisconnectShape, MountShape, NetworkShape, VolumeShape, listed};
use super::dispatch::{ParameterizedShape, PayloadFileShape, PeriodicShape, payload_text};
use super::job_answers::TagShape;
use super::preference::{AffinityShape, SpreadShape};
use super::scaling::PolicyShape;
use super::{ConstraintShape, Null, map_or_null};
use model::claims::HeldNetwork;
use model::job::{
    Job, JobSpec, MigratePolicy, ReschedulePolicy, RestartPolicy, Task, TaskGroup, UpdatePolicy,
};
use model::resources::{Lifecycle, TaskResources};
use model::value::Value;
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobShape<'a> {
    stop: bool,
    region: &'a str,
    namespace: &'a str,
    #[serde(rename = "ID")]
    id: &'a str,
    #[serde(rename = "ParentID")]
    parent_id: &'a str,
    name: &'a str,
    #[serde(rename = "Type")]
    job_type: &'static str,
    priority: i64,
    all_at_once: bool,
    datacenters: &'a [String],
    node_pool: &'a str,
    constraints: Option<Vec<ConstraintShape<'a>>>,
    affinities: Option<Vec<AffinityShape<'a>>>,
    spreads: Option<Vec<SpreadShape<'a>>>,
    task_groups: Vec<GroupShape<'a>>,
    update: UpdateShape,
    multiregion: Null,
    periodic: Option<PeriodicShape<'a>>,
    parameterized_job: Option<ParameterizedShape<'a>>,
    dispatched: bool,
    dispatch_idempotency_token: &'a str,
    payload: Option<String>,
    meta: Option<&'a BTreeMap<String, String>>,
    consul_token: &'static str,
    consul_namespace: &'static str,
    vault_token: &'static str,
    vault_namespace: &'static str,
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
    #[serde(rename = "UI")]
    ui: Null,
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
            stop: spec.stop,
            region: &spec.region,
            namespace: &spec.namespace,
            id: &spec.id,
            parent_id: &spec.parent,
            name: &spec.name,
            job_type: spec.job_type.as_str(),
            priority: spec.priority,
            all_at_once: spec.all_at_once,
            datacenters: &spec.datacenters,
            node_pool: &spec.node_pool,
            constraints: ConstraintShape::list(&spec.constraints),
            affinities: AffinityShape::list(&spec.affinities),
            spreads: SpreadShape::list(&spec.spreads),
            task_groups: spec.groups.iter().map(|g| GroupShape::new(spec, g)).collect(),
            update: UpdateShape::of_job(spec),
            multiregion: (),
            periodic: spec.periodic.as_ref().map(PeriodicShape::new),
            parameterized_job: spec.parameterized.as_ref().map(ParameterizedShape::new),
            dispatched: spec.dispatch.is_some(),
            dispatch_idempotency_token: spec.dispatch.as_ref().map_or("", |d| &d.token),
            payload: spec.dispatch.as_ref().and_then(payload_text),
            meta: map_or_null(&spec.meta),
            consul_token: "",
            consul_namespace: "",
            vault_token: "",
            vault_namespace: "",
            nomad_token_id: "",
            status: "",
            status_description: "",
            stable: false,
            version: 0,
            submit_time: 0,
            create_index: 0,
            modify_index: 0,
            job_modify_index: 0,
            ui: (),
            version_tag: None,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GroupShape<'a> {
    name: &'a str,
    count: i64,
    update: Option<UpdateShape>,
    migrate: Option<MigrateShape>,
    constraints: Option<Vec<ConstraintShape<'a>>>,
    affinities: Option<Vec<AffinityShape<'a>>>,
    spreads: Option<Vec<SpreadShape<'a>>>,
    scaling: Option<PolicyShape<'a>>,
    restart_policy: RestartShape,
    reschedule_policy: Option<RescheduleShape>,
    ephemeral_disk: DiskShape,
    networks: Option<Vec<NetworkShape<'a>>>,
    services: Null,
    volumes: Option<BTreeMap<&'a str, VolumeShape<'a>>>,
    consul: Null,
    disconnect: Option<DisconnectShape>,
    tasks: Vec<TaskShape<'a>>,
    meta: Option<&'a BTreeMap<String, String>>,
    /// Nanoseconds.
    shutdown_delay: Option<i64>,
    stop_after_client_disconnect: Null,
    max_client_disconnect: Null,
    max_run_duration: Null,
    prevent_reschedule_on_lost: bool,
}

impl<'a> GroupShape<'a> {
    fn new(spec: &'a JobSpec, g: &'a TaskGroup) -> Self {
        GroupShape {
            name: &g.name,
            count: g.count,
            update: g.update.as_ref().map(UpdateShape::of_group),
            migrate: g.migrate.as_ref().map(MigrateShape::new),
            constraints: ConstraintShape::list(&g.constraints),
            affinities: AffinityShape::list(&g.affinities),
            spreads: SpreadShape::list(&g.spreads),
            scaling: PolicyShape::of_group(spec, g),
            restart_policy: RestartShape::new(&g.restart),
            reschedule_policy: g.reschedule.as_ref().map(RescheduleShape::new),
            ephemeral_disk: DiskShape { sticky: false, size_mb: g.ephemeral_disk_mb, migrate: false },
            networks: listed(&g.asks.networks, NetworkShape::asked),
            services: (),
            volumes: VolumeShape::all(&g.asks.volumes),
            consul: (),
            disconnect: g.disconnect.as_ref().map(DisconnectShape::new),
            tasks: g.tasks.iter().map(|t| TaskShape::new(spec, g, t)).collect(),
            meta: map_or_null(&g.meta),
            shutdown_delay: g.shutdown_delay.map(|d| d.as_nanos()),
            stop_after_client_disconnect: (),
            max_client_disconnect: (),
            max_run_duration: (),
            prevent_reschedule_on_lost: false,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DiskShape {
    sticky: bool,
    #[serde(rename = "SizeMB")]
    size_mb: i64,
    migrate: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskShape<'a> {
    name: &'a str,
    driver: &'a str,
    user: &'a str,
    config: Option<BTreeMap<&'a str, FreeForm<'a>>>,
    env: Option<&'a BTreeMap<String, String>>,
    services: Null,
    vault: Null,
    consul: Null,
    templates: Null,
    constraints: Option<Vec<ConstraintShape<'a>>>,
    affinities: Option<Vec<AffinityShape<'a>>>,
    resources: ResourcesShape<'a>,
    restart_policy: RestartShape,
    dispatch_payload: Option<PayloadFileShape<'a>>,
    lifecycle: Option<LifecycleShape>,
    meta: Option<&'a BTreeMap<String, String>>,
    /// Nanoseconds.
    kill_timeout: i64,
    log_config: LogShape,
    artifacts: Null,
    leader: bool,
    /// Nanoseconds.
    shutdown_delay: i64,
    volume_mounts: Option<Vec<MountShape<'a>>>,
    scaling_policies: Option<Vec<PolicyShape<'a>>>,
    kill_signal: &'a str,
    kind: &'static str,
    #[serde(rename = "CSIPluginConfig")]
    csi_plugin_config: Null,
    identity: Null,
    identities: Null,
    actions: Option<Vec<ActionShape<'a>>>,
    schedule: Null,
    secrets: Null,
}

impl<'a> TaskShape<'a> {
    fn new(spec: &'a JobSpec, g: &'a TaskGroup, t: &'a Task) -> Self {
        TaskShape {
            name: &t.name,
            driver: &t.driver,
            user: &t.user,
            config: (!t.config.is_empty())
                .then(|| t.config.iter().map(|(k, v)| (k.as_str(), FreeForm(v))).collect()),
            env: map_or_null(&t.env),
            services: (),
            vault: (),
            consul: (),
            templates: (),
            constraints: ConstraintShape::list(&t.constraints),
            affinities: AffinityShape::list(&t.affinities),
            resources: ResourcesShape::asked(t),
            restart_policy: RestartShape::new(&t.restart),
            dispatch_payload: PayloadFileShape::new(&t.payload_file),
            lifecycle: t.lifecycle.map(LifecycleShape::new),
            meta: map_or_null(&t.meta),
            kill_timeout: t.kill_timeout.as_nanos(),
            log_config: LogShape {
                max_files: t.logs.max_files,
                max_file_size_mb: t.logs.max_file_size_mb,
                disabled: t.logs.disabled,
            },
            artifacts: (),
            leader: t.leader,
            shutdown_delay: t.shutdown_delay.as_nanos(),
            volume_mounts: listed(&t.asks.mounts, MountShape::new),
            scaling_policies: PolicyShape::of_task(spec, g, t),
            kill_signal: &t.kill_signal,
            kind: "",
            csi_plugin_config: (),
            identity: (),
            identities: (),
            actions: listed(&t.actions, ActionShape::new),
            schedule: (),
            secrets: (),
        }
    }
}

/// A task's `config` as its user wrote it: whole numbers stay whole.
pub struct FreeForm<'a>(pub &'a Value);

impl Serialize for FreeForm<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => s.serialize_unit(),
            Value::Bool(b) => s.serialize_bool(*b),
            Value::Int(i) => s.serialize_i64(*i),
            Value::Float(f) => s.serialize_f64(*f),
            Value::Text(t) => s.serialize_str(t),
            Value::List(l) => s.collect_seq(l.iter().map(FreeForm)),
            Value::Map(m) => {
                let mut map = s.serialize_map(Some(m.len()))?;
                for (k, v) in m {
                    map.serialize_entry(k, &FreeForm(v))?;
                }
                map.end()
            }
        }
    }
}

/// The one-block form of resources: a task's ask in a job, and an allocation's legacy totals.
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
    devices: Option<Vec<DeviceAskShape<'a>>>,
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
            devices: None,
            numa: (),
        }
    }

    fn asked(t: &'a Task) -> Self {
        ResourcesShape {
            cores: t.asks.cores,
            memory_max_mb: t.asks.memory_max_mb,
            networks: listed(&t.asks.networks, NetworkShape::asked),
            devices: listed(&t.asks.devices, DeviceAskShape::new),
            ..ResourcesShape::new(t.cpu_mhz, t.memory_mb, 0)
        }
    }

    /// Of an allocation's task.
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

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LifecycleShape {
    hook: &'static str,
    sidecar: bool,
}

impl LifecycleShape {
    pub fn new(l: Lifecycle) -> Self {
        LifecycleShape { hook: l.hook.as_str(), sidecar: l.sidecar }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct LogShape {
    max_files: i64,
    #[serde(rename = "MaxFileSizeMB")]
    max_file_size_mb: i64,
    disabled: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RestartShape {
    attempts: i64,
    interval: i64,
    delay: i64,
    mode: &'static str,
    render_templates: bool,
}

impl RestartShape {
    fn new(r: &RestartPolicy) -> Self {
        RestartShape {
            attempts: r.attempts,
            interval: r.interval.as_nanos(),
            delay: r.delay.as_nanos(),
            mode: r.mode.as_str(),
            render_templates: r.render_templates,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RescheduleShape {
    attempts: i64,
    interval: i64,
    delay: i64,
    delay_function: &'static str,
    max_delay: i64,
    unlimited: bool,
}

impl RescheduleShape {
    fn new(r: &ReschedulePolicy) -> Self {
        RescheduleShape {
            attempts: r.attempts,
            interval: r.interval.as_nanos(),
            delay: r.delay.as_nanos(),
            delay_function: r.delay_function.as_str(),
            max_delay: r.max_delay.as_nanos(),
            unlimited: r.unlimited,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MigrateShape {
    max_parallel: i64,
    health_check: &'static str,
    min_healthy_time: i64,
    healthy_deadline: i64,
}

impl MigrateShape {
    fn new(m: &MigratePolicy) -> Self {
        MigrateShape {
            max_parallel: m.max_parallel,
            health_check: m.health_check.as_str(),
            min_healthy_time: m.min_healthy_time.as_nanos(),
            healthy_deadline: m.healthy_deadline.as_nanos(),
        }
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct UpdateShape {
    stagger: i64,
    max_parallel: i64,
    health_check: &'static str,
    min_healthy_time: i64,
    healthy_deadline: i64,
    progress_deadline: i64,
    canary: i64,
    auto_revert: bool,
    auto_promote: bool,
}

impl UpdateShape {
    /// Always present on a job; only the two members that concern a job as a whole have values.
    fn of_job(spec: &JobSpec) -> Self {
        spec.update.map_or_else(UpdateShape::default, |u| UpdateShape {
            stagger: u.stagger.as_nanos(),
            max_parallel: u.max_parallel,
            ..UpdateShape::default()
        })
    }

    fn of_group(u: &UpdatePolicy) -> Self {
        UpdateShape {
            stagger: u.stagger.as_nanos(),
            max_parallel: u.max_parallel,
            health_check: u.health_check.as_str(),
            min_healthy_time: u.min_healthy_time.as_nanos(),
            healthy_deadline: u.healthy_deadline.as_nanos(),
            progress_deadline: u.progress_deadline.as_nanos(),
            canary: u.canary,
            auto_revert: u.auto_revert,
            auto_promote: u.auto_promote,
        }
    }
}
