//! Properties, on small random worlds from seeds: every choice is the best one by an independent reckoning, no node ever
//! gets more than it has, hard conditions hold, and a settled world is left alone.

use super::testing::*;
use model::alloc::{Allocation, ClientStatus};
use model::id::NodeId;
use model::job::{JobSpec, JobType, ReschedulePolicy};
use model::node::{Node, NodeStatus};
use model::plan::Decision;
use model::preference::{Affinity, Spread};
use model::random::Stream;
use model::resources::Amount;
use model::task::{TaskPhase, TaskState};
use model::time::Span;
use std::collections::BTreeMap;

const WORLDS: u64 = 300;
const STEPS: usize = 12;

struct Dice(Stream);

impl Dice {
    /// 0 to n - 1.
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len() as u64) as usize]
    }
}

fn random_node(n: u128, dice: &mut Dice) -> Node {
    let mut node = node_with(n, |i| {
        i.datacenter = dice.pick(&["dc1", "dc2"]).into();
        i.pool = dice.pick(&["default", "default", "edge"]).into();
        i.meta.insert("rack".into(), dice.pick(&["r1", "r2", "r3"]).into());
        i.attributes.insert("kernel.name".into(), dice.pick(&["linux", "linux", "windows"]).into());
        i.capacity = amount(500 * (1 + dice.below(8)) as i64, 512 * (1 + dice.below(8)) as i64, 2_000);
        i.max_allocs = [0, 0, 1, 3][n as usize % 4];
        if dice.one_in(6) {
            i.drivers.clear();
        }
    });
    node.eligible = !dice.one_in(8);
    node
}

fn random_spec(id: &str, dice: &mut Dice) -> JobSpec {
    let mut spec = spec(id, dice.below(7) as i64);
    if dice.one_in(3) {
        spec.job_type = JobType::Batch;
    }
    spec.datacenters = vec![dice.pick(&["*", "dc1", "dc*"]).into()];
    spec.node_pool = dice.pick(&["default", "all"]).into();
    let task = &mut spec.groups[0].tasks[0];
    task.resources.cpu_mhz = 100 * (1 + dice.below(8)) as i64;
    task.resources.memory_mb = 128 * (1 + dice.below(8)) as i64;
    if dice.one_in(2) {
        spec.constraints.push(constraint("${attr.kernel.name}", "=", "linux"));
    }
    if dice.one_in(4) {
        spec.groups[0].constraints.push(constraint("", "distinct_hosts", "true"));
    }
    if dice.one_in(4) {
        spec.groups[0].constraints.push(constraint("${meta.rack}", "distinct_property", "2"));
    }
    spec
}

fn world(dice: &mut Dice) -> Harness {
    Harness::of_nodes((0..=dice.below(10)).map(|n| random_node(u128::from(n), dice)).collect::<Vec<_>>())
}

/// The hard conditions that `random_spec` writes, read from the node itself.
fn allowed(spec: &JobSpec, node: &Node) -> bool {
    let linux = spec.constraints.is_empty() || node.info.attributes["kernel.name"] == "linux";
    let datacenter = spec.datacenters[0] != "dc1" || node.info.datacenter == "dc1";
    let pool = spec.node_pool == "all" || node.info.pool == spec.node_pool;
    linux && datacenter && pool && node.info.drivers.contains_key("exec")
}

fn has(spec: &JobSpec, operand: &str) -> bool {
    spec.group("g").is_some_and(|g| g.constraints.iter().any(|c| c.operand == operand))
}

/// A plain reckoning of one node for one more allocation, the others of the job being on `at`: None if it may not go there.
fn score_node(spec: &JobSpec, node: &Node, used: Amount, at: &[&Node]) -> Option<f64> {
    let here = at.iter().filter(|n| n.info.id == node.info.id).count();
    let in_rack = at.iter().filter(|n| n.info.meta["rack"] == node.info.meta["rack"]).count();
    let task = &spec.groups[0].tasks[0];
    let (all, cpu, memory) = (
        node.info.capacity,
        used.cpu_mhz + task.resources.cpu_mhz,
        used.memory_mb + task.resources.memory_mb,
    );
    let fits = cpu <= all.cpu_mhz && memory <= all.memory_mb && used.disk_mb + 300 <= all.disk_mb;
    let fits = fits && (node.info.max_allocs == 0 || used.allocs < i64::from(node.info.max_allocs));
    let taken = (has(spec, "distinct_hosts") && here > 0) || (has(spec, "distinct_property") && in_rack >= 2);
    if !fits || taken || !allowed(spec, node) || !node.eligible || node.status != NodeStatus::Ready {
        return None;
    }
    let share = |used: i64, all: i64| 10f64.powf(1.0 - used as f64 / all as f64);
    let fit = (20.0 - (share(cpu, all.cpu_mhz) + share(memory, all.memory_mb))).clamp(0.0, 18.0) / 18.0;
    let crowd = -((here + 1) as f64) / spec.groups[0].count as f64;
    Some(if here == 0 { fit } else { (fit + crowd) / 2.0 })
}

