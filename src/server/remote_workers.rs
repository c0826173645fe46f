//! Scheduler workers of other servers, as the leader sees them: which servers wait for evaluations, and for how many.
//!
//! Refuses to know: which evaluation is next, and who holds which; `evals` does.

use model::job::JobType;
use std::collections::BTreeMap;

/// The most evaluations that go to one server at a time.
const MAX_DELIVERED: u32 = 16;

#[derive(Default)]
pub struct RemoteWorkers {
    waiting: BTreeMap<u64, WaitingServer>,
    /// What the workers of each server take, as it has said last.
    enabled: BTreeMap<u64, Vec<JobType>>,
}

/// A server that waits for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingServer {
    pub server: u64,
    /// Under which number it has asked.
    pub request: u64,
    pub free: u32,
    /// The types of jobs whose evaluations it takes.
    pub enabled: Vec<JobType>,
}

impl RemoteWorkers {
    /// Replaces what the server said before.
    pub fn wait(&mut self, server: u64, request: u64, free: u32, mut enabled: Vec<JobType>) {
        enabled.truncate(JobType::ALL.len());
        self.enabled.insert(server, enabled.clone());
        self.waiting.remove(&server);
        if free > 0 {
            let free = free.min(MAX_DELIVERED);
            self.waiting.insert(server, WaitingServer { server, request, free, enabled });
        }
    }

    /// The server with the most free workers of those that there is something for; it has to ask again.
    pub fn take(&mut self, has_work_for: impl Fn(&[JobType]) -> bool) -> Option<WaitingServer> {
        let fitting = self.waiting.values().filter(|waiting| has_work_for(&waiting.enabled));
        let most = fitting.max_by_key(|w| (w.free, std::cmp::Reverse(w.server)))?.server;
        self.waiting.remove(&most)
    }

    /// Whether some server's workers take evaluations of this type.
    pub fn serves(&self, job_type: JobType) -> bool {
        self.enabled.values().any(|enabled| enabled.contains(&job_type))
    }

    pub fn link_down(&mut self, server: u64) {
        self.waiting.remove(&server);
        self.enabled.remove(&server);
    }
}

#[cfg(test)]
mod tests;
