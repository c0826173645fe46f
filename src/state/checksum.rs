//! The checksum of what lies on a disk: XXH3 with 64 bits (decision 0057). Refuses to know what it is the checksum of. The digest that
//! tells replicas apart is another function, `digest::row_hash`.

use model::node::NodeInfo;
use wire::record;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// With another seed, the same bytes have another checksum.
pub(super) fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// By which a node sees whether its newest registration is the one that counts. Servers of other builds may compute other digests: a
/// node compares what servers say with what they said before, never with a digest of its own.
pub fn info_digest(info: &NodeInfo) -> u64 {
    checksum(0, &record::encode_part("node", info))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both are on disks in the field: a crate that computes another one is not taken.
    #[test]
    fn the_checksum_is_xxh3() {
        assert_eq!(checksum(0, b""), 0x2d06_8005_38d3_94c2);
        let page: Vec<u8> = (0..4096u32).map(|i| (i % 251) as u8).collect();
        assert_ne!(checksum(0, &page), checksum(1, &page));
        for bit in [0, 4096 * 4, 4096 * 8 - 1] {
            let mut flipped = page.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(0, &flipped), checksum(0, &page), "bit {bit}");
        }
    }
}
