//! What follows from applied entries: answers, and work for the leader's queues. A new leader builds the same queues from
//! the state alone.

use super::blocked::Entry;
use super::log::Round;
use super::{Counter, Effect, Op, Server, applied_log};
use model::eval::{EvalStatus, Evaluation, Trigger};
use model::node::NodeStatus;
use model::scheduling::SchedulerSettings;
use model::time::{Mono, Now, Span};
use state::apply::ApplyResult;
use state::fault::Fault;
use wire::change::{AllocChange, Change, NodeChange};
use wire::command::Command;
use wire::frame::{self, Body, Frame};
use wire::request::{Refusal, RefusalKind, WriteReply};
use wire::rpc::{NodeReply, Peer};

/// Evaluations canceled by one command.
const CANCEL_BATCH: usize = 728;
/// A failed evaluation is followed up after this, and up to five times as long by chance on top.
const FOLLOW_UP_AFTER: Span = Span::minutes(1);

impl Server {
    pub(super) fn follow(&mut self, round: Round, now: Now) -> Result<(), Fault> {
        for out in round.messages {
            let frame = Frame { request: 0, body: Body::Raft(out.message) };
            self.send(Peer::Server(out.to), frame::encode(&frame));
        }
        for outcome in round.outcomes {
            self.follow_outcome(outcome, now)?;
        }
        if round.applied && !self.ready && self.log.leads_its_term() {
            self.take_office(now)?;
        }
        Ok(())
    }

    fn follow_outcome(&mut self, outcome: ApplyResult, now: Now) -> Result<(), Fault> {
        let ApplyResult { index, reply, changes, events } = outcome;
        self.in_flight.settle(index);
        self.closing.remove(&index);
        self.measures.applied(index);
        if let Some(op) = self.ops.remove(&index) {
            self.finish(op, reply, now)?;
        }
        if self.ready {
            for change in &changes {
                self.follow_change(change, index, now.mono)?;
            }
            self.evaluate_missed_jobs(&changes, now)?;
        }
        events.iter().for_each(applied_log::tell);
        self.changes.extend(changes);
        self.events.extend(events);
        Ok(())
    }

    fn finish(&mut self, op: Op, result: Result<WriteReply, Refusal>, now: Now) -> Result<(), Fault> {
        match op {
            Op::Reply { token } => self.reply(token, result),
            Op::Evaluate { token, evals, modify_index } => {
                let named = |done: WriteReply| WriteReply::Evals { evals, modify_index, index: done.index() };
                self.reply(token, result.map(named));
            }
            Op::Node { token, evals } => {
                let named = |done: WriteReply| {
                    let index = done.index();
                    WriteReply::Evals { evals, modify_index: index, index }
                };
                self.reply(token, result.map(named));
            }
            Op::Alive { asker, node } => self.alive(asker, node, result, now)?,
            Op::Reported { asker } => self.answer(asker, NodeReply::Reported),
            Op::Plan { eval, token, then } => self.plan_applied(eval, token, then, now)?,
            Op::Failed { eval } => self.broker.settle_failed(&eval),
            Op::Delete { token, later, skip_needed, count } => {
                self.deleted((token, later, skip_needed, count), result);
            }
            Op::Drained => self.drainer.settled(),
            Op::Collected => self.collector.settled(now.mono),
            Op::Watched { deployment } => self.watched.settle(deployment),
            Op::Unattended => {}
        }
        Ok(())
    }

    fn follow_change(&mut self, change: &Change, index: u64, now: Mono) -> Result<(), Fault> {
        match change {
            Change::Eval(eval) => self.follow_eval(eval, now),
            Change::Alloc(alloc) => self.follow_alloc(alloc, index, now)?,
            Change::Node(node) => self.follow_node(node, index, now)?,
            Change::Deployment(deployment) => self.follow_deployment(deployment),
            Change::Scheduler => self.follow_pause(now)?,
            Change::EvalDeleted(eval) => self.broker.forget(eval),
            Change::Job { job } => self.follow_job(job)?,
            Change::Namespace | Change::NodePool => {}
        }
        Ok(())
    }

    fn follow_eval(&mut self, eval: &Evaluation, now: Mono) {
        if self.paused {
            return;
        }
        match eval.status {
            EvalStatus::Pending => self.await_turn(eval.clone(), now),
            EvalStatus::Blocked => self.block(eval.clone(), now),
            EvalStatus::Complete if eval.failed_groups.is_empty() => {
                self.blocked.untrack(&eval.job);
            }
            EvalStatus::Canceled => self.broker.forget(eval),
            EvalStatus::Complete | EvalStatus::Failed => {}
        }
    }

    /// Its turn comes when it is due. How long that is, the leader's own clock says; but if that is wrong, nobody waits for
    /// longer than was meant when the evaluation was made.
    pub(super) fn await_turn(&mut self, eval: Evaluation, now: Mono) {
        let left = eval.wait_until.map(|at| (at - self.wall_at(now)).min(at - eval.create_time));
        match left.filter(|l| *l > Span::ZERO) {
            Some(left) => self.broker.hold(eval, now.after(left)),
            None => self.broker.requeue(eval, now),
        }
    }

    pub(super) fn block(&mut self, eval: Evaluation, now: Mono) {
        if let Entry::Missed(eval) = self.blocked.block(eval, now) {
            self.broker.requeue(*eval, now);
        }
    }

