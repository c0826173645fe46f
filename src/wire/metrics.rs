//! Metrics that a brain publishes with its status: gauges as they are now, counters and durations since the
//! start and by windows of ten seconds (http-api.md 12).
//!
//! Refuses to know: clocks, and how any of it is written. Names are those of the field without the leading `nomad.`; their
//! number is bounded by the code that names them: none holds an id. A brain counts in arrays over its own enum of names
//! (`metric_names!`): adding to a series looks nothing up and allocates nothing. `MetricsSnapshot` is what is published of it.

use model::time::{Mono, Span};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The interval that counters and samples are summed up over.
const WINDOW: Span = Span::seconds(10);

pub type Name = Cow<'static, str>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsSnapshot {
    pub gauges: BTreeMap<Name, i64>,
    /// How often something happened.
    pub counters: BTreeMap<Name, Series>,
    pub samples: BTreeMap<Name, Sample>,
}

/// An enum of metrics: each variant with its name, told once.
#[macro_export]
macro_rules! metric_names {
    ($(#[$about:meta])* $visibility:vis enum $Enum:ident { $($Variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $Enum { $($Variant,)+ }

        impl $Enum {
            $visibility const NAMES: &[&str] = &[$($name,)+];
        }
    };
}

/// A counter or the values of a sample: count, sum, minimum, maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Series {
    pub total: Aggregate,
    /// The number of the window that `current` is of.
    window: u64,
    current: Aggregate,
    previous: Aggregate,
}

/// Durations in nanoseconds, and how those of this window and the last are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub series: Series,
    current: Spread,
    previous: Spread,
}

/// How many values lie in each bucket: 16 for each power of two, so that a value is told with an error of 3 % at most. No
/// buckets before the first value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Spread(Option<Box<[u32; BUCKETS]>>);

/// Below 1 µs all is the same, and above 18 minutes.
const FIRST_POWER: u32 = 10;
const POWERS: usize = 30;
const BITS: u32 = 4;
const BUCKETS: usize = POWERS << BITS;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
    pub sum_of_squares: u128,
}

impl MetricsSnapshot {
    pub fn gauge(&mut self, name: impl Into<Name>, value: i64) {
        self.gauges.insert(name.into(), value);
    }

    pub fn count(&mut self, name: impl Into<Name>, now: Mono) {
        self.counters.entry(name.into()).or_default().add(1, now);
    }

    pub fn sample(&mut self, name: impl Into<Name>, took: Span, now: Mono) {
        self.samples.entry(name.into()).or_default().add(took, now);
    }
}

impl Sample {
    pub fn add(&mut self, took: Span, now: Mono) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(0);
        let before = self.series.window;
        self.series.add(nanos, now);
        if self.series.window != before {
            std::mem::swap(&mut self.current, &mut self.previous);
            self.current.clear();
            if self.series.window != before + 1 {
                self.previous.clear();
            }
        }
        self.current.add(nanos);
    }

    /// The value that the share `q` of the values of this window and the last do not exceed; none without values.
    pub fn quantile(&self, q: f64, now: Mono) -> Option<f64> {
        let (aggregates, spreads): ([Aggregate; 2], &[&Spread]) =
            match window(now).saturating_sub(self.series.window) {
                0 => ([self.series.previous, self.series.current], &[&self.previous, &self.current]),
                1 => ([self.series.current, Aggregate::default()], &[&self.current]),
                _ => return None,
            };
        quantile(q, aggregates[0].plus(aggregates[1]), spreads)
    }

    /// The same of the last window that is over at `now`, which `Series::last` is of.
    pub fn last_quantile(&self, q: f64, now: Mono) -> Option<f64> {
        let spread = match window(now).checked_sub(self.series.window) {
            Some(0) => &self.previous,
            Some(1) => &self.current,
            _ => return None,
        };
        quantile(q, self.series.last(now), &[spread])
    }
}

