//! Deployments in the simulated world: update blocks of every kind, users who pause, resume, promote, fail and judge, and
//! what must be so of deployments at any time and at the end.

use super::faults::Kind;
use super::place::ServerAt;
use super::tracked::TrackedState;
use super::users::User;
use super::workload::{SYSTEM_JOB, Workload};
use super::world::World;
use model::alloc::{Allocation, ClientStatus};
use model::deployment::{Deployment, DeploymentStatus};
use model::eval::EvalStatus;
use model::id::{AllocId, DeploymentId, JobKey};
use model::job::{HealthCheck, Job, UpdatePolicy};
use model::node::NodeStatus;
use model::random::Stream;
use model::time::{Span, Wall};
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::request::{DeploymentRequest, WriteRequest};

/// What has been seen of deployments, so that each end is counted once.
pub type DeploymentStatuses = BTreeMap<DeploymentId, DeploymentStatus>;

/// Everything that `update` can say, within what a seed has time for.
pub fn update(draws: &mut Stream) -> UpdatePolicy {
    let canary = [0, 0, 1, 2][draws.below(4) as usize];
    let manual = draws.below(12) == 0;
    UpdatePolicy {
        stagger: Span::seconds(30),
        max_parallel: draws.below(4) as i64,
        health_check: if manual { HealthCheck::Manual } else { HealthCheck::TaskStates },
        min_healthy_time: Span::seconds(1 + draws.below(8) as i64),
        healthy_deadline: Span::seconds(20 + draws.below(40) as i64),
        progress_deadline: if draws.below(8) == 0 && !manual {
            Span::ZERO
        } else {
            Span::seconds(70 + draws.below(110) as i64)
        },
        auto_revert: draws.below(2) == 0,
        auto_promote: canary > 0 && draws.below(2) == 0,
        canary,
    }
}

/// The same for a job on every node, whose canaries are a percentage.
pub fn update_of_system_job(seed: i64) -> UpdatePolicy {
    let update = update(&mut Stream::new(seed.unsigned_abs(), 0));
    UpdatePolicy { canary: update.canary * 30, ..update }
}

impl Workload {
    /// What a user does with this deployment, and under which name it is counted once it is done.
    fn change_to(&mut self, deployment: &Deployment, allocs: &[Allocation]) -> (Kind, DeploymentRequest) {
        let waits = deployment.groups.values().any(|g| g.awaits_promotion());
        match self.draw(10) {
            0 | 1 if deployment.status == DeploymentStatus::Running => {
                (Kind::DeploymentPaused, DeploymentRequest::Pause)
            }
            2 => (Kind::DeploymentFailedByAUser, DeploymentRequest::Fail),
            3 if !allocs.is_empty() => {
                let one = vec![allocs[self.draw(allocs.len() as u64) as usize].id];
                let (healthy, unhealthy) = if self.draw(3) > 0 { (one, vec![]) } else { (vec![], one) };
                (Kind::HealthSetByAUser, DeploymentRequest::SetHealth { healthy, unhealthy })
            }
            _ if deployment.status == DeploymentStatus::Paused => {
                (Kind::DeploymentResumed, DeploymentRequest::Resume)
            }
            4 => {
                let groups = deployment.groups.keys().cloned().collect();
                (Kind::PromotionAskedFor, DeploymentRequest::Promote { groups: Some(groups) })
            }
            _ if waits => (Kind::PromotionAskedFor, DeploymentRequest::Promote { groups: None }),
            _ => (Kind::DeploymentResumed, DeploymentRequest::Resume),
        }
    }
}

impl World {
    /// A user looks at a deployment that is under way, and has an opinion.
    pub fn change_a_deployment(&mut self) {
        let Some(active) = self.active_deployments().filter(|active| !active.is_empty()) else { return };
        let (deployment, allocs) = &active[self.workload.draw(active.len() as u64) as usize];
        let (kind, step) = self.workload.change_to(deployment, allocs);
        self.wish(Some(kind), deployment.id, step);
    }

    /// The last users go: what is paused goes on, what waits for a word gets it. Canaries that were healthy and fail again and
    /// again cannot be promoted while they do; the `last` word on them is no.
    pub fn settle_deployments(&mut self, last: bool) -> Result<(), String> {
        for (deployment, _) in self.active_deployments().unwrap_or_default() {
            if deployment.status == DeploymentStatus::Paused {
                self.wish(None, deployment.id, DeploymentRequest::Resume);
            } else if deployment.groups.values().any(|g| g.awaits_promotion()) {
                let word =
                    if last { DeploymentRequest::Fail } else { DeploymentRequest::Promote { groups: None } };
                self.wish(None, deployment.id, word);
            }
        }
        Ok(())
    }

