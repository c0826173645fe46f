//! How the allocations that stay follow their job: ignored, updated in place, or to be replaced (scheduler.md 11).
//! Refuses to know how many may be replaced.

use super::super::distinct::Distinct;
use super::super::proposal::ProposedAllocs;
use super::super::reconcile::{Changes, UPDATED, Update};
use super::super::update::tasks_changed;
use super::Placer;
use model::alloc::Allocation;
use model::job::{JobSpec, TaskGroup};
use std::sync::Arc;

impl<'a> Placer<'a> {
    /// How an allocation follows the job (scheduler.md 11.1 to scheduler.md 11.5). An update in place is put into the plan
    /// at once, so that the next one sees what it holds.
    pub(super) fn classify(&mut self, old: &'a Allocation, proposal: &mut ProposedAllocs<'a>) -> Update {
        if old.job_modify_index == self.job.job_modify_index {
            return Update::Ignore;
        }
        let spec = self.spec_of(old);
        if spec.is_none_or(|spec| tasks_changed(&spec, &self.job.spec, &old.group)) {
            return Update::Destructive;
        }
        if old.terminal() {
            return Update::Ignore;
        }
        let Some(group) = self.job.spec.group(&old.group) else { return Update::Destructive };
        if !self.still_fits(old, group, proposal) {
            return Update::Destructive;
        }
        proposal.update(old, self.in_place(old, group));
        self.updated.push(old);
        Update::InPlace
    }

    fn spec_of(&mut self, alloc: &Allocation) -> Option<Arc<JobSpec>> {
        let version = (alloc.job_create_index, alloc.job_version);
        let run = self.run;
        self.versions
            .entry(version)
            .or_insert_with(|| run.view.job_version(&run.eval.job, version.0, version.1))
            .clone()
    }

    /// Whether the group's new spec can stay on the node, the old allocation being out of the way.
    fn still_fits(
        &mut self,
        old: &'a Allocation,
        group: &'a TaskGroup,
        proposal: &mut ProposedAllocs<'a>,
    ) -> bool {
        let Some(slot) = self.run.fleet.slot(old.node_id) else { return false };
        let feasible = self.feasible();
        if !feasible.targeted(slot) || !feasible.node_passes(group, slot) {
            return false;
        }
        proposal.stop(old, UPDATED, None);
        let distinct = Distinct::new(&self.job.spec, group);
        let then = proposal.used(slot).plus(group.resources().keeping(&old.resources).total());
        let fits = distinct.allows(self.run.fleet, proposal, slot)
            && self.run.fleet.available_at(slot).lacks(then).is_none();
        proposal.cancel_stop(old);
        fits
    }

    fn in_place(&self, old: &Allocation, group: &TaskGroup) -> Allocation {
        Allocation {
            job_create_index: self.job.create_index,
            job_version: self.job.version,
            job_modify_index: self.job.job_modify_index,
            eval_id: self.run.eval.id,
            resources: group.resources().keeping(&old.resources),
            modify_time: self.run.now,
            ..old.clone()
        }
    }

    /// An allocation that was updated in place has to become healthy once more, as a part of the deployment that brings the update. If
    /// there is none, the allocation leaves the deployment of the version before.
    pub(super) fn add_updated_to_deployment(
        &mut self,
        changes: &Changes<'a>,
        proposal: &mut ProposedAllocs<'a>,
    ) {
        for old in std::mem::take(&mut self.updated) {
            let deployment = changes.deployment_ids.get(old.group.as_str()).copied();
            proposal.amend(old, |a| (a.deployment, a.health) = (deployment, None));
        }
    }
}
