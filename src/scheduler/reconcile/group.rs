//! One group: the steps of reference scheduler 8.2, in its order, as small functions. Refuses to know the other groups.

use super::taint::{self, Tainted};
use super::{Changes, Input, NameIndex, Replacement, Set, Stop, Update};
use crate::model::alloc::{Allocation, ClientStatus, DesiredStatus};
use crate::model::job::{Job, TaskGroup};
use std::cmp::Reverse;
use std::collections::BTreeSet;

pub const NOT_NEEDED: &str = "alloc not needed due to job update";
pub const UPDATED: &str = "alloc is being updated due to job update";

pub fn compute<'a>(
    input: &Input<'a>,
    job: &'a Job,
    group: &'a TaskGroup,
    allocs: Set<'a>,
    classify: &mut dyn FnMut(&'a Allocation) -> Update,
    changes: &mut Changes<'a>,
) {
    let count = wanted(group);
    let current = if input.batch { drop_older_terminal(job, allocs) } else { allocs };
    let Tainted { untainted, lost } = taint::split(current, input.tainted);
    let mut untainted = still_counted(input.batch, untainted);
    let mut names = NameIndex::new(count, untainted.values().chain(lost.values()).map(|a| a.index()));
    changes.stops.extend(lost.values().copied().map(taint::stop_lost));
    changes.stops.extend(stop_surplus(count, &mut untainted, &mut names));
    let kept = untainted.len() as u64;
    update(group, untainted, classify, changes);
    place(group, kept, lost, changes);
    changes.names.insert(&group.name, names);
}

/// Step c: a batch allocation that ended under an older version says nothing about this one.
fn drop_older_terminal<'a>(job: &Job, mut allocs: Set<'a>) -> Set<'a> {
    let older = |a: &Allocation| a.job_version < job.version || a.job_create_index < job.create_index;
    allocs.retain(|_, a| !(a.terminal() && older(a)));
    allocs
}

/// Step f: what still counts as one of the group's (reference: scheduler 9, `shouldFilter`). A failed allocation does.
fn still_counted(batch: bool, mut untainted: Set) -> Set {
    untainted.retain(|_, a| {
        let replaced = a.next.is_some() && a.terminal();
        !replaced && if batch { batch_counts(a) } else { service_counts(a) }
    });
    untainted
}

/// Work that was done stays done, even if it was told to stop afterwards. What was told to stop before it was done, on a
/// node that was away, ends without a failure too, and has to be done again.
fn batch_counts(alloc: &Allocation) -> bool {
    match alloc.desired {
        DesiredStatus::Run => true,
        DesiredStatus::Stop => alloc.ran_successfully() && !alloc.was_cut_short(),
        DesiredStatus::Evict => false,
    }
}

/// A service that ended is not running, however well it ended.
fn service_counts(alloc: &Allocation) -> bool {
    let ended = matches!(alloc.client, ClientStatus::Complete | ClientStatus::Lost);
    alloc.desired == DesiredStatus::Run && !ended
}

pub fn not_needed(alloc: &Allocation) -> Stop<'_> {
    Stop { alloc, description: NOT_NEEDED, client: None }
}

/// Step l (reference: scheduler 8.5): takes out of `untainted` what is more than the count. First what has failed, so that
/// nothing that runs is stopped for it; then those with the highest names; then any others, highest name first. Work
/// that was done stays.
fn stop_surplus<'a>(count: u64, untainted: &mut Set<'a>, names: &mut NameIndex) -> Vec<Stop<'a>> {
    let known = untainted.values().filter(|a| a.client != ClientStatus::Unknown).count() as u64;
    let surplus = known.saturating_sub(count);
    if surplus == 0 {
        return Vec::new();
    }
    let not_done = untainted.values().copied().filter(|a| a.client != ClientStatus::Complete);
    let (mut ended, mut live): (Vec<&Allocation>, Vec<_>) = not_done.partition(|a| a.terminal());
    ended.sort_by_key(|a| (Reverse(a.index()), a.id));
    ended.truncate(usize::try_from(surplus).unwrap_or(usize::MAX));
    ended.iter().for_each(|a| names.let_go(a.index()));
    let surplus = surplus - ended.len() as u64;
    let highest: BTreeSet<u64> = names.highest(surplus).into_iter().collect();
    live.sort_by_key(|a| (!highest.contains(&a.index()), Reverse(a.index()), a.id));
    live.truncate(usize::try_from(surplus).unwrap_or(usize::MAX));
    let stopped: Vec<&Allocation> = ended.into_iter().chain(live).collect();
    for alloc in &stopped {
        untainted.remove(&alloc.id);
    }
    stopped.into_iter().map(not_needed).collect()
}

/// Steps m and s: how those that stay follow the job; destructive ones in the order of their names.
fn update<'a>(
    group: &'a TaskGroup,
    untainted: Set<'a>,
    classify: &mut dyn FnMut(&'a Allocation) -> Update,
    changes: &mut Changes<'a>,
) {
    let mut destructive = Vec::new();
    for alloc in untainted.into_values() {
        match classify(alloc) {
            Update::Ignore | Update::InPlace => {}
            Update::Destructive => destructive.push(alloc),
        }
    }
    destructive.sort_by_key(|a| (a.index(), a.id));
    changes.destructive.extend(destructive.into_iter().map(|alloc| Replacement { group, alloc }));
}

/// Step q (reference: scheduler 8.7): one for each lost allocation while some are missing; what is missing then gets new
/// names.
fn place<'a>(group: &'a TaskGroup, existing: u64, lost: Set<'a>, changes: &mut Changes<'a>) {
    let missing = wanted(group).saturating_sub(existing);
    let again = lost.into_values().take(usize::try_from(missing).unwrap_or(usize::MAX));
    let before = changes.replacements.len();
    changes.replacements.extend(again.map(|alloc| Replacement { group, alloc }));
    let replaced = (changes.replacements.len() - before) as u64;
    if missing > replaced {
        changes.missing.push((group, missing - replaced));
    }
}

/// A count below zero wants nothing.
fn wanted(group: &TaskGroup) -> u64 {
    u64::try_from(group.count).unwrap_or(0)
}
