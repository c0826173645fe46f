//! The blocks of jobs, groups and tasks as names and texts, named and ordered as users of the API know them.

use super::ObjectDiff;
use super::fields::{Flat, Part, object, set, texts};
use crate::model::constraint::Constraint;
use crate::model::job::{
    DisconnectPolicy, JobSpec, LogConfig, MigratePolicy, ReschedulePolicy, RestartPolicy, Task, TaskGroup,
    UpdatePolicy,
};
use crate::model::preference::{Affinity, Spread};
use crate::model::resources::Lifecycle;

/// Ordered by name, as all of them.
pub fn of_job(old: Option<&JobSpec>, new: &JobSpec) -> Vec<ObjectDiff> {
    let old_of = |list: fn(&JobSpec) -> Vec<Part>| old.map(list).unwrap_or_default();
    let datacenters = old.map(|o| o.datacenters.as_slice()).unwrap_or_default();
    let affinities: fn(&JobSpec) -> Vec<Part> = |j| all(&j.affinities, affinity);
    let constraints: fn(&JobSpec) -> Vec<Part> = |j| all(&j.constraints, constraint);
    let spreads: fn(&JobSpec) -> Vec<Part> = |j| all(&j.spreads, spread);
    let mut objects = set("Affinity", old_of(affinities), affinities(new));
    objects.extend(set("Constraint", old_of(constraints), constraints(new)));
    objects.extend(texts("Datacenters", datacenters, &new.datacenters));
    objects.extend(set("Spread", old_of(spreads), spreads(new)));
    objects
}

pub fn of_group(old: Option<&TaskGroup>, new: Option<&TaskGroup>) -> Vec<ObjectDiff> {
    let sets = |name, list: fn(&TaskGroup) -> Vec<Part>| {
        set(name, old.map(list).unwrap_or_default(), new.map(list).unwrap_or_default())
    };
    let one =
        |name, flat: fn(&TaskGroup) -> Option<Flat>| object(name, old.and_then(flat), new.and_then(flat));
    let mut objects = sets("Affinity", |g| all(&g.affinities, affinity));
    objects.extend(sets("Constraint", |g| all(&g.constraints, constraint)));
    objects.extend(one("Disconnect", |g| g.disconnect.as_ref().map(disconnect)));
    objects.extend(one("EphemeralDisk", |g| Some(disk(g.ephemeral_disk_mb))));
    objects.extend(one("Migrate", |g| g.migrate.as_ref().map(migrate)));
    objects.extend(one("ReschedulePolicy", |g| g.reschedule.as_ref().map(reschedule)));
    objects.extend(one("RestartPolicy", |g| Some(restart(&g.restart))));
    objects.extend(sets("Spread", |g| all(&g.spreads, spread)));
    objects.extend(one("Update", |g| g.update.as_ref().map(update)));
    objects
}

pub fn of_task(old: Option<&Task>, new: Option<&Task>) -> Vec<ObjectDiff> {
    let sets = |name, list: fn(&Task) -> Vec<Part>| {
        set(name, old.map(list).unwrap_or_default(), new.map(list).unwrap_or_default())
    };
    let one = |name, flat: fn(&Task) -> Option<Flat>| object(name, old.and_then(flat), new.and_then(flat));
    let config: fn(&Task) -> Option<Flat> = |t| (!t.config.is_empty()).then(|| Flat::of_values(&t.config));
    let mut objects = sets("Affinity", |t| all(&t.affinities, affinity));
    objects.extend(one("Config", config));
    objects.extend(sets("Constraint", |t| all(&t.constraints, constraint)));
    objects.extend(one("Lifecycle", |t| t.lifecycle.as_ref().map(lifecycle)));
    objects.extend(one("LogConfig", |t| Some(logs(&t.logs))));
    objects.extend(one("Resources", |t| Some(resources(t))));
    objects.extend(one("RestartPolicy", |t| Some(restart(&t.restart))));
    objects
}

fn all<T>(list: &[T], part: fn(&T) -> Part) -> Vec<Part> {
    list.iter().map(part).collect()
}

fn condition(c: &Constraint) -> Flat {
    Flat::default().with("LTarget", &c.left).with("Operand", &c.operand).with("RTarget", &c.right)
}

fn constraint(c: &Constraint) -> Part {
    condition(c).into()
}

fn affinity(a: &Affinity) -> Part {
    condition(&a.condition).with("Weight", a.weight).into()
}

fn spread(s: &Spread) -> Part {
    let target = |t: &crate::model::preference::SpreadTarget| {
        ("SpreadTarget", Flat::default().with("Percent", t.percent).with("Value", &t.value))
    };
    let flat = Flat::default().with("Attribute", &s.attribute).with("Weight", s.weight);
    Part { flat, inner: s.targets.iter().map(target).collect() }
}

fn disconnect(d: &DisconnectPolicy) -> Flat {
    Flat::default()
        .with_span("LostAfter", d.lost_after)
        .with("Reconcile", d.reconcile.as_str())
        .with("Replace", d.replace)
        .with_span("StopOnClientAfter", d.stop_on_client_after)
}

/// What drover's disks never are is said all the same.
fn disk(size_mb: i64) -> Flat {
    Flat::default().with("Migrate", false).with("SizeMB", size_mb).with("Sticky", false)
}

fn migrate(m: &MigratePolicy) -> Flat {
    Flat::default()
        .with("HealthCheck", m.health_check.as_str())
        .with_span("HealthyDeadline", Some(m.healthy_deadline))
        .with("MaxParallel", m.max_parallel)
        .with_span("MinHealthyTime", Some(m.min_healthy_time))
}

fn reschedule(r: &ReschedulePolicy) -> Flat {
    Flat::default()
        .with("Attempts", r.attempts)
        .with_span("Delay", Some(r.delay))
        .with("DelayFunction", r.delay_function.as_str())
        .with_span("Interval", Some(r.interval))
        .with_span("MaxDelay", Some(r.max_delay))
        .with("Unlimited", r.unlimited)
}

fn restart(r: &RestartPolicy) -> Flat {
    Flat::default()
        .with("Attempts", r.attempts)
        .with_span("Delay", Some(r.delay))
        .with_span("Interval", Some(r.interval))
        .with("Mode", r.mode.as_str())
        .with("RenderTemplates", r.render_templates)
}

/// `Stagger` has no effect, and is no difference.
fn update(u: &UpdatePolicy) -> Flat {
    Flat::default()
        .with("AutoPromote", u.auto_promote)
        .with("AutoRevert", u.auto_revert)
        .with("Canary", u.canary)
        .with("HealthCheck", u.health_check.as_str())
        .with_span("HealthyDeadline", Some(u.healthy_deadline))
        .with("MaxParallel", u.max_parallel)
        .with_span("MinHealthyTime", Some(u.min_healthy_time))
        .with_span("ProgressDeadline", Some(u.progress_deadline))
}

fn lifecycle(l: &Lifecycle) -> Flat {
    Flat::default().with("Hook", l.hook.as_str()).with("Sidecar", l.sidecar)
}

fn logs(l: &LogConfig) -> Flat {
    Flat::default()
        .with("Disabled", l.disabled)
        .with("MaxFileSizeMB", l.max_file_size_mb)
        .with("MaxFiles", l.max_files)
}

fn resources(t: &Task) -> Flat {
    let flat = Flat::default().with("CPU", t.cpu_mhz).with("MemoryMB", t.memory_mb);
    ["Cores", "DiskMB", "IOPS", "MemoryMaxMB", "SecretsMB"]
        .into_iter()
        .fold(flat, |flat, name| flat.with(name, 0))
}
