//! Allocations that are to end by themselves when no server has answered for so long (client.md 24.2). Without a
//! server's word nobody can tell whether they were replaced.

use super::Client;
use crate::alloc::Alloc;
use model::time::{Mono, Now};

impl Client {
    /// When the servers were last heard of; an agent that has just started has heard of them then.
    fn in_touch(&self) -> Mono {
        self.servers.last_ok().unwrap_or(self.born)
    }

    /// It ends as failed: complete, it would be missed by nobody once the servers are back.
    pub(super) fn stop_what_is_alone(&mut self, now: Now) {
        let in_touch = self.in_touch();
        for alloc in self.allocs.values_mut() {
            if given_up(alloc, in_touch).is_some_and(|at| at <= now.mono) {
                alloc.give_up(now);
            }
        }
    }

    pub(super) fn alone_deadline(&self) -> Option<Mono> {
        self.allocs.values().filter_map(|a| given_up(a, self.in_touch())).min()
    }
}

/// None: it waits for the servers however long they are silent, or it ends already.
fn given_up(alloc: &Alloc, in_touch: Mono) -> Option<Mono> {
    let after = alloc.head.assignment.group.disconnect?.stop_on_client_after?;
    (!alloc.ends()).then(|| in_touch.after(after))
}
