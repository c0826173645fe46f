//! The blocks of jobs, groups and tasks as names and texts, named and ordered as users of the API know them.

use super::fields::{Flat, Part, changes, kind_of, object, set, texts};
use super::{Kind, ObjectDiff};
use crate::claims::{DeviceAsk, Network, Port, VolumeAsk, VolumeMount};
use crate::constraint::Constraint;
use crate::family::Periodic;
use crate::family::dispatch::Parameterized;
use crate::job::{
    DisconnectPolicy, JobSpec, LogConfig, MigratePolicy, ReschedulePolicy, RestartPolicy, Task, TaskAction,
    TaskGroup, UpdatePolicy,
};
use crate::preference::{Affinity, Spread};
use crate::resources::Lifecycle;
use crate::scaling::{Scaling, ScalingType};
use crate::value::Value;
use std::collections::BTreeMap;

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
    let periodic = |j: &JobSpec| j.periodic.as_ref().map(periodic);
    objects.extend(parameterized(old, new));
    objects.extend(object("Periodic", old.and_then(periodic), periodic(new)));
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
    objects.extend(sets("Network", |g| all(&g.asks.networks, network)));
    objects.extend(one("ReschedulePolicy", |g| g.reschedule.as_ref().map(reschedule)));
    objects.extend(one("RestartPolicy", |g| Some(restart(&g.restart))));
    objects.extend(one("Scaling", |g| g.scaling.as_ref().map(scaling)));
    objects.extend(sets("Spread", |g| all(&g.spreads, spread)));
    objects.extend(one("Update", |g| g.update.as_ref().map(update)));
    objects.extend(sets("Volume", |g| g.asks.volumes.iter().map(volume).collect()));
    objects
}

pub fn of_task(old: Option<&Task>, new: Option<&Task>) -> Vec<ObjectDiff> {
    let sets = |name, list: fn(&Task) -> Vec<Part>| {
        set(name, old.map(list).unwrap_or_default(), new.map(list).unwrap_or_default())
    };
    let one = |name, flat: fn(&Task) -> Option<Flat>| object(name, old.and_then(flat), new.and_then(flat));
    let config: fn(&Task) -> Option<Flat> = |t| (!t.config.is_empty()).then(|| Flat::of_values(&t.config));
    let mut objects = actions(old, new);
    objects.extend(sets("Affinity", |t| all(&t.affinities, affinity)));
    objects.extend(one("Config", config));
    objects.extend(sets("Constraint", |t| all(&t.constraints, constraint)));
    let payload: fn(&Task) -> Option<Flat> =
        |t| (!t.payload_file.is_empty()).then(|| Flat::default().with("File", &t.payload_file));
    objects.extend(one("DispatchPayload", payload));
    objects.extend(one("Lifecycle", |t| t.lifecycle.as_ref().map(lifecycle)));
    objects.extend(one("LogConfig", |t| Some(logs(&t.logs))));
    objects.extend(of_resources(old, new));
    objects.extend(one("RestartPolicy", |t| Some(restart(&t.restart))));
    for kind in ScalingType::VERTICAL {
        let of = |t: &Task| {
            t.scaling.iter().find(|s| s.kind == kind).map(|s| scaling(&s.scaling).with("Type", kind.as_str()))
        };
        objects.extend(object("Scaling", old.and_then(of), new.and_then(of)));
    }
    objects.extend(sets("VolumeMount", |t| all(&t.asks.mounts, mount)));
    objects
}

/// The first with the first, and so on: each of them is one block that changed.
fn actions(old: Option<&Task>, new: Option<&Task>) -> Vec<ObjectDiff> {
    let list = |t: Option<&'_ Task>| t.map(|t| all(&t.actions, action)).unwrap_or_default();
    let (old, new) = (list(old), list(new));
    let flat = |list: &[Part], i: usize| list.get(i).map(|part| part.flat.clone());
    let count = old.len().max(new.len());
    (0..count).filter_map(|i| object("Action", flat(&old, i), flat(&new, i))).collect()
}

fn action(a: &TaskAction) -> Part {
    let flat = Flat::default().with("Command", &a.command).with("Name", &a.name);
    a.args.iter().enumerate().fold(flat, |flat, (i, arg)| flat.with(&format!("Args[{i}]"), arg)).into()
}

fn all<T>(list: &[T], part: fn(&T) -> Part) -> Vec<Part> {
    list.iter().map(part).collect()
}

