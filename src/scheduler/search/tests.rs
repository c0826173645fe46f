//! Selections on small fleets: the choice, and what the metric says of it.

use super::*;
use crate::testing::*;
use model::counts::Counts;
use model::node::Node;
use model::resources::TOO_MANY;
use std::collections::BTreeMap;

pub(super) fn rules(seed: u64, max_levels: usize) -> SearchOptions {
    SearchOptions { algorithm: Algorithm::Binpack, seed, max_levels }
}

/// Places `n` of the spec's first group, one after the other, and returns each node's number with its metric.
fn place(nodes: Vec<Node>, spec: &JobSpec, n: usize) -> Vec<(Option<String>, AllocMetric)> {
    let fleet = Harness::of_nodes(nodes).fleet().snapshot();
    let mut proposal = ProposedAllocs::new(&fleet, &[]);
    let mut feasibility = Feasibility::new(spec, &fleet);
    let mut search =
        Search::new(spec, &spec.groups[0], &fleet, &mut feasibility, &proposal, rules(7, MAX_LEVELS));
    let job = job_of(spec.clone());
    let one = |i| {
        let (slot, metric) = search.select(&proposal, &BTreeSet::new());
        let name = slot.map(|s| {
            let mut placed = alloc(&job, i, 0);
            placed.node_id = fleet.id_at(s);
            proposal.place(s, &spec.groups[0].name, placed);
            fleet.unique_at(s).map_or(String::new(), |own| own.name.to_string())
        });
        (name, metric)
    };
    (0..n as u64).map(one).collect()
}

fn chosen(nodes: Vec<Node>, spec: &JobSpec, n: usize) -> Vec<Option<String>> {
    place(nodes, spec, n).into_iter().map(|(name, _)| name).collect()
}

fn name(n: u128) -> Option<String> {
    Some(format!("node-{n}"))
}

fn counts(pairs: &[(&str, u64)]) -> Counts {
    pairs.iter().map(|(k, v)| (k.to_string(), *v)).collect::<BTreeMap<_, _>>().into()
}

#[test]
fn the_fuller_node_wins_until_anti_affinity_outweighs_it() {
    let small = node_with(1, |i| i.capacity = amount(1_000, 1_024, 10_000));
    let out = place(vec![small, node(2)], &spec("a", 2), 2);
    assert_eq!([&out[0].0, &out[1].0], [&name(1), &name(2)]);
    let metric = &out[1].1;
    let shown: Vec<_> = metric.scores.iter().map(|s| s.scores.job_anti_affinity).collect();
    assert_eq!(shown, [0.0, -1.0]);
    assert!(metric.scores[0].normalized > metric.scores[1].normalized);
}

#[test]
fn the_spread_algorithm_takes_the_emptier_node() {
    let small = node_with(1, |i| i.capacity = amount(1_000, 1_024, 10_000));
    let mut world = Harness::of_nodes(vec![small, node(2)]);
    let spec = spec("a", 1);
    world.register(spec.clone());
    let chosen = |world: &mut Harness, algorithm| {
        world.scheduling.algorithm = algorithm;
        let decision = world.decide(&eval_of(&spec));
        places(&decision)[0].node_id
    };
    assert_eq!(chosen(&mut world, Algorithm::Binpack), node_id(1));
    assert_eq!(chosen(&mut world, Algorithm::Spread), node_id(2));
}

#[test]
fn equal_nodes_are_taken_in_the_order_of_the_seed() {
    let nodes: Vec<Node> = (0..20).map(node).collect();
    let fleet = Harness::of_nodes(nodes).fleet().snapshot();
    let spec = spec("a", 1);
    let choice = |seed| {
        let proposal = ProposedAllocs::new(&fleet, &[]);
        let mut feasibility = Feasibility::new(&spec, &fleet);
        Search::new(&spec, &spec.groups[0], &fleet, &mut feasibility, &proposal, rules(seed, MAX_LEVELS))
            .select(&proposal, &BTreeSet::new())
            .0
    };
    let choices: Vec<_> = (0..50).map(choice).collect();
    assert_eq!(choices, (0..50).map(choice).collect::<Vec<_>>());
    let distinct: std::collections::BTreeSet<_> = choices.into_iter().collect();
    assert!(distinct.len() > 10, "{distinct:?}");
}