    fn follow_alloc(&mut self, alloc: &AllocChange, index: u64, now: Mono) -> Result<(), Fault> {
        self.drainer.touched(&alloc.job, alloc.node);
        if alloc.for_node {
            self.watches.changed(alloc.node, index);
        }
        if alloc.freed
            && let Some(node) = self.log.reader().view()?.node(alloc.node)?
        {
            self.blocked.unblock(&node.computed_class, index, now);
        }
        Ok(())
    }

    fn follow_node(&mut self, node: &NodeChange, index: u64, now: Mono) -> Result<(), Fault> {
        if node.opened {
            self.blocked.unblock(&node.computed_class, index, now);
        }
        match node.status {
            NodeStatus::Down => self.heartbeats.forget(node.id),
            // looked at again, until nobody waits for it any more
            NodeStatus::Disconnected => drop(self.heartbeats.heard(node.id, now)),
            _ => {}
        }
        let known = self.log.reader().view()?.node(node.id)?;
        self.follow_drain(known.as_deref(), node.id, now);
        Ok(())
    }

    /// This server leads and has applied all that came before: queues and deadlines are built from the state.
    pub(super) fn take_office(&mut self, now: Now) -> Result<(), Fault> {
        self.ready = true;
        self.measures.count(Counter::RaftStateLeader);
        tracing::info!(target: "nomad", term = self.log.raft().term(), "cluster leadership acquired");
        self.collector.take_office(now.mono);
        let view = self.log.reader().view()?;
        self.watches.reset(view.index());
        for key in view.system_and_periodic_jobs()? {
            self.follow_job(&key)?;
        }
        for node in view.nodes()? {
            if node.status != NodeStatus::Down {
                self.heartbeats.expect_after_failover(node.info.id, now.mono);
            }
            self.follow_drain(Some(&node), node.info.id, now.mono);
        }
        self.paused = view.scheduler_config()?.settings.pause_eval_broker;
        if !self.paused {
            self.fill_queues(&view, now.mono)?;
        }
        for deployment in view.deployments(None, usize::MAX)? {
            self.watched.follow(deployment.id, deployment.status.is_active());
        }
        self.ask_for_signing_key(&view)?;
        if view.region_id()?.is_none() {
            self.begin_scheduling();
            let at = self.stamp(now);
            let region_id = self.ids.uuid();
            self.propose(&Command::Init { region_id, at }, Op::Unattended);
        }
        Ok(())
    }

    /// A new region's scheduler works as this server's configuration says.
    fn begin_scheduling(&mut self) {
        let settings = self.config.scheduler;
        if settings != SchedulerSettings::default() {
            self.propose(&Command::ConfigureScheduler { settings, cas: Some(0) }, Op::Unattended);
        }
    }

    /// Evaluations that were delivered too often have failed and are followed up; needless ones are canceled.
    pub(super) fn chores(&mut self, now: Now) {
        while let Some(eval) = self.broker.take_failed() {
            self.fail(eval, now);
        }
        let superseded = self.broker.take_superseded(CANCEL_BATCH);
        self.cancel(superseded, now, |_| "canceled after more recent eval was processed".into());
        let duplicates = self.blocked.take_duplicates(CANCEL_BATCH);
        self.cancel(duplicates, now, |e| {
            format!("existing blocked evaluation exists for job {:?}", e.job.id)
        });
    }

    fn fail(&mut self, eval: Evaluation, now: Now) {
        let at = self.stamp(now);
        let id = self.ids.eval();
        let mut next = Evaluation::pending(
            id,
            eval.job.clone(),
            eval.job_type,
            eval.priority,
            Trigger::FailedFollowUp,
            at,
        );
        let extra = self.ids.below(FOLLOW_UP_AFTER.0 as u64 * 5);
        next.wait = FOLLOW_UP_AFTER + Span(extra as i64);
        next.previous_eval = Some(eval.id);
        next.job_modify_index = eval.job_modify_index;
        let mut failed = eval.clone();
        failed.status = EvalStatus::Failed;
        let limit = super::broker::DELIVERY_LIMIT;
        failed.status_description = format!("evaluation reached delivery limit ({limit})");
        failed.next_eval = Some(id);
        let command = Command::UpdateEvals { evals: vec![failed, next], at };
        self.propose(&command, Op::Failed { eval: Box::new(eval) });
    }

    fn cancel(&mut self, evals: Vec<Evaluation>, now: Now, why: impl Fn(&Evaluation) -> String) {
        if evals.is_empty() {
            return;
        }
        let at = self.stamp(now);
        let canceled = |mut e: Evaluation| {
            e.status_description = why(&e);
            e.status = EvalStatus::Canceled;
            e
        };
        let evals = evals.into_iter().map(canceled).collect();
        self.propose(&Command::UpdateEvals { evals, at }, Op::Unattended);
    }

    /// What waits for an entry that will never be applied by this leader is told so.
    pub(super) fn abandon_ops(&mut self) {
        for (_, op) in std::mem::take(&mut self.ops) {
            if let Some(token) = op.asked() {
                let message =
                    "the leader changed before the write was committed: read the state before trying again";
                self.out.push(Effect::Reply {
                    token,
                    result: Err(Refusal::new(RefusalKind::Unavailable, message)),
                });
            }
        }
    }
}
