//! The search against a plain reckoning, written independently of it: on small random fleets, with spreads, affinities, penalties,
//! staged stops and distinct properties mixed, every choice has the best score there is, and every score shown is right.

use super::tests::rules;
use super::*;
use crate::testing::*;
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::claims::{HeldNetwork, HeldPort, Network, NodeAddress, NodeOffers, Port, PortRange};
use model::id::NodeId;
use model::node::Node;
use model::preference::{Affinity, Spread, SpreadTarget};
use model::random::Stream;
use std::collections::{BTreeMap, BTreeSet};

const WORLDS: u64 = 600;
const STEPS: u64 = 24;
const ATTRIBUTES: [&str; 5] =
    ["${node.datacenter}", "${meta.rack}", "${node.unique.id}", "${meta.unique.tag}", "${node.class}"];

struct Dice(Stream);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len() as u64) as usize]
    }

    fn node(&mut self, n: u128) -> Node {
        let mut node = node_with(n, |i| {
            i.datacenter = self.pick(&["dc1", "dc1", "dc2", "dc3"]).into();
            i.class = self.pick(&["", "big"]).into();
            i.capacity = amount(2_000 + 500 * self.below(3) as i64, 2_048, 100_000);
            i.max_allocs = [0, 0, 4][n as usize % 3];
            if self.below(5) > 0 {
                i.meta.insert("rack".into(), self.pick(&["r1", "r2", "r3"]).into());
            }
            if self.below(3) > 0 {
                i.meta.insert("unique.tag".into(), self.pick(&["a", "b", "c", "d"]).into());
            }
        });
        node.eligible = self.below(8) > 0;
        let addresses = if self.below(6) > 0 { vec![lan()] } else { vec![] };
        let reserved = self.pick(&["", "", "8080", "20001"]);
        let max = 20_000 + self.below(4) as u16;
        let dynamic_ports = PortRange { min: 20_000, max };
        node.info.offers =
            NodeOffers { addresses, dynamic_ports, reserved_ports: reserved.into(), ..NodeOffers::default() };
        node
    }

    /// Some free to choose, or one by number.
    fn network(&mut self) -> Network {
        let port =
            |label: &str, value| Port { label: label.into(), value, to: 0, host_network: "lan".into() };
        let (fixed, free) = [(0, 0), (0, 0), (1, 0), (0, 1), (0, 2), (1, 1)][self.below(6) as usize];
        let reserved = (0..fixed).map(|_| port("web", 8_080)).collect();
        let dynamic = (0..free).map(|n| port(["a", "b"][n], 0)).collect();
        Network { reserved, dynamic, ..Network::default() }
    }

    fn spread(&mut self) -> Spread {
        let attribute = self.pick(&ATTRIBUTES);
        let values: &[&str] = match attribute {
            "${node.datacenter}" => &["dc1", "dc2", "dc9"],
            "${meta.rack}" => &["r1", "r2", "*"],
            _ => &[],
        };
        let percents = [[70, 30, 0], [50, 20, 10], [0, 60, 40], [0, 0, 0]][self.below(4) as usize];
        let wanted = if self.below(2) == 0 { 0 } else { self.below(4) as usize };
        let targets = values.iter().zip(percents).take(wanted);
        let targets = targets.map(|(v, percent)| SpreadTarget { value: v.to_string(), percent }).collect();
        Spread { attribute: attribute.into(), weight: 1 + self.below(100) as i64, targets }
    }

    fn affinity(&mut self) -> Affinity {
        let (left, right) = [("${node.datacenter}", "dc1"), ("${meta.rack}", "r2"), ("${node.class}", "big")]
            [self.below(3) as usize];
        let weight = [-100, -50, 50, 50, 100][self.below(5) as usize];
        Affinity { condition: constraint(left, "=", right), weight }
    }

    fn spec(&mut self) -> JobSpec {
        let mut spec = spec("a", 1 + self.below(12) as i64);
        spec.spreads = (0..self.below(2)).map(|_| self.spread()).collect();
        spec.affinities = (0..self.below(2)).map(|_| self.affinity()).collect();
        let network = self.network();
        let group = &mut spec.groups[0];
        if network.ports().next().is_some() {
            group.networks = vec![network];
        }
        group.spreads = (0..self.below(3)).map(|_| self.spread()).collect();
        group.affinities = (0..self.below(2)).map(|_| self.affinity()).collect();
        group.tasks[0].affinities = (0..self.below(2)).map(|_| self.affinity()).collect();
        if self.below(4) == 0 {
            let allowed = (1 + self.below(4)).to_string();
            group.constraints.push(constraint("${meta.rack}", "distinct_property", &allowed));
        }
        if self.below(5) == 0 {
            group.constraints.push(constraint("", "distinct_hosts", "true"));
        }
        spec
    }
}

