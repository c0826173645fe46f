//! How a job's deployment bounds what one evaluation may change, and what becomes of the deployment
//! (scheduler.md 8.1, scheduler.md 8.6, scheduler.md 8.9). Refuses to know who watches it.

use super::{AllocSet, Changes, ReconcileInput};
use model::alloc::Allocation;
use model::deployment::{
    COMPLETE, Deployment, DeploymentGroup, DeploymentStatus, DeploymentUpdate, NEWER, STOPPED,
};
use model::id::{AllocId, DeploymentId};
use model::job::{Job, TaskGroup, UpdatePolicy};
use std::collections::BTreeMap;

pub struct Rollout<'a> {
    /// Batch jobs have no deployments: what changes, changes at once.
    uses_deployments: bool,
    /// The deployment of this version of the job, while it is not done.
    current: Option<&'a Deployment>,
    /// The deployment of another version, or one that is done.
    old: Option<&'a Deployment>,
    /// The deployment to be created.
    new: Option<Deployment>,
}

impl<'a> Rollout<'a> {
    /// Finds the deployment that is the current one, and what cancels it (scheduler.md 8.1.2).
    pub fn new(input: &ReconcileInput<'a>, changes: &mut Changes<'a>) -> Self {
        let uses_deployments = !input.batch;
        let latest = input.deployments.latest.filter(|_| uses_deployments);
        let mut rollout = Rollout { uses_deployments, current: None, old: latest, new: None };
        let Some(found) = latest else { return rollout };
        let cancelled = match input.job.filter(|j| !j.spec.stop) {
            None => Some(STOPPED),
            Some(job) if found.is_of(job) => None,
            Some(_) => Some(NEWER),
        };
        if let Some(why) = cancelled {
            if found.status.is_active() {
                changes.deployment_updates.push(update(found, DeploymentStatus::Cancelled, why));
            }
        } else if found.status != DeploymentStatus::Successful {
            (rollout.current, rollout.old) = (Some(found), None);
        }
        rollout
    }

