//! What the server's brain measures of its own work, by the times it is given. Changes nothing that the brain decides.

use super::Server;
use model::job::JobType;
use model::time::{Mono, Span};
use std::sync::Arc;
use wire::measured::Measured;

/// What is published is as old as this at most: to gather it costs as much as a small turn.
const PUBLISH_EVERY: Span = Span::seconds(1);

/// Counters and durations; gauges are read off the brain when they are published. A turn has one time, so what begins and
/// ends within a turn is not timed here.
#[derive(Default)]
pub struct Measures {
    measured: Measured,
    pub(super) published: Arc<Measured>,
    /// When the next may be published.
    due: Mono,
    /// There was a turn since the last was published.
    is_stale: bool,
}

impl Measures {
    pub(super) fn applied(&mut self, now: Mono) {
        self.measured.count("raft.apply", now);
    }

    /// A worker was given work at `since`, and answered.
    pub(super) fn scheduled(&mut self, since: Mono, job_type: JobType, now: Mono) {
        self.measured.sample(format!("nomad.worker.invoke_scheduler.{job_type}"), now.since(since), now);
    }

    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.is_stale.then_some(self.due)
    }

    pub(super) fn rejected(&mut self, nodes: usize, now: Mono) {
        for _ in 0..nodes {
            self.measured.count("nomad.plan.node_rejected", now);
        }
    }
}

impl Server {
    /// After a turn, which had something to do if `worked`.
    pub(super) fn publish_measures(&mut self, worked: bool, now: Mono) {
        self.measures.is_stale |= worked;
        if self.measures.is_stale && now >= self.measures.due {
            self.measures.published = Arc::new(self.measured());
            self.measures.due = now.after(PUBLISH_EVERY);
            self.measures.is_stale = false;
        }
    }

    /// The server's metrics. Those of the leader's queues are the leader's alone.
    fn measured(&self) -> Measured {
        let mut m = self.measures.measured.clone();
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let count = |n: usize| number(n as u64);
        m.gauge("raft.appliedIndex", number(self.log.applied()));
        m.gauge("raft.peers", count(self.log.raft().voters().len()));
        if !self.ready {
            return m;
        }
        let broker = self.broker.status();
        m.gauge("nomad.broker.total_ready", number(broker.ready));
        m.gauge("nomad.broker.total_unacked", number(broker.unacked));
        m.gauge("nomad.broker.total_pending", number(broker.pending));
        m.gauge("nomad.broker.total_waiting", number(broker.waiting));
        for (job_type, (ready, unacked)) in self.broker.by_type() {
            m.gauge(format!("nomad.broker.{job_type}.ready"), count(ready));
            m.gauge(format!("nomad.broker.{job_type}.unacked"), count(unacked));
        }
        m.gauge("nomad.blocked_evals.total_blocked", count(self.blocked.len()));
        m.gauge("nomad.blocked_evals.total_escaped", count(self.blocked.escaped()));
        m.gauge("nomad.heartbeat.active", count(self.heartbeats.expected()));
        m
    }
}
