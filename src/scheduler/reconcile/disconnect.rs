//! Allocations whose node did not answer for a while (scheduler.md 10): which of two stays when it answers again,
//! and how long the place of one that its node stops by itself is kept free. Refuses to know when nodes disconnect.

use super::{AllocSet, NOT_NEEDED, Stop, tainted};
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::job::{DisconnectPolicy, Job, Reconcile, TaskGroup};
use model::resources::Hook;
use model::time::{Span, Wall};

pub const UNKNOWN: &str = "alloc is unknown since its node is disconnected";
const RECONNECTED: &str = "alloc not needed due to disconnected client reconnect";
const FAILED: &str = "alloc was rescheduled because it failed";
/// A node that stops its tasks by itself may need this long, even if their kill timeouts are shorter.
const MIN_KILL_TIMEOUT: Span = Span::seconds(5);

/// Chooses between a reconnected allocation and its replacement. `all`: the group's.
pub fn reconcile_reconnected<'a>(
    job: &Job,
    group: &TaskGroup,
    back: &AllocSet<'a>,
    all: &AllocSet<'a>,
) -> Vec<Stop<'a>> {
    let mut stops = Vec::new();
    for alloc in back.values() {
        let replacement = alloc.next.and_then(|id| all.get(&id)).filter(|r| !r.server_terminal());
        let stop = if alloc.client == ClientStatus::Failed && !alloc.server_terminal() {
            Some((*alloc, FAILED))
        } else if outdated(job, alloc) {
            Some((*alloc, NOT_NEEDED))
        } else {
            replacement.map(|r| (if keeps_replacement(group, alloc, r) { *alloc } else { *r }, RECONNECTED))
        };
        stops.extend(stop.map(|(alloc, description)| Stop { alloc, description, client: None }));
    }
    stops
}

/// Takes those out of `migrating` whose place is another one's: they were replaced, or told to stop, while their node did not answer. They
/// leave, and nothing comes in their stead (scheduler.md 8.3.7).
pub fn replaced_before<'a>(migrating: &mut AllocSet<'a>) -> Vec<Stop<'a>> {
    let is_replaced =
        |a: &Allocation| tainted::unknown_since(a).is_some() && (a.next.is_some() || a.server_terminal());
    let replaced = migrating.extract_if(.., |_, alloc| is_replaced(alloc)).map(|(_, alloc)| alloc);
    let living = replaced.filter(|alloc| !alloc.server_terminal());
    living.map(|alloc| Stop { alloc, description: NOT_NEEDED, client: None }).collect()
}

/// Whether the allocation was to stop or to move anyway, or runs an older version.
fn outdated(job: &Job, alloc: &Allocation) -> bool {
    let asked = [alloc.transition.reschedule, alloc.transition.force_reschedule];
    alloc.desired != DesiredStatus::Run
        || alloc.transition.leaves()
        || asked.contains(&Some(true))
        || alloc.job_version < job.version
        || alloc.job_create_index < job.create_index
}

fn keeps_replacement(group: &TaskGroup, original: &Allocation, replacement: &Allocation) -> bool {
    let version = |a: &Allocation| (a.job_create_index, a.job_version);
    if version(replacement) > version(original) {
        return true;
    }
    match group.disconnect.map_or(Reconcile::BestScore, |d| d.reconcile) {
        Reconcile::KeepOriginal => false,
        Reconcile::KeepReplacement => true,
        Reconcile::BestScore => scores_better(original, replacement),
        Reconcile::LongestRunning => match (started(group, original), started(group, replacement)) {
            (Some(o), Some(r)) if o != r => r < o,
            _ => scores_better(original, replacement),
        },
    }
}

fn scores_better(original: &Allocation, replacement: &Allocation) -> bool {
    let score = |a: &Allocation| a.metrics.scores.first().map(|s| s.normalized);
    let running = |a: &Allocation| a.client == ClientStatus::Running;
    let better = match (score(original), score(replacement)) {
        (None, _) => true,
        (Some(o), Some(r)) => r > o,
        (Some(_), None) => false,
    };
    better && (running(replacement) || !running(original))
}

/// When its leader, or else the oldest of its main tasks, was started.
fn started(group: &TaskGroup, alloc: &Allocation) -> Option<Wall> {
    let main = |hook: Option<Hook>| hook.is_none();
    let of = |leaders: bool| {
        let tasks = group
            .tasks
            .iter()
            .filter(move |t| if leaders { t.leader } else { main(t.lifecycle.map(|l| l.hook)) });
        let starts = tasks.filter_map(|t| alloc.task_states.get(&t.name)).map(|s| s.started_at);
        starts.filter(|at| !at.is_never()).min()
    };
    of(true).or_else(|| of(false))
}

/// Until when the place of a lost allocation stays free, because its node may still be stopping it (scheduler.md 10.9).
pub fn stop_on_client_until(
    policy: &DisconnectPolicy,
    group: &TaskGroup,
    alloc: &Allocation,
    now: Wall,
) -> Option<Wall> {
    let kill = group.tasks.iter().map(|t| t.kill_timeout).max().unwrap_or(Span::ZERO);
    let lost = alloc.states.iter().find(|s| s.status == ClientStatus::Lost).map_or(now, |s| s.at);
    let held = policy.stop_on_client_after? + kill.max(MIN_KILL_TIMEOUT);
    (!lost.is_older_than(held, now)).then_some(lost + held)
}
