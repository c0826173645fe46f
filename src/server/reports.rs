//! What clients report of their allocations: taken with the evaluations that follow from it, in one entry
//! (server.md 3.5, scheduler.md 2). Refuses to know what those evaluations come to.

use super::deployments::{deployment_eval, proven};
use super::nodes::{Asker, refused};
use super::{Op, Server};
use model::alloc::{Allocation, ClientStatus};
use model::deployment::Verdict;
use model::eval::Evaluation;
use model::id::JobKey;
use model::job::HealthCheck;
use model::node::{Node, NodeStatus};
use model::time::{Now, Wall};
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;
use wire::command::{AllocUpdate, Command};
use wire::rpc::{MAX_UPDATES, NodeReply};

impl Server {
    pub(super) fn report(
        &mut self,
        asker: Asker,
        node: &Node,
        updates: Vec<AllocUpdate>,
        mut verdicts: Vec<Verdict>,
        view: &View,
        now: Now,
    ) -> Result<(), Fault> {
        if matches!(node.status, NodeStatus::Down | NodeStatus::Disconnected) {
            self.answer(asker, NodeReply::HeartbeatFirst);
            return Ok(());
        }
        if updates.len() > MAX_UPDATES || verdicts.len() > updates.len() {
            self.answer(asker, refused(format!("at most {MAX_UPDATES} allocations fit one report")));
            return Ok(());
        }
        let at = self.stamp(now);
        let mut own = vec![];
        let mut evals = BTreeMap::new();
        let mut healthy = vec![];
        for update in updates {
            let Some(alloc) = view.alloc(update.id)?.filter(|a| a.node_id == node.info.id) else { continue };
            if let Some(eval) = self.eval_for_update(&alloc, &update, view, at)? {
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
            self.answer(asker, NodeReply::Reported);
            return Ok(());
        }
        self.go_on_with(&healthy, &mut evals, view, at)?;
        let (node, evals) = (node.info.id, evals.into_values().collect());
        let command = Command::UpdateAllocs { node, updates: own, verdicts, evals, at };
        self.propose(&command, Op::Reported { asker });
        Ok(())
    }

    /// What has become healthy makes room for the next: whoever evaluates after this entry sees it. A paused deployment
    /// and one that waits for its promotion get their evaluation, too: what ends that may be on its way already, with an
    /// evaluation that comes too early to see this.
    fn go_on_with(
        &mut self,
        healthy: &[Allocation],
        evals: &mut BTreeMap<JobKey, Evaluation>,
        view: &View,
        at: Wall,
    ) -> Result<(), Fault> {
        for deployment in proven(healthy.iter(), view)? {
            if let Some(job) = view.job(&deployment.job)? {
                let eval = self.made(deployment_eval(&deployment, &job), at);
                evals.entry(deployment.job.clone()).or_insert(eval);
            }
        }
        Ok(())
    }
}

/// What a client could not even take on, it does not judge: as a part of a deployment it is not healthy.
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
