//! Requests of nodes that this follower has relayed to the leader. A leader that dies says nothing: when another server leads, the nodes are told
//! to ask again. Without that a watch, which a leader holds for minutes, would tell of nothing new until it times out, and a heartbeat that times
//! out would turn its node away from this server, which is up.
//!
//! Refuses to know: what was asked.

use model::id::NodeId;
use std::collections::{BTreeMap, VecDeque};
use wire::rpc::Peer;

/// A node has one request of each kind under way.
const MAX_PER_NODE: usize = 4;
/// Nodes that are told in one turn; a server with peers has the next turn within a tick.
const NODES_PER_TURN: usize = 1_024;

/// A leader, and the term that it leads in.
pub type LeaderOfTerm = (u64, u64);

#[derive(Default)]
pub struct RelayedRequests {
    /// The numbers of the requests of each node, the newest last, and the leader that has them.
    open: BTreeMap<NodeId, VecDeque<(u64, LeaderOfTerm)>>,
    /// This leader has all of them: while it leads, there is nothing to look for.
    has_all: Option<LeaderOfTerm>,
}

impl RelayedRequests {
    pub fn relayed(&mut self, node: NodeId, request: u64, to: LeaderOfTerm) {
        let open = self.open.entry(node).or_default();
        if open.len() == MAX_PER_NODE {
            open.pop_front();
        }
        open.push_back((request, to));
    }

    pub fn answered(&mut self, node: NodeId, request: u64) {
        if let Some(open) = self.open.get_mut(&node) {
            open.retain(|(number, _)| *number != request);
            if open.is_empty() {
                self.open.remove(&node);
            }
        }
    }

    pub fn link_down(&mut self, peer: Peer) {
        match peer {
            Peer::Node(node) => _ = self.open.remove(&node),
            Peer::Server(id) => self.lose(id),
        }
    }

    /// Since the connection before this one, if there was one, nothing has gone to that server.
    pub fn link_up(&mut self, server: u64) {
        self.lose(server);
    }

    /// As if the server had led in no term: whoever leads next is another one.
    fn lose(&mut self, server: u64) {
        let lost = self.open.values_mut().flatten().filter(|(_, (leader, _))| *leader == server);
        lost.for_each(|(_, (_, term))| *term = 0);
        self.has_all = None;
    }

    /// Takes the requests that a former leader has. `leader`: the present one; `None`: nobody leads yet.
    pub fn take_lost(&mut self, leader: Option<LeaderOfTerm>) -> Vec<(NodeId, u64)> {
        let Some(leader) = leader.filter(|leader| self.has_all != Some(*leader)) else { return vec![] };
        let is_lost = |(_, to): &(u64, LeaderOfTerm)| *to != leader;
        let nodes = self.open.iter().filter(|(_, open)| open.iter().any(is_lost)).map(|(node, _)| *node);
        let (nodes, mut lost): (Vec<NodeId>, _) = (nodes.take(NODES_PER_TURN).collect(), vec![]);
        self.has_all = (nodes.len() < NODES_PER_TURN).then_some(leader);
        for node in nodes {
            let open = self.open.remove(&node).unwrap_or_default();
            let (gone, kept): (VecDeque<_>, _) = open.into_iter().partition(is_lost);
            lost.extend(gone.into_iter().map(|(request, _)| (node, request)));
            if !kept.is_empty() {
                self.open.insert(node, kept);
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ascending.
    fn node(n: u128) -> NodeId {
        NodeId::from_random(n)
    }

    #[test]
    fn requests_of_a_former_leader_are_lost_once_another_leads() {
        let mut relayed = RelayedRequests::default();
        for (n, request) in [(1, 10), (2, 20), (2, 21), (3, 30)] {
            relayed.relayed(node(n), request, (7, 2));
        }
        relayed.answered(node(3), 30);
        relayed.answered(node(2), 20);
        assert_eq!((relayed.take_lost(None), relayed.take_lost(Some((7, 2)))), (vec![], vec![]));
        relayed.relayed(node(2), 22, (8, 3));
        assert_eq!(relayed.take_lost(Some((8, 3))), [(node(1), 10), (node(2), 21)]);
        assert_eq!(relayed.take_lost(Some((8, 3))), [], "each is told once");
        assert_eq!(relayed.take_lost(Some((8, 4))), [(node(2), 22)], "it led anew");
    }

    #[test]
    fn requests_over_a_lost_link_are_lost() {
        let mut relayed = RelayedRequests::default();
        relayed.relayed(node(1), 10, (7, 2));
        relayed.relayed(node(2), 20, (7, 2));
        relayed.link_down(Peer::Node(node(1)));
        relayed.link_down(Peer::Server(8));
        assert_eq!(relayed.take_lost(Some((7, 2))), []);
        relayed.link_down(Peer::Server(7));
        assert_eq!(relayed.take_lost(Some((7, 2))), [(node(2), 20)]);
        relayed.relayed(node(2), 21, (7, 2));
        relayed.link_up(8);
        assert_eq!(relayed.take_lost(Some((7, 2))), []);
        relayed.link_up(7);
        assert_eq!(relayed.take_lost(Some((7, 2))), [(node(2), 21)], "it was asked again in between");
    }

    #[test]
    fn nodes_and_their_requests_are_bounded() {
        let mut relayed = RelayedRequests::default();
        (0..10).for_each(|request| relayed.relayed(node(1), request, (7, 2)));
        let newest: Vec<_> = (6..10).map(|request| (node(1), request)).collect();
        assert_eq!(relayed.take_lost(Some((8, 3))), newest);
        (0..1_500).for_each(|n| relayed.relayed(node(n), 1, (7, 2)));
        assert_eq!(relayed.take_lost(Some((8, 4))).len(), NODES_PER_TURN);
        assert_eq!(relayed.take_lost(Some((8, 4))).len(), 1_500 - NODES_PER_TURN);
    }
}
