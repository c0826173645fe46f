//! What a brain measures of itself and publishes with its status: gauges as they are now, counters and durations since the
//! start and by windows of ten seconds (http-api.md 12).
//!
//! Refuses to know: clocks, and how any of it is written. Names are those of the field without the leading `nomad.`; their
//! number is bounded by the code that names them: none holds an id.

use model::time::{Mono, Span};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Counters and samples are told by such intervals.
const WINDOW: Span = Span::seconds(10);

pub type Name = Cow<'static, str>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub gauges: BTreeMap<Name, i64>,
    /// How often something happened.
    pub counters: BTreeMap<Name, Series>,
    /// Durations in nanoseconds.
    pub samples: BTreeMap<Name, Series>,
}

/// Values that were added one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Series {
    pub total: Aggregate,
    /// The number of the window that `current` is of.
    window: u64,
    current: Aggregate,
    previous: Aggregate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
    pub sum_of_squares: u128,
}

impl Measured {
    pub fn gauge(&mut self, name: impl Into<Name>, value: i64) {
        self.gauges.insert(name.into(), value);
    }

    pub fn count(&mut self, name: impl Into<Name>, now: Mono) {
        self.counters.entry(name.into()).or_default().add(1, now);
    }

    pub fn sample(&mut self, name: impl Into<Name>, took: Span, now: Mono) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(0);
        self.samples.entry(name.into()).or_default().add(nanos, now);
    }
}

impl Series {
    fn add(&mut self, value: u64, now: Mono) {
        let window = window(now);
        if window != self.window {
            self.previous = if window == self.window + 1 { self.current } else { Aggregate::default() };
            self.current = Aggregate::default();
            self.window = window;
        }
        self.current.add(value);
        self.total.add(value);
    }

    /// Of the last window that is over at `now`.
    pub fn last(&self, now: Mono) -> Aggregate {
        match window(now).checked_sub(self.window) {
            Some(0) => self.previous,
            Some(1) => self.current,
            _ => Aggregate::default(),
        }
    }
}

fn window(now: Mono) -> u64 {
    now.0 / WINDOW.as_nanos().unsigned_abs()
}

impl Aggregate {
    fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(value).pow(2));
    }

    /// For each second of a window.
    pub fn rate(&self) -> f64 {
        self.sum as f64 * 1e9 / WINDOW.as_nanos() as f64
    }

    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Of a sample, so divided by one less than there are values.
    pub fn standard_deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let (n, sum) = (self.count as f64, self.sum as f64);
        let spread = (n * self.sum_of_squares as f64 - sum * sum).max(0.0);
        (spread / (n * (n - 1.0))).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    #[test]
    fn windows_follow_each_other_and_grow_old() {
        let mut series = Series::default();
        for (second, value) in [(1, 5), (9, 7), (12, 1)] {
            series.add(value, at(second));
        }
        for (second, sum) in [(13, 12), (20, 1), (29, 1), (30, 0), (500, 0)] {
            assert_eq!(series.last(at(second)).sum, sum, "{second}");
        }
        series.add(100, at(45));
        assert_eq!(series.last(at(46)), Aggregate::default(), "a window without values is not passed over");
        assert_eq!((series.total.count, series.total.sum), (4, 113));
    }

    #[test]
    fn figures_of_a_window() {
        let mut a = Aggregate::default();
        assert_eq!((a.mean(), a.standard_deviation()), (0.0, 0.0));
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            a.add(value);
        }
        assert_eq!((a.min, a.max, a.mean(), a.rate()), (2, 9, 5.0, 4.0));
        assert!((a.standard_deviation() - 2.138).abs() < 0.001);
    }
}
