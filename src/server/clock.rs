//! The wall clock as a server knows it: read at each turn, advanced between turns by the monotonic clock, and compared with the
//! last stamp in the region's log (server.md 4.6). Refuses to know whether it is right: `peer_clocks` asks others.

use model::time::{MAX_STEP_BACK, Mono, Now, Span, Wall};

/// A clock that differs by more from where it was expected to be has been set.
const MAX_DRIFT: Span = Span::minutes(10);
/// A server that begins to lead so long after the last stamp may have slept, or have a wrong clock.
const MAX_SILENCE: Span = Span::hours(24);

/// The newest wall time known, and when that was.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    wall: Wall,
    mono: Mono,
    /// The last stamp that was applied; `NEVER`: none is known.
    stamp: Wall,
    /// When that stamp was applied; for one from before this process, when the process began.
    stamped: Option<Mono>,
    /// When the clock last jumped, or came into doubt as its server began to lead, unless it was confirmed to be right since.
    jumped_at: Option<Mono>,
    /// When the clock last jumped: comparisons from before that are void.
    moved: Option<Mono>,
    /// Other servers will say whether it is right.
    has_other_voters: bool,
}

impl Default for WallClock {
    fn default() -> Self {
        let (wall, mono) = (Wall::NEVER, Mono::default());
        WallClock {
            wall,
            mono,
            stamp: wall,
            stamped: None,
            jumped_at: None,
            moved: None,
            has_other_voters: false,
        }
    }
}

impl WallClock {
    pub fn set(&mut self, now: Now, has_other_voters: bool) {
        self.has_other_voters = has_other_voters;
        self.stamped.get_or_insert(now.mono);
        let Some(wall) = now.wall else { return };
        let by = if self.is_set() { wall - self.at(now.mono) } else { Span::ZERO };
        if by > MAX_DRIFT || by < Span(-MAX_DRIFT.0) {
            tracing::warn!(target: "nomad", %by, "the clock was set: it is in doubt for a while");
            (self.jumped_at, self.moved) = (Some(now.mono), Some(now.mono));
        }
        (self.wall, self.mono) = (wall, now.mono);
    }

    pub fn is_set(&self) -> bool {
        !self.wall.is_never()
    }

    /// The clock's time, or what it would be if it had gone on since it was last known.
    pub fn at(&self, mono: Mono) -> Wall {
        self.wall + mono.since(self.mono)
    }

    /// When stamps will show that time. `None`: it was never set.
    pub fn when(&self, wall: Wall) -> Option<Mono> {
        let held = self.held_since().map(|stamped| stamped.after(wall - self.stamp));
        held.or_else(|| self.is_set().then(|| self.mono.after(wall - self.wall)))
    }

    /// An entry with this stamp was applied. `None`: before this process began.
    pub fn observe_stamp(&mut self, stamp: Option<Wall>, mono: Option<Mono>) {
        if let Some(stamp) = stamp.filter(|stamp| !stamp.is_never()) {
            (self.stamp, self.stamped) = (stamp, mono);
        }
    }

    /// The stamp of a command. A machine that does not know the time, or whose time is in doubt, goes on from the last one.
    pub fn stamp(&self, mono: Mono) -> Wall {
        if (!self.is_set() && !self.stamp.is_never()) || self.is_in_doubt() {
            return self.stamp + mono.since(self.stamped.unwrap_or(mono));
        }
        let at = self.at(mono);
        if self.stamp > at && self.stamp - at <= MAX_STEP_BACK { self.stamp } else { at }
    }

    /// This server begins to lead. Its clock counts as one that has jumped if it differs from the last stamp plus the time since. Where no
    /// other server can be asked, only a clock that is far ahead does: the last stamp may be from before the machine was off.
    pub fn begin_to_lead(&mut self, mono: Mono) {
        if !self.is_set() || self.stamp.is_never() {
            return;
        }
        let ahead = self.at(mono) - self.stamp;
        let off = ahead.0.saturating_sub(mono.since(self.stamped.unwrap_or(mono)).0);
        let in_doubt = if self.has_other_voters {
            off.unsigned_abs() > MAX_DRIFT.0.unsigned_abs()
        } else {
            ahead > MAX_SILENCE
        };
        if in_doubt {
            self.jumped_at = Some(mono);
        }
    }

    /// A majority of servers shows the same time.
    pub fn confirm(&mut self) {
        self.jumped_at = None;
    }

    /// The time is in doubt: stamps go on from the last one until other servers confirm the clock.
    pub fn is_in_doubt(&self) -> bool {
        self.has_other_voters && self.jumped_at.is_some() && !self.stamp.is_never()
    }

    /// When the last stamp was applied, if stamps go on from it.
    fn held_since(&self) -> Option<Mono> {
        self.stamped.filter(|_| self.is_in_doubt())
    }

    pub fn moved(&self) -> Option<Mono> {
        self.moved
    }

