//! Jobs that run on every node: which there are, and which of them have to be looked at when a node changes
//! (server.md 6.2). A change that carries no evaluation of such a job, because the job came while the change was
//! under way, gets one as soon as it is applied.
//!
//! Refuses to know: what the scheduler makes of it, and sysbatch jobs, which run where they were asked for.

use super::context::Context;
use model::eval::{DEFAULT_PRIORITY, Evaluation, Trigger};
use model::id::{JobKey, NodeId};
use model::job::{Job, JobType};
use model::node::{NodeInfo, NodeStatus};
use scheduler::in_datacenters_and_pool;
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::change::Change;

/// The system jobs of the region, as a leader knows them.
#[derive(Debug, Default)]
pub struct SystemJobs(BTreeSet<JobKey>);

impl SystemJobs {
    /// The system jobs that are wanted on such a node, but for `others`.
    fn wanted_on(
        &self,
        info: &NodeInfo,
        others: &BTreeSet<JobKey>,
        view: &View,
    ) -> Result<Vec<Arc<Job>>, Fault> {
        let mut wanted = vec![];
        for key in self.0.difference(others) {
            wanted.extend(view.job(key)?.filter(|j| !j.spec.stop && in_datacenters_and_pool(&j.spec, info)));
        }
        Ok(wanted)
    }

    /// `job`: as it is now.
    pub fn apply_change(&mut self, key: &JobKey, job: Option<&Job>) {
        if job.is_some_and(|j| j.spec.job_type == JobType::System) {
            self.0.insert(key.clone());
        } else {
            self.0.remove(key);
        }
    }

    /// One evaluation for each job that has allocations on the node, and for each system job that is wanted there.
    pub fn node_evals(
        &self,
        node: NodeId,
        view: &View,
        cx: &mut Context<'_>,
    ) -> Result<Vec<Evaluation>, Fault> {
        let jobs = view.allocs_of_node(node)?.into_iter().map(|a| a.job).collect();
        let mut evals = evals_of(jobs, node, view, cx)?;
        if let Some(known) = view.node(node)? {
            self.add_evals((node, &known.info), &mut evals, view, cx)?;
        }
        Ok(evals)
    }

    /// One evaluation for each system job that is wanted on such a node and is not in `evals`.
    pub fn add_evals(
        &self,
        (node, info): (NodeId, &NodeInfo),
        evals: &mut Vec<Evaluation>,
        view: &View,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        let covered = evals.iter().map(|e| e.job.clone()).collect();
        for job in self.wanted_on(info, &covered, view)? {
            let (key, priority) = (job.spec.key(), job.spec.priority);
            let (id, trigger) = (cx.ids.eval(), Trigger::NodeUpdate);
            let mut eval = Evaluation::pending(id, key, JobType::System, priority, trigger, cx.at);
            eval.job_modify_index = job.job_modify_index;
            (eval.node_id, eval.node_modify_index) = (Some(node), view.index());
            evals.push(eval);
        }
        Ok(())
    }

    /// Evaluates jobs whose allocations came to a node while the change that takes it down was under way: that names no evaluation of theirs.
    pub fn evaluate_missed_allocs(&self, changes: &[Change], cx: &mut Context<'_>) -> Result<(), Fault> {
        let is_down = |status| matches!(status, NodeStatus::Down | NodeStatus::Disconnected);
        for change in changes {
            let Change::Node(changed) = change else { continue };
            if !is_down(changed.status) {
                continue;
            }
            let view = cx.view()?;
            let here = view.allocs_of_node(changed.id)?.into_iter().filter(|alloc| !alloc.terminal());
            let mut jobs: BTreeSet<JobKey> = here.map(|alloc| alloc.job).collect();
            for change in changes {
                if let Change::Eval(eval) = change {
                    jobs.remove(&eval.job);
                }
            }
            let evals = evals_of(jobs, changed.id, &view, cx)?;
            cx.propose_evals(evals);
        }
        Ok(())
    }

    /// Evaluates system jobs on nodes that a change has opened to new work without an evaluation of theirs.
    pub fn evaluate_missed_jobs(&self, changes: &[Change], cx: &mut Context<'_>) -> Result<(), Fault> {
        let opened = |c: &Change| matches!(c, Change::Node(n) if n.opened);
        if self.0.is_empty() || !changes.iter().any(opened) {
            return Ok(());
        }
        let view = cx.view()?;
        let mut evals = vec![];
        for change in changes {
            if let Change::Eval(eval) = change {
                evals.push(Evaluation::clone(eval));
            }
        }
        let carried = evals.len();
        for change in changes {
            if let Change::Node(changed) = change
                && changed.opened
                && let Some(node) = view.node(changed.id)?
            {
                self.add_evals((changed.id, &node.info), &mut evals, &view, cx)?;
            }
        }
        cx.propose_evals(evals.split_off(carried));
        Ok(())
    }
}

/// An evaluation for each of the jobs, because of the node.
fn evals_of(
    jobs: BTreeSet<JobKey>,
    node: NodeId,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<Vec<Evaluation>, Fault> {
    let mut evals = vec![];
    for key in jobs {
        let job = view.job(&key)?;
        let (job_type, priority, modify) = job.map_or((JobType::Service, DEFAULT_PRIORITY, 0), |j| {
            (j.spec.job_type, j.spec.priority, j.job_modify_index)
        });
        let (id, trigger) = (cx.ids.eval(), Trigger::NodeUpdate);
        let mut eval = Evaluation::pending(id, key, job_type, priority, trigger, cx.at);
        eval.job_modify_index = modify;
        (eval.node_id, eval.node_modify_index) = (Some(node), view.index());
        evals.push(eval);
    }
    Ok(evals)
}
