//! A server's status and the gauges of its metrics, published with every turn. Only a leader has gauges of the leader's
//! queues. Refuses to know who reads it.

use super::Server;
use super::leader::Leader;
use super::replica::Replica;
use model::id::Uuid;
use model::job::JobType;
use state::store::Reader;
use wire::metrics::MetricsSnapshot;
use wire::status::{FollowerStatus, LogStatus, ServerStatus};

impl Server {
    /// This server's raft id.
    pub fn id(&self) -> u64 {
        self.replica.raft().id()
    }

    /// The region that this server belongs to, or wants to; all zero: none.
    pub(super) fn region(&self) -> Uuid {
        self.joining.region(self.replica.members())
    }

    pub fn reader(&self) -> Reader {
        self.replica.reader().clone()
    }

    pub fn status(&self) -> ServerStatus {
        let raft = self.replica.raft();
        ServerStatus {
            id: raft.id(),
            // a removed server hears from nobody, and would never learn that the leader is gone
            leader: raft.leader().filter(|id| *id == raft.id() || !self.joining.is_removed),
            term: raft.term(),
            applied_index: self.replica.applied(),
            log: log_status(raft),
            ready: self.leadership.leader().is_some(),
            voters: raft.voters(),
            learners: raft.members().learners.clone(),
            members: self.replica.members().present.clone(),
            is_removed: self.joining.is_removed,
            region_id: self.region(),
            feature_level: self.replica.members().feature_level,
            has_peers: self.replica.has_peers(),
            links: self.joining.links(),
            followers: raft.followers().map(follower).collect(),
            last_contact: self.replica.last_contact(),
            listens_since: self.replica.listens_since(),
            broker: self.leadership.leader().map(|leader| leader.evals.status()).unwrap_or_default(),
            measured: self.metrics.published(),
            storage_fault: (!self.disk.is_free).then(|| "the disk is full".to_string()),
        }
    }
}

fn follower((id, matched_index, is_behind): (u64, u64, bool)) -> FollowerStatus {
    FollowerStatus { id, matched_index, is_behind }
}

fn log_status(raft: &raft::RaftNode) -> LogStatus {
    let at = raft.position();
    LogStatus {
        last_index: at.last_index,
        last_term: at.last_term,
        commit_index: at.commit,
        compacted_index: at.compacted,
        compacted_term: at.compacted_term,
    }
}

/// `batch`: how many entries were proposed together last.
pub fn add_gauges(m: &mut MetricsSnapshot, replica: &Replica, leader: Option<&Leader>, batch: u64) {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let count = |n: usize| number(n as u64);
    m.gauge("raft.appliedIndex", number(replica.applied()));
    m.gauge("raft.commitIndex", number(replica.raft().position().commit));
    m.gauge("raft.lastIndex", number(replica.raft().position().last_index));
    m.gauge("raft.peers", count(replica.raft().voters().len()));
    let Some(leader) = leader else { return };
    m.gauge("raft.leader.dispatchNumLogs", number(batch));
    let broker = leader.evals.status();
    m.gauge("nomad.broker.total_ready", number(broker.ready));
    m.gauge("nomad.broker.total_unacked", number(broker.unacked));
    m.gauge("nomad.broker.total_pending", number(broker.pending));
    m.gauge("nomad.broker.total_waiting", number(broker.waiting));
    let by_type = leader.evals.broker().by_type();
    for job_type in [JobType::Batch, JobType::Service, JobType::Sysbatch, JobType::System] {
        let (ready, unacked) = by_type.get(&job_type).copied().unwrap_or_default();
        m.gauge(format!("nomad.broker.{job_type}.ready"), count(ready));
        m.gauge(format!("nomad.broker.{job_type}.unacked"), count(unacked));
    }
    m.gauge("nomad.blocked_evals.total_blocked", count(leader.evals.blocked().len()));
    m.gauge("nomad.blocked_evals.total_escaped", count(leader.evals.blocked().escaped()));
    m.gauge("nomad.heartbeat.active", count(leader.nodes.expected()));
    m.gauge("nomad.plan.queue_depth", count(leader.plans.in_flight()));
}
