//! Jobs that run on every node: which there are, and which of them have to be looked at when a node changes
//! (server.md 6.2). A change that carries no evaluation of such a job, because the job came while the change was
//! under way, gets one as soon as it is applied.
//!
//! Refuses to know: what the scheduler makes of it, and sysbatch jobs, which run where they were asked for.

use super::{Op, Server};
use model::eval::{Evaluation, Trigger};
use model::id::{JobKey, NodeId};
use model::job::{Job, JobType};
use model::node::NodeInfo;
use model::time::{Now, Wall};
use scheduler::in_datacenters_and_pool;
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::change::Change;
use wire::command::Command;

/// The system jobs of the region, as a leader knows them.
#[derive(Default)]
pub struct SystemJobs(BTreeSet<JobKey>);

impl SystemJobs {
    /// Those that are wanted on such a node, but for `others`.
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
}

impl Server {
    pub(super) fn follow_job(&mut self, key: &JobKey) -> Result<(), Fault> {
        let view = self.log.reader().view()?;
        let job = view.job(key)?;
        if job.as_ref().is_some_and(|j| j.spec.job_type == JobType::System) {
            self.system_jobs.0.insert(key.clone());
        } else {
            self.system_jobs.0.remove(key);
        }
        self.follow_launches(key, job.as_deref(), &view)
    }

    /// One for each system job that is wanted on such a node and is not in `evals`.
    pub(super) fn add_system_evals(
        &mut self,
        (node, info): (NodeId, &NodeInfo),
        evals: &mut Vec<Evaluation>,
        view: &View,
        at: Wall,
    ) -> Result<(), Fault> {
        let covered = evals.iter().map(|e| e.job.clone()).collect();
        for job in self.system_jobs.wanted_on(info, &covered, view)? {
            let (key, priority) = (job.spec.key(), job.spec.priority);
            let id = self.ids.eval();
            let mut eval = Evaluation::pending(id, key, JobType::System, priority, Trigger::NodeUpdate, at);
            eval.job_modify_index = job.job_modify_index;
            (eval.node_id, eval.node_modify_index) = (Some(node), view.index());
            evals.push(eval);
        }
        Ok(())
    }

    /// What opened a node to new work, and carried no evaluation of a system job that is wanted there.
    pub(super) fn evaluate_missed_jobs(&mut self, changes: &[Change], now: Now) -> Result<(), Fault> {
        let opened = |c: &Change| matches!(c, Change::Node(n) if n.opened);
        if self.system_jobs.0.is_empty() || !changes.iter().any(opened) {
            return Ok(());
        }
        let (view, at) = (self.log.reader().view()?, self.stamp(now));
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
                self.add_system_evals((changed.id, &node.info), &mut evals, &view, at)?;
            }
        }
        let evals = evals.split_off(carried);
        if !evals.is_empty() {
            self.propose(&Command::UpdateEvals { evals, at }, Op::Unattended);
        }
        Ok(())
    }
}
