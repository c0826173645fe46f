//! The explanation against a plain reckoning, on small random fleets; and what it says would help does.

use super::*;
use crate::testing::*;
use model::alloc::Allocation;
use model::job::Job;
use model::node::Node;

const WORLDS: u64 = 400;

struct Made {
    nodes: Vec<Node>,
    job: Job,
    allocs: Vec<Allocation>,
}

fn made(seed: u64) -> Made {
    let mut draws = Stream::new(seed, 9);
    let mut below = |n: u64| draws.below(n);
    let nodes = (1..=6).map(|n| {
        let mut node = node_with(n, |info| {
            info.datacenter = ["dc1", "dc1", "dc1", "dc2"][below(4) as usize].into();
            info.capacity =
                amount(400 + 100 * below(4) as i64, 200 + 30 * below(5) as i64, 250 + 50 * below(4) as i64);
            info.meta.insert("rack".into(), ["r1", "r2"][below(2) as usize].into());
            info.class = ["", "big"][below(2) as usize].into();
            info.max_allocs = [0, 0, 1][n as usize % 3];
        });
        node.eligible = below(5) > 0;
        node
    });
    let nodes: Vec<Node> = nodes.collect();
    let mut spec = spec("a", 3);
    spec.datacenters = vec!["dc1".into()];
    if below(2) == 0 {
        spec.constraints.push(constraint("${meta.rack}", "=", "r1"));
    }
    if below(3) == 0 {
        spec.groups[0].constraints.push(constraint("${node.class}", "=", "big"));
    }
    if below(3) == 0 {
        spec.groups[0].constraints.push(constraint("", "distinct_hosts", "true"));
    }
    let job = job_of(spec);
    let allocs = (0..below(3)).map(|i| alloc(&job, i, 1 + u128::from(below(6)))).collect();
    Made { nodes, job, allocs }
}

impl Made {
    fn world(&self) -> Harness {
        let mut world = Harness::of_nodes(self.nodes.iter().cloned());
        for alloc in &self.allocs {
            world.add(alloc.clone());
        }
        world
    }

    fn explain_placement(&self, spec: &JobSpec) -> PlacementExplanation {
        let fleet = self.world().fleet().snapshot();
        explain_placement(spec, &spec.groups[0], &fleet, &self.allocs, Scheduling::default(), 3)
    }

    fn used(&self, node: &Node) -> Amount {
        let here = self.allocs.iter().filter(|a| a.node_id == node.info.id);
        here.fold(Amount::ZERO, |sum, a| sum.plus(a.resources.total()))
    }

    /// Why one node is excluded, by the names that the explanation uses.
    fn against(&self, node: &Node) -> Vec<String> {
        let spec = &self.job.spec;
        let mut out = vec![];
        let mut if_so = |so: bool, text: &str| out.extend(so.then(|| text.to_string()));
        if_so(node.info.datacenter != "dc1", "datacenter or node pool");
        if_so(!node.eligible, "down, draining or not eligible");
        for c in spec.constraints.iter().chain(&spec.groups[0].constraints) {
            match c.left.as_str() {
                "${meta.rack}" => if_so(node.info.meta["rack"] != c.right, &c.to_string()),
                "${node.class}" => if_so(node.info.class != c.right, &c.to_string()),
                _ => if_so(self.allocs.iter().any(|a| a.node_id == node.info.id), "distinct_hosts"),
            }
        }
        let free = node.available().minus(self.used(node));
        let ask = spec.groups[0].resources().total();
        if_so(ask.cpu_mhz > free.cpu_mhz, "cpu");
        if_so(ask.memory_mb > free.memory_mb, "memory");
        if_so(ask.disk_mb > free.disk_mb, "disk");
        if_so(free.allocs < 1, TOO_MANY);
        out
    }
}

