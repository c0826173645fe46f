//! What may be collected: reads the rows that `model::garbage` decides by, from a view or while an entry is applied.
//! Refuses to know who asks, and when. Every question has a bound, whatever the state holds.

use super::dispatched_spec::must_read_spec;
use super::fault::Fault;
use super::tables::{self, CreationKey, JobRow, Kind, Part, Rows};
use super::view::{self, View};
use model::alloc::Allocation;
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::garbage::{Cutoffs, Holder, alloc_may_go, eval_may_go, has_ended};
use model::id::{JobKey, NodeId};
use model::job::{JobStatus, JobType};
use model::node::{Node, NodeStatus};

/// The most rows of a job that are purged in one entry, and the most allocations of a node that are looked at.
const MAX_JOB_ROWS: usize = 64;

/// What garbage collection does with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcDecision {
    Keep,
    Purge,
    /// A job with too many rows to be purged in one entry: it is stopped, and its rows are collected first.
    StopFirst,
}

impl View {
    pub fn holder(&self, job: &JobKey) -> Result<Option<Holder>, Fault> {
        read_holder(&self.rows, job)
    }

    pub fn may_collect_alloc(
        &self,
        alloc: &Allocation,
        holder: Option<&Holder>,
        before: &Cutoffs,
    ) -> Result<bool, Fault> {
        alloc_is_collectable(&self.rows, alloc, holder, before)
    }

    pub fn may_collect_eval(&self, eval: &Evaluation, before: &Cutoffs) -> Result<bool, Fault> {
        eval_is_collectable(&self.rows, eval, before)
    }

    pub fn may_collect_deployment(&self, deployment: &Deployment, before: &Cutoffs) -> Result<bool, Fault> {
        deployment_is_collectable(&self.rows, deployment, before)
    }

    pub fn gc_decision(&self, job: &JobKey, before: &Cutoffs) -> Result<GcDecision, Fault> {
        job_gc_decision(&self.rows, job, before)
    }

    pub fn may_collect_node(&self, id: NodeId, before: &Cutoffs) -> Result<bool, Fault> {
        match view::read_node(&self.rows, id)? {
            Some(node) => node_is_collectable(&self.rows, &node, before),
            None => Ok(false),
        }
    }

