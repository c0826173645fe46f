//! The search for the best node of one group: every node that may run it is scored once, then kept in heaps, and after
//! each step of the plan only the nodes that it touched are scored again. C placements on N nodes cost about N + C·log N.
//!
//! Nodes that share the values of every `distinct_property` are in one pool with a heap of its own, because they close
//! and open together. Refuses to know: how the plan is made, and other jobs.

use super::bits::Bits;
use super::distinct::Distinct;
use super::feasible::{Feasibility, Tally};
use super::fleet::Snapshot;
use super::order::place_in_order;
use super::proposal::{Proposal, Touch};
use super::score::{Scores, binpack, job_anti_affinity};
use crate::model::alloc::{AllocMetric, NodeScore};
use crate::model::job::{JobSpec, TaskGroup};
use crate::model::resources::Amount;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// How many nodes a metric shows the scores of.
const SHOWN_SCORES: usize = 5;
/// How many values of distinct properties a metric names that have no room. There may be as many as there are nodes, and
/// every allocation keeps its metric.
const SHOWN_VALUES: usize = 10;
const DISTINCT_HOSTS: &str = "distinct_hosts";

/// Where a node stands in the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Filtered for good.
    Outside,
    HostTaken,
    /// Its pool has no room for one more.
    PoolClosed,
    Exhausted(&'static str),
    Fits,
}

/// A scored node. The greatest is the best: the highest score, then the first in the evaluation's order of nodes.
#[derive(Clone, Copy)]
struct Entry {
    score: f64,
    order: Reverse<u128>,
    slot: u32,
    /// Of the node's scoring: an entry with an older one says nothing.
    stamp: u32,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then(self.order.cmp(&other.order))
            .then(self.stamp.cmp(&other.stamp))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

/// Nodes that share the values of every distinct property.
#[derive(Default)]
struct Pool {
    values: Vec<String>,
    members: Vec<u32>,
    heap: BinaryHeap<Entry>,
    /// The best of the heap, as `tops` has it.
    top: Option<Entry>,
    /// Why no more may go there.
    closed: Option<String>,
}

/// What one value of a distinct property is shared by.
#[derive(Default)]
struct AtValue {
    /// Allocations that count.
    used: i64,
    pools: Vec<u32>,
}

pub struct Search<'a> {
    fleet: &'a Snapshot,
    group: &'a TaskGroup,
    ask: Amount,
    seed: u64,
    distinct: Distinct<'a>,
    /// By property, by value.
    values: Vec<BTreeMap<String, AtValue>>,
    pools: Vec<Pool>,
    /// The best entry of every pool that has one.
    tops: BTreeSet<(Entry, usize)>,
    /// By slot.
    pool_of: Vec<u32>,
    standing: Vec<Standing>,
    stamps: Vec<u32>,
    filtered: Tally,
    /// Nodes of closed pools.
    closed: Tally,
    exhausted: Tally,
    /// What every metric of this search says, before anything is counted out.
    base: AllocMetric,
    /// How much of the proposal's changes is known here.
    seen: usize,
}

impl<'a> Search<'a> {
    pub fn new(
        job: &'a JobSpec,
        group: &'a TaskGroup,
        fleet: &'a Snapshot,
        feasibility: &mut Feasibility<'a>,
        proposal: &Proposal<'a>,
        seed: u64,
    ) -> Self {
        let (candidates, filtered) = feasibility.candidates(group);
        let distinct = Distinct::new(job, group);
        let at_value = |(value, used)| (value, AtValue { used, pools: Vec::new() });
        let used = distinct.properties.iter().map(|p| p.used(fleet, proposal));
        let values = used.map(|u| u.into_iter().map(at_value).collect()).collect();
        let nodes = feasibility.ready.len();
        let nodes_available = feasibility.ready_by_datacenter.clone();
        let base = AllocMetric {
            nodes_evaluated: nodes,
            nodes_in_pool: nodes,
            nodes_available,
            ..Default::default()
        };
        let mut search = Search {
            fleet,
            group,
            ask: group.resources().total(),
            seed,
            distinct,
            values,
            pools: Vec::new(),
            tops: BTreeSet::new(),
            pool_of: vec![0; fleet.slots()],
            standing: vec![Standing::Outside; fleet.slots()],
            stamps: vec![0; fleet.slots()],
            filtered,
            closed: Tally::default(),
            exhausted: Tally::default(),
            base,
            seen: proposal.touched().len(),
        };
        search.make_pools(&candidates);
        search.score_all(proposal);
        search
    }

