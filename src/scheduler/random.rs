//! Random bits from a seed: the ids of what an evaluation creates, and the order in which equal nodes are tried.
//! Refuses to know where the seed comes from. Equal seeds give equal bits on every machine.

use crate::model::id::NodeId;

/// SplitMix64 (Steele, Lea, Flood 2014): a counter and a finaliser. Not for secrets.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// What an id is made of.
    pub fn id_bits(&mut self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }
}

/// The finaliser of SplitMix64: a bijection in which every bit of the input moves half the bits of the output.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A node's place in the evaluation's own order of all nodes; different for every id, and the same wherever the node
/// happens to sit in the fleet.
pub fn place_in_order(seed: u64, id: NodeId) -> u128 {
    let bytes = u128::from_be_bytes(*id.0.as_bytes());
    let (high, low) = ((bytes >> 64) as u64, bytes as u64);
    u128::from(mix(high ^ mix(low ^ seed))) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_matches_its_published_values() {
        let mut random = Random::new(1_234_567);
        let first = [random.bits(), random.bits(), random.bits()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

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
