//! Deployments: created and changed by plans, users and their watcher, with counts of their allocations and their health
//! (server.md 3.3, server.md 3.4, server.md 12). Refuses to know who moves them, and when.
//!
//! Invariants: of a job, at most one is active; one that has ended never changes its status again.

use super::super::fault::Fault;
use super::super::tables::{self, CreationKey, Kind, Part};
use super::super::view::{self, Table};
use super::{ApplyTxn, Reply, checked_decrement};
use model::alloc::{Allocation, Health};
use model::deployment::{
    Deployment, DeploymentGroup, DeploymentStatus, DeploymentStep, DeploymentUpdate, Failure, NEWER, PAUSED,
};
use model::eval::Evaluation;
use model::id::{AllocId, DeploymentId, JobKey};
use model::time::{Span, Wall};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::change::{Change, DeploymentChange};
use wire::command::StepDeploymentCommand;
use wire::event::Object;
use wire::request::{Refusal, RefusalKind, WriteReply};

impl ApplyTxn<'_> {
    /// Creates the plan's deployment and changes the status of others as the plan says.
    pub(super) fn advance_rollout(
        &mut self,
        deployment: Option<Deployment>,
        updates: Vec<DeploymentUpdate>,
        at: Wall,
    ) -> Result<(), Fault> {
        if let Some(deployment) = deployment {
            self.create_deployment(deployment, at)?;
        }
        for update in updates {
            self.update_deployment(update, at)?;
        }
        Ok(())
    }

    /// A deployment of a job that went away while the plan was under way is dropped, as its placements are. One that exists already gets
    /// the plan's new desired counts.
    fn create_deployment(&mut self, mut new: Deployment, at: Wall) -> Result<(), Fault> {
        if let Some(known) = self.deployment(new.id)? {
            return self.amend_deployment(known, new.groups, at);
        }
        let job = self.job(&new.job)?.filter(|row| row.create_index == new.job_create_index);
        if job.is_none() {
            return Ok(());
        }
        let latest = view::read_latest_deployment(&self.rows, &tables::job_bytes(&new.job))?;
        if let Some(before) = latest.filter(|d| d.status.is_active()) {
            self.end_deployment(before, DeploymentStatus::Cancelled, NEWER.to_string(), at)?;
        }
        (new.create_index, new.create_time) = (self.index(), at);
        self.put_deployment(new, at)
    }

    /// Takes desired counts from a plan; what has been counted, and what users have asked for, stays.
    fn amend_deployment(
        &mut self,
        mut deployment: Deployment,
        wanted: BTreeMap<String, DeploymentGroup>,
        at: Wall,
    ) -> Result<(), Fault> {
        if !deployment.status.is_active() {
            return Ok(());
        }
        for (name, wanted) in wanted {
            let group = deployment.groups.entry(name).or_insert_with(|| wanted.clone());
            group.desired_total = wanted.desired_total;
            if !group.promoted {
                group.desired_canaries = wanted.desired_canaries;
            }
        }
        if deployment.status == DeploymentStatus::Running {
            deployment.status_description = deployment.running_description().to_string();
        }
        self.put_deployment(deployment, at)
    }

    /// An update from a plan; a deployment that has ended meanwhile ignores it.
    fn update_deployment(&mut self, update: DeploymentUpdate, at: Wall) -> Result<(), Fault> {
        match self.deployment(update.id)?.filter(|d| d.status.is_active()) {
            Some(found) => self.end_deployment(found, update.status, update.description, at),
            None => Ok(()),
        }
    }

    /// A successful deployment marks its version as stable.
    fn end_deployment(
        &mut self,
        mut deployment: Deployment,
        status: DeploymentStatus,
        description: String,
        at: Wall,
    ) -> Result<(), Fault> {
        (deployment.status, deployment.status_description) = (status, description);
        if status == DeploymentStatus::Successful {
            self.mark_stable(&deployment.job, deployment.job_create_index, deployment.job_version)?;
        }
        self.put_deployment(deployment, at)
    }

    pub(super) fn step_deployment(&mut self, order: StepDeploymentCommand) -> Result<Reply, Fault> {
        let StepDeploymentCommand { deployment: id, step, eval, tracked_versions, at } = order;
        let Some(mut deployment) = self.deployment(id)? else {
            return Ok(Err(Refusal::new(RefusalKind::Validation, "deployment not found")));
        };
        if !deployment.status.is_active() {
            return Ok(Err(terminal_deployment(&step)));
        }
        let mut reverted = None;
        match step {
            DeploymentStep::Pause => self.pause(deployment, at)?,
            DeploymentStep::Resume => self.resume(deployment, at)?,
            DeploymentStep::Fail(failure) => {
                reverted = self.fail_deployment(deployment, failure, tracked_versions, at)?;
            }
            DeploymentStep::Promote { groups } => {
                if let Some(refusal) = self.promote(deployment, groups.as_deref(), at)? {
                    return Ok(Err(refusal));
                }
            }
            DeploymentStep::SetHealth { healthy, unhealthy, failure } => {
                let all = healthy.into_iter().map(|a| (a, true));
                let all: Vec<_> = all.chain(unhealthy.into_iter().map(|a| (a, false))).collect();
                if let Some(refusal) = self.check_deployment_allocs(id, &all)? {
                    return Ok(Err(refusal));
                }
                for (alloc, healthy) in all {
                    self.set_health(id, alloc, healthy, at)?;
                }
                if let Some(failure) = failure {
                    deployment = self.deployment(id)?.unwrap_or(deployment);
                    reverted = self.fail_deployment(deployment, failure, tracked_versions, at)?;
                }
            }
        }
        self.put_next_eval(eval, reverted, at)
    }

    /// Stores the evaluation that follows from the step, and replies.
    fn put_next_eval(
        &mut self,
        eval: Option<Evaluation>,
        reverted: Option<u64>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        let mut eval = eval;
        if let Some(eval) = &mut eval
            && let Some(job) = self.job(&eval.job)?
        {
            eval.job_modify_index = job.newest()?.job_modify_index;
        }
        let id = eval.as_ref().map(|e| e.id);
        self.put_evals(eval.into_iter().collect(), at)?;
        Ok(Ok(WriteReply::Deployment { eval: id, reverted, index: self.index() }))
    }

    fn pause(&mut self, mut deployment: Deployment, at: Wall) -> Result<(), Fault> {
        deployment.status = DeploymentStatus::Paused;
        deployment.status_description = PAUSED.to_string();
        self.put_deployment(deployment, at)
    }

    /// Progress deadlines start again: the pause does not count.
    fn resume(&mut self, mut deployment: Deployment, at: Wall) -> Result<(), Fault> {
        if deployment.status == DeploymentStatus::Paused {
            deployment.groups.values_mut().for_each(|g| restart_progress_deadline(g, at));
        }
        deployment.status = DeploymentStatus::Running;
        deployment.status_description = deployment.running_description().to_string();
        self.put_deployment(deployment, at)
    }

    fn fail_deployment(
        &mut self,
        deployment: Deployment,
        failure: Failure,
        tracked_versions: u32,
        at: Wall,
    ) -> Result<Option<u64>, Fault> {
        let (job, of) = (deployment.job.clone(), (deployment.job_create_index, deployment.job_version));
        self.end_deployment(deployment, DeploymentStatus::Failed, failure.description, at)?;
        let Some(version) = failure.revert else { return Ok(None) };
        // a job that was changed meanwhile is not reverted
        let current = match self.job(&job)? {
            Some(row) => Some((row.create_index, row.newest()?.version)),
            None => None,
        };
        if current != Some(of) || !self.revert_job(&job, version, tracked_versions, at)? {
            return Ok(None);
        }
        let new = match self.job(&job)? {
            Some(row) => row.newest()?.version,
            None => return Ok(None),
        };
        self.mark_stable(&job, of.0, new)?;
        Ok(Some(version))
    }

    /// `Some`: refused, and nothing has changed.
    fn promote(
        &mut self,
        mut deployment: Deployment,
        groups: Option<&[String]>,
        at: Wall,
    ) -> Result<Option<Refusal>, Fault> {
        let meant = |name: &String| groups.is_none_or(|g| g.contains(name));
        let mut canaries = Vec::new();
        for (name, group) in deployment.groups.iter_mut().filter(|(n, g)| meant(n) && g.awaits_promotion()) {
            let mut placed = Vec::new();
            for id in &group.placed_canaries {
                placed.extend(self.alloc(*id)?);
            }
            let healthy =
                |a: &&Allocation| !a.terminal() && a.health.is_some_and(|h| h.healthy == Some(true));
            let (there, wanted) = (placed.iter().filter(healthy).count() as u64, group.desired_canaries);
            if there < wanted {
                let why = format!("Task group {name:?} has {there}/{wanted} healthy allocations");
                return Ok(Some(Refusal::new(RefusalKind::Validation, why)));
            }
            group.promoted = true;
            restart_progress_deadline(group, at);
            canaries.append(&mut placed);
        }
        if deployment.status == DeploymentStatus::Running {
            deployment.status_description = deployment.running_description().to_string();
        }
        self.put_deployment(deployment, at)?;
        for old in canaries.iter().filter(|a| a.is_canary()) {
            let mut new = old.clone();
            new.health = old.health.map(|h| Health { canary: false, ..h });
            (new.modify_index, new.modify_time) = (self.index(), at);
            self.write_alloc(Some(old), new)?;
        }
        Ok(None)
    }

    /// Refuses allocations that are not part of the deployment.
    fn check_deployment_allocs(
        &self,
        id: DeploymentId,
        allocs: &[(AllocId, bool)],
    ) -> Result<Option<Refusal>, Fault> {
        for (alloc, _) in allocs {
            if self.alloc(*alloc)?.is_none_or(|a| a.deployment != Some(id)) {
                let why = format!("allocation {alloc} is not part of deployment {id}");
                return Ok(Some(Refusal::new(RefusalKind::Validation, why)));
            }
        }
        Ok(None)
    }

    fn set_health(&mut self, id: DeploymentId, alloc: AllocId, healthy: bool, at: Wall) -> Result<(), Fault> {
        let Some(old) = self.alloc(alloc)?.filter(|a| a.deployment == Some(id)) else { return Ok(()) };
        let mut new = old.clone();
        new.health = Some(reported_health(old.health, healthy, at, self.index()));
        (new.modify_index, new.modify_time) = (self.index(), at);
        self.write_alloc(Some(&old), new)
    }

    /// Follows an allocation that was written. Each is counted once for each deployment that it becomes part of.
    pub(super) fn count_in_deployment(
        &mut self,
        old: Option<&Allocation>,
        new: &Allocation,
        at: Wall,
    ) -> Result<(), Fault> {
        let Some(id) = new.deployment else { return Ok(()) };
        let before = old.filter(|o| o.deployment == Some(id));
        let was = before.and_then(|o| o.health?.healthy);
        let is = new.health.and_then(|h| h.healthy);
        if before.is_some() && was == is {
            return Ok(());
        }
        let Some(mut deployment) = self.deployment(id)? else { return Ok(()) };
        let Some(group) = deployment.groups.get_mut(&new.group) else { return Ok(()) };
        if before.is_none() {
            group.placed += 1;
            if new.is_canary() {
                self.remove_replaced_canaries(&mut group.placed_canaries, new)?;
                group.placed_canaries.push(new.id);
            }
            if group.require_progress_by.is_never() {
                set_progress_deadline(group, at);
            }
        }
        match was {
            Some(true) => group.healthy = checked_decrement(group.healthy, 1, "healthy allocations")?,
            Some(false) => group.unhealthy = checked_decrement(group.unhealthy, 1, "unhealthy allocations")?,
            None => {}
        }
        match is {
            Some(true) => {
                group.healthy += 1;
                let before = group.require_progress_by;
                set_progress_deadline(group, at);
                group.require_progress_by = group.require_progress_by.max(before);
            }
            Some(false) => group.unhealthy += 1,
            None => {}
        }
        self.put_deployment(deployment, at)
    }

    /// Leaves the canaries that may yet be promoted: neither those that have ended and have a successor, nor those that have
    /// ended and whose name `new` has. So there are never many more of them than are wanted, however often they fail.
    fn remove_replaced_canaries(&self, canaries: &mut Vec<AllocId>, new: &Allocation) -> Result<(), Fault> {
        let mut left = Vec::new();
        for id in canaries.drain(..) {
            let replaced = |a: Allocation| {
                a.terminal() && (a.next.is_some() || Some(id) == new.previous || a.name == new.name)
            };
            if !self.alloc(id)?.is_none_or(replaced) {
                left.push(id);
            }
        }
        *canaries = left;
        Ok(())
    }

    /// Drops a new allocation's deployment if that is gone, of another version, or without the group. After promotion it is no canary.
    pub(super) fn join_deployment(&self, alloc: &mut Allocation) -> Result<(), Fault> {
        let Some(id) = alloc.deployment else { return Ok(()) };
        let found = self.deployment(id)?.filter(|d| d.job_version == alloc.job_version);
        let Some(group) = found.as_ref().and_then(|d| d.groups.get(&alloc.group)) else {
            (alloc.deployment, alloc.health) = (None, None);
            return Ok(());
        };
        if group.promoted {
            alloc.health = alloc.health.map(|h| Health { canary: false, ..h });
        }
        Ok(())
    }

    pub(super) fn deployment(&self, id: DeploymentId) -> Result<Option<Deployment>, Fault> {
        match tables::creation_key_of(&self.rows, Kind::DeploymentId, id.0)? {
            None => Ok(None),
            Some(creation_key) => {
                tables::must_get(&self.rows, &tables::deployment_key(creation_key)).map(Some)
            }
        }
    }

    fn put_deployment(&mut self, mut deployment: Deployment, at: Wall) -> Result<(), Fault> {
        if deployment.create_index == 0 {
            return Err(Fault::corrupt(format!("deployment {} was never created", deployment.id)));
        }
        (deployment.modify_index, deployment.modify_time) = (self.index(), at);
        let creation_key = creation_key(&deployment);
        self.put(&tables::deployment_key(creation_key), &deployment)?;
        let created = deployment.create_index.to_be_bytes();
        self.put_bytes(&Kind::DeploymentId.key(&[creation_key.id.as_bytes()]), &created)?;
        let job = tables::job_bytes(&deployment.job);
        self.put_bytes(&Part::Deployment.key(&job, &creation_key.bytes()), &[])?;
        debug_assert!(self.active_deployments(&job)? <= 1, "a job has at most one active deployment");
        // the job's status depends on its deployments: this has it looked at when the entry ends
        self.job(&deployment.job)?;
        self.deployment_changed(&deployment, deployment.status.is_active());
        self.events.push(Object::Deployment(Arc::new(deployment)));
        Ok(())
    }

    /// How many deployments of the job are active.
    fn active_deployments(&self, job: &[u8]) -> Result<usize, Fault> {
        let mut active = 0;
        for index_key in tables::keys(&self.rows, &Part::Deployment.key(job, &[]))? {
            let key = tables::deployment_key(CreationKey::from_key_end(&index_key)?);
            active += usize::from(tables::must_get::<Deployment>(&self.rows, &key)?.status.is_active());
        }
        Ok(active)
    }

    pub(super) fn remove_deployments_of(&mut self, key: &JobKey) -> Result<(), Fault> {
        let prefix = Part::Deployment.key(&tables::job_bytes(key), &[]);
        for index_key in tables::keys(&self.rows, &prefix)? {
            let creation_key = CreationKey::from_key_end(&index_key)?;
            let old: Deployment = tables::must_get(&self.rows, &tables::deployment_key(creation_key))?;
            self.remove_deployment(&old)?;
        }
        Ok(())
    }

    pub(super) fn remove_deployment(&mut self, old: &Deployment) -> Result<(), Fault> {
        let creation_key = creation_key(old);
        self.remove(&Part::Deployment.key(&tables::job_bytes(&old.job), &creation_key.bytes()))?;
        self.remove(&tables::deployment_key(creation_key))?;
        self.remove(&Kind::DeploymentId.key(&[creation_key.id.as_bytes()]))?;
        self.deployment_changed(old, false);
        Ok(())
    }

    fn deployment_changed(&mut self, deployment: &Deployment, active: bool) {
        self.set_table_index(Table::Deployments);
        let (id, job) = (deployment.id, deployment.job.clone());
        self.changes.push(Change::Deployment(DeploymentChange { id, job, active }));
    }
}

