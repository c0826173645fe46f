//! From the API's JSON job to the canonical model (jobspec.md 6): defaults by job type, and the job's policies
//! merged into its groups, the groups' into their tasks.
//!
//! Refuses to know: whether the job makes sense as a whole (`model::validate` does).

mod asks;
mod family;
pub(super) mod scaling;

use super::schema;
use super::submitted::{Checker, Flaws, Refused};
use model::canonical::{
    self, DEFAULT_CPU_MHZ, DEFAULT_DISK_MB, DEFAULT_KILL_TIMEOUT, DEFAULT_MEMORY_MB, Defaults,
};
use model::constraint::Constraint;
use model::eval::DEFAULT_PRIORITY;
use model::job::{
    DelayFunction, HealthCheck, JobSpec, JobType, JobUpdate, LogConfig, MigratePolicy, ReschedulePolicy,
    RestartMode, RestartPolicy, Task, TaskAction, TaskGroup, UpdatePolicy,
};
use model::preference::{Affinity, DEFAULT_WEIGHT, Spread, SpreadTarget};
use model::resources::{Hook, Lifecycle};
use model::time::Span;
use model::value::Value as Plain;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The canonical job of the API's JSON job, whoever wrote it: a user, a tool, or drover itself.
pub fn decode_job(job: &Value) -> Result<JobSpec, Refused> {
    let (spec, flaws) = read_job(job)?;
    match flaws.refusal(vec![]) {
        Some(refused) => Err(refused),
        None => Ok(spec),
    }
}

/// The same with what is wrong with it beside it, for whoever looks for more that is. A member of a wrong type is all that is
/// told: what the job would be without it is no use to anybody.
pub fn read_job(job: &Value) -> Result<(JobSpec, Flaws), Refused> {
    let mut checker = Checker::default();
    let known = checker.object(&schema::JOB, job, "");
    if !checker.flaws.invalid.is_empty() {
        return Err(Refused::Invalid(checker.flaws.invalid));
    }
    let mut spec = Decoder { checker: &mut checker }.job(&Given(&known));
    canonical::complete(&mut spec, &Defaults::default());
    Ok((spec, checker.flaws))
}

/// An object whose members have their schema's types already.
#[derive(Clone, Copy)]
struct Given<'v>(&'v Map<String, Value>);

impl<'v> Given<'v> {
    fn text(self, name: &str) -> Option<&'v str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn owned(self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_string()
    }

    fn int(self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }

    fn span(self, name: &str) -> Option<Span> {
        self.int(name).map(Span::nanos)
    }

    fn flag(self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    fn inner(self, name: &str) -> Option<Given<'v>> {
        self.0.get(name).and_then(Value::as_object).map(Given)
    }

    fn many(self, name: &str) -> impl Iterator<Item = Given<'v>> {
        let items = self.0.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_object).map(Given)
    }

    fn texts(self, name: &str) -> Vec<String> {
        let items = self.0.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_string).collect()
    }

    fn map(self, name: &str) -> BTreeMap<String, String> {
        let members = self.0.get(name).and_then(Value::as_object).into_iter().flatten();
        members.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_string())).collect()
    }
}

struct Decoder<'c> {
    checker: &'c mut Checker,
}

/// What a job hands down to its groups.
struct Outer<'v> {
    job_type: JobType,
    update: Option<UpdatePolicy>,
    reschedule: Option<Given<'v>>,
    migrate: Option<Given<'v>>,
}

