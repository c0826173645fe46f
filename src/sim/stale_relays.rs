//! Servers that answer nodes' watches with what the state was some time ago, for minutes, and everything else as it is.
//!
//! Refuses to know: how a server comes to do that.

use super::place::{Machine, NodeAt};
use model::member::Generation;
use std::collections::BTreeMap;
use wire::frame::{self, Body, Frame};
use wire::rpc::{AllocSet, NodeReply, NodeRequest};

/// Between the nodes and their servers.
#[derive(Default)]
pub struct StaleRelay {
    /// What each node was shown last.
    shown: BTreeMap<NodeAt, (Generation, AllocSet)>,
    /// What it is shown from now on.
    stale: BTreeMap<NodeAt, (Generation, AllocSet)>,
    pub answered: u64,
}

impl StaleRelay {
    /// Takes note of what nodes are shown. While it is stale, a node's watch goes no further: its answer is given.
    pub fn pass(&mut self, from: Machine, to: Machine, bytes: &[u8]) -> Option<Vec<u8>> {
        let Frame { request, body } = frame::decode(bytes).ok()?;
        match (from, to, body) {
            (_, Machine::Node(node), Body::Reply(NodeReply::Watched { generation, set, .. })) => {
                self.shown.insert(node, (generation, set));
                None
            }
            (Machine::Node(node), _, Body::Request(NodeRequest::Watch { .. })) => {
                let (generation, set) = self.stale.get(&node)?.clone();
                self.answered += 1;
                let body = Body::Reply(NodeReply::Watched { generation, set, servers: None });
                Some(frame::encode(&Frame { request, body }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::elections::{await_leader, region_of, run_for, settle};
    use super::super::world::World;
    use super::*;
    use model::time::Span;

    fn relay(world: &mut World) -> &mut StaleRelay {
        world.network.stale_relay.as_mut().expect("it stands")
    }

    /// `check_kill` sees what is stopped and still wanted.
    #[test]
    fn a_stale_relay_stops_nothing_however_long() {
        for seed in 1..=3 {
            let mut world = region_of(3, seed);
            world.network.stale_relay = Some(StaleRelay::default());
            await_leader(&mut world);
            run_for(&mut world, Span::seconds(30));
            let before = relay(&mut world).shown.clone();
            run_for(&mut world, Span::minutes(2));
            let shown = &relay(&mut world).shown;
            let newer = before.iter().filter(|(node, (_, set))| shown[node].1.index > set.index).count();
            assert!(newer > 0, "nodes have seen more since");
            relay(&mut world).stale = before;
            for n in world.regions.nodes().into_iter().step_by(2) {
                world.crash_agent(n);
            }
            run_for(&mut world, Span::minutes(5));
            assert!(relay(&mut world).answered > 100, "{}", relay(&mut world).answered);
            relay(&mut world).stale.clear();
            settle(&mut world);
        }
    }
}
