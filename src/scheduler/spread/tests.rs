//! The arithmetic of single blocks, from worked examples.

use super::*;
use crate::testing::{Harness, node_with, spec};

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// Nodes in dc1, dc2 and dc3; the blocks of a job with these spreads, with `used` of its group in each datacenter.
fn boosts(spreads: &[(i64, &[(&str, i64)])], count: i64, used: [i64; 3], by_value: bool) -> [f64; 3] {
    let dc = |n| node_with(n, |i| i.datacenter = format!("dc{n}"));
    let fleet = Harness::of_nodes((1..=3).map(dc)).fleet().snapshot();
    let mut spec = spec("a", count);
    spec.spreads = spreads
        .iter()
        .map(|(weight, targets)| Spread {
            attribute: "${node.datacenter}".into(),
            weight: *weight,
            targets: targets
                .iter()
                .map(|(v, percent)| SpreadTarget { value: v.to_string(), percent: *percent })
                .collect(),
        })
        .collect();
    let slots: Vec<u32> = fleet.occupied_slots().collect();
    let mut blocks = SpreadBlock::all(&spec, &spec.groups[0], &fleet, &slots);
    blocks.iter_mut().for_each(|b| b.by_value = by_value);
    let value = |b: &SpreadBlock, dc: usize| {
        let mut all = slots.iter().map(|slot| b.values().at(*slot));
        all.find(|v| b.values().text(*v) == format!("dc{}", dc + 1)).expect("every datacenter has a node")
    };
    for block in &mut blocks {
        for (dc, used) in used.iter().enumerate() {
            let value = value(block, dc);
            block.count(value, *used);
        }
    }
    let lowest = blocks.iter().map(SpreadBlock::lowest).fold(WORST, f64::min);
    [0, 1, 2].map(|dc| blocks.iter().map(|b| b.boost(b.value_key(value(b, dc)), lowest)).sum())
}

#[test]
fn worked_examples_with_targets() {
    let both: &[(&str, i64)] = &[("dc1", 70), ("dc2", 30)];
    let one: &[(&str, i64)] = &[("dc1", 70)];
    let none: &[(&str, i64)] = &[("dc1", 100), ("dc2", 0)];
    type Case<'a> = (&'a [(&'a str, i64)], [i64; 3], [f64; 3]);
    let cases: [Case; 7] = [
        (both, [0, 0, 0], [0.857143, 0.666667, -1.0]),
        (both, [3, 1, 0], [0.428571, 0.333333, -1.0]),
        (both, [7, 0, 0], [-0.142857, 0.666667, -1.0]),
        (one, [0, 0, 0], [0.857143, 0.666667, 0.666667]),
        (one, [0, 1, 1], [0.857143, 0.0, 0.0]),
        (none, [0, 0, 0], [0.9, -1.0, -1.0]),
        (none, [25, 0, 0], [-1.6, -1.6, -1.0]),
    ];
    for (targets, used, want) in cases {
        for by_value in [true, false] {
            let found = boosts(&[(60, targets)], 10, used, by_value);
            assert!((0..3).all(|i| close(found[i], want[i])), "{targets:?} {used:?}: {found:?}");
        }
    }
}

#[test]
fn worked_example_of_two_weights() {
    let boost = |desired, used, weight| {
        let target_counts = vec![TargetCount { desired: Some(desired), used, share: 0.0 }];
        Targets { target_of: vec![0], target_counts, weight: weight / 75.0 }.boost(0, WORST)
    };
    let (first, second) = (boost(5.0, 2, 50.0), boost(2.0, 0, 25.0));
    assert!(close(first, 0.266667) && close(second, 0.166667) && close(first + second, 0.433333));
}

#[test]
fn worked_examples_without_targets() {
    type Case = ([i64; 3], [f64; 3]);
    let cases: [Case; 4] = [
        ([0, 0, 0], [0.0, 0.0, 0.0]),
        ([3, 1, 0], [-2.0, 2.0, 1.0]),
        ([2, 2, 0], [-1.0, -1.0, 1.0]),
        ([2, 2, 2], [-1.0, -1.0, -1.0]),
    ];
    for (used, want) in cases {
        for by_value in [true, false] {
            assert_eq!(boosts(&[(50, &[])], 10, used, by_value), want, "{used:?}");
        }
    }
}

#[test]
fn a_node_without_the_spread_value_is_the_worst() {
    let spec = {
        let mut spec = spec("a", 2);
        spec.groups[0].spreads =
            vec![Spread { attribute: "${meta.rack}".into(), weight: 50, targets: vec![] }];
        spec
    };
    let fleet = Harness::of_nodes([node_with(1, |_| {})]).fleet().snapshot();
    let block = SpreadBlock::all(&spec, &spec.groups[0], &fleet, &[0]).remove(0);
    assert_eq!((block.boost(block.value_key(MISSING), -7.0), block.share(MISSING)), (WORST, 0.0));
}
