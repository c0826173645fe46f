//! The parts that a server has only while it leads: queues, deadlines and watchers, each with its own state. They follow what is
//! applied; a new leader builds the same parts from the state alone.
//!
//! Refuses to know: raft, and who waits for which entry. No part names another's fields: what one needs of another is
//! handed in here.

use super::clock::WallClock;
use super::context::Context;
use super::deployments::DeploymentWatcher;
use super::drainer::Drainer;
use super::evals::Evals;
use super::garbage::Collector;
use super::membership::Membership;
use super::nodes::{self, Nodes, NotAuthentic};
use super::pending::{Asker, OnApply, with_evals};
use super::periodic::PeriodicDispatcher;
use super::plans::Plans;
use super::remote_workers::RemoteWorkers;
use super::reservations::ReservationChange;
use super::system_jobs::SystemJobs;
use super::watches::Known;
use super::{eval_deletion, reports};
use model::id::{JobKey, NodeId, NodeSecret};
use model::node::Node;
use model::time::Mono;
use state::fault::Fault;
use state::view::View;
use std::sync::Arc;
use wire::change::{AllocChange, Change, NodeChange};
use wire::request::{Refusal, WriteReply};
use wire::rpc::{NodeReply, NodeRequest};

pub struct Leader {
    /// The term in which it leads.
    pub term: u64,
    pub evals: Evals,
    pub remote_workers: RemoteWorkers,
    pub plans: Plans,
    pub nodes: Nodes,
    pub system_jobs: SystemJobs,
    pub deployments: DeploymentWatcher,
    pub drainer: Drainer,
    pub collector: Collector,
    pub periodic: PeriodicDispatcher,
    pub membership: Membership,
}

impl Leader {
    /// With empty queues: `EstablishLeadership` fills them from the state.
    pub fn new(term: u64, view: &View, cx: &mut Context<'_>) -> Result<Leader, Fault> {
        Ok(Leader {
            term,
            evals: Evals::new(view, cx)?,
            remote_workers: RemoteWorkers::default(),
            plans: Plans::default(),
            nodes: Nodes::new(view, cx)?,
            system_jobs: SystemJobs::default(),
            deployments: DeploymentWatcher::default(),
            drainer: Drainer::default(),
            collector: Collector::new(cx.config.garbage, cx.now),
            periodic: PeriodicDispatcher::default(),
            membership: Membership::new(cx.now),
        })
    }

    /// Tells nodes whose watches are open that this server does not lead any more: only the parts know them.
    pub fn step_down(self, cx: &mut Context<'_>) {
        self.nodes.step_down(cx);
    }

    /// Does what is due before any input is handled.
    pub fn expire(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        self.evals.expire(&mut self.remote_workers, cx.now);
        if cx.outbox.has_returned() || !cx.space_free {
            self.nodes.note_check(cx.now);
            return Ok(());
        }
        self.nodes.mark_expired_nodes_down(&self.system_jobs, &mut self.plans, cx)?;
        self.periodic.launch_due(cx);
        Ok(())
    }

    /// Lets each part propose what it wants to be written, after all inputs.
    pub fn advance(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        self.evals.reap(cx);
        self.drainer.advance(cx)?;
        self.deployments.watch(cx)?;
        self.collector.collect(cx)
    }

    /// Answers watches and hands evaluations to workers, after all that was applied.
    pub fn dispatch(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        self.nodes.answer_watches(cx)?;
        self.evals.end_pause(&self.plans, cx)?;
        self.evals.dispatch(&mut self.remote_workers, &self.plans, cx);
        Ok(())
    }

    /// The connection to another server is gone.
    pub fn link_down(&mut self, server: u64, cx: &mut Context<'_>) {
        self.remote_workers.link_down(server);
        self.evals.link_down(server, cx);
    }

