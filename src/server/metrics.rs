//! Counters and durations of a server's brain, by the times it is given. Changes nothing that the brain decides.
//!
//! A turn has two times: its beginning, which the brain is given, and its end, which the agent's loop reports afterwards. A
//! duration ends with the turn that completes it, because nothing outside sees the result before; so work that takes part of a turn
//! counts as the whole turn (http-api.md 12.5).

mod names;

use model::job::JobType;
use model::time::{Mono, Span};
pub use names::{Counter, Timed};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::command::Command;
use wire::metrics::{MetricsSnapshot, Sample, Series};
use wire::request::WriteRequest;
use wire::rpc::NodeRequest;

/// How old published metrics may be: to collect them costs as much as a small turn.
const PUBLISH_INTERVAL: Span = Span::seconds(1);

/// Counters and durations; gauges are read off the brain when they are published.
pub struct Metrics {
    counters: Vec<Series>,
    samples: Vec<Sample>,
    /// When the turn began.
    turn: Mono,
    /// What this turn completes, and since when each of them lasts.
    ending: Vec<(Timed, Mono)>,
    /// Since when each entry is proposed, in order of their indexes.
    proposed: VecDeque<(u64, Mono)>,
    /// How many entries the last turn that proposed any has proposed, and which turn that was.
    batch: (u64, Mono),
    /// Requests of users that are not answered yet, by their tokens.
    asked: BTreeMap<u64, (Timed, Mono)>,
    published: Arc<MetricsSnapshot>,
    /// When metrics may be published next.
    due: Mono,
    /// There was a turn since the last publication.
    is_stale: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            counters: vec![Series::default(); Counter::NAMES.len()],
            samples: vec![Sample::default(); Timed::NAMES.len()],
            turn: Mono::default(),
            ending: vec![],
            proposed: VecDeque::new(),
            batch: Default::default(),
            asked: BTreeMap::new(),
            published: Arc::default(),
            due: Mono::default(),
            is_stale: false,
        }
    }
}

impl Metrics {
    pub fn begin_turn(&mut self, now: Mono) {
        self.turn = now;
        // left over from a turn that `end_turn` was not called for
        self.ending.clear();
    }

    pub fn count(&mut self, counter: Counter) {
        self.counters[counter as usize].add(1, self.turn);
    }

    pub fn sample(&mut self, what: Timed, took: Span) {
        self.samples[what as usize].add(took, self.turn);
    }

    /// Times `what` from `since` to the end of this turn.
    pub fn ends(&mut self, what: Timed, since: Mono) {
        self.ending.push((what, since));
    }

    /// Times `what`, which is a part of this turn, as the whole turn.
    pub fn done(&mut self, what: Timed) {
        self.ends(what, self.turn);
    }

    pub fn end_turn(&mut self, now: Mono) {
        self.is_stale |= !self.ending.is_empty();
        for (what, since) in self.ending.drain(..) {
            self.samples[what as usize].add(now.since(since), now);
        }
    }

    pub fn asked(&mut self, token: u64, action: &WriteRequest) {
        self.count(Counter::RpcRequest);
        if let Some(what) = Timed::request(action) {
            self.asked.insert(token, (what, self.turn));
        }
    }

    pub fn answered(&mut self, token: u64, refused: bool) {
        if let Some((what, since)) = self.asked.remove(&token) {
            self.ends(what, since);
        }
        if refused {
            self.count(Counter::RpcRequestError);
        }
    }

    pub fn node_asked(&mut self, request: &NodeRequest) {
        let what = Timed::node_request(request);
        self.count(Counter::RpcRequest);
        if what == Timed::ClientGetAllocs {
            self.count(Counter::RpcQuery);
        }
        self.done(what);
    }

    pub fn proposed(&mut self, index: u64, command: &Command) {
        self.proposed.push_back((index, self.turn));
        let before = if self.batch.1 == self.turn { self.batch.0 } else { 0 };
        self.batch = (before + 1, self.turn);
        if let Some(what) = Timed::command(command) {
            self.done(what);
        }
    }

    pub fn applied(&mut self, index: u64) {
        self.count(Counter::RaftApply);
        while let Some((proposed, since)) = self.proposed.pop_front_if(|(proposed, _)| *proposed <= index) {
            if proposed == index {
                self.ends(Timed::CommitTime, since);
            }
        }
    }

    /// How many entries were proposed together last.
    pub fn last_batch(&self) -> u64 {
        self.batch.0
    }

    /// Nothing that was proposed is waited for any more.
    pub fn step_down(&mut self) {
        self.proposed.clear();
        self.batch.0 = 0;
    }

    /// An evaluation is handed to a worker, and was ready for that since then.
    pub fn dequeued(&mut self, ready_since: Option<Mono>) {
        let since = ready_since.unwrap_or(self.turn);
        self.ends(Timed::WorkerDequeueEval, since);
        self.ends(Timed::BrokerWaitTime, since);
        self.done(Timed::EvalDequeue);
    }

    /// A plan was checked, and `rejected` of its parts were refused. It never waits for a state.
    pub fn evaluated(&mut self, rejected: usize) {
        self.done(Timed::PlanEvaluate);
        self.sample(Timed::PlanWaitForIndex, Span::ZERO);
        (0..rejected).for_each(|_| self.count(Counter::PlanNodeRejected));
    }

    /// `held`: when a worker was given the plan's evaluation, and when it answered.
    pub fn plan_applied(&mut self, held: Option<(Mono, Mono)>) {
        let since = held.map_or(self.turn, |(_, planned)| planned);
        for what in [Timed::PlanApply, Timed::PlanSubmit, Timed::WorkerSubmitPlan] {
            self.ends(what, since);
        }
    }

    pub fn acked(&mut self, held: Option<(Mono, Mono)>) {
        self.done(Timed::EvalAck);
        self.done(Timed::WorkerSendAck);
        self.ends(Timed::BrokerProcessTime, held.map_or(self.turn, |(given, _)| given));
    }

    pub fn nacked(&mut self) {
        self.done(Timed::EvalNack);
        self.done(Timed::WorkerSendNack);
    }

    /// A worker was given work at `since`, and answered. It never waits for a state: the newest one is new enough.
    pub fn scheduled(&mut self, since: Mono, job_type: JobType) {
        self.sample(Timed::invoke_scheduler(job_type), self.turn.since(since));
        self.sample(Timed::WorkerWaitForIndex, Span::ZERO);
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.is_stale.then_some(self.due)
    }

    /// Publishes after a turn, which had something to do if `worked`. `gauges`: adds them.
    pub fn publish(&mut self, worked: bool, now: Mono, gauges: impl FnOnce(&mut MetricsSnapshot)) {
        self.is_stale |= worked;
        if self.is_stale && now >= self.due {
            let mut snapshot = self.snapshot();
            gauges(&mut snapshot);
            self.published = Arc::new(snapshot);
            self.due = now.after(PUBLISH_INTERVAL);
            self.is_stale = false;
        }
    }

    pub fn published(&self) -> Arc<MetricsSnapshot> {
        self.published.clone()
    }

    /// The metrics without gauges. What was never timed is left out.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let mut m = MetricsSnapshot::default();
        let counters = Counter::NAMES.iter().zip(&self.counters);
        m.counters.extend(counters.map(|(name, series)| ((*name).into(), *series)));
        let samples = Timed::NAMES.iter().zip(&self.samples).filter(|(_, s)| s.series.total.count > 0);
        m.samples.extend(samples.map(|(name, sample)| ((*name).into(), sample.clone())));
        m
    }
}

#[cfg(test)]
mod tests;
