//! The evaluation broker: which evaluation a scheduler worker gets next (scheduler.md 3).
//!
//! Knows nothing of state, raft or scheduling. Invariants: at most one evaluation of a job is ready or delivered at any
//! time; a delivered evaluation comes back by ack, nack or deadline; nothing enqueued is lost. Delivery is at least once:
//! only the newest token may answer.

use model::eval::Evaluation;
use model::id::{EvalId, EvalToken, JobKey};
use model::job::JobType;
use model::random::Stream;
use model::time::{Mono, Span};
use std::cmp::Reverse;
use std::collections::BTreeMap;
#[cfg(any(test, feature = "testing"))]
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::collections::btree_map::Entry;
use wire::status::BrokerStatus;

/// A worker that says nothing for this long has lost its evaluation.
const NACK_TIMEOUT: Span = Span::seconds(60);
/// After so many deliveries without an ack the evaluation has failed.
pub const DELIVERY_LIMIT: u32 = 3;
const FIRST_NACK_DELAY: Span = Span::seconds(1);
const FURTHER_NACK_DELAY: Span = Span::seconds(20);

pub struct Broker {
    /// Every evaluation that the broker has, with how often it was delivered.
    deliveries: BTreeMap<EvalId, u32>,
    /// The evaluation of each job that is ready, delivered or waiting to be delivered again.
    slots: BTreeMap<JobKey, EvalId>,
    /// Further evaluations of those jobs, best first.
    pending: BTreeMap<JobKey, BTreeMap<PendingRank, Evaluation>>,
    /// Ready evaluations by type, each with the time since which it is ready.
    ready: BTreeMap<JobType, BTreeMap<ReadyRank, (Evaluation, Mono)>>,
    delivered: BTreeMap<EvalId, Delivered>,
    /// Enqueued again by the worker that holds them: they wait for its ack.
    requeued: BTreeMap<EvalId, Evaluation>,
    delayed: BTreeMap<(Mono, EvalId), DelayedEval>,
    failed: VecDeque<Evaluation>,
    superseded: VecDeque<Evaluation>,
    ties: Stream,
    /// The time of this turn.
    now: Mono,
}

/// Higher priority, then older.
type ReadyRank = (Reverse<i64>, u64, EvalId);
/// Higher priority, then newer.
type PendingRank = (Reverse<i64>, Reverse<u64>, EvalId);

struct Delivered {
    eval: Evaluation,
    token: EvalToken,
    /// `None` while its plan is being committed.
    deadline: Option<Mono>,
    ready_since: Mono,
}

struct DelayedEval {
    eval: Evaluation,
    /// A nacked evaluation holds its job's slot already.
    has_slot: bool,
}

/// The token is not that of the current delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleToken;

impl Broker {
    pub fn new(seed: u64) -> Self {
        Broker {
            deliveries: BTreeMap::new(),
            slots: BTreeMap::new(),
            pending: BTreeMap::new(),
            ready: BTreeMap::new(),
            delivered: BTreeMap::new(),
            requeued: BTreeMap::new(),
            delayed: BTreeMap::new(),
            failed: VecDeque::new(),
            superseded: VecDeque::new(),
            ties: Stream::new(seed, 0),
            now: Mono::default(),
        }
    }

    /// Enqueues an evaluation. One that the broker has already is not enqueued twice.
    pub fn enqueue(&mut self, eval: Evaluation, now: Mono) {
        if eval.wait > Span::ZERO {
            let until = now.after(eval.wait);
            self.enqueue_at(eval, until);
        } else if self.track(eval.id) {
            self.admit(eval);
        }
    }

    /// Whether the broker has the evaluation, or one that supersedes it.
    pub fn contains(&self, eval: EvalId) -> bool {
        self.deliveries.contains_key(&eval) || self.superseded.iter().any(|e| e.id == eval)
    }

    /// Enqueues an evaluation that becomes ready at `until`.
    pub fn enqueue_at(&mut self, eval: Evaluation, until: Mono) {
        if self.track(eval.id) {
            self.delay((until, eval.id), DelayedEval { eval, has_slot: false });
        }
    }

