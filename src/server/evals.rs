//! The leader's evaluations: those that wait for a worker (the broker), for a node (blocked) or for their time, and those
//! that workers hold (scheduler.md 3 and 4). While an operator pauses the scheduler, or the disk is full, there are none.
//!
//! Refuses to know: what a plan holds. All of it can be rebuilt from the state.

mod pause;
mod remote;

use super::Config;
use super::blocked::{BlockOutcome, Blocked};
use super::broker::{Broker, DELIVERY_LIMIT};
use super::context::Context;
use super::effects::{Effect, ScheduleTask};
use super::pending::{AfterPlan, OnApply};
use super::plans::Plans;
use super::remote_workers::RemoteWorkers;
use super::unserved_types::UnservedTypes;
use model::eval::{EvalStatus, Evaluation, Trigger};
use model::id::{EvalId, EvalToken};
use model::job::JobType;
use model::plan::Decision;
use model::time::{Mono, Span};
use pause::is_paused;
use remote::{deliver, remote_task};
use scheduler::Attempt;
use state::fault::Fault;
use state::scans::RangeScan;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::command::Command;
use wire::request::{Refusal, RefusalKind};
use wire::status::BrokerStatus;

/// Evaluations canceled by one command.
const CANCEL_BATCH: usize = 728;
/// A failed evaluation is followed up after this, and up to five times as long by chance on top.
const FOLLOW_UP_AFTER: Span = Span::minutes(1);

pub struct Evals {
    broker: Broker,
    blocked: Blocked,
    /// Evaluations that scheduler workers hold.
    outstanding: BTreeMap<EvalId, Outstanding>,
    /// Evaluations whose failure is proposed and not applied yet.
    failing: BTreeSet<EvalId>,
    /// No evaluation is handed out: an operator wants that, or there is no room.
    paused: bool,
    /// The pause has ended, but plans from before it are still pending.
    is_ending: bool,
    /// After a pause: how far the queues are filled again from the state.
    restoring: Option<RangeScan>,
    disk_has_space: bool,
    unserved: UnservedTypes,
}

/// An evaluation in a worker's hands.
struct Outstanding {
    task: ScheduleTask,
    /// The server whose worker it is; `None`: this one.
    server: Option<u64>,
    dequeued_at: Mono,
    /// When its worker answered last.
    answered_at: Mono,
    /// The worker has answered, and has not been asked again.
    is_answered: bool,
    /// The connection to the worker's server was lost since.
    is_cut_off: bool,
    /// The last decision on it, if not all of its plan was accepted.
    rejected: Option<Decision>,
}

impl Evals {
    /// Empty queues: paused if the state says so, or if the disk is full.
    pub fn new(view: &View, cx: &mut Context<'_>) -> Result<Evals, Fault> {
        Ok(Evals {
            broker: Broker::new(cx.ids.seed()),
            blocked: Blocked::default(),
            outstanding: BTreeMap::new(),
            failing: BTreeSet::new(),
            paused: is_paused(view, cx)?,
            is_ending: false,
            restoring: None,
            disk_has_space: cx.space_free,
            unserved: UnservedTypes::default(),
        })
    }

    /// Takes in an open evaluation of the state. A blocked one may have missed the change that it waits for: it gets one more try.
    pub fn restore(&mut self, eval: Evaluation, cx: &Context<'_>) {
        if !self.paused {
            self.enqueue_when_due(eval, cx);
        }
    }

    pub fn apply_change(&mut self, eval: &Evaluation, cx: &Context<'_>) {
        if self.paused {
            return;
        }
        match eval.status {
            EvalStatus::Pending => self.enqueue_when_due(eval.clone(), cx),
            EvalStatus::Blocked => self.block(eval.clone(), cx.now),
            EvalStatus::Complete if eval.failed_groups.is_empty() => {
                self.blocked.untrack(&eval.job);
            }
            EvalStatus::Canceled => self.forget(eval),
            EvalStatus::Complete | EvalStatus::Failed => {}
        }
    }

    /// The evaluation was canceled, or deleted from the state. If its failure is pending, the job's next one has the slot by then.
    pub fn forget(&mut self, eval: &Evaluation) {
        self.failing.remove(&eval.id);
        self.broker.forget(eval);
    }

    /// The leader's own clock says how long an evaluation waits, but never longer than was meant when it was created.
    fn enqueue_when_due(&mut self, eval: Evaluation, cx: &Context<'_>) {
        let left = eval.wait_until.map(|at| (at - cx.at).min(at - eval.create_time));
        match left.filter(|l| *l > Span::ZERO) {
            Some(left) => self.broker.enqueue_at(eval, cx.now.after(left)),
            None => self.broker.requeue(eval, cx.now),
        }
    }

