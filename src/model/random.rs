//! A stream of pseudo-random numbers from a seed, for brains: same seed, same stream, on every machine. One stream per
//! purpose, so that one more draw in one place moves nothing elsewhere. Not for secrets.

use serde::{Deserialize, Serialize};

/// SplitMix64 (Steele, Lea, Flood 2014: "Fast splittable pseudorandom number generators").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream(u64);

impl Stream {
    /// `purpose` separates streams of one seed.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut stream = Stream(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        stream.next_u64();
        stream
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// Below `bound`, evenly (by multiplication; the bias is under 2^-64 · bound). Zero for a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_purpose() {
        let draw = |seed, purpose| {
            let mut s = Stream::new(seed, purpose);
            [s.next_u64(), s.next_u64()]
        };
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_ne!(draw(1, 1), draw(2, 1));
        let mut s = Stream::new(7, 0);
        assert!((0..1000).all(|_| s.below(10) < 10));
        assert_eq!(s.below(0), 0);
    }
}