fn lan() -> NodeAddress {
    NodeAddress { alias: "lan".into(), address: "10.0.0.1".into(), ..NodeAddress::default() }
}

fn value(node: &Node, attribute: &str) -> Option<String> {
    match attribute {
        "${node.datacenter}" => Some(node.info.datacenter.clone()),
        "${node.class}" => Some(node.info.class.clone()),
        "${node.unique.id}" => Some(node.info.id.to_string()),
        "${meta.rack}" => node.info.meta.get("rack").cloned(),
        _ => node.info.meta.get("unique.tag").cloned(),
    }
}

/// The allocations of the one group, as the plan leaves them.
struct BruteForce<'t> {
    spec: &'t JobSpec,
    nodes: BTreeMap<NodeId, &'t Node>,
    /// On which node, and whether it is still wanted there. All of them hold resources.
    allocs: Vec<(NodeId, bool)>,
}

impl BruteForce<'_> {
    fn group(&self) -> &TaskGroup {
        &self.spec.groups[0]
    }

    fn candidates(&self) -> impl Iterator<Item = &Node> {
        let asks = self.group().networks.iter().flat_map(Network::ports).count() > 0;
        self.nodes
            .values()
            .copied()
            .filter(move |n| n.eligible && (!asks || !n.info.offers.addresses.is_empty()))
    }

    fn wanted(&self) -> impl Iterator<Item = &Node> {
        self.allocs.iter().filter(|(_, wanted)| *wanted).map(|(id, _)| self.nodes[id])
    }

    fn spreads(&self) -> Vec<&Spread> {
        self.spec.spreads.iter().chain(&self.group().spreads).collect()
    }

    /// The score of every node that may be chosen.
    fn scores(&self, penalized: &[NodeId]) -> BTreeMap<NodeId, f64> {
        let may = self.candidates().filter(|n| self.allowed(n));
        may.map(|n| (n.info.id, self.score(n, penalized))).collect()
    }

    fn allowed(&self, node: &Node) -> bool {
        let here = self.allocs.iter().filter(|(id, _)| *id == node.info.id).count() as i64;
        let takes = |n| node.info.max_allocs == 0 || n <= i64::from(node.info.max_allocs);
        let has_room = takes(here + 1) && (here + 1) * 500 <= node.info.capacity.cpu_mhz;
        let fits = has_room && ports_left(self.group(), node, here);
        fits && self.group().constraints.iter().all(|c| match c.operand.as_str() {
            "distinct_hosts" => here == 0,
            _ => {
                let rack = value(node, &c.left);
                let used = self.wanted().filter(|n| value(n, &c.left) == rack).count();
                rack.is_some() && used < c.right.parse::<usize>().unwrap()
            }
        })
    }

    fn score(&self, node: &Node, penalized: &[NodeId]) -> f64 {
        let here = self.allocs.iter().filter(|(id, _)| *id == node.info.id).count() as f64;
        let left = |all: i64, each: f64| 10f64.powf(1.0 - (here + 1.0) * each / all as f64);
        let (cpu, memory) = (node.info.capacity.cpu_mhz, node.info.capacity.memory_mb);
        let mut parts = vec![(20.0 - left(cpu, 500.0) - left(memory, 256.0)).clamp(0.0, 18.0) / 18.0];
        if here > 0.0 {
            parts.push(-(here + 1.0) / self.group().count as f64);
        }
        if penalized.contains(&node.info.id) {
            parts.push(-1.0);
        }
        let affinities = self.spec.affinities.iter().chain(&self.group().affinities);
        let affinities: Vec<&Affinity> = affinities.chain(&self.group().tasks[0].affinities).collect();
        let meets = |a: &&&Affinity| value(node, &a.condition.left).as_deref() == Some(&a.condition.right);
        let met: i64 = affinities.iter().filter(meets).map(|a| a.weight).sum();
        if met != 0 {
            parts.push(met as f64 / affinities.iter().map(|a| a.weight.abs()).sum::<i64>() as f64);
        }
        let spread = self.spread(node);
        if spread != 0.0 {
            parts.push(spread);
        }
        parts.iter().sum::<f64>() / parts.len() as f64
    }

    fn spread(&self, node: &Node) -> f64 {
        let spreads = self.spreads();
        let alone: f64 = spreads.iter().map(|s| self.block(s, node)).sum();
        if spreads.len() < 2 {
            return alone;
        }
        let share = self.share(node);
        if share == 0.0 {
            return alone - 1.0;
        }
        let together = |n: &Node| spreads.iter().map(|s| value(n, &s.attribute)).collect::<Vec<_>>();
        let mut used: BTreeMap<_, f64> = BTreeMap::new();
        for n in self.wanted().filter(|n| self.share(n) > 0.0) {
            *used.entry(together(n)).or_default() += 1.0;
        }
        let by_share: BTreeMap<_, f64> = self
            .nodes
            .values()
            .filter_map(|n| used.get(&together(n)).map(|u| (together(n), u / self.share(n))))
            .collect();
        alone + even(&by_share, &together(node))
    }

    fn block(&self, s: &Spread, node: &Node) -> f64 {
        let Some(here) = value(node, &s.attribute) else { return -1.0 };
        let mut used: BTreeMap<String, f64> = BTreeMap::new();
        for v in self.wanted().filter_map(|n| value(n, &s.attribute)) {
            *used.entry(v).or_default() += 1.0;
        }
        if s.targets.is_empty() {
            return even(&used, &here);
        }
        match self.boost(s, &here, &used) {
            Some(Some(boost)) => boost,
            None => -1.0,
            Some(None) => self.lowest(),
        }
    }

    /// The lowest that any target with something to place is worth, over all blocks.
    fn lowest(&self) -> f64 {
        let mut lowest = -1.0_f64;
        for s in self.spreads() {
            let values: BTreeSet<String> =
                self.nodes.values().filter_map(|n| value(n, &s.attribute)).collect();
            let named = s.targets.iter().map(|t| t.value.clone());
            let used = values.iter().map(|v| {
                let at = self.wanted().filter(|n| value(n, &s.attribute).as_ref() == Some(v)).count();
                (v.clone(), at as f64)
            });
            let used: BTreeMap<String, f64> = used.collect();
            let any_other = "no value of any node".to_string();
            for v in named.chain([any_other]).filter(|v| v != "*") {
                lowest = lowest.min(self.boost(s, &v, &used).flatten().unwrap_or(0.0));
            }
        }
        lowest
    }

    /// None: no target wants the value. Some(None): one wants none of it.
    fn boost(&self, s: &Spread, here: &str, used: &BTreeMap<String, f64>) -> Option<Option<f64>> {
        let count = self.group().count as f64;
        let desired = |t: &SpreadTarget| t.percent as f64 / 100.0 * count;
        let weights: i64 = self.spreads().iter().map(|s| s.weight).sum();
        let named = |v: &str| s.targets.iter().find(|t| t.value == v && v != "*");
        let (desired, used) = match named(here) {
            Some(t) => (desired(t), used.get(here).copied().unwrap_or(0.0)),
            None => (self.rest(s)?, used.iter().filter(|(v, _)| named(v).is_none()).map(|(_, n)| n).sum()),
        };
        let weight = s.weight as f64 / weights as f64;
        Some((desired > 0.0).then(|| (desired - (used + 1.0)) / desired * weight))
    }

    /// How many of the group belong to values that no target names.
    fn rest(&self, s: &Spread) -> Option<f64> {
        let count = self.group().count as f64;
        let sum: f64 = s.targets.iter().map(|t| t.percent as f64 / 100.0 * count).sum();
        let given = s.targets.iter().find(|t| t.value == "*").map(|t| t.percent as f64 / 100.0 * count);
        given.or((sum > 0.0 && sum < count).then_some(count - sum))
    }

    fn share(&self, node: &Node) -> f64 {
        let one = |s: &&Spread| {
            let Some(here) = value(node, &s.attribute) else { return 0.0 };
            let live: BTreeSet<String> = self.candidates().filter_map(|n| value(n, &s.attribute)).collect();
            if s.targets.is_empty() {
                return 1.0 / live.len().max(1) as f64;
            }
            let named = |v: &String| s.targets.iter().any(|t| t.value == *v && v != "*");
            match s.targets.iter().find(|t| t.value == here && here != "*") {
                Some(t) => t.percent as f64 / 100.0,
                None => {
                    let others = live.iter().filter(|v| !named(v)).count().max(1) as i64;
                    self.rest(s).unwrap_or(0.0) / (self.group().count * others) as f64
                }
            }
        };
        self.spreads().iter().map(one).product()
    }
}

