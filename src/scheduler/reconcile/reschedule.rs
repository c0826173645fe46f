//! Which allocations that failed are placed again, now or later (scheduler.md 9), and when somebody has to look
//! again. Refuses to know where they go.

use super::{AllocSet, ReconcileInput, tainted};
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::eval::Trigger;
use model::id::AllocId;
use model::job::TaskGroup;
use model::time::{Span, Wall};

const DELAYED: &str = "created for delayed rescheduling";
const DISCONNECTED: &str = "created for delayed disconnect timeout";
/// What is due so soon is done at once.
const NOW: Span = Span::seconds(1);
/// What is due within this of the first is looked at together with it.
const BATCH: Span = Span::seconds(5);

/// An evaluation to come.
#[derive(Clone, Debug, PartialEq)]
pub struct Followup<'a> {
    pub at: Wall,
    pub trigger: Trigger,
    pub description: &'static str,
    /// That wait for it.
    pub allocs: Vec<&'a Allocation>,
}

/// What of the untainted is still one of the group's.
#[derive(Default)]
pub struct Split<'a> {
    pub untainted: AllocSet<'a>,
    /// In no other set.
    pub now: AllocSet<'a>,
    /// They are among `untainted`, too.
    pub later: Vec<(Wall, &'a Allocation)>,
}

enum Due {
    Never,
    Now,
    Later(Wall),
    /// An evaluation waits for it already.
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

/// Whether it still is one of the group's (scheduler.md 9.7). A failed allocation counts, whatever becomes of it.
fn still_counts(batch: bool, alloc: &Allocation) -> bool {
    let replaced = alloc.next.is_some() && alloc.terminal();
    !replaced && if batch { batch_counts(alloc) } else { service_counts(alloc) }
}

/// Work that was done stays done, even if it was told to stop or to make way afterwards. What was told so before it was done
/// ends without a failure too, and has to be done again.
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
    // whatever the clocks say, nobody waits for longer than the delay
    let at = (since + delay).min(input.now + delay);
    match alloc.followup_eval {
        Some(eval) if eval == input.eval.id => Due::Now,
        _ if at - input.now <= NOW => Due::Now,
        Some(eval) if (input.is_pending)(eval) => Due::AwaitsFollowup,
        // it came and found no room, when a clock that ran ahead said that this failed in the future
        Some(_) => Due::Now,
        None => Due::Later(at),
    }
}

/// Since when the allocation does not do its work, if it is one that may be replaced for it.
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

/// While a deployment is under way, its failures are for whoever watches it to judge. What has been healthy fails for
/// reasons of its own.
fn in_deployment(input: &ReconcileInput, alloc: &Allocation) -> bool {
    let active = input.deployments.latest.filter(|d| d.status.is_active());
    let healthy = alloc.health.is_some_and(|h| h.healthy == Some(true));
    !healthy && active.is_some_and(|d| alloc.deployment == Some(d.id))
}

/// Those due within five seconds of the first are looked at together (scheduler.md 9.11).
pub fn batch_by_time<'a>(mut later: Vec<(Wall, &'a Allocation)>) -> Vec<Followup<'a>> {
    later.sort_by_key(|(at, alloc)| (*at, alloc.id));
    let mut out: Vec<Followup> = Vec::new();
    for (at, alloc) in later {
        match out.last_mut().filter(|batch| at - batch.at < BATCH) {
            Some(batch) => batch.allocs.push(alloc),
            None => out.push(wait(at, vec![alloc])),
        }
    }
    out
}

pub fn wait(at: Wall, allocs: Vec<&Allocation>) -> Followup<'_> {
    Followup { at, trigger: Trigger::AllocReschedule, description: DELAYED, allocs }
}

/// When those that disconnect now are given up; what is replaced before waits for its replacement.
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
