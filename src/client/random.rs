//! The client's dice: splitmix64 (Steele, Lea, Flood 2014) from a seed, so that a run of the simulator repeats itself.

use crate::model::time::Span;

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn bits(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    /// Evenly from `[0, limit)`; zero for an empty range.
    pub fn below(&mut self, limit: Span) -> Span {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(0);
        Span::nanos(self.next().checked_rem(limit).map_or(0, |n| n as i64))
    }

    /// Evenly from `[low, high)`.
    pub fn between(&mut self, low: Span, high: Span) -> Span {
        low + self.below(Span::nanos(high.as_nanos().saturating_sub(low.as_nanos())))
    }
}
