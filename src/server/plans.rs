//! Plans: what a scheduler worker wants is checked node by node against the latest state and what is in flight, and the
//! part that still fits is proposed (scheduler.md 6). Knows no policy: it never picks another node.

use super::reservations::DeliveryKey;
use model::alloc::{Allocation, DesiredStatus};
use model::claims::Claim;
use model::id::{AllocId, NodeId};
use model::job::Job;
use model::plan::{NodePlan, Plan};
use model::resources::{Amount, Holding};
use state::fault::Fault;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::change::AllocChange;
use wire::server_rpc::{InFlightPlan, TakenOnNode};

/// The most nodes of plans in flight that are sent along with an evaluation: several evaluations have to fit into one message.
pub const MAX_NODES_REPORTED: usize = 1024;

/// What a part of a plan takes from its node beyond what the state counts already.
#[derive(Default)]
pub struct Taken {
    amount: Amount,
    claimed: Vec<Claim>,
    freed: Vec<Claim>,
    /// Allocations that the plan stops or preempts: what they hold becomes free.
    stopping: Vec<AllocId>,
    /// Allocations that hold something now, and what they hold once the plan is applied.
    changed: Vec<ChangedAlloc>,
}

/// Counted as long as the allocation lives: one that ends before the plan is applied frees its room by itself.
struct ChangedAlloc {
    id: AllocId,
    now: Holding,
    then: Holding,
}

impl Taken {
    /// Stops alone take nothing; what they give back counts once they are applied.
    pub fn by_stops(part: &NodePlan) -> Taken {
        Taken { stopping: part.stops.iter().map(|stop| stop.id).collect(), ..Taken::default() }
    }

    fn take(&mut self, holding: Holding) {
        self.amount = self.amount.plus(holding.amount);
        self.claimed.extend(holding.claims);
    }

    /// The allocation is told to end, or to go on with `then`.
    fn change(&mut self, known: &Allocation, then: Holding) {
        let now = known.resources.holding();
        self.amount = self.amount.minus(now.amount).plus(then.amount);
        self.freed.extend(now.claims.iter().cloned());
        self.claimed.extend(then.claims.iter().cloned());
        self.changed.push(ChangedAlloc { id: known.id, now, then });
    }

    /// The allocation has ended: the plan changes nothing of it.
    fn forget(&mut self, alloc: AllocId) {
        let Some(at) = self.changed.iter().position(|changed| changed.id == alloc) else { return };
        let ChangedAlloc { now, then, .. } = self.changed.swap_remove(at);
        self.amount = self.amount.plus(now.amount).minus(then.amount);
        remove_each(&mut self.freed, &now.claims);
        remove_each(&mut self.claimed, &then.claims);
    }

    /// How many more hold the claim.
    fn more(&self, claim: &Claim) -> i64 {
        let count = |claims: &[Claim]| claims.iter().filter(|c| *c == claim).count() as i64;
        count(&self.claimed) - count(&self.freed)
    }
}

fn remove_each(claims: &mut Vec<Claim>, gone: &[Claim]) {
    for claim in gone {
        let at = claims.iter().position(|c| c == claim).expect("it was counted");
        claims.swap_remove(at);
    }
}

/// What proposed plans will take from each node once they are applied.
#[derive(Default)]
struct PlansInFlight {
    plans: BTreeMap<DeliveryKey, Vec<(NodeId, Taken)>>,
    total: BTreeMap<NodeId, Amount>,
    /// Allocations that a plan changes.
    changed: BTreeMap<AllocId, DeliveryKey>,
}

impl PlansInFlight {
    fn add(&mut self, key: DeliveryKey, taken: Vec<(NodeId, Taken)>) {
        for (node, taken) in &taken {
            let sum = self.total.entry(*node).or_insert(Amount::ZERO);
            *sum = sum.plus(taken.amount);
            for changed in &taken.changed {
                let other = self.changed.insert(changed.id, key);
                assert!(other.is_none(), "one plan in flight changes an allocation");
            }
        }
        let before = self.plans.insert(key, taken);
        assert!(before.is_none(), "a plan is in flight once");
    }

    fn finish(&mut self, key: DeliveryKey) {
        for (node, taken) in self.plans.remove(&key).into_iter().flatten() {
            self.set_total(node, self.on(node).minus(taken.amount));
            for changed in &taken.changed {
                self.changed.remove(&changed.id);
            }
        }
        let counts_nothing = self.total.is_empty() && self.changed.is_empty();
        assert!(!self.plans.is_empty() || counts_nothing, "what no plan takes is not counted");
    }

    fn set_total(&mut self, node: NodeId, amount: Amount) {
        if amount == Amount::ZERO {
            self.total.remove(&node);
        } else {
            self.total.insert(node, amount);
        }
    }