fn in_use(world: &Harness, counts: impl Fn(&Allocation) -> bool) -> BTreeMap<NodeId, Amount> {
    let mut used: BTreeMap<NodeId, Amount> = BTreeMap::new();
    for a in world.allocs.values().filter(|a| counts(a)) {
        let entry = used.entry(a.node_id).or_default();
        *entry = entry.plus(a.resources.total());
    }
    used
}

#[test]
fn every_choice_is_the_best_there_is() {
    let mut chosen = 0;
    for seed in 0..WORLDS {
        let dice = &mut Dice(Stream::new(seed, 0));
        let mut world = world(dice);
        for id in ["a", "b", "c"] {
            let spec = random_spec(id, dice);
            world.register(spec.clone());
            let mut used = in_use(&world, |a| !a.client_terminal());
            let decision = world.run(&spec);
            chosen += follow(seed, &world, &spec, &decision, &mut used);
        }
    }
    assert!(chosen > 1_000, "{chosen} choices are too few to mean something");
}

/// Makes the placements again, one by one in the order of their names, and compares each with a plain reckoning.
fn follow(
    seed: u64,
    world: &Harness,
    spec: &JobSpec,
    decision: &Decision,
    used: &mut BTreeMap<NodeId, Amount>,
) -> usize {
    let mut placed = places(decision);
    placed.sort_by_key(|a| a.index());
    let mut at: Vec<&Node> = Vec::new();
    for a in &placed {
        let best = best_score(world, spec, used, &at).map(|(score, _)| score);
        let node = &world.nodes[&a.node_id];
        let score = score_node(spec, node, used.get(&a.node_id).copied().unwrap_or_default(), &at);
        let close = score.zip(best).is_some_and(|(s, b)| (s - b).abs() < 1e-12);
        assert!(close, "seed {seed} job {}: {} has {score:?}, the best is {best:?}", spec.id, a.name);
        assert_eq!(a.metrics.scores[0].node_id, a.node_id);
        assert!(score.is_some_and(|s| (s - a.metrics.scores[0].normalized).abs() < 1e-12));
        let entry = used.entry(a.node_id).or_default();
        *entry = entry.plus(a.resources.total());
        at.push(node);
    }
    let missing = spec.groups[0].count as usize - placed.len();
    assert_eq!(decision.eval.queued["g"], missing as u64, "seed {seed}");
    let left = best_score(world, spec, used, &at);
    assert!(missing == 0 || left.is_none(), "seed {seed} job {}: {left:?} was left", spec.id);
    placed.len()
}

fn best_score(
    world: &Harness,
    spec: &JobSpec,
    used: &BTreeMap<NodeId, Amount>,
    at: &[&Node],
) -> Option<(f64, NodeId)> {
    let of = |n: &Node| {
        score_node(spec, n, used.get(&n.info.id).copied().unwrap_or_default(), at).map(|s| (s, n.info.id))
    };
    world.nodes.values().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
}

#[test]
fn a_changing_world_is_never_overcommitted_and_settles() {
    let mut fired = BTreeMap::new();
    for seed in 0..WORLDS {
        let dice = &mut Dice(Stream::new(seed ^ 0xabcd, 0));
        let mut world = world(dice);
        for step in 0..STEPS {
            let id = dice.pick(&["a", "b"]);
            *fired.entry(disturb(&mut world, id, dice)).or_insert(0) += 1;
            for spec in world.jobs.values().map(|j| j.spec.clone()).collect::<Vec<_>>() {
                let decision = world.run(&spec);
                check(&world, &spec, &decision, &format!("seed {seed} step {step} job {}", spec.id));
                let again = world.decide(&eval_of(&spec));
                assert!(again.plan.is_no_op(), "seed {seed} step {step}: {:#?}", again.plan);
                assert_eq!(again.eval.queued, decision.eval.queued, "seed {seed} step {step}");
            }
        }
    }
    assert!(fired.len() == 6 && fired.values().all(|n| *n > 100), "{fired:?}");
}