/// Its two lists are parts of it.
fn parameterized(old: Option<&JobSpec>, new: &JobSpec) -> Option<ObjectDiff> {
    let (old, new) = (old.and_then(|j| j.parameterized.as_ref()), new.parameterized.as_ref());
    let flat = |p: &Parameterized| Flat::default().with("Payload", p.payload.as_str());
    let listed = |name, list: fn(&Parameterized) -> &[String]| {
        texts(name, old.map(list).unwrap_or_default(), new.map(list).unwrap_or_default())
    };
    let optional = listed("MetaOptional", |p| &p.meta_optional);
    let lists: Vec<ObjectDiff> =
        optional.into_iter().chain(listed("MetaRequired", |p| &p.meta_required)).collect();
    let whole = || ObjectDiff {
        kind: kind_of(old, new),
        name: "ParameterizedJob",
        fields: changes(&old.map(flat).unwrap_or_default(), &new.map(flat).unwrap_or_default(), true),
        objects: lists,
    };
    (old != new).then(whole)
}

fn periodic(p: &Periodic) -> Flat {
    let mut flat = Flat::default()
        .with("Enabled", p.enabled)
        .with("ProhibitOverlap", p.prohibit_overlap)
        .with("Spec", &p.spec)
        .with("SpecType", Periodic::SPEC_TYPE)
        .with("TimeZone", &p.time_zone);
    for (i, spec) in p.specs.iter().enumerate() {
        flat = flat.with(&format!("Specs[{i}]"), spec);
    }
    flat
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
    let target = |t: &crate::preference::SpreadTarget| {
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

fn scaling(s: &Scaling) -> Flat {
    let policy = BTreeMap::from([("Policy".to_string(), Value::Map(s.policy.clone()))]);
    Flat::of_values(&policy).with("Enabled", s.enabled).with("Max", s.max).with("Min", s.min)
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

/// With what they hold in them.
fn of_resources(old: Option<&Task>, new: Option<&Task>) -> Option<ObjectDiff> {
    let list =
        |of: fn(&Task) -> Vec<Part>| (old.map(of).unwrap_or_default(), new.map(of).unwrap_or_default());
    let (devices, networks) =
        (list(|t| all(&t.asks.devices, device)), list(|t| all(&t.asks.networks, network)));
    let mut objects = set("Device", devices.0, devices.1);
    objects.extend(set("Network", networks.0, networks.1));
    let flat = (old.map(resources), new.map(resources));
    match object("Resources", flat.0.clone(), flat.1.clone()) {
        Some(diff) => Some(ObjectDiff { objects, ..diff }),
        None if objects.is_empty() => None,
        None => {
            let (old, new) = (flat.0.unwrap_or_default(), flat.1.unwrap_or_default());
            Some(ObjectDiff {
                kind: Kind::Edited,
                name: "Resources",
                fields: changes(&old, &new, true),
                objects,
            })
        }
    }
}

fn resources(t: &Task) -> Flat {
    let flat = Flat::default()
        .with("CPU", t.cpu_mhz)
        .with("Cores", t.asks.cores)
        .with("MemoryMB", t.memory_mb)
        .with("MemoryMaxMB", t.asks.memory_max_mb);
    ["DiskMB", "IOPS", "SecretsMB"].into_iter().fold(flat, |flat, name| flat.with(name, 0))
}

fn network(n: &Network) -> Part {
    let flat = Flat::default().with("MBits", n.mbits).with("Mode", &n.mode);
    let port = |p: &Port| {
        Flat::default().with("HostNetwork", &p.host_network).with("Label", &p.label).with("To", p.to)
    };
    let dynamic = n.dynamic.iter().map(|p| ("Dynamic Port", port(p)));
    let fixed = n.reserved.iter().map(|p| ("Static Port", port(p).with("Value", p.value)));
    Part { flat, inner: dynamic.chain(fixed).collect() }
}

fn device(d: &DeviceAsk) -> Part {
    let flat = Flat::default().with("Count", d.count).with("Name", &d.name);
    let affinities = d.affinities.iter().map(|a| ("Affinity", affinity(a).flat));
    let constraints = d.constraints.iter().map(|c| ("Constraint", condition(c)));
    Part { flat, inner: affinities.chain(constraints).collect() }
}

fn volume((name, v): (&String, &VolumeAsk)) -> Part {
    Flat::default()
        .with("Name", name)
        .with("ReadOnly", v.read_only)
        .with("Source", &v.source)
        .with("Type", &v.kind)
        .into()
}

fn mount(m: &VolumeMount) -> Part {
    Flat::default()
        .with("Destination", &m.destination)
        .with("PropagationMode", &m.propagation_mode)
        .with("ReadOnly", m.read_only)
        .with("Volume", &m.volume)
        .into()
}
