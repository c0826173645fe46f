//! The values that one property has in a fleet, as small numbers, and so the combinations of several properties' values: for
//! whoever counts allocations by value.
//! Refuses to know what is counted and why.

use super::fleet::{FleetSnapshot, Profile};
use super::operand::ConstraintTarget;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The number of a value; `MISSING` for a node that has none.
pub type ValueId = u32;
pub const MISSING: ValueId = ValueId::MAX;

enum Texts<'a> {
    /// By number.
    Known(Vec<&'a str>),
    /// The ids of all nodes: each one's number is its slot.
    NodeIds(&'a FleetSnapshot),
}

pub struct Values<'a> {
    /// By slot.
    of_slot: Vec<ValueId>,
    texts: Texts<'a>,
}

impl<'a> Values<'a> {
    pub fn new(target: ConstraintTarget<'a>, fleet: &'a FleetSnapshot) -> Self {
        if target == ConstraintTarget::NodeId {
            let of_slot = (0..fleet.slots() as u32).collect();
            return Values { of_slot, texts: Texts::NodeIds(fleet) };
        }
        let mut numbers = Numbers::default();
        let mut of_slot = vec![MISSING; fleet.slots()];
        if target.unique() {
            for slot in fleet.occupied_slots() {
                let Some((profile, own)) = fleet.profile_at(slot).zip(fleet.unique_at(slot)) else {
                    continue;
                };
                of_slot[slot as usize] = numbers.of(target.resolve_own(profile, own));
            }
        } else {
            let text = |p: Option<&'a Profile>| p.and_then(|p| target.resolve_shared(p));
            let by_profile: Vec<ValueId> = fleet.profiles().map(|p| numbers.of(text(p))).collect();
            for slot in fleet.occupied_slots() {
                of_slot[slot as usize] = by_profile[fleet.profile_index_at(slot) as usize];
            }
        }
        Values { of_slot, texts: Texts::Known(numbers.texts) }
    }

    pub fn at(&self, slot: u32) -> ValueId {
        self.of_slot.get(slot as usize).copied().unwrap_or(MISSING)
    }

    /// How many numbers there are: all are below this.
    pub fn len(&self) -> usize {
        match &self.texts {
            Texts::Known(texts) => texts.len(),
            Texts::NodeIds(_) => self.of_slot.len(),
        }
    }

    pub fn text(&self, value: ValueId) -> Cow<'a, str> {
        match &self.texts {
            Texts::Known(texts) => Cow::Borrowed(texts.get(value as usize).copied().unwrap_or_default()),
            Texts::NodeIds(fleet) => Cow::Owned(fleet.id_at(value).to_string()),
        }
    }
}

#[derive(Default)]
struct Numbers<'a> {
    known: BTreeMap<&'a str, ValueId>,
    texts: Vec<&'a str>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, text: Option<&'a str>) -> ValueId {
        let Some(text) = text else { return MISSING };
        let next = self.texts.len() as ValueId;
        let number = *self.known.entry(text).or_insert(next);
        if number == next {
            self.texts.push(text);
        }
        number
    }
}

/// Combinations of a value of each of several properties, numbered in the order in which they come.
pub struct Combinations {
    first: First,
    further: Vec<Further>,
}

struct First {
    /// By value, the last for a node without one.
    known: Vec<u32>,
    next: u32,
}

#[derive(Default)]
struct Further {
    /// By the number of the combination so far, and the value.
    known: BTreeMap<(u32, ValueId), u32>,
    next: u32,
}

impl Combinations {
    /// `lens`: of each property's values.
    pub fn new(lens: impl Iterator<Item = usize>) -> Self {
        let mut lens = lens.fuse();
        let first = First { known: vec![UNSEEN; lens.next().unwrap_or(0) + 1], next: 0 };
        Combinations { first, further: lens.map(|_| Further::default()).collect() }
    }

    /// `values`: of each property. Numbers begin at 0; the next new combination has the next number.
    pub fn number(&mut self, values: &[ValueId]) -> u32 {
        let First { known, next } = &mut self.first;
        let missing = known.len() - 1;
        let first = &mut known[values.first().map_or(missing, |v| missing.min(*v as usize))];
        if *first == UNSEEN {
            *first = *next;
            *next += 1;
        }
        let mut number = *first;
        for (Further { known, next }, value) in self.further.iter_mut().zip(values.iter().skip(1)) {
            number = *known.entry((number, *value)).or_insert(*next);
            *next = (*next).max(number + 1);
        }
        number
    }
}

const UNSEEN: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, node, node_id, node_with};

    #[test]
    fn combinations_are_numbered_as_they_come() {
        let mut combinations = Combinations::new([2, 3, 2].into_iter());
        let seen = [[0, 1, 0], [1, 1, 0], [0, 1, 0], [0, MISSING, 0], [MISSING, 1, 0], [0, 1, 1], [1, 1, 0]];
        assert_eq!(seen.map(|values| combinations.number(&values)), [0, 1, 0, 2, 3, 4, 1]);
        let mut none = Combinations::new(std::iter::empty());
        assert_eq!([none.number(&[]), none.number(&[])], [0, 0]);
        let mut one = Combinations::new([2].into_iter());
        assert_eq!([1, MISSING, 0, 1].map(|v| one.number(&[v])), [0, 1, 2, 0]);
    }

    #[test]
    fn equal_values_have_one_number_and_missing_ones_have_none() {
        let nodes = [
            node_with(1, |i| drop(i.meta.insert("rack".into(), "r1".into()))),
            node_with(2, |i| drop(i.meta.insert("rack".into(), "r1".into()))),
            node_with(3, |i| drop(i.meta.insert("rack".into(), "r2".into()))),
            node(4),
        ];
        let fleet = Harness::of_nodes(nodes).fleet().snapshot();
        let slot = |n| fleet.slot(node_id(n)).expect("it was put in");
        let racks = Values::new(ConstraintTarget::parse("${meta.rack}"), &fleet);
        let [a, b, c, d] = [1, 2, 3, 4].map(|n| racks.at(slot(n)));
        assert!(a == b && a != c && d == MISSING && racks.len() == 2);
        assert_eq!((racks.text(a), racks.text(c)), ("r1".into(), "r2".into()));

        for (target, text) in
            [("${node.unique.name}", "node-3".to_string()), ("${node.unique.id}", node_id(3).to_string())]
        {
            let own = Values::new(ConstraintTarget::parse(target), &fleet);
            let numbers: std::collections::BTreeSet<_> = (1..=4).map(|n| own.at(slot(n))).collect();
            assert_eq!((numbers.len(), own.text(own.at(slot(3))).into_owned()), (4, text));
        }
    }
}
