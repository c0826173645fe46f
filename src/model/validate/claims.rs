//! Whether ports, cores, devices, volumes and what becomes of a group without its node make sense
//! (jobspec.md 3.4, jobspec.md 3.5, jobspec.md 3.8, jobspec.md 3.13).

use super::constraint::constraint;
use super::nest;
use super::preference::affinities;
use crate::claims::{DeviceAsk, HOST_MODE, Network, SAME_PORT};
use crate::job::{DisconnectPolicy, JobSpec, JobType, Task, TaskGroup};
use crate::resources::Resources;
use crate::time::Span;
use std::collections::BTreeMap;

const MAX_PORT: i64 = u16::MAX as i64;
/// More ports, cores or devices of one task or group than this are refused: all of them are looked for on each node.
const MOST: i64 = 1_000;
const PROPAGATION_MODES: [&str; 3] = ["private", "host-to-task", "bidirectional"];

pub fn group(spec: &JobSpec, g: &TaskGroup, errors: &mut Vec<String>) {
    let mut inner = Vec::new();
    networks(g, &mut inner);
    nest(errors, "Task group network validation failed", inner);
    for (name, volume) in &g.volumes {
        let mut inner = Vec::new();
        if volume.kind != "host" {
            inner.push(format!("volume has unrecognized type {:?}; it is \"host\"", volume.kind));
        }
        if volume.source.is_empty() {
            inner.push("volume has an empty source".to_string());
        }
        nest(errors, &format!("Task group volume validation for {name} failed"), inner);
    }
    if let Some(policy) = &g.disconnect {
        disconnect(spec.job_type, policy, errors);
    }
}

/// Labels, and fixed numbers by host network, with who has them.
#[derive(Default)]
struct Ports<'a> {
    labels: BTreeMap<&'a str, String>,
    fixed: BTreeMap<(&'a str, i64), String>,
}

fn networks(g: &TaskGroup, errors: &mut Vec<String>) {
    let mut ports = Ports::default();
    let group = std::iter::once(("taskgroup network", &g.networks));
    let tasks = g.tasks.iter().map(|t| (t.name.as_str(), &t.resources.networks));
    for (owner, networks) in group.chain(tasks) {
        if networks.len() > 1 {
            errors.push(format!("only one network block is allowed, {owner} has {}", networks.len()));
        }
        networks.iter().for_each(|n| network(owner, n, &mut ports, errors));
    }
    if ports.labels.len() as i64 > MOST {
        errors.push(format!("{} ports are too many; the most is {MOST}", ports.labels.len()));
    }
}

fn network<'a>(owner: &str, n: &'a Network, ports: &mut Ports<'a>, errors: &mut Vec<String>) {
    let mode = n.mode();
    let cni = mode.strip_prefix("cni/").is_some_and(|name| !name.is_empty());
    if !cni && ![HOST_MODE, "bridge", "none"].contains(&mode) {
        errors.push(format!("network mode {mode:?} is unknown; it is host, bridge, none or cni/<name>"));
    }
    for p in n.ports() {
        let label = &p.label;
        if label.is_empty() || label.contains(char::is_control) {
            errors.push(format!("Port label {label:?} must be a word"));
        }
        match ports.labels.get(label.as_str()) {
            Some(other) => errors.push(format!("Port label {label} already in use by {other}")),
            None => drop(ports.labels.insert(label, owner.to_string())),
        }
        if p.value < 0 {
            errors.push(format!("Port {label} ({}) cannot be negative", p.value));
        } else if p.value > MAX_PORT {
            errors.push(format!("Port {label} ({}) cannot be greater than {MAX_PORT}", p.value));
        } else if p.value > 0 {
            match ports.fixed.get(&(p.host_network.as_str(), p.value)) {
                Some(other) => errors.push(format!("Static port {} already reserved by {other}", p.value)),
                None => drop(ports.fixed.insert((&p.host_network, p.value), format!("{owner}:{label}"))),
            }
        }
        if p.to < SAME_PORT {
            errors.push(format!("Port {label:?} cannot be mapped to negative value {}", p.to));
        } else if p.to > MAX_PORT {
            errors.push(format!(
                "Port {label:?} cannot be mapped to a port ({}) greater than {MAX_PORT}",
                p.to
            ));
        }
    }
}

fn disconnect(job_type: JobType, d: &DisconnectPolicy, errors: &mut Vec<String>) {
    let mut check = |bad: bool, text: &str| {
        if bad {
            errors.push(text.to_string());
        }
    };
    check(d.lost_after.is_some_and(|after| after < Span::ZERO), "lost_after cannot be a negative duration");
    check(
        d.stop_on_client_after.is_some_and(|after| after < Span::ZERO),
        "stop_on_client_after cannot be a negative duration",
    );
    check(
        d.lost_after.is_some() && d.stop_on_client_after.is_some(),
        "Disconnect cannot be configured with both lost_after and stop_on_client_after",
    );
    check(
        d.stop_on_client_after.is_some() && !matches!(job_type, JobType::Service | JobType::Batch),
        "stop_on_client_after can only be used with service or batch job types",
    );
}

