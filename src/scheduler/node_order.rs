//! The order in which equal nodes are tried: another one for each evaluation, from its seed, so that evaluations that run
//! side by side do not all want the same node.
//! Refuses to know where the seed comes from. Equal seeds give equal orders on every machine.

use model::id::NodeId;
use model::random::mix;

/// A node's place among equals, whatever slot of the fleet it is in.
pub fn place_in_order(seed: u64, id: NodeId) -> u64 {
    let bytes = u128::from_be_bytes(*id.0.as_bytes());
    let (high, low) = ((bytes >> 64) as u64, bytes as u64);
    mix(high ^ mix(low ^ seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_has_its_own_order_of_nodes() {
        let ids: Vec<NodeId> = (0..64).map(NodeId::from_random).collect();
        let order = |seed| {
            let mut sorted = ids.clone();
            sorted.sort_by_key(|id| place_in_order(seed, *id));
            sorted
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_ne!(order(1), ids);
    }
}
