//! From the API's JSON job to the canonical model (jobspec.md 6): defaults by job type, and the job's policies
//! merged into its groups, the groups' into their tasks.
//!
//! Refuses to know: whether the job makes sense as a whole (`model::validate` does).

mod disconnect;
pub(super) mod scaling;

use super::submitted::{Checker, Flaws, RefusedJob};
use model::canonical::{self, Defaults};
use model::job::{
    JobSpec, JobType, JobUpdate, MigratePolicy, ReschedulePolicy, RestartPolicy, Task, TaskGroup,
    UpdatePolicy,
};
use model::periodic::Periodic;
use model::resources::Lifecycle;
use model::scaling::Scaling;
use model::schema::{Declared, Fields, Slot, Word};
use model::time::Span;
use model::value::Value as Plain;
use serde_json::{Map, Value};

/// The canonical job of the API's JSON job, whoever wrote it: a user, a tool, or drover itself.
pub fn decode_job(job: &Value) -> Result<JobSpec, RefusedJob> {
    let (spec, flaws) = read_job(job)?;
    match flaws.refusal(vec![]) {
        Some(refused) => Err(refused),
        None => Ok(spec),
    }
}

/// The same, with the job's flaws beside it, for a caller that checks more than this. A member of a wrong type is refused alone: the job
/// without it is another one, so further checks of it would mislead.
pub fn read_job(job: &Value) -> Result<(JobSpec, Flaws), RefusedJob> {
    let mut checker = Checker::default();
    let known = checker.object(JobSpec::BLOCK, job, "");
    if !checker.flaws.invalid.is_empty() {
        return Err(RefusedJob::Invalid(checker.flaws.invalid));
    }
    let mut spec = ApiJobDecoder { checker: &mut checker }.job(&Given(&known));
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
}

struct ApiJobDecoder<'c> {
    checker: &'c mut Checker,
}

/// What a job hands down to its groups.
struct Outer {
    job_type: JobType,
    update: Option<UpdatePolicy>,
    reschedule: Option<ReschedulePolicy>,
    migrate: Option<MigratePolicy>,
}

