//! Why a job finds no place, why an allocation is where it is, and what became of it. A function of one view, as `job_plan` is: it
//! neither writes nor waits.
//!
//! Refuses to know: how it is shown. What was collected meanwhile is missing from the history, which says so.

mod history;

use model::alloc::{Allocation, ClientStatus, NodeScore};
use model::eval::{EvalStatus, Evaluation};
use model::id::{JobKey, NodeId};
use model::job::{Job, JobStatus};
use scheduler::SchedulerState;
use scheduler::why::{Exclusion, PlacementExplanation, explain_placement, nodes_preemption_would_help};
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeSet;
use wire::request::{Refusal, RefusalKind};
use wire::why::{GroupWhy, Missing, Nearest, Reason, Subject, Wanted, Why};

pub fn explain(view: &View, subject: &Subject, seed: u64) -> Result<Result<Why, Refusal>, Fault> {
    let found = match subject {
        Subject::Job(key) => of_job(view, key, seed)?,
        Subject::Alloc(id) => match view.alloc(*id)? {
            Some(alloc) => Some(of_alloc(view, &alloc, seed)?),
            None => None,
        },
        Subject::Eval(id) => match view.eval(*id)? {
            Some(eval) => Some(of_eval(view, &eval, seed)?),
            None => None,
        },
    };
    if let Some(fault) = view.fault() {
        return Err(fault.clone());
    }
    let missing = match subject {
        Subject::Job(_) => "job not found",
        Subject::Alloc(_) => "alloc not found",
        Subject::Eval(_) => "eval not found",
    };
    Ok(found.ok_or_else(|| Refusal::new(RefusalKind::NotFound, missing)))
}

fn of_job(view: &View, key: &JobKey, seed: u64) -> Result<Option<Why>, Fault> {
    let Some(job) = view.job(key)? else { return Ok(None) };
    let groups: BTreeSet<&str> = job.spec.groups.iter().map(|g| g.name.as_str()).collect();
    let allocs = view.allocs_of_job(key)?;
    let evals = view.evals_of_job(key)?;
    Ok(Some(Why {
        job: key.clone(),
        summary: summary(&job, &evals, &allocs),
        groups: explain_groups(view, &job, &allocs, &groups, seed)?,
        then: vec![],
        history: history::of_job(view, &job, &evals)?,
        index: view.index(),
    }))
}

fn summary(job: &Job, evals: &[Evaluation], allocs: &[Allocation]) -> String {
    let is = format!("{} job, version {}, {}", job.spec.job_type.as_str(), job.version, job.status.as_str());
    let blocked = evals.iter().any(|e| e.status == EvalStatus::Blocked);
    match makes_others(job) {
        _ if job.spec.stop => format!("{is}: it was stopped"),
        Some(how) => format!("{is}: it runs nothing itself, {how}"),
        None if blocked => format!("{is}: some of it waits for a place"),
        None if job.status == JobStatus::Dead => format!("{is}: {}", ended(allocs)),
        None => is,
    }
}

fn makes_others(job: &Job) -> Option<&'static str> {
    if job.spec.is_parameterized() {
        return Some("jobs are dispatched from it");
    }
    job.spec.periodic.as_ref().map(|periodic| match periodic.enabled {
        true => "it launches jobs at its times",
        false => "and its times are switched off",
    })
}

/// How a job ended that neither runs nor waits.
fn ended(allocs: &[Allocation]) -> String {
    let of = |client| allocs.iter().filter(|a| a.client == client).count();
    let parts = [ClientStatus::Complete, ClientStatus::Failed, ClientStatus::Lost];
    let parts = parts.map(|client| format!("{} {}", of(client), client.as_str()));
    format!("of its allocations {} are left to tell", parts.join(", "))
}