    /// `kind`: as what it counts once it is done.
    fn wish(&mut self, kind: Option<Kind>, deployment: DeploymentId, step: DeploymentRequest) {
        let Some(at) = self.server_of(User::Workload) else { return };
        let token = self.workload.token();
        if let Some(kind) = kind {
            self.ledger.counts_when_done(token, kind);
        }
        self.note(|_| format!("user    {token} wants of deployment {deployment}: {step:?}"));
        self.ledger.asked_aside(token);
        self.ask(User::Workload, at, token, WriteRequest::StepDeployment { deployment, step });
    }

    fn active_deployments(&mut self) -> Option<Vec<(Deployment, Vec<Allocation>)>> {
        self.read(User::Workload, |view| {
            let all = view.deployments(None, usize::MAX)?.into_iter().filter(|d| d.status.is_active());
            all.map(|d| Ok((d.clone(), view.allocs_of_deployment(&d)?))).collect()
        })
    }

    /// The leader watches what is active.
    pub fn check_watched_deployments(&self, at: ServerAt) -> Result<(), String> {
        let watched = self.regions[at].brain.as_ref().and_then(|s| s.watched_deployments());
        let tracked = &self.regions[at.region].tracked;
        let active = tracked.deployments.values().filter(|d| d.status.is_active());
        let wanted: BTreeSet<_> = active.map(|d| d.id).collect();
        match watched {
            Some(watched) if watched != wanted => {
                Err(format!("{wanted:?} are active, and {watched:?} are watched"))
            }
            _ => Ok(()),
        }
    }

    /// At any time: no deployment takes more than it may.
    pub fn check_deployments(&mut self, at: ServerAt, view: &View) -> Result<(), String> {
        let tracked = self.regions[at.region].tracked.clone();
        let active = || tracked.deployments.values().filter(|d| d.status.is_active());
        for deployment in active() {
            takes_no_more_than_it_may(view, deployment, &tracked)?;
        }
        for d in tracked.deployments.values() {
            let before = self.regions[at.region].deployment_statuses.insert(d.id, d.status);
            if before != Some(d.status) {
                self.note_end(d);
            }
        }
        no_name_lives_twice(view, &tracked)
    }

    fn note_end(&mut self, deployment: &Deployment) {
        let kind = match (deployment.status, deployment.status_description.as_str()) {
            (DeploymentStatus::Successful, _) => Kind::DeploymentSucceeded,
            (DeploymentStatus::Cancelled, _) => Kind::DeploymentCancelled,
            (DeploymentStatus::Failed, why) if why.contains(" - rolling back to") => Kind::JobRolledBack,
            (DeploymentStatus::Failed, why) if why.starts_with("Failed due to progress") => {
                Kind::DeploymentTooSlow
            }
            (DeploymentStatus::Failed, why) if why.starts_with("Failed due to unhealthy") => {
                Kind::DeploymentUnhealthy
            }
            _ => return,
        };
        self.faults.fired(kind);
    }
}

/// At most `max_parallel` of the allocations stopped for this deployment have successors that are not known to be healthy.
pub(super) fn takes_no_more_than_it_may(
    view: &View,
    deployment: &Deployment,
    tracked: &TrackedState,
) -> Result<(), String> {
    let spec = view.job_spec(&deployment.job, deployment.job_create_index, deployment.job_version);
    let Some(spec) = spec.map_err(|e| e.to_string())? else { return Ok(()) };
    for name in deployment.groups.keys() {
        let Some(most) = spec.group(name).and_then(|g| g.update).map(|u| u.max_parallel) else { continue };
        let open = |a: &&Arc<Allocation>| {
            let replaced = a.previous.and_then(|p| tracked.allocs.get(&p));
            let updated = |p: &&Arc<Allocation>| p.desired_description == crate::checks::UPDATED;
            a.group == *name
                && a.deployment == Some(deployment.id)
                // what joined it in place had its predecessor stopped for another one's sake
                && a.create_index >= deployment.create_index
                && !a.terminal()
                && a.health.is_none_or(|h| h.healthy.is_none())
                && replaced.filter(updated).is_some()
        };
        let under_way = tracked.allocs.values().filter(open).count() as i64;
        if under_way > most {
            return Err(format!(
                "deployment {} of {} updates {under_way} at once, {most} are allowed",
                deployment.id, deployment.job
            ));
        }
    }
    Ok(())
}

