//! The client's metrics: allocations are compared after each turn with what they were before.
//! Changes nothing that the brain decides.

use super::alloc_runner::AllocRunner;
use model::alloc::ClientStatus;
use model::id::{AllocId, NodeId};
use model::member::ServerAddress;
use model::node::NodeInfo;
use model::resources::Amount;
use model::time::{Mono, Span};
use std::collections::BTreeMap;
use wire::metrics::{MetricsSnapshot, Series};

/// The client's status, published for readers.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientStatusReport {
    pub node: NodeId,
    pub registered: bool,
    /// When a server last said that it knows of this node.
    pub last_heartbeat: Option<Mono>,
    /// Ascending.
    pub allocs: Vec<AllocId>,
    pub allocs_running: usize,
    /// The servers that the node asks, in order of preference; without an address where the region has told none.
    pub servers: Vec<ServerAddress>,
    /// What the servers granted last; zero before.
    pub heartbeat_ttl: Span,
    /// Troubles that keep the node from its work, in sentences.
    pub troubles: Vec<String>,
    pub measured: MetricsSnapshot,
}

#[derive(Clone, Copy, Debug)]
struct AllocCounters {
    status: ClientStatus,
    restarts: u64,
    starts: u64,
    oom_kills: u64,
}

impl AllocCounters {
    fn of(alloc: &AllocRunner) -> AllocCounters {
        let (starts, oom_kills) = alloc.starts_and_oom_kills();
        AllocCounters { status: alloc.client_status(), restarts: alloc.restarts(), starts, oom_kills }
    }
}

wire::metric_names! {
    /// What happens to allocations. Counted from 0: a rate cannot be told of a counter that appears with its first event.
    enum Counter {
        Start = "client.allocs.start",
        Running = "client.allocs.running",
        Complete = "client.allocs.complete",
        Failed = "client.allocs.failed",
        Restart = "client.allocs.restart",
        OomKilled = "client.allocs.oom_killed",
        Destroy = "client.allocs.destroy",
    }
}

#[derive(Debug)]
pub struct ClientMetrics {
    counters: Vec<Series>,
    seen: BTreeMap<AllocId, AllocCounters>,
}

impl Default for ClientMetrics {
    fn default() -> Self {
        ClientMetrics { counters: vec![Series::default(); Counter::NAMES.len()], seen: BTreeMap::new() }
    }
}

impl ClientMetrics {
    /// An allocation that is seen for the first time is where the counting starts: it may have come from an earlier life of
    /// the agent.
    pub fn update(&mut self, allocs: &BTreeMap<AllocId, AllocRunner>, now: Mono) {
        let before = self.seen.len();
        self.seen.retain(|id, _| allocs.contains_key(id));
        self.count(Counter::Destroy, (before - self.seen.len()) as u64, now);
        for (id, alloc) in allocs {
            let is = AllocCounters::of(alloc);
            let was = self.seen.insert(*id, is).unwrap_or(AllocCounters { starts: 0, oom_kills: 0, ..is });
            self.count(Counter::Restart, is.restarts.saturating_sub(was.restarts), now);
            self.count(Counter::Start, is.starts.saturating_sub(was.starts), now);
            self.count(Counter::OomKilled, is.oom_kills.saturating_sub(was.oom_kills), now);
            if was.status != is.status {
                let (status, assignment) = (is.status.as_str(), &alloc.record.assignment);
                let (job_id, task_group) = (&assignment.job.id, &assignment.group.name);
                tracing::debug!(
                    target: "client.alloc_runner",
                    alloc_id = %id, job_id, task_group, status, "allocation status changed"
                );
                match is.status {
                    ClientStatus::Running => self.count(Counter::Running, 1, now),
                    ClientStatus::Complete => self.count(Counter::Complete, 1, now),
                    ClientStatus::Failed => self.count(Counter::Failed, 1, now),
                    ClientStatus::Pending | ClientStatus::Lost | ClientStatus::Unknown => {}
                }
            }
        }
    }

    fn count(&mut self, counter: Counter, times: u64, now: Mono) {
        (0..times).for_each(|_| self.counters[counter as usize].add(1, now));
    }

    pub fn snapshot(
        &self,
        allocs: &BTreeMap<AllocId, AllocRunner>,
        info: Option<&NodeInfo>,
    ) -> MetricsSnapshot {
        let mut m = MetricsSnapshot::default();
        let counters = Counter::NAMES.iter().zip(&self.counters);
        m.counters.extend(counters.map(|(name, series)| ((*name).into(), *series)));
        let (mut pending, mut running, mut terminal, mut used) = (0, 0, 0, Amount::ZERO);
        for alloc in allocs.values() {
            match alloc.client_status() {
                ClientStatus::Pending => pending += 1,
                ClientStatus::Running => running += 1,
                _ => terminal += 1,
            }
            if !alloc.client_status().is_terminal() {
                used = used.plus(alloc.record.assignment.resources.total());
            }
        }
        m.gauge("client.allocations.pending", pending);
        m.gauge("client.allocations.running", running);
        m.gauge("client.allocations.terminal", terminal);
        m.gauge("client.allocated.cpu", used.cpu_mhz);
        m.gauge("client.allocated.memory", used.memory_mb);
        m.gauge("client.allocated.disk", used.disk_mb);
        if let Some(info) = info {
            let free = info.capacity.minus(info.reserved).minus(used);
            m.gauge("client.unallocated.cpu", free.cpu_mhz);
            m.gauge("client.unallocated.memory", free.memory_mb);
            m.gauge("client.unallocated.disk", free.disk_mb);
        }
        m
    }
}
