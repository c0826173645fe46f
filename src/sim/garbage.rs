//! What the collector must never take, and must have taken in the end. Judged by what was there when the world was last looked at,
//! without the collector's own rules.

use super::faults::Kind;
use super::tracked::TrackedState;
use super::world::{EPOCH, World};
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::deployment::{Deployment, DeploymentStatus};
use model::garbage::GarbageRules;
use model::id::JobKey;
use model::job::{Job, JobStatus, JobType};
use model::time::{Span, Wall};
use state::view::View;
use std::sync::Arc;

/// So short that everything is old within a storm.
pub const RULES: GarbageRules = GarbageRules {
    interval: Span::seconds(15),
    jobs: Span::seconds(100),
    evals: Span::seconds(40),
    batch_evals: Span::seconds(80),
    deployments: Span::seconds(40),
    nodes: Span::seconds(60),
    after_leap: Span::seconds(30),
};
/// What is older than this when all is at rest must be gone.
const LONG_SINCE: Span = Span::minutes(10);

impl World {
    /// Nothing is gone that anything needed.
    pub fn check_forgotten(&mut self, region: usize, before: &TrackedState) -> Result<(), String> {
        for kind in forgotten(before, &self.regions[region].tracked)? {
            self.faults.fired(kind);
        }
        Ok(())
    }

    /// When all is at rest, nothing old is left that nothing needs.
    pub fn check_collected(&self, view: &View) -> Result<(), String> {
        left_over(&TrackedState::read(view).map_err(|e| e.to_string())?, self.long_since())
    }

    pub fn long_since(&self) -> Wall {
        EPOCH + Span(self.now.0 as i64 - LONG_SINCE.0)
    }
}

/// What went between two looks, by name. `before`: at least all that has changed.
pub fn forgotten(before: &TrackedState, now: &TrackedState) -> Result<Vec<Kind>, String> {
    let mut fired = vec![];
    // a job that is gone took all that was its own along, however it went
    let same = |key: &JobKey, created: u64| now.jobs.get(key).filter(|j| j.create_index == created);
    for (id, alloc) in before.allocs.iter().filter(|(id, _)| !now.allocs.contains_key(id)) {
        let Some(job) = same(&alloc.job, alloc.job_create_index) else { continue };
        if !alloc.terminal() {
            return Err(format!("{id} was forgotten while it was to run: {alloc:#?}"));
        }
        let deployment =
            alloc.deployment.and_then(|id| before.deployments.get(&id).or(now.deployments.get(&id)));
        // it went while the job was as before or as it is now: one look may show both
        let earlier = before.jobs.get(&alloc.job).filter(|j| j.create_index == alloc.job_create_index);
        let was_wanted = earlier.is_none_or(|job| wanted(deployment, job, alloc).is_some());
        if let Some(why) = wanted(deployment, job, alloc).filter(|_| was_wanted) {
            return Err(format!("{id} was forgotten: {why}: {alloc:#?}"));
        }
        fired.push(Kind::AllocationForgotten);
    }
    for (id, eval) in before.evals.iter().filter(|(id, _)| !now.evals.contains_key(id)) {
        if !eval.status.is_terminal() {
            return Err(format!("evaluation {id} was forgotten while it was {}", eval.status.as_str()));
        }
        // a user may delete what is over before what it placed is forgotten
        if let Some(alloc) = now.allocs.values().find(|a| a.eval_id == *id && !a.terminal()) {
            return Err(format!("evaluation {id} was forgotten, and {} was placed by it", alloc.id));
        }
        fired.push(Kind::EvaluationForgotten);
    }
    for (id, deployment) in before.deployments.iter().filter(|(id, _)| !now.deployments.contains_key(id)) {
        let Some(_) = same(&deployment.job, deployment.job_create_index) else { continue };
        let newer = |d: &Arc<Deployment>| d.job == deployment.job && d.create_index > deployment.create_index;
        if deployment.status.is_active() || !now.deployments.values().any(newer) {
            return Err(format!("deployment {id} was forgotten, and is its job's newest"));
        }
        fired.push(Kind::DeploymentForgotten);
    }
    for (key, job) in before.jobs.iter().filter(|(key, _)| !now.jobs.contains_key(key)) {
        let allocs = before.allocs.values().chain(now.allocs.values());
        let live = allocs.into_iter().any(|a| a.job == *key && !a.client_terminal());
        // otherwise a user has purged it
        if job.status == JobStatus::Dead && !live {
            fired.push(Kind::DeadJobGone);
        }
    }
    Ok(fired)
}

