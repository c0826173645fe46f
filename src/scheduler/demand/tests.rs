//! Ports, cores and devices on single nodes and, at random, in worlds that change.

use super::*;
use crate::testing::*;
use model::alloc::{Allocation, ClientStatus};
use model::claims::{DeviceAsk, DeviceGroup, DeviceInstance, NodeAddress, NodeOffers, PortRange};
use model::id::NodeId;
use model::job::JobSpec;
use model::node::{Node, NodeInfo};
use model::resources::Resources;
use std::collections::BTreeMap;

fn address(alias: &str, ip: &str, reserved: &str) -> NodeAddress {
    let (alias, address) = (alias.to_string(), ip.to_string());
    NodeAddress { alias, address, device: "eth0".into(), reserved_ports: reserved.into() }
}

fn port(label: &str, value: i64, host_network: &str) -> Port {
    Port { label: label.into(), value, to: 0, host_network: host_network.into() }
}

fn network(fixed: &[(&str, i64)], free: &[&str]) -> Network {
    Network {
        reserved: fixed.iter().map(|(label, value)| port(label, *value, "default")).collect(),
        dynamic: free.iter().map(|label| port(label, 0, "default")).collect(),
        ..Network::default()
    }
}

fn gpus(name: &str, ids: &[&str]) -> DeviceGroup {
    let instance =
        |id: &&str| DeviceInstance { id: id.to_string(), healthy: true, ..DeviceInstance::default() };
    DeviceGroup {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        name: name.into(),
        instances: ids.iter().map(instance).collect(),
        ..DeviceGroup::default()
    }
}

/// With two addresses, four cores of which one is kept back, and three devices of two kinds.
fn offering(n: u128) -> Node {
    let offers = NodeOffers {
        network_modes: vec!["host".into()],
        addresses: vec![address("default", "10.0.0.1", ""), address("default", "10.0.0.2", "443")],
        dynamic_ports: PortRange { min: 20_000, max: 20_003 },
        reserved_ports: "22".into(),
        cores: vec![1, 2, 3],
        devices: vec![gpus("small", &["a", "b"]), gpus("big", &["c"])],
        ..NodeOffers::default()
    };
    node_with(n, |i: &mut NodeInfo| i.offers = offers)
}

fn asking(count: i64, networks: Vec<Network>, change: impl FnOnce(&mut Resources)) -> JobSpec {
    let mut spec = spec("a", count);
    spec.groups[0].networks = networks;
    change(&mut spec.groups[0].tasks[0].resources);
    spec
}

fn with_network(count: i64, network: Network) -> JobSpec {
    asking(count, vec![network], |_| {})
}

/// What became of it: the allocations, and what is said of the one that found no room.
fn run(world: &mut Harness, spec: &JobSpec) -> (Vec<Allocation>, Vec<String>) {
    world.register(spec.clone());
    let decision = world.run(spec);
    let failed = decision.eval.failed_groups.values();
    let why = failed.flat_map(|m| m.dimension_exhausted.keys().chain(m.constraint_filtered.keys()).cloned());
    (places(&decision).into_iter().cloned().collect(), why.collect())
}

fn ports_of(a: &Allocation) -> Vec<(String, u16, String)> {
    let ports = a.resources.networks.iter().flat_map(|n| &n.ports);
    ports.map(|p| (p.label.clone(), p.value, p.host_ip.clone())).collect()
}

#[test]
fn a_fixed_port_is_on_the_first_address_that_has_it() {
    let mut world = Harness::of_nodes([offering(1)]);
    let (placed, why) = run(&mut world, &with_network(3, network(&[("web", 8_080)], &[])));
    let mut got: Vec<_> = placed.iter().flat_map(ports_of).collect();
    got.sort();
    let web = |ip: &str| ("web".to_string(), 8_080, ip.to_string());
    assert_eq!(got, [web("10.0.0.1"), web("10.0.0.2")]);
    assert_eq!(why, ["network: reserved port collision web=8080"]);
    let held = &placed[0].resources.networks[0];
    assert_eq!((held.device.as_str(), held.ip.as_str()), ("eth0", "10.0.0.1"));
}

#[test]
fn a_nodes_reserved_ports_are_not_assigned() {
    for (value, ip) in [(22, None), (443, Some("10.0.0.1")), (80, Some("10.0.0.1"))] {
        let mut world = Harness::of_nodes([offering(1)]);
        let (placed, _) = run(&mut world, &with_network(1, network(&[("web", value)], &[])));
        let got: Vec<_> = placed.iter().flat_map(ports_of).map(|(.., ip)| ip).collect();
        assert_eq!(got, ip.into_iter().collect::<Vec<_>>(), "{value}");
    }
}

