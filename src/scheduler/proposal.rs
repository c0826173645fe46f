//! The world as it will be when the plan so far is carried out: what each node holds, and how many of the job's
//! allocations are where. Built step by step into the plan.
//!
//! Refuses to know: why something is placed or stopped, and scores.

use super::fleet::{Claims, FleetSnapshot};
use model::alloc::{Allocation, ClientStatus};
use model::claims::Claim;
use model::id::{AllocId, NodeId};
use model::plan::{AllocStop, NodePlan};
use model::resources::Amount;
use model::resources::Holding;
use std::collections::BTreeMap;

/// How many allocations of one group are on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocCounts {
    /// Allocations that are not client-terminal: they hold resources.
    pub holding: i64,
    /// Allocations that are neither told to stop nor ended.
    pub wanted: i64,
}

/// A change of what is on a node.
#[derive(Clone, Copy, Debug)]
pub struct TouchedNode<'a> {
    pub slot: u32,
    pub group: &'a str,
    /// By how much `AllocCounts::wanted` moved.
    pub wanted: i64,
}

/// A node of the fleet that the job is on, or that the plan changes.
struct ProposedNode<'a> {
    slot: u32,
    /// What the plan adds to the node's usage.
    added: Amount,
    /// What the plan adds to the holders of each claim.
    claimed: BTreeMap<Claim, i64>,
    /// By group.
    present: Vec<(&'a str, AllocCounts)>,
    /// The node's place in `plans`.
    plan: Option<usize>,
}

/// By slot: no such node here.
const NO_NODE: u32 = u32::MAX;

/// What is claimed on one node.
#[derive(Clone, Copy)]
pub struct TakenClaims<'p> {
    before: Option<&'p Claims>,
    added: Option<&'p BTreeMap<Claim, i64>>,
    freed: &'p [Claim],
}

impl<'p> TakenClaims<'p> {
    /// The claims, but for these.
    pub fn without(self, freed: &'p [Claim]) -> TakenClaims<'p> {
        TakenClaims { freed, ..self }
    }

    pub fn holds(self, claim: &Claim) -> bool {
        let before = self.before.and_then(|b| b.get(claim)).map_or(0, |holders| i64::from(*holders));
        let freed = self.freed.iter().filter(|c| *c == claim).count() as i64;
        before + self.added.and_then(|a| a.get(claim)).unwrap_or(&0) > freed
    }
}

pub struct ProposedAllocs<'a> {
    fleet: &'a FleetSnapshot,
    /// By slot: its place in `nodes`, so that looking at a node costs the same however many there are.
    at: Vec<u32>,
    nodes: Vec<ProposedNode<'a>>,
    plans: Vec<NodePlan>,
    /// Places in `plans` of nodes that the fleet does not know.
    unknown_nodes: BTreeMap<NodeId, usize>,
    touched: Vec<TouchedNode<'a>>,
}

impl<'a> ProposedAllocs<'a> {
    /// `allocs`: all of the job's.
    pub fn new(fleet: &'a FleetSnapshot, allocs: &'a [Allocation]) -> Self {
        let mut proposal = ProposedAllocs {
            fleet,
            at: vec![NO_NODE; fleet.slots()],
            nodes: Vec::new(),
            plans: Vec::new(),
            unknown_nodes: BTreeMap::new(),
            touched: Vec::new(),
        };
        for alloc in allocs {
            if let Some(slot) = fleet.slot(alloc.node_id) {
                let AllocCounts { holding, wanted } = counts_freed(alloc);
                let here = AllocCounts { holding: -holding, wanted: -wanted };
                proposal.node_mut(slot).add(&alloc.group, &Holding::default(), 1, here);
            }
        }
        proposal
    }

    pub fn used(&self, slot: u32) -> Amount {
        let used = self.fleet.used_at(slot);
        self.find(slot).map_or(used, |here| used.plus(here.added))
    }