/// Why somebody looks at an allocation that has ended.
fn wanted(deployment: Option<&Arc<Deployment>>, job: &Job, alloc: &Allocation) -> Option<&'static str> {
    if job.spec.stop {
        return None;
    }
    let replaced = alloc.next.is_some();
    // nobody places anything for a group that is no more
    let failed = alloc.client == ClientStatus::Failed
        && alloc.desired == DesiredStatus::Run
        && job.spec.group(&alloc.group).is_some();
    let active = deployment.is_some_and(|d| d.status.is_active());
    match job.spec.job_type {
        _ if active => Some("its deployment is under way"),
        JobType::Batch if alloc.job_version == job.version && !replaced => {
            Some("the work would be done again")
        }
        JobType::Sysbatch if alloc.job_modify_index == job.job_modify_index && !replaced => {
            Some("the work would be done again")
        }
        JobType::Service | JobType::System if failed && !replaced => Some("it would be placed again"),
        _ => None,
    }
}

pub fn left_over(now: &TrackedState, old: Wall) -> Result<(), String> {
    for alloc in now.allocs.values().filter(|a| a.client_terminal() && a.modify_time < old) {
        let Some(job) = now.jobs.get(&alloc.job) else { continue };
        let owed =
            now.deployments.values().any(|d| d.job == alloc.job && d.status != DeploymentStatus::Successful);
        let deployment = alloc.deployment.and_then(|id| now.deployments.get(&id));
        if wanted(deployment, job, alloc).is_none() && !owed {
            return Err(format!("{} should have been forgotten: {alloc:#?}", alloc.id));
        }
    }
    for eval in now.evals.values().filter(|e| e.status.is_terminal() && e.modify_time < old) {
        if !now.allocs.values().any(|a| a.eval_id == eval.id) {
            return Err(format!("evaluation {} should have been forgotten: {eval:#?}", eval.id));
        }
    }
    for job in now.jobs.values().filter(|j| j.status == JobStatus::Dead && j.submit_time < old) {
        let over = job.spec.stop || matches!(job.spec.job_type, JobType::Batch | JobType::Sysbatch);
        let young = |a: &Arc<Allocation>| a.job == job.spec.key() && a.modify_time >= old;
        let evaluated = now.evals.values().any(|e| e.job == job.spec.key() && e.modify_time >= old);
        let children = format!("{}/", job.spec.id);
        let parent =
            now.jobs.values().any(|j| j.status != JobStatus::Dead && j.spec.id.starts_with(&children));
        if over && !evaluated && !parent && !now.allocs.values().any(young) {
            return Err(format!("{} should have been forgotten", job.spec.key()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::eval::{EvalStatus, Evaluation};
    use state::samples::{AT, Region, alloc, alloc_id, eval, eval_id, node_id, place, register, spec};
    use wire::command::Command;

    /// A batch job with one allocation that is done, by an evaluation that is complete.
    fn done() -> TrackedState {
        let mut r = Region::default();
        let job = model::job::JobSpec { job_type: JobType::Batch, ..spec("done", 1) };
        r.run(&register(job, None));
        let alloc = alloc(1, &r.job("done"), node_id(1), eval_id(1));
        let evals = vec![Evaluation { status: EvalStatus::Complete, ..eval(1, "done") }];
        r.run(&Command::ApplyPlan {
            eval: eval_id(1),
            nodes: place(vec![alloc]),
            deployment: None,
            updates: vec![],
            evals,
            at: AT,
        });
        let mut kept = TrackedState::read(&r.view()).unwrap();
        kept.allocs.values_mut().for_each(|a| Arc::make_mut(a).client = ClientStatus::Complete);
        kept
    }

    #[test]
    fn what_was_needed_and_is_gone_is_found() {
        let (before, mut now) = (done(), done());
        assert_eq!(forgotten(&before, &now), Ok(vec![]));
        now.allocs.clear();
        assert!(forgotten(&before, &now).unwrap_err().contains("would be done again"));
        let mut runs = done();
        runs.allocs.values_mut().for_each(|a| Arc::make_mut(a).client = ClientStatus::Running);
        assert!(forgotten(&runs, &now).unwrap_err().contains("was to run"));
        let mut now = done();
        now.evals.clear();
        now.allocs.values_mut().for_each(|a| Arc::make_mut(a).client = ClientStatus::Running);
        assert!(forgotten(&before, &now).unwrap_err().contains("was placed by it"));
        let mut gone = done();
        gone.jobs.clear();
        gone.allocs.clear();
        assert_eq!(forgotten(&before, &gone), Ok(vec![]), "a purge takes everything along");
    }

    #[test]
    fn what_is_old_and_still_there_is_found() {
        let mut now = done();
        now.jobs.values_mut().for_each(|j| Arc::make_mut(j).status = JobStatus::Running);
        assert_eq!(left_over(&now, AT), Ok(()), "nothing is old");
        let later = AT + Span::hours(9);
        assert_eq!(left_over(&now, later), Ok(()), "the work could be done again");
        now.allocs.values_mut().for_each(|a| Arc::make_mut(a).next = Some(alloc_id(2)));
        assert!(left_over(&now, later).is_err());
        now.allocs.clear();
        assert!(left_over(&now, later).unwrap_err().starts_with("evaluation"));
    }
}
