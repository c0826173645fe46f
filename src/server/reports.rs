//! What clients report of their allocations: taken with the evaluations that follow from it, in one entry
//! (server.md 3.5, scheduler.md 2). Refuses to know what those evaluations come to.

use super::context::Context;
use super::deployments::{active_deployments, deployment_eval};
use super::nodes::refused;
use super::pending::{Asker, OnApply};
use model::alloc::{Allocation, ClientStatus};
use model::deployment::Verdict;
use model::eval::{DEFAULT_PRIORITY, Evaluation, Trigger};
use model::id::JobKey;
use model::job::{HealthCheck, Job, JobType};
use model::node::{Node, NodeStatus};
use model::time::Wall;
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;
use wire::command::{AllocUpdate, Command};
use wire::request::{Refusal, WriteReply};
use wire::rpc::{MAX_REPORT_BYTES, MAX_UPDATES, NodeReply};

// what is too large for an entry would be refused and told again for ever
const _: () = assert!(MAX_REPORT_BYTES <= raft::MAX_ENTRY_BYTES / 2);

pub fn report(
    asker: Asker,
    node: &Node,
    seen: u64,
    updates: Vec<AllocUpdate>,
    mut verdicts: Vec<Verdict>,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    // its node has seen what this server has not: another one leads, and allocations that are unknown here may be known there
    if seen > view.index() {
        cx.answer(asker, NodeReply::NoLeader);
        return Ok(());
    }
    if node.last_alloc_update_index > seen {
        cx.answer(asker, NodeReply::StaleReport { index: view.index() });
        return Ok(());
    }
    if matches!(node.status, NodeStatus::Down | NodeStatus::Disconnected) {
        cx.answer(asker, NodeReply::HeartbeatFirst);
        return Ok(());
    }
    if updates.len() > MAX_UPDATES || verdicts.len() > updates.len() {
        cx.answer(asker, refused(format!("at most {MAX_UPDATES} allocations fit one report")));
        return Ok(());
    }
    let mut own = vec![];
    let mut evals = BTreeMap::new();
    let mut healthy = vec![];
    for update in updates {
        let Some(alloc) = view.alloc(update.id)?.filter(|a| a.node_id == node.info.id) else { continue };
        if let Some(eval) = eval_for_update(&alloc, &update, view, cx)? {
            evals.entry(alloc.job.clone()).or_insert(eval);
        }
        if ended_unjudged(&alloc, &update, &verdicts, view)? {
            verdicts.push(Verdict { alloc: alloc.id, deployment: alloc.deployment, healthy: false });
        }
        if verdicts.iter().any(|v| v.alloc == alloc.id && v.healthy && v.deployment == alloc.deployment) {
            healthy.push(alloc);
        }
        own.push(update);
    }
    if own.is_empty() {
        cx.answer(asker, NodeReply::Reported { index: view.index() });
        return Ok(());
    }
    evaluate_deployments(&healthy, &mut evals, view, cx)?;
    let (node, evals) = (node.info.id, evals.into_values().collect());
    let command = Command::UpdateAllocs { node, seen, updates: own, verdicts, evals, at: cx.at };
    cx.propose(command, OnApply::NodeReported { asker });
    Ok(())
}

/// The report's entry is applied: the report was taken, or a newer one came in between.
pub fn reported(asker: Asker, result: &Result<WriteReply, Refusal>, cx: &mut Context<'_>) {
    let index = cx.applied;
    let reply = match result {
        Ok(_) => NodeReply::Reported { index },
        Err(_) => NodeReply::StaleReport { index },
    };
    cx.answer(asker, reply);
}

/// An allocation that became healthy lets a deployment go on, so each of them is evaluated after this entry. So is one that is paused or
/// waits for promotion: the entry that ends that may be on its way already, with an evaluation that comes too early to see this.
fn evaluate_deployments(
    healthy: &[Allocation],
    evals: &mut BTreeMap<JobKey, Evaluation>,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    for deployment in active_deployments(healthy.iter(), view)? {
        if let Some(job) = view.job(&deployment.job)? {
            let eval = cx.new_eval(deployment_eval(&deployment, &job));
            evals.entry(deployment.job.clone()).or_insert(eval);
        }
    }
    Ok(())
}

/// An ended allocation of a job that is gone has to be cleared away by a scheduler; one that has failed may have to be
/// placed again.
fn eval_for_update(
    alloc: &Allocation,
    update: &AllocUpdate,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<Option<Evaluation>, Fault> {
    if alloc.client == ClientStatus::Unknown && update.client != ClientStatus::Unknown {
        return Ok(view.job(&alloc.job)?.map(|job| eval_of(&job, Trigger::Reconnect, cx)));
    }
    if !update.client.is_terminal() || alloc.client_terminal() {
        return Ok(None);
    }
    let Some(job) = view.job(&alloc.job)? else {
        let cleared = alloc.client == ClientStatus::Lost || alloc.server_terminal();
        let mut eval = || {
            let (service, priority) = (JobType::Service, DEFAULT_PRIORITY);
            let (id, trigger) = (cx.ids.eval(), Trigger::JobDeregister);
            Evaluation::pending(id, alloc.job.clone(), service, priority, trigger, cx.at)
        };
        return Ok((!cleared).then(&mut eval));
    };
    let failed = update.client == ClientStatus::Failed && alloc.followup_eval.is_none();
    if !failed || !may_reschedule(&job, alloc, cx.at) {
        return Ok(None);
    }
    Ok(Some(eval_of(&job, Trigger::AllocFailure, cx)))
}

fn eval_of(job: &Job, trigger: Trigger, cx: &mut Context<'_>) -> Evaluation {
    let (key, job_type, priority) = (job.spec.key(), job.spec.job_type, job.spec.priority);
    let eval = Evaluation::pending(cx.ids.eval(), key, job_type, priority, trigger, cx.at);
    Evaluation { job_modify_index: job.job_modify_index, ..eval }
}

/// Whether the failure that is reported at `at` leaves the allocation's policy anything to do.
fn may_reschedule(job: &Job, alloc: &Allocation, at: Wall) -> bool {
    let policy = job.spec.group(&alloc.group).and_then(|g| g.reschedule);
    !alloc.server_terminal() && policy.is_some_and(|p| p.allows(&alloc.reschedules, at))
}

/// Whether a client gave up an allocation without a verdict, which counts as unhealthy in its deployment.
fn ended_unjudged(
    alloc: &Allocation,
    update: &AllocUpdate,
    verdicts: &[Verdict],
    view: &View,
) -> Result<bool, Fault> {
    let judged =
        alloc.health.is_some_and(|h| h.healthy.is_some()) || verdicts.iter().any(|v| v.alloc == alloc.id);
    let failed = update.client == ClientStatus::Failed && alloc.desired == Default::default();
    if alloc.deployment.is_none() || judged || !failed {
        return Ok(false);
    }
    let spec = view.job_spec(&alloc.job, alloc.job_create_index, alloc.job_version)?;
    let update = spec.as_ref().and_then(|s| s.group(&alloc.group)?.update);
    Ok(update.is_some_and(|u| u.health_check != HealthCheck::Manual))
}
