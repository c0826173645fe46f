//! When a failed allocation may be placed anew: the delays, the window of attempts, and what a replacement remembers of
//! those before it (scheduler.md 9). Refuses to know what time it is, and who replaces.

use super::id::{AllocId, NodeId};
use super::job::{DelayFunction, ReschedulePolicy};
use super::time::{Span, Wall};
use serde::{Deserialize, Serialize};

/// An unlimited policy needs the last two delays only; more are kept for those who read them.
const KEPT_WHEN_UNLIMITED: usize = 5;

/// One replacement of a failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reschedule {
    pub at: Wall,
    pub previous_alloc: AllocId,
    pub previous_node: NodeId,
    /// How long it was waited for.
    pub delay: Span,
}

impl ReschedulePolicy {
    pub fn enabled(&self) -> bool {
        self.unlimited || self.attempts > 0
    }

    /// How long a failure at `failed_at` is waited for, after these replacements.
    pub fn next_delay(&self, before: &[Reschedule], failed_at: Wall) -> Span {
        let Some(last) = before.last() else { return self.delay };
        let second_last = before.len().checked_sub(2).map(|i| before[i].delay);
        let delay = match (self.delay_function, second_last) {
            (DelayFunction::Constant, _) => return self.delay,
            (DelayFunction::Exponential, _) => last.delay + last.delay,
            (DelayFunction::Fibonacci, None) => self.delay,
            // the series began anew
            (DelayFunction::Fibonacci, Some(s)) if s == self.max_delay && last.delay == self.delay => {
                last.delay
            }
            (DelayFunction::Fibonacci, Some(s)) => s + last.delay,
        };
        if self.max_delay <= Span::ZERO || delay <= self.max_delay {
            return delay;
        }
        // it lasted for longer than anybody would have waited: begin anew
        if failed_at - last.at > self.max_delay { self.delay } else { self.max_delay }
    }

    /// Whether a failure at `failed_at` may be made good at all.
    pub fn allows(&self, before: &[Reschedule], failed_at: Wall) -> bool {
        if self.unlimited || self.attempts <= 0 || before.is_empty() {
            return self.enabled();
        }
        let recent = before.iter().filter(|r| failed_at - r.at < self.interval).count();
        let tried = i64::try_from(recent).unwrap_or(i64::MAX);
        tried < self.attempts && self.next_delay(before, failed_at) < self.interval
    }

    /// What the replacement of `of` remembers: what still counts, and this one.
    pub fn remembered(&self, before: &[Reschedule], of: Reschedule) -> Vec<Reschedule> {
        let skipped = if self.unlimited { before.len().saturating_sub(KEPT_WHEN_UNLIMITED) } else { 0 };
        let counts = |r: &&Reschedule| self.unlimited || of.at - r.at <= self.interval;
        before[skipped..].iter().filter(counts).copied().chain([of]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobType;

    const START: Wall = Wall(1_700_000_000_000_000_000);

    fn policy(delay_function: DelayFunction, delay: i64, max_delay: i64) -> ReschedulePolicy {
        ReschedulePolicy {
            attempts: 0,
            interval: Span::ZERO,
            delay: Span::seconds(delay),
            delay_function,
            max_delay: Span::seconds(max_delay),
            unlimited: true,
        }
    }

    fn at(delay: Span, when: Wall) -> Reschedule {
        Reschedule { at: when, previous_alloc: AllocId::default(), previous_node: NodeId::default(), delay }
    }

    /// The first `n` delays, in seconds, of an allocation that fails at once every time.
    fn delays(policy: &ReschedulePolicy, n: usize) -> Vec<i64> {
        let (mut before, mut now) = (vec![], START);
        for _ in 0..n {
            let delay = policy.next_delay(&before, now);
            now = now + delay;
            before.push(at(delay, now));
        }
        before.iter().map(|r| r.delay.0 / 1_000_000_000).collect()
    }

    #[test]
    fn r20_reschedule_delays() {
        use DelayFunction::{Constant, Exponential, Fibonacci};
        let cases: [(DelayFunction, i64, i64, &[i64]); 5] = [
            (Exponential, 30, 3600, &[30, 60, 120, 240, 480, 960, 1920, 3600, 3600]),
            (Fibonacci, 5, 50, &[5, 5, 10, 15, 25, 40, 50, 50]),
            (Fibonacci, 30, 600, &[30, 30, 60, 90, 150, 240, 390, 600, 600]),
            (Constant, 5, 0, &[5, 5, 5]),
            (Exponential, 30, 0, &[30, 60, 120, 240]),
        ];
        for (function, delay, max, want) in cases {
            assert_eq!(delays(&policy(function, delay, max), want.len()), want, "{function:?} {delay} {max}");
        }
    }

    #[test]
    fn r20_delays_start_over_after_outliving_the_max_delay() {
        let (max, first) = (Span::seconds(50), Span::seconds(5));
        for function in [DelayFunction::Exponential, DelayFunction::Fibonacci] {
            let policy = policy(function, 5, 50);
            let mut before = vec![at(max, START), at(max, START)];
            let just_as_long = START + max;
            assert_eq!(policy.next_delay(&before, just_as_long), max, "{function:?}");
            let longer = just_as_long + Span::nanos(1);
            assert_eq!(policy.next_delay(&before, longer), first, "{function:?}");
            before.push(at(first, longer));
            let after: Vec<_> = [0, 1]
                .map(|_| {
                    let delay = policy.next_delay(&before, longer);
                    before.push(at(delay, longer));
                    delay
                })
                .into();
            let want = if function == DelayFunction::Fibonacci { [5, 10] } else { [10, 20] };
            assert_eq!(after, want.map(Span::seconds), "{function:?}");
        }
    }

    #[test]
    fn r9_attempts_count_within_the_interval() {
        let batch = ReschedulePolicy::default_for(JobType::Batch).expect("batch jobs have one");
        assert!(batch.allows(&[], START), "the first failure");
        let before = [at(batch.delay, START)];
        let within = START + Span::hours(24) + Span(-1);
        for (failed_at, allowed) in [(START, false), (within, false), (START + Span::hours(24), true)] {
            assert_eq!(batch.allows(&before, failed_at), allowed, "{failed_at:?}");
        }
        let slow = ReschedulePolicy { attempts: 9, interval: Span::seconds(4), ..batch };
        assert!(!slow.allows(&before, START + Span::hours(1)), "a delay that is longer than the interval");
    }

    #[test]
    fn r9_no_attempts_and_not_unlimited_is_never() {
        let off = ReschedulePolicy { unlimited: false, ..policy(DelayFunction::Constant, 5, 0) };
        assert!(!off.enabled() && !off.allows(&[], START) && !off.allows(&[at(off.delay, START)], START));
        let unlimited = policy(DelayFunction::Constant, 5, 0);
        assert!(unlimited.allows(&[at(Span::ZERO, START); 40], START));
    }

    #[test]
    fn r9_reschedule_trackers_keep_recent_events_alone() {
        let unlimited = policy(DelayFunction::Constant, 5, 0);
        let many: Vec<_> = (0..9).map(|n| at(Span::ZERO, START + Span::hours(n))).collect();
        let new = at(Span::ZERO, START + Span::hours(9));
        let kept = unlimited.remembered(&many, new);
        assert_eq!((kept.len(), kept[0], kept[5]), (6, many[4], new), "the last five and this one");
        let limited =
            ReschedulePolicy { unlimited: false, attempts: 3, interval: Span::hours(2), ..unlimited };
        assert_eq!(limited.remembered(&many, new), [many[7], many[8], new], "within the interval");
    }
}
