//! For tests and the simulator: what a leader's parts hold, for comparison with what the state says that they should.
//! Refuses to know the state.

use super::Server;
use model::id::{DeploymentId, EvalId, JobKey, NodeId};
use std::collections::BTreeSet;

impl Server {
    /// The largest entry that a leader with others takes.
    pub const MAX_ENTRY_BYTES: usize = raft::MAX_ENTRY_BYTES;

    /// Whether another server's state is on its way into this one's store.
    pub fn is_installing(&self) -> bool {
        self.replica.is_installing()
    }

    /// The evaluations in the leader's queues, when no work on them is under way: then they must be the state's open ones.
    pub fn queued_when_idle(&self) -> Option<BTreeSet<EvalId>> {
        let is_busy = self.replica.has_work() || !self.pending.is_empty() || !self.outbox.is_empty();
        self.leadership.leader().filter(|_| !is_busy)?.evals.queued_when_idle()
    }

    /// Whether this server leads, and the evaluation is blocked and nothing has released it.
    pub fn waits_for_room(&self, eval: EvalId) -> bool {
        self.leadership.leader().is_some_and(|leader| leader.evals.blocked().is_waiting(eval))
    }

    /// The nodes whose drains this leader drives.
    pub fn draining(&self) -> Option<BTreeSet<NodeId>> {
        self.leadership.leader().map(|leader| leader.drainer.nodes())
    }

    /// The deployments that this leader watches: the state's active ones.
    pub fn watched_deployments(&self) -> Option<BTreeSet<DeploymentId>> {
        self.leadership.leader().map(|leader| leader.deployments.known().collect())
    }

    /// The periodic jobs whose launches this leader times.
    pub fn timed_jobs(&self) -> Option<BTreeSet<JobKey>> {
        self.leadership.leader().map(|leader| leader.periodic.timed_jobs())
    }

    /// How many evaluations are in the queues or with workers although there is a pause: 0, or it is a bug.
    pub fn queued_while_paused(&self) -> usize {
        self.leadership.leader().map_or(0, |leader| leader.evals.queued_while_paused())
    }
}
