//! Room on nodes, as the servers promise it. Nodes grow and never shrink, but a registration that was on its way for long may tell the servers
//! of less once more, until the node's next one. What was placed in what the node has is no over-commitment meanwhile.
//!
//! Refuses to know what lives there.

use super::region::Region;
use super::tracked::TrackedState;
use super::world::World;
use model::id::NodeId;
use model::node::NodeStatus;
use model::resources::Amount;
use state::view::View;
use std::collections::BTreeMap;

/// The most that servers have known of each node.
pub type Capacities = BTreeMap<NodeId, Amount>;

impl Region {
    pub fn note_capacities(&mut self, view: &View) -> Result<(), String> {
        for node in view.nodes().map_err(|e| e.to_string())? {
            let (now, most) = (node.available(), self.capacities.entry(node.info.id).or_default());
            if now.lacks(*most).is_none() {
                *most = now;
            }
        }
        Ok(())
    }
}

pub fn no_node_is_over_committed(
    view: &View,
    tracked: &TrackedState,
    capacities: &Capacities,
) -> Result<(), String> {
    let mut used: BTreeMap<_, Amount> = BTreeMap::new();
    for alloc in tracked.allocs.values().filter(|a| !a.terminal()) {
        let sum = used.entry(alloc.node_id).or_default();
        *sum = sum.plus(alloc.resources.total());
    }
    for node in view.nodes().map_err(|e| e.to_string())? {
        let sum = used.get(&node.info.id).copied().unwrap_or_default();
        let room = capacities.get(&node.info.id).copied().unwrap_or_default();
        if let Some(dimension) = room.lacks(sum) {
            return Err(format!("node {} is over-committed in {dimension}: {sum:?}", node.info.name));
        }
    }
    Ok(())
}

/// At rest: what was on a node that is down has been given up.
pub fn none_is_on_a_down_node(view: &View) -> Result<(), String> {
    for node in view.nodes().map_err(|e| e.to_string())? {
        if node.status != NodeStatus::Down {
            continue;
        }
        let allocs = view.allocs_of_node(node.info.id).map_err(|e| e.to_string())?;
        if let Some(alloc) = allocs.iter().find(|alloc| !alloc.terminal()) {
            return Err(format!("{} is on {}, which is down: {alloc:#?}", alloc.name, node.info.name));
        }
    }
    Ok(())
}

impl World {
    /// At rest the servers know what each node has by now.
    pub fn nodes_are_known_as_they_are(&self, view: &View) -> Result<(), String> {
        for host in self.regions.node_hosts() {
            let known = view.node(host.id()).map_err(|e| e.to_string())?;
            if let Some(node) = known.filter(|node| node.info.capacity != host.traits.capacity) {
                let (known, has) = (node.info.capacity, host.traits.capacity);
                return Err(format!("node {} is known to have {known:?}, and has {has:?}", node.info.name));
            }
        }
        Ok(())
    }
}
