//! `stop_on_client_after`: allocations that are stopped when no server has answered for that time (client.md 24.2), because they
//! may have been replaced.

use super::Client;
use crate::alloc_runner::AllocRunner;
use model::time::{Mono, Now};

impl Client {
    /// The last answered heartbeat, or the agent's start.
    fn last_contact(&self) -> Mono {
        self.servers.last_ok().unwrap_or(self.agent_started)
    }

    /// Stops those allocations as failed: the servers would not replace complete ones.
    pub(super) fn stop_disconnected_allocs(&mut self, now: Now) {
        let last_contact = self.last_contact();
        for alloc in self.allocs.values_mut() {
            if stop_deadline(alloc, last_contact).is_some_and(|at| at <= now.mono) {
                alloc.fail_disconnected(now);
            }
        }
    }

    pub(super) fn disconnect_deadline(&self) -> Option<Mono> {
        self.allocs.values().filter_map(|a| stop_deadline(a, self.last_contact())).min()
    }
}

/// `None`: the allocation has no such limit, or is already ending.
fn stop_deadline(alloc: &AllocRunner, last_contact: Mono) -> Option<Mono> {
    let after = alloc.record.assignment.group.disconnect?.stop_on_client_after?;
    (!alloc.is_ending()).then(|| last_contact.after(after))
}
