//! What scheduler workers have decided and the state does not tell yet: workers that look at one state at the same time all
//! want the same best node, and only one of them may find room there. Each writes here what it is about to take, and the
//! others look beside the state as if that were taken.
//!
//! Advice, not law: `plans` judges what is handed in as if this were not. Refuses to know policy, and what a plan frees.

use super::effects::ScheduleTask;
use model::claims::Claim;
use model::id::{EvalId, EvalToken, NodeId};
use model::plan::{Decision, NodePlan, Plan};
use model::resources::Holding;
use scheduler::fleet::FleetSnapshot;
use state::store::Reader;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often a worker looks again because another one was quicker; then it is left to `plans`.
const LOOKS: u32 = 4;

/// One evaluation in one worker's hands.
type Key = (EvalId, EvalToken);

#[derive(Debug, Default)]
pub struct Board(Mutex<Decided>);

#[derive(Debug, Default)]
struct Decided {
    plans: BTreeMap<Key, Taking>,
    /// The index of the state that each worker looks at.
    looking: BTreeMap<Key, u64>,
}

#[derive(Debug)]
struct Taking {
    /// By node.
    holdings: Vec<(NodeId, Holding)>,
    /// The first state that tells it; None: not proposed yet.
    told_at: Option<u64>,
}

/// What a worker makes of its task: on the latest state, beside what others are about to take.
pub fn decide(task: &ScheduleTask, reader: &Reader) -> Result<Box<Decision>, String> {
    let key = (task.eval.id, task.token);
    let mut looks = 0;
    loop {
        looks += 1;
        let view = reader.view().map_err(|e| e.to_string())?;
        if view.index() < task.min_index {
            return Err(format!("the state has not reached index {}", task.min_index));
        }
        let on = |fleet| scheduler::schedule(&view, fleet, &task.eval, task.attempt, task.at, task.seed);
        let beside = task.board.beside(key, view.index(), view.fleet());
        let mut decision = on(beside.as_ref().unwrap_or(view.fleet()));
        let mut last = looks == LOOKS;
        let no_room = !decision.eval.failed_groups.is_empty() || decision.plan.preemptions().next().is_some();
        if beside.is_some() && no_room {
            // what seems to be taken may never be, and nobody would tell who waits for it, or give back what made way for it: only the
            // state says that there is no room
            decision = on(view.fleet());
            last = true;
        }
        if let Some(fault) = view.fault() {
            return Err(fault.to_string());
        }
        if task.board.write(key, view.index(), &decision.plan, view.fleet()) || last {
            return Ok(Box::new(decision));
        }
    }
}

impl Board {
    /// The fleet as it will be when all is taken that a state of this index does not tell; None: that is nothing.
    fn beside(&self, key: Key, index: u64, fleet: &FleetSnapshot) -> Option<FleetSnapshot> {
        let mut decided = self.lock();
        decided.looking.insert(key, index);
        decided.forget_what_all_see();
        let untold = decided.untold(key, index);
        let mut untold = untold.peekable();
        untold.peek()?;
        Some(fleet.with(untold))
    }

    /// Writes down what the plan takes; false: something of it was taken meanwhile, and nothing is written.
    fn write(&self, key: Key, index: u64, plan: &Plan, fleet: &FleetSnapshot) -> bool {
        let holdings = holdings(plan);
        let mut decided = self.lock();
        let mut others: BTreeMap<NodeId, Holding> = BTreeMap::new();
        for (node, holding) in decided.untold(key, index) {
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
            decided.looking.remove(&key);
            if !holdings.is_empty() {
                decided.plans.insert(key, Taking { holdings, told_at: None });
            }
        }
        all_fit
    }

    /// It will be in the state of this index.
    pub fn proposed(&self, key: Key, index: u64) {
        let mut decided = self.lock();
        decided.looking.remove(&key);
        if let Some(taking) = decided.plans.get_mut(&key) {
            taking.told_at = Some(index);
        }
    }

    /// Nothing of it comes.
    pub fn forget(&self, key: Key) {
        let mut decided = self.lock();
        decided.looking.remove(&key);
        decided.plans.remove(&key);
    }

    /// Every change is one step: whoever panicked with it has left it whole.
    fn lock(&self) -> MutexGuard<'_, Decided> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decided {
    fn untold(&self, but: Key, index: u64) -> impl Iterator<Item = &(NodeId, Holding)> {
        let others = self.plans.iter().filter(move |(key, _)| **key != but);
        others.filter(move |(_, p)| p.told_at.is_none_or(|at| at > index)).flat_map(|(_, p)| &p.holdings)
    }

    fn forget_what_all_see(&mut self) {
        let Some(oldest) = self.looking.values().min().copied() else { return };
        self.plans.retain(|_, p| p.told_at.is_none_or(|at| at > oldest));
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
mod tests;