#[test]
fn free_ports_are_taken_until_none_is_left() {
    let mut world = Harness::of_nodes([offering(1)]);
    let (placed, why) = run(&mut world, &with_network(5, network(&[("own", 20_001)], &["a", "b"])));
    // each allocation needs its fixed port on an address of its own
    assert_eq!(placed.len(), 2);
    assert_eq!(why, ["network: reserved port collision own=20001"]);
    let mut world = Harness::of_nodes([offering(1)]);
    let (placed, why) = run(&mut world, &with_network(9, network(&[], &["a", "b"])));
    assert_eq!(
        (placed.len(), why.as_slice()),
        (4, &["network: dynamic port selection failed".to_string()][..])
    );
    for a in &placed {
        let ports = ports_of(a);
        assert!(ports.iter().all(|(_, p, _)| (20_000..=20_003).contains(p)) && ports[0].1 != ports[1].1);
    }
}

#[test]
fn free_ports_follow_the_seed() {
    let choice = |seed| {
        let mut world = Harness::of_nodes([node_with(1, |i| {
            i.offers = NodeOffers { dynamic_ports: PortRange::default(), ..offering(1).info.offers };
        })]);
        world.seeds = seed;
        run(&mut world, &with_network(1, network(&[], &["a"])))
            .0
            .iter()
            .flat_map(ports_of)
            .collect::<Vec<_>>()
    };
    let all: std::collections::BTreeSet<_> = (0..20).map(choice).collect();
    assert!(all.len() > 15 && choice(3) == choice(3), "{all:?}");
}

#[test]
fn a_port_is_where_its_host_network_is() {
    let lan = |n, tag: &str| {
        node_with(n, |i| {
            i.offers.addresses = vec![address("lan", "10.9.0.1", "")];
            i.meta.insert("net".into(), tag.into());
        })
    };
    for (wanted, placed, why) in [
        ("lan", 1, ""),
        ("${meta.net}", 1, ""),
        ("default", 0, "missing host network \"default\" for port \"web\""),
    ] {
        let mut world = Harness::of_nodes([lan(1, "lan")]);
        let asked = Network { dynamic: vec![port("web", 0, wanted)], ..Network::default() };
        let got = run(&mut world, &with_network(1, asked));
        let expected: Vec<String> = [why].iter().filter(|w| !w.is_empty()).map(ToString::to_string).collect();
        assert_eq!((got.0.len(), got.1), (placed, expected), "{wanted}");
    }
}

#[test]
fn a_mode_that_a_node_has_not_filters_it() {
    for mode in ["bridge", "none", "cni/x"] {
        let mut world = Harness::of_nodes([offering(1)]);
        let asked = Network { mode: mode.into(), ..network(&[], &["a"]) };
        assert_eq!(run(&mut world, &with_network(1, asked)).1, ["missing network"], "{mode}");
    }
}

#[test]
fn cores_are_the_lowest_that_are_free_and_worth_their_share() {
    let mut world = Harness::of_nodes([offering(1)]);
    let asked = asking(4, vec![], |r| (r.cores, r.cpu_mhz) = (1, 0));
    let (placed, why) = run(&mut world, &asked);
    let cores = |a: &Allocation| a.resources.tasks["t"].held.cores.clone();
    assert_eq!(placed.iter().map(cores).collect::<Vec<_>>(), [[1], [2], [3]]);
    assert!(placed.iter().all(|a| a.resources.total().cpu_mhz == 1_000));
    assert_eq!(why, ["cores"]);
    let mut without = Harness::of_nodes([node(1)]);
    assert_eq!(run(&mut without, &asked).1, ["cores cannot be reserved: the node does not enforce them yet"]);
}