    pub fn node_request(
        &mut self,
        asker: Asker,
        request: NodeRequest,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        cx.metrics.node_asked(&request);
        // answers go to the asker, and so would another node's watch
        if request.node() != asker.node {
            cx.answer(asker, nodes::refused(nodes::OTHER_NODE));
            return Ok(());
        }
        let view = cx.view()?;
        match request {
            NodeRequest::Register { info } => {
                self.nodes.register(asker, *info, &self.system_jobs, &view, cx)?;
            }
            NodeRequest::Heartbeat { node, secret } => {
                if let Some(known) = authentic(asker, node, secret, &view, cx)? {
                    self.nodes.heartbeat(asker, &known, &self.system_jobs, &view, cx)?;
                }
            }
            NodeRequest::Watch { node, secret, generation, since, servers } => {
                if authentic(asker, node, secret, &view, cx)?.is_some() {
                    self.nodes.watch(asker, since, Known { generation, servers }, cx.now);
                }
            }
            NodeRequest::Fetch { node, secret, allocs } => {
                if authentic(asker, node, secret, &view, cx)?.is_some() {
                    let assignments = nodes::fetched(&view, node, &allocs)?;
                    cx.answer(asker, NodeReply::Fetched { assignments });
                }
            }
            NodeRequest::Report { .. } if !cx.space_free => cx.answer(asker, NodeReply::TryLater),
            NodeRequest::Report { node, secret, seen, updates, verdicts } => {
                if let Some(known) = authentic(asker, node, secret, &view, cx)? {
                    reports::report(asker, &known, seen, updates, verdicts, &view, cx)?;
                }
            }
        }
        Ok(())
    }

    /// An entry that this leader proposed is applied.
    pub fn entry_applied(
        &mut self,
        then: OnApply,
        result: Result<WriteReply, Refusal>,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        match then {
            OnApply::Reply { token } => cx.reply(token, result),
            OnApply::Evaluated { token, evals, modify_index } => {
                cx.reply(token, result.map(|done| with_evals(done, evals, Some(modify_index))));
            }
            OnApply::NodeChanged { token, evals, closed } => {
                closed.into_iter().for_each(|node| self.plans.closed(node));
                cx.reply(token, result.map(|done| with_evals(done, evals, None)));
            }
            OnApply::NodeDown { node } => self.plans.closed(node),
            OnApply::NodeAlive { asker, node, info } => self.nodes.alive(asker, (node, info), result, cx)?,
            OnApply::NodeReported { asker } => reports::reported(asker, &result, cx),
            OnApply::Plan { eval, token, next } => self.plan_applied(eval, token, next, cx),
            OnApply::EvalFailed { eval } => self.evals.failure_applied(&eval),
            OnApply::EvalsDeleted { token, rest, skip_needed, count } => {
                eval_deletion::deleted((token, rest, skip_needed, count), result, cx);
            }
            OnApply::Drained => self.drainer.proposal_done(),
            OnApply::Collected => self.collector.proposal_done(cx.now),
            OnApply::DeploymentStepped { deployment } => self.deployments.proposal_done(deployment),
            OnApply::ServerRemoved { .. } | OnApply::Nothing => {}
        }
        Ok(())
    }

    /// An entry was not taken into the log, though this server leads: its part goes on as if it had not asked.
    pub fn proposal_refused(&mut self, then: OnApply, why: &Refusal, cx: &mut Context<'_>) {
        match then {
            OnApply::NodeDown { node } => self.plans.closed(node),
            OnApply::NodeChanged { closed, .. } => {
                closed.into_iter().for_each(|node| self.plans.closed(node));
            }
            OnApply::Plan { eval, token, .. } => {
                self.plans.finish((eval, token));
                self.evals.plan_refused(eval, token, why, cx);
                cx.outbox.reservation(ReservationChange::Release { eval, token });
            }
            OnApply::EvalFailed { eval } => self.evals.failure_refused(*eval, cx.now),
            OnApply::Drained => self.drainer.proposal_refused(cx.now),
            OnApply::Collected => self.collector.proposal_done(cx.now),
            OnApply::DeploymentStepped { deployment } => {
                self.deployments.proposal_refused(deployment, cx.now)
            }
            OnApply::Nothing => {
                tracing::warn!(target: "nomad", reason = why.message, "a change is not written")
            }
            _ => {}
        }
    }

