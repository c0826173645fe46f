//! Evaluations that wait for room: one per job, released when a node that could serve it changes (scheduler.md 4).
//!
//! Knows nothing of state or scheduling. Invariant: capacity that appeared after an evaluation's snapshot is never
//! missed: either the evaluation was here and is released, or it is refused entry and goes straight back to the broker.

use model::eval::{Evaluation, Trigger};
use model::id::{EvalId, JobKey};
use model::time::{Mono, Span};
use std::collections::{BTreeMap, BTreeSet};

/// How long it is remembered that a class had room.
const UNBLOCK_RETENTION: Span = Span::minutes(15);
/// How often evaluations that lost too many plan conflicts are tried again.
const CONFLICT_RETRY_INTERVAL: Span = Span::minutes(1);
/// The most evaluations released by one call; the rest follow in the next turns.
const RELEASE_LIMIT: usize = 256;

#[derive(Default)]
pub struct Blocked {
    evals: BTreeMap<EvalId, Evaluation>,
    jobs: BTreeMap<JobKey, EvalId>,
    /// When each class last had room: log index, and when that was.
    unblocks: BTreeMap<String, (u64, Mono)>,
    /// Chosen for release, not yet handed out.
    released: BTreeSet<EvalId>,
    duplicates: Vec<Evaluation>,
    conflicts_due: Option<Mono>,
}

/// What became of an evaluation that was to be blocked.
#[derive(Debug, PartialEq)]
pub enum BlockOutcome {
    Waits,
    /// Room appeared since its snapshot: to be scheduled again now.
    MissedUnblock(Box<Evaluation>),
}

impl Blocked {
    pub fn block(&mut self, eval: Evaluation, now: Mono) -> BlockOutcome {
        let Some(eval) = self.resolve_duplicate(eval) else { return BlockOutcome::Waits };
        if self.missed_an_unblock(&eval) {
            return BlockOutcome::MissedUnblock(Box::new(eval));
        }
        if eval.trigger == Trigger::MaxPlanAttempts {
            self.conflicts_due.get_or_insert(now.after(CONFLICT_RETRY_INTERVAL));
        }
        let before = self.jobs.insert(eval.job.clone(), eval.id);
        assert!(before.is_none_or(|id| id == eval.id), "a job has one blocked evaluation");
        self.evals.insert(eval.id, eval);
        debug_assert_eq!(self.evals.len(), self.jobs.len(), "what is blocked is known by its job");
        BlockOutcome::Waits
    }

    /// Keeps one evaluation per job: the one with the newer view stays, the other is to be canceled.
    fn resolve_duplicate(&mut self, eval: Evaluation) -> Option<Evaluation> {
        let Some(known) = self.jobs.get(&eval.job).copied().filter(|id| *id != eval.id) else {
            return Some(eval);
        };
        let newness = |e: &Evaluation| e.create_index.max(e.snapshot_index);
        let known_newness = self.evals.get(&known).map_or(0, newness);
        if newness(&eval) < known_newness {
            self.duplicates.push(eval);
            return None;
        }
        if let Some(old) = self.remove(known) {
            self.duplicates.push(old);
        }
        Some(eval)
    }

    fn missed_an_unblock(&self, eval: &Evaluation) -> bool {
        self.unblocks.iter().any(|(class, (index, _))| {
            eval.snapshot_index < *index && (eval.escaped_class || could_serve(eval, class))
        })
    }

    /// A node of this class has room since `index`.
    pub fn unblock(&mut self, class: &str, index: u64, now: Mono) {
        self.unblocks.insert(class.to_string(), (index, now));
        let wakes = |e: &&Evaluation| e.escaped_class || could_serve(e, class);
        self.released.extend(self.evals.values().filter(wakes).map(|e| e.id));
    }

    /// The job's evaluation succeeded elsewhere: nothing of it is left to wait.
    pub fn untrack(&mut self, job: &JobKey) -> Option<Evaluation> {
        let id = self.jobs.get(job).copied()?;
        self.remove(id)
    }

    fn remove(&mut self, id: EvalId) -> Option<Evaluation> {
        self.released.remove(&id);
        let eval = self.evals.remove(&id)?;
        self.jobs.remove(&eval.job);
        Some(eval)
    }