#[test]
fn devices_come_from_the_group_with_the_best_affinity() {
    let gpu = |count, liked: &str| DeviceAsk {
        name: "nvidia/gpu".into(),
        count,
        affinities: vec![model::preference::Affinity {
            condition: constraint("${device.model}", "=", liked),
            weight: 50,
        }],
        ..DeviceAsk::default()
    };
    let asked = |count, devices| asking(count, vec![], |r| r.devices = devices);
    let ids = |a: &Allocation| {
        let held = &a.resources.tasks["t"].held.devices;
        held.iter().flat_map(|d| d.ids.clone()).collect::<Vec<_>>()
    };
    let mut world = Harness::of_nodes([offering(1)]);
    let (placed, why) = run(&mut world, &asked(4, vec![gpu(1, "big")]));
    assert_eq!(placed.iter().map(ids).collect::<Vec<_>>(), [["c"], ["a"], ["b"]]);
    assert_eq!(placed[0].metrics.scores[0].scores.devices, 1.0);
    assert_eq!(why, ["devices: no devices match request"]);
    let mut world = Harness::of_nodes([offering(1)]);
    assert_eq!(run(&mut world, &asked(1, vec![gpu(2, "big")])).0.iter().map(ids).next().unwrap(), ["a", "b"]);
    for world in [&mut Harness::of_nodes([offering(1)]), &mut Harness::of_nodes([node(1)])] {
        assert_eq!(run(world, &asked(1, vec![gpu(3, "big")])).1, ["missing devices"]);
    }
}

#[test]
fn in_place_update_keeps_ports_and_a_new_port_replaces() {
    let mut world = Harness::of_nodes([offering(1)]);
    let mut spec = with_network(1, network(&[], &["a"]));
    let before = run(&mut world, &spec).0.remove(0);
    spec.priority += 1;
    let after = run(&mut world, &spec).0.remove(0);
    assert_eq!((after.id, &after.resources.networks), (before.id, &before.resources.networks));
    spec.groups[0].networks[0].dynamic[0].to = 80;
    let replaced = run(&mut world, &spec).0.remove(0);
    assert_eq!(replaced.previous, Some(before.id));
}

#[test]
fn memory_max_needs_memory_oversubscription() {
    for (allowed, most) in [(false, 0), (true, 900)] {
        let mut world = Harness::of_nodes([node(1)]);
        world.scheduling.memory_oversubscription = allowed;
        let asked = asking(1, vec![], |r| r.memory_max_mb = 900);
        let placed = run(&mut world, &asked).0.remove(0);
        let held = &placed.resources.tasks["t"];
        assert_eq!((held.memory_mb, held.held.memory_max_mb), (256, most));
        assert_eq!(placed.resources.total().memory_mb, 256);
    }
}

/// Allocations that may still run, by node.
fn assert_exclusive(world: &Harness, seed: u64) {
    let mut held: BTreeMap<(NodeId, Claim), &Allocation> = BTreeMap::new();
    for a in world.allocs.values().filter(|a| !a.terminal()) {
        for claim in a.resources.claims() {
            if let Some(other) = held.insert((a.node_id, claim.clone()), a) {
                panic!("seed {seed}: {claim:?} is held by {} and {}", other.name, a.name);
            }
        }
    }
}

#[test]
fn no_port_device_or_core_is_assigned_twice() {
    let mut placed = 0;
    for seed in 0..150 {
        let mut random = Stream::new(seed, 9);
        let mut world = Harness::of_nodes((0..3).map(offering));
        world.seeds = seed * 1_000;
        for _ in 0..25 {
            let mut pick = |n: u64| random.below(n);
            let free: Vec<&str> = ["a", "b"].into_iter().take(pick(3) as usize).collect();
            let fixed = [("web", [80, 443, 20_002][pick(3) as usize])];
            let fixed = &fixed[..pick(2) as usize];
            let gpu = DeviceAsk { name: "gpu".into(), count: 1, ..DeviceAsk::default() };
            let cores = pick(2) as i64;
            let devices = if pick(3) == 0 { vec![gpu] } else { vec![] };
            let networks = if pick(3) == 0 { vec![network(&[], &["own"])] } else { vec![] };
            let change = |r: &mut Resources| {
                let cpu_mhz = if cores > 0 { 0 } else { r.cpu_mhz };
                *r = Resources { cores, cpu_mhz, devices, networks, ..r.clone() };
            };
            let mut spec = asking(pick(4) as i64, vec![network(fixed, &free)], change);
            spec.id = format!("job{}", pick(4));
            placed += run(&mut world, &spec).0.len();
            assert_exclusive(&world, seed);
            for a in world.allocs.values_mut().filter(|a| !a.client_terminal()) {
                if a.server_terminal() || random.below(6) == 0 {
                    a.client = [ClientStatus::Complete, ClientStatus::Failed][random.below(2) as usize];
                }
            }
        }
    }
    assert!(placed > 3_000, "{placed} allocations are too few");
}
