//! What an allocation holds where it is placed; and where others make way for one that finds no room. Refuses to know who: `preempt`
//! chooses.

use super::super::preempt::{Others, Way};
use super::super::proposal::Proposal;
use super::{Placement, Placer};
use model::alloc::AllocMetric;
use model::id::AllocId;
use model::job::TaskGroup;
use model::resources::AllocResources;
use std::collections::BTreeSet;

/// Where something is placed, what it holds there, and who makes way for it.
pub type Place = (u32, AllocResources, Vec<AllocId>);

impl<'a> Placer<'a> {
    pub(super) fn put(
        &mut self,
        (slot, resources, preempted): Place,
        placement: Placement<'a>,
        metric: AllocMetric,
        proposal: &mut Proposal<'a>,
    ) {
        let group = placement.group;
        let mut alloc = self.allocation(placement, slot, resources, metric);
        alloc.preempted = preempted;
        proposal.place(slot, &group.name, alloc);
    }

    /// What an allocation holds on a node that has room for it.
    pub(super) fn held_on(
        &mut self,
        slot: u32,
        placement: &Placement<'a>,
        proposal: &Proposal<'a>,
    ) -> Option<AllocResources> {
        let group = placement.group;
        let mut picks = self.picks.clone();
        let found = self.search(group, placement.version, proposal).resources(proposal, slot, &mut picks);
        self.picks = picks;
        Some(self.allowed(group, found?))
    }

    /// With the memory that it may take beyond what is its own.
    pub(super) fn allowed(&self, group: &TaskGroup, mut resources: AllocResources) -> AllocResources {
        let beyond = group.tasks.iter().any(|t| t.asks.memory_max_mb != 0);
        if beyond && self.run.view.scheduling(&self.job.spec.node_pool).memory_oversubscription {
            resources.allow_memory(group);
        }
        resources
    }

    /// On the best node where others can make way. `metric`: of the search that found no room.
    pub(super) fn place_over(
        &mut self,
        placement: &Placement<'a>,
        tried: &BTreeSet<u32>,
        metric: &mut AllocMetric,
        proposal: &mut Proposal<'a>,
    ) -> Option<Place> {
        let mut others = self.others(placement)?;
        let search = self.search(placement.group, None, proposal);
        let found = search.select_over(proposal, tried, &mut others, metric);
        let place = found.and_then(|(slot, way)| self.take_way(slot, way, placement, &mut others, proposal));
        self.others = Some(others);
        place
    }

    /// The same, on one given node.
    pub(super) fn seat_over(
        &mut self,
        slot: u32,
        placement: &Placement<'a>,
        proposal: &mut Proposal<'a>,
    ) -> Option<(Place, AllocMetric)> {
        let mut others = self.others(placement)?;
        let found = self.search(placement.group, None, proposal).look_over(proposal, slot, &mut others);
        let place = found.and_then(|(way, metric)| {
            Some((self.take_way(slot, way, placement, &mut others, proposal)?, metric))
        });
        self.others = Some(others);
        place
    }

    /// None: nobody makes way for such jobs, or for what is not of the newest version.
    fn others(&mut self, placement: &Placement<'a>) -> Option<Others<'a>> {
        let (run, spec) = (self.run, &self.job.spec);
        let preemption = run.view.scheduling(&spec.node_pool).preemption;
        if placement.version.is_some() || !preemption.allows(spec.job_type) {
            return None;
        }
        let new = || Others::new(run.view, run.fleet, spec.priority, &run.eval.job);
        Some(self.others.take().unwrap_or_else(new))
    }

    /// What made way and turned out to be needless, because of what came after it, stays.
    pub(super) fn spare(&mut self, proposal: &mut Proposal<'a>) {
        let Some(others) = &mut self.others else { return };
        let Some(group) = self.job.spec.groups.first() else { return };
        for (slot, sent) in others.take_sent() {
            let mut stay = Vec::new();
            for candidate in &sent {
                if proposal.has_room(slot, &candidate.holding) {
                    proposal.make_way(slot, &group.name, &candidate.holding, true);
                    stay.push(candidate.id);
                }
            }
            if !stay.is_empty() {
                proposal.let_stay(slot, &stay);
            }
        }
    }

    fn take_way(
        &mut self,
        slot: u32,
        way: Way,
        placement: &Placement<'a>,
        others: &mut Others<'a>,
        proposal: &mut Proposal<'a>,
    ) -> Option<Place> {
        let group = &placement.group.name;
        proposal.make_way(slot, group, &way.freed, false);
        let Some(resources) = self.held_on(slot, placement, proposal) else {
            proposal.make_way(slot, group, &way.freed, true);
            return None;
        };
        others.leave(slot, &way.ids);
        Some((slot, resources, way.ids))
    }
}