    /// Evaluations to be scheduled again, a bounded number a call.
    pub fn take_released(&mut self, now: Mono) -> Vec<Evaluation> {
        if self.conflicts_due.is_some_and(|at| at <= now) {
            self.conflicts_due = None;
            let conflicts = self.evals.values().filter(|e| e.trigger == Trigger::MaxPlanAttempts);
            self.released.extend(conflicts.map(|e| e.id));
        }
        self.unblocks.retain(|_, (_, at)| now.since(*at) <= UNBLOCK_RETENTION);
        debug_assert!(
            self.released.iter().all(|id| self.evals.contains_key(id)),
            "only what is blocked is released"
        );
        let ids: Vec<_> = self.released.iter().take(RELEASE_LIMIT).copied().collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    pub fn take_duplicates(&mut self, limit: usize) -> Vec<Evaluation> {
        let n = self.duplicates.len().min(limit);
        self.duplicates.drain(..n).collect()
    }

    pub fn has_duplicates(&self) -> bool {
        !self.duplicates.is_empty()
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.conflicts_due
    }

    pub fn contains(&self, eval: EvalId) -> bool {
        self.evals.contains_key(&eval) || self.duplicates.iter().any(|e| e.id == eval)
    }

    /// How many of them wait for nodes of any class, because their job's constraints name a single node.
    pub fn escaped(&self) -> usize {
        self.evals.values().filter(|e| e.escaped_class).count()
    }

    pub fn len(&self) -> usize {
        self.evals.len()
    }

    /// Whether the evaluation still waits: nothing that happened since its snapshot has released it.
    #[cfg(any(test, feature = "testing"))]
    pub fn is_waiting(&self, id: EvalId) -> bool {
        self.evals.contains_key(&id) && !self.released.contains(&id)
    }

    /// Ids of everything that waits, for comparison with what the state says should be.
    #[cfg(any(test, feature = "testing"))]
    pub fn contents(&self) -> BTreeSet<EvalId> {
        self.evals.keys().copied().collect()
    }
}

/// Anything but a known "no": a class that the evaluation never saw may well serve it.
fn could_serve(eval: &Evaluation, class: &str) -> bool {
    eval.class_eligibility.get(class).copied().unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::job::JobType;
    use model::time::Wall;

    const T0: Mono = Mono(1_000);

    fn eval(n: u128, job: &str, snapshot: u64, classes: &[(&str, bool)]) -> Evaluation {
        let key = JobKey::new("default", job);
        let id = EvalId::from_random(n);
        let mut e = Evaluation::pending(id, key, JobType::Service, 50, Trigger::QueuedAllocs, Wall(1));
        e.snapshot_index = snapshot;
        e.class_eligibility = classes.iter().map(|(c, ok)| (c.to_string(), *ok)).collect();
        e
    }

    fn released(b: &mut Blocked) -> Vec<EvalId> {
        b.take_released(T0).into_iter().map(|e| e.id).collect()
    }

    #[test]
    fn a_change_of_a_class_wakes_those_it_may_serve() {
        let mut b = Blocked::default();
        let no = eval(1, "no", 10, &[("c1", false)]);
        let yes = eval(2, "yes", 10, &[("c1", true)]);
        let unseen = eval(3, "unseen", 10, &[("c2", false)]);
        let mut escaped = eval(4, "escaped", 10, &[]);
        escaped.escaped_class = true;
        for e in [&no, &yes, &unseen, &escaped] {
            assert_eq!(b.block(e.clone(), T0), BlockOutcome::Waits);
        }
        b.unblock("c1", 11, T0);
        let mut woken = released(&mut b);
        woken.sort();
        let mut expected = vec![yes.id, unseen.id, escaped.id];
        expected.sort();
        assert_eq!(woken, expected);
        assert_eq!(b.contents(), [no.id].into());
    }

    #[test]
    fn a_change_after_the_snapshot_unblocks() {
        let mut b = Blocked::default();
        b.unblock("c1", 20, T0);
        for (snapshot, classes, missed) in [
            (19, vec![("c1", true)], true),
            (19, vec![], true),
            (19, vec![("c1", false)], false),
            (20, vec![("c1", true)], false),
        ] {
            let e = eval(1, "a", snapshot, &classes);
            assert_eq!(b.block(e, T0) != BlockOutcome::Waits, missed, "{snapshot} {classes:?}");
            b.untrack(&JobKey::new("default", "a"));
        }
        b.take_released(T0.after(Span::minutes(16)));
        assert_eq!(
            b.block(eval(2, "b", 1, &[]), T0),
            BlockOutcome::Waits,
            "forgotten after a quarter of an hour"
        );
    }

    #[test]
    fn the_newer_of_two_blocked_evals_of_a_job_stays() {
        let mut b = Blocked::default();
        let (old, new, older) = (eval(1, "a", 10, &[]), eval(2, "a", 12, &[]), eval(3, "a", 5, &[]));
        b.block(old.clone(), T0);
        b.block(new.clone(), T0);
        b.block(older.clone(), T0);
        let gone: Vec<_> = b.take_duplicates(10).into_iter().map(|e| e.id).collect();
        assert_eq!(gone, [old.id, older.id]);
        assert_eq!(b.contents(), [new.id].into());
        assert_eq!(b.untrack(&new.job).map(|e| e.id), Some(new.id));
        assert_eq!(b.len(), 0);
    }

    #[test]
    fn plan_conflicts_are_tried_again_each_minute() {
        let mut b = Blocked::default();
        let mut e = eval(1, "a", 10, &[]);
        e.trigger = Trigger::MaxPlanAttempts;
        b.block(e.clone(), T0);
        let due = b.next_deadline().unwrap();
        assert_eq!(due, T0.after(CONFLICT_RETRY_INTERVAL));
        assert!(b.take_released(Mono(due.0 - 1)).is_empty());
        assert_eq!(b.take_released(due).len(), 1);
    }
}
