//! The order in which an allocation's tasks are killed, and how far each is with that (client.md 10.1, client.md 10.4).

use super::lifecycle::Role;
use model::time::{Mono, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPhase {
    Delay { until: Mono },
    Leader,
    Others,
    Sidecars,
    Done,
}

/// The allocation is being killed: first the leader, then the others, sidecars last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillPlan {
    pub phase: KillPhase,
    /// Poststop tasks are killed, too, and none starts any more.
    pub with_poststop: bool,
    /// Shutdown delays are skipped.
    pub skip_delays: bool,
}

impl KillPlan {
    pub fn includes(&self, role: Role) -> bool {
        role != Role::Poststop || self.with_poststop
    }
}

/// How far a task is with being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillState {
    No,
    /// The task's shutdown delay.
    Delayed {
        until: Mono,
    },
    /// `send_stop_at`: when the keeper is asked (again) to stop it. For good, unless a restart is wanted.
    Stopping {
        attempt: u32,
        send_stop_at: Mono,
    },
}

impl KillState {
    /// The keeper is asked at once.
    pub const STOP: KillState = KillState::Stopping { attempt: 0, send_stop_at: Mono(0) };
}

/// 5 s, 20 s, 80 s, then 120 s (client.md 10.4).
pub fn stop_backoff(attempt: u32) -> Span {
    Span::seconds(4i64.saturating_pow(attempt.min(8)).saturating_mul(5).min(120))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_stop_is_retried_with_backoff() {
        let seconds: Vec<_> = (0..5).map(|i| stop_backoff(i).as_nanos() / 1_000_000_000).collect();
        assert_eq!(seconds, [5, 20, 80, 120, 120]);
        assert_eq!(stop_backoff(u32::MAX), Span::seconds(120));
    }
}
