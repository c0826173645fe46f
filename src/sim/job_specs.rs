//! The jobs of the simulated users, by type, before anything is drawn. Refuses to know who submits them.

use model::dispatch::DispatchPayload;
use model::id::JobKey;
use model::job::{
    DelayFunction, HealthCheck, JobSpec, JobType, JobUpdate, LogConfig, MigratePolicy, ReschedulePolicy,
    RestartMode, RestartPolicy, Task, TaskGroup, UpdatePolicy,
};
use model::samples;
use model::time::Span;
use model::value::Value;

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

/// A job to be dispatched that runs for a while, and ends well.
pub fn dispatched_job(key: &JobKey, milliseconds: u64) -> JobSpec {
    let mut spec = batch_job(key, 1);
    if let Some(task) = spec.groups.first_mut().and_then(|g| g.tasks.first_mut()) {
        let args = ["run", &milliseconds.to_string(), "0"].map(|a| Value::Text(a.into())).to_vec();
        task.config.insert("command".into(), Value::Text("sim".into()));
        task.config.insert("args".into(), Value::List(args));
        task.dispatch_payload = Some(DispatchPayload { file: "payload".into() });
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
    let logs = LogConfig { max_files: 2, max_file_size_mb: 1, disabled: false };
    let task = Task { restart, logs, ..samples::task("main") };
    let group = TaskGroup { restart, ..samples::group("group", count, vec![task]) };
    JobSpec { job_type, ..samples::job(&key.namespace, &key.id, vec![group]) }
}
