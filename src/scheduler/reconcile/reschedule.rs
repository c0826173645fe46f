//! Which allocations that failed are placed again, now or later (scheduler.md 9), and when a follow-up
//! evaluation is due. Refuses to know where they are placed.

use super::{AllocSet, ReconcileInput, tainted};
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::eval::Trigger;
use model::id::AllocId;
use model::job::TaskGroup;
use model::time::{Span, Wall};

const DELAYED: &str = "created for delayed rescheduling";
const DISCONNECTED: &str = "created for delayed disconnect timeout";
/// A placement that is due so soon is made at once.
const RESCHEDULE_WINDOW: Span = Span::seconds(1);
/// Placements that are due within this of the first are made together with it.
const BATCHED_FAILED_ALLOC_WINDOW: Span = Span::seconds(5);

/// An evaluation to come.
#[derive(Clone, Debug, PartialEq)]
pub struct Followup<'a> {
    pub at: Wall,
    pub trigger: Trigger,
    pub description: &'static str,
    /// The allocations that wait for the evaluation.
    pub allocs: Vec<&'a Allocation>,
}

/// The untainted allocations that are still the group's.
#[derive(Default)]
pub struct Split<'a> {
    pub untainted: AllocSet<'a>,
    /// Placed again now, so that these are in no other set.
    pub now: AllocSet<'a>,
    /// Placed again later, so that these are among `untainted`, too.
    pub later: Vec<(Wall, &'a Allocation)>,
}

enum Due {
    Never,
    Now,
    Later(Wall),
    /// An evaluation waits for the allocation already.
    AwaitsFollowup,
}

pub fn split<'a>(input: &ReconcileInput<'a>, group: &TaskGroup, allocs: AllocSet<'a>) -> Split<'a> {
    let mut out = Split::default();
    for (id, alloc) in allocs.into_iter().filter(|(_, a)| still_counts(input.batch, a)) {
        match due(input, group, alloc) {
            Due::Now => {
                out.now.insert(id, alloc);
                continue;
            }
            Due::Later(at) => out.later.push((at, alloc)),
            Due::Never | Due::AwaitsFollowup => {}
        }
        out.untainted.insert(id, alloc);
    }
    out
}

/// Whether the allocation still is one of the group's (scheduler.md 9.7). A failed one counts, whatever becomes of it.
fn still_counts(batch: bool, alloc: &Allocation) -> bool {
    let replaced = alloc.next.is_some() && alloc.terminal();
    !replaced && if batch { batch_counts(alloc) } else { service_counts(alloc) }
}

/// Work that was done stays done, even if the allocation was told to stop or was preempted afterwards. One that was told so before its
/// work was done ends without a failure too, and has to be done again.
fn batch_counts(alloc: &Allocation) -> bool {
    match alloc.desired {
        DesiredStatus::Run => true,
        DesiredStatus::Stop | DesiredStatus::Evict => alloc.ran_successfully() && !alloc.was_cut_short(),
    }
}

/// A service that ended is not running, however well it ended.
fn service_counts(alloc: &Allocation) -> bool {
    let ended = matches!(alloc.client, ClientStatus::Complete | ClientStatus::Lost);
    alloc.desired == DesiredStatus::Run && !ended
}

fn due(input: &ReconcileInput, group: &TaskGroup, alloc: &Allocation) -> Due {
    let Some(since) = missing_since(input, group, alloc) else { return Due::Never };
    if alloc.transition.force_reschedule == Some(true) && alloc.client_terminal() {
        return Due::Now;
    }
    let Some(policy) = group.reschedule.filter(|p| p.allows(&alloc.reschedules, since)) else {
        return Due::Never;
    };
    if in_deployment(input, alloc) && alloc.transition.reschedule != Some(true) {
        return Due::Never;
    }
    let delay = policy.next_delay(&alloc.reschedules, since);
    // whatever the clocks say, no reschedule waits for longer than the delay
    let at = (since + delay).min(input.now + delay);
    match alloc.followup_eval {
        Some(eval) if eval == input.eval.id => Due::Now,
        _ if at - input.now <= RESCHEDULE_WINDOW => Due::Now,
        Some(eval) if (input.is_pending)(eval) => Due::AwaitsFollowup,
        // the follow-up came and found no room, after a clock that ran ahead had dated the failure in the future
        Some(_) => Due::Now,
        None => Due::Later(at),
    }
}

/// When the allocation failed or disconnected, if it may be replaced for that.
fn missing_since(input: &ReconcileInput, group: &TaskGroup, alloc: &Allocation) -> Option<Wall> {
    match alloc.client {
        _ if alloc.desired != DesiredStatus::Run || alloc.next.is_some() => None,
        ClientStatus::Failed => Some(alloc.failed_at()),
        ClientStatus::Unknown => replaceable(group).then(|| tainted::unknown_since(alloc)).flatten(),
        ClientStatus::Running if disconnecting(input, alloc) => replaceable(group).then_some(input.now),
        _ => None,
    }
}

fn disconnecting(input: &ReconcileInput, alloc: &Allocation) -> bool {
    use model::node::NodeStatus::Disconnected;
    input.tainted.get(&alloc.node_id) == Some(&Some(Disconnected))
}

fn replaceable(group: &TaskGroup) -> bool {
    group.disconnect.is_some_and(|d| d.replace && d.lost_after.is_some())
}

/// While a deployment is under way, its failures are for the deployment watcher to judge. An allocation that has been healthy fails for
/// reasons of its own.
fn in_deployment(input: &ReconcileInput, alloc: &Allocation) -> bool {
    let active = input.deployments.latest.filter(|d| d.status.is_active());
    let healthy = alloc.health.is_some_and(|h| h.healthy == Some(true));
    !healthy && active.is_some_and(|d| alloc.deployment == Some(d.id))
}

/// Allocations due within five seconds of the first are looked at together (scheduler.md 9.11).
pub fn batch_by_time<'a>(mut later: Vec<(Wall, &'a Allocation)>) -> Vec<Followup<'a>> {
    later.sort_by_key(|(at, alloc)| (*at, alloc.id));
    let mut out: Vec<Followup> = Vec::new();
    for (at, alloc) in later {
        match out.last_mut().filter(|batch| at - batch.at < BATCHED_FAILED_ALLOC_WINDOW) {
            Some(batch) => batch.allocs.push(alloc),
            None => out.push(wait(at, vec![alloc])),
        }
    }
    out
}

pub fn wait(at: Wall, allocs: Vec<&Allocation>) -> Followup<'_> {
    Followup { at, trigger: Trigger::AllocReschedule, description: DELAYED, allocs }
}

/// When allocations that disconnect now are given up; one that is replaced earlier waits for its replacement.
pub fn disconnect_timeout<'a>(
    disconnecting: &AllocSet<'a>,
    delayed: &[Followup<'a>],
    at: Wall,
) -> Option<Followup<'a>> {
    let waits = |id: AllocId| delayed.iter().any(|f| f.allocs.iter().any(|a| a.id == id));
    let allocs = disconnecting.values().copied().filter(|a| !waits(a.id)).collect();
    let trigger = Trigger::MaxDisconnectTimeout;
    (!disconnecting.is_empty()).then_some(Followup { at, trigger, description: DISCONNECTED, allocs })
}
