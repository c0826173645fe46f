//! The world as it will be when the plan so far is carried out: what each node holds, and how many of the job's
//! allocations are where. Built step by step into the plan.
//!
//! Refuses to know: why something is placed or stopped, and scores.

use super::fleet::Snapshot;
use crate::model::alloc::{Allocation, ClientStatus};
use crate::model::id::NodeId;
use crate::model::plan::{AllocStop, NodePlan};
use crate::model::resources::Amount;
use std::collections::BTreeMap;

/// How many allocations of one group are on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Not client-terminal: they hold resources.
    pub holding: i64,
    /// Neither told to stop nor ended.
    pub wanted: i64,
}

/// A change of what is on a node.
#[derive(Clone, Copy, Debug)]
pub struct Touch<'a> {
    pub slot: u32,
    pub group: &'a str,
    /// By how much `Presence::wanted` moved.
    pub wanted: i64,
}

pub struct Proposal<'a> {
    fleet: &'a Snapshot,
    plans: BTreeMap<NodeId, NodePlan>,
    /// What the plan adds to a node's usage.
    added: BTreeMap<u32, Amount>,
    present: BTreeMap<(u32, &'a str), Presence>,
    touched: Vec<Touch<'a>>,
}

impl<'a> Proposal<'a> {
    /// `allocs`: all of the job's.
    pub fn new(fleet: &'a Snapshot, allocs: &'a [Allocation]) -> Self {
        let mut present: BTreeMap<(u32, &str), Presence> = BTreeMap::new();
        for alloc in allocs {
            if let Some(slot) = fleet.slot(alloc.node_id) {
                let here = present.entry((slot, &alloc.group)).or_default();
                here.holding += i64::from(!alloc.client_terminal());
                here.wanted += i64::from(!alloc.terminal());
            }
        }
        Proposal { fleet, plans: BTreeMap::new(), added: BTreeMap::new(), present, touched: Vec::new() }
    }

    pub fn used(&self, slot: u32) -> Amount {
        let used = self.fleet.used_at(slot);
        self.added.get(&slot).map_or(used, |added| used.plus(*added))
    }

    /// Of one group, on one node.
    pub fn of_group(&self, slot: u32, group: &str) -> Presence {
        let found = self.of_job(slot).find(|(g, _)| *g == group);
        found.map_or_else(Presence::default, |(_, p)| p)
    }

    /// Of all groups of the job, on one node.
    pub fn of_job(&self, slot: u32) -> impl Iterator<Item = (&'a str, Presence)> {
        self.present.range((slot, "")..).take_while(move |((s, _), _)| *s == slot).map(|((_, g), p)| (*g, *p))
    }

    /// Everything of the job, by node and group.
    pub fn everywhere(&self) -> impl Iterator<Item = (u32, &'a str, Presence)> {
        self.present.iter().map(|((slot, group), p)| (*slot, *group, *p))
    }

    /// Every change of a node so far, oldest first.
    pub fn touched(&self) -> &[Touch<'a>] {
        &self.touched
    }

    pub fn stop(&mut self, alloc: &'a Allocation, description: &str, client: Option<ClientStatus>) {
        let stop = AllocStop { id: alloc.id, description: description.to_string(), client };
        self.plan_of(alloc.node_id).stops.push(stop);
        self.account(alloc.node_id, &alloc.group, Amount::ZERO.minus(held(alloc)), gone(alloc));
    }

    /// Takes back a `stop`.
    pub fn unstop(&mut self, alloc: &'a Allocation) {
        let plan = self.plan_of(alloc.node_id);
        plan.stops.retain(|s| s.id != alloc.id);
        if plan.stops.is_empty() && plan.places.is_empty() {
            self.plans.remove(&alloc.node_id);
        }
        let Presence { holding, wanted } = gone(alloc);
        let back = Presence { holding: -holding, wanted: -wanted };
        self.account(alloc.node_id, &alloc.group, held(alloc), back);
    }

    pub fn place(&mut self, group: &'a str, alloc: Allocation) {
        self.account(alloc.node_id, group, alloc.resources.total(), Presence { holding: 1, wanted: 1 });
        self.plan_of(alloc.node_id).places.push(alloc);
    }

    /// `new` is `old` under a newer spec, on the same node.
    pub fn update(&mut self, old: &'a Allocation, new: Allocation) {
        let more = new.resources.total().minus(held(old));
        self.account(new.node_id, &old.group, more, Presence::default());
        self.plan_of(new.node_id).places.push(new);
    }

    /// One entry per node, ordered by node.
    pub fn into_node_plans(self) -> Vec<NodePlan> {
        self.plans.into_values().collect()
    }

    fn plan_of(&mut self, node_id: NodeId) -> &mut NodePlan {
        let empty = || NodePlan { node_id, stops: Vec::new(), places: Vec::new() };
        self.plans.entry(node_id).or_insert_with(empty)
    }

    fn account(&mut self, node: NodeId, group: &'a str, more: Amount, moved: Presence) {
        let Some(slot) = self.fleet.slot(node) else { return };
        let added = self.added.entry(slot).or_default();
        *added = added.plus(more);
        let here = self.present.entry((slot, group)).or_default();
        here.holding += moved.holding;
        here.wanted += moved.wanted;
        self.touched.push(Touch { slot, group, wanted: moved.wanted });
    }
}

/// What the allocation holds on its node now.
fn held(alloc: &Allocation) -> Amount {
    if alloc.client_terminal() { Amount::ZERO } else { alloc.resources.total() }
}

/// How its node's presence moves when it is stopped.
fn gone(alloc: &Allocation) -> Presence {
    Presence { holding: -i64::from(!alloc.client_terminal()), wanted: -i64::from(!alloc.terminal()) }
}
