//! Canaries: the few allocations of a new version that run beside the old ones until they are promoted
//! (scheduler.md 8.2.4, scheduler.md 8.2.15). Refuses to know who promotes them.

use super::rollout::Rollout;
use super::tainted::{self, Tainted};
use super::{AllocSet, Changes, MIGRATING, ReconcileInput, Stop, reschedule, stop_not_needed};
use model::alloc::Allocation;
use model::deployment::DeploymentGroup;
use model::job::TaskGroup;
use model::time::Wall;
use std::collections::BTreeSet;

/// A group's canaries, separate from its other allocations: they are not part of its count.
#[derive(Default)]
pub struct Canaries<'a> {
    /// Unpromoted canaries, the failed ones included: each counts as one of those that are wanted.
    pub existing: u64,
    /// The indexes of their names.
    pub taken_indexes: BTreeSet<u64>,
    /// Failed canaries that are to be placed again.
    pub rescheduled: Vec<&'a Allocation>,
}

/// Stops the canaries that no deployment wants any more and those that have to leave their nodes; all of them, and
/// those on trial, are taken out of `allocs` (scheduler.md 8.2.4).
pub fn partition<'a>(
    input: &ReconcileInput<'a>,
    group: &TaskGroup,
    rollout: &Rollout<'a>,
    allocs: &mut AllocSet<'a>,
    changes: &mut Changes<'a>,
) -> (Canaries<'a>, Vec<(Wall, &'a Allocation)>) {
    let ordinary = |a: &Allocation| !a.is_canary() || rollout.promoted(group).contains(&a.id);
    let (others, canaries): (AllocSet, AllocSet) =
        std::mem::take(allocs).into_iter().partition(|(_, a)| ordinary(a));
    *allocs = others;
    let (on_trial, unneeded): (AllocSet, AllocSet) =
        canaries.into_iter().partition(|(_, a)| rollout.is_unpromoted_canary(a));
    let unneeded = unneeded.into_iter().filter(|(_, a)| !a.server_terminal()).collect();
    let Tainted { untainted, migrating, lost, .. } = tainted::split(unneeded, None, input);
    changes.stops.extend(untainted.into_values().chain(migrating.into_values()).map(stop_not_needed));
    changes.stops.extend(lost.into_values().map(tainted::stop_lost));
    let on_trial = on_trial.into_iter().filter(|(_, a)| !a.server_terminal() && a.next.is_none()).collect();
    let Tainted { untainted, migrating, lost, .. } = tainted::split(on_trial, None, input);
    let leave = |alloc| Stop { alloc, description: MIGRATING, client: None };
    changes.stops.extend(migrating.into_values().map(leave));
    changes.stops.extend(lost.into_values().map(tainted::stop_lost));
    let reschedule::Split { untainted, now, later } = reschedule::split(input, group, untainted);
    let there = (untainted.len() + now.len()) as u64;
    let taken = untainted.values().chain(now.values()).map(|a| a.index()).collect();
    (Canaries { existing: there, taken_indexes: taken, rescheduled: now.into_values().collect() }, later)
}

/// How many canaries a change needs (scheduler.md 8.2.15), and how many beyond those there are; None: there are
/// enough. A deployment that began without any gets none. One that waits for its canaries' promotion gets them even when
/// nothing old is left.
pub fn required(
    group: &TaskGroup,
    rollout: &Rollout,
    state: &DeploymentGroup,
    existed: bool,
    destructive: usize,
    there: u64,
) -> Option<(u64, u64)> {
    let all = u64::try_from(rollout.policy(group)?.canary).unwrap_or(0);
    let none_ever = existed && state.desired_canaries == 0;
    let needed = destructive > 0 || state.awaits_promotion();
    (needed && there < all && !state.promoted && !none_ever).then(|| (all, all - there))
}
