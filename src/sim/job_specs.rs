//! The jobs of the simulated users, by type, before anything is drawn. Refuses to know who submits them.

use model::claims::{GroupAsks, TaskAsks};
use model::id::JobKey;
use model::job::{
    DelayFunction, HealthCheck, JobSpec, JobType, JobUpdate, LogConfig, MigratePolicy, ReschedulePolicy,
    RestartMode, RestartPolicy, Task, TaskGroup, UpdatePolicy,
};
use model::time::Span;
use model::value::Value;
use std::collections::BTreeMap;

pub fn service_job(key: &JobKey, count: i64) -> JobSpec {
    let restart = RestartPolicy {
        attempts: 2,
        interval: Span::minutes(30),
        delay: Span::seconds(15),
        mode: RestartMode::Fail,
        render_templates: false,
    };
    let mut spec = job(key, JobType::Service, count, restart);
    spec.update = Some(JobUpdate { stagger: Span::seconds(30), max_parallel: 1 });
    if let Some(group) = spec.groups.first_mut() {
        group.update = Some(UpdatePolicy {
            stagger: Span::seconds(30),
            max_parallel: 1,
            health_check: HealthCheck::Checks,
            min_healthy_time: Span::seconds(10),
            healthy_deadline: Span::minutes(5),
            progress_deadline: Span::minutes(10),
            auto_revert: false,
            auto_promote: false,
            canary: 0,
        });
        group.migrate = Some(MigratePolicy {
            max_parallel: 1,
            health_check: HealthCheck::Checks,
            min_healthy_time: Span::seconds(10),
            healthy_deadline: Span::minutes(5),
        });
        group.reschedule = Some(ReschedulePolicy {
            attempts: 0,
            interval: Span::ZERO,
            delay: Span::seconds(30),
            delay_function: DelayFunction::Exponential,
            max_delay: Span::hours(1),
            unlimited: true,
        });
    }
    spec
}

pub fn system_job(key: &JobKey) -> JobSpec {
    let restart = RestartPolicy::default_for(JobType::System);
    let mut spec = job(key, JobType::System, 1, restart);
    spec.update = Some(JobUpdate::default());
    spec
}

/// It runs for a while, and ends well.
pub fn dispatched_job(key: &JobKey, milliseconds: u64) -> JobSpec {
    let mut spec = batch_job(key, 1);
    if let Some(task) = spec.groups.first_mut().and_then(|g| g.tasks.first_mut()) {
        let args = ["run", &milliseconds.to_string(), "0"].map(|a| Value::Text(a.into())).to_vec();
        task.config.insert("command".into(), Value::Text("sim".into()));
        task.config.insert("args".into(), Value::List(args));
        task.payload_file = "payload".into();
    }
    spec
}

pub fn batch_job(key: &JobKey, count: i64) -> JobSpec {
    let restart = RestartPolicy {
        attempts: 3,
        interval: Span::hours(24),
        delay: Span::seconds(15),
        mode: RestartMode::Fail,
        render_templates: false,
    };
    job(key, JobType::Batch, count, restart)
}

fn job(key: &JobKey, job_type: JobType, count: i64, restart: RestartPolicy) -> JobSpec {
    let task = Task {
        name: "main".into(),
        driver: "raw_exec".into(),
        config: BTreeMap::new(),
        env: BTreeMap::new(),
        meta: BTreeMap::new(),
        user: String::new(),
        constraints: vec![],
        affinities: vec![],
        cpu_mhz: 100,
        memory_mb: 64,
        restart,
        lifecycle: None,
        leader: false,
        kill_signal: String::new(),
        kill_timeout: Span::seconds(5),
        shutdown_delay: Span::ZERO,
        logs: LogConfig { max_files: 2, max_file_size_mb: 1, disabled: false },
        asks: TaskAsks::default(),
        payload_file: String::new(),
        actions: vec![],
        scaling: vec![],
    };
    let group = TaskGroup {
        name: "group".into(),
        count,
        constraints: vec![],
        affinities: vec![],
        spreads: vec![],
        restart,
        reschedule: None,
        update: None,
        migrate: None,
        ephemeral_disk_mb: 300,
        shutdown_delay: None,
        tasks: vec![task],
        meta: BTreeMap::new(),
        disconnect: None,
        asks: GroupAsks::default(),
        scaling: None,
    };
    JobSpec {
        namespace: key.namespace.clone(),
        id: key.id.clone(),
        name: key.id.clone(),
        region: "global".into(),
        job_type,
        priority: 50,
        all_at_once: false,
        datacenters: vec!["*".into()],
        node_pool: "default".into(),
        constraints: vec![],
        affinities: vec![],
        spreads: vec![],
        groups: vec![group],
        update: None,
        meta: BTreeMap::new(),
        stop: false,
        periodic: None,
        parent: String::new(),
        parameterized: None,
        ..JobSpec::default()
    }
}
