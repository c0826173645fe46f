//! `job plan`: what registering a job would do. The same admission, and the real scheduler on the state as it would be. A function of
//! one view; it neither writes nor waits, and costs what one evaluation costs.

use super::admission;
use model::alloc::Allocation;
use model::child_jobs::JobRelation;
use model::deployment::Deployment;
use model::eval::{EvalStatus, Evaluation, Trigger};
use model::id::{EvalId, JobKey, NodeId};
use model::job::{Job, JobSpec, JobStatus};
use model::random::Stream;
use model::scheduling::Scheduling;
use model::time::Wall;
use scheduler::{self, Attempt};
use state::fault::Fault;
use state::view::View;
use std::sync::Arc;
use wire::job_plan::{JobPlanReply, JobPlanRequest};
use wire::request::{Refusal, RefusalKind};

pub fn plan(view: &View, asked: &JobPlanRequest, at: Wall) -> Result<Result<JobPlanReply, Refusal>, Fault> {
    let mut spec = JobSpec::clone(&asked.spec);
    let before = view.job(&spec.key())?;
    if let Some(job) = &before {
        spec.parent.clone_from(&job.spec.parent);
    }
    let spec = &spec;
    let relation = |job: &Job| JobRelation::of_new(&job.spec, job.submit_time).refuses(spec);
    let unfit = |job: &Arc<Job>| job.spec.job_type.refuses(spec.job_type).or_else(|| relation(job));
    let unfit = before.as_ref().and_then(unfit);
    if let Some(refusal) = admission::check_namespace_and_pool(spec, view)? {
        return Ok(Err(refusal));
    }
    if let Some(why) = unfit {
        return Ok(Err(Refusal::new(RefusalKind::Conflict, why)));
    }
    let job = match &before {
        Some(job) if job.spec == *spec => job.clone(),
        _ => Arc::new(overlay(spec, before.as_deref(), view.index() + 1, at)),
    };
    let id = EvalId::from_random(Stream::new(asked.seed, 0).next_u128());
    let mut eval =
        Evaluation::pending(id, spec.key(), spec.job_type, spec.priority, Trigger::JobRegister, at);
    eval.job_modify_index = job.job_modify_index;
    let as_if = JobOverlay { view, job };
    let attempt = Attempt::first(view.index());
    let decision = scheduler::schedule(&as_if, view.fleet(), &eval, attempt, at, asked.seed);
    if let Some(fault) = view.fault() {
        return Err(fault.clone());
    }
    if decision.eval.status == EvalStatus::Failed {
        return Ok(Err(Refusal::new(RefusalKind::Validation, decision.eval.status_description)));
    }
    let mut preempted = vec![];
    for (_, id) in decision.plan.preemptions() {
        let Some(alloc) = view.alloc(id)? else { continue };
        let job = view.job(&alloc.job)?;
        preempted.push((alloc, job));
    }
    Ok(Ok(JobPlanReply {
        before,
        preempted,
        desired: decision.desired,
        failed: decision.eval.failed_groups,
        created: decision.created,
        next_launch: asked.schedule.as_ref().and_then(|s| s.next(at)),
        index: view.index(),
    }))
}

/// The job as it would be if it were registered now.
fn overlay(spec: &JobSpec, before: Option<&Job>, index: u64, at: Wall) -> Job {
    Job {
        spec: spec.clone(),
        version: before.map_or(0, |job| job.version + 1),
        stable: false,
        status: before.map_or(JobStatus::Pending, |job| job.status),
        status_description: String::new(),
        submit_time: at,
        create_index: before.map_or(index, |job| job.create_index),
        modify_index: index,
        job_modify_index: index,
        tag: None,
    }
}

/// The view, but for one job.
struct JobOverlay<'a> {
    view: &'a View,
    job: Arc<Job>,
}

impl scheduler::SchedulerState for JobOverlay<'_> {
    fn index(&self) -> u64 {
        self.view.index()
    }

    fn job(&self, key: &JobKey) -> Option<Arc<Job>> {
        if self.job.spec.key() == *key {
            return Some(self.job.clone());
        }
        scheduler::SchedulerState::job(self.view, key)
    }

    fn job_version(&self, key: &JobKey, create_index: u64, version: u64) -> Option<Arc<JobSpec>> {
        scheduler::SchedulerState::job_version(self.view, key, create_index, version)
    }

    fn allocs_by_job(&self, key: &JobKey) -> Vec<Allocation> {
        scheduler::SchedulerState::allocs_by_job(self.view, key)
    }

    fn allocs_by_node(&self, node: NodeId) -> Vec<Allocation> {
        scheduler::SchedulerState::allocs_by_node(self.view, node)
    }

    fn allocs_up_to_priority(&self, priority: i64, each: &mut dyn FnMut(Allocation)) {
        scheduler::SchedulerState::allocs_up_to_priority(self.view, priority, each);
    }

    fn is_pending(&self, eval: EvalId) -> bool {
        self.view.is_pending(eval)
    }

    fn latest_deployment(&self, key: &JobKey) -> Option<Deployment> {
        scheduler::SchedulerState::latest_deployment(self.view, key)
    }

    fn scheduling(&self, pool: &str) -> Scheduling {
        scheduler::SchedulerState::scheduling(self.view, pool)
    }
}

#[cfg(test)]
mod tests;
