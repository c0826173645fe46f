//! The candidates of one group by the values of every `distinct_property`: nodes that share them close and open together.
//! Refuses to know what fits and how good a node is.

use crate::bitmap::Bitmap;
use crate::distinct::Property;
use crate::fleet::FleetSnapshot;
use crate::proposal::ProposedAllocs;
use crate::values::{Combinations, MISSING, ValueId, Values};
use std::collections::BTreeMap;

/// A property with the counts of its values.
struct CountedProperty<'a> {
    property: Property<'a>,
    values: Values<'a>,
    /// Allocations that count, by value.
    used: Vec<i64>,
    /// The pools of each value.
    pools: BTreeMap<ValueId, Vec<u32>>,
}

/// Nodes that share the values of every distinct property.
struct Pool {
    values: Vec<ValueId>,
    members: Vec<u32>,
    /// The reason why the pool takes no further allocation.
    closed: Option<String>,
}

pub struct PropertyPools<'a> {
    counted: Vec<CountedProperty<'a>>,
    pools: Vec<Pool>,
    /// By slot.
    pool_of: Vec<u32>,
}

impl<'a> PropertyPools<'a> {
    pub fn new(properties: Vec<Property<'a>>, fleet: &'a FleetSnapshot, proposal: &ProposedAllocs) -> Self {
        let counted = properties.into_iter().map(|property| {
            let values = Values::new(property.target, fleet);
            let used = vec![0; values.len()];
            CountedProperty { property, values, used, pools: BTreeMap::new() }
        });
        let mut pools =
            PropertyPools { counted: counted.collect(), pools: Vec::new(), pool_of: vec![0; fleet.slots()] };
        for (slot, group, presence) in proposal.all_groups() {
            pools.add(slot, group, presence.wanted);
        }
        pools
    }

    /// Sorts the candidates into pools. Those that lack a property are returned, each with its name.
    pub fn fill(&mut self, candidates: &Bitmap) -> Vec<(u32, &'a str)> {
        let mut known = Combinations::new(self.counted.iter().map(|c| c.values.len()));
        let (mut missing, mut values) = (Vec::new(), Vec::new());
        for slot in candidates.iter() {
            values.clear();
            values.extend(self.counted.iter().map(|c| c.values.at(slot)));
            if let Some(lacking) = values.iter().position(|v| *v == MISSING) {
                missing.push((slot, self.counted[lacking].property.name));
                continue;
            }
            let number = known.number(&values);
            if number as usize == self.pools.len() {
                self.open(values.clone());
            }
            self.pool_of[slot as usize] = number;
            self.pools[number as usize].members.push(slot);
        }
        for number in 0..self.pools.len() {
            self.pools[number].closed = self.closed_reason(number as u32);
        }
        missing
    }

    fn open(&mut self, values: Vec<ValueId>) {
        let number = self.pools.len() as u32;
        for (counted, value) in self.counted.iter_mut().zip(&values) {
            counted.pools.entry(*value).or_default().push(number);
        }
        self.pools.push(Pool { values, members: Vec::new(), closed: None });
    }

    /// `more` allocations of the group are on the node. Gives the pools that this may close or open.
    pub fn count(&mut self, slot: u32, group: &str, more: i64) -> Vec<u32> {
        self.add(slot, group, more);
        let moved = self.counted.iter().filter(|c| more != 0 && c.property.counts(group));
        moved.filter_map(|c| c.pools.get(&c.values.at(slot))).flatten().copied().collect()
    }

    fn add(&mut self, slot: u32, group: &str, more: i64) {
        for counted in self.counted.iter_mut().filter(|c| c.property.counts(group)) {
            if let Some(used) = counted.used.get_mut(counted.values.at(slot) as usize) {
                *used += more;
                debug_assert!(*used >= 0, "no more allocations leave a value than had it");
            }
        }
    }

    pub fn closed_reason(&self, number: u32) -> Option<String> {
        let mut full = self.counted.iter().zip(&self.pools[number as usize].values);
        full.find_map(|(c, value)| {
            let (n, name) = (c.used[*value as usize], c.property.name);
            let text = || format!("distinct_property: {name}={} used by {n} allocs", c.values.text(*value));
            (n >= c.property.allowed).then(text)
        })
    }

    pub fn closed(&self, slot: u32) -> Option<&str> {
        self.pools.get(self.pool_of[slot as usize] as usize)?.closed.as_deref()
    }

    /// Why the pool's nodes may not be chosen, from now on; the reason until now.
    pub fn set_closed(&mut self, number: u32, reason: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.pools[number as usize].closed, reason)
    }

    pub fn closed_as(&self, number: u32) -> Option<&str> {
        self.pools[number as usize].closed.as_deref()
    }

    pub fn members(&self, number: u32) -> &[u32] {
        &self.pools[number as usize].members
    }
}
