//! One group: the steps of scheduler.md 8.2, in its order, as small functions. Refuses to know the other groups.

use super::canary::Canaries;
use super::rollout::Rollout;
use super::surplus::{self, GroupAllocs};
use super::tainted::{self, Tainted};
use super::{
    AllocSet, Changes, MIGRATING, NameIndex, ReconcileInput, Replacement, Stop, UPDATED, Update,
    desired_count, is_of_version,
};
use super::{canary, disconnect, reschedule};
use model::alloc::{Allocation, ClientStatus, Leave};
use model::deployment::DeploymentGroup;
use model::id::AllocId;
use model::job::{Job, TaskGroup};
use model::time::Wall;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// How an allocation that stays follows the job.
pub type Classify<'c, 'a> = dyn FnMut(&'a Allocation) -> Update + 'c;

/// One group and what reconciling it changes.
pub struct GroupReconciler<'w, 'a> {
    pub input: &'w ReconcileInput<'a>,
    pub job: &'a Job,
    pub group: &'a TaskGroup,
    pub rollout: &'w mut Rollout<'a>,
    pub changes: &'w mut Changes<'a>,
}

/// The allocations of a group, by what happens to them.
#[derive(Default)]
struct GroupAllocSets<'a> {
    untainted: AllocSet<'a>,
    migrating: AllocSet<'a>,
    lost: AllocSet<'a>,
    /// To be placed again at once.
    now: AllocSet<'a>,
    /// To be placed again later; each is also in the set `untainted`.
    later: Vec<(Wall, &'a Allocation)>,
    /// Each is also in the set that says what becomes of it otherwise.
    disconnecting: AllocSet<'a>,
    reconnecting: AllocSet<'a>,
    canaries: Canaries<'a>,
    /// Stopped earlier and never replaced: they may be replaced while a deployment holds new placements back.
    unreplaced: Vec<&'a Allocation>,
}

/// What is to be placed beside what is updated.
#[derive(Default)]
struct Placements<'a> {
    lost: Vec<&'a Allocation>,
    rescheduled: Vec<&'a Allocation>,
    missing: u64,
}

impl Placements<'_> {
    fn total(&self) -> u64 {
        self.missing.saturating_add((self.lost.len() + self.rescheduled.len()) as u64)
    }
}

