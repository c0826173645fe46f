//! The users: jobs registered, changed, stopped and purged, at random but from the seed. A task's command says what the
//! simulated process does: `run <milliseconds> <exit code> [stubborn]`; zero milliseconds is forever.

use super::ledger::Left;
use super::world::{Event, World};
use crate::model::id::JobKey;
use crate::model::job::{
    DelayFunction, HealthCheck, JobSpec, JobType, JobUpdate, LogConfig, MigratePolicy, ReschedulePolicy,
    RestartMode, RestartPolicy, Task, TaskGroup, UpdatePolicy,
};
use crate::model::random::Stream;
use crate::model::time::Span;
use crate::model::value::Value;
use crate::server::effects::Input;
use crate::wire::request::{Action, Done, Refusal, RefusalKind};
use std::collections::BTreeMap;

const JOBS: u64 = 8;

pub struct Workload {
    draws: Stream,
    next_token: u64,
    stopped: bool,
}

impl Workload {
    pub fn new(seed: u64) -> Self {
        Workload { draws: Stream::new(seed, 102), next_token: 0, stopped: false }
    }

    pub fn stop(&mut self) {
        self.stopped = true;
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.draws.below(n) == 0
    }

    fn action(&mut self, job: JobKey) -> (Action, Left) {
        match self.draws.below(10) {
            0 => (Action::DeregisterJob { job, purge: true, eval_priority: None }, Left::Nothing),
            1 | 2 => (Action::DeregisterJob { job, purge: false, eval_priority: None }, Left::Stopped),
            _ => {
                let spec = Box::new(self.spec(&job));
                let left = Left::Spec(spec.clone());
                (
                    Action::RegisterJob {
                        spec,
                        enforce_index: None,
                        eval_priority: None,
                        preserve_counts: false,
                    },
                    left,
                )
            }
        }
    }

    fn spec(&mut self, job: &JobKey) -> JobSpec {
        // a job keeps its type: changing it is refused
        let batch = job.id.as_bytes().last().is_some_and(|b| b % 3 == 0);
        let count = self.draws.below(4) as i64;
        let mut spec = if batch { batch_job(job, count) } else { service_job(job, count) };
        let forever = !batch && !self.one_in(4);
        let milliseconds = if forever { 0 } else { 1 + self.draws.below(20_000) };
        let code = if self.one_in(3) { 1 } else { 0 };
        let mut args = vec!["run".to_string(), milliseconds.to_string(), code.to_string()];
        if self.one_in(5) {
            args.push("stubborn".into());
        }
        if let Some(task) = spec.groups.first_mut().and_then(|g| g.tasks.first_mut()) {
            task.config.insert("command".into(), Value::Text("sim".into()));
            task.config.insert("args".into(), Value::List(args.into_iter().map(Value::Text).collect()));
            task.cpu_mhz = 50 + self.draws.below(400) as i64;
            task.memory_mb = 16 + self.draws.below(200) as i64;
            task.kill_timeout = Span::seconds(1 + self.draws.below(8) as i64);
        }
        spec.priority = 1 + self.draws.below(100) as i64;
        spec
    }
}

impl World {
    /// One user's step; then, after a while, the next.
    pub fn work(&mut self) {
        if self.workload.stopped {
            return;
        }
        let job = JobKey::new("default", format!("job-{}", self.workload.draws.below(JOBS)));
        if self.server.is_up() && self.ledger.is_free(&job) {
            let (action, left) = self.workload.action(job.clone());
            self.workload.next_token += 1;
            let token = self.workload.next_token;
            self.note(|_| format!("user    {token} {}", describe(&action)));
            self.ledger.asked(token, job, left);
            self.server_input(Input::Request { token, action });
        }
        let wait = Span(self.workload.draws.below(6_000_000_000) as i64);
        self.after(wait, Event::Work);
    }

    pub fn answered(&mut self, token: u64, result: Result<Done, Refusal>) {
        self.note(|_| format!("answer  {token} {result:?}"));
        match result {
            Ok(Done::Job { .. }) => self.ledger.acknowledge(token),
            // there was nothing to stop
            Ok(Done::Nothing { .. }) => self.ledger.refuse(token),
            Err(r) if r.kind == RefusalKind::Unavailable && !r.message.contains("disk") => {
                self.ledger.lose(token)
            }
            Err(_) => self.ledger.refuse(token),
        };
    }
}

fn describe(action: &Action) -> String {
    match action {
        Action::RegisterJob { spec, .. } => {
            let group = spec.groups.first();
            let args = group.and_then(|g| g.tasks.first()).and_then(|t| t.config.get("args"));
            format!("registers {} x{} {args:?}", spec.id, group.map_or(0, |g| g.count))
        }
        Action::DeregisterJob { job, purge: true, .. } => format!("purges {}", job.id),
        Action::DeregisterJob { job, .. } => format!("stops {}", job.id),
    }
}

fn service_job(key: &JobKey, count: i64) -> JobSpec {
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

fn batch_job(key: &JobKey, count: i64) -> JobSpec {
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
        cpu_mhz: 100,
        memory_mb: 64,
        restart,
        lifecycle: None,
        leader: false,
        kill_signal: String::new(),
        kill_timeout: Span::seconds(5),
        shutdown_delay: Span::ZERO,
        logs: LogConfig { max_files: 2, max_file_size_mb: 1, disabled: false },
    };
    let group = TaskGroup {
        name: "group".into(),
        count,
        constraints: vec![],
        restart,
        reschedule: None,
        update: None,
        migrate: None,
        ephemeral_disk_mb: 300,
        shutdown_delay: None,
        tasks: vec![task],
        meta: BTreeMap::new(),
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
        groups: vec![group],
        update: None,
        meta: BTreeMap::new(),
        stop: false,
    }
}
