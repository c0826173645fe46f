//! What the nodes' states mean for the allocations on them (scheduler.md 8.3). Refuses to know what is done about
//! it.

use super::{AllocSet, ReconcileInput, Stop};
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::job::TaskGroup;
use model::node::NodeStatus;
use model::time::{Span, Wall};

pub const LOST: &str = "alloc is lost since its node is down";

#[derive(Default)]
pub struct Tainted<'a> {
    pub untainted: AllocSet<'a>,
    /// Allocations that are to leave their nodes.
    pub migrating: AllocSet<'a>,
    pub lost: AllocSet<'a>,
    /// Allocations whose node has just disconnected, and whose group has a `lost_after`.
    pub disconnecting: AllocSet<'a>,
    /// Allocations that were unknown, and report again.
    pub reconnecting: AllocSet<'a>,
}

#[derive(Clone, Copy)]
enum Kind {
    Untainted,
    Migrating,
    Lost,
    Disconnecting,
    Reconnecting,
    Ignored,
}

/// `group`: None when it is not wanted any more, and nothing of it is waited for.
pub fn split<'a>(allocs: AllocSet<'a>, group: Option<&TaskGroup>, input: &ReconcileInput<'a>) -> Tainted<'a> {
    let lost_after = group.and_then(|g| g.disconnect).and_then(|d| d.lost_after);
    let mut out = Tainted::default();
    for (id, alloc) in allocs {
        let set = match kind(alloc, lost_after, input) {
            Kind::Untainted => &mut out.untainted,
            Kind::Migrating => &mut out.migrating,
            Kind::Lost => &mut out.lost,
            Kind::Disconnecting => &mut out.disconnecting,
            Kind::Reconnecting => &mut out.reconnecting,
            Kind::Ignored => continue,
        };
        set.insert(id, alloc);
    }
    out
}

/// First matching rule wins. A terminal allocation is never lost, whatever became of its node, and what has failed is
/// looked at whether or not its group sits disconnections out.
fn kind(alloc: &Allocation, lost_after: Option<Span>, input: &ReconcileInput) -> Kind {
    let node = input.tainted.get(&alloc.node_id);
    let waits = lost_after.is_some();
    let since = lost_after.and_then(|_| unknown_since(alloc));
    let came_back = since.is_some();
    let unknown = alloc.client == ClientStatus::Unknown;
    let expired =
        unknown && since.zip(lost_after).is_some_and(|(at, span)| at.is_older_than(span, input.now));
    let again = if expired { Kind::Lost } else { Kind::Reconnecting };
    let (desired_run, failed) = (alloc.desired == DesiredStatus::Run, alloc.client == ClientStatus::Failed);
    let disconnected = node == Some(&Some(NodeStatus::Disconnected));
    let gone = matches!(node, Some(None | Some(NodeStatus::Down)));
    match alloc.client {
        // scheduler.md 8.3.1
        _ if came_back && desired_run && failed => Kind::Reconnecting,
        // scheduler.md 8.3.2 to scheduler.md 8.3.4
        ClientStatus::Running if disconnected && waits && !alloc.terminal() => Kind::Disconnecting,
        ClientStatus::Pending if disconnected && !alloc.terminal() => Kind::Lost,
        _ if disconnected && !waits && !alloc.terminal() => Kind::Lost,
        // scheduler.md 8.3.5
        _ if node == Some(&Some(NodeStatus::Ready)) && came_back => again,
        // scheduler.md 8.3.6
        _ if alloc.terminal() && !came_back => Kind::Untainted,
        // scheduler.md 8.3.7: no client will report that it has left a node that is gone, so it is lost like any other
        _ if alloc.transition.leaves() && gone => Kind::Lost,
        _ if alloc.transition.leaves() => Kind::Migrating,
        // scheduler.md 8.3.8, scheduler.md 8.3.9
        _ if waits && expired => Kind::Lost,
        _ if waits && unknown && desired_run => Kind::Untainted,
        // scheduler.md 8.3.10
        _ if came_back && failed && alloc.desired == DesiredStatus::Stop => Kind::Ignored,
        // scheduler.md 8.3.11 to scheduler.md 8.3.14
        _ => match node {
            None if came_back => again,
            _ if gone => Kind::Lost,
            _ => Kind::Untainted,
        },
    }
}

/// Since when the servers have the allocation as unknown, though its client may have reported since.
pub fn unknown_since(alloc: &Allocation) -> Option<Wall> {
    // pending: its task is between two runs
    let may = !matches!(alloc.client, ClientStatus::Complete | ClientStatus::Lost);
    alloc.states.last().filter(|s| may && s.status == ClientStatus::Unknown).map(|s| s.at)
}

pub fn stop_lost(alloc: &Allocation) -> Stop<'_> {
    Stop { alloc, description: LOST, client: Some(ClientStatus::Lost) }
}