impl<'a> GroupReconciler<'_, 'a> {
    /// Whether nothing is left to be done for the group and its part of the deployment.
    pub fn compute(mut self, allocs: AllocSet<'a>, classify: &mut Classify<'_, 'a>) -> bool {
        let (mut state, existed) = self.rollout.state_of(self.group);
        let runs_already = allocs.values().any(|a| is_of_version(a, self.job));
        let held = self.stop_on_client_until(&allocs);
        let mut sets = self.partition(allocs);
        let mut names = name_index(self.group, &sets);
        self.changes.stops.extend(sets.lost.values().copied().map(tainted::stop_lost));
        self.stop_surplus(&state, &mut sets, &mut names);
        let (destructive, in_place) = compute_updates(&sets.untainted, classify);
        let there = sets.canaries.existing;
        let canaries = canary::required(self.group, self.rollout, &state, existed, destructive.len(), there);
        if let Some((all, more)) = canaries {
            state.desired_canaries = all;
            self.place_canaries(more, &sets, &destructive, &mut names);
        }
        let ready = self.rollout.may_place(&state);
        let placements = match held {
            None => placements(self.group, &sets, &names, ready),
            Some(_) => Placements::default(),
        };
        let placed = placements.total();
        if !existed {
            state.desired_total = placed.saturating_add((destructive.len() + in_place) as u64);
        }
        let moving = destructive.len() + sets.migrating.len();
        let limit = self.rollout.limit(self.group, &state, moving, [&sets.untainted, &sets.migrating]);
        self.place(placements, &sets.canaries, ready);
        let idle = placed == 0 && moving + in_place == 0 && sets.now.is_empty() && sets.later.is_empty();
        let only_count_changed = runs_already && destructive.is_empty() && in_place == 0;
        self.replace(destructive, limit.map(|l| l.saturating_sub(placed)), ready);
        self.migrate(&sets.migrating, ready);
        self.create_followups(held, sets);
        if !existed && !only_count_changed {
            self.rollout.create(self.input, self.job, self.group, state);
        }
        self.changes.names.insert(&self.group.name, names);
        idle && canaries.is_none() && self.rollout.group_is_done(self.group)
    }

    /// The time before which nothing may be placed, because disconnected nodes may still stop their allocations; and the allocation
    /// that decides it (scheduler.md 8.2.9).
    fn stop_on_client_until(&self, allocs: &AllocSet<'a>) -> Option<(Wall, &'a Allocation)> {
        let policy = self.group.disconnect.as_ref()?;
        let newly_lost = tainted::split(allocs.clone(), Some(self.group), self.input).lost;
        let lost = |a: &&&Allocation| {
            let known = a.client == ClientStatus::Lost && a.next.is_none();
            known || newly_lost.contains_key(&a.id)
        };
        let until = |a: &'a Allocation| {
            disconnect::stop_on_client_until(policy, self.group, a, self.input.now).map(|until| (until, a))
        };
        allocs.values().filter(lost).copied().filter_map(until).max_by_key(|(until, a)| (*until, a.id))
    }

    /// Sorts the allocations by what becomes of them (scheduler.md 8.2.3 to scheduler.md 8.2.8).
    fn partition(&mut self, allocs: AllocSet<'a>) -> GroupAllocSets<'a> {
        let (input, group) = (self.input, self.group);
        let mut allocs = if input.batch { drop_older_terminal(self.job, allocs) } else { allocs };
        let unreplaced = unreplaced(self.job, &allocs);
        let (canaries, canaries_later) =
            canary::partition(input, group, self.rollout, &mut allocs, self.changes);
        let Tainted { mut untainted, mut migrating, mut lost, disconnecting, mut reconnecting } =
            tainted::split(allocs.clone(), Some(group), input);
        for stop in disconnect::reconcile_reconnected(self.job, group, &reconnecting, &allocs) {
            for set in [&mut untainted, &mut migrating, &mut lost, &mut reconnecting] {
                set.remove(&stop.alloc.id);
            }
            self.changes.stops.extend((!stop.alloc.server_terminal()).then_some(stop));
        }
        self.changes.stops.extend(disconnect::replaced_before(&mut migrating));
        untainted.extend(disconnecting.iter().map(|(id, a)| (*id, *a)));
        let reschedule::Split { mut untainted, now, mut later } = reschedule::split(input, group, untainted);
        untainted.extend(reconnecting.iter().map(|(id, a)| (*id, *a)));
        later.extend(canaries_later);
        debug_assert!(
            are_disjoint([&untainted, &migrating, &lost, &now]),
            "one thing becomes of an allocation"
        );
        GroupAllocSets {
            untainted,
            migrating,
            lost,
            now,
            later,
            disconnecting,
            reconnecting,
            canaries,
            unreplaced,
        }
    }

    /// Stops the surplus (scheduler.md 8.2.12). Unpromoted canaries are not part of the count.
    fn stop_surplus(
        &mut self,
        state: &DeploymentGroup,
        sets: &mut GroupAllocSets<'a>,
        names: &mut NameIndex,
    ) {
        let promoted = if state.promoted { self.rollout.promoted(self.group) } else { &[] };
        let promoted = sets.untainted.iter().filter(|(id, _)| promoted.contains(id));
        let held = GroupAllocs {
            canaries: &promoted.map(|(id, a)| (*id, *a)).collect(),
            untainted: &mut sets.untainted,
            migrating: &mut sets.migrating,
            now: &mut sets.now,
        };
        self.changes.stops.extend(surplus::stop_surplus(desired_count(self.group), held, names));
    }

    /// Places `n` more canaries (scheduler.md 8.2.15).
    fn place_canaries(
        &mut self,
        n: u64,
        sets: &GroupAllocSets<'a>,
        destructive: &[&'a Allocation],
        names: &mut NameIndex,
    ) {
        if !self.rollout.may_place_canaries() {
            return;
        }
        let replaced: BTreeSet<u64> = destructive.iter().map(|a| a.index()).collect();
        self.changes.canaries.push((self.group, names.canaries(n, &sets.canaries.taken_indexes, &replaced)));
    }

    /// While a deployment holds new placements back, allocations of the version before are replaced in that version all the same; those
    /// that failed in the deployment are not (scheduler.md 8.8).
    fn place(&mut self, placements: Placements<'a>, canaries: &Canaries<'a>, ready: bool) {
        let group = self.group;
        let again = |alloc: &'a Allocation| Replacement { group, alloc, keeps_version: !ready };
        self.changes.replacements.extend(placements.lost.into_iter().map(again));
        let may = |a: &&Allocation| !self.rollout.is_of_paused_or_failed(a);
        let rescheduled = placements.rescheduled.into_iter().chain(canaries.rescheduled.iter().copied());
        self.changes.rescheduled.extend(rescheduled.filter(may).map(again));
        if ready && placements.missing > 0 {
            self.changes.missing.push((group, placements.missing));
        }
    }

    /// Replaces allocations in the order of their names, as many as may be (scheduler.md 8.2.19).
    fn replace(&mut self, destructive: Vec<&'a Allocation>, limit: Option<u64>, ready: bool) {
        let most =
            if ready { limit.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX)) } else { 0 };
        let group = self.group;
        let again = |alloc| Replacement { group, alloc, keeps_version: false };
        self.changes.destructive.extend(destructive.into_iter().take(most).map(again));
    }

    /// The drainer limits how many move at a time and decides whether they wait for room (scheduler.md 8.2.20).
    fn migrate(&mut self, migrating: &AllocSet<'a>, ready: bool) {
        for alloc in migrating.values() {
            let again = Replacement { group: self.group, alloc, keeps_version: !ready };
            if alloc.transition.migrate == Some(Leave::WhenPlaced) {
                self.changes.migrating_when_placed.push(again);
            } else {
                self.changes.stops.push(Stop { alloc, description: MIGRATING, client: None });
                self.changes.replacements.push(again);
            }
        }
    }

    /// What is to be looked at again, and when (scheduler.md 8.2.8 to scheduler.md 8.2.10), but for what has been replaced or stopped by
    /// now.
    fn create_followups(&mut self, held: Option<(Wall, &'a Allocation)>, mut sets: GroupAllocSets<'a>) {
        let mut gone: BTreeSet<AllocId> = self.changes.stops.iter().map(|s| s.alloc.id).collect();
        // one that is to be replaced goes on until its replacement has a place, which there may never be
        sets.disconnecting.retain(|id, _| !gone.contains(id));
        gone.extend(self.changes.destructive.iter().map(|r| r.alloc.id));
        sets.later.retain(|(_, a)| !gone.contains(&a.id));
        sets.reconnecting.retain(|id, a| !gone.contains(id) && a.is_known_to_live());
        let mut followups = reschedule::batch_by_time(sets.later);
        let lost_after = self.group.disconnect.and_then(|d| d.lost_after);
        let expiry = lost_after.map(|span| self.input.now + span);
        let timeout =
            expiry.and_then(|at| reschedule::disconnect_timeout(&sets.disconnecting, &followups, at));
        followups.extend(timeout);
        followups.extend(held.and_then(|(at, alloc)| self.stop_on_client_followup(at, alloc)));
        self.changes.followups.extend(followups);
        self.changes.disconnected.extend(sets.disconnecting.into_values());
        self.changes.reconnected.extend(sets.reconnecting.into_values());
    }

    /// The follow-up evaluation at the end of `stop_on_client_after`: until then the group is neither placed nor blocked, so nothing else
    /// would evaluate it again. Each evaluation creates one, unless the lost allocation waits for one already. An allocation that is lost
    /// only now is stopped by this plan, and cannot be amended by it, too.
    fn stop_on_client_followup(&self, at: Wall, alloc: &'a Allocation) -> Option<reschedule::Followup<'a>> {
        if alloc.client != ClientStatus::Lost {
            return Some(reschedule::wait(at, Vec::new()));
        }
        let comes = |eval| eval != self.input.eval.id && (self.input.is_pending)(eval);
        let waits = alloc.followup_eval.is_some_and(comes);
        (!waits).then(|| reschedule::wait(at, vec![alloc]))
    }
}

fn are_disjoint(sets: [&AllocSet; 4]) -> bool {
    let all: BTreeSet<&AllocId> = sets.iter().flat_map(|set| set.keys()).collect();
    all.len() == sets.iter().map(|set| set.len()).sum::<usize>()
}

/// A batch allocation that ended under an older version says nothing about this one (scheduler.md 8.2.3).
fn drop_older_terminal<'a>(job: &Job, mut allocs: AllocSet<'a>) -> AllocSet<'a> {
    let older = |a: &Allocation| a.job_version < job.version || a.job_create_index < job.create_index;
    allocs.retain(|_, a| !(a.terminal() && older(a)));
    allocs
}

