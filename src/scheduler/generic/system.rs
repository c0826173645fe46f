//! Jobs that run on every node (reference: scheduler 12): each ready node that may run a group gets its allocations, and
//! changes reach `max_parallel` nodes in each `stagger`.
//!
//! Refuses to know what the job should have where something is already: `reconcile::everywhere` says it.

use super::super::proposal::Proposal;
use super::super::reconcile::{Followup, Input, Replacement, Seats, UPDATED, Update, everywhere};
use super::super::search::Look;
use super::desired::Desired;
use super::{Outcome, Placement, Placer, again, apply_stops};
use crate::model::alloc::{AllocMetric, Allocation, alloc_name};
use crate::model::eval::Trigger;
use crate::model::job::{Job, TaskGroup};
use crate::model::time::Wall;
use crate::model::tree::BTreeMap;

const ROLLING: &str = "created for the next nodes of a rolling update";

/// How many of a group may be replaced by one run.
struct Budget {
    /// None: all.
    left: Option<u64>,
    /// When there will be more.
    next: Wall,
    used_up: bool,
}

impl Budget {
    /// What was replaced within the last `stagger` counts, whichever evaluation did it.
    fn new(group: &TaskGroup, job: &Job, allocs: &[Allocation], now: Wall) -> Budget {
        let Some(policy) = group.update.filter(|u| u.max_parallel > 0) else {
            return Budget { left: None, next: now, used_up: false };
        };
        let of_this = |a: &&Allocation| {
            a.group == group.name
                && (a.job_create_index, a.job_modify_index) == (job.create_index, job.job_modify_index)
        };
        let replaced = allocs.iter().filter(of_this).filter(|a| a.previous.is_some());
        let recent = || replaced.clone().map(|a| a.create_time + policy.stagger).filter(|at| *at > now);
        let left = (policy.max_parallel as u64).saturating_sub(recent().count() as u64);
        let next = recent().min().unwrap_or(now + policy.stagger);
        Budget { left: Some(left), next, used_up: false }
    }
}

impl<'a> Placer<'a> {
    pub(super) fn everywhere(mut self, input: &Input<'a>, proposal: &mut Proposal<'a>) -> Outcome {
        let mut desired = Desired::default();
        let (mut changes, seats) = everywhere(input, self.job, &mut |alloc, group| {
            let update = self.stays(alloc, group, proposal)?;
            desired.follows(alloc, update);
            Some(update)
        });
        apply_stops(&changes, proposal);
        let outdated = std::mem::take(&mut changes.destructive);
        let (replaced, later) = self.replace_some(outdated, input, proposal);
        changes.destructive = replaced;
        changes.followups.extend(later);
        changes.missing = self.fill_seats(&seats, proposal);
        self.outcome.desired = desired.counted(&changes);
        self.spare(proposal);
        again::amend(&changes.disconnected, &changes.reconnected, self.run.now, proposal);
        self.outcome.followups = again::look(self.run, changes.followups, proposal);
        if !self.outcome.failed.is_empty() {
            self.outcome.eligibility = self.eligibility();
        }
        self.outcome
    }

    /// How an allocation follows the job; None: it must not stay. On a node that takes nothing new, nothing changes.
    fn stays(
        &mut self,
        alloc: &'a Allocation,
        group: &'a TaskGroup,
        proposal: &mut Proposal<'a>,
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

    /// Replaces as many as may be now, where the new one fits; gives those, and when to go on.
    fn replace_some(
        &mut self,
        outdated: Vec<Replacement<'a>>,
        input: &Input<'a>,
        proposal: &mut Proposal<'a>,
    ) -> (Vec<Replacement<'a>>, Option<Followup<'a>>) {
        let mut budgets: BTreeMap<&str, Budget> = BTreeMap::new();
        let mut replaced = Vec::new();
        for one in outdated {
            let (group, old) = (one.group, one.alloc);
            let new = || Budget::new(group, self.job, input.allocs, self.run.now);
            let budget = budgets.entry(&group.name).or_insert_with(new);
            if budget.left == Some(0) {
                budget.used_up = true;
                continue;
            }
            let Some(slot) = self.run.fleet.slot(old.node_id) else { continue };
            proposal.stop(old, UPDATED, None);
            let placement = Placement { previous: Some(old), ..self.seat_of(group, old.index()) };
            if self.seat(slot, placement, proposal) {
                budget.left = budget.left.map(|left| left - 1);
                replaced.push(one);
            } else {
                proposal.unstop(old);
            }
        }
        let next = budgets.values().filter(|b| b.used_up).map(|b| b.next).min();
        let (trigger, allocs) = (Trigger::RollingUpdate, Vec::new());
        (replaced, next.map(|at| Followup { at, trigger, description: ROLLING, allocs }))
    }

    /// Places what is missing; gives how many of each group should have been. Nodes that may not run a group are passed over
    /// in silence, unless nothing of the group is anywhere.
    fn fill_seats(&mut self, seats: &Seats<'a>, proposal: &mut Proposal<'a>) -> Vec<(&'a TaskGroup, u64)> {
        let (job, fleet) = (self.job, self.run.fleet);
        let slots: Vec<u32> = self.feasible().ready.iter().collect();
        let mut missing = Vec::new();
        for group in job.spec.groups.iter().filter(|g| g.count > 0) {
            let (mut placed, mut taken) = (0, 0);
            let indexes = || 0..group.count as u64;
            for (slot, index) in slots.iter().flat_map(|slot| indexes().map(move |i| (*slot, i))) {
                let seat = (fleet.id_at(slot), group.name.as_str(), index);
                if seats.taken.contains(&seat) {
                    taken += 1;
                    continue;
                }
                let previous = seats.left.get(&seat).copied();
                let placement = Placement { previous, ..self.seat_of(group, index) };
                placed += u64::from(self.seat(slot, placement, proposal));
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

    fn seat_of(&self, group: &'a TaskGroup, index: u64) -> Placement<'a> {
        Placement::new(group, alloc_name(&self.job.spec.name, &group.name, index))
    }

    fn seat(&mut self, slot: u32, placement: Placement<'a>, proposal: &mut Proposal<'a>) -> bool {
        let group = placement.group;
        match self.search(group, None, proposal).look_at(proposal, slot) {
            Look::Fits(metric) => {
                let Some(resources) = self.held_on(slot, &placement, proposal) else { return false };
                self.put((slot, resources, Vec::new()), placement, metric, proposal);
                true
            }
            Look::Filtered => false,
            Look::Short(dimension) => match self.seat_over(slot, &placement, proposal) {
                Some((place, metric)) => {
                    self.put(place, placement, metric, proposal);
                    true
                }
                None => {
                    self.note_short(group, slot, &dimension, proposal);
                    false
                }
            },
        }
    }

    /// All that failed of one group is told as one.
    fn note_short(&mut self, group: &'a TaskGroup, slot: u32, dimension: &str, proposal: &Proposal<'a>) {
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