    /// Gives the changes of an applied entry to the parts, whoever proposed it.
    pub fn apply_changes(
        &mut self,
        changes: &[Change],
        index: u64,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        for change in changes {
            match change {
                Change::Eval(eval) => self.evals.apply_change(eval, cx),
                Change::Alloc(alloc) => self.apply_alloc_change(alloc, index, cx)?,
                Change::Node(node) => self.apply_node_change(node, index, cx)?,
                Change::Deployment(change) => self.deployments.apply_change(change.id, change.active),
                Change::Scheduler => self.evals.apply_pause(&cx.view()?, cx)?,
                Change::EvalDeleted(eval) => self.evals.forget(eval),
                Change::Job { job } => self.apply_job_change(job, &cx.view()?, cx)?,
                Change::Member { .. } => {
                    self.membership.apply_change(cx.now);
                    self.nodes.servers_changed(index);
                }
                Change::FeatureLevel { .. } => self.membership.apply_change(cx.now),
                Change::Namespace | Change::NodePool => {}
            }
        }
        self.system_jobs.evaluate_missed_allocs(changes, cx)?;
        self.system_jobs.evaluate_missed_jobs(changes, cx)
    }

    fn apply_alloc_change(&mut self, alloc: &AllocChange, index: u64, cx: &Context<'_>) -> Result<(), Fault> {
        self.drainer.alloc_changed(&alloc.job, alloc.node);
        self.plans.alloc_changed(alloc, || cx.view())?;
        if alloc.for_node {
            self.nodes.alloc_changed(alloc.node, index);
        }
        if alloc.freed {
            let view = cx.view()?;
            // room on a node that takes nothing helps nobody; once it takes tasks again, that wakes those who wait
            let node = view.node(alloc.node)?.filter(|_| view.fleet().ready(alloc.node));
            if let Some(node) = node {
                self.evals.unblock(&node.computed_class, index, cx.now);
            }
        }
        Ok(())
    }

    fn apply_node_change(&mut self, node: &NodeChange, index: u64, cx: &Context<'_>) -> Result<(), Fault> {
        if node.opened {
            self.evals.unblock(&node.computed_class, index, cx.now);
        }
        self.nodes.apply_change(node, cx.now);
        let known = cx.view()?.node(node.id)?;
        self.drainer.apply_change(known.as_deref(), node.id, cx);
        Ok(())
    }

    /// The job is now as the state says.
    pub fn apply_job_change(&mut self, key: &JobKey, view: &View, cx: &Context<'_>) -> Result<(), Fault> {
        let job = view.job(key)?;
        self.system_jobs.apply_change(key, job.as_deref());
        self.periodic.apply_change(key, job.as_deref(), view, cx)
    }

    /// Whether there is something to do in the next turn already.
    pub fn has_work(&self, space_free: bool) -> bool {
        self.evals.has_work() || self.nodes.has_work() || (space_free && self.deployments.has_work())
    }

    pub fn next_deadline(&self, space_free: bool, clock: WallClock) -> Option<Mono> {
        let writes = [
            self.deployments.next_deadline(),
            self.collector.next_deadline(),
            self.periodic.next_deadline(clock),
            self.membership.next_deadline(),
            self.drainer.next_deadline(),
            self.nodes.next_expiry(),
        ];
        let others = [self.evals.next_deadline(), self.nodes.next_watch()];
        writes.into_iter().filter(|_| space_free).chain(others).flatten().min()
    }
}

/// The node as the state knows it, if the secret is its own; otherwise the asker has been told.
fn authentic(
    asker: Asker,
    node: NodeId,
    secret: NodeSecret,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<Option<Arc<Node>>, Fault> {
    let told = match nodes::authenticate(node, secret, view)? {
        Ok(known) => return Ok(Some(known)),
        Err(NotAuthentic::Unknown) => NodeReply::UnknownNode,
        Err(NotAuthentic::WrongSecret) => nodes::refused(nodes::WRONG_SECRET),
    };
    cx.answer(asker, told);
    Ok(None)
}
