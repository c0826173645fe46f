//! Whether affinities and spreads can mean anything: their weights, their conditions, their targets.

use super::constraint::{constraint, target};
use super::nest;
use crate::preference::{Affinity, Spread};
use std::collections::BTreeSet;

pub fn affinities(all: &[Affinity], errors: &mut Vec<String>) {
    for (i, a) in all.iter().enumerate() {
        nest(errors, &format!("Affinity {} validation failed", i + 1), affinity(a));
    }
}

fn affinity(a: &Affinity) -> Vec<String> {
    let operand = a.condition.operand.as_str();
    let mut errors = match operand {
        "distinct_hosts" | "distinct_property" | "is_set" | "is_not_set" => {
            vec![format!("Unknown affinity operator {operand:?}; it is one that compares a value")]
        }
        _ => constraint(&a.condition),
    };
    match a.weight {
        0 => errors.push("Affinity weight cannot be zero".to_string()),
        w if !(-100..=100).contains(&w) => {
            errors.push(format!("Affinity weight must be within the range [-100, 100], not {w}"));
        }
        _ => {}
    }
    errors
}

pub fn spreads(all: &[Spread], errors: &mut Vec<String>) {
    for (i, s) in all.iter().enumerate() {
        nest(errors, &format!("Spread {} validation failed", i + 1), spread(s));
    }
}

fn spread(s: &Spread) -> Vec<String> {
    let mut errors = Vec::new();
    if s.attribute.is_empty() {
        errors.push("Missing spread attribute".to_string());
    } else {
        target(&s.attribute, &mut errors);
    }
    if !(1..=100).contains(&s.weight) {
        errors.push(format!("Spread block must have a weight from 1 to 100, not {}", s.weight));
    }
    let mut values = BTreeSet::new();
    let mut sum = 0_i64;
    for t in &s.targets {
        if !values.insert(&t.value) {
            errors.push(format!("Spread target value {:?} already defined", t.value));
        }
        if !(0..=100).contains(&t.percent) {
            errors.push(format!("Spread target percentage for value {:?} must be from 0 to 100", t.value));
        }
        sum = sum.saturating_add(t.percent);
    }
    if sum > 100 {
        errors.push(format!("Sum of spread target percentages must not be greater than 100%; got {sum}%"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::Constraint;
    use crate::preference::SpreadTarget;

    #[test]
    fn affinities_are_checked() {
        for (operand, weight, error) in [
            ("=", 50, None),
            ("=", -100, None),
            ("set_contains_any", 100, None),
            ("=", 0, Some("Affinity weight cannot be zero")),
            ("=", 101, Some("within the range [-100, 100], not 101")),
            ("=", -101, Some("within the range [-100, 100], not -101")),
            ("distinct_hosts", 50, Some("Unknown affinity operator \"distinct_hosts\"")),
            ("is_set", 50, Some("Unknown affinity operator \"is_set\"")),
            ("almost", 50, Some("Unknown constraint type")),
        ] {
            let condition =
                Constraint { left: "${meta.a}".into(), operand: operand.into(), right: "b".into() };
            expect(affinity(&Affinity { condition, weight }), error);
        }
    }

    #[test]
    fn spreads_are_checked() {
        type Case = (&'static str, i64, &'static [(&'static str, i64)], Option<&'static str>);
        let cases: [Case; 8] = [
            ("${node.datacenter}", 50, &[], None),
            ("${node.datacenter}", 1, &[("a", 70), ("b", 30)], None),
            ("", 50, &[], Some("Missing spread attribute")),
            ("${node.colour}", 50, &[], Some("is no property of a node")),
            ("${meta.a}", 0, &[], Some("weight from 1 to 100, not 0")),
            ("${meta.a}", 50, &[("a", 70), ("b", 31)], Some("greater than 100%; got 101%")),
            ("${meta.a}", 50, &[("a", 7), ("a", 3)], Some("\"a\" already defined")),
            ("${meta.a}", 50, &[("a", -1)], Some("must be from 0 to 100")),
        ];
        for (attribute, weight, targets, error) in cases {
            let target =
                |(v, percent): &(&str, i64)| SpreadTarget { value: v.to_string(), percent: *percent };
            let targets = targets.iter().map(target).collect();
            expect(spread(&Spread { attribute: attribute.into(), weight, targets }), error);
        }
    }

    fn expect(errors: Vec<String>, wanted: Option<&str>) {
        let found = errors.len() == wanted.iter().len()
            && wanted.is_none_or(|w| errors.iter().all(|e| e.contains(w)));
        assert!(found, "{errors:?}, {wanted:?}");
    }
}