    /// The best node for one more allocation, and how it was found; None: there is none.
    pub fn select(&mut self, proposal: &Proposal<'a>) -> (Option<u32>, AllocMetric) {
        self.catch_up(proposal);
        let best = self.take_best(SHOWN_SCORES);
        let scores = best.iter().map(|(_, e)| self.shown(proposal, e)).collect();
        let filtered = self.all_filtered();
        let metric = AllocMetric {
            scores,
            nodes_filtered: filtered.nodes,
            constraint_filtered: filtered.by_reason,
            class_filtered: filtered.by_class,
            nodes_exhausted: self.exhausted.nodes,
            dimension_exhausted: self.exhausted.by_reason.clone(),
            class_exhausted: self.exhausted.by_class.clone(),
            ..self.base.clone()
        };
        let chosen = best.first().map(|(_, e)| e.slot);
        for (pool, entry) in best {
            self.pools[pool].heap.push(entry);
            self.settle(pool);
        }
        (chosen, metric)
    }

    /// With the values that have no room: the first few by name, the others as one.
    fn all_filtered(&self) -> Tally {
        let mut all = self.filtered.clone();
        all.nodes += self.closed.nodes;
        for (class, nodes) in &self.closed.by_class {
            *all.by_class.entry(class.clone()).or_default() += nodes;
        }
        let mut unnamed = self.closed.nodes;
        for (reason, nodes) in self.closed.by_reason.iter().take(SHOWN_VALUES) {
            all.by_reason.insert(reason.clone(), *nodes);
            unnamed -= nodes;
        }
        if unnamed > 0 {
            let others = self.closed.by_reason.len() - SHOWN_VALUES;
            all.by_reason.insert(format!("distinct_property: {others} other values used up"), unnamed);
        }
        all
    }

    fn shown(&self, proposal: &Proposal, entry: &Entry) -> NodeScore {
        let scores = self.scores(proposal, entry.slot).by_name();
        NodeScore { node_id: self.fleet.id_at(entry.slot), scores, normalized: entry.score }
    }

    fn make_pools(&mut self, candidates: &Bits) {
        let mut by_values: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        for slot in candidates.iter() {
            let values = self.distinct.properties.iter().map(|p| p.value(self.fleet, slot).ok_or(p.name));
            match values.collect::<Result<Vec<_>, _>>() {
                Err(name) => self.filtered.add(&format!("missing property {name:?}"), self.class(slot)),
                Ok(values) => {
                    let next = self.pools.len() as u32;
                    let pool = *by_values.entry(values).or_insert(next);
                    if pool == next {
                        self.pools.push(Pool::default());
                    }
                    self.pools[pool as usize].members.push(slot);
                    self.pool_of[slot as usize] = pool;
                }
            }
        }
        for (values, pool) in by_values {
            for (at, value) in self.values.iter_mut().zip(&values) {
                at.entry(value.clone()).or_default().pools.push(pool);
            }
            self.pools[pool as usize].values = values;
        }
    }

    fn score_all(&mut self, proposal: &Proposal<'a>) {
        for pool in 0..self.pools.len() {
            self.pools[pool].closed = self.closed_reason(pool);
            let mut entries = Vec::with_capacity(self.pools[pool].members.len());
            for i in 0..self.pools[pool].members.len() {
                entries.extend(self.stand(proposal, self.pools[pool].members[i]));
            }
            self.pools[pool].heap = entries.into();
            self.settle(pool);
        }
    }

    /// Judges the touched nodes again, and all nodes of a pool that closed or opened.
    fn catch_up(&mut self, proposal: &Proposal<'a>) {
        let touched = &proposal.touched()[self.seen..];
        self.seen = proposal.touched().len();
        for touch in touched {
            self.count_properties(proposal, touch);
            if self.is_candidate(touch.slot) {
                self.judge(proposal, touch.slot);
            }
        }
    }

    fn is_candidate(&self, slot: u32) -> bool {
        self.standing[slot as usize] != Standing::Outside
    }

    fn judge(&mut self, proposal: &Proposal<'a>, slot: u32) {
        let entry = self.stand(proposal, slot);
        let pool = self.pool_of[slot as usize] as usize;
        self.pools[pool].heap.extend(entry);
        self.settle(pool);
    }

    fn count_properties(&mut self, proposal: &Proposal<'a>, touch: &Touch) {
        for i in 0..self.distinct.properties.len() {
            let property = &self.distinct.properties[i];
            if touch.wanted == 0 || !property.counts(touch.group) {
                continue;
            }
            let Some(value) = property.value(self.fleet, touch.slot) else { continue };
            let at = self.values[i].entry(value).or_default();
            at.used += touch.wanted;
            for pool in at.pools.clone() {
                self.open_or_close(proposal, pool as usize);
            }
        }
    }

