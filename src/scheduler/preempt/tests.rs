//! Which allocations are preempted: by examples, and on random worlds against a brute-force search of every set.

use super::*;
use crate::testing::*;
use model::alloc::{ClientStatus, DesiredStatus};
use model::claims::{
    DeviceAsk, DeviceGroup, DeviceInstance, HeldDevice, HeldNetwork, HeldPort, Network, NodeAddress,
    NodeOffers, Port,
};
use model::job::{HealthCheck, JobSpec, JobType, MigratePolicy};
use model::node::Node;
use model::plan::{Decision, GroupChanges};
use model::random::Stream;
use model::resources::TOO_MANY;
use model::scheduling::{PreemptionConfig, Scheduling};
use model::time::Span;

const EVERYBODY: PreemptionConfig =
    PreemptionConfig { system: true, sysbatch: true, batch: true, service: true };

fn world(nodes: impl IntoIterator<Item = Node>) -> Harness {
    let mut world = Harness::of_nodes(nodes);
    world.scheduling = Scheduling { preemption: EVERYBODY, ..Scheduling::default() };
    world
}

fn sized(id: &str, priority: i64, cpu_mhz: i64, memory_mb: i64) -> JobSpec {
    let mut spec = spec(id, 1);
    spec.priority = priority;
    (spec.groups[0].tasks[0].resources.cpu_mhz, spec.groups[0].tasks[0].resources.memory_mb) =
        (cpu_mhz, memory_mb);
    spec
}

/// Registers the job and puts one allocation of it on the node.
fn running(world: &mut Harness, spec: JobSpec, node: u128) -> AllocId {
    let job = world.register(spec);
    let n = world.allocs.len() as u64;
    let mut one = alloc(&job, 0, node);
    one.id = alloc_id(u128::from(n) + 1);
    world.add(one)
}

fn preempted(decision: &Decision) -> Vec<AllocId> {
    let mut ids: Vec<AllocId> = decision.plan.preemptions().map(|(_, id)| id).collect();
    ids.sort();
    ids
}

/// The world in which all preempted allocations have left.
fn place(world: &mut Harness, spec: JobSpec) -> Decision {
    world.register(spec.clone());
    let decision = world.run(&spec);
    for alloc in world.allocs.values_mut().filter(|a| a.desired == DesiredStatus::Evict) {
        alloc.client = ClientStatus::Complete;
    }
    decision
}

#[test]
fn worked_examples_of_distance_and_score() {
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
    close(distance(amount(500, 512, 100), amount(250, 256, 100)), 0.5f64.sqrt());
    close(distance(amount(1000, 1024, 300), amount(500, 2048, 150)), 1.224745);
    close(distance(amount(0, 0, 0), amount(500, 2048, 150)), 0.0);
    let cases: [(&[i64], f64); 4] =
        [(&[10], 0.999943), (&[20, 20], 0.999940), (&[30, 50, 70], 0.999924), (&[50; 10], 0.999928)];
    for (priorities, expected) in cases {
        close(score(priorities), expected);
    }
    close(score(&[999]), 1.0 / (1.0 + (0.0048f64 * (1000.0 - 2048.0)).exp()));
    close(score(&[2047]), 0.5);
    assert!(
        may_preempt(50, 40)
            && !may_preempt(50, 41)
            && !may_preempt(50, 50)
            && !may_preempt(i64::MIN, i64::MAX)
    );
}

#[test]
fn lowest_priorities_are_preempted_and_no_more_than_needed() {
    let mut w = world([node(1)]);
    let urgent = running(&mut w, sized("urgent", 45, 1000, 256), 1);
    let high = running(&mut w, sized("high", 40, 1500, 256), 1);
    let low = running(&mut w, sized("low", 20, 1000, 256), 1);
    let small = running(&mut w, sized("small", 20, 200, 256), 1);
    let decision = place(&mut w, sized("new", 50, 1200, 256));
    assert_eq!(preempted(&decision), [low]);
    let new = places(&decision)[0];
    assert_eq!((new.preempted.as_slice(), new.metrics.nodes_exhausted), (&[low][..], 1));
    assert!(new.metrics.scores[0].preemption > 0.9999);
    assert_eq!(decision.desired["g"], GroupChanges { place: 1, preemptions: 1, ..GroupChanges::default() });
    // what is nearly as urgent never
    let decision = place(&mut w, sized("next", 50, 1700, 256));
    assert_eq!(preempted(&decision), [high, small]);
    let decision = place(&mut w, sized("last", 54, 1900, 256));
    assert_eq!((preempted(&decision), decision.eval.failed_groups.len()), (vec![], 1));
    assert_eq!(w.allocs[&urgent].desired, DesiredStatus::Run);
}

