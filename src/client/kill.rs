//! The order in which an allocation's tasks are stopped. Refuses to know how a task is.

use super::lifecycle::Role;
use model::time::Mono;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPhase {
    Delay { until: Mono },
    Leader,
    Others,
    Sidecars,
    Done,
}

/// The allocation is being stopped: first the leader, then the others, sidecars last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillPlan {
    pub phase: KillPhase,
    /// Poststop tasks do not run any more either.
    pub poststop_too: bool,
    /// No shutdown delays.
    pub hurry: bool,
}

impl KillPlan {
    pub fn means(&self, role: Role) -> bool {
        role != Role::Poststop || self.poststop_too
    }
}
