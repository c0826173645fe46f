//! Plans: what a scheduler worker wants is checked node by node against the latest state and what is in flight, and the
//! part that still fits is proposed (scheduler.md 6). Knows no policy: it never picks another node.

use super::{Op, Server};
use model::alloc::{Allocation, DesiredStatus};
use model::claims::Claim;
use model::eval::{EvalStatus, Evaluation, Trigger};
use model::id::{AllocId, EvalId, EvalToken, JobKey, NodeId};
use model::job::Job;
use model::plan::{Decision, NodePlan, Plan};
use model::resources::{Amount, Holding};
use model::time::{Mono, Now, Span, Wall};
use state::fault::Fault;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::command::Command;

/// What a part of a plan takes from its node beyond what the state counts already.
#[derive(Default)]
struct Taken {
    amount: Amount,
    claimed: Vec<Claim>,
    freed: Vec<Claim>,
    /// What is told to end, and gives back what it holds.
    leaving: Vec<AllocId>,
}

impl Taken {
    fn take(&mut self, holding: Holding) {
        self.amount = self.amount.plus(holding.amount);
        self.claimed.extend(holding.claims);
    }

    fn give_back(&mut self, holding: Holding) {
        self.amount = self.amount.minus(holding.amount);
        self.freed.extend(holding.claims);
    }

    /// How many more hold the claim.
    fn more(&self, claim: &Claim) -> i64 {
        let count = |claims: &[Claim]| claims.iter().filter(|c| *c == claim).count() as i64;
        count(&self.claimed) - count(&self.freed)
    }
}

/// What proposed plans will take from each node once they are applied.
#[derive(Default)]
pub struct InFlight {
    plans: BTreeMap<u64, Vec<(NodeId, Taken)>>,
    total: BTreeMap<NodeId, Amount>,
}

impl InFlight {
    fn add(&mut self, index: u64, taken: Vec<(NodeId, Taken)>) {
        for (node, taken) in &taken {
            let sum = self.total.entry(*node).or_insert(Amount::ZERO);
            *sum = sum.plus(taken.amount);
        }
        self.plans.insert(index, taken);
    }

    /// The entry was applied: the state tells from now on.
    pub fn settle(&mut self, index: u64) {
        for (node, taken) in self.plans.remove(&index).unwrap_or_default() {
            let left = self.total.get(&node).copied().unwrap_or(Amount::ZERO).minus(taken.amount);
            if left == Amount::ZERO {
                self.total.remove(&node);
            } else {
                self.total.insert(node, left);
            }
        }
    }

    fn on(&self, node: NodeId) -> Amount {
        self.total.get(&node).copied().unwrap_or(Amount::ZERO)
    }

    /// Plans that are proposed and not applied.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// A plan that is under way tells it to end: what it gives back is somebody's.
    fn is_leaving(&self, node: NodeId, alloc: AllocId) -> bool {
        let there = self.plans.values().flatten().filter(|(n, _)| *n == node);
        there.into_iter().any(|(_, taken)| taken.leaving.contains(&alloc))
    }

    /// How many more will hold the claim there.
    fn holders(&self, node: NodeId, claim: &Claim) -> i64 {
        let there = self.plans.values().flatten().filter(|(n, _)| *n == node);
        there.map(|(_, taken)| taken.more(claim)).sum()
    }
}

/// What is to follow once a plan's entry is applied.
#[derive(Debug)]
pub enum Then {
    /// The evaluation is done.
    Finish,
    /// A part was refused: the evaluation runs again, on a newer state.
    Again { progressed: bool },
}

