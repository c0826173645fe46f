//! What the servers of one region agree on: at most one of them leads in a term; a write does what its answer says, at the index that it
//! says; and at rest all have what the leader has.
//!
//! Refuses to know how they agree.

use super::ledger::WrittenJob;
use super::place::ServerAt;
use super::users::HOME_REGION;
use super::world::World;
use model::id::JobKey;
use model::job::Job;
use model::time::{Mono, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::event::{Events, Object};

/// Within this, at rest, everybody has what anybody has.
const CAUGHT_UP: Span = Span::seconds(30);

/// So many of a hundred answers can be held against the log in every run.
const WITNESSED_PERCENT: u64 = 80;

/// What was seen of a region's history, whoever showed it.
#[derive(Default)]
pub struct History {
    /// The server that led in each term.
    leaders: BTreeMap<u64, ServerAt>,
    /// What each job was after every entry that a server told of; `None`: gone.
    jobs: BTreeMap<JobKey, BTreeMap<u64, Option<Arc<Job>>>>,
    /// The entries that servers told of, whatever these did. One is missing where all that applied it died before their turn
    /// had ended, or have it from a snapshot.
    told: BTreeSet<u64>,
    /// Answers that say what became of a job.
    pub answers: u64,
    /// Those of them that were held against what their entry did.
    pub witnessed: u64,
}

impl History {
    /// Notes what a server tells of the entries `first..=last`; most tell nothing of jobs.
    pub fn note_told(&mut self, (first, last): (u64, u64), events: &[Events]) {
        let is_new: Vec<&Events> = events.iter().filter(|entry| !self.told.contains(&entry.index)).collect();
        for entry in is_new {
            for object in &entry.objects {
                if let Object::Job { job, deleted } = object {
                    let is = (!deleted).then(|| job.clone());
                    self.jobs.entry(job.spec.key()).or_default().insert(entry.index, is);
                }
            }
        }
        self.told.extend(first..=last);
    }

    /// The whole state at an index, where what led to it may have gone untold.
    pub fn note_all(&mut self, index: u64, jobs: &BTreeMap<JobKey, Arc<Job>>) {
        for (key, known) in &mut self.jobs {
            if !jobs.contains_key(key) {
                known.insert(index, None);
            }
        }
        for (key, job) in jobs {
            self.jobs.entry(key.clone()).or_default().insert(index, Some(job.clone()));
        }
    }

    /// What the job was after that entry, as somebody was told: `Some(None)`: not there. `None`: nobody can tell.
    fn witness(&mut self, key: &JobKey, index: u64) -> Option<Option<Arc<Job>>> {
        self.answers += 1;
        let known = self.jobs.get(key).and_then(|all| all.range(..=index).next_back());
        let (at, is) = known.map_or((0, None), |(at, is)| (*at, is.clone()));
        let told = self.told.range(at.saturating_add(1)..index.saturating_add(1)).count() as u64;
        let is = (told == index - at).then_some(is)?;
        self.witnessed += 1;
        Some(is)
    }
}

impl World {
    /// After a turn in which its state moved.
    pub fn check_term(&mut self, at: ServerAt) -> Result<(), String> {
        let Some(server) = &self.regions[at].brain else { return Ok(()) };
        let status = server.status();
        // by raft, established or not
        if status.leader != Some(status.id) {
            return Ok(());
        }
        let known = *self.regions[at.region].history.leaders.entry(status.term).or_insert(at);
        if known == at { Ok(()) } else { Err(format!("{known} and {at} both lead in term {}", status.term)) }
    }

    /// A write of that job was acknowledged as the entry `index`, with that job modify index.
    pub fn check_witness(
        &mut self,
        job: &JobKey,
        (index, job_modify_index): (u64, u64),
        written: &WrittenJob,
    ) -> Result<(), String> {
        let Some(is) = self.regions[HOME_REGION].history.witness(job, index) else { return Ok(()) };
        let agrees = match (written, &is) {
            (WrittenJob::Absent, is) => is.is_none(),
            // stopping what does not exist leaves nothing
            (WrittenJob::Stopped, None) => job_modify_index == 0,
            (WrittenJob::Stopped, Some(is)) => is.spec.stop,
            (WrittenJob::Spec(_), None) => false,
            // of what was so already the job's modify index is told, of any kind (http-api.md 1.1.4)
            (WrittenJob::Spec(spec), Some(is)) => {
                let became = if is.job_modify_index == index {
                    index..=index
                } else {
                    is.job_modify_index..=index - 1
                };
                is.spec == **spec && became.contains(&job_modify_index)
            }
        };
        if agrees {
            return Ok(());
        }
        Err(format!("the answer for {job} says {index}, where it became {is:#?} and not {written:#?}"))
    }

    /// The same of a user's value in a job's meta.
    pub fn check_value_witness(&mut self, job: &JobKey, index: u64, value: u64) -> Result<(), String> {
        let Some(is) = self.regions[HOME_REGION].history.witness(job, index) else { return Ok(()) };
        let found = is.as_ref().and_then(|is| is.spec.meta.get("value"));
        if found == Some(&value.to_string()) {
            return Ok(());
        }
        Err(format!(
            "the answer for {job} says that {value} was written at {index}, where it became {found:?}"
        ))
    }

    /// At the end: nearly every answer that says what became of a job was held against what its entry did. The others are of entries that
    /// nobody told of, or that came behind such a one.
    pub fn check_witnessed(&self) -> Result<(), String> {
        let History { answers, witnessed, .. } = self.regions[HOME_REGION].history;
        match witnessed * 100 < answers * WITNESSED_PERCENT {
            true => Err(format!("of {answers} answers only {witnessed} were seen in the log")),
            false => Ok(()),
        }
    }

    /// At rest: all servers are up, one leads, and the others have what it had a while ago.
    pub fn check_agreed(&mut self) -> Result<(), String> {
        let newest = self.any_server()?.applied_index();
        self.run_until(self.now.after(CAUGHT_UP))?;
        let servers = &self.regions[HOME_REGION].servers;
        let applied: Vec<u64> = servers.iter().map(|server| server.applied_index()).collect();
        let leaders = servers.iter().filter(|server| server.leads()).count();
        if leaders != 1 || applied.iter().any(|index| *index < newest) {
            return Err(format!(
                "{leaders} servers lead; {newest} was applied, and now they have {applied:?}"
            ));
        }
        self.check_feature_level()
    }
}

#[test]
fn an_answer_that_its_entry_contradicts_is_found() {
    let mut world = super::elections::region_of(1, 1);
    super::elections::run_for(&mut world, Span::seconds(1));
    world.register_quietly("quiet-1", 1);
    world.run_until(Mono(1).after(Span::seconds(20))).expect("no fault, no failure");
    let key = JobKey::new("default", "quiet-1");
    let job = world.regions[HOME_REGION].tracked.jobs.get(&key).cloned().expect("was registered");
    let spec = WrittenJob::Spec(Box::new(job.spec.clone()));
    let index = job.job_modify_index;
    assert_eq!(world.check_witness(&key, (index, index), &spec), Ok(()));
    assert_eq!(world.check_witness(&key, (index + 1, index), &spec), Ok(()), "it was so already");
    let history = &world.regions[HOME_REGION].history;
    assert!(history.answers > 2, "these two, and what users were answered");
    assert_eq!(history.witnessed, history.answers);
    let wrong = |e: String| e.contains("where it became");
    let other = model::job::JobSpec { priority: job.spec.priority + 1, ..job.spec.clone() };
    let other = WrittenJob::Spec(Box::new(other));
    assert!(world.check_witness(&key, (index, index), &other).is_err_and(wrong));
    assert!(world.check_witness(&key, (index, index - 1), &spec).is_err_and(wrong), "another index");
    assert!(world.check_witness(&key, (index - 1, index), &spec).is_err_and(wrong), "not there yet");
    assert_eq!(world.check_witness(&key, (index - 1, 0), &WrittenJob::Absent), Ok(()));
    assert_eq!(world.check_witness(&key, (index - 1, 0), &WrittenJob::Stopped), Ok(()));
    for gone in [WrittenJob::Absent, WrittenJob::Stopped] {
        assert!(world.check_witness(&key, (index, index), &gone).is_err_and(wrong), "{gone:?}");
    }
    assert!(world.check_value_witness(&key, index, 7).is_err_and(wrong));
    assert_eq!(world.check_witnessed(), Ok(()));
    world.regions[HOME_REGION].history.answers *= 2;
    assert!(world.check_witnessed().is_err_and(|e| e.contains("were seen in the log")));
    let history = &mut world.regions[HOME_REGION].history;
    history.told.remove(&(index + 1));
    history.jobs.values_mut().for_each(|known| known.retain(|at, _| *at <= index));
    assert_eq!(world.check_witness(&key, (index + 1, index), &other), Ok(()), "nobody can tell");
    assert_eq!(world.check_witness(&key, (index, index), &spec), Ok(()));
    let jobs = BTreeMap::new();
    world.regions[HOME_REGION].history.note_all(index + 1, &jobs);
    assert!(world.check_witness(&key, (index + 1, index), &spec).is_err_and(wrong), "it went untold");
}

#[test]
fn a_second_leader_of_a_term_is_found() {
    let mut world = super::elections::region_of(3, 1);
    let (leader, _) = super::elections::await_leader(&mut world);
    super::elections::run_for(&mut world, Span::seconds(10));
    assert_eq!(world.check_term(leader), Ok(()));
    let term = world.regions[leader].brain.as_ref().expect("it leads").status().term;
    assert_eq!(world.regions[HOME_REGION].history.leaders.get(&term), Some(&leader));
    let other = ServerAt { server: (leader.server + 1) % 3, ..leader };
    world.regions[HOME_REGION].history.leaders.values_mut().for_each(|at| *at = other);
    assert!(world.check_term(leader).is_err_and(|e| e.contains("both lead")));
}

#[test]
fn a_server_that_stays_behind_is_found() {
    let mut world = super::elections::region_of(3, 1);
    let (leader, _) = super::elections::await_leader(&mut world);
    world.workload.stop();
    super::elections::run_for(&mut world, Span::minutes(2));
    assert_eq!(world.check_agreed(), Ok(()));
    let other = ServerAt { server: (leader.server + 1) % 3, ..leader };
    world.stop_server(other, Span::hours(1));
    assert!(world.check_agreed().is_err());
}