    /// None: the group is changed all at once.
    pub fn policy<'g>(&self, group: &'g TaskGroup) -> Option<&'g UpdatePolicy> {
        group.update.as_ref().filter(|u| self.uses_deployments && u.max_parallel > 0)
    }

    /// The group's state in the deployment, or the one that a new deployment would begin with; and whether it exists already.
    pub fn state_of(&self, group: &TaskGroup) -> (DeploymentGroup, bool) {
        if let Some(state) = self.current.and_then(|d| d.groups.get(&group.name)) {
            return (state.clone(), true);
        }
        let fresh = self.policy(group).map(|u| DeploymentGroup {
            auto_revert: u.auto_revert,
            auto_promote: u.auto_promote,
            progress_deadline: u.progress_deadline,
            ..DeploymentGroup::default()
        });
        (fresh.unwrap_or_default(), false)
    }

    fn is_failed(&self) -> bool {
        self.current.is_some_and(|d| d.status == DeploymentStatus::Failed)
    }

    fn is_paused_or_failed(&self) -> bool {
        self.is_failed() || self.current.is_some_and(|d| d.status == DeploymentStatus::Paused)
    }

    pub fn is_paused(&self) -> bool {
        self.current.is_some_and(|d| d.status == DeploymentStatus::Paused)
    }

    /// Whether no deployment of this version is known, or it is done.
    pub fn has_no_deployment(&self) -> bool {
        self.current.is_none()
    }

    /// Whether the deployment of this version was successful.
    pub fn has_succeeded(&self, job: &Job) -> bool {
        self.old.is_some_and(|d| d.is_of(job) && d.status == DeploymentStatus::Successful)
    }

    /// The active deployment, which new allocations join whatever their group.
    pub fn active(&self) -> Option<DeploymentId> {
        self.current.filter(|d| d.status.is_active()).map(|d| d.id)
    }

    /// Whether canaries, and with `state` anything else new, may be placed.
    pub fn may_place_canaries(&self) -> bool {
        !self.is_paused_or_failed()
    }

    pub fn may_place(&self, state: &DeploymentGroup) -> bool {
        !self.is_paused_or_failed() && !state.awaits_promotion()
    }

    /// Whether the allocation is part of a deployment that has failed or is paused: it is not placed again.
    pub fn is_of_paused_or_failed(&self, alloc: &Allocation) -> bool {
        self.is_paused_or_failed() && self.contains(alloc)
    }

    /// Whether the allocation is part of this version's deployment.
    pub fn contains(&self, alloc: &Allocation) -> bool {
        alloc.deployment.is_some() && alloc.deployment == self.current.map(|d| d.id)
    }

    /// Whether the allocation is a canary of this version's deployment that is not promoted.
    pub fn is_unpromoted_canary(&self, alloc: &Allocation) -> bool {
        alloc.is_canary() && self.contains(alloc) && !self.is_failed()
    }

    /// The canaries that have been promoted, by this deployment or the one before.
    pub fn promoted(&self, group: &TaskGroup) -> &'a [AllocId] {
        let state = self.current.or(self.old).and_then(|d| d.groups.get(&group.name));
        state.filter(|g| g.promoted).map_or(&[], |g| &g.placed_canaries)
    }

    /// The deployment that a new allocation of the group joins.
    pub fn deployment_of(&self, group: &TaskGroup) -> Option<DeploymentId> {
        let current = self.current.filter(|d| d.status.is_active());
        let known = current.or(self.new.as_ref()).filter(|d| d.groups.contains_key(&group.name));
        known.map(|d| d.id)
    }

    /// How many allocations may be replaced now (scheduler.md 8.6); None: as many as there are. `moving`: to be
    /// replaced or to leave their nodes; `there`: those that are, and those that stay.
    pub fn limit(
        &self,
        group: &TaskGroup,
        state: &DeploymentGroup,
        moving: usize,
        there: [&AllocSet; 2],
    ) -> Option<u64> {
        let policy = self.policy(group).filter(|_| moving > 0)?;
        let parallel = u64::try_from(policy.max_parallel).unwrap_or(0);
        let Some(current) = self.current else { return Some(parallel) };
        if !self.may_place(state) {
            return Some(0);
        }
        let of_this = there.into_iter().flat_map(|s| s.values()).filter(|a| a.deployment == Some(current.id));
        let healths: Vec<Option<bool>> = of_this.map(|a| a.health.and_then(|h| h.healthy)).collect();
        if healths.contains(&Some(false)) {
            return Some(0);
        }
        let undecided = healths.iter().filter(|h| h.is_none()).count() as u64;
        Some(parallel.saturating_sub(undecided))
    }

    /// Creates a deployment (scheduler.md 8.9) for a group that no deployment knows, and whose change is more than
    /// its count.
    pub fn create(
        &mut self,
        input: &ReconcileInput<'a>,
        job: &Job,
        group: &TaskGroup,
        state: DeploymentGroup,
    ) {
        let wanted = self.policy(group).is_some() && state.desired_total > 0;
        if !wanted || self.current.is_some() {
            return;
        }
        let new = self.new.get_or_insert_with(|| Deployment {
            id: input.deployments.new_id,
            job: job.spec.key(),
            job_create_index: job.create_index,
            job_version: job.version,
            job_modify_index: job.job_modify_index,
            groups: BTreeMap::new(),
            status: DeploymentStatus::Running,
            status_description: String::new(),
            priority: input.eval.priority,
            create_time: input.now,
            modify_time: input.now,
            create_index: 0,
            modify_index: 0,
        });
        new.groups.insert(group.name.clone(), state);
    }

    /// Updates the group's state in the active deployment, if it changed.
    pub fn update_state(&mut self, group: &TaskGroup, state: DeploymentGroup) {
        let Some(current) = self.current.filter(|d| d.status.is_active()) else { return };
        let wanted = |g: &DeploymentGroup| (g.desired_total, g.desired_canaries);
        let known = current.groups.get(&group.name);
        if known.map_or((0, 0), wanted) != wanted(&state) {
            let new = self.new.get_or_insert_with(|| current.clone());
            new.groups.insert(group.name.clone(), state);
        }
    }

    /// Whether at least one allocation of the deployment has been healthy.
    pub fn has_healthy_alloc(&self) -> bool {
        self.current.is_some_and(|d| d.groups.values().any(|g| g.healthy > 0))
    }

    /// Whether nothing is left to do for the group, as far as its deployment goes (scheduler.md 8.2.23).
    pub fn group_is_done(&self, group: &TaskGroup) -> bool {
        let state = self.current.and_then(|d| d.groups.get(&group.name));
        state.is_none_or(|s| s.has_its_healthy() && !s.awaits_promotion())
    }

    /// What becomes of the deployment (scheduler.md 8.1.6).
    pub fn finish(self, complete: bool, changes: &mut Changes<'a>) {
        let done = self.current.filter(|d| complete && d.status.is_active());
        let success = done.map(|d| update(d, DeploymentStatus::Successful, COMPLETE));
        changes.deployment_updates.extend(success);
        let amends = |new: &Deployment| self.current.is_none_or(|current| current.id == new.id);
        assert!(self.new.as_ref().is_none_or(amends), "a version has one deployment");
        changes.deployment = self.new.map(|new| {
            let status_description = new.running_description().to_string();
            Deployment { status_description, ..new }
        });
    }
}

fn update(deployment: &Deployment, status: DeploymentStatus, why: &str) -> DeploymentUpdate {
    DeploymentUpdate { id: deployment.id, status, description: why.to_string() }
}
