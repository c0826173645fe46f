//! The order in which an allocation's tasks are killed (client.md 10.1).

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