    fn forget_ended(&mut self, node: NodeId, alloc: AllocId) {
        let Some(key) = self.changed.remove(&alloc) else { return };
        let parts = self.plans.get_mut(&key).expect("a plan that changes the allocation is in flight");
        let mut total = self.total.get(&node).copied().unwrap_or(Amount::ZERO);
        for (_, taken) in parts.iter_mut().filter(|(n, _)| *n == node) {
            total = total.minus(taken.amount);
            taken.forget(alloc);
            total = total.plus(taken.amount);
        }
        self.set_total(node, total);
    }

    fn on(&self, node: NodeId) -> Amount {
        self.total.get(&node).copied().unwrap_or(Amount::ZERO)
    }

    /// Whether a plan in flight stops the allocation: what that frees is taken already.
    fn is_stopping(&self, node: NodeId, alloc: AllocId) -> bool {
        let there = self.plans.values().flatten().filter(|(n, _)| *n == node);
        there.into_iter().any(|(_, taken)| taken.stopping.contains(&alloc))
    }

    /// How many more will hold the claim there.
    fn holders(&self, node: NodeId, claim: &Claim) -> i64 {
        let there = self.plans.values().flatten().filter(|(n, _)| *n == node);
        there.map(|(_, taken)| taken.more(claim)).sum()
    }
}

#[derive(Default)]
pub struct Plans {
    in_flight: PlansInFlight,
    /// Nodes to which nothing may be placed once entries that are under way are applied, and how many of these there are.
    closing: BTreeMap<NodeId, usize>,
}

impl Plans {
    /// An entry with the accepted parts of a plan is on its way.
    pub fn submit(&mut self, key: DeliveryKey, taken: Vec<(NodeId, Taken)>) {
        self.in_flight.add(key, taken);
    }

    /// The entry was applied: the state tells from now on.
    pub fn finish(&mut self, key: DeliveryKey) {
        self.in_flight.finish(key);
    }

    /// An allocation has changed. One that holds nothing any more gives nothing back by a plan in flight: what it held may be taken once, and the
    /// state shows it as free.
    pub fn alloc_changed(
        &mut self,
        changed: &AllocChange,
        view: impl FnOnce() -> Result<View, Fault>,
    ) -> Result<(), Fault> {
        if self.in_flight.changed.contains_key(&changed.id)
            && view()?.alloc(changed.id)?.is_none_or(|alloc| alloc.client_terminal())
        {
            self.in_flight.forget_ended(changed.node, changed.id);
        }
        Ok(())
    }

    /// Plans that are proposed and not applied.
    pub fn in_flight(&self) -> usize {
        self.in_flight.plans.len()
    }

    /// What each plan in flight takes of nodes, for workers whose state does not show it before `visible_at`. Advice: the first nodes only.
    pub fn in_flight_plans(&self, visible_at: u64) -> Vec<InFlightPlan> {
        let mut room = MAX_NODES_REPORTED;
        let mut told = vec![];
        for (key, parts) in &self.in_flight.plans {
            let plan = in_flight_plan(*key, parts, visible_at, room);
            room -= plan.nodes.len();
            told.push(plan);
            if room == 0 {
                break;
            }
        }
        told
    }

    /// An entry that closes the node is on its way.
    pub fn close(&mut self, node: NodeId) {
        *self.closing.entry(node).or_default() += 1;
    }

    /// The entry that closes the node was applied: the state tells from now on.
    pub fn closed(&mut self, node: NodeId) {
        let entries = self.closing.get_mut(&node).expect("an entry that was applied closed the node");
        *entries -= 1;
        self.closing.retain(|_, entries| *entries > 0);
    }

    /// What each part of the plan takes from its node; None: it does not fit any more.
    pub fn verify(&self, plan: &Plan, view: &View) -> Result<Vec<Option<Taken>>, Fault> {
        let mut changing = BTreeSet::new();
        let mut verified = vec![];
        for part in &plan.nodes {
            let taken = self.verify_node(part, plan.snapshot_index, view)?;
            verified.push(taken.filter(|taken| self.changes_each_once(taken, &mut changing)));
        }
        if plan.all_at_once && verified.iter().any(Option::is_none) {
            verified.iter_mut().for_each(|taken| *taken = None);
        }
        Ok(verified)
    }

    /// Whether the part changes no allocation twice, none that a plan in flight changes, and none of `changing`, which other parts of its
    /// plan change: what an allocation holds is given back once. Its own are added to `changing`.
    fn changes_each_once(&self, taken: &Taken, changing: &mut BTreeSet<AllocId>) -> bool {
        let own: BTreeSet<AllocId> = taken.changed.iter().map(|changed| changed.id).collect();
        let is_taken = |id: &AllocId| changing.contains(id) || self.in_flight.changed.contains_key(id);
        if own.len() < taken.changed.len() || own.iter().any(is_taken) {
            return false;
        }
        changing.extend(own);
        true
    }

