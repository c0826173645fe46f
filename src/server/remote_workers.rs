//! Scheduler workers of other servers, as the leader sees them: which servers wait for evaluations, and for how many.
//!
//! Refuses to know: which evaluation is next, and who holds which; `evals` does.

use model::job::JobType;
use model::time::{Mono, Span};
use std::collections::BTreeMap;

/// The most evaluations that go to one server at a time.
const MAX_DELIVERED: u32 = 16;
/// A server that let an evaluation's deadline pass is given none for so long.
const TIMEOUT_PAUSE: Span = Span::minutes(1);

#[derive(Default)]
pub struct RemoteWorkers {
    waiting: BTreeMap<u64, WaitingServer>,
    /// What the workers of each server take, as it has said last.
    enabled: BTreeMap<u64, Vec<JobType>>,
    /// Servers that let a deadline pass, and until when they are given nothing.
    paused_until: BTreeMap<u64, Mono>,
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

    /// An evaluation that the server's workers held came back by its deadline: its link or its state is far behind.
    pub fn timed_out(&mut self, server: u64, now: Mono) {
        self.paused_until.insert(server, now.after(TIMEOUT_PAUSE));
    }

    /// The server with the most free workers of those that `is_fit`, and that there is something for; it has to ask again.
    pub fn take(
        &mut self,
        now: Mono,
        is_fit: impl Fn(u64) -> bool,
        has_work_for: impl Fn(&[JobType]) -> bool,
    ) -> Option<WaitingServer> {
        self.paused_until.retain(|_, until| *until > now);
        let may = |w: &&WaitingServer| !self.paused_until.contains_key(&w.server) && is_fit(w.server);
        let fitting = self.waiting.values().filter(may).filter(|w| has_work_for(&w.enabled));
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
