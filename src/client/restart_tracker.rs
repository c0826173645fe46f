//! Whether a task that ended is started again, and when (client.md 9.6). Counts in memory only: an agent's restart opens a
//! new window (client.md 9.1).

use model::job::{RestartMode, RestartPolicy};
use model::time::{Mono, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOutcome {
    Exited {
        success: bool,
    },
    /// The process never existed.
    StartFailed {
        retryable: bool,
    },
    /// Ended by a reboot of the machine: not counted as a failure.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartDecision {
    /// Completed: not started again.
    Done,
    Fail {
        reason: String,
    },
    Restart {
        delay: Span,
        reason: &'static str,
    },
}

pub const WITHIN_POLICY: &str = "Restart within policy";
pub const AFTER_DELAY: &str = "Exceeded allowed attempts, applying a delay";
pub const AFTER_REBOOT: &str = "Restart after the machine's reboot";

#[derive(Clone, Debug)]
pub struct RestartTracker {
    count: i64,
    window_start: Mono,
}

impl RestartTracker {
    pub fn new(now: Mono) -> RestartTracker {
        RestartTracker { count: 0, window_start: now }
    }

    /// `jitter` is any random number; it adds up to a quarter of the policy's delay.
    pub fn decide(
        &mut self,
        policy: &RestartPolicy,
        restarts_on_success: bool,
        outcome: TaskOutcome,
        now: Mono,
        jitter: u64,
    ) -> RestartDecision {
        let done = outcome == (TaskOutcome::Exited { success: true }) && !restarts_on_success;
        if outcome == TaskOutcome::Lost {
            return RestartDecision::Restart { delay: Span::ZERO, reason: AFTER_REBOOT };
        }
        if policy.attempts <= 0 {
            return if done { RestartDecision::Done } else { fail("Policy allows no restarts") };
        }
        if now > self.window_start.after(policy.interval) {
            (self.count, self.window_start) = (0, now);
        }
        self.count = self.count.saturating_add(1);
        if outcome == (TaskOutcome::StartFailed { retryable: false }) {
            fail("Error was unrecoverable")
        } else if done {
            RestartDecision::Done
        } else if self.count <= policy.attempts {
            RestartDecision::Restart { delay: jittered(policy.delay, jitter), reason: WITHIN_POLICY }
        } else if policy.mode == RestartMode::Delay {
            let delay = self.window_start.after(policy.interval).since(now);
            RestartDecision::Restart { delay, reason: AFTER_DELAY }
        } else {
            let RestartPolicy { attempts, interval, .. } = policy;
            fail(format!("Exceeded allowed attempts {attempts} in interval {interval} and mode is \"fail\""))
        }
    }
}

fn fail(reason: impl Into<String>) -> RestartDecision {
    RestartDecision::Fail { reason: reason.into() }
}

/// `delay + rand[0, delay) / 4`.
fn jittered(delay: Span, jitter: u64) -> Span {
    let nanos = delay.as_nanos().max(0);
    let extra = jitter.checked_rem(nanos as u64).unwrap_or(0) / 4;
    Span::nanos(nanos.saturating_add(extra as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(attempts: i64, interval: i64, delay: i64, mode: RestartMode) -> RestartPolicy {
        RestartPolicy {
            attempts,
            interval: Span::seconds(interval),
            delay: Span::seconds(delay),
            mode,
            render_templates: false,
        }
    }

    fn at(seconds: i64) -> Mono {
        Mono(1_000_000_000_000).after(Span::seconds(seconds))
    }

    const BAD: TaskOutcome = TaskOutcome::Exited { success: false };
    const GOOD: TaskOutcome = TaskOutcome::Exited { success: true };

    #[test]
    fn a_service_fails_at_the_third_exit() {
        let mut tracker = RestartTracker::new(at(0));
        let policy = policy(2, 1800, 15, RestartMode::Fail);
        for (time, jitter) in [(1, 0), (20, u64::MAX)] {
            match tracker.decide(&policy, true, BAD, at(time), jitter) {
                RestartDecision::Restart { delay, reason: WITHIN_POLICY } => {
                    assert!(delay >= Span::seconds(15) && delay < Span::millis(18_750), "{delay}");
                }
                other => panic!("{other:?}"),
            }
        }
        let reason = "Exceeded allowed attempts 2 in interval 30m0s and mode is \"fail\"";
        assert_eq!(tracker.decide(&policy, true, BAD, at(40), 0), fail(reason));
    }

    #[test]
    fn the_delay_has_up_to_a_quarter_of_jitter() {
        let seconds = |s: u64| s * 1_000_000_000;
        for (jitter, millis) in [(0, 16_000), (8, 18_000), (12, 19_000), (16, 16_000), (24, 18_000)] {
            assert_eq!(jittered(Span::seconds(16), seconds(jitter)), Span::millis(millis), "{jitter}");
        }
        assert_eq!(jittered(Span::ZERO, u64::MAX), Span::ZERO);
    }

    #[test]
    fn mode_delay_waits_for_the_next_window() {
        let mut tracker = RestartTracker::new(at(0));
        let policy = policy(2, 1800, 15, RestartMode::Delay);
        tracker.decide(&policy, true, BAD, at(1), 0);
        tracker.decide(&policy, true, BAD, at(20), 0);
        let third = tracker.decide(&policy, true, BAD, at(60), 7);
        assert_eq!(third, RestartDecision::Restart { delay: Span::seconds(1740), reason: AFTER_DELAY });
    }

    #[test]
    fn a_new_window_counts_anew() {
        let mut tracker = RestartTracker::new(at(0));
        let policy = policy(1, 10, 1, RestartMode::Fail);
        for time in [2, 13] {
            let decision = tracker.decide(&policy, true, BAD, at(time), 0);
            assert_eq!(decision, RestartDecision::Restart { delay: Span::seconds(1), reason: WITHIN_POLICY });
        }
        assert!(matches!(tracker.decide(&policy, true, BAD, at(14), 0), RestartDecision::Fail { .. }));
    }

    #[test]
    fn each_outcome_has_its_restart_decision() {
        let none = || fail("Policy allows no restarts");
        let restart = || RestartDecision::Restart { delay: Span::seconds(1), reason: WITHIN_POLICY };
        let cases = [
            (0, true, GOOD, none()),
            (0, false, GOOD, RestartDecision::Done),
            (0, false, BAD, none()),
            (0, true, TaskOutcome::StartFailed { retryable: true }, none()),
            (1, false, GOOD, RestartDecision::Done),
            (1, true, GOOD, restart()),
            (1, false, BAD, restart()),
            (1, true, TaskOutcome::StartFailed { retryable: true }, restart()),
            (1, true, TaskOutcome::StartFailed { retryable: false }, fail("Error was unrecoverable")),
            (
                0,
                true,
                TaskOutcome::Lost,
                RestartDecision::Restart { delay: Span::ZERO, reason: AFTER_REBOOT },
            ),
        ];
        for (attempts, on_success, outcome, expected) in cases {
            let policy = policy(attempts, 10, 1, RestartMode::Fail);
            let decision = RestartTracker::new(at(0)).decide(&policy, on_success, outcome, at(1), 0);
            assert_eq!(decision, expected, "{attempts} {on_success} {outcome:?}");
        }
    }
}