    /// Keys of jobs in order, after `after`. Decodes no job.
    pub fn job_keys(&self, after: Option<&JobKey>, limit: usize) -> Result<Vec<JobKey>, Fault> {
        let (after, mut out) = (after.map(tables::job_bytes), Vec::new());
        tables::each_job(&self.rows, &[], after.as_deref(), |job, _| {
            out.push(job.clone());
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// Ids of nodes in order, after `after`. Decodes no node.
    pub fn node_ids_after(&self, after: Option<NodeId>, limit: usize) -> Result<Vec<NodeId>, Fault> {
        let (after, mut out) = (after.map(|id| tables::node_key(Kind::Node, id)), Vec::new());
        tables::each(&self.rows, &Kind::Node.key(&[]), after.as_deref(), |key, _| {
            out.push(NodeId(tables::id_at_end(key)?));
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }
}

pub(super) fn read_holder(rows: &impl Rows, job: &JobKey) -> Result<Option<Holder>, Fault> {
    let bytes = tables::job_bytes(job);
    let Some(row) = tables::get::<JobRow>(rows, &Part::Row.key(&bytes, &[]))? else { return Ok(None) };
    let newest = row.newest()?;
    let spec = must_read_spec(rows, &bytes, row.create_index, newest.version)?;
    Ok(Some(Holder {
        create_index: row.create_index,
        version: newest.version,
        job_modify_index: newest.job_modify_index,
        job_type: row.job_type,
        stop: row.stop,
        groups: spec.groups.into_iter().map(|g| g.name).collect(),
        deployment: view::read_latest_deployment(rows, &bytes)?.map(|d| (d.id, d.status)),
    }))
}

pub(super) fn alloc_is_collectable(
    rows: &impl Rows,
    alloc: &Allocation,
    holder: Option<&Holder>,
    before: &Cutoffs,
) -> Result<bool, Fault> {
    // most allocations are decided without a read
    let Some(holder) = holder.filter(|_| alloc.terminal()) else { return Ok(false) };
    let known = alloc.client_terminal() || node_exists(rows, alloc.node_id)?;
    Ok(alloc_may_go(alloc, known, holder, before))
}

fn node_exists(rows: &impl Rows, node: NodeId) -> Result<bool, Fault> {
    Ok(rows.get(tables::node_key(Kind::Node, node).as_slice())?.is_some())
}

/// An evaluation is collected after everything that it placed.
pub(super) fn eval_is_collectable(
    rows: &impl Rows,
    eval: &Evaluation,
    before: &Cutoffs,
) -> Result<bool, Fault> {
    let old = eval_may_go(eval, before);
    Ok(old && !tables::any(rows, &Kind::AllocOfEval.key(&[eval.id.0.as_bytes()]))?)
}

/// A job's newest deployment stays, and so does one that allocations may name: the allocations of its version are collected first.
pub(super) fn deployment_is_collectable(
    rows: &impl Rows,
    deployment: &Deployment,
    before: &Cutoffs,
) -> Result<bool, Fault> {
    if deployment.status.is_active() || deployment.modify_time > before.deployments {
        return Ok(false);
    }
    let bytes = tables::job_bytes(&deployment.job);
    let Some(row) = tables::get::<JobRow>(rows, &Part::Row.key(&bytes, &[]))? else { return Ok(false) };
    let named = |v: &tables::VersionRow| v.version == deployment.job_version && v.allocs > 0;
    let latest = view::read_latest_deployment(rows, &bytes)?.is_some_and(|d| d.id == deployment.id);
    Ok(!latest && !row.versions.iter().any(named))
}

pub(super) fn node_is_collectable(rows: &impl Rows, node: &Node, before: &Cutoffs) -> Result<bool, Fault> {
    if node.status != NodeStatus::Down || node.status_updated > before.nodes {
        return Ok(false);
    }
    let mut here = Vec::new();
    let prefix = Kind::AllocOfNode.key(&[node.info.id.0.as_bytes()]);
    tables::each(rows, &prefix, None, |key, value| {
        let (create_index, _) = tables::decode_pair(value)?;
        here.push(CreationKey { create_index, id: tables::id_at_end(key)? });
        Ok(here.len() <= MAX_JOB_ROWS)
    })?;
    if here.len() > MAX_JOB_ROWS {
        return Ok(false);
    }
    for place in here {
        let alloc: Allocation = tables::must_get(rows, &tables::alloc_key(place))?;
        if !alloc.terminal() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A service or system job is collected only once it was stopped: that it does not run does not mean that it is not wanted.
pub(super) fn job_gc_decision(rows: &impl Rows, job: &JobKey, before: &Cutoffs) -> Result<GcDecision, Fault> {
    let bytes = tables::job_bytes(job);
    let Some(row) = tables::get::<JobRow>(rows, &Part::Row.key(&bytes, &[]))? else {
        return Ok(GcDecision::Keep);
    };
    let newest = row.newest()?;
    let over = row.stop || matches!(row.job_type, JobType::Batch | JobType::Sysbatch);
    let dead = newest.status == JobStatus::Dead && row.live_allocs == 0;
    if !over || !dead || newest.submit_time > before.jobs || row.summary.children.are_alive() {
        return Ok(GcDecision::Keep);
    }
    let mut parts = 0;
    for place in first_rows(rows, Part::Eval, &bytes)? {
        let eval: Evaluation = tables::must_get(rows, &tables::eval_key(place))?;
        if !eval.status.is_terminal() || eval.modify_time > before.jobs {
            return Ok(GcDecision::Keep);
        }
        parts += 1;
    }
    for place in first_rows(rows, Part::Alloc, &bytes)? {
        let alloc: Allocation = tables::must_get(rows, &tables::alloc_key(place))?;
        let known = node_exists(rows, alloc.node_id)?;
        if !has_ended(&alloc, known) || alloc.modify_time > before.jobs {
            return Ok(GcDecision::Keep);
        }
        parts += 1;
    }
    parts += first_rows(rows, Part::Deployment, &bytes)?.len();
    Ok(match parts > MAX_JOB_ROWS {
        false => GcDecision::Purge,
        true if row.stop => GcDecision::Keep,
        true => GcDecision::StopFirst,
    })
}

/// The job's first rows of this part, one more than `MAX_JOB_ROWS` at most: enough to tell that there are too many.
fn first_rows(rows: &impl Rows, part: Part, job: &[u8]) -> Result<Vec<CreationKey>, Fault> {
    let mut out = Vec::new();
    tables::each(rows, &part.key(job, &[]), None, |key, _| {
        out.push(CreationKey::from_key_end(key)?);
        Ok(out.len() <= MAX_JOB_ROWS)
    })?;
    Ok(out)
}

#[cfg(test)]
mod tests;