/// A verdict on an allocation, at an entry's time and index: nodes' clocks may show anything.
pub(super) fn reported_health(old: Option<Health>, healthy: bool, at: Wall, modify_index: u64) -> Health {
    Health { healthy: Some(healthy), at, canary: old.is_some_and(|h| h.canary), modify_index }
}

fn creation_key(deployment: &Deployment) -> CreationKey {
    CreationKey { create_index: deployment.create_index, id: deployment.id.0 }
}

/// Restarts a progress deadline that is running.
fn restart_progress_deadline(group: &mut DeploymentGroup, at: Wall) {
    if !group.require_progress_by.is_never() {
        set_progress_deadline(group, at);
    }
}

fn set_progress_deadline(group: &mut DeploymentGroup, at: Wall) {
    if group.progress_deadline > Span::ZERO {
        group.require_progress_by = at + group.progress_deadline;
    }
}

fn terminal_deployment(step: &DeploymentStep) -> Refusal {
    let what = match step {
        DeploymentStep::Pause => "pause",
        DeploymentStep::Resume => "resume",
        DeploymentStep::Fail(_) => "fail",
        DeploymentStep::Promote { .. } => "promote",
        DeploymentStep::SetHealth { .. } => "set health of allocations for a",
    };
    Refusal::new(RefusalKind::Validation, format!("can't {what} terminal deployment"))
}