    fn block(&mut self, eval: Evaluation, now: Mono) {
        if let BlockOutcome::MissedUnblock(eval) = self.blocked.block(eval, now) {
            self.broker.requeue(*eval, now);
        }
    }

    /// A node of this class has room since `index`.
    pub fn unblock(&mut self, class: &str, index: u64, now: Mono) {
        self.blocked.unblock(class, index, now);
    }

    /// What workers have held for too long goes back, and what has waited for long enough is ready.
    pub fn expire(&mut self, remote: &mut RemoteWorkers, now: Mono) {
        for eval in self.broker.expire(now) {
            let held = self.outstanding.remove(&eval);
            if let Some(server) = held.and_then(|held| held.server) {
                remote.timed_out(server, now);
            }
        }
        for eval in self.blocked.take_released(now) {
            self.broker.enqueue(eval, now);
        }
    }

    /// This server's free workers get the most urgent evaluations; where more wait than these do in a while, other servers'
    /// workers help.
    pub fn dispatch(&mut self, remote: &mut RemoteWorkers, plans: &Plans, cx: &mut Context<'_>) {
        assert!(!(self.paused && self.broker.has_ready()), "in a pause the queues are empty");
        if self.restoring.is_some() {
            return;
        }
        debug_assert_eq!(
            self.outstanding.len() as u64,
            self.broker.status().unacked,
            "what workers hold is what was delivered"
        );
        while self.outstanding_locally() < cx.config.workers {
            let Some(task) = self.take_ready(None, &cx.config.enabled_schedulers, cx) else { break };
            cx.outbox.effect(Effect::Schedule(Box::new(task)));
        }
        self.dispatch_remotely(remote, plans, cx);
        self.unserved.warn(&self.broker, own_types(cx.config), remote, cx.now);
    }

    pub fn outstanding_locally(&self) -> usize {
        self.outstanding.values().filter(|held| held.server.is_none()).count()
    }

    /// The next evaluation, in the hands of a worker of that server.
    fn take_ready(
        &mut self,
        server: Option<u64>,
        of: &[JobType],
        cx: &mut Context<'_>,
    ) -> Option<ScheduleTask> {
        if self.broker.ready_of(of) == 0 {
            return None;
        }
        let token = cx.ids.token();
        let eval = self.broker.dequeue(of, token, cx.now)?;
        cx.metrics.dequeued(self.broker.ready_since(eval.id));
        let (job_id, triggered_by) = (&eval.job.id, eval.trigger.as_str());
        tracing::debug!(target: "nomad.worker", eval_id = %eval.id, job_id, triggered_by, "dequeued evaluation");
        let attempt = Attempt::first(cx.applied);
        let (min_index, at, seed) = (cx.applied, cx.at, cx.ids.seed());
        let task = ScheduleTask { eval, token, attempt, min_index, at, seed };
        let outstanding = Outstanding {
            task: task.clone(),
            server,
            dequeued_at: cx.now,
            answered_at: cx.now,
            is_answered: false,
            is_cut_off: false,
            rejected: None,
        };
        let before = self.outstanding.insert(task.eval.id, outstanding);
        assert!(before.is_none(), "an evaluation is in one worker's hands");
        Some(task)
    }

    /// A worker has answered. False: it was given up meanwhile, and somebody else has the evaluation, or had it.
    pub fn answered(&mut self, eval: EvalId, token: EvalToken, cx: &mut Context<'_>) -> bool {
        if !self.broker.is_delivered(eval, token) {
            return false;
        }
        let Some(held) = self.outstanding.get_mut(&eval).filter(|held| !held.is_answered) else {
            return false;
        };
        (held.answered_at, held.is_answered) = (cx.now, true);
        cx.metrics.scheduled(held.dequeued_at, held.task.eval.job_type);
        true
    }

    /// How long the worker has had the evaluation.
    pub fn outstanding_for(&self, eval: EvalId, now: Mono) -> Span {
        self.outstanding.get(&eval).map_or(Span::ZERO, |held| now.since(held.dequeued_at))
    }

    /// The worker gives the evaluation back undone.
    pub fn nack(&mut self, eval: EvalId, token: EvalToken, cx: &mut Context<'_>) {
        self.outstanding.remove(&eval);
        cx.metrics.nacked();
        tracing::debug!(target: "nomad.worker", eval_id = %eval, "nack evaluation");
        assert!(self.broker.nack(eval, token, cx.now).is_ok(), "it was delivered");
    }

