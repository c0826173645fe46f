//! Which allocations have lost their node (reference: scheduler 8.3). Refuses to know what is done about it.

use super::{Set, Stop, TaintedNodes};
use crate::model::alloc::{Allocation, ClientStatus};
use crate::model::node::NodeStatus;

pub const LOST: &str = "alloc is lost since its node is down";

pub struct Tainted<'a> {
    pub untainted: Set<'a>,
    pub lost: Set<'a>,
}

/// First matching rule wins. A terminal allocation is never lost, whatever became of its node.
pub fn split<'a>(allocs: Set<'a>, tainted: &TaintedNodes) -> Tainted<'a> {
    let (lost, untainted) = allocs.into_iter().partition(|(_, a)| !a.terminal() && node_lost(a, tainted));
    Tainted { untainted, lost }
}

/// The node is gone or down; or disconnected, which no group can sit out.
fn node_lost(alloc: &Allocation, tainted: &TaintedNodes) -> bool {
    match tainted.get(&alloc.node_id) {
        None => false,
        Some(None | Some(NodeStatus::Down | NodeStatus::Disconnected)) => true,
        Some(Some(NodeStatus::Ready | NodeStatus::Initializing)) => false,
    }
}

pub fn stop_lost(alloc: &Allocation) -> Stop<'_> {
    Stop { alloc, description: LOST, client: Some(ClientStatus::Lost) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alloc::{ClientStatus as C, DesiredStatus as D};
    use crate::scheduler::testing::{alloc, job, node_id};

    /// The status of the allocation's node, when it is tainted at all; the allocation; whether it is lost.
    type Case = (&'static str, Option<Option<NodeStatus>>, D, C, bool);

    #[test]
    fn filter_by_tainted() {
        let cases: [Case; 12] = [
            ("rule 4: disconnected", Some(Some(NodeStatus::Disconnected)), D::Run, C::Running, true),
            ("rule 6: terminal, down", Some(Some(NodeStatus::Down)), D::Run, C::Complete, false),
            ("rule 6: failed, gone", Some(None), D::Run, C::Failed, false),
            ("rule 6: lost before, gone", Some(None), D::Stop, C::Lost, false),
            ("rule 6: stopped, down", Some(Some(NodeStatus::Down)), D::Stop, C::Running, false),
            ("rule 6: evicted, down", Some(Some(NodeStatus::Down)), D::Evict, C::Running, false),
            (
                "rule 6: terminal, disconnected",
                Some(Some(NodeStatus::Disconnected)),
                D::Run,
                C::Complete,
                false,
            ),
            ("rule 12: not tainted", None, D::Run, C::Running, false),
            ("rule 13: gone", Some(None), D::Run, C::Running, true),
            ("rule 13: down", Some(Some(NodeStatus::Down)), D::Run, C::Pending, true),
            ("rule 13: down, unknown", Some(Some(NodeStatus::Down)), D::Run, C::Unknown, true),
            ("rule 14: initializing", Some(Some(NodeStatus::Initializing)), D::Run, C::Running, false),
        ];
        for (name, status, desired, client, want) in cases {
            let mut a = alloc(&job("a", 1), 0, 1);
            (a.desired, a.client) = (desired, client);
            let tainted = status.map(|s| (node_id(1), s)).into_iter().collect();
            let out = split([(a.id, &a)].into(), &tainted);
            assert_eq!((out.lost.len(), out.untainted.len()), (want as usize, !want as usize), "{name}");
        }
    }
}