impl Decoder<'_> {
    fn job(&mut self, job: &Given<'_>) -> JobSpec {
        if job.0.get("Payload").is_some_and(|p| p.as_str().is_none_or(|p| !p.is_empty())) {
            self.checker.wrong("job can't be submitted with a payload, only dispatched".into());
        }
        let job_type = self.job_type(job.text("Type").unwrap_or_default());
        let (update, whole) = self.job_update(job_type, job.inner("Update"));
        let outer =
            Outer { job_type, update, reschedule: job.inner("Reschedule"), migrate: job.inner("Migrate") };
        let groups = job
            .many("TaskGroups")
            .enumerate()
            .map(|(i, g)| self.group(&outer, g, &format!("TaskGroups[{i}]")));
        let groups = groups.collect();
        JobSpec {
            namespace: job.owned("Namespace"),
            id: job.owned("ID"),
            name: job.owned("Name"),
            region: job.owned("Region"),
            job_type,
            priority: job.int("Priority").unwrap_or(DEFAULT_PRIORITY),
            all_at_once: job.flag("AllAtOnce").unwrap_or(false),
            datacenters: job.texts("Datacenters"),
            node_pool: job.owned("NodePool"),
            constraints: Self::constraints(*job),
            affinities: Self::affinities(*job),
            spreads: Self::spreads(*job),
            groups,
            update: whole,
            meta: job.map("Meta"),
            stop: job.flag("Stop").unwrap_or(false),
            periodic: job.inner("Periodic").map(|p| self.periodic(p)),
            parent: String::new(),
            parameterized: job.inner("ParameterizedJob").map(|p| self.parameterized(p)),
            dispatch: None,
        }
    }

    fn job_type(&mut self, name: &str) -> JobType {
        match name {
            "" | "service" => JobType::Service,
            "batch" => JobType::Batch,
            "system" => JobType::System,
            "sysbatch" => JobType::Sysbatch,
            "core" => {
                self.checker.wrong("job type cannot be core".into());
                JobType::Service
            }
            other => {
                let types = "\"service\", \"batch\", \"system\" or \"sysbatch\"";
                self.checker.wrong(format!("Invalid job type: {other:?}; it is {types}"));
                JobType::Service
            }
        }
    }

    /// What groups inherit, and what the job itself keeps. A stored job comes back with all members zero when it has no
    /// update rules, or with its two own members set and an empty health check.
    fn job_update(
        &mut self,
        job_type: JobType,
        given: Option<Given<'_>>,
    ) -> (Option<UpdatePolicy>, Option<JobUpdate>) {
        let Some(given) = given else {
            return match job_type {
                JobType::Service | JobType::System => (Some(UpdatePolicy::DEFAULT), Some(JobUpdate::DEFAULT)),
                _ => (None, None),
            };
        };
        let zero = |(_, v): (&String, &Value)| super::decode::is_default(v);
        if given.0.len() == UPDATE_MEMBERS && given.0.iter().all(zero) {
            return (None, None);
        }
        let mut policy = UpdatePolicy::DEFAULT;
        if given.text("HealthCheck") == Some("") {
            policy.stagger = given.span("Stagger").unwrap_or(policy.stagger);
            policy.max_parallel = given.int("MaxParallel").unwrap_or(policy.max_parallel);
        } else {
            policy = self.update(policy, Some(given), "Update");
        }
        let whole = (matches!(job_type, JobType::Service | JobType::System) && policy.max_parallel > 0)
            .then_some(JobUpdate { stagger: policy.stagger, max_parallel: policy.max_parallel });
        (Some(policy), whole)
    }

    fn group(&mut self, outer: &Outer<'_>, g: Given<'_>, path: &str) -> TaskGroup {
        let restart = self.restart(
            RestartPolicy::default_for(outer.job_type),
            g.inner("RestartPolicy"),
            &format!("{path}.RestartPolicy"),
        );
        let update = match (outer.update, g.inner("Update")) {
            (None, None) => None,
            (base, given) => {
                Some(self.update(base.unwrap_or(UpdatePolicy::DEFAULT), given, &format!("{path}.Update")))
            }
        };
        let disk = g.inner("EphemeralDisk").and_then(|d| d.int("SizeMB"));
        let tasks =
            g.many("Tasks").enumerate().map(|(i, t)| self.task(restart, t, &format!("{path}.Tasks[{i}]")));
        let tasks = tasks.collect();
        let (count, scaling) = self.count_and_scaling(g, path);
        TaskGroup {
            name: g.owned("Name"),
            count,
            constraints: Self::constraints(g),
            affinities: Self::affinities(g),
            spreads: Self::spreads(g),
            restart,
            reschedule: self.group_reschedule(outer, g, path),
            update,
            migrate: self.group_migrate(outer, g, path),
            ephemeral_disk_mb: disk.unwrap_or(DEFAULT_DISK_MB),
            shutdown_delay: g.span("ShutdownDelay"),
            tasks,
            meta: g.map("Meta"),
            disconnect: self.disconnect(g, path),
            asks: self.group_asks(g, path),
            scaling,
        }
    }

    fn group_reschedule(&mut self, outer: &Outer<'_>, g: Given<'_>, path: &str) -> Option<ReschedulePolicy> {
        let given = g.inner("ReschedulePolicy");
        let default = ReschedulePolicy::default_for(outer.job_type);
        if default.is_none() && outer.reschedule.is_none() && given.is_none() {
            return None;
        }
        let base = default.or(ReschedulePolicy::default_for(JobType::Batch))?;
        let merged = self.reschedule(base, outer.reschedule, "Reschedule");
        Some(self.reschedule(merged, given, &format!("{path}.ReschedulePolicy")))
    }

    fn group_migrate(&mut self, outer: &Outer<'_>, g: Given<'_>, path: &str) -> Option<MigratePolicy> {
        let given = g.inner("Migrate");
        if outer.job_type != JobType::Service && outer.migrate.is_none() && given.is_none() {
            return None;
        }
        let merged = self.migrate(MigratePolicy::DEFAULT, outer.migrate, "Migrate");
        Some(self.migrate(merged, given, &format!("{path}.Migrate")))
    }

    fn task(&mut self, group_restart: RestartPolicy, t: Given<'_>, path: &str) -> Task {
        let resources = t.inner("Resources");
        let logs = t.inner("LogConfig");
        let config = t.0.get("Config").and_then(Value::as_object).into_iter().flatten();
        Task {
            name: t.owned("Name"),
            driver: t.owned("Driver"),
            config: config.map(|(k, v)| (k.clone(), plain(v))).collect(),
            env: t.map("Env"),
            meta: t.map("Meta"),
            user: t.owned("User"),
            constraints: Self::constraints(t),
            affinities: Self::affinities(t),
            cpu_mhz: resources.map_or(DEFAULT_CPU_MHZ, cpu_mhz),
            memory_mb: resources.and_then(|r| r.int("MemoryMB")).unwrap_or(DEFAULT_MEMORY_MB),
            restart: self.restart(group_restart, t.inner("RestartPolicy"), &format!("{path}.RestartPolicy")),
            lifecycle: t.inner("Lifecycle").and_then(|l| self.lifecycle(l, path)),
            leader: t.flag("Leader").unwrap_or(false),
            kill_signal: t.owned("KillSignal"),
            kill_timeout: t.span("KillTimeout").unwrap_or(DEFAULT_KILL_TIMEOUT),
            shutdown_delay: t.span("ShutdownDelay").unwrap_or(Span::ZERO),
            logs: LogConfig {
                max_files: logs.and_then(|l| l.int("MaxFiles")).unwrap_or(LogConfig::DEFAULT.max_files),
                max_file_size_mb: logs
                    .and_then(|l| l.int("MaxFileSizeMB"))
                    .unwrap_or(LogConfig::DEFAULT.max_file_size_mb),
                disabled: logs.and_then(|l| l.flag("Disabled")).unwrap_or(false),
            },
            asks: Self::task_asks(t),
            payload_file: self.payload_file(t, path),
            actions: t.many("Actions").map(action).collect(),
            scaling: self.task_scaling(t, path),
        }
    }

    /// A block that says nothing is no block.
    fn lifecycle(&mut self, l: Given<'_>, path: &str) -> Option<Lifecycle> {
        let sidecar = l.flag("Sidecar").unwrap_or(false);
        let hook = match l.text("Hook").unwrap_or_default() {
            "prestart" => Hook::Prestart,
            "poststart" => Hook::Poststart,
            "poststop" => Hook::Poststop,
            "" if !sidecar => return None,
            "" => {
                self.checker.wrong(format!("{path}.Lifecycle.Hook: no lifecycle hook provided"));
                return None;
            }
            other => {
                self.checker.wrong(format!(
                    "{path}.Lifecycle.Hook: invalid hook {other:?}; it is prestart, poststart or poststop"
                ));
                return None;
            }
        };
        Some(Lifecycle { hook, sidecar })
    }

    fn constraints(outer: Given<'_>) -> Vec<Constraint> {
        outer.many("Constraints").map(Self::condition).collect()
    }

    fn condition(c: Given<'_>) -> Constraint {
        Constraint { left: c.owned("LTarget"), operand: c.owned("Operand"), right: c.owned("RTarget") }
    }

    fn affinities(outer: Given<'_>) -> Vec<Affinity> {
        let weight = |a: Given<'_>| a.int("Weight").unwrap_or(DEFAULT_WEIGHT);
        outer
            .many("Affinities")
            .map(|a| Affinity { condition: Self::condition(a), weight: weight(a) })
            .collect()
    }

    fn spreads(outer: Given<'_>) -> Vec<Spread> {
        let target = |t: Given<'_>| SpreadTarget {
            value: t.owned("Value"),
            percent: t.int("Percent").unwrap_or_default(),
        };
        let one = |s: Given<'_>| Spread {
            attribute: s.owned("Attribute"),
            weight: s.int("Weight").unwrap_or(DEFAULT_WEIGHT),
            targets: s.many("SpreadTarget").map(target).collect(),
        };
        outer.many("Spreads").map(one).collect()
    }

    fn restart(&mut self, base: RestartPolicy, given: Option<Given<'_>>, path: &str) -> RestartPolicy {
        let Some(g) = given else { return base };
        RestartPolicy {
            attempts: g.int("Attempts").unwrap_or(base.attempts),
            interval: g.span("Interval").unwrap_or(base.interval),
            delay: g.span("Delay").unwrap_or(base.delay),
            mode: self.one_of(
                g,
                "Mode",
                path,
                &[("fail", RestartMode::Fail), ("delay", RestartMode::Delay)],
                base.mode,
            ),
            render_templates: g.flag("RenderTemplates").unwrap_or(base.render_templates),
        }
    }

    fn reschedule(
        &mut self,
        base: ReschedulePolicy,
        given: Option<Given<'_>>,
        path: &str,
    ) -> ReschedulePolicy {
        let Some(g) = given else { return base };
        let functions = [
            ("constant", DelayFunction::Constant),
            ("exponential", DelayFunction::Exponential),
            ("fibonacci", DelayFunction::Fibonacci),
        ];
        ReschedulePolicy {
            attempts: g.int("Attempts").unwrap_or(base.attempts),
            interval: g.span("Interval").unwrap_or(base.interval),
            delay: g.span("Delay").unwrap_or(base.delay),
            delay_function: self.one_of(g, "DelayFunction", path, &functions, base.delay_function),
            max_delay: g.span("MaxDelay").unwrap_or(base.max_delay),
            unlimited: g.flag("Unlimited").unwrap_or(base.unlimited),
        }
    }

    fn update(&mut self, base: UpdatePolicy, given: Option<Given<'_>>, path: &str) -> UpdatePolicy {
        let Some(g) = given else { return base };
        UpdatePolicy {
            stagger: g.span("Stagger").unwrap_or(base.stagger),
            max_parallel: g.int("MaxParallel").unwrap_or(base.max_parallel),
            health_check: self.one_of(g, "HealthCheck", path, &HEALTH_CHECKS, base.health_check),
            min_healthy_time: g.span("MinHealthyTime").unwrap_or(base.min_healthy_time),
            healthy_deadline: g.span("HealthyDeadline").unwrap_or(base.healthy_deadline),
            progress_deadline: g.span("ProgressDeadline").unwrap_or(base.progress_deadline),
            auto_revert: g.flag("AutoRevert").unwrap_or(base.auto_revert),
            auto_promote: g.flag("AutoPromote").unwrap_or(base.auto_promote),
            canary: g.int("Canary").unwrap_or(base.canary),
        }
    }

    fn migrate(&mut self, base: MigratePolicy, given: Option<Given<'_>>, path: &str) -> MigratePolicy {
        let Some(g) = given else { return base };
        MigratePolicy {
            max_parallel: g.int("MaxParallel").unwrap_or(base.max_parallel),
            health_check: self.one_of(g, "HealthCheck", path, &HEALTH_CHECKS, base.health_check),
            min_healthy_time: g.span("MinHealthyTime").unwrap_or(base.min_healthy_time),
            healthy_deadline: g.span("HealthyDeadline").unwrap_or(base.healthy_deadline),
        }
    }

    /// Absent and empty mean the default.
    fn one_of<T: Copy>(
        &mut self,
        g: Given<'_>,
        name: &str,
        path: &str,
        known: &[(&str, T)],
        default: T,
    ) -> T {
        let given = match g.text(name) {
            None | Some("") => return default,
            Some(given) => given,
        };
        if let Some((_, value)) = known.iter().find(|(n, _)| *n == given) {
            return *value;
        }
        let names: Vec<&str> = known.iter().map(|(n, _)| *n).collect();
        self.checker.wrong(format!("{path}.{name}: {given:?} is unknown; it is one of {}", names.join(", ")));
        default
    }
}