/// Each name has one allocation (for a system job, one on each node), not counting those of unknown state; and in a
/// deployment that has not succeeded, one canary.
pub(super) fn no_name_lives_twice(view: &View, tracked: &TrackedState) -> Result<(), String> {
    let of = |d: &Arc<Deployment>| {
        let canaries = d.groups.values().flat_map(|g| g.placed_canaries.clone());
        canaries.map(|a| (a, d.id)).collect::<Vec<_>>()
    };
    let trials = tracked.deployments.values().filter(|d| d.status != DeploymentStatus::Successful);
    let canaries: BTreeMap<AllocId, DeploymentId> = trials.flat_map(of).collect();
    let mut names = BTreeSet::new();
    for alloc in tracked.allocs.values().filter(|a| !a.terminal()) {
        if is_out_of_touch(view, alloc)? {
            continue;
        }
        let node = (alloc.job.id == SYSTEM_JOB).then_some(alloc.node_id);
        let name = (alloc.job.clone(), alloc.name.clone(), node, canaries.get(&alloc.id));
        if !names.insert(name) && !settles_soon(view, &alloc.job)? {
            let both: Vec<_> =
                tracked.allocs.values().filter(|a| a.job == alloc.job && a.name == alloc.name).collect();
            return Err(format!("{} of {} lives twice: {both:#?}", alloc.name, alloc.job));
        }
    }
    Ok(())
}

/// Whether the allocation's node is away, or back and not ready yet: which of two stays is decided once it is.
fn is_out_of_touch(view: &View, alloc: &Allocation) -> Result<bool, String> {
    let was_unknown = alloc.states.last().is_some_and(|s| s.status == ClientStatus::Unknown);
    let node = view.node(alloc.node_id).map_err(|e| e.to_string())?;
    Ok(was_unknown && node.is_none_or(|n| n.status != NodeStatus::Ready))
}

/// A plan that was accepted in part is made again at once.
fn settles_soon(view: &View, job: &JobKey) -> Result<bool, String> {
    let open = view.open_evals().map_err(|e| e.to_string())?;
    Ok(open.iter().any(|e| e.status == EvalStatus::Pending && e.job == *job && e.wait_until.is_none()))
}

/// At the end: whether the job may have fewer than it wants, because its deployment has failed.
pub fn given_up(view: &View, job: &Job) -> Result<bool, String> {
    let latest = view.latest_deployment(&job.spec.key()).map_err(|e| e.to_string())?;
    Ok(latest.is_some_and(|d| d.is_of(job) && d.status == DeploymentStatus::Failed))
}

/// Canaries that wait for a word of users are beyond the count.
pub fn on_trial(view: &View, job: &Job) -> Result<Vec<AllocId>, String> {
    let latest = view.latest_deployment(&job.spec.key()).map_err(|e| e.to_string())?;
    let waits = |d: &Deployment| d.is_of(job) && d.status.is_active();
    let groups = latest.filter(waits).into_iter().flat_map(|d| d.groups.into_values());
    Ok(groups.filter(|g| g.awaits_promotion()).flat_map(|g| g.placed_canaries).collect())
}

/// Whether the deployment waits for users to say whether its canaries are good, and began when those had said their last.
fn nobody_promotes(deployment: &Deployment, allocs: &[Allocation], last_word: Wall) -> bool {
    deployment.groups.values().any(|g| g.awaits_promotion())
        && allocs.iter().any(|a| a.is_canary() && a.create_time > last_word)
}

/// Whether the job is between two versions for such a deployment: what is missing of the old one is not placed meanwhile.
pub fn is_never_promoted(view: &View, job: &Job, last_word: Wall) -> Result<bool, String> {
    let latest = view.latest_deployment(&job.spec.key()).map_err(|e| e.to_string())?;
    let Some(deployment) = latest.filter(|d| d.is_of(job) && d.status.is_active()) else { return Ok(false) };
    let allocs = view.allocs_of_deployment(&deployment).map_err(|e| e.to_string())?;
    Ok(nobody_promotes(&deployment, &allocs, last_word))
}

/// At the end every deployment has come to its own, but for those that wait for room, or found it only after `settled`, or wait
/// for a word of users and began when those had said their last; and no
/// canary is left of one that has failed, unless its node would be without.
pub fn all_have_ended(view: &View, settled: Wall, last_word: Wall) -> Result<(), String> {
    let mut blocked = view.open_evals().map_err(|e| e.to_string())?;
    blocked.retain(|e| e.status == EvalStatus::Blocked);
    for deployment in view.deployments(None, usize::MAX).map_err(|e| e.to_string())? {
        let allocs = view.allocs_of_deployment(&deployment).map_err(|e| e.to_string())?;
        let waits = blocked.iter().any(|e| e.job == deployment.job);
        let young = allocs.iter().any(|a| a.create_time > settled);
        let unheard = nobody_promotes(&deployment, &allocs, last_word);
        if deployment.status.is_active() && !waits && !young && !unheard {
            return Err(format!("nothing ends {deployment:#?} with {allocs:#?}"));
        }
        let beside = deployment.job.id != SYSTEM_JOB;
        let trial = |a: &&Allocation| beside && a.is_canary() && !a.terminal();
        if !deployment.status.is_active()
            && !waits
            && let Some(canary) = allocs.iter().find(trial)
        {
            return Err(format!("still tried for {}, which has ended: {canary:#?}", deployment.id));
        }
    }
    Ok(())
}
