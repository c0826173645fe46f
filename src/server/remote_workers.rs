//! Scheduler workers of other servers, as the leader sees them: which servers wait for evaluations, and for how many.
//!
//! Refuses to know: which evaluation is next, and who holds which; `evals` does.

use std::collections::BTreeMap;

/// The most evaluations that go to one server at a time.
const MAX_DELIVERED: u32 = 16;

#[derive(Default)]
pub struct RemoteWorkers {
    waiting: BTreeMap<u64, WaitingServer>,
}

/// A server that waits for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingServer {
    pub server: u64,
    /// Under which number it has asked.
    pub request: u64,
    pub free: u32,
}

impl RemoteWorkers {
    /// What a server said before, it has replaced.
    pub fn wait(&mut self, server: u64, request: u64, free: u32) {
        self.waiting.remove(&server);
        if free > 0 {
            self.waiting.insert(server, WaitingServer { server, request, free: free.min(MAX_DELIVERED) });
        }
    }

    /// The server with the most free workers; it has to ask again.
    pub fn take(&mut self) -> Option<WaitingServer> {
        let most = self.waiting.values().max_by_key(|w| (w.free, std::cmp::Reverse(w.server)))?.server;
        self.waiting.remove(&most)
    }

    pub fn link_down(&mut self, server: u64) {
        self.waiting.remove(&server);
    }
}

#[cfg(test)]
mod tests;