    /// Since when the time is in doubt.
    pub fn jumped_at(&self) -> Option<Mono> {
        self.jumped_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Wall = Wall(1_767_225_600_000_000_000);

    fn mono(seconds: i64) -> Mono {
        Mono(1).after(Span::seconds(seconds))
    }

    fn shows(clock: &mut WallClock, seconds: i64, wall: Wall) {
        clock.set(Now { mono: mono(seconds), wall: Some(wall) }, false);
    }

    #[test]
    fn a_clock_that_is_set_by_minutes_has_jumped() {
        let mut clock = WallClock::default();
        shows(&mut clock, 0, T0);
        shows(&mut clock, 3600, T0 + Span::minutes(69));
        assert_eq!(clock.jumped_at(), None, "it was off by nine minutes");
        shows(&mut clock, 3601, T0);
        assert_eq!(clock.jumped_at(), Some(mono(3601)), "backwards");
        clock.confirm();
        shows(&mut clock, 3602, T0 + Span::hours(87_600));
        assert_eq!(clock.jumped_at(), Some(mono(3602)), "forwards");
        clock.confirm();
        assert_eq!(clock.moved(), Some(mono(3602)), "what others told before stays without meaning");
    }

    #[test]
    fn stamps_do_not_go_back_by_little() {
        let mut clock = WallClock::default();
        shows(&mut clock, 0, T0);
        clock.observe_stamp(Some(T0 + Span::minutes(4)), Some(mono(1)));
        assert_eq!(clock.stamp(mono(2)), T0 + Span::minutes(4));
        assert_eq!(clock.stamp(mono(600)), T0 + Span::minutes(10), "its own clock has caught up");
        clock.observe_stamp(Some(T0 + Span::hours(87_600)), Some(mono(601)));
        assert_eq!(clock.stamp(mono(602)), T0 + Span::seconds(602), "what was wrong by years is not kept");
    }

    #[test]
    fn stamps_follow_no_leap_until_other_servers_agree() {
        let mut clock = WallClock::default();
        let set = |clock: &mut WallClock, seconds, wall| {
            clock.set(Now { mono: mono(seconds), wall: Some(wall) }, true);
        };
        set(&mut clock, 0, T0);
        clock.observe_stamp(Some(T0), Some(mono(0)));
        for (at, jumped_to) in [(10, T0 + Span::hours(87_600)), (20, T0 + Span::hours(-87_600))] {
            set(&mut clock, at, jumped_to);
            assert_eq!(clock.stamp(mono(at + 5)), T0 + Span::seconds(at + 5));
            assert_eq!(clock.when(T0 + Span::seconds(60)), Some(mono(60)), "as stamps go on");
        }
        let right = T0 + Span::hours(3);
        set(&mut clock, 30, right);
        clock.confirm();
        assert_eq!(clock.stamp(mono(31)), right + Span::seconds(1));
        assert_eq!(clock.when(right + Span::seconds(60)), Some(mono(90)));
    }

    #[test]
    fn without_a_clock_stamps_go_on_from_the_last_one() {
        let mut clock = WallClock::default();
        clock.observe_stamp(Some(T0), Some(mono(10)));
        assert_eq!(clock.stamp(mono(70)), T0 + Span::minutes(1));
        clock.observe_stamp(Some(Wall::NEVER), Some(mono(80)));
        assert_eq!(clock.stamp(mono(80)), T0 + Span::seconds(70), "no stamp is none");
    }

    #[test]
    fn a_leader_days_after_the_last_stamp_doubts_its_clock() {
        let mut clock = WallClock::default();
        shows(&mut clock, 0, T0 + Span::hours(30));
        clock.begin_to_lead(mono(0));
        assert_eq!(clock.jumped_at(), None, "nothing is known of before");
        clock.observe_stamp(Some(T0 + Span::hours(7)), Some(mono(0)));
        clock.begin_to_lead(mono(0));
        assert_eq!(clock.jumped_at(), None, "23 hours");
        clock.observe_stamp(Some(T0), Some(mono(0)));
        clock.begin_to_lead(mono(5));
        assert_eq!(
            (clock.jumped_at(), clock.moved()),
            (Some(mono(5)), None),
            "what others told still counts"
        );
    }

    #[test]
    fn a_leader_among_others_doubts_a_clock_that_is_minutes_off() {
        for (shown, in_doubt) in
            [(-11, true), (-9, false), (9, false), (11, true), (-43_200, true), (540, true)]
        {
            let mut clock = WallClock::default();
            let wall = T0 + Span::minutes(60 + shown);
            clock.set(Now { mono: mono(3_600), wall: Some(wall) }, true);
            clock.observe_stamp(Some(T0), Some(mono(0)));
            clock.begin_to_lead(mono(3_600));
            assert_eq!(clock.jumped_at().is_some(), in_doubt, "{shown} minutes");
            let stamp = if in_doubt { T0 + Span::minutes(60) } else { wall };
            assert_eq!(clock.stamp(mono(3_600)), stamp, "{shown} minutes");
        }
    }
}
