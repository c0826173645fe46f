//! Ends by time limits: no server answered for too long, or the allocation exceeds `max_run_duration` (client.md 5.7,
//! client.md 24.2).

use super::AllocRunner;
use crate::events;
use crate::lifecycle::Role;
use model::time::{Mono, Now};

impl AllocRunner {
    /// Kills what still runs; those tasks have failed.
    pub fn fail_disconnected(&mut self, now: Now) {
        let event = events::disconnected(now.stamp());
        self.tasks
            .iter_mut()
            .filter(|t| t.role != Role::Poststop)
            .for_each(|t| t.fail_disconnected(event.clone()));
        self.stop(now.mono, false, false);
    }

    /// When the allocation reaches its `max_run_duration`. `None`: it has no such limit, or has ended.
    pub(super) fn run_deadline(&self) -> Option<Mono> {
        let limit = self.record.assignment.group.max_run_duration?;
        (!self.has_ended()).then(|| self.age.reaches(limit))
    }

    /// Whether the allocation took longer than it may. Once true, always true: what a later version of its job allows comes too late.
    pub(super) fn exceeds_run_limit(&self, now: Mono) -> bool {
        self.has_exceeded_run_limit() || self.run_deadline().is_some_and(|at| at <= now)
    }

    pub(super) fn has_exceeded_run_limit(&self) -> bool {
        self.tasks.iter().any(|t| t.has_event(events::MAX_RUN_DURATION))
    }

    /// Ends the allocation; poststop tasks have no time left, either.
    pub(super) fn end_for_run_limit(&mut self, now: Now) {
        self.add_once(events::max_run_duration(now.stamp()), |_| true);
        self.stop(now.mono, true, self.record.assignment.no_shutdown_delay);
    }
}