    /// Nothing of the decision is to be written: the evaluation stays blocked as before.
    pub fn block_again(&mut self, eval: Evaluation, token: EvalToken, now: Mono) {
        assert!(self.outstanding.remove(&eval.id).is_some(), "a worker has decided on it");
        assert!(self.broker.ack(eval.id, token, now).is_ok(), "it was delivered");
        self.block(eval, now);
    }

    /// The plan is on its way into the log. `rejected`: the decision, if not all of the plan was accepted.
    pub fn submitted(&mut self, eval: EvalId, rejected: Option<Decision>) {
        self.broker.pause(eval);
        self.set_rejected(eval, rejected);
    }

    pub fn set_rejected(&mut self, eval: EvalId, rejected: Option<Decision>) {
        if let Some(held) = self.outstanding.get_mut(&eval) {
            held.rejected = rejected;
        }
    }

    /// The plan's entry is applied.
    pub fn plan_applied(
        &mut self,
        eval: EvalId,
        token: EvalToken,
        next: AfterPlan,
        plans: &Plans,
        cx: &mut Context<'_>,
    ) {
        if !self.broker.is_delivered(eval, token) {
            // there was a pause meanwhile
            return;
        }
        let held = self.outstanding.get(&eval).map(|held| (held.dequeued_at, held.answered_at));
        cx.metrics.plan_applied(held);
        match next {
            AfterPlan::Ack => {
                cx.metrics.acked(held);
                tracing::debug!(target: "nomad.worker", eval_id = %eval, "ack evaluation");
                self.outstanding.remove(&eval);
                assert!(self.broker.ack(eval, token, cx.now).is_ok(), "it was delivered");
            }
            AfterPlan::Retry { progressed } => self.retry(eval, progressed, plans, cx),
        }
    }

    /// The same evaluation once more, with the same token, until its attempts are used up.
    pub fn retry(&mut self, id: EvalId, progressed: bool, plans: &Plans, cx: &mut Context<'_>) {
        let seed = cx.ids.seed();
        let Some(held) = self.outstanding.get_mut(&id) else { return };
        let task = &mut held.task;
        match (task.attempt.next(task.eval.job_type, progressed), &held.rejected) {
            (None, Some(last)) => {
                let decision = scheduler::max_attempts_reached(&task.eval, task.attempt, last, cx.at, seed);
                let then = OnApply::Plan { eval: id, token: task.token, next: AfterPlan::Ack };
                self.broker.pause(id);
                let mut evals = vec![decision.eval];
                evals.extend(decision.created);
                cx.propose(Command::UpdateEvals { evals, at: cx.at }, then);
            }
            _ if held.is_cut_off => {
                let token = task.token;
                self.nack(id, token, cx);
            }
            (attempt, _) => {
                task.attempt = attempt.unwrap_or(task.attempt);
                (task.at, task.min_index, task.seed) = (cx.at, cx.applied, seed);
                (held.dequeued_at, held.is_answered) = (cx.now, false);
                self.broker.resume(id, cx.now);
                let task = held.task.clone();
                match held.server {
                    None => cx.outbox.effect(Effect::Schedule(Box::new(task))),
                    Some(server) => deliver(server, 0, vec![remote_task(task, plans, cx)], cx),
                }
            }
        }
    }

    /// Fails evaluations that were delivered too often, with a follow-up, and cancels superseded ones.
    pub fn reap(&mut self, cx: &mut Context<'_>) {
        while let Some(eval) = self.broker.take_failed() {
            self.fail(eval, cx);
        }
        if cx.outbox.has_returned() || self.restoring.is_some() {
            return;
        }
        let superseded = self.broker.take_superseded(CANCEL_BATCH);
        cancel(superseded, cx, |_| "canceled after more recent eval was processed".into());
        let duplicates = self.blocked.take_duplicates(CANCEL_BATCH);
        cancel(duplicates, cx, |e| format!("existing blocked evaluation exists for job {:?}", e.job.id));
    }

    fn fail(&mut self, eval: Evaluation, cx: &mut Context<'_>) {
        let (at, id) = (cx.at, cx.ids.eval());
        let (key, trigger) = (eval.job.clone(), Trigger::FailedFollowUp);
        let mut next = Evaluation::pending(id, key, eval.job_type, eval.priority, trigger, at);
        let extra = cx.ids.below(FOLLOW_UP_AFTER.0 as u64 * 5);
        next.wait = FOLLOW_UP_AFTER + Span(extra as i64);
        next.previous_eval = Some(eval.id);
        next.job_modify_index = eval.job_modify_index;
        let mut failed = eval.clone();
        failed.status = EvalStatus::Failed;
        failed.status_description = format!("evaluation reached delivery limit ({DELIVERY_LIMIT})");
        failed.next_eval = Some(id);
        assert!(self.failing.insert(eval.id), "a failure is recorded once");
        assert!(!self.outstanding.contains_key(&eval.id), "what has failed is with no worker");
        let command = Command::UpdateEvals { evals: vec![failed, next], at };
        cx.propose(command, OnApply::EvalFailed { eval: Box::new(eval) });
    }