#[test]
fn one_alloc_is_preempted_where_max_allocs_is_reached() {
    let mut w = world([node_with(1, |i| i.max_allocs = 3)]);
    let [_, low, _] =
        [40, 20, 30].map(|priority| running(&mut w, sized(&priority.to_string(), priority, 100, 256), 1));
    let decision = place(&mut w, sized("new", 50, 100, 256));
    assert_eq!(preempted(&decision), [low]);
    assert_eq!(places(&decision)[0].metrics.dimension_exhausted[TOO_MANY], 1);
}

#[test]
fn nothing_is_preempted_if_disabled_or_where_room_is_left() {
    for job_type in JobType::ALL {
        for (on, nodes_preemption_would_help) in
            [(EVERYBODY, 1), (PreemptionConfig { system: false, ..PreemptionConfig::default() }, 0)]
        {
            let mut w = world([node(1)]);
            w.scheduling.preemption = on;
            running(&mut w, sized("low", 20, 3000, 256), 1);
            let asked = |cpu| JobSpec { job_type, ..sized("new", 50, cpu, 256) };
            let decision = place(&mut w, asked(2000));
            assert_eq!(preempted(&decision).len(), nodes_preemption_would_help, "{job_type:?}");
            assert_eq!(decision.eval.failed_groups.len(), 1 - nodes_preemption_would_help, "{job_type:?}");
        }
        let mut w = world([node(1), node(2)]);
        running(&mut w, sized("low", 20, 3000, 256), 1);
        let decision = place(&mut w, JobSpec { job_type, ..sized("new", 50, 900, 256) });
        assert!(preempted(&decision).is_empty() && !places(&decision).is_empty(), "{job_type:?}");
    }
}

#[test]
fn a_system_job_gets_its_place_on_every_node() {
    let mut w = world([node(1), node(2), node(3)]);
    w.scheduling.preemption = PreemptionConfig::default();
    let low = running(&mut w, sized("low", 40, 3900, 256), 1);
    let near = running(&mut w, sized("near", 71, 3900, 256), 2);
    let system = JobSpec { job_type: JobType::System, ..sized("agent", 80, 500, 256) };
    let decision = place(&mut w, system);
    assert_eq!((preempted(&decision), places(&decision).len()), (vec![low], 2));
    assert_eq!(decision.eval.failed_groups["g"].nodes_exhausted, 1);
    assert_eq!(w.allocs[&near].desired, DesiredStatus::Run);
}

#[test]
fn a_plan_preempts_on_many_nodes_and_nothing_twice() {
    let mut w = world((0..20).map(node));
    let mut all: Vec<AllocId> = vec![];
    for n in 0..20 {
        all.push(running(&mut w, sized(&format!("low-{n}"), 20, 2000, 256), n));
        running(&mut w, sized(&format!("idle-{n}"), 20, 1900, 256), n);
    }
    let mut system = JobSpec { job_type: JobType::System, ..sized("agent", 80, 2100, 256) };
    let decision = place(&mut w, system.clone());
    assert_eq!((preempted(&decision), places(&decision).len()), (all, 20));
    // more groups on each: the last one would have to send away what is leaving already
    for (name, cpu_mhz) in [("h", 1900), ("i", 2000)] {
        let mut group = system.groups[0].clone();
        group.name = name.into();
        group.tasks[0].resources.cpu_mhz = cpu_mhz;
        system.groups.push(group);
    }
    (system.id, system.priority) = ("more".into(), 95);
    let decision = place(&mut w, system);
    assert_eq!((preempted(&decision).len(), places(&decision).len()), (40, 40));
    assert_eq!(decision.eval.failed_groups.keys().collect::<Vec<_>>(), ["i"]);
}