impl Server {
    pub(super) fn planned(
        &mut self,
        eval: EvalId,
        token: EvalToken,
        result: Result<Box<Decision>, String>,
        now: Now,
    ) -> Result<(), Fault> {
        let delivered = self.broker.is_delivered(eval, token);
        if let Some(held) = self.outstanding.get_mut(&eval).filter(|_| delivered) {
            held.planned = now.mono;
            self.measures.scheduled(held.given, held.task.eval.job_type);
        }
        let proposed = match result {
            // a worker that was given up meanwhile; somebody else has the evaluation, or had it
            _ if !delivered => None,
            Ok(decision) => self.decided(token, *decision, now)?,
            Err(why) => {
                tracing::error!(target: "nomad.worker", eval_id = %eval, why, "a scheduler worker failed");
                self.give_back(eval, token, now.mono);
                None
            }
        };
        match proposed {
            Some(index) => self.board.proposed((eval, token), index),
            None => self.board.forget((eval, token)),
        }
        Ok(())
    }

    fn give_back(&mut self, eval: EvalId, token: EvalToken, now: Mono) {
        self.outstanding.remove(&eval);
        self.measures.nacked();
        tracing::debug!(target: "nomad.worker", eval_id = %eval, "nack evaluation");
        self.broker.nack(eval, token, now).unwrap_or_default();
    }

    /// The index of the entry that carries what is accepted; None: nothing is to be placed.
    fn decided(&mut self, token: EvalToken, mut decision: Decision, now: Now) -> Result<Option<u64>, Fault> {
        let view = self.log.reader().view()?;
        let id = decision.plan.eval_id;
        let verified = self.verify(&decision.plan, &view)?;
        let rejected = verified.iter().filter(|taken| taken.is_none()).count();
        let (full, none) = (rejected == 0, rejected == verified.len());
        self.measures.evaluated(rejected);
        let (nodes, took) =
            (verified.len(), self.outstanding.get(&id).map(|held| now.mono.since(held.given)));
        let took = took.unwrap_or(Span::ZERO);
        tracing::debug!(target: "nomad.worker", eval_id = %id, nodes, rejected, %took, "plan evaluated");
        if decision.plan.is_no_op() && self.only_blocks_again(&decision, &view)? {
            self.outstanding.remove(&id);
            self.broker.ack(id, token, now.mono).unwrap_or_default();
            self.block(decision.eval, now.mono);
            return Ok(None);
        }
        let then = if full { Then::Finish } else { Then::Again { progressed: !none } };
        if let Some(held) = self.outstanding.get_mut(&id) {
            held.last = (!full).then(|| decision.clone());
        }
        if !full && none {
            self.run_again(id, token, false, now)?;
            return Ok(None);
        }
        let at = self.stamp(now);
        let parts = std::mem::take(&mut decision.plan.nodes).into_iter().zip(verified);
        let fitting = parts.filter_map(|(part, taken)| {
            let node = part.node_id;
            Some((part, (node, taken?)))
        });
        let (accepted, taken): (Vec<NodePlan>, Vec<_>) = fitting.unzip();
        let deployment = decision.plan.deployment.clone().map(Box::new);
        let updates = decision.plan.deployment_updates.clone();
        // a part that is accepted may name evaluations to come: they come with it
        let mut evals = if full { evals_of(decision) } else { followups(decision) };
        evals.extend(self.preemption_evals(&accepted, &view, at)?);
        let op = Op::Plan { eval: id, token, then };
        self.broker.pause(id);
        if accepted.is_empty() && deployment.is_none() && updates.is_empty() {
            self.propose_with_the_next(Command::UpdateEvals { evals, at }, op, now);
            return Ok(None);
        }
        let command = Command::ApplyPlan { eval: id, nodes: accepted, deployment, updates, evals, at };
        let proposed = self.propose(&command, op);
        if let Some(index) = proposed {
            self.in_flight.add(index, taken);
        }
        Ok(proposed)
    }

