//! Jobs that run on every node (scheduler.md 12): each ready node that may run a group gets its allocations, and
//! changes reach as many nodes at a time as the job's deployment allows.
//!
//! Refuses to know what the job should have where something is already, and how many may be replaced: `reconcile::system` decides.

use super::super::proposal::ProposedAllocs;
use super::super::reconcile::{
    Fill, GroupRollout, ReconcileInput, Replacement, SystemChanges, UPDATED, Update, reconcile_system,
};
use super::super::search::NodeCheck;
use super::desired_updates::DesiredUpdates;
use super::{EvalOutcome, Placement, Placer, apply_stops, reschedule_tracker};
use model::alloc::{AllocMetric, Allocation, alloc_name};
use model::job::TaskGroup;
use std::collections::BTreeMap;

impl<'a> Placer<'a> {
    pub(super) fn reconcile_system(
        mut self,
        input: &ReconcileInput<'a>,
        proposal: &mut ProposedAllocs<'a>,
    ) -> EvalOutcome {
        let mut desired = DesiredUpdates::default();
        let eligible_nodes = self.eligible_nodes();
        let mut all = reconcile_system(input, self.job, &eligible_nodes, &mut |alloc, group| {
            let update = self.classify_on_node(alloc, group, proposal)?;
            desired.count_update(alloc, update);
            Some(update)
        });
        self.add_updated_to_deployment(&all.changes, proposal);
        apply_stops(&all.changes, proposal);
        self.deployment_ids = std::mem::take(&mut all.changes.deployment_ids);
        let outdated = std::mem::take(&mut all.changes.destructive);
        all.changes.destructive = self.replace_outdated(outdated, &mut all.rollouts, &mut desired, proposal);
        all.changes.missing = self.place_missing(&mut all, proposal);
        let changes = all.finish(input, self.job);
        self.outcome.desired = desired.with_changes(&changes);
        self.withdraw_unneeded_preemptions(proposal);
        reschedule_tracker::record_disconnects(
            &changes.disconnected,
            &changes.reconnected,
            self.run.now,
            proposal,
        );
        self.outcome.followups =
            reschedule_tracker::create_followup_evals(self.run, changes.followups, proposal);
        self.outcome.deployment = changes.deployment;
        self.outcome.deployment_updates = changes.deployment_updates;
        if !self.outcome.failed.is_empty() {
            self.outcome.eligibility = self.eligibility();
        }
        self.outcome
    }

