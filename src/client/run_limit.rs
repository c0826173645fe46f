//! `max_run_duration`: how long an allocation may take before its client ends it (client.md 5.7).
//!
//! Refuses to know: the tasks.

use model::time::{Mono, Now, Span, Wall};

/// The description of an allocation that took too long.
pub const EXCEEDED: &str = "allocation exceeded max_run_duration";

/// How long an allocation has been on its node: `then`, at the moment `at`.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    at: Mono,
    then: Span,
}

impl Age {
    /// Where the clock is not set, or was not when the allocation came, the age counts from now.
    pub fn new(received: Wall, now: Now) -> Age {
        let since = |wall: Wall| Span::nanos((wall - received).as_nanos().max(0));
        let then = now.wall.filter(|_| !received.is_never()).map_or(Span::ZERO, since);
        Age { at: now.mono, then }
    }

    /// When the allocation reaches that age.
    pub fn reaches(self, limit: Span) -> Mono {
        self.at.after(Span::nanos(limit.as_nanos().saturating_sub(self.then.as_nanos())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(mono: u64, wall: Option<i64>) -> Now {
        Now { mono: Mono(mono), wall: wall.map(Wall) }
    }

    #[test]
    fn an_age_counts_from_now_without_a_valid_clock() {
        let limit = Span::nanos(100);
        assert_eq!(Age::new(Wall(1_000), now(5, Some(1_040))).reaches(limit), Mono(65));
        assert_eq!(Age::new(Wall(1_000), now(5, Some(1_200))).reaches(limit), Mono(5), "long ago");
        assert_eq!(Age::new(Wall(1_000), now(5, Some(900))).reaches(limit), Mono(105), "the clock went back");
        assert_eq!(Age::new(Wall(1_000), now(5, None)).reaches(limit), Mono(105));
        assert_eq!(Age::new(Wall::NEVER, now(5, Some(900))).reaches(limit), Mono(105));
    }
}