fn even<K: Ord>(used: &BTreeMap<K, f64>, here: &K) -> f64 {
    let least = used.values().copied().fold(f64::INFINITY, f64::min);
    let most = used.values().copied().fold(0.0, f64::max);
    match used.get(here).copied().unwrap_or(0.0) {
        _ if used.is_empty() => 0.0,
        n if n != least => (least - n) / least,
        _ if least == most => -1.0,
        _ => (most - least) / least,
    }
}

/// By count: every allocation takes the fixed number, and so many of the others.
fn ports_left(group: &TaskGroup, node: &Node, here: i64) -> bool {
    let Some(network) = group.networks.first() else { return true };
    let offers = &node.info.offers;
    let fixed = network.reserved.is_empty() || here == 0 && offers.reserved_ports != "8080";
    let range = offers.dynamic_ports;
    let mut free = i64::from(range.max - range.min) + 1;
    if offers.reserved_ports == "20001" && range.max >= 20_001 {
        free -= 1;
    }
    fixed && (here + 1) * network.dynamic.len() as i64 <= free
}

/// What the group takes on a node where `before` of them are.
fn held(job: &model::job::Job, node: &Node, before: usize) -> Vec<HeldNetwork> {
    let reserved = &node.info.offers.reserved_ports;
    let free = (20_000..).filter(|p: &u16| p.to_string() != *reserved);
    let network = |n: &Network| {
        let fixed = n.reserved.iter().map(|p| p.value as u16);
        let ports = fixed.chain(free.clone().skip(before * n.dynamic.len()).take(n.dynamic.len()));
        let port = |value| HeldPort { value, host_ip: "10.0.0.1".into(), ..HeldPort::default() };
        HeldNetwork { ports: ports.map(port).collect(), ..HeldNetwork::default() }
    };
    job.spec.groups[0].networks.iter().map(network).collect()
}