    /// By group: how many nodes may run it.
    fn eligible_nodes(&mut self) -> BTreeMap<&'a str, u64> {
        let mut eligible_nodes = BTreeMap::new();
        for group in self.job.spec.groups.iter().filter(|g| g.count > 0) {
            eligible_nodes.insert(group.name.as_str(), self.feasible().candidates(group).0.len());
        }
        eligible_nodes
    }

    /// How an allocation is updated; None: it must stop. On a node that is not ready, nothing changes.
    fn classify_on_node(
        &mut self,
        alloc: &'a Allocation,
        group: &'a TaskGroup,
        proposal: &mut ProposedAllocs<'a>,
    ) -> Option<Update> {
        let fleet = self.run.fleet;
        let Some(slot) = fleet.slot(alloc.node_id).filter(|slot| fleet.ready_at(*slot)) else {
            return Some(Update::Ignore);
        };
        let changed = alloc.job_modify_index != self.job.job_modify_index;
        let feasible = self.feasible();
        if !feasible.targeted(slot) || (changed && !feasible.node_passes(group, slot)) {
            return None;
        }
        Some(self.classify(alloc, proposal))
    }

    /// Replaces as many outdated allocations as the rollout allows now, where the new one fits: nodes with canaries come first.
    /// Returns the replaced ones that are no canaries.
    fn replace_outdated(
        &mut self,
        mut outdated: Vec<Replacement<'a>>,
        rollouts: &mut BTreeMap<&'a str, GroupRollout>,
        desired: &mut DesiredUpdates,
        proposal: &mut ProposedAllocs<'a>,
    ) -> Vec<Replacement<'a>> {
        outdated.sort_by_key(|one| (!one.alloc.is_canary(), one.alloc.id));
        let mut replaced = Vec::new();
        for one in outdated {
            let (group, old) = (one.group, one.alloc);
            let Some(group_rollout) = rollouts.get_mut(group.name.as_str()) else { continue };
            let (Some(canary), Some(slot)) = (group_rollout.next(), self.run.fleet.slot(old.node_id)) else {
                continue;
            };
            proposal.stop(old, UPDATED, None);
            let placement =
                Placement { previous: Some(old), canary, ..self.new_placement(group, old.index()) };
            if !self.place_on_node(slot, placement, proposal) {
                proposal.cancel_stop(old);
                group_rollout.count_without_room();
                continue;
            }
            group_rollout.count_replaced();
            match canary {
                true => desired.count_canary(old),
                false => replaced.push(one),
            }
        }
        replaced
    }

    /// Places what is missing; gives how many of each group should have been. Nodes that may not run a group are skipped
    /// without a failure, unless no node runs it.
    fn place_missing(
        &mut self,
        all: &mut SystemChanges<'a>,
        proposal: &mut ProposedAllocs<'a>,
    ) -> Vec<(&'a TaskGroup, u64)> {
        let (job, fleet) = (self.job, self.run.fleet);
        let slots: Vec<u32> = self.feasible().ready.iter().collect();
        let mut missing = Vec::new();
        for group in job.spec.groups.iter().filter(|g| g.count > 0) {
            let (mut placed, mut taken) = (0, 0);
            let indexes = || 0..group.count as u64;
            for (slot, index) in slots.iter().flat_map(|slot| indexes().map(move |i| (*slot, i))) {
                let key = (fleet.id_at(slot), group.name.as_str(), index);
                let (fill, previous) = match all.node_allocs.existing.contains(&key) {
                    true => (Fill::Nothing, None),
                    false => all.fill(key),
                };
                if fill == Fill::Nothing {
                    taken += 1;
                    continue;
                }
                let placement = self.placement_to_fill(group, index, fill, previous);
                placed += u64::from(self.place_on_node(slot, placement, proposal));
            }
            if let Some(group_rollout) = all.rollouts.get_mut(group.name.as_str()) {
                group_rollout.count_placed(placed);
            }
            let short = self.outcome.queued.get(&group.name).copied().unwrap_or_default();
            missing.push((group, placed + short));
            if placed + short + taken == 0 && !slots.is_empty() {
                let metric = self.search(group, None, proposal).filtered();
                self.outcome.filtered.insert(group.name.clone(), metric);
            }
        }
        missing
    }

    fn placement_to_fill(
        &self,
        group: &'a TaskGroup,
        index: u64,
        fill: Fill,
        previous: Option<&'a Allocation>,
    ) -> Placement<'a> {
        let like = previous.filter(|_| fill == Fill::PreviousVersion);
        let kept = like.map(|alloc| self.version_for(Replacement { group, alloc, keeps_version: true }));
        let (version, group) = kept.unwrap_or((None, group));
        let canary = fill == Fill::NewestVersion { canary: true };
        Placement { previous, version, canary, ..self.new_placement(group, index) }
    }

    fn new_placement(&self, group: &'a TaskGroup, index: u64) -> Placement<'a> {
        Placement::new(group, alloc_name(&self.job.spec.name, &group.name, index))
    }

    fn place_on_node(
        &mut self,
        slot: u32,
        placement: Placement<'a>,
        proposal: &mut ProposedAllocs<'a>,
    ) -> bool {
        let group = placement.group;
        match self.search(group, placement.version, proposal).check_node(proposal, slot) {
            NodeCheck::Fits(metric) => {
                let Some(resources) = self.assign_resources(slot, &placement, proposal) else { return false };
                self.add_to_plan((slot, resources, Vec::new()), placement, metric, proposal);
                true
            }
            NodeCheck::Filtered => false,
            NodeCheck::Exhausted(dimension) => {
                match self.place_on_node_preempting(slot, &placement, proposal) {
                    Some((place, metric)) => {
                        self.add_to_plan(place, placement, metric, proposal);
                        true
                    }
                    None => {
                        self.count_exhausted(group, slot, &dimension, proposal);
                        false
                    }
                }
            }
        }
    }

    /// Counts failed placements of one group in one metric.
    fn count_exhausted(
        &mut self,
        group: &'a TaskGroup,
        slot: u32,
        dimension: &str,
        proposal: &ProposedAllocs<'a>,
    ) {
        let known = self.outcome.failed.remove(&group.name);
        let search = self.search(group, None, proposal);
        let mut metric = match known {
            Some(metric) => AllocMetric { coalesced_failures: metric.coalesced_failures + 1, ..metric },
            None => search.filtered(),
        };
        search.count_short(&mut metric, slot, dimension);
        self.outcome.failed.insert(group.name.clone(), metric);
        *self.outcome.queued.entry(group.name.clone()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests;
