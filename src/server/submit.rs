//! A plan's way: a worker hands in its decision, the part of the plan that still fits is proposed with the evaluations that
//! follow, and when that entry is applied the evaluation is done or runs again (scheduler.md 6).
//!
//! Refuses to know: what fits, which `plans` says.

use super::context::Context;
use super::leader::Leader;
use super::pending::{AfterPlan, OnApply};
use super::plans::{MAX_NODES_REPORTED, Taken, in_flight_plan};
use super::reservations::ReservationChange;
use model::eval::{EvalStatus, Evaluation, Trigger};
use model::id::{AllocId, EvalId, EvalToken, JobKey, NodeId};
use model::plan::{Decision, NodePlan, Plan};
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeSet;
use wire::command::Command;
use wire::record;

/// Each part that still fits, with what it takes from its node.
type Fitting = (Vec<NodePlan>, Vec<(NodeId, Taken)>);

impl Leader {
    /// A worker's answer.
    pub fn planned(
        &mut self,
        eval: EvalId,
        token: EvalToken,
        result: Result<Box<Decision>, String>,
        is_split: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        let has_reservation = match result {
            _ if !self.evals.answered(eval, token, cx) => false,
            // what another server's worker says is not to be believed
            Ok(decision) if decision.plan.eval_id != eval || decision.eval.id != eval => {
                self.worker_failed(eval, token, "it decided on another evaluation", cx);
                false
            }
            Ok(decision) => self.submit(token, *decision, is_split, cx)?,
            Err(why) => {
                self.worker_failed(eval, token, &why, cx);
                false
            }
        };
        if !has_reservation {
            cx.outbox.reservation(ReservationChange::Release { eval, token });
        }
        Ok(())
    }

    fn worker_failed(&mut self, eval: EvalId, token: EvalToken, why: &str, cx: &mut Context<'_>) {
        tracing::error!(target: "nomad.worker", eval_id = %eval, why, "a scheduler worker failed");
        self.evals.nack(eval, token, cx);
    }

    /// Whether an entry is to carry what is placed.
    fn submit(
        &mut self,
        token: EvalToken,
        mut decision: Decision,
        is_split: bool,
        cx: &mut Context<'_>,
    ) -> Result<bool, Fault> {
        let view = cx.view()?;
        let is_split = is_split || (cx.has_peers && split(&mut decision.plan));
        let id = decision.plan.eval_id;
        let verified = self.plans.verify(&decision.plan, &view)?;
        let (nodes, rejected) = (verified.len(), verified.iter().filter(|taken| taken.is_none()).count());
        let (full, none) = (rejected == 0 && !is_split, nodes > 0 && rejected == nodes);
        cx.metrics.evaluated(rejected);
        let took = self.evals.outstanding_for(id, cx.now);
        tracing::debug!(target: "nomad.worker", eval_id = %id, nodes, rejected, %took, "plan evaluated");
        if decision.plan.is_no_op() && only_blocks_again(&decision, &view)? {
            self.evals.block_again(decision.eval, token, cx.now);
            return Ok(false);
        }
        let last = (!full).then(|| decision.clone());
        if !full && none {
            self.evals.set_rejected(id, last);
            self.evals.retry(id, false, &self.plans, cx);
            return Ok(false);
        }
        self.evals.submitted(id, last);
        let (accepted, taken) = fitting(std::mem::take(&mut decision.plan.nodes), verified);
        let deployment = decision.plan.deployment.take().map(Box::new);
        let updates = std::mem::take(&mut decision.plan.deployment_updates);
        // a part that is accepted may name evaluations to come: they come with it
        let mut evals = if full { evals_of(decision) } else { followups(decision) };
        evals.extend(preemption_evals(&accepted, &view, cx)?);
        let next = if full { AfterPlan::Ack } else { AfterPlan::Retry { progressed: !none } };
        let then = OnApply::Plan { eval: id, token, next };
        if accepted.is_empty() && deployment.is_none() && updates.is_empty() {
            cx.outbox.defer(Command::UpdateEvals { evals, at: cx.at }, then, cx.now);
            return Ok(false);
        }
        if self.evals.is_remote(id) {
            // this server's own workers know of it only by what they are told; where it is visible is corrected once it is proposed
            let plan = in_flight_plan((id, token), &taken, u64::MAX, MAX_NODES_REPORTED);
            cx.outbox.reservation(ReservationChange::Remote(plan));
        }
        self.plans.submit((id, token), taken);
        let at = cx.at;
        cx.propose(Command::ApplyPlan { eval: id, nodes: accepted, deployment, updates, evals, at }, then);
        Ok(true)
    }

