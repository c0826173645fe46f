//! Which allocations stop when there are more than the group's count (scheduler.md 8.5). Refuses to know why there are more.

use super::{AllocSet, NameIndex, Stop, stop_not_needed};
use model::alloc::{Allocation, ClientStatus};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The allocations of a group that may be surplus.
pub struct GroupAllocs<'s, 'a> {
    pub untainted: &'s mut AllocSet<'a>,
    pub migrating: &'s mut AllocSet<'a>,
    /// Failed, to be placed again.
    pub now: &'s mut AllocSet<'a>,
    /// Promoted canaries: empty until they are promoted.
    pub canaries: &'s AllocSet<'a>,
}

/// Stops what exceeds the count. First allocations whose name another one has: those that a promoted canary replaces, then those of which a
/// newer version runs. If failed ones were stopped before them, the count would be right, but two allocations would keep one name. Then
/// failed ones, so that no running one is stopped in their place; then those that have to leave their nodes anyway; then those with the
/// highest names, and any others. Completed and unknown allocations stay.
pub fn stop_surplus<'a>(count: u64, held: GroupAllocs<'_, 'a>, names: &mut NameIndex) -> Vec<Stop<'a>> {
    let GroupAllocs { untainted, migrating, now, canaries } = held;
    let known = untainted.values().filter(|a| a.client != ClientStatus::Unknown).count();
    let mut surplus = ((known + migrating.len() + now.len()) as u64).saturating_sub(count);
    if surplus == 0 {
        return Vec::new();
    }
    let not_done = |a: &&Allocation| !matches!(a.client, ClientStatus::Complete | ClientStatus::Unknown);
    let all = untainted.values().chain(now.values()).copied().filter(not_done);
    let (ended, live): (Vec<_>, Vec<_>) = all.partition(|a| a.terminal());
    let on_trial_names: BTreeSet<u64> = canaries.values().map(|a| a.index()).collect();
    let succeeded = |a: &&Allocation| on_trial_names.contains(&a.index()) && !canaries.contains_key(&a.id);
    let (replaced, live): (Vec<_>, Vec<_>) = live.into_iter().partition(succeeded);
    let (doubled, live) = split_duplicate_names(live);
    let mut stopped = Vec::new();
    for candidates in [replaced, doubled, ended, migrating.values().copied().collect()] {
        let taken = highest_first(candidates, &mut surplus);
        taken.iter().for_each(|a| names.release(a.index()));
        stopped.extend(taken);
    }
    let highest: BTreeSet<u64> = names.highest(surplus).into_iter().collect();
    let (named, others): (Vec<_>, Vec<_>) = live.into_iter().partition(|a| highest.contains(&a.index()));
    for candidates in [named, others] {
        stopped.extend(highest_first(candidates, &mut surplus));
    }
    debug_assert_eq!(
        stopped.iter().map(|a| a.id).collect::<BTreeSet<_>>().len(),
        stopped.len(),
        "a surplus allocation is stopped once"
    );
    for alloc in &stopped {
        untainted.remove(&alloc.id);
        migrating.remove(&alloc.id);
        now.remove(&alloc.id);
    }
    stopped.into_iter().map(stop_not_needed).collect()
}

/// Splits off allocations whose name another one of a newer version has, too.
fn split_duplicate_names(mut live: Vec<&Allocation>) -> (Vec<&Allocation>, Vec<&Allocation>) {
    live.sort_by_key(|a| (Reverse((a.job_create_index, a.job_version)), a.id));
    let mut names = BTreeSet::new();
    live.into_iter().partition(|a| !names.insert(a.index()))
}

/// Takes at most `surplus` allocations, highest index first, and lowers `surplus` by them.
fn highest_first<'a>(mut from: Vec<&'a Allocation>, surplus: &mut u64) -> Vec<&'a Allocation> {
    from.sort_by_key(|a| (Reverse(a.index()), a.id));
    from.truncate(usize::try_from(*surplus).unwrap_or(usize::MAX));
    *surplus -= from.len() as u64;
    from
}