    /// What the part takes from its node beyond what the state counts already, or `None` if it must be refused.
    fn verify_node(&self, part: &NodePlan, seen: u64, view: &View) -> Result<Option<Taken>, Fault> {
        let mut taken = Taken::by_stops(part);
        let (mut in_place_only, mut takes_something) = (true, false);
        for alloc in &part.places {
            let known = if alloc.create_index == 0 { None } else { view.alloc(alloc.id)? };
            if known.as_ref().is_some_and(|known| !self.may_update(known, alloc, part.node_id)) {
                return Ok(None);
            }
            let goes_on = |known: &Allocation| known.resources == alloc.resources;
            if known.as_ref().is_some_and(|known| known.client_terminal() || goes_on(known)) {
                // the allocation has ended, or goes on with what it has
                continue;
            }
            takes_something = true;
            match known {
                Some(known) => taken.change(&known, alloc.resources.holding()),
                None => {
                    taken.take(alloc.resources.holding());
                    in_place_only = false;
                }
            }
        }
        if !takes_something {
            // the node may be full, or gone
            return Ok(Some(taken));
        }
        let closing = self.closing.contains_key(&part.node_id);
        if !in_place_only && (closing || !view.fleet().ready(part.node_id)) {
            return Ok(None);
        }
        for stop in part.stops.iter().filter(|stop| !self.in_flight.is_stopping(part.node_id, stop.id)) {
            if let Some(known) = view.alloc(stop.id)?.filter(|known| !known.client_terminal()) {
                taken.change(&known, Holding::default());
            }
        }
        if !self.free_preempted(part, seen, &mut taken, view)? {
            return Ok(None);
        }
        let amount = self.in_flight.on(part.node_id).plus(taken.amount);
        let fits =
            view.fleet().fits(part.node_id, amount).is_ok() && self.is_exclusive(part.node_id, &taken, view);
        Ok(fits.then_some(taken))
    }

    /// Counts what preempted allocations hold as free; false: one of them has changed since the index that the plan saw, or may not be
    /// preempted.
    fn free_preempted(
        &self,
        part: &NodePlan,
        seen: u64,
        taken: &mut Taken,
        view: &View,
    ) -> Result<bool, Fault> {
        for (alloc, id) in part.preemptions() {
            let there = view.alloc(id)?.filter(|a| a.node_id == part.node_id && !a.terminal());
            let Some(known) = there.filter(|a| a.alloc_modify_index <= seen) else { return Ok(false) };
            let jobs = view.job(&alloc.job)?.zip(view.job(&known.job)?);
            let may = |(own, other): (Arc<Job>, Arc<Job>)| {
                scheduler::may_preempt(own.spec.priority, other.spec.priority)
            };
            let is_changed = self.in_flight.changed.contains_key(&id);
            if !jobs.is_some_and(may) || is_changed || self.in_flight.is_stopping(part.node_id, id) {
                return Ok(false);
            }
            taken.change(&known, Holding::default());
            taken.stopping.push(id);
        }
        Ok(true)
    }

    /// Whether an allocation may be updated in place: not one that was preempted meanwhile, or is about to be; nor one that lives on another
    /// node.
    fn may_update(&self, known: &Allocation, planned: &Allocation, node: NodeId) -> bool {
        let evicted = known.desired == DesiredStatus::Evict && planned.desired != DesiredStatus::Evict;
        !evicted
            && (known.client_terminal() || known.node_id == node)
            && !self.in_flight.is_stopping(known.node_id, known.id)
    }

    /// Whether no claim has another holder, but for one that makes way for it.
    fn is_exclusive(&self, node: NodeId, taken: &Taken, view: &View) -> bool {
        let held = view.fleet().claims(node);
        taken.claimed.iter().all(|claim| {
            let now = held.and_then(|h| h.get(claim)).map_or(0, |holders| i64::from(*holders))
                + self.in_flight.holders(node, claim);
            let more = taken.more(claim);
            more <= 0 || now + more <= 1
        })
    }
}

/// What a plan takes of the first nodes. What it only gives back is left out.
pub fn in_flight_plan(
    (eval, token): DeliveryKey,
    parts: &[(NodeId, Taken)],
    visible_at: u64,
    max_nodes: usize,
) -> InFlightPlan {
    let on_node = |(node, taken): &(NodeId, Taken)| {
        let holding = Holding { amount: taken.amount, claims: taken.claimed.clone() };
        let allocs = taken.amount.allocs;
        (holding != Holding::default()).then_some(TakenOnNode { node: *node, holding, allocs })
    };
    InFlightPlan {
        eval,
        token,
        visible_at,
        nodes: parts.iter().filter_map(on_node).take(max_nodes).collect(),
    }
}

#[cfg(test)]
mod tests;