    fn delay(&mut self, place: (Mono, EvalId), delayed: DelayedEval) {
        assert!(!self.delivered.contains_key(&place.1), "what waits is with no worker");
        let before = self.delayed.insert(place, delayed);
        assert!(before.is_none(), "an evaluation waits once");
    }

    /// Counts the evaluation among those of the broker; false if it was one of them already.
    fn track(&mut self, id: EvalId) -> bool {
        match self.deliveries.entry(id) {
            Entry::Occupied(_) => false,
            Entry::Vacant(new) => {
                new.insert(0);
                true
            }
        }
    }

    /// Enqueues an evaluation that a worker may hold: if one does, it waits for that worker's ack.
    pub fn requeue(&mut self, eval: Evaluation, now: Mono) {
        if self.delivered.contains_key(&eval.id) {
            self.requeued.insert(eval.id, eval);
        } else {
            self.enqueue(eval, now);
        }
    }

    fn admit(&mut self, eval: Evaluation) {
        assert!(self.deliveries.contains_key(&eval.id), "what is admitted was taken in");
        match self.slots.get(&eval.job) {
            Some(holder) if *holder != eval.id => {
                let rank = (Reverse(eval.priority), Reverse(eval.modify_index), eval.id);
                let before = self.pending.entry(eval.job.clone()).or_default().insert(rank, eval);
                debug_assert!(before.is_none(), "an evaluation is pending once");
            }
            _ => {
                self.slots.insert(eval.job.clone(), eval.id);
                self.make_ready(eval);
            }
        }
    }

    fn make_ready(&mut self, eval: Evaluation) {
        assert_eq!(self.slots.get(&eval.job), Some(&eval.id), "what is ready has its job's slot");
        assert!(!self.delivered.contains_key(&eval.id), "what is ready is with no worker");
        let rank = (Reverse(eval.priority), eval.create_index, eval.id);
        let before = self.ready.entry(eval.job_type).or_default().insert(rank, (eval, self.now));
        debug_assert!(before.is_none(), "an evaluation is ready once");
    }

    /// The most urgent ready evaluation of these types; between types of equal urgency, one by chance.
    pub fn dequeue(&mut self, of: &[JobType], token: EvalToken, now: Mono) -> Option<Evaluation> {
        let wanted = || self.ready.iter().filter(|(t, _)| of.contains(t));
        let heads = || wanted().filter_map(|(t, q)| Some((q.first_key_value()?.0.0, *t)));
        let best = heads().map(|(priority, _)| priority).min()?;
        let types: Vec<JobType> = heads().filter(|h| h.0 == best).map(|h| h.1).collect();
        let chosen = types.get(self.ties.below(types.len() as u64) as usize)?;
        let (_, (eval, ready_since)) = self.ready.get_mut(chosen)?.pop_first()?;
        assert_eq!(self.slots.get(&eval.job), Some(&eval.id), "what is delivered has its job's slot");
        let deliveries = self.deliveries.entry(eval.id).or_default();
        *deliveries += 1;
        assert!(*deliveries <= DELIVERY_LIMIT, "what was delivered too often has failed");
        let deadline = Some(now.after(NACK_TIMEOUT));
        let delivered = Delivered { eval: eval.clone(), token, deadline, ready_since };
        let before = self.delivered.insert(eval.id, delivered);
        assert!(before.is_none(), "an evaluation is delivered to one worker at a time");
        Some(eval)
    }

    /// When a delivered evaluation became ready.
    pub fn ready_since(&self, eval: EvalId) -> Option<Mono> {
        self.delivered.get(&eval).map(|d| d.ready_since)
    }

    pub fn is_delivered(&self, eval: EvalId, token: EvalToken) -> bool {
        self.delivered.get(&eval).is_some_and(|d| d.token == token)
    }