#[test]
fn the_choice_does_not_depend_on_slots() {
    let spec = spec("a", 1);
    let ask = |fleet: &FleetSnapshot| {
        let proposal = ProposedAllocs::new(fleet, &[]);
        let mut feasibility = Feasibility::new(&spec, fleet);
        let slot =
            Search::new(&spec, &spec.groups[0], fleet, &mut feasibility, &proposal, rules(3, MAX_LEVELS))
                .select(&proposal, &BTreeSet::new())
                .0;
        slot.map(|s| fleet.id_at(s))
    };
    let mut forwards = crate::fleet::Fleet::default();
    (0..300).for_each(|n| forwards.upsert_node(&node(n)));
    let mut backwards = crate::fleet::Fleet::default();
    (300..310).for_each(|n| backwards.upsert_node(&node(n)));
    (0..300).rev().for_each(|n| backwards.upsert_node(&node(n)));
    (300..310).for_each(|n| backwards.remove_node(node_id(n)));
    assert_eq!(ask(&forwards.snapshot()), ask(&backwards.snapshot()));
}

#[test]
fn a_metric_counts_what_was_filtered_and_what_was_full() {
    let of_class = |n, class: &str, os: &str, cpu| {
        node_with(n, |i| {
            i.class = class.into();
            i.attributes.insert("kernel.name".into(), os.into());
            i.capacity.cpu_mhz = cpu;
        })
    };
    let mut no_driver = of_class(4, "", "linux", 4_000);
    no_driver.info.drivers.clear();
    let mut down = node(5);
    down.eligible = false;
    let mut elsewhere = node(6);
    elsewhere.info.datacenter = "dc2".into();
    let nodes = vec![
        of_class(1, "big", "linux", 4_000),
        of_class(2, "big", "windows", 4_000),
        of_class(3, "small", "linux", 400),
        no_driver,
        down,
        elsewhere,
    ];
    let mut spec = spec("a", 1);
    spec.datacenters = vec!["dc1".into()];
    spec.constraints.push(constraint("${attr.kernel.name}", "=", "linux"));
    let (chosen, metric) = place(nodes, &spec, 1).remove(0);
    assert_eq!(chosen, name(1));
    assert_eq!((metric.nodes_evaluated, metric.nodes_in_pool, metric.nodes_filtered), (4, 4, 2));
    assert_eq!(metric.nodes_available, counts(&[("dc1", 4)]));
    assert_eq!(metric.class_filtered, counts(&[("big", 1)]));
    let filtered = counts(&[("${attr.kernel.name} = linux", 1), ("missing drivers", 1)]);
    assert_eq!(metric.constraint_filtered, filtered);
    assert_eq!(metric.nodes_exhausted, 1);
    assert_eq!(metric.class_exhausted, counts(&[("small", 1)]));
    assert_eq!(metric.dimension_exhausted, counts(&[("cpu", 1)]));
    assert_eq!(metric.scores.len(), 1);
    assert_eq!((metric.coalesced_failures, metric.scores[0].node_id), (0, node_id(1)));
}

#[test]
fn a_metric_shows_the_five_best_nodes_best_first() {
    let nodes = (1..=8).map(|n| node_with(n, |i| i.capacity.cpu_mhz = 1_000 * n as i64));
    let (chosen, metric) = place(nodes.collect(), &spec("a", 1), 1).remove(0);
    assert_eq!(chosen, name(1));
    let ids: Vec<_> = metric.scores.iter().map(|s| s.node_id).collect();
    assert_eq!(ids, (1..=5).map(node_id).collect::<Vec<_>>());
}

#[test]
fn every_dimension_can_be_exhausted() {
    for (cpu, memory, disk, dimension) in
        [(499, 8_192, 9_999, "cpu"), (4_000, 255, 9_999, "memory"), (4_000, 8_192, 299, "disk")]
    {
        let small = node_with(1, |i| i.capacity = amount(cpu, memory, disk));
        let (chosen, metric) = place(vec![small], &spec("a", 1), 1).remove(0);
        assert_eq!((chosen, metric.dimension_exhausted), (None, counts(&[(dimension, 1)])));
    }
}

#[test]
fn reserved_resources_are_not_given_away() {
    let reserving = node_with(1, |i| i.reserved = amount(3_600, 0, 0));
    assert_eq!(chosen(vec![reserving], &spec("a", 1), 1), [None]);
}

#[test]
fn a_node_is_exhausted_when_the_plan_has_filled_it() {
    let out = place(vec![node(1)], &spec("a", 9), 9);
    assert!(out[..8].iter().all(|(n, _)| *n == name(1)));
    assert_eq!((&out[8].0, &out[8].1.dimension_exhausted), (&None, &counts(&[("cpu", 1)])));
}

#[test]
fn no_node_gets_more_allocations_than_it_takes() {
    let of_two = node_with(1, |i| (i.max_allocs, i.capacity) = (2, amount(900, 8_192, 100_000)));
    let mut small = spec("a", 3);
    small.groups[0].tasks[0].resources.cpu_mhz = 400;
    let out = place(vec![of_two], &small, 3);
    assert!(out[..2].iter().all(|(n, _)| *n == name(1)));
    // there is too little of the processor, too: the count is told first
    assert_eq!((&out[2].0, &out[2].1.dimension_exhausted), (&None, &counts(&[(TOO_MANY, 1)])));
}