fn of_alloc(view: &View, alloc: &Allocation, seed: u64) -> Result<Why, Fault> {
    let job = view.job(&alloc.job)?;
    let groups = match &job {
        // for an allocation that runs, only the reason for its placement matters
        Some(job) if alloc.terminal() && alloc.next.is_none() && !job.spec.stop => {
            explain_groups(view, job, &view.allocs_of_job(&alloc.job)?, &[alloc.group.as_str()].into(), seed)?
        }
        _ => vec![],
    };
    let (desired, client) = (alloc.desired.as_str(), alloc.client.as_str());
    Ok(Why {
        job: alloc.job.clone(),
        summary: format!("{} on {}: wanted {desired}, is {client}", alloc.name, alloc.node_name),
        groups,
        then: named(view, &alloc.metrics.scores)?,
        history: history::of_alloc(view, alloc)?,
        index: view.index(),
    })
}

fn of_eval(view: &View, eval: &Evaluation, seed: u64) -> Result<Why, Fault> {
    let failed: BTreeSet<&str> = eval.failed_groups.keys().map(String::as_str).collect();
    let groups = match view.job(&eval.job)? {
        Some(job) if !failed.is_empty() => {
            explain_groups(view, &job, &view.allocs_of_job(&eval.job)?, &failed, seed)?
        }
        _ => vec![],
    };
    Ok(Why {
        job: eval.job.clone(),
        summary: format!("{} evaluation, {}", eval.trigger.as_str(), eval.status.as_str()),
        groups,
        then: vec![],
        history: history::of_eval(view, eval)?,
        index: view.index(),
    })
}

/// Only groups of these names.
fn explain_groups(
    view: &View,
    job: &Job,
    allocs: &[Allocation],
    names: &BTreeSet<&str>,
    seed: u64,
) -> Result<Vec<GroupWhy>, Fault> {
    let scheduling = SchedulerState::scheduling(view, &job.spec.node_pool);
    let mut out = vec![];
    for group in job.spec.groups.iter().filter(|g| names.contains(g.name.as_str())) {
        let PlacementExplanation { nodes, feasible, exclusions, nearest, best } =
            explain_placement(&job.spec, group, view.fleet(), allocs, scheduling, seed);
        let (preemptable_nodes, looked_at) = match feasible {
            0 if nodes > 0 => nodes_preemption_would_help(view, view.fleet(), &job.spec, group, allocs, seed),
            _ => (0, 0),
        };
        let nearest = match nearest {
            None => None,
            Some(nearby) => Some(Nearest {
                node: nearby.node,
                name: name_of(view, nearby.node)?,
                missing: nearby.missing.into_iter().map(missing).collect(),
            }),
        };
        out.push(GroupWhy {
            name: group.name.clone(),
            count: group.count,
            each_node: job.spec.job_type.runs_on_every_node(),
            live: allocs.iter().filter(|a| a.group == group.name && !a.terminal()).count() as u64,
            nodes,
            feasible,
            reasons: exclusions.into_iter().map(reason).collect(),
            nearest,
            preemptable_nodes,
            looked_at,
            preempts: scheduling.preemption.allows(job.spec.job_type),
            best: named(view, &best)?,
        });
    }
    Ok(out)
}

fn missing((what, missing, asked): (&'static str, i64, i64)) -> Missing {
    Missing { what, missing, asked }
}

fn reason(b: Exclusion) -> Reason {
    let amount = b.amount.map(|(asked, would_do)| Wanted { asked, would_do });
    Reason { text: b.text, nodes: b.nodes, alone: b.alone, amount }
}

fn named(view: &View, scores: &[NodeScore]) -> Result<Vec<(NodeScore, String)>, Fault> {
    scores.iter().map(|score| Ok((score.clone(), name_of(view, score.node_id)?))).collect()
}

/// Empty if the node is no longer known.
fn name_of(view: &View, node: NodeId) -> Result<String, Fault> {
    Ok(view.node(node)?.map_or_else(String::new, |n| n.info.name.clone()))
}

#[cfg(test)]
mod tests;
