//! Samples of what is asked for, held and offered beyond cpu, memory and disk.

use super::Samples;
use model::alloc::Allocation;
use model::claims::{
    DeviceAsk, DeviceAttribute, DeviceGroup, DeviceInstance, DeviceValue, HeldDevice, HeldNetwork, HeldPort,
    HostVolume, Network, NodeAddress, NodeOffers, Port, PortRange, TaskHoldings, VolumeAsk, VolumeMount,
};
use model::constraint::Constraint;
use model::job::JobSpec;
use model::node::Node;
use model::preference::Affinity;
use std::collections::BTreeMap;

pub fn claims(s: &mut Samples, spec: JobSpec, alloc: Allocation, node: Node) {
    s.add::<JobSpec>("asking", &asking(spec));
    s.add::<Allocation>("holding", &holding(alloc));
    s.add::<Node>("offering", &offering(node));
}

fn network() -> Network {
    let port = |label: &str, value, to| Port { label: label.into(), value, to, host_network: "lan".into() };
    Network {
        mode: "host".into(),
        mbits: 10,
        reserved: vec![port("web", 8080, 80)],
        dynamic: vec![port("rpc", 0, -1)],
    }
}

fn asking(mut spec: JobSpec) -> JobSpec {
    let condition = Constraint { left: "${device.model}".into(), operand: "=".into(), right: "x".into() };
    let device = DeviceAsk {
        name: "nvidia/gpu".into(),
        count: 2,
        constraints: vec![condition.clone()],
        affinities: vec![Affinity { condition, weight: -50 }],
    };
    let mount = VolumeMount {
        volume: "data".into(),
        destination: "/data".into(),
        read_only: true,
        propagation_mode: "private".into(),
    };
    let volume = VolumeAsk { kind: "host".into(), source: "disk".into(), read_only: true };
    let group = &mut spec.groups[0];
    group.networks = vec![network()];
    group.volumes = BTreeMap::from([("data".to_string(), volume)]);
    let task = &mut group.tasks[0];
    task.volume_mounts = vec![mount];
    task.resources.memory_max_mb = 512;
    task.resources.cores = 2;
    task.resources.networks = vec![network()];
    task.resources.devices = vec![device];
    spec
}

fn holding(mut alloc: Allocation) -> Allocation {
    let port = HeldPort {
        label: "web".into(),
        value: 8080,
        to: 80,
        host_ip: "10.0.0.1".into(),
        host_network: "lan".into(),
        fixed: true,
    };
    let network =
        HeldNetwork { mode: "host".into(), device: "eth0".into(), ip: "10.0.0.1".into(), ports: vec![port] };
    let ids = vec!["a".to_string(), "b".to_string()];
    let device = HeldDevice { vendor: "nvidia".into(), kind: "gpu".into(), name: "x".into(), ids };
    alloc.resources.networks = vec![network.clone()];
    for task in alloc.resources.tasks.values_mut() {
        task.held = TaskHoldings {
            memory_max_mb: 512,
            cores: vec![0, 3],
            networks: vec![network.clone()],
            devices: vec![device.clone()],
        };
    }
    alloc
}

fn offering(mut node: Node) -> Node {
    let attribute = |value| DeviceAttribute { value, unit: "MiB".into() };
    let attributes = [
        ("bool", DeviceValue::Bool(true)),
        ("float", DeviceValue::Float(0.5)),
        ("int", DeviceValue::Int(-3)),
        ("text", DeviceValue::Text("x".into())),
    ];
    let device = DeviceGroup {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        name: "x".into(),
        attributes: attributes.map(|(name, value)| (name.to_string(), attribute(value))).into(),
        instances: vec![DeviceInstance { id: "a".into(), healthy: true, description: "fine".into() }],
    };
    let address = NodeAddress {
        alias: "lan".into(),
        device: "eth0".into(),
        address: "10.0.0.1".into(),
        reserved_ports: "22".into(),
    };
    let volume = HostVolume { path: "/srv".into(), read_only: true };
    node.info.offers = NodeOffers {
        network_modes: vec!["host".into()],
        addresses: vec![address],
        dynamic_ports: PortRange { min: 20_000, max: 32_000 },
        reserved_ports: "22,80-90".into(),
        cores: vec![1, 2, 3],
        reserved_cores: vec![0],
        volumes: BTreeMap::from([("disk".to_string(), volume)]),
        mounting_drivers: vec!["exec".into()],
        devices: vec![device],
    };
    node.info.max_allocs = 300;
    node
}