    /// Nothing changed but what the blocked evaluation has seen: kept in memory, not written. One that was never evaluated
    /// itself says nothing of what is queued: the evaluation that it follows did.
    fn only_blocks_again(&self, decision: &Decision, view: &View) -> Result<bool, Fault> {
        let eval = &decision.eval;
        if eval.status != EvalStatus::Blocked || !decision.created.is_empty() {
            return Ok(false);
        }
        let stored = view.eval(eval.id)?;
        let same = |s: &Evaluation| s.queued.is_empty() || s.queued == eval.queued;
        Ok(stored.is_some_and(|s| s.status == EvalStatus::Blocked && same(&s)))
    }

    /// What each part of the plan takes from its node; None: it does not fit any more.
    fn verify(&self, plan: &Plan, view: &View) -> Result<Vec<Option<Taken>>, Fault> {
        let verified = plan.nodes.iter().map(|part| self.verify_node(part, plan.snapshot_index, view));
        let mut verified = verified.collect::<Result<Vec<_>, _>>()?;
        if plan.all_at_once && verified.iter().any(Option::is_none) {
            verified.iter_mut().for_each(|taken| *taken = None);
        }
        Ok(verified)
    }

    /// What the part takes from its node beyond what the state counts already, or `None` if it must be refused.
    fn verify_node(&self, part: &NodePlan, seen: u64, view: &View) -> Result<Option<Taken>, Fault> {
        let leaving = part.stops.iter().map(|stop| stop.id);
        let mut taken = Taken { leaving: leaving.collect(), ..Taken::default() };
        if part.places.is_empty() {
            return Ok(Some(taken));
        }
        let mut in_place_only = true;
        for alloc in &part.places {
            let known = if alloc.create_index == 0 { None } else { view.alloc(alloc.id)? };
            if known.as_ref().is_some_and(|known| self.has_made_way(known, alloc)) {
                return Ok(None);
            }
            if known.as_ref().is_some_and(|known| known.client_terminal()) {
                // it has ended: what is written to it takes nothing
                continue;
            }
            taken.take(alloc.resources.holding());
            match known {
                Some(known) => taken.give_back(known.resources.holding()),
                None => in_place_only = false,
            }
        }
        let closing = self.closing.values().any(|node| *node == part.node_id);
        if !in_place_only && (closing || !view.fleet().ready(part.node_id)) {
            return Ok(None);
        }
        for stop in part.stops.iter().filter(|stop| !self.in_flight.is_leaving(part.node_id, stop.id)) {
            if let Some(known) = view.alloc(stop.id)?.filter(|known| !known.client_terminal()) {
                taken.give_back(known.resources.holding());
            }
        }
        if !self.make_way(part, seen, &mut taken, view)? {
            return Ok(None);
        }
        let amount = self.in_flight.on(part.node_id).plus(taken.amount);
        let fits =
            view.fleet().fits(part.node_id, amount).is_ok() && self.is_exclusive(part.node_id, &taken, view);
        Ok(fits.then_some(taken))
    }

    /// Takes back what those hold that make way; false: one of them is not any more what the plan saw at that index, or may not
    /// be sent away.
    fn make_way(&self, part: &NodePlan, seen: u64, taken: &mut Taken, view: &View) -> Result<bool, Fault> {
        for (alloc, id) in part.preemptions() {
            let there = view.alloc(id)?.filter(|a| a.node_id == part.node_id && !a.terminal());
            let Some(known) = there.filter(|a| a.alloc_modify_index <= seen) else { return Ok(false) };
            let jobs = view.job(&alloc.job)?.zip(view.job(&known.job)?);
            let may = |(own, other): (Arc<Job>, Arc<Job>)| {
                scheduler::may_preempt(own.spec.priority, other.spec.priority)
            };
            if !jobs.is_some_and(may) || self.in_flight.is_leaving(part.node_id, id) {
                return Ok(false);
            }
            taken.give_back(known.resources.holding());
            taken.leaving.push(id);
        }
        Ok(true)
    }

