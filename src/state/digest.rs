//! The hash of one row. The sum over all rows is the digest that tells replicas of one index apart. Refuses to know what a row means.

/// 64 bits of a row, to be added up over rows in any order. Eight bytes at a time, multiplied and folded as in
/// FNV-1a's wide relatives; it has to tell replicas apart, not to resist anyone.
pub(super) fn row_hash(key: &[u8], value: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, word: [u8; 8]| {
        let hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(K);
        hash ^ (hash >> 32)
    };
    let mut hash = (key.len() as u64).wrapping_mul(K);
    for part in [key, value] {
        let (words, rest) = part.as_chunks();
        hash = words.iter().fold(hash, |hash, word| fold(hash, *word));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            hash = fold(hash, word);
        }
    }
    hash = (hash ^ value.len() as u64).wrapping_mul(K);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_hashes_differ_for_similar_rows() {
        let rows: [(&[u8], &[u8]); 7] = [
            (b"", b""),
            (b"a", b""),
            (b"", b"a"),
            (b"a", b"b"),
            (b"ab", b""),
            (b"a", b"b\0"),
            (b"a\0", b"b"),
        ];
        let mut hashes: Vec<u64> = rows.iter().map(|(k, v)| row_hash(k, v)).collect();
        hashes.sort_unstable();
        assert!(hashes.is_sorted_by(|a, b| a < b), "{hashes:x?}");
    }
}
