//! What of jobs, groups and tasks is told in other words than it is written: by hand, beside what `fields` tells of any block.

use super::fields::{Flat, Part, changes, object, objects, set};
use super::{Kind, ObjectDiff};
use crate::claims::{Network, Port};
use crate::job::{JobSpec, Task, TaskGroup};
use crate::scaling::ScalingType;
use crate::schema::Fields;

pub fn of_job(old: Option<&JobSpec>, new: &JobSpec) -> Vec<ObjectDiff> {
    objects(old.map(|j| j as &dyn Fields), Some(new))
}

pub fn of_group(old: Option<&TaskGroup>, new: Option<&TaskGroup>) -> Vec<ObjectDiff> {
    let sets = |name, list: fn(&TaskGroup) -> Vec<Part>| {
        set(name, old.map(list).unwrap_or_default(), new.map(list).unwrap_or_default())
    };
    let disk = |g: &TaskGroup| disk(g.ephemeral_disk_mb);
    let mut all = objects(old.map(|g| g as &dyn Fields), new.map(|g| g as &dyn Fields));
    all.extend(object("EphemeralDisk", old.map(disk), new.map(disk)));
    all.extend(sets("Network", |g| g.asks.networks.iter().map(network).collect()));
    all.extend(sets("Volume", |g| Part::labelled(&g.asks.volumes)));
    all.sort_by_key(|object| object.name);
    all
}

pub fn of_task(old: Option<&Task>, new: Option<&Task>) -> Vec<ObjectDiff> {
    let one = |name, flat: fn(&Task) -> Option<Flat>| object(name, old.and_then(flat), new.and_then(flat));
    let mut all = objects(old.map(|t| t as &dyn Fields), new.map(|t| t as &dyn Fields));
    all.extend(one("Config", |t| (!t.config.is_empty()).then(|| Flat::of_values(&t.config))));
    all.extend(one("DispatchPayload", |t| {
        (!t.payload_file.is_empty()).then(|| Flat::default().with("File", &t.payload_file))
    }));
    all.extend(of_resources(old, new));
    for kind in ScalingType::VERTICAL {
        let of = |t: &Task| {
            let policy = t.scaling.iter().find(|s| s.kind == kind);
            policy.map(|s| Flat::of(&s.scaling).with("Type", kind.as_str()))
        };
        all.extend(object("Scaling", old.and_then(of), new.and_then(of)));
    }
    let mounts = |t: Option<&Task>| t.map(|t| Part::all(&t.asks.mounts)).unwrap_or_default();
    all.extend(set("VolumeMount", mounts(old), mounts(new)));
    all.sort_by_key(|object| object.name);
    all
}

/// What drover's disks never are is said all the same.
fn disk(size_mb: i64) -> Flat {
    Flat::default().with("Migrate", false).with("SizeMB", size_mb).with("Sticky", false)
}

/// With what they hold in them.
fn of_resources(old: Option<&Task>, new: Option<&Task>) -> Option<ObjectDiff> {
    let list =
        |of: fn(&Task) -> Vec<Part>| (old.map(of).unwrap_or_default(), new.map(of).unwrap_or_default());
    let (devices, networks) =
        (list(|t| Part::all(&t.asks.devices)), list(|t| t.asks.networks.iter().map(network).collect()));
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

/// Ports by what they are, and the number only where the job says it.
fn network(n: &Network) -> Part {
    let port = |p: &Port| Flat::of(p).without("Value");
    let dynamic = n.dynamic.iter().map(|p| ("Dynamic Port", port(p)));
    let fixed = n.reserved.iter().map(|p| ("Static Port", Flat::of(p)));
    Part { flat: Flat::of(n), inner: dynamic.chain(fixed).collect() }
}