#[test]
fn every_reason_is_counted_as_brute_force_does() {
    let (mut with_nearest, mut with_alone) = (0, 0);
    for seed in 0..WORLDS {
        let made = made(seed);
        let seen = made.explain_placement(&made.job.spec);
        let against: Vec<Vec<String>> = made.nodes.iter().map(|n| made.against(n)).collect();
        assert_eq!(seen.feasible, against.iter().filter(|a| a.is_empty()).count() as u64, "seed {seed}");
        assert_eq!(seen.feasible > 0, !seen.best.is_empty(), "seed {seed}");
        let all: BTreeSet<&String> = against.iter().flatten().collect();
        assert_eq!(seen.exclusions.iter().map(|b| &b.text).collect::<BTreeSet<_>>(), all, "seed {seed}");
        for b in &seen.exclusions {
            let nodes = against.iter().filter(|a| a.contains(&b.text)).count() as u64;
            let alone = against.iter().filter(|a| **a == [b.text.clone()]).count() as u64;
            assert_eq!((b.nodes, b.alone), (nodes, alone), "seed {seed}: {}", b.text);
            with_alone += alone;
        }
        let is_amount = |text: &String| ["cpu", "memory", "disk", TOO_MANY].contains(&text.as_str());
        let only_short = against.iter().any(|a| !a.is_empty() && a.iter().all(is_amount));
        assert_eq!(seen.nearest.is_some(), only_short, "seed {seed}");
        with_nearest += u64::from(only_short);
    }
    assert!(with_nearest > 20 && with_alone > 100, "{with_nearest} {with_alone}");
}

#[test]
fn a_change_that_why_says_helps_does_help() {
    let (mut without, mut less) = (0, 0);
    for seed in 0..WORLDS {
        let made = made(seed);
        let seen = made.explain_placement(&made.job.spec);
        for b in seen.exclusions.iter().filter(|b| b.alone > 0) {
            let mut spec = made.job.spec.clone();
            match (b.amount, b.text.as_str()) {
                (Some((asked, Some(most))), what) => {
                    let group = &mut spec.groups[0];
                    let task = &mut group.tasks[0];
                    let ask = match what {
                        "cpu" => &mut task.resources.cpu_mhz,
                        "memory" => &mut task.resources.memory_mb,
                        _ => &mut group.ephemeral_disk.size_mb,
                    };
                    assert!(*ask == asked && most < asked, "seed {seed}");
                    *ask = most;
                    assert!(
                        made.explain_placement(&spec).feasible > seen.feasible,
                        "seed {seed}: {what} {most}"
                    );
                    *match what {
                        "cpu" => &mut spec.groups[0].tasks[0].resources.cpu_mhz,
                        "memory" => &mut spec.groups[0].tasks[0].resources.memory_mb,
                        _ => &mut spec.groups[0].ephemeral_disk.size_mb,
                    } = most + 1;
                    assert_eq!(
                        made.explain_placement(&spec).feasible,
                        seen.feasible,
                        "seed {seed}: {what} is the most"
                    );
                    less += 1;
                }
                (None, text) => {
                    let keeps = |c: &model::constraint::Constraint| {
                        c.to_string() != text && !(text == "distinct_hosts" && c.operand == text)
                    };
                    spec.constraints.retain(keeps);
                    spec.groups[0].constraints.retain(keeps);
                    if spec != made.job.spec {
                        assert_eq!(
                            made.explain_placement(&spec).feasible,
                            seen.feasible + b.alone,
                            "seed {seed}: {text}"
                        );
                        without += 1;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(without > 50 && less > 50, "{without} {less}");
}

#[test]
fn the_nearest_node_is_the_one_that_lacks_the_least_part() {
    let mut spec = spec("a", 1);
    (spec.groups[0].tasks[0].resources.cpu_mhz, spec.groups[0].tasks[0].resources.memory_mb) = (1_000, 256);
    let room = |n, cpu, memory| node_with(n, |i| i.capacity = amount(cpu, memory, 1_000));
    let world = Harness::of_nodes([room(1, 500, 256), room(2, 1_000, 244), room(3, 900, 200)]);
    let seen =
        explain_placement(&spec, &spec.groups[0], &world.fleet().snapshot(), &[], Scheduling::default(), 3);
    let nearest = NearestNode { node: node_id(2), missing: vec![("memory", 12, 256)] };
    assert_eq!((seen.nodes, seen.feasible, seen.nearest), (3, 0, Some(nearest)));
    let memory = seen.exclusions.iter().find(|b| b.text == "memory").unwrap();
    assert_eq!((memory.nodes, memory.alone, memory.amount), (2, 1, Some((256, Some(244)))));
}