    /// The worker's plan is on its way into the log: no deadline until `resume`, ack or nack.
    pub fn pause(&mut self, eval: EvalId) {
        if let Some(d) = self.delivered.get_mut(&eval) {
            d.deadline = None;
        }
    }

    pub fn resume(&mut self, eval: EvalId, now: Mono) {
        if let Some(d) = self.delivered.get_mut(&eval) {
            d.deadline = Some(now.after(NACK_TIMEOUT));
        }
    }

    /// The evaluation is done. The job's best pending one takes its place; its others are superseded by that one.
    pub fn ack(&mut self, id: EvalId, token: EvalToken, now: Mono) -> Result<(), StaleToken> {
        if !self.is_delivered(id, token) {
            return Err(StaleToken);
        }
        let Some(done) = self.delivered.remove(&id) else { return Err(StaleToken) };
        self.free_slot(&done.eval);
        if let Some(again) = self.requeued.remove(&id) {
            self.enqueue(again, now);
        }
        Ok(())
    }

    fn free_slot(&mut self, done: &Evaluation) {
        let taken_in = self.deliveries.remove(&done.id);
        debug_assert!(taken_in.is_some(), "what had a slot was taken in");
        let held_by = self.slots.remove(&done.job);
        assert_eq!(held_by, Some(done.id), "an evaluation frees the slot that it holds");
        let Some(mut others) = self.pending.remove(&done.job) else { return };
        if let Some((_, next)) = others.pop_first() {
            self.admit(next);
        }
        for eval in others.into_values() {
            self.deliveries.remove(&eval.id);
            self.superseded.push_back(eval);
        }
    }

    /// The evaluation came to its end elsewhere: it is not handed out any more. One that a worker holds already ends with
    /// that worker's answer.
    pub fn forget(&mut self, eval: &Evaluation) {
        if self.delivered.contains_key(&eval.id) || !self.deliveries.contains_key(&eval.id) {
            return;
        }
        if let Some(others) = self.pending.get_mut(&eval.job) {
            others.retain(|rank, _| rank.2 != eval.id);
        }
        if let Some(ready) = self.ready.get_mut(&eval.job_type) {
            ready.remove(&(Reverse(eval.priority), eval.create_index, eval.id));
        }
        self.delayed.retain(|(_, id), _| *id != eval.id);
        self.failed.retain(|e| e.id != eval.id);
        if self.slots.get(&eval.job) == Some(&eval.id) {
            self.restore_superseded(&eval.job);
            self.free_slot(eval);
        } else {
            self.deliveries.remove(&eval.id);
        }
    }

    /// Takes back the job's superseded evaluations: the one that was to run in their place ended before it was delivered.
    fn restore_superseded(&mut self, job: &JobKey) {
        let (restored, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.superseded).into_iter().partition(|eval| eval.job == *job);
        self.superseded = others;
        for eval in restored {
            if self.track(eval.id) {
                self.admit(eval);
            }
        }
    }

    /// The worker gives the evaluation back undone.
    pub fn nack(&mut self, id: EvalId, token: EvalToken, now: Mono) -> Result<(), StaleToken> {
        if !self.is_delivered(id, token) {
            return Err(StaleToken);
        }
        let Some(Delivered { eval, .. }) = self.delivered.remove(&id) else { return Err(StaleToken) };
        self.requeued.remove(&id);
        let count = self.deliveries.get(&id).copied().unwrap_or(0);
        assert!(count > 0, "what was delivered is counted");
        if count >= DELIVERY_LIMIT {
            self.failed.push_back(eval);
        } else {
            let delay = match count {
                0 | 1 => FIRST_NACK_DELAY,
                n => Span(FURTHER_NACK_DELAY.0 * i64::from(n - 1)),
            };
            self.delay((now.after(delay), id), DelayedEval { eval, has_slot: true });
        }
        Ok(())
    }

