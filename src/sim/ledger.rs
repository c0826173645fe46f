//! What users were told: every acknowledged write, and every write of which nobody knows. At the end the state must hold,
//! for each job, what one of the writes that may have been last would have written.

use super::faults::Kind;
use model::id::JobKey;
use model::job::JobSpec;
use model::time::{Mono, Span};
use std::collections::{BTreeMap, BTreeSet};

/// In a region of several servers, what nobody knows of may be under way for so long: between servers, and to one that sleeps.
const LATE: Span = Span::minutes(5);

/// What a write leaves of its job.
#[derive(Clone, Debug, PartialEq)]
pub enum WrittenJob {
    Absent,
    Spec(Box<JobSpec>),
    Stopped,
}

#[derive(Default)]
pub struct Ledger {
    open: BTreeMap<u64, (JobKey, WrittenJob)>,
    /// What each job may be now, newest last. More than one only while an outcome is unknown.
    may_be: BTreeMap<JobKey, Vec<WrittenJob>>,
    /// Writes of which nobody knows, and until when they may still be done.
    late: BTreeMap<JobKey, Vec<(Mono, WrittenJob)>>,
    /// Questions that ask for a count of the job's first group alone.
    counts: BTreeMap<u64, i64>,
    /// Counts of which nobody knows, and until when they may still be set, in whatever the job is by then.
    late_counts: BTreeMap<JobKey, Vec<(Mono, i64)>>,
    /// Questions that leave every job's spec to the servers.
    aside: BTreeSet<u64>,
    /// As what a question counts once it is done, whoever asks it.
    kinds: BTreeMap<u64, Kind>,
    /// Every spec that users ever wanted: a job that rolls back has one of them.
    ever: BTreeMap<JobKey, Vec<JobSpec>>,
    pub acknowledged: u64,
    pub refused: u64,
    pub unknown: u64,
}

impl Ledger {
    pub fn asked(&mut self, token: u64, job: JobKey, written: WrittenJob) {
        if let WrittenJob::Spec(spec) = &written {
            self.wanted(&job, JobSpec::clone(spec));
        }
        self.open.insert(token, (job, written));
    }

    /// The count of the job's first group is to be this, and nothing else is to change: `written`, as far as the user knows the job.
    pub fn asked_to_scale(&mut self, token: u64, job: JobKey, written: WrittenJob, count: i64) {
        self.counts.insert(token, count);
        self.asked(token, job, written);
    }

    /// A rollback may bring it.
    pub fn wanted(&mut self, job: &JobKey, spec: JobSpec) {
        self.ever.entry(job.clone()).or_default().push(spec);
    }

    pub fn asked_aside(&mut self, token: u64) {
        self.aside.insert(token);
    }

    /// Whether it was such a question, which is answered by now.
    pub fn answered_aside(&mut self, token: u64) -> bool {
        self.aside.remove(&token)
    }

    pub fn counts_when_done(&mut self, token: u64, kind: Kind) {
        self.kinds.insert(token, kind);
    }

    /// The question is answered: as what it counts if it is done.
    pub fn take_kind(&mut self, token: u64) -> Option<Kind> {
        self.kinds.remove(&token)
    }

    pub fn was_ever_wanted(&self, job: &JobKey, spec: &JobSpec) -> bool {
        self.ever.get(job).is_some_and(|all| all.contains(spec))
    }

    /// A job with a write under way gets no other one: otherwise their order would be a guess.
    pub fn is_free(&self, job: &JobKey) -> bool {
        self.open.values().all(|(j, _)| j != job)
    }

    /// Nothing is under way, and nobody knows of a write that may still come.
    pub fn is_settled(&self, job: &JobKey, now: Mono) -> bool {
        self.is_free(job) && self.late.get(job).is_none_or(|all| all.iter().all(|(until, _)| *until < now))
    }

    /// An answer has come. False if nobody asked, or the question was answered already.
    pub fn is_due(&self, token: u64) -> bool {
        self.open.contains_key(&token)
    }

    /// Questions that nobody has answered.
    pub fn unanswered(&self) -> usize {
        self.open.len() + self.aside.len()
    }

    /// What was asked for.
    pub fn acknowledge(&mut self, token: u64, now: Mono) -> Option<(JobKey, WrittenJob)> {
        let (job, written) = self.open.remove(&token)?;
        self.counts.remove(&token);
        self.acknowledged += 1;
        let late = self.late.entry(job.clone()).or_default();
        late.retain(|(until, _)| now <= *until);
        let mut all: Vec<WrittenJob> = late.iter().map(|(_, written)| written.clone()).collect();
        all.push(written.clone());
        self.may_be.insert(job.clone(), all);
        self.scale_late(&job, now);
        Some((job, written))
    }

