//! Forgetting: what the collector found is looked at once more, and goes if it still may. Refuses to know who looks for it.

use super::super::fault::Fault;
use super::super::garbage::{self, GcDecision};
use super::super::tables::{self, Part, Place};
use super::super::view;
use super::{Reply, Turn};
use model::eval::Evaluation;
use model::garbage::{Cutoffs, Garbage};
use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId};
use model::job::JobSpec;
use std::collections::BTreeMap;
use wire::command::CollectGarbageCommand;
use wire::request::WriteReply;

impl Turn<'_> {
    pub(super) fn collect(&mut self, order: CollectGarbageCommand) -> Result<Reply, Fault> {
        let before = &order.before;
        let count = match &order.garbage {
            Garbage::Jobs(keys) => self.forget_jobs(keys, before)?,
            Garbage::Stop(key) => self.stop_for_good(key, &order)?,
            Garbage::Allocs(ids) => self.forget_allocs(ids, before)?,
            Garbage::Evals(ids) => self.forget_evals(ids, before)?,
            Garbage::Deployments(ids) => self.forget_deployments(ids, before)?,
            Garbage::Nodes(ids) => self.forget_nodes(ids, before)?,
        };
        Ok(Ok(WriteReply::Deleted { count, index: self.index() }))
    }

    fn forget_jobs(&mut self, keys: &[JobKey], before: &Cutoffs) -> Result<u64, Fault> {
        let mut count = 0;
        for key in keys {
            if garbage::decision(&self.rows, key, before)? != GcDecision::Purge {
                continue;
            }
            for index_key in tables::keys(&self.rows, &Part::Eval.key(&tables::job_bytes(key), &[]))? {
                let eval: Evaluation =
                    tables::must_get(&self.rows, &tables::eval_key(Place::at_end(&index_key)?))?;
                self.remove_eval(eval)?;
            }
            if let Some(row) = self.job(key)?.cloned() {
                self.purge_job(key, &row)?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn stop_for_good(&mut self, key: &JobKey, order: &CollectGarbageCommand) -> Result<u64, Fault> {
        if garbage::decision(&self.rows, key, &order.before)? != GcDecision::StopFirst {
            return Ok(0);
        }
        let Some(row) = self.job(key)?.cloned() else { return Ok(0) };
        let spec = self.newest_spec(key, &row)?;
        let stopped = JobSpec { stop: true, ..spec.clone() };
        self.add_version(key, &spec, &stopped, order.tracked_versions, order.at)?;
        Ok(0)
    }

    fn forget_allocs(&mut self, ids: &[AllocId], before: &Cutoffs) -> Result<u64, Fault> {
        let (mut count, mut holders) = (0, BTreeMap::new());
        for id in ids {
            let Some(alloc) = self.alloc(*id)? else { continue };
            if !holders.contains_key(&alloc.job) {
                holders.insert(alloc.job.clone(), garbage::read_holder(&self.rows, &alloc.job)?);
            }
            let holder = holders.get(&alloc.job).and_then(Option::as_ref);
            if garbage::alloc_goes(&self.rows, &alloc, holder, before)? {
                self.remove_alloc(&alloc)?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn forget_evals(&mut self, ids: &[EvalId], before: &Cutoffs) -> Result<u64, Fault> {
        let mut count = 0;
        for id in ids {
            if let Some(eval) = self.eval(*id)?
                && garbage::eval_goes(&self.rows, &eval, before)?
            {
                count += u64::from(self.remove_eval(eval)?);
            }
        }
        Ok(count)
    }

    fn forget_deployments(&mut self, ids: &[DeploymentId], before: &Cutoffs) -> Result<u64, Fault> {
        let mut count = 0;
        for id in ids {
            if let Some(deployment) = self.deployment(*id)?
                && garbage::deployment_goes(&self.rows, &deployment, before)?
            {
                self.remove_deployment(&deployment)?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn forget_nodes(&mut self, ids: &[NodeId], before: &Cutoffs) -> Result<u64, Fault> {
        let mut count = 0;
        for id in ids {
            if let Some(node) = view::read_node(&self.rows, *id)?
                && garbage::node_goes(&self.rows, &node, before)?
            {
                self.remove_node(node)?;
                count += 1;
            }
        }
        Ok(count)
    }
}