fn action(a: Given<'_>) -> TaskAction {
    TaskAction { name: a.owned("Name"), command: a.owned("Command"), args: a.texts("Args") }
}

/// Whole cores come in place of a share of cpu.
fn cpu_mhz(resources: Given<'_>) -> i64 {
    let by_cores = resources.int("Cores").is_some_and(|n| n > 0);
    resources.int("CPU").unwrap_or(if by_cores { 0 } else { DEFAULT_CPU_MHZ })
}

/// How many members an update block has.
const UPDATE_MEMBERS: usize = 9;

const HEALTH_CHECKS: [(&str, HealthCheck); 3] = [
    ("checks", HealthCheck::Checks),
    ("task_states", HealthCheck::TaskStates),
    ("manual", HealthCheck::Manual),
];

fn plain(v: &Value) -> Plain {
    match v {
        Value::Null => Plain::Null,
        Value::Bool(b) => Plain::Bool(*b),
        Value::Number(n) => match n.as_i64() {
            Some(i) => Plain::Int(i),
            None => Plain::Float(n.as_f64().unwrap_or_default()),
        },
        Value::String(s) => Plain::Text(s.clone()),
        Value::Array(items) => Plain::List(items.iter().map(plain).collect()),
        Value::Object(members) => Plain::Map(members.iter().map(|(k, v)| (k.clone(), plain(v))).collect()),
    }
}
