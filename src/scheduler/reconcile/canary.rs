//! Canaries: the few allocations of a new version that run beside the old ones until somebody says that they are good
//! (reference: scheduler 8.2 d, o). Refuses to know who says so.

use super::rollout::Rollout;
use super::taint::{self, Tainted};
use super::{Changes, Input, Set, Stop, group};
use crate::model::deployment::DeploymentGroup;
use crate::model::job::TaskGroup;

/// Step d: stops the canaries that no deployment wants any more and those that have to leave their nodes; all of them are
/// taken out of `allocs`. The others come back.
pub fn sort_out<'a>(
    input: &Input<'a>,
    group: &TaskGroup,
    rollout: &Rollout<'a>,
    allocs: &mut Set<'a>,
    changes: &mut Changes<'a>,
) -> Set<'a> {
    let unneeded = take(allocs, rollout.unneeded_canaries(group));
    let Tainted { untainted, migrating, lost, .. } = taint::split(live(unneeded), Some(group), input);
    changes.stops.extend(untainted.into_values().chain(migrating.into_values()).map(group::not_needed));
    changes.stops.extend(lost.into_values().map(taint::stop_lost));
    let current = allocs.iter().filter(|(id, _)| rollout.canaries(group).contains(id));
    let current = current.map(|(id, a)| (*id, *a)).collect();
    let Tainted { untainted, migrating, lost, .. } = taint::split(current, Some(group), input);
    allocs.retain(|id, _| !migrating.contains_key(id) && !lost.contains_key(id));
    let leave = |alloc| Stop { alloc, description: group::MIGRATING, client: None };
    changes.stops.extend(migrating.into_values().map(leave));
    changes.stops.extend(lost.into_values().map(taint::stop_lost));
    live(untainted)
}

fn take<'a>(allocs: &mut Set<'a>, ids: Vec<crate::model::id::AllocId>) -> Set<'a> {
    ids.into_iter().filter_map(|id| allocs.remove_entry(&id)).collect()
}

fn live(mut allocs: Set) -> Set {
    allocs.retain(|_, a| !a.terminal());
    allocs
}

/// Step o: how many canaries a change needs, and how many beyond those there are; None: there are enough.
pub fn wanted(
    group: &TaskGroup,
    rollout: &Rollout,
    state: &DeploymentGroup,
    destructive: usize,
    canaries: usize,
) -> Option<(u64, u64)> {
    let all = u64::try_from(rollout.policy(group)?.canary).unwrap_or(0);
    let there = canaries as u64;
    (destructive > 0 && there < all && !state.promoted).then(|| (all, all - there))
}
