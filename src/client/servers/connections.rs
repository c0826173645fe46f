//! Connections to servers that come and go: whom the node asks from then on, and what becomes of requests that were under way
//! (client.md 2.12).
//!
//! Refuses to know: sockets, and what requests say.

use super::{REQUEST_KINDS, RequestKind, ServerUpdate, Servers};
use model::time::Mono;

impl Servers {
    /// There is a new connection to the server. What was under way on an earlier one has no answer any more; what waited for its next try
    /// is due.
    pub fn link_up(&mut self, server: u64, now: Mono) -> Vec<ServerUpdate> {
        self.address_book.link_up(server);
        let current = self.address_book.current();
        let mut server_updates = vec![];
        for kind in REQUEST_KINDS {
            let state = &mut self.requests[kind as usize];
            let is_lost = state.in_flight.take_if(|f| f.to == server || Some(f.to) != current).is_some();
            if is_lost && kind == RequestKind::Report {
                server_updates.push(ServerUpdate::Reported(false));
            }
            if state.in_flight.is_none() && current == Some(server) {
                (state.due, state.failing) = (state.due.min(now), None);
            }
        }
        server_updates
    }

    /// The connection to the server is gone: another one is asked from now on, if there is any.
    pub fn link_down(&mut self, server: u64) {
        let was_current = self.address_book.current() == Some(server);
        self.address_book.link_down(server);
        if was_current {
            self.switch_server();
        }
    }
}