fn existing(job: &model::job::Job, nodes: &[Node], dice: &mut Dice) -> Vec<Allocation> {
    let count = dice.below(5);
    let mut before = BTreeMap::new();
    let one = |i| {
        let at = dice.below(nodes.len() as u64);
        let mut a = alloc(job, i, u128::from(at));
        let here = before.entry(at).or_insert(0);
        let node = &nodes[at as usize];
        if !ports_left(&job.spec.groups[0], node, *here as i64) {
            return None;
        }
        a.resources.networks = held(job, node, *here);
        *here += 1;
        if dice.below(4) == 0 {
            (a.desired, a.client) = (DesiredStatus::Stop, ClientStatus::Running);
        }
        Some(a)
    };
    (0..count).filter_map(one).collect()
}

#[test]
fn every_choice_has_the_best_score_and_every_score_is_right() {
    let (mut choices, mut none) = (0, 0);
    for seed in 0..WORLDS {
        let dice = &mut Dice(Stream::new(seed, 5));
        let count = 2 + dice.below(12);
        let nodes: Vec<Node> = (0..count).map(|n| dice.node(u128::from(n))).collect();
        let job = job_of(dice.spec());
        let allocs = existing(&job, &nodes, dice);
        let mut world = Harness::of_nodes(nodes.clone());
        world.allocs.extend(allocs.iter().map(|a| (a.id, a.clone())));
        let fleet = world.fleet().snapshot();
        let mut proposal = ProposedAllocs::new(&fleet, &allocs);
        let mut feasibility = Feasibility::new(&job.spec, &fleet);
        let group = &job.spec.groups[0];
        let levels = if seed % 2 == 0 { MAX_LEVELS } else { dice.below(12) as usize };
        let mut search =
            Search::new(&job.spec, group, &fleet, &mut feasibility, &proposal, rules(seed, levels));
        let mut reckoner = BruteForce {
            spec: &job.spec,
            nodes: nodes.iter().map(|n| (n.info.id, n)).collect(),
            allocs: allocs.iter().map(|a| (a.node_id, !a.server_terminal())).collect(),
        };
        let mut picks = Stream::new(seed, 6);
        for step in 0..STEPS {
            if step % 5 == 1
                && let Some(stopped) = allocs.get(step as usize / 5)
            {
                proposal.stop(stopped, "gone", None);
                let at =
                    reckoner.allocs.iter().position(|a| *a == (stopped.node_id, !stopped.server_terminal()));
                reckoner.allocs.remove(at.expect("it was not stopped before"));
            }
            let penalized: BTreeSet<u32> = (0..dice.below(3)).map(|_| dice.below(count) as u32).collect();
            let ids: Vec<NodeId> = penalized.iter().map(|slot| fleet.id_at(*slot)).collect();
            let (slot, metric) = search.select(&proposal, &penalized);
            let mut wanted: Vec<f64> = reckoner.scores(&ids).into_values().collect();
            wanted.sort_by(|a, b| b.total_cmp(a));
            wanted.truncate(SHOWN_SCORES);
            let scores = reckoner.scores(&ids);
            let shown: Vec<f64> = metric.scores.iter().map(|s| s.normalized).collect();
            let near = |a: &f64, b: &f64| (a - b).abs() < 1e-9;
            let right = shown.len() == wanted.len() && shown.iter().zip(&wanted).all(|(a, b)| near(a, b));
            assert!(right, "seed {seed} step {step}: {shown:?}, brute_force {wanted:?}\n{:#?}", job.spec);
            assert!(metric.scores.iter().all(|s| near(&s.normalized, &scores[&s.node_id])), "seed {seed}");
            assert_eq!(slot.map(|s| fleet.id_at(s)), metric.scores.first().map(|s| s.node_id));
            let Some(slot) = slot else {
                none += 1;
                continue;
            };
            choices += 1;
            let mut placed = alloc(&job, 100 + step, 0);
            placed.node_id = fleet.id_at(slot);
            placed.resources = search.resources(&proposal, slot, &mut picks).expect("there is room");
            reckoner.allocs.push((placed.node_id, true));
            proposal.place(slot, &group.name, placed);
        }
    }
    assert!(choices > 5_000 && none > 500, "{choices} choices and {none} without any are too few");
}
