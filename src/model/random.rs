//! A stream of pseudo-random numbers from a seed, for brains: same seed, same stream, on every machine. One stream per
//! purpose, so that one more draw in one place moves nothing elsewhere. Not for secrets.

use super::time::Span;
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
        mix(self.0)
    }

    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// Below `bound`, evenly (by multiplication; the bias is under 2^-64 · bound). Zero for a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Shorter than `bound`; zero if that is not above zero.
    pub fn span_below(&mut self, bound: Span) -> Span {
        Span(self.below(bound.0.max(0).unsigned_abs()) as i64)
    }

    /// At least `low`, and shorter than `high` if that is longer.
    pub fn span_between(&mut self, low: Span, high: Span) -> Span {
        low + self.span_below(Span(high.0.saturating_sub(low.0)))
    }
}

/// SplitMix64's finisher: every bit of `z` moves every bit of the result.
pub fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
        let (low, high) = (Span::seconds(1), Span::seconds(2));
        assert!((0..1000).map(|_| s.span_between(low, high)).all(|span| span >= low && span < high));
        assert_eq!(s.span_between(high, low), high);
    }

    #[test]
    fn the_generator_matches_its_published_values() {
        let mut s = Stream(1_234_567);
        let first = [s.next_u64(), s.next_u64(), s.next_u64()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
