//! A machine's wall clock: right, off by a step, drifting, or never set. Refuses to know who reads it.

use super::world::EPOCH;
use model::time::{Mono, Now, Span};

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// How far it was off at `since`; `None`: it was never set, and shows 1970.
    off: Option<Span>,
    /// By how much it runs too fast, in millionths.
    drift_ppm: i64,
    since: Mono,
    /// By how much more it is off when its machine boots next.
    at_boot: Option<Span>,
}

impl Clock {
    pub fn right() -> Self {
        Clock { off: Some(Span::ZERO), drift_ppm: 0, since: Mono::default(), at_boot: None }
    }

    fn off_at(&self, now: Mono) -> Option<Span> {
        let drifted = now.since(self.since).as_nanos() / 1_000_000 * self.drift_ppm;
        self.off.map(|off| off + Span(drifted))
    }

    pub fn at(&self, now: Mono) -> Now {
        let truth = EPOCH + Span(now.0 as i64);
        Now { mono: now, wall: self.off_at(now).map(|off| truth + off) }
    }

    pub fn step(&mut self, by: Span, now: Mono) {
        *self = Clock { off: Some(self.off_at(now).unwrap_or(Span::ZERO) + by), since: now, ..*self };
    }

    pub fn drift(&mut self, ppm: i64, now: Mono) {
        *self = Clock { off: self.off_at(now), drift_ppm: ppm, since: now, ..*self };
    }

    pub fn step_at_boot(&mut self, by: Span) {
        self.at_boot = Some(by);
    }

    /// By how much the clock is off when its machine boots.
    pub fn take_step_at_boot(&mut self) -> Option<Span> {
        self.at_boot.take()
    }

    pub fn lose(&mut self) {
        self.off = None;
    }
}