    /// What the job may be now, a count that comes late may change.
    fn scale_late(&mut self, job: &JobKey, now: Mono) {
        let Some(late) = self.late_counts.get_mut(job) else { return };
        late.retain(|(until, _)| now <= *until);
        let counts: Vec<i64> = late.iter().map(|(_, count)| *count).collect();
        let known = self.may_be.get(job).cloned().unwrap_or_default();
        for (left, count) in known.iter().flat_map(|left| counts.iter().map(move |count| (left, *count))) {
            let WrittenJob::Spec(spec) = left else { continue };
            let mut spec = spec.clone();
            spec.groups.iter_mut().take(1).for_each(|group| group.count = count);
            self.wanted(job, JobSpec::clone(&spec));
            let scaled = WrittenJob::Spec(spec);
            let all = self.may_be.entry(job.clone()).or_default();
            if !all.contains(&scaled) {
                all.push(scaled);
            }
        }
    }

    pub fn refuse(&mut self, token: u64) {
        self.refused += 1;
        self.counts.remove(&token);
        self.open.remove(&token);
    }

    /// `is_alone`: one server is the region, and what it forgets with its death does not come later. What was wanted.
    pub fn lose(&mut self, token: u64, now: Mono, is_alone: bool) -> Option<(JobKey, WrittenJob)> {
        let (job, written) = self.open.remove(&token)?;
        self.unknown += 1;
        self.may_be.entry(job.clone()).or_insert_with(|| vec![WrittenJob::Absent]).push(written.clone());
        let count = self.counts.remove(&token);
        if !is_alone {
            self.late.entry(job.clone()).or_default().push((now.after(LATE), written.clone()));
            let late_counts = self.late_counts.entry(job.clone()).or_default();
            late_counts.extend(count.map(|count| (now.after(LATE), count)));
        }
        self.scale_late(&job, now);
        Some((job, written))
    }

    pub fn jobs(&self) -> impl Iterator<Item = (&JobKey, &[WrittenJob])> {
        self.may_be.iter().map(|(job, written)| (job, written.as_slice()))
    }
}

#[cfg(test)]
fn spec(count: i64) -> WrittenJob {
    let mut spec = state::samples::spec("a", 1);
    spec.groups[0].count = count;
    WrittenJob::Spec(Box::new(spec))
}

/// The late word changes the job as it is by then, not as it was when the user asked.
#[test]
fn a_count_that_comes_late_changes_what_was_written_since() {
    let job = JobKey::new("default", "a");
    let left = |count: i64, acknowledged_at| {
        let mut ledger = Ledger::default();
        ledger.asked_to_scale(1, job.clone(), WrittenJob::Stopped, count);
        ledger.lose(1, Mono(1), false);
        ledger.asked(2, job.clone(), spec(3));
        ledger.acknowledge(2, acknowledged_at);
        ledger.jobs().flat_map(|(_, all)| all.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(left(4, Mono(2)), vec![WrittenJob::Stopped, spec(3), spec(4)]);
    assert_eq!(left(3, Mono(2)), vec![WrittenJob::Stopped, spec(3)]);
    assert_eq!(left(4, Mono(2).after(LATE)), vec![spec(3)]);
}

#[test]
fn what_nobody_knows_of_may_come_late_among_several_servers() {
    let job = JobKey::new("default", "a");
    let left = |is_alone, acknowledged_at| {
        let mut ledger = Ledger::default();
        ledger.asked(1, job.clone(), WrittenJob::Absent);
        ledger.lose(1, Mono(1), is_alone);
        assert_eq!(ledger.is_settled(&job, Mono(2)), is_alone);
        ledger.asked(2, job.clone(), WrittenJob::Stopped);
        assert!(!ledger.is_free(&job));
        ledger.acknowledge(2, acknowledged_at);
        ledger.jobs().flat_map(|(_, all)| all.to_vec()).collect::<Vec<_>>()
    };
    let long_after = Mono(2).after(LATE);
    assert_eq!(left(true, Mono(2)), vec![WrittenJob::Stopped]);
    assert_eq!(left(false, Mono(2)), vec![WrittenJob::Absent, WrittenJob::Stopped]);
    assert_eq!(left(false, long_after), vec![WrittenJob::Stopped]);
}
