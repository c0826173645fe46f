//! What a job that runs on every node should have against what it has (reference: scheduler 12). Each node is looked at by
//! itself: what a node loses is never placed on another one, and what has failed is not placed again for that alone.
//!
//! Refuses to know: which nodes could run the job. `follow` says it of those that hold something of it.

use super::group::{MIGRATING, not_needed};
use super::taint::{self, Tainted};
use super::{Changes, Input, Replacement, Set, Stop, Update, by_group, reschedule, stop_all};
use crate::model::alloc::{Allocation, ClientStatus, DesiredStatus};
use crate::model::id::NodeId;
use crate::model::job::{Job, JobType, TaskGroup};
use crate::model::tree::{BTreeMap, BTreeSet};

/// What one node should have once: an allocation of a group, by its index.
pub type Seat<'a> = (NodeId, &'a str, u64);

#[derive(Default)]
pub struct Seats<'a> {
    pub taken: BTreeSet<Seat<'a>>,
    /// The newest that held a seat and has ended, or ends.
    pub left: BTreeMap<Seat<'a>, &'a Allocation>,
}

impl<'a> Seats<'a> {
    fn leaves(&mut self, seat: Seat<'a>, alloc: &'a Allocation) {
        let newest = self.left.entry(seat).or_insert(alloc);
        if newest.create_index < alloc.create_index {
            *newest = alloc;
        }
    }
}

/// None: it must not stay where it is.
pub type Follow<'f, 'a> = dyn FnMut(&'a Allocation, &'a TaskGroup) -> Option<Update> + 'f;

/// `follow` is asked once for each allocation that runs or is to run, in order.
pub fn everywhere<'a>(
    input: &Input<'a>,
    job: &'a Job,
    follow: &mut Follow<'_, 'a>,
) -> (Changes<'a>, Seats<'a>) {
    let (mut changes, mut seats) = (Changes::default(), Seats::default());
    let mut matrix = by_group(input);
    for group in &job.spec.groups {
        let mut named = matrix.remove(group.name.as_str()).unwrap_or_default();
        let mut surplus = named.clone();
        let count = group.count.max(0) as u64;
        named.retain(|_, a| a.index() < count);
        surplus.retain(|_, a| a.index() >= count);
        stop_all(input, &surplus, &mut changes);
        let staying = split(input, group, named, &mut changes, &mut seats);
        for alloc in staying.into_values() {
            settle((job, group), alloc, follow, &mut changes, &mut seats);
        }
    }
    matrix.values().for_each(|allocs| stop_all(input, allocs, &mut changes));
    (changes, seats)
}

/// By what became of their nodes; gives those that nothing was decided of by that.
fn split<'a>(
    input: &Input<'a>,
    group: &'a TaskGroup,
    allocs: Set<'a>,
    changes: &mut Changes<'a>,
    seats: &mut Seats<'a>,
) -> Set<'a> {
    let Tainted { mut untainted, migrating, lost, disconnecting, mut reconnecting } =
        taint::split(allocs, Some(group), input);
    for alloc in migrating.into_values() {
        seats.leaves(seat(group, alloc), alloc);
        changes.stops.push(Stop { alloc, description: MIGRATING, client: None });
    }
    changes.stops.extend(lost.into_values().map(taint::stop_lost));
    let lost_after = group.disconnect.and_then(|d| d.lost_after);
    let expiry = lost_after.and_then(|span| reschedule::give_up(&disconnecting, &[], input.now + span));
    changes.followups.extend(expiry);
    changes.disconnected.extend(disconnecting.into_values());
    changes.reconnected.extend(reconnecting.values().filter(|a| a.is_known_to_live()));
    untainted.append(&mut reconnecting);
    untainted
}

fn settle<'a>(
    (job, group): (&'a Job, &'a TaskGroup),
    alloc: &'a Allocation,
    follow: &mut Follow<'_, 'a>,
    changes: &mut Changes<'a>,
    seats: &mut Seats<'a>,
) {
    let seat = seat(group, alloc);
    if alloc.terminal() {
        if is_done(job, alloc) {
            seats.taken.insert(seat);
        } else {
            seats.leaves(seat, alloc);
        }
        return;
    }
    if !seats.taken.insert(seat) {
        changes.stops.push(not_needed(alloc));
        return;
    }
    match follow(alloc, group) {
        None => changes.stops.push(not_needed(alloc)),
        Some(Update::Destructive) => {
            changes.destructive.push(Replacement { group, alloc, keeps_version: false });
        }
        Some(Update::Ignore | Update::InPlace) => {}
    }
}

fn seat<'a>(group: &'a TaskGroup, alloc: &Allocation) -> Seat<'a> {
    (alloc.node_id, &group.name, alloc.index())
}

/// Work that has had its turn on its node, well or badly, under the job as it is now. What was lost has not, nor what had to
/// make way before it was done.
fn is_done(job: &Job, alloc: &Allocation) -> bool {
    job.spec.job_type == JobType::Sysbatch
        && (alloc.job_create_index, alloc.job_modify_index) == (job.create_index, job.job_modify_index)
        && alloc.client != ClientStatus::Lost
        && (alloc.desired != DesiredStatus::Evict || (alloc.ran_successfully() && !alloc.was_cut_short()))
}
