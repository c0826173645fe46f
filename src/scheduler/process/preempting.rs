//! Placing an allocation with all that it holds on its node, and preemption for one that finds no room. Refuses to know which allocations are
//! preempted: `preempt` chooses.

use super::super::preempt::{Preemption, PreemptionCandidates};
use super::super::proposal::ProposedAllocs;
use super::{Placement, Placer};
use model::alloc::AllocMetric;
use model::id::AllocId;
use model::job::TaskGroup;
use model::resources::AllocResources;
use std::collections::BTreeSet;

/// Where an allocation is placed, what it holds there, and what is preempted for it.
pub type PlacementTarget = (u32, AllocResources, Vec<AllocId>);

impl<'a> Placer<'a> {
    pub(super) fn add_to_plan(
        &mut self,
        (slot, resources, preempted): PlacementTarget,
        placement: Placement<'a>,
        metric: AllocMetric,
        proposal: &mut ProposedAllocs<'a>,
    ) {
        let group = placement.group;
        let mut alloc = self.allocation(placement, slot, resources, metric);
        alloc.preempted = preempted;
        proposal.place(slot, &group.name, alloc);
    }

    /// What an allocation holds on a node that has room for it.
    pub(super) fn assign_resources(
        &mut self,
        slot: u32,
        placement: &Placement<'a>,
        proposal: &ProposedAllocs<'a>,
    ) -> Option<AllocResources> {
        let group = placement.group;
        let mut picks = self.picks.clone();
        let found = self.search(group, placement.version, proposal).resources(proposal, slot, &mut picks);
        self.picks = picks;
        Some(self.allowed(group, found?))
    }

    /// The resources, with the memory that the task may take beyond its own.
    pub(super) fn allowed(&self, group: &TaskGroup, mut resources: AllocResources) -> AllocResources {
        let beyond = group.tasks.iter().any(|t| t.resources.memory_max_mb != 0);
        if beyond && self.run.view.scheduling(&self.job.spec.node_pool).memory_oversubscription {
            group.allow_memory(&mut resources);
        }
        resources
    }

    /// Places on the best node where preemption makes room. `metric`: of the search that found no room.
    pub(super) fn place_preempting(
        &mut self,
        placement: &Placement<'a>,
        tried: &BTreeSet<u32>,
        metric: &mut AllocMetric,
        proposal: &mut ProposedAllocs<'a>,
    ) -> Option<PlacementTarget> {
        let mut candidates = self.candidates(placement)?;
        let search = self.search(placement.group, None, proposal);
        let found = search.select_preempting(proposal, tried, &mut candidates, metric);
        let place = found.and_then(|(slot, preemption)| {
            self.apply_preemption(slot, preemption, placement, &mut candidates, proposal)
        });
        self.candidates = Some(candidates);
        place
    }

    /// Places with preemption, on one given node.
    pub(super) fn place_on_node_preempting(
        &mut self,
        slot: u32,
        placement: &Placement<'a>,
        proposal: &mut ProposedAllocs<'a>,
    ) -> Option<(PlacementTarget, AllocMetric)> {
        let mut candidates = self.candidates(placement)?;
        let found = self.search(placement.group, None, proposal).check_node_preempting(
            proposal,
            slot,
            &mut candidates,
        );
        let place = found.and_then(|(preemption, metric)| {
            Some((self.apply_preemption(slot, preemption, placement, &mut candidates, proposal)?, metric))
        });
        self.candidates = Some(candidates);
        place
    }

    /// None: preemption is off for this type of job, or the placement is not of the newest version.
    fn candidates(&mut self, placement: &Placement<'a>) -> Option<PreemptionCandidates<'a>> {
        let (run, spec) = (self.run, &self.job.spec);
        let preemption = run.view.scheduling(&spec.node_pool).preemption;
        if placement.version.is_some() || !preemption.allows(spec.job_type) {
            return None;
        }
        let new = || PreemptionCandidates::new(run.view, run.fleet, spec.priority, &run.eval.job);
        Some(self.candidates.take().unwrap_or_else(new))
    }

    /// Withdraws preemptions that later placements made needless.
    pub(super) fn withdraw_unneeded_preemptions(&mut self, proposal: &mut ProposedAllocs<'a>) {
        let Some(candidates) = &mut self.candidates else { return };
        let Some(group) = self.job.spec.groups.first() else { return };
        for (slot, preempted) in candidates.take_preempted() {
            let mut stay = Vec::new();
            for candidate in &preempted {
                if proposal.has_room(slot, &candidate.holding) {
                    proposal.free_for_preemption(slot, &group.name, &candidate.holding, true);
                    stay.push(candidate.id);
                }
            }
            if !stay.is_empty() {
                proposal.withdraw_preemption(slot, &stay);
            }
        }
    }

    fn apply_preemption(
        &mut self,
        slot: u32,
        preemption: Preemption,
        placement: &Placement<'a>,
        candidates: &mut PreemptionCandidates<'a>,
        proposal: &mut ProposedAllocs<'a>,
    ) -> Option<PlacementTarget> {
        let group = &placement.group.name;
        proposal.free_for_preemption(slot, group, &preemption.freed, false);
        let Some(resources) = self.assign_resources(slot, placement, proposal) else {
            proposal.free_for_preemption(slot, group, &preemption.freed, true);
            return None;
        };
        candidates.preempt(slot, &preemption.ids);
        Some((slot, resources, preemption.ids))
    }
}
