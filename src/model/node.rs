//! A node: what a client says of its machine, and what the servers know of it.

use super::claims::NodeOffers;
use super::drain::{Drain, LastDrain};
use super::id::{NodeId, NodeSecret};
use super::resources::Amount;
use super::time::Wall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeStatus {
    Initializing,
    Ready,
    Down,
    Disconnected,
}

impl NodeStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            NodeStatus::Initializing => "initializing",
            NodeStatus::Ready => "ready",
            NodeStatus::Down => "down",
            NodeStatus::Disconnected => "disconnected",
        }
    }
}

/// A client's own description of its machine: what it registers with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeInfo {
    pub id: NodeId,
    pub secret: NodeSecret,
    pub name: String,
    pub datacenter: String,
    pub pool: String,
    pub class: String,
    /// Where its HTTP API is, as `http_place` writes it; empty when it has none that others reach.
    pub http_addr: String,
    pub attributes: BTreeMap<String, String>,
    pub meta: BTreeMap<String, String>,
    pub capacity: Amount,
    /// Kept back from tasks.
    pub reserved: Amount,
    pub cpu_cores: u16,
    pub networks: Vec<NodeNetwork>,
    pub drivers: BTreeMap<String, DriverInfo>,
    /// What of a task's limits this node cannot enforce, in sentences with the way to enable it.
    pub not_enforced: Vec<String>,
    pub offers: NodeOffers,
    /// The most allocations that the node takes at a time. 0: `MAX_ALLOCS`.
    pub max_allocs: u16,
}

/// Before the address of a node whose API speaks HTTPS: a member of its own would change what is stored of every node.
const HTTPS: &str = "https://";

impl NodeInfo {
    /// `host:port`, and whether HTTPS is spoken there, as `http_addr` has it.
    pub fn http_place(address: &str, https: bool) -> String {
        if https { format!("{HTTPS}{address}") } else { address.to_string() }
    }

    /// `host:port` of its HTTP API, and whether it speaks HTTPS.
    pub fn http(&self) -> (&str, bool) {
        match self.http_addr.strip_prefix(HTTPS) {
            Some(address) => (address, true),
            None => (&self.http_addr, false),
        }
    }

    fn available(&self) -> Amount {
        let max_allocs = match self.max_allocs {
            0 => MAX_ALLOCS,
            said => said.min(MAX_ALLOCS),
        };
        Amount { allocs: i64::from(max_allocs), ..self.capacity.minus(self.reserved) }
    }
}

/// The most allocations that any node takes at a time; those that have ended are not counted.
pub const MAX_ALLOCS: u16 = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNetwork {
    pub device: String,
    pub mac: String,
    pub speed_mbit: i64,
    pub addresses: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverInfo {
    pub detected: bool,
    pub healthy: bool,
    pub description: String,
    pub attributes: BTreeMap<String, String>,
    pub updated: Wall,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub info: NodeInfo,
    /// Equal for nodes that no job can tell apart, except by `unique.` properties (scheduler.md 4.8).
    pub computed_class: String,
    pub status: NodeStatus,
    pub status_description: String,
    pub status_updated: Wall,
    pub eligible: bool,
    /// Oldest first; at most `MAX_NODE_EVENTS`.
    pub events: Vec<NodeEvent>,
    pub last_missed_heartbeat_index: u64,
    pub last_alloc_update_index: u64,
    pub create_index: u64,
    pub modify_index: u64,
    /// While it lasts, the node is not eligible.
    pub drain: Option<Drain>,
    pub last_drain: Option<LastDrain>,
}

impl Node {
    /// New tasks may be placed here.
    pub fn ready(&self) -> bool {
        self.status == NodeStatus::Ready && self.eligible
    }

    /// What tasks may use.
    pub fn available(&self) -> Amount {
        self.info.available()
    }

    pub fn push_event(&mut self, event: NodeEvent) {
        if self.events.len() == MAX_NODE_EVENTS {
            self.events.remove(0);
        }
        self.events.push(event);
    }
}

pub const MAX_NODE_EVENTS: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEvent {
    pub subsystem: String,
    pub message: String,
    pub details: BTreeMap<String, String>,
    pub at: Wall,
    pub create_index: u64,
}

/// `v1:` and 16 hex digits over everything that constraints can see of a node, except what is `unique.` to it.
/// FNV-1a, 64 bits (offset 0xcbf29ce484222325, prime 0x100000001b3), over length-prefixed fields in a fixed order.
pub fn computed_class(info: &NodeInfo) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut feed = |text: &str| {
        let len = (text.len() as u64).to_le_bytes();
        for b in len.iter().chain(text.as_bytes()) {
            hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for text in [&info.datacenter, &info.class, &info.pool] {
        feed(text);
    }
    for map in [&info.attributes, &info.meta] {
        let shared = || map.iter().filter(|(k, _)| !k.starts_with("unique."));
        feed(&shared().count().to_string());
        for (k, v) in shared() {
            feed(k);
            feed(v);
        }
    }
    format!("v1:{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn info() -> NodeInfo {
        NodeInfo {
            id: NodeId::default(),
            secret: NodeSecret::default(),
            name: "a".into(),
            datacenter: "dc1".into(),
            pool: "default".into(),
            class: String::new(),
            http_addr: String::new(),
            attributes: [("kernel.name".to_string(), "linux".to_string())].into(),
            meta: BTreeMap::new(),
            capacity: Amount::ZERO,
            reserved: Amount::ZERO,
            cpu_cores: 1,
            networks: vec![],
            drivers: BTreeMap::new(),
            not_enforced: vec![],
            offers: NodeOffers::default(),
            max_allocs: 0,
        }
    }

    #[test]
    fn where_a_node_is_asked_says_how() {
        for (place, expected) in [("a:1", ("a:1", false)), ("https://a:1", ("a:1", true)), ("", ("", false))]
        {
            let info = NodeInfo { http_addr: place.into(), ..info() };
            assert_eq!(info.http(), expected);
            assert_eq!(NodeInfo::http_place(expected.0, expected.1), place);
        }
    }

    #[test]
    fn a_nodes_allocations_are_bounded_whatever_it_says() {
        for (said, takes) in [(0, 1_024), (1, 1), (1_024, 1_024), (u16::MAX, 1_024)] {
            let amount = NodeInfo { max_allocs: said, ..info() }.available();
            assert_eq!(amount, Amount { allocs: takes, ..Amount::ZERO }, "{said}");
        }
    }

    #[test]
    fn the_class_ignores_what_is_unique_and_sees_the_rest() {
        let base = computed_class(&info());
        let mut same = info();
        same.name = "b".into();
        same.attributes.insert("unique.hostname".into(), "b".into());
        assert_eq!(computed_class(&same), base);

        let mut attribute = info();
        attribute.attributes.insert("rack".into(), "r1".into());
        let mut meta = info();
        meta.meta.insert("rack".into(), "r1".into());
        let mut class = info();
        class.class = "big".into();
        for other in [&attribute, &meta, &class] {
            assert_ne!(computed_class(other), base);
        }
        assert_ne!(computed_class(&attribute), computed_class(&meta));
    }
}