    pub fn taken(&self, slot: u32) -> TakenClaims<'_> {
        TakenClaims {
            before: self.fleet.claims_at(slot),
            added: self.find(slot).map(|here| &here.claimed),
            freed: &[],
        }
    }

    /// How many allocations of one group are on one node.
    pub fn of_group(&self, slot: u32, group: &str) -> AllocCounts {
        let found = self.of_job(slot).find(|(g, _)| *g == group);
        found.map_or_else(AllocCounts::default, |(_, p)| p)
    }

    /// How many allocations of the job, in all groups, are on one node.
    pub fn of_job(&self, slot: u32) -> impl Iterator<Item = (&'a str, AllocCounts)> {
        self.find(slot).into_iter().flat_map(|here| here.present.iter().copied())
    }

    /// How many allocations of the job there are, by node and group.
    pub fn all_groups(&self) -> impl Iterator<Item = (u32, &'a str, AllocCounts)> {
        self.nodes.iter().flat_map(|here| here.present.iter().map(|(group, p)| (here.slot, *group, *p)))
    }

    /// Every change of a node so far, oldest first.
    pub fn node_changes(&self) -> &[TouchedNode<'a>] {
        &self.touched
    }

    pub fn stop(&mut self, alloc: &'a Allocation, description: &str, client: Option<ClientStatus>) {
        let stop = AllocStop { id: alloc.id, description: description.to_string(), client };
        let slot = self.fleet.slot(alloc.node_id);
        let stops = &mut self.plan_of(slot, alloc.node_id).stops;
        debug_assert!(stops.iter().all(|known| known.id != stop.id), "an allocation is stopped once");
        stops.push(stop);
        self.record_change(slot, &alloc.group, (&holding_of(alloc), -1), counts_freed(alloc));
    }

    /// Takes back a `stop`.
    pub fn cancel_stop(&mut self, alloc: &'a Allocation) {
        let slot = self.fleet.slot(alloc.node_id);
        let stops = &mut self.plan_of(slot, alloc.node_id).stops;
        let before = stops.len();
        stops.retain(|s| s.id != alloc.id);
        assert_eq!(stops.len() + 1, before, "a stop that is taken back is in the plan");
        let AllocCounts { holding, wanted } = counts_freed(alloc);
        let back = AllocCounts { holding: -holding, wanted: -wanted };
        self.record_change(slot, &alloc.group, (&holding_of(alloc), 1), back);
    }

    /// `slot`: of the allocation's node.
    pub fn place(&mut self, slot: u32, group: &'a str, alloc: Allocation) {
        let here = AllocCounts { holding: 1, wanted: 1 };
        self.record_change(Some(slot), group, (&alloc.resources.holding(), 1), here);
        assert!(
            self.fleet.available_at(slot).lacks(self.used(slot)).is_none(),
            "a plan never puts more on a node than it has: {} on {}",
            alloc.name,
            alloc.node_id
        );
        let places = &mut self.plan_of(Some(slot), alloc.node_id).places;
        // most nodes get one or two, and four times the room of one is a lot for a plan of thousands
        if places.len() < 2 {
            places.reserve_exact(1);
        }
        places.push(alloc);
    }

    /// Accounts what preemption frees on the node for one of the group, or takes that `back`.
    pub fn free_for_preemption(&mut self, slot: u32, group: &'a str, freed: &Holding, back: bool) {
        self.record_change(Some(slot), group, (freed, if back { 1 } else { -1 }), AllocCounts::default());
    }

    /// Whether the node has room for this in addition.
    pub fn has_room(&self, slot: u32, holding: &Holding) -> bool {
        let taken = self.taken(slot);
        let then = self.used(slot).plus(holding.amount);
        self.fleet.available_at(slot).lacks(then).is_none() && !holding.claims.iter().any(|c| taken.holds(c))
    }

    /// The allocations in `stay` are not preempted after all: the node's new allocations name only the others.
    pub fn withdraw_preemption(&mut self, slot: u32, stay: &[AllocId]) {
        let node_id = self.fleet.id_at(slot);
        let plan = self.plan_of(Some(slot), node_id);
        let all = plan.preemptions().map(|(_, id)| id).filter(|id| !stay.contains(id));
        let leaving: Vec<AllocId> = all.collect();
        for new in plan.places.iter_mut().filter(|a| a.create_index == 0 && !a.preempted.is_empty()) {
            new.preempted.clone_from(&leaving);
        }
    }

    /// `new` is `old` under a newer spec, on the same node.
    pub fn update(&mut self, old: &'a Allocation, new: Allocation) {
        let slot = self.fleet.slot(new.node_id);
        self.record_change(slot, &old.group, (&holding_of(old), -1), AllocCounts::default());
        self.record_change(slot, &old.group, (&new.resources.holding(), 1), AllocCounts::default());
        self.plan_of(slot, new.node_id).places.push(new);
    }

    /// Changes an allocation that stays, without changing what it holds on its node. One that the plan stops does not stay.
    pub fn amend(&mut self, old: &Allocation, change: impl FnOnce(&mut Allocation)) {
        let plan = self.plan_of(self.fleet.slot(old.node_id), old.node_id);
        if plan.stops.iter().any(|stop| stop.id == old.id) {
            return;
        }
        let places = &mut plan.places;
        let at = places.iter().position(|p| p.id == old.id).unwrap_or_else(|| {
            places.push(old.clone());
            places.len() - 1
        });
        change(&mut places[at]);
    }

    /// One entry per node that something changes on, ordered by node.
    pub fn into_node_plans(self) -> Vec<NodePlan> {
        let mut plans = self.plans;
        plans.retain(|p| !p.stops.is_empty() || !p.places.is_empty());
        plans.sort_unstable_by_key(|p| p.node_id);
        assert!(plans.is_sorted_by(|a, b| a.node_id < b.node_id), "a plan has one entry a node");
        plans
    }

    fn plan_of(&mut self, slot: Option<u32>, node_id: NodeId) -> &mut NodePlan {
        let next = self.plans.len();
        let at = match slot {
            Some(slot) => *self.node_mut(slot).plan.get_or_insert(next),
            None => *self.unknown_nodes.entry(node_id).or_insert(next),
        };
        if at == next {
            self.plans.push(NodePlan { node_id, stops: Vec::new(), places: Vec::new() });
        }
        let plan = &mut self.plans[at];
        assert_eq!(plan.node_id, node_id, "a node has a plan of its own");
        plan
    }

    /// `more`: what is held, and how often more than before.
    fn record_change(
        &mut self,
        slot: Option<u32>,
        group: &'a str,
        more: (&Holding, i64),
        moved: AllocCounts,
    ) {
        let Some(slot) = slot else { return };
        let (holding, times) = more;
        self.node_mut(slot).add(group, holding, times, moved);
        self.touched.push(TouchedNode { slot, group, wanted: moved.wanted });
    }

    fn find(&self, slot: u32) -> Option<&ProposedNode<'a>> {
        self.nodes.get(*self.at.get(slot as usize)? as usize)
    }

    fn node_mut(&mut self, slot: u32) -> &mut ProposedNode<'a> {
        let at = &mut self.at[slot as usize];
        if *at == NO_NODE {
            *at = self.nodes.len() as u32;
            self.nodes.push(ProposedNode {
                slot,
                added: Amount::ZERO,
                claimed: BTreeMap::new(),
                present: Vec::new(),
                plan: None,
            });
        }
        &mut self.nodes[*at as usize]
    }
}

impl<'a> ProposedNode<'a> {
    fn add(&mut self, group: &'a str, holding: &Holding, times: i64, moved: AllocCounts) {
        let more = if times < 0 { Amount::ZERO.minus(holding.amount) } else { holding.amount };
        self.added = self.added.plus(more);
        for claim in &holding.claims {
            *self.claimed.entry(claim.clone()).or_default() += times;
        }
        let at = self.present.iter().position(|(g, _)| *g == group).unwrap_or_else(|| {
            self.present.push((group, AllocCounts::default()));
            self.present.len() - 1
        });
        let here = &mut self.present[at].1;
        here.holding += moved.holding;
        here.wanted += moved.wanted;
    }
}

/// What the allocation holds on its node now.
fn holding_of(alloc: &Allocation) -> Holding {
    if alloc.client_terminal() { Holding::default() } else { alloc.resources.holding() }
}

/// How its node's presence moves when it is stopped.
fn counts_freed(alloc: &Allocation) -> AllocCounts {
    AllocCounts { holding: -i64::from(!alloc.client_terminal()), wanted: -i64::from(!alloc.terminal()) }
}