/// `all`: what is counted in these spreads together.
fn quantile(q: f64, all: Aggregate, spreads: &[&Spread]) -> Option<f64> {
    let rank = (q * all.count as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    for bucket in 0..BUCKETS {
        seen += spreads.iter().map(|s| s.count(bucket)).sum::<u64>();
        if seen >= rank {
            return Some(middle(bucket).clamp(all.min as f64, all.max as f64));
        }
    }
    None
}

impl Spread {
    fn add(&mut self, nanos: u64) {
        let counts = self.0.get_or_insert_with(|| Box::new([0; BUCKETS]));
        let count = &mut counts[bucket(nanos)];
        *count = count.saturating_add(1);
    }

    fn clear(&mut self) {
        self.0.iter_mut().for_each(|counts| counts.fill(0));
    }

    fn count(&self, bucket: usize) -> u64 {
        self.0.as_ref().map_or(0, |counts| u64::from(counts[bucket]))
    }
}

/// The power of two below the value, and the bits that follow.
fn bucket(nanos: u64) -> usize {
    let value = nanos.clamp(1 << FIRST_POWER, (1 << (FIRST_POWER + POWERS as u32)) - 1);
    let power = value.ilog2();
    let bits = (value >> (power - BITS)) as usize & ((1 << BITS) - 1);
    (((power - FIRST_POWER) as usize) << BITS) + bits
}

fn middle(bucket: usize) -> f64 {
    let (power, bits) = (FIRST_POWER + (bucket >> BITS) as u32, bucket & ((1 << BITS) - 1));
    let step = (1u64 << (power - BITS)) as f64;
    (1u64 << power) as f64 + (bits as f64 + 0.5) * step
}

impl Series {
    pub fn add(&mut self, value: u64, now: Mono) {
        self.enter(window(now));
        self.current.add(value);
        self.total.add(value);
    }

    /// Windows follow each other; one that is over already is not opened again.
    fn enter(&mut self, window: u64) {
        if window <= self.window {
            return;
        }
        self.previous = if window == self.window + 1 { self.current } else { Aggregate::default() };
        self.current = Aggregate::default();
        self.window = window;
    }

    /// The sum of what is counted in two places.
    pub fn plus(mut self, mut other: Series) -> Series {
        let window = self.window.max(other.window);
        self.enter(window);
        other.enter(window);
        Series {
            total: self.total.plus(other.total),
            window,
            current: self.current.plus(other.current),
            previous: self.previous.plus(other.previous),
        }
    }

    /// The aggregate of the last window that is over at `now`.
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

    fn plus(self, other: Aggregate) -> Aggregate {
        let min = match (self.count, other.count) {
            (0, _) => other.min,
            (_, 0) => self.min,
            _ => self.min.min(other.min),
        };
        Aggregate {
            count: self.count + other.count,
            sum: self.sum.saturating_add(other.sum),
            min,
            max: self.max.max(other.max),
            sum_of_squares: self.sum_of_squares.saturating_add(other.sum_of_squares),
        }
    }

    /// For each second of a window.
    pub fn rate(&self) -> f64 {
        self.sum as f64 * 1e9 / WINDOW.as_nanos() as f64
    }

    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The sample standard deviation: divided by one less than there are values.
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
    fn metric_windows_rotate_and_expire() {
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
    fn metrics_of_a_window() {
        let mut a = Aggregate::default();
        assert_eq!((a.mean(), a.standard_deviation()), (0.0, 0.0));
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            a.add(value);
        }
        assert_eq!((a.min, a.max, a.mean(), a.rate()), (2, 9, 5.0, 4.0));
        assert!((a.standard_deviation() - 2.138).abs() < 0.001);
    }

    #[test]
    fn quantiles_cover_the_current_and_the_previous_window() {
        let mut sample = Sample::default();
        assert_eq!(sample.quantile(0.5, at(0)), None, "nothing was sampled");
        for millis in 1..=100 {
            sample.add(Span::millis(millis), at(1));
        }
        for (q, millis) in [(0.5, 50.0), (0.9, 90.0), (0.99, 99.0), (1.0, 100.0)] {
            let found = sample.quantile(q, at(2)).unwrap() / 1e6;
            assert!((found - millis).abs() <= millis * 0.03, "{q}: {found} ms");
        }
        assert_eq!(sample.last_quantile(0.5, at(2)), None, "its window is not over");
        let last = |sample: &Sample, q| sample.last_quantile(q, at(12)).unwrap();
        assert_eq!(last(&sample, 0.9), sample.quantile(0.9, at(2)).unwrap(), "it is over");
        sample.add(Span::seconds(1), at(11));
        assert!(last(&sample, 1.0) < 0.2e9, "the present window is left out");
        assert!(sample.quantile(1.0, at(12)).unwrap() > 0.9e9, "the newest counts");
        assert!(sample.quantile(0.5, at(12)).unwrap() < 60e6, "the last window counts, too");
        assert_eq!(sample.quantile(0.5, at(25)), Some(1e9), "the first window is over");
        assert_eq!(sample.quantile(0.5, at(31)), None);
        sample.add(Span::millis(3), at(100));
        assert_eq!(sample.quantile(0.0, at(101)), Some(3e6), "old buckets are empty");
    }

    #[test]
    fn every_duration_has_a_narrow_bucket() {
        for nanos in [0, 1, 1023, 1024, 1 << 20, 123_456_789, (1 << 40) - 1, 1 << 40, u64::MAX] {
            let told = middle(bucket(nanos));
            let meant = nanos.clamp(1 << 10, (1 << 40) - 1) as f64;
            assert!((told - meant).abs() <= meant * 0.032, "{nanos}: {told}");
        }
    }

    #[test]
    fn series_are_added_window_by_window() {
        let (mut early, mut late) = (Series::default(), Series::default());
        early.add(3, at(1));
        (0..4).for_each(|_| late.add(1, at(11)));
        for sum in [early.plus(late), late.plus(early)] {
            assert_eq!((sum.total.sum, sum.last(at(12)).sum, sum.last(at(21)).sum), (7, 3, 4));
            assert_eq!((sum.total.min, sum.total.max), (1, 3));
        }
    }
}
