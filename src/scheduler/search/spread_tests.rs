//! Where the allocations of a group with spread blocks end up, on fleets of equal, empty nodes.

use crate::testing::*;
use model::job::JobSpec;
use model::node::Node;
use model::preference::{Spread, SpreadTarget};
use std::collections::BTreeMap;

const SEEDS: u64 = 20;

fn spread(attribute: &str, targets: &[(&str, i64)]) -> Spread {
    let target =
        |(value, percent): &(&str, i64)| SpreadTarget { value: value.to_string(), percent: *percent };
    Spread { attribute: attribute.into(), weight: 50, targets: targets.iter().map(target).collect() }
}

/// This many equal nodes in each datacenter and rack.
fn fleet(places: &[(&str, &str)], each: usize) -> Vec<Node> {
    let nodes = places.iter().flat_map(|place| std::iter::repeat_n(place, each)).zip(1..);
    let node = |((dc, rack), n): (&(&str, &str), u128)| {
        node_with(n, |i| {
            i.datacenter = dc.to_string();
            i.meta.insert("rack".into(), rack.to_string());
        })
    };
    nodes.map(node).collect()
}

/// How many end up in each place, all of them placed, for every one of some seeds: the smallest count first where no
/// place is named.
fn placed(nodes: &[Node], spec: &JobSpec) -> Vec<BTreeMap<String, u64>> {
    let one = |seed| {
        let mut world = Harness::of_nodes(nodes.to_vec());
        world.seeds = seed * 1_000;
        world.register(spec.clone());
        let decision = world.run(spec);
        let mut counts = BTreeMap::new();
        for a in places(&decision) {
            let info = &world.nodes[&a.node_id].info;
            *counts.entry(format!("{} {}", info.datacenter, info.meta["rack"])).or_default() += 1;
        }
        assert_eq!(counts.values().sum::<u64>(), spec.groups[0].count as u64);
        counts
    };
    (0..SEEDS).map(one).collect()
}

fn expect(places: &[(&str, &str)], spreads: Vec<Spread>, count: i64, wanted: &[(&str, u64)]) {
    for each in [3, 10] {
        // From small tasks to such that only two fit onto a node.
        for (cpu, memory) in [(100, 64), (500, 256), (900, 1_000), (400, 1_500)] {
            let mut spec = spec("a", count);
            spec.groups[0].spreads = spreads.clone();
            (spec.groups[0].tasks[0].resources.cpu_mhz, spec.groups[0].tasks[0].resources.memory_mb) =
                (cpu, memory);
            for (seed, counts) in placed(&fleet(places, each), &spec).into_iter().enumerate() {
                let found: Vec<(&str, u64)> = counts.iter().map(|(k, v)| (k.as_str(), *v)).collect();
                assert_eq!(found, wanted, "{each} nodes each, {cpu} MHz, seed {seed}");
            }
        }
    }
}

const TWO: [(&str, &str); 2] = [("us-east1", ""), ("us-west1", "")];

#[test]
fn evenly_across_datacenters() {
    expect(&TWO, vec![spread("${node.datacenter}", &[])], 10, &[("us-east1 ", 5), ("us-west1 ", 5)]);
}

#[test]
fn by_two_percentages() {
    let spreads = vec![spread("${node.datacenter}", &[("us-east1", 60), ("us-west1", 40)])];
    expect(&TWO, spreads, 10, &[("us-east1 ", 6), ("us-west1 ", 4)]);
}

#[test]
fn by_one_percentage_with_the_rest_shared() {
    let places = [("us-east1", ""), ("us-east2", ""), ("us-west1", "")];
    for each in [3, 10] {
        let mut spec = spec("a", 10);
        spec.groups[0].spreads = vec![spread("${node.datacenter}", &[("us-east1", 50)])];
        for counts in placed(&fleet(&places, each), &spec) {
            let mut rest = [counts["us-east2 "], counts["us-west1 "]];
            rest.sort();
            assert_eq!((counts["us-east1 "], rest), (5, [2, 3]), "{each} nodes each");
        }
    }
}

#[test]
fn across_datacenters_and_racks_within() {
    let places = [("us-east1", "r1"), ("us-east1", "r2"), ("us-west1", "r1"), ("us-west1", "r2")];
    let wanted = [("us-east1 r1", 3), ("us-east1 r2", 3), ("us-west1 r1", 3), ("us-west1 r2", 3)];
    let even = vec![spread("${node.datacenter}", &[]), spread("${meta.rack}", &[])];
    let halves = vec![
        spread("${node.datacenter}", &[("us-east1", 50), ("us-west1", 50)]),
        spread("${meta.rack}", &[("r1", 50), ("r2", 50)]),
    ];
    for spreads in [even, halves] {
        expect(&places, spreads, 12, &wanted);
    }
}