    /// Removes a delivered evaluation whose plan can never be written: it has failed, and keeps its job's slot until `resolve_failed`.
    pub fn fail(&mut self, id: EvalId, token: EvalToken) -> Result<Evaluation, StaleToken> {
        if !self.is_delivered(id, token) {
            return Err(StaleToken);
        }
        self.requeued.remove(&id);
        self.delivered.remove(&id).map(|given_up| given_up.eval).ok_or(StaleToken)
    }

    /// Deliveries whose worker fell silent are nacked, and named; what has waited long enough becomes ready.
    pub fn expire(&mut self, now: Mono) -> Vec<EvalId> {
        self.now = now;
        let silent = |d: &Delivered| d.deadline.is_some_and(|at| at <= now);
        let late: Vec<_> =
            self.delivered.iter().filter(|(_, d)| silent(d)).map(|(id, d)| (*id, d.token)).collect();
        for (id, token) in &late {
            self.nack(*id, *token, now).expect("it is still delivered with this token");
        }
        while self.delayed.keys().next().is_some_and(|(until, _)| *until <= now) {
            let Some((_, DelayedEval { eval, has_slot })) = self.delayed.pop_first() else { break };
            if has_slot { self.make_ready(eval) } else { self.admit(eval) }
        }
        debug_assert!(self.count_queued() <= self.deliveries.len() as u64, "an evaluation is in one place");
        assert!(self.requeued.len() <= self.delivered.len(), "what is requeued waits for a worker's answer");
        late.into_iter().map(|(id, _)| id).collect()
    }

    /// How many evaluations are in all queues together. One whose failure is being recorded is in none of them.
    fn count_queued(&self) -> u64 {
        let BrokerStatus { ready, unacked, pending, waiting, failed, .. } = self.status();
        ready + unacked + pending + waiting + failed
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        let waiting = self.delayed.keys().next().map(|k| k.0);
        self.delivered.values().filter_map(|d| d.deadline).chain(waiting).min()
    }

    pub fn has_ready(&self) -> bool {
        self.ready.values().any(|ready| !ready.is_empty())
    }

    /// How many of these types are to be handed out.
    pub fn ready_of(&self, types: &[JobType]) -> usize {
        types.iter().filter_map(|job_type| self.ready.get(job_type)).map(BTreeMap::len).sum()
    }

    /// An evaluation that was delivered too often. It still holds its job's slot until `resolve_failed`.
    pub fn take_failed(&mut self) -> Option<Evaluation> {
        self.failed.pop_front()
    }

    /// The failure is recorded: the job's next evaluation may run.
    pub fn resolve_failed(&mut self, eval: &Evaluation) {
        self.free_slot(eval);
    }

    /// Evaluations made needless by a newer one of the same job; at most `limit`.
    pub fn take_superseded(&mut self, limit: usize) -> Vec<Evaluation> {
        let n = self.superseded.len().min(limit);
        self.superseded.drain(..n).collect()
    }

    pub fn has_failed_or_superseded(&self) -> bool {
        !self.failed.is_empty() || !self.superseded.is_empty()
    }

    pub fn status(&self) -> BrokerStatus {
        let total = |n: usize| n as u64;
        BrokerStatus {
            ready: self.ready.values().map(|q| total(q.len())).sum(),
            unacked: total(self.delivered.len()),
            pending: self.pending.values().map(|q| total(q.len())).sum(),
            waiting: total(self.delayed.len()),
            blocked: 0,
            failed: total(self.failed.len()),
        }
    }

    /// By type of job: how many evaluations are ready, how many are with workers.
    pub fn by_type(&self) -> BTreeMap<JobType, (usize, usize)> {
        let mut found: BTreeMap<JobType, (usize, usize)> = BTreeMap::new();
        for (job_type, queue) in &self.ready {
            found.entry(*job_type).or_default().0 = queue.len();
        }
        for d in self.delivered.values() {
            found.entry(d.eval.job_type).or_default().1 += 1;
        }
        found
    }

    /// Ids of all evaluations, for comparison with what the state says should be.
    #[cfg(any(test, feature = "testing"))]
    pub fn contents(&self) -> BTreeSet<EvalId> {
        self.deliveries.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests;