impl ApiJobDecoder<'_> {
    /// What is given of a block goes over what there is of it; what is read by hand is left alone.
    fn fill(&mut self, block: &mut dyn Fields, given: Given<'_>, path: &str) {
        let table = block.block();
        for (name, value) in given.0 {
            if table.by_json(name).is_some_and(|member| member.read_by_hand) {
                continue;
            }
            if let Some(slot) = block.slot(name) {
                self.put(slot, value, path, name);
            }
        }
    }

    fn put_word(&mut self, word: &mut dyn Word, given: &str, path: &str) {
        if !word.set(given) {
            let known = word.known().join(", ");
            self.checker.wrong(format!("{path}: {given:?} is unknown; it is one of {known}"));
        }
    }

    /// An empty text or word means the default.
    fn put(&mut self, slot: Slot<'_>, value: &Value, path: &str, name: &str) {
        match (slot, value) {
            (Slot::Text(text), Value::String(given)) if !given.is_empty() => text.clone_from(given),
            (Slot::Int(number), _) => *number = value.as_i64().unwrap_or(*number),
            (Slot::Bool(flag), _) => *flag = value.as_bool().unwrap_or(*flag),
            (Slot::Span(span), _) => *span = value.as_i64().map_or(*span, Span::nanos),
            (Slot::MaybeSpan(span), _) => *span = value.as_i64().map(Span::nanos),
            (Slot::Word(word), Value::String(given)) if !given.is_empty() => {
                self.put_word(word, given, &below(path, name));
            }
            (Slot::Texts(texts), Value::Array(items)) => {
                *texts = items.iter().filter_map(Value::as_str).map(str::to_string).collect();
            }
            (Slot::TextMap(map), Value::Object(members)) => {
                let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
                *map = members.iter().map(|(k, v)| (k.clone(), text(v))).collect();
            }
            (Slot::Free(map), Value::Object(members)) => {
                *map = members.iter().map(|(k, v)| (k.clone(), plain(v))).collect();
            }
            (Slot::Block(block), Value::Object(members)) => {
                self.fill(block, Given(members), &below(path, name));
            }
            (Slot::Blocks(list), Value::Array(items)) => {
                for (i, item) in items.iter().filter_map(Value::as_object).enumerate() {
                    self.fill(list.push(), Given(item), &format!("{}[{i}]", below(path, name)));
                }
            }
            (Slot::ByLabel(map), Value::Object(members)) => {
                for (label, item) in members.iter().filter_map(|(k, v)| Some((k, v.as_object()?))) {
                    self.fill(map.entry(label), Given(item), &format!("{}[{label}]", below(path, name)));
                }
            }
            _ => {}
        }
    }

    /// A policy with what is given over it; what is given where there is none goes over the default.
    fn over<B: Declared>(&mut self, base: Option<B>, given: Option<Given<'_>>, path: &str) -> Option<B> {
        let Some(given) = given else { return base };
        let mut block = base.unwrap_or_default();
        self.fill(&mut block, given, path);
        Some(block)
    }

    fn job(&mut self, job: &Given<'_>) -> JobSpec {
        if job.0.get("Payload").is_some_and(|p| p.as_str().is_none_or(|p| !p.is_empty())) {
            self.checker.wrong("job can't be submitted with a payload, only dispatched".into());
        }
        let job_type = self.job_type(job.text("Type").unwrap_or_default());
        let (update, whole) = self.job_update(job_type, job.inner("Update"));
        let migrate = (job_type == JobType::Service).then(MigratePolicy::default);
        let outer = Outer {
            job_type,
            update,
            reschedule: self.over(
                ReschedulePolicy::default_for(job_type),
                job.inner("Reschedule"),
                "Reschedule",
            ),
            migrate: self.over(migrate, job.inner("Migrate"), "Migrate"),
        };
        let mut spec = JobSpec { job_type, update: whole, ..JobSpec::default() };
        self.fill(&mut spec, *job, "");
        let groups = job.many("TaskGroups").enumerate();
        spec.groups = groups.map(|(i, g)| self.group(&outer, g, &format!("TaskGroups[{i}]"))).collect();
        let given = job.inner("Periodic").and_then(|p| p.text("SpecType"));
        if let Some(other) = given.filter(|t| !matches!(*t, "" | Periodic::SPEC_TYPE)) {
            self.checker.wrong(format!("Unknown periodic specification type {other:?}"));
        }
        spec
    }

    fn job_type(&mut self, name: &str) -> JobType {
        let mut job_type = JobType::Service;
        match name {
            "" => {}
            "core" => self.checker.wrong("job type cannot be core".into()),
            known if job_type.set(known) => {}
            other => {
                let types = "\"service\", \"batch\", \"system\" or \"sysbatch\"";
                self.checker.wrong(format!("Invalid job type: {other:?}; it is {types}"));
            }
        }
        job_type
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
                JobType::Service | JobType::System => {
                    (Some(UpdatePolicy::default()), Some(JobUpdate::default()))
                }
                _ => (None, None),
            };
        };
        let zero = |(_, v): (&String, &Value)| super::decode::is_default(v);
        if given.0.len() == UpdatePolicy::BLOCK.members.len() && given.0.iter().all(zero) {
            return (None, None);
        }
        let mut policy = UpdatePolicy::default();
        if given.text("HealthCheck") == Some("") {
            policy.stagger = given.span("Stagger").unwrap_or(policy.stagger);
            policy.max_parallel = given.int("MaxParallel").unwrap_or(policy.max_parallel);
        } else {
            self.fill(&mut policy, given, "Update");
        }
        let whole = (matches!(job_type, JobType::Service | JobType::System) && policy.max_parallel > 0)
            .then_some(JobUpdate { stagger: policy.stagger, max_parallel: policy.max_parallel });
        (Some(policy), whole)
    }

    fn group(&mut self, outer: &Outer, g: Given<'_>, path: &str) -> TaskGroup {
        let scaling = g.inner("Scaling");
        // without a count the group begins with its scaling's minimum, and without a minimum that is its count
        let least = scaling.and_then(|s| s.int("Min"));
        let count = g.int("Count").or(least).unwrap_or(1);
        let mut group = TaskGroup {
            count,
            scaling: scaling.map(|_| Scaling { min: count, ..Scaling::default() }),
            restart: RestartPolicy::default_for(outer.job_type),
            reschedule: outer.reschedule,
            update: outer.update,
            migrate: outer.migrate,
            ..TaskGroup::default()
        };
        self.fill(&mut group, g, path);
        self.group_scaling(&mut group, g, path);
        self.volumes(&group, path);
        self.disconnect(&mut group, g, path);
        let tasks = g.many("Tasks").enumerate();
        group.tasks =
            tasks.map(|(i, t)| self.task(group.restart, t, &format!("{path}.Tasks[{i}]"))).collect();
        group
    }

    fn task(&mut self, group_restart: RestartPolicy, t: Given<'_>, path: &str) -> Task {
        let mut task = Task {
            restart: group_restart,
            lifecycle: t.inner("Lifecycle").and_then(|l| self.lifecycle(l, path)),
            scaling: self.task_scaling(t, path),
            ..Task::default()
        };
        self.fill(&mut task, t, path);
        let cpu = t.inner("Resources").and_then(|r| r.int("CPU"));
        if cpu.is_none() && task.resources.cores > 0 {
            // whole cores come in place of a share of cpu
            task.resources.cpu_mhz = 0;
        }
        if task.dispatch_payload.as_ref().is_some_and(|payload| payload.file.is_empty()) {
            self.checker.wrong(format!("{path}.DispatchPayload.File: a dispatch payload needs a file"));
            task.dispatch_payload = None;
        }
        task
    }

    /// A block that says nothing is no block.
    fn lifecycle(&mut self, l: Given<'_>, path: &str) -> Option<Lifecycle> {
        let mut lifecycle = Lifecycle { sidecar: l.flag("Sidecar").unwrap_or(false), ..Lifecycle::default() };
        match l.text("Hook").unwrap_or_default() {
            "" if !lifecycle.sidecar => return None,
            "" => self.checker.wrong(format!("{path}.Lifecycle.Hook: no lifecycle hook provided")),
            known if lifecycle.hook.set(known) => return Some(lifecycle),
            other => self.checker.wrong(format!(
                "{path}.Lifecycle.Hook: invalid hook {other:?}; it is prestart, poststart or poststop"
            )),
        }
        None
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

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
