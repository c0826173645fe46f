//! Which nodes are linked to this server, and by which of their links.
//!
//! Refuses to know: sockets. Invariants: a node is spoken to on its newest link; nodes are bounded.

use ::io::quic::LinkId;
use model::id::NodeId;
use std::collections::BTreeMap;
use wire::credential::LinkRefusal;

/// Nodes that one server takes: a fleet of 5,000 on one of three servers, and those of another one that has failed.
const MAX_NODES: usize = 10_000;

#[derive(Debug)]
pub struct NodeTable {
    own: Option<NodeId>,
    nodes: BTreeMap<NodeId, LinkId>,
}

/// What becomes of a node's link that has come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAdmitted {
    First,
    /// The earlier link is to be closed.
    InPlaceOf(LinkId),
    Refused(LinkRefusal),
}

impl NodeTable {
    /// `own`: the node of the same agent.
    pub fn new(own: Option<NodeId>) -> NodeTable {
        NodeTable { own, nodes: BTreeMap::new() }
    }

    pub fn up(&mut self, node: NodeId, link: LinkId) -> NodeAdmitted {
        if self.own == Some(node) {
            return NodeAdmitted::Refused(LinkRefusal::SameId);
        }
        if !self.nodes.contains_key(&node) && self.nodes.len() >= MAX_NODES {
            return NodeAdmitted::Refused(LinkRefusal::Busy);
        }
        match self.nodes.insert(node, link) {
            Some(earlier) => NodeAdmitted::InPlaceOf(earlier),
            None => NodeAdmitted::First,
        }
    }

    /// True: the node is linked no more.
    pub fn down(&mut self, node: NodeId, link: LinkId) -> bool {
        let was_newest = self.nodes.get(&node) == Some(&link);
        if was_newest {
            self.nodes.remove(&node);
        }
        was_newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u128) -> NodeId {
        NodeId::from_random(n)
    }

    #[test]
    fn the_newest_link_of_a_node_counts() {
        let mut table = NodeTable::new(Some(node(9)));
        assert_eq!(table.up(node(1), 1), NodeAdmitted::First);
        assert_eq!(table.up(node(1), 2), NodeAdmitted::InPlaceOf(1));
        assert!(!table.down(node(1), 1), "it was replaced");
        assert!(table.down(node(1), 2));
        assert!(!table.down(node(1), 2), "once");
        assert_eq!(table.up(node(9), 3), NodeAdmitted::Refused(LinkRefusal::SameId), "the agent's own node");
    }

    #[test]
    fn a_server_takes_a_bounded_number_of_nodes() {
        let mut table = NodeTable::new(None);
        for n in 0..MAX_NODES {
            assert_eq!(table.up(node(n as u128), n as u64), NodeAdmitted::First);
        }
        assert_eq!(table.up(node(u128::MAX), 1), NodeAdmitted::Refused(LinkRefusal::Busy));
        assert_eq!(table.up(node(3), 1), NodeAdmitted::InPlaceOf(3), "it is there already");
    }
}