/// Which names are taken (scheduler.md 8.2.11).
fn name_index(group: &TaskGroup, sets: &GroupAllocSets) -> NameIndex {
    let all = [&sets.untainted, &sets.migrating, &sets.now, &sets.lost];
    // the name of an unknown allocation that was replaced belongs to its replacement, on whatever node that is
    let has_a_name = |a: &&&Allocation| a.client != ClientStatus::Unknown || a.next.is_none();
    let named = all.into_iter().flat_map(|s| s.values()).filter(has_a_name);
    NameIndex::new(desired_count(group), named.map(|a| a.index()))
}

/// The allocations that have to be replaced, in the order of their names; and how many were updated in place
/// (scheduler.md 8.2.13).
fn compute_updates<'a>(
    untainted: &AllocSet<'a>,
    classify: &mut Classify<'_, 'a>,
) -> (Vec<&'a Allocation>, usize) {
    let (mut destructive, mut in_place) = (Vec::new(), 0);
    for alloc in untainted.values().copied() {
        match classify(alloc) {
            Update::Ignore => {}
            Update::InPlace => in_place += 1,
            Update::Destructive => destructive.push(alloc),
        }
    }
    destructive.sort_by_key(|a| (a.index(), a.id));
    (destructive, in_place)
}

/// What is placed (scheduler.md 8.7): what is due anyway; one for each lost allocation while some are missing; what is
/// missing then gets new names, or, while nothing new may be placed, is what was stopped before and found no room.
fn placements<'a>(
    group: &TaskGroup,
    sets: &GroupAllocSets<'a>,
    names: &NameIndex,
    ready: bool,
) -> Placements<'a> {
    let existing = (sets.untainted.len() + sets.migrating.len() + sets.now.len()) as u64;
    let missing = desired_count(group).saturating_sub(existing);
    let mut lost: Vec<_> = sets.lost.values().copied().collect();
    if !ready {
        lost.extend(sets.unreplaced.iter().copied().filter(|a| !names.is_taken(a.index())));
    }
    lost.truncate(usize::try_from(missing).unwrap_or(usize::MAX));
    let missing = missing - lost.len() as u64;
    Placements { rescheduled: sets.now.values().copied().collect(), lost, missing }
}

/// Allocations that were stopped for a successor that found no room: one for each name, none of an older version than what is left
/// of the group.
fn unreplaced<'a>(job: &Job, allocs: &AllocSet<'a>) -> Vec<&'a Allocation> {
    let own = |a: &&Allocation| a.job_create_index == job.create_index && !a.is_canary();
    let ended = |a: &&Allocation| a.server_terminal() && a.next.is_none();
    let for_another =
        |a: &&Allocation| [tainted::LOST, MIGRATING, UPDATED].contains(&a.desired_description.as_str());
    let left = allocs.values().copied().filter(own).filter(|a| !a.server_terminal());
    let candidates = allocs.values().copied().filter(own).filter(ended).filter(for_another);
    let oldest = left.map(|a| a.job_version).min();
    let newest = candidates.clone().map(|a| a.job_version).max();
    let since = oldest.or(newest).unwrap_or(0);
    let mut out: Vec<_> = candidates.filter(|a| a.job_version >= since).collect();
    out.sort_by_key(|a| (a.index(), Reverse((a.job_version, a.alloc_modify_index)), a.id));
    out.dedup_by_key(|a| a.index());
    out
}
