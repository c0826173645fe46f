//! Time as values: a monotonic instant, a wall-clock instant and a span. Nobody here asks what time it is.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// Monotonic time in nanoseconds since some start that only this process knows. Strictly increasing per brain; never
/// stored and never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// `self + span`, held within range; a negative span counts as zero.
    pub fn after(self, span: Span) -> Mono {
        Mono(self.0.saturating_add(span.0.max(0) as u64))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub fn since(self, earlier: Mono) -> Span {
        Span(i64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(i64::MAX))
    }
}

/// Wall-clock time in nanoseconds since 1970-01-01T00:00:00Z. The leader stamps it into commands; `apply` never reads a
/// clock. Zero means "never".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Wall(pub i64);

/// Stamps do not go back by less than this, as they would when the next leader's clock is a little behind. By more, a clock that was
/// wrong was set right, and stamps follow it.
pub const MAX_STEP_BACK: Span = Span::minutes(5);

impl Wall {
    pub const NEVER: Wall = Wall(0);

    /// Whether `span` has passed since this stamp. A stamp that lies further ahead than stamps may go back is of a clock that ran ahead
    /// and was set right since: it counts as old, instead of making callers wait until the true time has reached it.
    pub fn is_older_than(self, span: Span, now: Wall) -> bool {
        self + span <= now || self > now + MAX_STEP_BACK
    }

    pub fn is_never(self) -> bool {
        self.0 == 0
    }

    pub fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }
}

/// What a brain is told of the time at the start of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub mono: Mono,
    /// `None` while the clock is not to be trusted: a board without a battery boots in 1970.
    pub wall: Option<Wall>,
}

impl Now {
    /// For stamps: "never" when the clock is unset.
    pub fn stamp(self) -> Wall {
        self.wall.unwrap_or(Wall::NEVER)
    }
}

impl Add<Span> for Wall {
    type Output = Wall;

    fn add(self, span: Span) -> Wall {
        Wall(self.0.saturating_add(span.0))
    }
}

impl Sub for Wall {
    type Output = Span;

    fn sub(self, earlier: Wall) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// A length of time in nanoseconds, signed as Go's `time.Duration` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Span(pub i64);

impl Span {
    pub const ZERO: Span = Span(0);

    pub const fn nanos(n: i64) -> Span {
        Span(n)
    }

    pub const fn millis(n: i64) -> Span {
        Span(n * 1_000_000)
    }

    pub const fn seconds(n: i64) -> Span {
        Span(n * 1_000_000_000)
    }

    pub const fn minutes(n: i64) -> Span {
        Span::seconds(n * 60)
    }

    pub const fn hours(n: i64) -> Span {
        Span::seconds(n * 3600)
    }

    pub fn as_nanos(self) -> i64 {
        self.0
    }
}

impl Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

/// As Go prints a duration: `1h30m0s`, `15s`, `1.5s`, `250ms`, `0s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match total {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{total}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(total, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(total, 1_000_000)),
            _ => {
                let (minutes, rest) = (total / 60_000_000_000, total % 60_000_000_000);
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(f, "{}s", decimal(rest, 1_000_000_000))
            }
        }
    }
}

/// `n / unit` with as many decimals as it needs and no more.
fn decimal(n: u64, unit: u64) -> String {
    let (whole, mut rest) = (n / unit, n % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let mut width = unit.ilog10() as usize;
    while rest.is_multiple_of(10) {
        rest /= 10;
        width -= 1;
    }
    format!("{whole}.{rest:0width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_as_go_prints_them() {
        for (span, text) in [
            (Span(0), "0s"),
            (Span(1), "1ns"),
            (Span(1_100), "1.1µs"),
            (Span::millis(250), "250ms"),
            (Span::millis(1_500), "1.5s"),
            (Span::seconds(15), "15s"),
            (Span::minutes(30), "30m0s"),
            (Span::hours(24), "24h0m0s"),
            (Span(3_600_000_000_000 + 1), "1h0m0.000000001s"),
            (Span::seconds(-5), "-5s"),
        ] {
            assert_eq!(span.to_string(), text);
        }
    }

    #[test]
    fn a_stamp_of_a_clock_that_ran_ahead_is_as_old_as_any() {
        let (now, span) = (Wall(1_700_000_000_000_000_000), Span::seconds(60));
        for (at, is_older) in [
            (Span::seconds(-61), true),
            (Span::seconds(-60), true),
            (Span::seconds(-59), false),
            (Span::ZERO, false),
            (MAX_STEP_BACK, false),
            (MAX_STEP_BACK + Span(1), true),
            (Span::hours(24), true),
        ] {
            assert_eq!((now + at).is_older_than(span, now), is_older, "{at}");
        }
    }

    #[test]
    fn instants_never_leave_their_range() {
        assert_eq!(Mono(5).after(Span(-3)), Mono(5));
        assert_eq!(Mono(u64::MAX).after(Span(1)), Mono(u64::MAX));
        assert_eq!(Mono(5).since(Mono(9)), Span::ZERO);
        assert_eq!(Wall(-1).unix_seconds(), -1);
    }
}