    /// It is to change where it is, and has made way meanwhile, or is about to.
    fn has_made_way(&self, known: &Allocation, planned: &Allocation) -> bool {
        let evicted = known.desired == DesiredStatus::Evict && planned.desired != DesiredStatus::Evict;
        evicted || self.in_flight.is_leaving(known.node_id, known.id)
    }

    /// One for each job of which something makes way.
    fn preemption_evals(
        &mut self,
        accepted: &[NodePlan],
        view: &View,
        at: Wall,
    ) -> Result<Vec<Evaluation>, Fault> {
        let mut jobs: BTreeSet<JobKey> = BTreeSet::new();
        for (_, id) in accepted.iter().flat_map(NodePlan::preemptions) {
            jobs.extend(view.alloc(id)?.map(|alloc| alloc.job));
        }
        let mut evals = vec![];
        for key in jobs {
            let Some(job) = view.job(&key)? else { continue };
            let (id, spec) = (self.ids.eval(), &job.spec);
            let mut eval =
                Evaluation::pending(id, key, spec.job_type, spec.priority, Trigger::Preemption, at);
            eval.job_modify_index = job.job_modify_index;
            evals.push(eval);
        }
        Ok(evals)
    }

    /// Nothing that is claimed has another holder, but for one that makes way for it.
    fn is_exclusive(&self, node: NodeId, taken: &Taken, view: &View) -> bool {
        let held = view.fleet().claims(node);
        taken.claimed.iter().all(|claim| {
            let now = held.and_then(|h| h.get(claim)).map_or(0, |holders| i64::from(*holders))
                + self.in_flight.holders(node, claim);
            let more = taken.more(claim);
            more <= 0 || now + more <= 1
        })
    }

    /// The same evaluation once more, with the same token, until its attempts are used up.
    pub(super) fn run_again(
        &mut self,
        id: EvalId,
        token: EvalToken,
        progressed: bool,
        now: Now,
    ) -> Result<(), Fault> {
        let at = self.stamp(now);
        let min_index = self.log.applied();
        let seed = self.ids.seed();
        let Some(held) = self.outstanding.get_mut(&id) else { return Ok(()) };
        let task = &mut held.task;
        match (task.attempt.next(task.eval.job_type, progressed), &held.last) {
            (None, Some(last)) => {
                let decision = scheduler::max_attempts_reached(&task.eval, task.attempt, last, at, seed);
                let evals = evals_of(decision);
                self.broker.pause(id);
                let op = Op::Plan { eval: id, token, then: Then::Finish };
                self.propose(&Command::UpdateEvals { evals, at }, op);
            }
            (attempt, _) => {
                task.attempt = attempt.unwrap_or(task.attempt);
                (task.at, task.min_index, task.seed) = (at, min_index, seed);
                let task = task.clone();
                held.given = now.mono;
                self.broker.resume(id, now.mono);
                self.schedule(task);
            }
        }
        Ok(())
    }

    /// A plan's entry is applied.
    pub(super) fn plan_applied(
        &mut self,
        eval: EvalId,
        token: EvalToken,
        then: Then,
        now: Now,
    ) -> Result<(), Fault> {
        let held = self.outstanding.get(&eval).map(|held| (held.given, held.planned));
        self.measures.plan_applied(held);
        match then {
            Then::Finish => {
                self.measures.acked(held);
                tracing::debug!(target: "nomad.worker", eval_id = %eval, "ack evaluation");
                self.outstanding.remove(&eval);
                self.broker.ack(eval, token, now.mono).unwrap_or_default();
                Ok(())
            }
            Then::Again { progressed } => self.run_again(eval, token, progressed, now),
        }
    }
}

fn followups(decision: Decision) -> Vec<Evaluation> {
    decision.created.into_iter().filter(|e| e.wait_until.is_some()).collect()
}

fn evals_of(decision: Decision) -> Vec<Evaluation> {
    let mut evals = vec![decision.eval];
    evals.extend(decision.created);
    evals
}

#[cfg(test)]
mod tests;