pub fn task(g: &TaskGroup, t: &Task, errors: &mut Vec<String>) {
    let Resources { memory_max_mb, cores, devices, .. } = &t.resources;
    if *cores < 0 {
        errors.push(format!("Task Resources validation failed: cores cannot be negative; got {cores}"));
    } else if *cores > 0 && t.resources.cpu_mhz > 0 {
        errors.push("Task can only ask for 'cpu' or 'cores' resource, not both.".to_string());
    } else if *cores == 0 && t.resources.cpu_mhz < 1 {
        errors.push("Task Resources validation failed: minimum CPU value is 1".to_string());
    }
    if *memory_max_mb != 0 && *memory_max_mb != -1 && *memory_max_mb < t.resources.memory_mb {
        errors.push(format!(
            "MemoryMaxMB value ({memory_max_mb}) should be larger than MemoryMB value ({})",
            t.resources.memory_mb
        ));
    }
    for (i, d) in devices.iter().enumerate() {
        nest(errors, &format!("device {} validation failed", i + 1), device(d));
    }
    for (i, m) in t.volume_mounts.iter().enumerate() {
        if !g.volumes.contains_key(&m.volume) {
            errors.push(format!("Volume Mount ({i}) references undefined volume {}", m.volume));
        }
        if m.destination.is_empty() {
            errors.push(format!("Volume Mount ({i}) has no destination"));
        }
        if !PROPAGATION_MODES.contains(&m.propagation_mode.as_str()) {
            let known = PROPAGATION_MODES.join(", ");
            errors.push(format!(
                "Volume Mount ({i}) has an invalid propagation mode: {:?}; it is one of {known}",
                m.propagation_mode
            ));
        }
    }
}

fn device(d: &DeviceAsk) -> Vec<String> {
    let mut errors = Vec::new();
    if d.name.is_empty() || d.name.split('/').any(str::is_empty) {
        errors.push("device name must be type, vendor/type or vendor/type/name".to_string());
    }
    if !(1..=MOST).contains(&d.count) {
        errors.push(format!("device count must be from 1 to {MOST}; got {}", d.count));
    }
    for (i, c) in d.constraints.iter().enumerate() {
        nest(&mut errors, &format!("Constraint {} validation failed", i + 1), constraint(c));
        if matches!(c.operand.as_str(), "distinct_hosts" | "distinct_property") {
            errors.push(format!(
                "Constraint {} has disallowed Operand at device level: {}",
                i + 1,
                c.operand
            ));
        }
    }
    affinities(&d.affinities, &mut errors);
    errors
}

