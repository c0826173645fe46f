//! Reservations of scheduler workers: room in plans that the state does not show yet. Workers that look at one state at the same time all
//! want the same best node, and only one of them may find room there. Each reserves what it is about to take, and the
//! others look at the state as if that were taken.
//!
//! A plain value: the agent, which runs the workers, shares it among them and applies the server's changes to it. Advice, not law:
//! `plans` judges what is handed in as if this were not. Refuses to know policy, and what a plan frees.

use model::claims::Claim;
use model::id::{EvalId, EvalToken, NodeId};
use model::plan::{NodePlan, Plan};
use model::resources::{Amount, Holding};
use scheduler::fleet::FleetSnapshot;
use std::collections::BTreeMap;
use wire::server_rpc::{InFlightPlan, TakenOnNode};

/// One evaluation in one worker's hands, which has one plan at a time.
pub type DeliveryKey = (EvalId, EvalToken);

#[derive(Debug, Default)]
pub struct Reservations {
    plans: BTreeMap<DeliveryKey, Reservation>,
    /// The index of the state that each worker looks at.
    snapshot_indexes: BTreeMap<DeliveryKey, u64>,
}

#[derive(Debug)]
struct Reservation {
    /// By node.
    holdings: Vec<(NodeId, Holding)>,
    /// The index of the first state that shows it; None: not proposed yet.
    visible_at: Option<u64>,
}

/// How a turn of the server changes reservations. Applied before the turn's other effects.
#[derive(Clone, Debug, PartialEq)]
pub enum ReservationChange {
    /// The state of this index shows what was reserved.
    Visible { eval: EvalId, token: EvalToken, index: u64 },
    /// A plan that another server knows of.
    Remote(InFlightPlan),
    /// Nothing of this reservation will be placed.
    Release { eval: EvalId, token: EvalToken },
    /// The server does not lead any more: nothing of any reservation will be placed.
    ReleaseAll,
}

impl Reservations {
    pub fn apply(&mut self, changes: &[ReservationChange]) {
        for change in changes {
            match change {
                ReservationChange::Visible { eval, token, index } => self.visible((*eval, *token), *index),
                ReservationChange::Remote(plan) => self.reserve_remote(plan),
                ReservationChange::Release { eval, token } => self.release((*eval, *token)),
                ReservationChange::ReleaseAll => *self = Reservations::default(),
            }
        }
    }

    /// The fleet with all that is reserved and that a state of this index does not show; None: nothing is.
    pub fn fleet_with(
        &mut self,
        key: DeliveryKey,
        index: u64,
        fleet: &FleetSnapshot,
    ) -> Option<FleetSnapshot> {
        self.snapshot_indexes.insert(key, index);
        self.drop_visible_to_all();
        let mut others = self.not_visible(key, index).peekable();
        others.peek()?;
        Some(fleet.with(others))
    }

    /// Reserves what the plan takes; false: something of it was taken meanwhile, and nothing is reserved.
    pub fn reserve(&mut self, key: DeliveryKey, index: u64, plan: &Plan, fleet: &FleetSnapshot) -> bool {
        let holdings = holdings(plan);
        let mut others: BTreeMap<NodeId, Holding> = BTreeMap::new();
        for (node, holding) in self.not_visible(key, index) {
            let sum = others.entry(*node).or_default();
            sum.amount = sum.amount.plus(holding.amount);
            sum.claims.extend_from_slice(&holding.claims);
        }
        let frees = |part: &NodePlan| !part.stops.is_empty() || part.preemptions().next().is_some();
        let frees = |node| plan.nodes.iter().any(|part| part.node_id == node && frees(part));
        let fits = |(node, own): &(NodeId, Holding)| {
            let Some(other) = others.get(node).filter(|_| !frees(*node)) else { return true };
            let claimed = |claim: &Claim| other.claims.contains(claim);
            fleet.fits(*node, other.amount.plus(own.amount)).is_ok() && !own.claims.iter().any(claimed)
        };
        let all_fit = holdings.iter().all(fits);
        if all_fit {
            self.snapshot_indexes.remove(&key);
            if !holdings.is_empty() {
                self.plans.insert(key, Reservation { holdings, visible_at: None });
            }
        }
        all_fit
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    fn visible(&mut self, key: DeliveryKey, index: u64) {
        self.snapshot_indexes.remove(&key);
        if let Some(reservation) = self.plans.get_mut(&key) {
            reservation.visible_at = Some(index);
        }
    }

    fn reserve_remote(&mut self, plan: &InFlightPlan) {
        let holding = |taken: &TakenOnNode| {
            let TakenOnNode { node, holding, allocs } = taken.clone();
            let amount = Amount { allocs, ..holding.amount };
            (node, Holding { amount, ..holding })
        };
        let holdings = plan.nodes.iter().map(holding).collect();
        let reservation = Reservation { holdings, visible_at: Some(plan.visible_at) };
        self.plans.insert((plan.eval, plan.token), reservation);
    }

    fn release(&mut self, key: DeliveryKey) {
        self.snapshot_indexes.remove(&key);
        self.plans.remove(&key);
    }

    fn not_visible(&self, but: DeliveryKey, index: u64) -> impl Iterator<Item = &(NodeId, Holding)> {
        let others = self.plans.iter().filter(move |(key, _)| **key != but);
        others.filter(move |(_, r)| r.visible_at.is_none_or(|at| at > index)).flat_map(|(_, r)| &r.holdings)
    }

    fn drop_visible_to_all(&mut self) {
        let Some(oldest) = self.snapshot_indexes.values().min().copied() else { return };
        self.plans.retain(|_, r| r.visible_at.is_none_or(|at| at > oldest));
    }
}

/// What a plan newly takes of each node. What is updated in place has a place already.
fn holdings(plan: &Plan) -> Vec<(NodeId, Holding)> {
    let mut out = Vec::new();
    for part in &plan.nodes {
        let mut sum = Holding::default();
        for alloc in part.places.iter().filter(|a| a.create_index == 0) {
            let Holding { amount, claims } = alloc.resources.holding();
            sum.amount = sum.amount.plus(amount);
            sum.claims.extend(claims);
        }
        if sum != Holding::default() {
            out.push((part.node_id, sum));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::Alone;
    use super::*;
    use state::samples::info;

    #[test]
    fn a_plan_of_another_server_counts_until_it_is_visible() {
        let mut alone = Alone::with(|_| {});
        let node = alone.add_node(info(1));
        let view = alone.view();
        let all = info(1).capacity;
        assert!(view.fleet().fits(node, Amount { allocs: 1, ..all }).is_ok());
        let holding = Holding { amount: all, claims: vec![] };
        let nodes = vec![TakenOnNode { node, holding, allocs: 1 }];
        let (eval, token) = (EvalId::from_random(1), EvalToken::from_random(1));
        let mut reservations = Reservations::default();
        let plan = InFlightPlan { eval, token, visible_at: 9, nodes };
        reservations.apply(&[ReservationChange::Remote(plan)]);
        let own = (EvalId::from_random(2), EvalToken::from_random(2));
        let seen = reservations.fleet_with(own, 8, view.fleet()).expect("something is taken");
        assert!(seen.fits(node, all).is_err());
        assert!(reservations.fleet_with(own, 9, view.fleet()).is_none(), "the state shows it");
        assert!(reservations.is_empty());
    }
}