/// Soft conditions, which must never outweigh a hard one.
fn prefer(spec: &mut JobSpec, dice: &mut Dice) {
    let spread = |attribute: &str| Spread { attribute: attribute.into(), weight: 50, targets: vec![] };
    if dice.one_in(2) {
        spec.spreads.push(spread("${node.datacenter}"));
    }
    if dice.one_in(2) {
        spec.groups[0].spreads.push(spread("${meta.rack}"));
    }
    if dice.one_in(2) {
        let condition = constraint("${attr.kernel.name}", "=", "windows");
        spec.affinities.push(Affinity { condition, weight: 100 });
    }
}

/// One change of the world; its name.
fn disturb(world: &mut Harness, id: &str, dice: &mut Dice) -> &'static str {
    let nodes: Vec<NodeId> = world.nodes.keys().copied().collect();
    let node_id = nodes[dice.below(nodes.len() as u64) as usize];
    let spec = world.jobs.values().find(|j| j.spec.id == id).map(|j| j.spec.clone());
    match (dice.below(6), spec) {
        (0, _) | (_, None) => {
            let mut spec = random_spec(id, dice);
            prefer(&mut spec, dice);
            if dice.one_in(2) {
                spec.groups[0].reschedule = ReschedulePolicy::default_for(spec.job_type);
            }
            if dice.one_in(2) {
                let mut second = spec.groups[0].clone();
                (second.name, second.constraints, second.count) = ("h".into(), vec![], dice.below(4) as i64);
                second.tasks[0].resources.memory_mb = 128 * (1 + dice.below(16)) as i64;
                spec.groups.insert(dice.below(2) as usize, second);
            }
            world.register(spec);
            "another spec"
        }
        (1, Some(mut spec)) => {
            spec.groups[0].count = dice.below(7) as i64;
            world.register(spec);
            "another count"
        }
        (2, _) => {
            let node = world.nodes.get_mut(&node_id).expect("it was listed");
            match node.status {
                NodeStatus::Ready if dice.one_in(2) => node.eligible = !node.eligible,
                NodeStatus::Ready => node.status = NodeStatus::Down,
                _ => node.status = NodeStatus::Ready,
            }
            "a node goes down or comes back"
        }
        (3, Some(mut spec)) => {
            spec.stop = !spec.stop;
            world.register(spec);
            "stopped or started"
        }
        (4, _) => {
            let told = world.allocs.values_mut().filter(|a| a.server_terminal() && !a.client_terminal());
            told.for_each(|a| a.client = ClientStatus::Complete);
            "stops are carried out"
        }
        _ => {
            world.allocs.values_mut().filter(|a| !a.terminal()).for_each(|a| end(a, dice));
            "tasks end"
        }
    }
}

fn end(alloc: &mut Allocation, dice: &mut Dice) {
    let failed = dice.one_in(3);
    alloc.client = if failed { ClientStatus::Failed } else { ClientStatus::Complete };
    if dice.one_in(2) {
        let long_ago = NOW + Span::hours(-2);
        (alloc.create_time, alloc.modify_time) = (long_ago, long_ago);
    }
    let state = TaskState { phase: TaskPhase::Dead, failed, ..TaskState::default() };
    alloc.task_states = [("t".to_string(), state)].into();
}

fn check(world: &Harness, spec: &JobSpec, decision: &Decision, at: &str) {
    for (node, used) in in_use(world, |a| !a.terminal()) {
        let available = world.nodes.get(&node).map(Node::available).unwrap_or_default();
        assert_eq!(available.lacks(used), None, "{at}: {node} holds {used:?} of {available:?}");
    }
    for a in places(decision) {
        let node = &world.nodes[&a.node_id];
        assert!(allowed(spec, node), "{at}: {} on {}", a.name, a.node_name);
    }
    let live: Vec<&Allocation> =
        world.allocs.values().filter(|a| a.job == spec.key() && !a.terminal()).collect();
    let most_on = |key: &dyn Fn(&Allocation) -> String| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let of_first = live.iter().filter(|a| a.group == "g");
        of_first.for_each(|a| *counts.entry(key(a)).or_default() += 1);
        counts.into_values().max().unwrap_or(0)
    };
    let newly_settled = decision.eval.failed_groups.is_empty();
    if newly_settled && has(spec, "distinct_hosts") {
        assert!(most_on(&|a| a.node_id.to_string()) <= 1, "{at}");
    }
    if newly_settled && has(spec, "distinct_property") {
        assert!(most_on(&|a| world.nodes[&a.node_id].info.meta["rack"].clone()) <= 2, "{at}");
    }
    let count = if spec.stop { 0 } else { spec.groups.iter().map(|g| g.count).sum() };
    assert!(live.len() <= count as usize, "{at}: {} of {count}", live.len());
}