    /// A plan's entry is applied.
    pub fn plan_applied(&mut self, eval: EvalId, token: EvalToken, next: AfterPlan, cx: &mut Context<'_>) {
        self.plans.finish((eval, token));
        if self.evals.is_remote(eval) && self.evals.outstanding_locally() == 0 {
            // no worker here looks at an older state
            cx.outbox.reservation(ReservationChange::Release { eval, token });
        }
        self.evals.plan_applied(eval, token, next, &self.plans, cx);
    }
}

/// The most bytes of a plan in an entry: the rest of the entry, and of the message that carries it, has room beside it.
const MAX_PLAN_BYTES: usize = raft::MAX_ENTRY_BYTES / 2;

/// Leaves the parts that fit into one entry; whether there were more. A plan that is wanted whole, or not at all, stays whole.
pub fn split(plan: &mut Plan) -> bool {
    if plan.all_at_once {
        return false;
    }
    let (mut bytes, mut fitting) = (0, 0);
    for part in &plan.nodes {
        bytes += record::encoded_bytes("plan", part);
        // one part alone is not to be divided
        if bytes > MAX_PLAN_BYTES && fitting > 0 {
            break;
        }
        fitting += 1;
    }
    let rest = plan.nodes.split_off(fitting);
    let replaced = replaced(&plan.nodes);
    plan.nodes.extend(rest.iter().filter_map(|part| stops_of_replaced(part, &replaced)));
    !rest.is_empty()
}

/// The parts that fit; and of the others the stops that must not be parted from them.
pub fn fitting(parts: Vec<NodePlan>, verified: Vec<Option<Taken>>) -> Fitting {
    assert_eq!(parts.len(), verified.len(), "each part of a plan was verified");
    let fit = parts.iter().zip(&verified).filter(|(_, taken)| taken.is_some());
    let replaced = replaced(fit.map(|(part, _)| part));
    let fitting = parts.into_iter().zip(verified).filter_map(|(part, taken)| {
        let node = part.node_id;
        match taken {
            Some(taken) => Some((part, (node, taken))),
            None => stops_of_replaced(&part, &replaced).map(|part| {
                let taken = Taken::by_stops(&part);
                (part, (node, taken))
            }),
        }
    });
    fitting.unzip()
}

/// The allocations that new ones replace.
fn replaced<'a>(parts: impl IntoIterator<Item = &'a NodePlan>) -> BTreeSet<AllocId> {
    let new = parts.into_iter().flat_map(|part| &part.places).filter(|alloc| alloc.create_index == 0);
    new.filter_map(|alloc| alloc.previous).collect()
}

/// Stops an allocation whose successor is in this entry, although the rest of its node's part has to wait: if the leader is gone
/// before the plan is made again, only the successor counts.
fn stops_of_replaced(part: &NodePlan, replaced: &BTreeSet<AllocId>) -> Option<NodePlan> {
    let stops: Vec<_> = part.stops.iter().filter(|stop| replaced.contains(&stop.id)).cloned().collect();
    (!stops.is_empty()).then_some(NodePlan { node_id: part.node_id, stops, places: vec![] })
}

/// Whether only the snapshot of the blocked evaluation is newer, which is kept in memory and not written. A stored one without queued
/// counts was never evaluated itself: the evaluation that created it has them.
fn only_blocks_again(decision: &Decision, view: &View) -> Result<bool, Fault> {
    let eval = &decision.eval;
    if eval.status != EvalStatus::Blocked || !decision.created.is_empty() {
        return Ok(false);
    }
    let stored = view.eval(eval.id)?;
    let same = |s: &Evaluation| s.queued.is_empty() || s.queued == eval.queued;
    Ok(stored.is_some_and(|s| s.status == EvalStatus::Blocked && same(&s)))
}

/// One evaluation for each job that loses allocations to this plan.
fn preemption_evals(
    accepted: &[NodePlan],
    view: &View,
    cx: &mut Context<'_>,
) -> Result<Vec<Evaluation>, Fault> {
    let mut jobs: BTreeSet<JobKey> = BTreeSet::new();
    for (_, id) in accepted.iter().flat_map(NodePlan::preemptions) {
        jobs.extend(view.alloc(id)?.map(|alloc| alloc.job));
    }
    let mut evals = vec![];
    for key in jobs {
        let Some(job) = view.job(&key)? else { continue };
        let (id, spec) = (cx.ids.eval(), &job.spec);
        let mut eval = Evaluation::pending(id, key, spec.job_type, spec.priority, Trigger::Preemption, cx.at);
        eval.job_modify_index = job.job_modify_index;
        evals.push(eval);
    }
    Ok(evals)
}

fn followups(decision: Decision) -> Vec<Evaluation> {
    decision.created.into_iter().filter(|e| e.wait_until.is_some()).collect()
}

fn evals_of(decision: Decision) -> Vec<Evaluation> {
    let mut evals = vec![decision.eval];
    evals.extend(decision.created);
    evals
}