#[test]
fn an_older_versions_priority_protects_too() {
    let mut w = world([node(1)]);
    running(&mut w, sized("low", 60, 3000, 256), 1);
    w.register(sized("low", 20, 3000, 256));
    assert!(preempted(&place(&mut w, sized("new", 60, 2000, 256))).is_empty());
    assert_eq!(preempted(&place(&mut w, sized("more", 70, 2000, 256))).len(), 1);
}

#[test]
fn r18_a_job_never_preempts_its_own_allocs() {
    let mut w = world([node(1)]);
    let own = running(&mut w, sized("web", 20, 3000, 256), 1);
    let mut more = sized("web", 90, 3000, 256);
    more.groups[0].count = 2;
    let decision = place(&mut w, more);
    assert_eq!((preempted(&decision), decision.eval.queued["g"]), (vec![], 1));
    assert_eq!(w.allocs[&own].desired, DesiredStatus::Run);
}

#[test]
fn a_group_at_its_migrate_max_parallel_is_penalized() {
    let polite = |id: &str, cpu| {
        let mut spec = sized(id, 20, cpu, 256);
        let migrate = MigratePolicy {
            max_parallel: 1,
            health_check: HealthCheck::TaskStates,
            min_healthy_time: Span::ZERO,
            healthy_deadline: Span::ZERO,
        };
        spec.groups[0].migrate = Some(migrate);
        spec
    };
    let mut w = world([node(1), node(2)]);
    let shy = w.register(polite("shy", 1500));
    for n in [1, 2] {
        w.add(alloc(&shy, n, n.into()));
        running(&mut w, sized("bold", 20, 1600, 256), n.into());
    }
    let mut wanted = sized("new", 50, 1500, 256);
    wanted.groups[0].count = 2;
    let decision = place(&mut w, wanted);
    let jobs: Vec<String> = preempted(&decision).iter().map(|id| w.allocs[id].job.id.clone()).collect();
    assert_eq!((jobs.contains(&"shy".to_string()), jobs.contains(&"bold".to_string())), (true, true));
}

#[test]
fn a_preemption_that_turns_out_needless_is_withdrawn() {
    let mut w = world([node(1)]);
    let small = running(&mut w, sized("small", 20, 1000, 256), 1);
    let big = running(&mut w, sized("big", 30, 3000, 256), 1);
    let mut wanted = sized("new", 50, 1000, 256);
    wanted.groups[0].count = 2;
    let decision = place(&mut w, wanted);
    assert_eq!(preempted(&decision), [big]);
    // both wait for it
    assert!(places(&decision).iter().all(|a| a.preempted == [big]));
    assert_eq!(w.allocs[&small].desired, DesiredStatus::Run);
}

/// One address, three devices.
fn offering(n: u128) -> Node {
    let instance = |id: &str| DeviceInstance { id: id.into(), healthy: true, ..DeviceInstance::default() };
    let gpus = DeviceGroup {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        name: "small".into(),
        instances: ["a", "b", "c"].map(instance).to_vec(),
        ..DeviceGroup::default()
    };
    let address = NodeAddress {
        alias: "default".into(),
        device: "eth0".into(),
        address: "10.0.0.1".into(),
        reserved_ports: String::new(),
    };
    let network_modes = vec!["host".into()];
    let offers =
        NodeOffers { network_modes, addresses: vec![address], devices: vec![gpus], ..NodeOffers::default() };
    node_with(n, |i| i.offers = offers)
}

fn asking(mut spec: JobSpec, ports: &[i64], gpus: i64) -> JobSpec {
    let port = |value: &i64| Port {
        label: format!("p{value}"),
        value: *value,
        to: 0,
        host_network: "default".into(),
    };
    let network = Network { reserved: ports.iter().map(port).collect(), ..Network::default() };
    let networks = if ports.is_empty() { vec![] } else { vec![network] };
    spec.groups[0].networks = networks;
    if gpus > 0 {
        let ask = DeviceAsk { name: "gpu".into(), count: gpus, ..DeviceAsk::default() };
        spec.groups[0].tasks[0].resources.devices = vec![ask];
    }
    spec
}

