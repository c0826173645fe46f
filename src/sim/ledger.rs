//! What users were told: every acknowledged write, and every write of which nobody knows. At the end the state must hold,
//! for each job, what one of the writes that may have been last would have written.

use super::place::ServerAt;
use model::id::JobKey;
use model::job::JobSpec;
use std::collections::{BTreeMap, BTreeSet};

/// What a write leaves of its job.
#[derive(Clone, Debug, PartialEq)]
pub enum WrittenJob {
    Absent,
    Spec(Box<JobSpec>),
    Stopped,
}

#[derive(Default)]
pub struct Ledger {
    open: BTreeMap<u64, (ServerAt, JobKey, WrittenJob)>,
    /// What each job may be now, newest last. More than one only while an outcome is unknown.
    may_be: BTreeMap<JobKey, Vec<WrittenJob>>,
    /// Questions that leave every job's spec to the servers.
    aside: BTreeMap<u64, ServerAt>,
    /// Every spec that users ever wanted: a job that rolls back has one of them.
    ever: BTreeMap<JobKey, Vec<JobSpec>>,
    /// Whose answer was under way, or never would come, when the server died.
    lost: BTreeSet<u64>,
    pub acknowledged: u64,
    pub refused: u64,
    pub unknown: u64,
}

impl Ledger {
    pub fn asked(&mut self, token: u64, server: ServerAt, job: JobKey, written: WrittenJob) {
        if let WrittenJob::Spec(spec) = &written {
            self.ever.entry(job.clone()).or_default().push(JobSpec::clone(spec));
        }
        self.open.insert(token, (server, job, written));
    }

    pub fn asked_aside(&mut self, token: u64, server: ServerAt) {
        self.aside.insert(token, server);
    }

    /// Whether it was such a question, which is answered by now.
    pub fn answered_aside(&mut self, token: u64) -> bool {
        self.aside.remove(&token).is_some()
    }

    pub fn was_ever_wanted(&self, job: &JobKey, spec: &JobSpec) -> bool {
        self.ever.get(job).is_some_and(|all| all.contains(spec))
    }

    /// A job with a write under way gets no other one: otherwise their order would be a guess.
    pub fn is_free(&self, job: &JobKey) -> bool {
        self.open.values().all(|(_, j, _)| j != job)
    }

    /// An answer has come. False if nobody asked, or the question was answered already.
    pub fn is_due(&mut self, token: u64) -> bool {
        self.open.contains_key(&token) || self.lost.remove(&token)
    }

    /// Questions that nobody has answered.
    pub fn unanswered(&self) -> usize {
        self.open.len()
    }

    /// False if the answer came too late: the outcome counts as unknown.
    pub fn acknowledge(&mut self, token: u64) -> bool {
        let Some((_, job, written)) = self.open.remove(&token) else { return false };
        self.acknowledged += 1;
        self.may_be.insert(job, vec![written]);
        true
    }

    pub fn refuse(&mut self, token: u64) -> bool {
        self.refused += 1;
        self.open.remove(&token).is_some()
    }

    pub fn lose(&mut self, token: u64) -> bool {
        let Some((_, job, written)) = self.open.remove(&token) else { return false };
        self.unknown += 1;
        self.may_be.entry(job).or_insert_with(|| vec![WrittenJob::Absent]).push(written);
        true
    }

    /// This server is gone: nobody will answer what it was asked.
    pub fn lose_all(&mut self, server: ServerAt) {
        let aside: Vec<u64> = self.aside.iter().filter(|(_, at)| **at == server).map(|(t, _)| *t).collect();
        for token in aside {
            self.aside.remove(&token);
            self.lost.insert(token);
        }
        let open: Vec<u64> = self.open.iter().filter(|(_, q)| q.0 == server).map(|(t, _)| *t).collect();
        for token in open {
            self.lost.insert(token);
            self.lose(token);
        }
    }

    pub fn jobs(&self) -> impl Iterator<Item = (&JobKey, &[WrittenJob])> {
        self.may_be.iter().map(|(job, written)| (job, written.as_slice()))
    }
}

#[test]
fn only_what_a_dead_server_was_asked_is_lost() {
    let at = |server| ServerAt { region: 0, server };
    let job = |id: &str| JobKey::new("default", id);
    let mut ledger = Ledger::default();
    ledger.asked(1, at(0), job("a"), WrittenJob::Stopped);
    ledger.asked(2, at(1), job("b"), WrittenJob::Stopped);
    ledger.asked_aside(3, at(0));
    ledger.lose_all(at(0));
    assert!(ledger.is_free(&job("a")) && !ledger.is_free(&job("b")));
    assert!(!ledger.answered_aside(3) && ledger.unknown == 1 && ledger.unanswered() == 1);
}