/// What is taken and has no effect, or will be taken no more.
pub fn warnings(g: &TaskGroup, memory_oversubscription: bool) -> Vec<String> {
    let mut out = Vec::new();
    let mbits = |networks: &[Network]| networks.iter().any(|n| n.mbits != 0);
    if mbits(&g.networks) || g.tasks.iter().any(|t| mbits(&t.resources.networks)) {
        out.push(format!("Group {:?}: mbits has no effect; leave it out of the network block", g.name));
    }
    for t in &g.tasks {
        let (group, task) = (&g.name, &t.name);
        if !t.resources.networks.is_empty() {
            out.push(format!(
                "Task {group:?}.{task:?}: a network block in resources is deprecated; put it into the group"
            ));
        }
        if t.resources.memory_max_mb != 0 && !memory_oversubscription {
            out.push(format!(
                "Memory oversubscription is not enabled; Task \"{group}.{task}\" memory_max value will be ignored"
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::super::{Limits, validate};
    use super::*;
    use crate::claims::{Port, VolumeAsk, VolumeMount};

    fn port(label: &str, value: i64, to: i64) -> Port {
        Port { label: label.into(), value, to, host_network: "default".into() }
    }

    fn network(reserved: Vec<Port>) -> Network {
        Network { reserved, ..Network::default() }
    }

    type Change = fn(&mut TaskGroup);

    #[test]
    fn ports_that_cannot_be_are_told() {
        let cases: [(Change, &str); 12] = [
            (|g| g.networks = vec![network(vec![]), network(vec![])], "only one network block is allowed"),
            (|g| g.networks[0].mode = "macvlan".into(), "network mode \"macvlan\" is unknown"),
            (|g| g.networks[0].mode = "cni/".into(), "network mode \"cni/\" is unknown"),
            (|g| g.networks[0].reserved.push(port("", 1, 0)), "Port label \"\" must be a word"),
            (
                |g| g.networks[0].dynamic.push(port("web", 0, 0)),
                "Port label web already in use by taskgroup network",
            ),
            (
                |g| g.tasks[0].resources.networks = vec![network(vec![port("web", 1, 0)])],
                "Port label web already in use by taskgroup network",
            ),
            (
                |g| g.networks[0].reserved.push(port("b", 80, 0)),
                "Static port 80 already reserved by taskgroup network:web",
            ),
            (
                |g| g.tasks[0].resources.networks = vec![network(vec![port("b", 80, 0)])],
                "Static port 80 already reserved by taskgroup network:web",
            ),
            (|g| g.networks[0].reserved[0].value = 65_536, "Port web (65536) cannot be greater than 65535"),
            (|g| g.networks[0].reserved[0].value = -1, "Port web (-1) cannot be negative"),
            (|g| g.networks[0].reserved[0].to = -2, "Port \"web\" cannot be mapped to negative value -2"),
            (|g| g.networks[0].reserved[0].to = 70_000, "Port \"web\" cannot be mapped to a port (70000)"),
        ];
        assert_told(&cases);
    }

    #[test]
    fn all_else_that_cannot_be_is_told() {
        let cases: [(Change, &str); 15] = [
            (|g| g.tasks[0].resources.cpu_mhz = 0, "minimum CPU value is 1"),
            (
                |g| g.tasks[0].resources.cores = 1,
                "Task can only ask for 'cpu' or 'cores' resource, not both.",
            ),
            (|g| g.tasks[0].resources.cores = -1, "cores cannot be negative"),
            (
                |g| g.tasks[0].resources.memory_max_mb = 5,
                "MemoryMaxMB value (5) should be larger than MemoryMB value",
            ),
            (|g| g.tasks[0].resources.devices[0].name = "nvidia/".into(), "device name must be type"),
            (|g| g.tasks[0].resources.devices[0].count = 0, "device count must be from 1 to 1000; got 0"),
            (
                |g| g.tasks[0].resources.devices[0].constraints[0].operand = "distinct_hosts".into(),
                "Constraint 1 has disallowed Operand at device level: distinct_hosts",
            ),
            (
                |g| g.tasks[0].volume_mounts[0].volume = "x".into(),
                "Volume Mount (0) references undefined volume x",
            ),
            (|g| g.tasks[0].volume_mounts[0].destination.clear(), "Volume Mount (0) has no destination"),
            (
                |g| g.tasks[0].volume_mounts[0].propagation_mode = "up".into(),
                "Volume Mount (0) has an invalid propagation mode: \"up\"",
            ),
            (|g| volume(g).source.clear(), "Task group volume validation for v failed"),
            (|g| volume(g).kind = "nfs".into(), "volume has unrecognized type \"nfs\""),
            (|g| policy(g).lost_after = Some(Span::seconds(-1)), "lost_after cannot be a negative duration"),
            (
                |g| policy(g).stop_on_client_after = Some(Span::seconds(-1)),
                "stop_on_client_after cannot be a negative duration",
            ),
            (
                |g| policy(g).stop_on_client_after = Some(Span::seconds(1)),
                "cannot be configured with both lost_after and stop_on_client_after",
            ),
        ];
        assert_told(&cases);
    }

    #[track_caller]
    fn assert_told(cases: &[(Change, &str)]) {
        for (change, sentence) in cases {
            let mut spec = asking();
            change(&mut spec.groups[0]);
            let found = validate(&spec, &Limits::default()).error_text();
            assert!(found.contains(sentence), "{sentence}: {found}");
        }
    }

    fn volume(g: &mut TaskGroup) -> &mut VolumeAsk {
        g.volumes.entry("v".into()).or_default()
    }

    fn policy(g: &mut TaskGroup) -> &mut DisconnectPolicy {
        g.disconnect.get_or_insert(DisconnectPolicy {
            lost_after: Some(Span::seconds(1)),
            stop_on_client_after: None,
            replace: true,
            reconcile: crate::job::Reconcile::BestScore,
        })
    }

    /// A job that asks for one of each.
    fn asking() -> JobSpec {
        let mut spec = job(JobType::Service);
        let g = &mut spec.groups[0];
        g.networks = vec![network(vec![port("web", 80, 0)])];
        *volume(g) = VolumeAsk { kind: "host".into(), source: "s".into(), read_only: false };
        let mount = VolumeMount {
            volume: "v".into(),
            destination: "/d".into(),
            propagation_mode: "private".into(),
            ..VolumeMount::default()
        };
        let condition = crate::constraint::Constraint {
            left: "${device.model}".into(),
            operand: "=".into(),
            right: "x".into(),
        };
        let device =
            DeviceAsk { name: "gpu".into(), count: 1, constraints: vec![condition], ..DeviceAsk::default() };
        (g.tasks[0].volume_mounts, g.tasks[0].resources.devices) = (vec![mount], vec![device]);
        spec
    }

    #[test]
    fn networks_and_resources_without_effect_are_warned_of() {
        let mut spec = asking();
        let none = validate(&spec, &Limits::default());
        assert_eq!((none.errors, none.warnings), (vec![], vec![]));
        let g = &mut spec.groups[0];
        // one number twice, on different host networks
        let lan = Port { host_network: "lan".into(), ..port("b", 80, -1) };
        g.networks[0].reserved.push(lan);
        g.networks[0].mbits = 3;
        g.tasks[0].resources.memory_max_mb = -1;
        g.tasks[0].resources.networks = vec![network(vec![port("own", 81, 0)])];
        let told = validate(&spec, &Limits::default());
        assert_eq!((told.errors, told.warnings.len()), (vec![], 3));
        let with = Limits { memory_oversubscription: true, ..Limits::default() };
        assert_eq!(validate(&spec, &with).warnings.len(), 2);
    }
}