#[test]
fn distinct_hosts_takes_each_node_once() {
    for (right, placed) in [("", 2), ("true", 2), ("what", 2), ("false", 3)] {
        let mut spec = spec("a", 3);
        spec.groups[0].constraints.push(constraint("", "distinct_hosts", right));
        let out = place(vec![node(1), node(2)], &spec, 3);
        assert_eq!(out.iter().filter(|(n, _)| n.is_some()).count(), placed, "{right:?}");
        let filtered = out[2].1.constraint_filtered.get("distinct_hosts");
        assert_eq!(filtered, (placed == 2).then_some(&2), "{right:?}");
    }
}

#[test]
fn distinct_property_limits_allocs_per_value() {
    let rack = |n, rack: &str| node_with(n, |i| drop(i.meta.insert("rack".into(), rack.into())));
    let nodes = || vec![rack(1, "r1"), rack(2, "r1"), rack(3, "r2"), node(4)];
    for (right, placed) in [("", 2), ("1", 2), ("2", 4), ("x", 0)] {
        let mut spec = spec("a", 6);
        spec.constraints.push(constraint("${meta.rack}", "distinct_property", right));
        let out = place(nodes(), &spec, 6);
        assert_eq!(out.iter().filter(|(n, _)| n.is_some()).count(), placed, "{right:?}");
        let last = &out[5].1;
        assert_eq!((last.nodes_filtered, last.nodes_exhausted), (4, 0), "{right:?}");
        assert_eq!(last.constraint_filtered.get("missing property \"${meta.rack}\""), Some(&1));
    }
}

#[test]
fn distinct_property_names_the_full_value() {
    let rack = node_with(1, |i| drop(i.meta.insert("rack".into(), "r1".into())));
    let mut spec = spec("a", 2);
    spec.groups[0].constraints.push(constraint("${meta.rack}", "distinct_property", ""));
    let out = place(vec![rack], &spec, 2);
    let text = "distinct_property: ${meta.rack}=r1 used by 1 allocs";
    assert_eq!(out[1].1.constraint_filtered, counts(&[(text, 1)]));
}

#[test]
fn a_metric_names_a_few_full_values_and_counts_all() {
    let of_rack = |n: u128| node_with(n, |i| drop(i.meta.insert("rack".into(), format!("r{n}"))));
    let mut spec = spec("a", 13);
    spec.constraints.push(constraint("${meta.rack}", "distinct_property", ""));
    let out = place((1..=15).map(of_rack).collect(), &spec, 14);
    let metric = &out[13].1;
    assert_eq!((metric.nodes_filtered, metric.constraint_filtered.len()), (13, SHOWN_VALUES + 1));
    assert_eq!(metric.constraint_filtered["distinct_property: 3 other values used up"], 3);
    assert_eq!(metric.constraint_filtered.values().sum::<u64>(), 13);
}

#[test]
fn a_stop_opens_its_node_and_its_property_again() {
    let of_rack = |n: u128, r: &str| node_with(n, |i| drop(i.meta.insert("rack".into(), r.into())));
    let mut spec = spec("a", 2);
    spec.constraints.push(constraint("${meta.rack}", "distinct_property", ""));
    spec.constraints.push(constraint("", "distinct_hosts", ""));
    let mut world = Harness::of_nodes([of_rack(1, "r1"), of_rack(2, "r1")]);
    let job = world.register(spec.clone());
    world.add(alloc(&job, 0, 1));
    let allocs: Vec<_> = world.allocs.values().cloned().collect();
    let fleet = world.fleet().snapshot();
    let mut proposal = ProposedAllocs::new(&fleet, &allocs);
    let mut feasibility = Feasibility::new(&spec, &fleet);
    let mut search =
        Search::new(&spec, &spec.groups[0], &fleet, &mut feasibility, &proposal, rules(7, MAX_LEVELS));
    let mut found = Vec::new();
    found.push(search.select(&proposal, &BTreeSet::new()));
    proposal.stop(&allocs[0], "gone", None);
    found.push(search.select(&proposal, &BTreeSet::new()));
    proposal.cancel_stop(&allocs[0]);
    found.push(search.select(&proposal, &BTreeSet::new()));
    let open: Vec<_> = found.iter().map(|(slot, m)| (slot.is_some(), m.nodes_filtered)).collect();
    assert_eq!(open, [(false, 2), (true, 0), (false, 2)]);
    assert_eq!(found[1].1.scores.len(), 2);
}