/// Puts an allocation of the job there that holds these.
fn holding(w: &mut Harness, spec: JobSpec, node: u128, ports: &[u16], gpus: &[&str]) -> AllocId {
    let id = running(w, spec, node);
    let resources = &mut w.allocs.get_mut(&id).expect("was added").resources;
    let port = |value: &u16| HeldPort {
        value: *value,
        host_ip: "10.0.0.1".into(),
        host_network: "default".into(),
        fixed: true,
        ..HeldPort::default()
    };
    resources.networks =
        vec![HeldNetwork { ports: ports.iter().map(port).collect(), ..HeldNetwork::default() }];
    let device = HeldDevice {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        name: "small".into(),
        ids: gpus.iter().map(ToString::to_string).collect(),
    };
    let task = resources.tasks.values_mut().next().expect("has a task");
    task.held.devices = vec![device];
    id
}

#[test]
fn the_holder_of_the_port_or_the_device_is_preempted() {
    let mut w = world([offering(1)]);
    running(&mut w, sized("idle", 10, 500, 256), 1);
    let web = holding(&mut w, sized("web", 30, 500, 256), 1, &[80], &["a"]);
    let learn = holding(&mut w, sized("learn", 20, 500, 256), 1, &[], &["b"]);
    let decision = place(&mut w, asking(sized("new", 50, 500, 256), &[80], 0));
    assert_eq!(preempted(&decision), [web]);
    assert_eq!(places(&decision)[0].resources.networks[0].ports[0].value, 80);
    let decision = place(&mut w, asking(sized("gpus", 50, 500, 256), &[], 3));
    assert_eq!(preempted(&decision), [learn]);
    // the new one is too urgent itself
    let decision = place(&mut w, asking(sized("late", 55, 500, 256), &[80], 0));
    assert!(preempted(&decision).is_empty() && places(&decision).is_empty());
}

const PORTS: [u16; 3] = [80, 443, 8080];
const GPUS: [&str; 3] = ["a", "b", "c"];

/// What one allocation has of a node, told plainly.
#[derive(Clone)]
struct Held {
    id: AllocId,
    priority: i64,
    amount: [i64; 3],
    ports: Vec<u16>,
    gpus: usize,
}

/// Whether all these and what is asked for have room on one node.
fn together(held: &[&Held], ask: [i64; 3], ports: &[i64], gpus: i64) -> bool {
    let capacity = [4_000, 8_192, 100_000];
    let amounts = (0..3).all(|d| held.iter().map(|h| h.amount[d]).sum::<i64>() + ask[d] <= capacity[d]);
    let collide = held.iter().any(|h| h.ports.iter().any(|p| ports.contains(&i64::from(*p))));
    amounts && !collide && held.iter().map(|h| h.gpus).sum::<usize>() + gpus as usize <= GPUS.len()
}

/// Fills the nodes at random.
fn filled(random: &mut Stream, nodes: u128) -> (Harness, Vec<Vec<Held>>) {
    let mut w = world((0..nodes).map(offering));
    let mut all = vec![];
    for n in 0..nodes {
        let mut here: Vec<Held> = vec![];
        let (mut ports, mut gpus) = (PORTS.to_vec(), GPUS.to_vec());
        for i in 0..3 + random.below(6) {
            let priority = [10, 20, 30, 41, 50, 70][random.below(6) as usize];
            let (cpu, memory) = (100 * (1 + random.below(12)) as i64, 256 * (1 + random.below(8)) as i64);
            let mine: Vec<u16> =
                if random.below(4) == 0 { ports.pop().into_iter().collect() } else { vec![] };
            let devices: Vec<&str> =
                if random.below(5) == 0 { gpus.pop().into_iter().collect() } else { vec![] };
            let amount = [cpu, memory, 300];
            if !together(&here.iter().collect::<Vec<_>>(), amount, &[], 0) {
                continue;
            }
            let spec = sized(&format!("j{n}-{i}"), priority, cpu, memory);
            let id = holding(&mut w, spec, n, &mine, &devices);
            here.push(Held { id, priority, amount, ports: mine, gpus: devices.len() });
        }
        all.push(here);
    }
    (w, all)
}

/// The sets of others that would do on one node, as bits.
fn sets(here: &[Held], priority: i64, ask: [i64; 3], ports: &[i64], gpus: i64) -> Vec<u32> {
    let fits = |gone: &u32| {
        let may = (0..here.len()).all(|i| gone >> i & 1 == 0 || here[i].priority <= priority - 10);
        let stay: Vec<&Held> = (0..here.len()).filter(|i| gone >> i & 1 == 0).map(|i| &here[i]).collect();
        may && together(&stay, ask, ports, gpus)
    };
    (0..1 << here.len()).filter(fits).collect()
}