    fn open_or_close(&mut self, proposal: &Proposal<'a>, pool: usize) {
        let closed = self.closed_reason(pool);
        if closed == self.pools[pool].closed {
            return;
        }
        for i in 0..self.pools[pool].members.len() {
            self.leave(self.pools[pool].members[i]);
        }
        self.pools[pool].closed = closed;
        for i in 0..self.pools[pool].members.len() {
            self.judge(proposal, self.pools[pool].members[i]);
        }
    }

    fn closed_reason(&self, pool: usize) -> Option<String> {
        let of = self.distinct.properties.iter().zip(&self.values).zip(&self.pools[pool].values);
        let mut full = of.filter_map(|((property, at), value)| {
            let n = at.get(value).map_or(0, |v| v.used);
            let name = property.name;
            (n >= property.allowed).then(|| format!("distinct_property: {name}={value} used by {n} allocs"))
        });
        full.next()
    }

    /// Finds a node's standing and counts it; an entry for the heap if it fits.
    fn stand(&mut self, proposal: &Proposal<'a>, slot: u32) -> Option<Entry> {
        self.leave(slot);
        let lacks = || self.fleet.available_at(slot).lacks(proposal.used(slot).plus(self.ask));
        let standing = if self.distinct.host_taken(proposal, slot) {
            Standing::HostTaken
        } else if self.pool(slot).closed.is_some() {
            Standing::PoolClosed
        } else {
            lacks().map_or(Standing::Fits, Standing::Exhausted)
        };
        self.enter(slot, standing);
        let stamp = &mut self.stamps[slot as usize];
        *stamp += 1;
        let stamp = *stamp;
        (standing == Standing::Fits).then(|| Entry {
            score: self.scores(proposal, slot).normalized(),
            order: Reverse(place_in_order(self.seed, self.fleet.id_at(slot))),
            slot,
            stamp,
        })
    }

    fn pool(&self, slot: u32) -> &Pool {
        &self.pools[self.pool_of[slot as usize] as usize]
    }

    fn class(&self, slot: u32) -> &'a str {
        self.fleet.profile_at(slot).map_or("", |p| &p.class)
    }

    fn enter(&mut self, slot: u32, standing: Standing) {
        self.standing[slot as usize] = standing;
        match standing {
            Standing::HostTaken => self.filtered.add(DISTINCT_HOSTS, self.class(slot)),
            Standing::PoolClosed => {
                let reason = self.pool(slot).closed.clone().unwrap_or_default();
                self.closed.add(&reason, self.class(slot));
            }
            Standing::Exhausted(dimension) => self.exhausted.add(dimension, self.class(slot)),
            Standing::Outside | Standing::Fits => {}
        }
    }

    /// Takes back what `enter` counted. The node fits, as far as the counts go, until it is judged again.
    fn leave(&mut self, slot: u32) {
        match std::mem::replace(&mut self.standing[slot as usize], Standing::Fits) {
            Standing::HostTaken => self.filtered.remove(DISTINCT_HOSTS, self.class(slot)),
            Standing::PoolClosed => {
                let reason = self.pool(slot).closed.clone().unwrap_or_default();
                self.closed.remove(&reason, self.class(slot));
            }
            Standing::Exhausted(dimension) => self.exhausted.remove(dimension, self.class(slot)),
            Standing::Outside | Standing::Fits => {}
        }
    }

    fn scores(&self, proposal: &Proposal, slot: u32) -> Scores {
        let there = proposal.of_group(slot, &self.group.name).holding;
        Scores {
            binpack: binpack(self.fleet.available_at(slot), proposal.used(slot).plus(self.ask)),
            job_anti_affinity: job_anti_affinity(there, self.group.count),
        }
    }

    /// Takes the `n` best entries out of the heaps, best first, each with its pool.
    fn take_best(&mut self, n: usize) -> Vec<(usize, Entry)> {
        let mut best = Vec::with_capacity(n);
        while best.len() < n {
            let Some(&(entry, pool)) = self.tops.last() else { break };
            self.pools[pool].heap.pop();
            self.settle(pool);
            best.push((pool, entry));
        }
        best
    }

    /// After a change of a pool's heap: its top tells the truth again, and `tops` has it. What lies below the top may be
    /// out of date.
    fn settle(&mut self, pool: usize) {
        let Pool { heap, top, .. } = &mut self.pools[pool];
        while heap.peek().is_some_and(|e| self.stamps[e.slot as usize] != e.stamp) {
            heap.pop();
        }
        let now = heap.peek().copied();
        if *top != now {
            top.take().map(|old| self.tops.remove(&(old, pool)));
            now.map(|new| self.tops.insert((new, pool)));
            *top = now;
        }
    }
}

#[cfg(test)]
mod tests;