    /// The plan's entry was not taken into the log.
    pub fn plan_refused(&mut self, eval: EvalId, token: EvalToken, why: &Refusal, cx: &mut Context<'_>) {
        match why.kind {
            RefusalKind::Invalid => self.fail_without_follow_up(eval, token, &why.message, cx),
            _ if self.broker.is_delivered(eval, token) => self.nack(eval, token, cx),
            _ => {}
        }
    }

    /// Fails an evaluation whose plan fits into no entry. Another worker would make the same plan, so it gets no follow-up: the job waits
    /// for a change, or for another evaluation.
    fn fail_without_follow_up(&mut self, id: EvalId, token: EvalToken, why: &str, cx: &mut Context<'_>) {
        let Ok(eval) = self.broker.fail(id, token) else { return };
        self.outstanding.remove(&id);
        tracing::warn!(target: "nomad.worker", eval_id = %id, job_id = eval.job.id, why, "a plan cannot be written");
        let mut failed = eval.clone();
        failed.status = EvalStatus::Failed;
        failed.status_description = format!(
            "the plan cannot be written: {why}, by leaving out all_at_once, or lower the counts of the job's groups"
        );
        assert!(self.failing.insert(id), "a failure is recorded once");
        let command = Command::UpdateEvals { evals: vec![failed], at: cx.at };
        cx.propose(command, OnApply::EvalFailed { eval: Box::new(eval) });
    }

    /// The evaluation's failure was not taken into the log: it is tried once more.
    pub fn failure_refused(&mut self, eval: Evaluation, now: Mono) {
        if self.failing.remove(&eval.id) {
            self.broker.resolve_failed(&eval);
            self.broker.enqueue(eval, now);
        }
    }

    /// The evaluation's failure is applied: the job's next one may run.
    pub fn failure_applied(&mut self, eval: &Evaluation) {
        if self.failing.remove(&eval.id) {
            self.broker.resolve_failed(eval);
        }
    }

    /// Whether there is something to do in the next turn already.
    pub fn has_work(&self) -> bool {
        self.restoring.is_some()
            || self.broker.has_failed_or_superseded()
            || self.blocked.has_duplicates()
            || self.blocked.has_released()
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.broker.next_deadline().into_iter().chain(self.blocked.next_deadline()).min()
    }

    pub fn status(&self) -> BrokerStatus {
        BrokerStatus { blocked: self.blocked.len() as u64, ..self.broker.status() }
    }

    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    pub fn blocked(&self) -> &Blocked {
        &self.blocked
    }

    /// The evaluations in the queues, if none is being worked on.
    #[cfg(any(test, feature = "testing"))]
    pub fn queued_when_idle(&self) -> Option<BTreeSet<EvalId>> {
        let busy = self.paused
            || self.restoring.is_some()
            || self.broker.has_failed_or_superseded()
            || self.blocked.has_duplicates()
            || !self.outstanding.is_empty();
        (!busy).then(|| self.broker.contents().into_iter().chain(self.blocked.contents()).collect())
    }

    /// How many evaluations are in the queues or with workers although there is a pause: 0, or it is a bug.
    #[cfg(any(test, feature = "testing"))]
    pub fn queued_while_paused(&self) -> usize {
        let queued = self.broker.contents().len() + self.blocked.len() + self.outstanding.len();
        if self.paused { queued } else { 0 }
    }

    #[cfg(test)]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    #[cfg(test)]
    pub fn broker_mut(&mut self) -> &mut Broker {
        &mut self.broker
    }
}

/// What the leader's own workers take.
fn own_types(config: &Config) -> &[JobType] {
    if config.workers > 0 { &config.enabled_schedulers } else { &[] }
}

fn cancel(evals: Vec<Evaluation>, cx: &mut Context<'_>, why: impl Fn(&Evaluation) -> String) {
    let canceled = |mut e: Evaluation| {
        e.status_description = why(&e);
        e.status = EvalStatus::Canceled;
        e
    };
    cx.propose_evals(evals.into_iter().map(canceled).collect());
}