#[test]
fn preemption_agrees_with_brute_force() {
    let (mut nodes_preemption_would_help, mut rooms, mut none) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = Stream::new(seed, 0);
        let nodes = 1 + random.below(3);
        let (mut w, held) = filled(&mut random, u128::from(nodes));
        let ask = [100 * (5 + random.below(30)) as i64, 256 * (1 + random.below(20)) as i64, 300];
        let ports: Vec<i64> = PORTS.iter().map(|p| i64::from(*p)).filter(|_| random.below(4) == 0).collect();
        let gpus = if random.below(4) == 0 { random.below(4) as i64 } else { 0 };
        let priority = [40, 51, 60, 90][random.below(4) as usize];
        let job_type = if random.below(4) == 0 { JobType::System } else { JobType::Service };
        let spec = JobSpec { job_type, ..asking(sized("new", priority, ask[0], ask[1]), &ports, gpus) };
        let decision = place(&mut w, spec);
        let on = |n: usize| places(&decision).into_iter().find(|a| a.node_id == node_id(n as u128));
        let possible: Vec<_> = held.iter().map(|here| sets(here, priority, ask, &ports, gpus)).collect();
        let room = possible.iter().any(|sets| sets.contains(&0));
        if job_type == JobType::Service {
            let placed = (0..held.len()).filter(|n| on(*n).is_some()).count();
            assert_eq!(placed == 1, possible.iter().any(|sets| !sets.is_empty()), "seed {seed}");
            assert!(!room || preempted(&decision).is_empty(), "seed {seed}");
        }
        for (n, here) in held.iter().enumerate() {
            let Some(new) = on(n) else {
                assert!(job_type == JobType::Service || possible[n].is_empty(), "seed {seed}");
                none += 1;
                continue;
            };
            let bit = |id: &AllocId| 1 << here.iter().position(|h| h.id == *id).expect("is on the node");
            let gone: u32 = new.preempted.iter().map(bit).sum();
            assert!(possible[n].contains(&gone), "seed {seed}: {gone:b} is not enough");
            let less = possible[n].iter().find(|set| **set != gone && **set & gone == **set);
            assert_eq!(less, None, "seed {seed}: some of {gone:b} could stay");
            let highest =
                |set: u32| (0..here.len()).filter(|i| set >> i & 1 == 1).map(|i| here[i].priority).max();
            let lowest = possible[n].iter().map(|set| highest(*set)).min().flatten();
            assert_eq!(highest(gone), lowest, "seed {seed}: somebody less urgent would do");
            if gone == 0 { rooms += 1 } else { nodes_preemption_would_help += 1 }
        }
    }
    assert!(
        nodes_preemption_would_help > 60 && rooms > 30 && none > 60,
        "{nodes_preemption_would_help} {rooms} {none}"
    );
}

#[test]
fn several_placements_preempt_no_more_than_needed() {
    let mut nodes_preemption_would_help = 0;
    for seed in 0..200 {
        let mut random = Stream::new(seed, 1);
        let (mut w, held) = filled(&mut random, 3);
        let ask = [100 * (5 + random.below(15)) as i64, 256 * (1 + random.below(8)) as i64, 300];
        let mut spec = sized("new", 60, ask[0], ask[1]);
        spec.groups[0].count = 2 + random.below(6) as i64;
        let decision = place(&mut w, spec);
        let gone = preempted(&decision);
        for (n, here) in held.iter().enumerate() {
            let new =
                places(&decision).into_iter().filter(|a| a.node_id == node_id(n as u128)).count() as i64;
            let asked = ask.map(|a| a * new);
            let (left, stay): (Vec<&Held>, Vec<&Held>) = here.iter().partition(|h| gone.contains(&h.id));
            assert!(new == 0 || together(&stay, asked, &[], 0), "seed {seed}");
            for one in &left {
                let with: Vec<&Held> = stay.iter().copied().chain([*one]).collect();
                assert!(!together(&with, asked, &[], 0), "seed {seed}: one of them could stay");
                nodes_preemption_would_help += 1;
            }
        }
    }
    assert!(nodes_preemption_would_help > 100, "{nodes_preemption_would_help}");
}
