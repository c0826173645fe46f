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
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::change::Change;

/// Within this, at rest, everybody has what anybody has.
const CAUGHT_UP: Span = Span::seconds(30);

/// What was seen of a region's history, whoever showed it.
#[derive(Default)]
pub struct History {
    /// The server that led in each term.
    leaders: BTreeMap<u64, ServerAt>,
    /// What each job was from the job modify index on.
    jobs: BTreeMap<(JobKey, u64), Arc<Job>>,
    /// Answers that were held against it.
    pub witnessed: u64,
}

impl World {
    /// After a turn in which its state moved.
    pub fn check_term(&mut self, at: ServerAt) -> Result<(), String> {
        let Some(server) = &self.regions[at].brain else { return Ok(()) };
        let status = server.status();
        if !status.ready {
            return Ok(());
        }
        let known = *self.regions[at.region].history.leaders.entry(status.term).or_insert(at);
        if known == at { Ok(()) } else { Err(format!("{known} and {at} both lead in term {}", status.term)) }
    }

    /// The changes of a turn that took the region's state further than ever.
    pub fn note_history(&mut self, region: usize, changes: &[Change]) {
        let region = &mut self.regions[region];
        for change in changes {
            if let Change::Job { job } = change
                && let Some(is) = region.tracked.jobs.get(job)
            {
                region.history.jobs.insert((job.clone(), is.job_modify_index), is.clone());
            }
        }
    }

    /// A write of that job was acknowledged with that job modify index.
    pub fn check_witness(&mut self, job: &JobKey, index: u64, written: &WrittenJob) -> Result<(), String> {
        let history = &mut self.regions[HOME_REGION].history;
        let Some(is) = history.jobs.get(&(job.clone(), index)) else { return Ok(()) };
        history.witnessed += 1;
        let agrees = match written {
            WrittenJob::Absent => true,
            WrittenJob::Stopped => is.spec.stop,
            WrittenJob::Spec(spec) => is.spec == **spec,
        };
        if agrees {
            return Ok(());
        }
        Err(format!("the answer for {job} says {index}, where it became {is:#?} and not {written:#?}"))
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
    assert_eq!(world.check_witness(&key, job.job_modify_index, &spec), Ok(()));
    assert!(world.regions[HOME_REGION].history.witnessed > 0);
    let other = model::job::JobSpec { priority: job.spec.priority + 1, ..job.spec.clone() };
    let other = WrittenJob::Spec(Box::new(other));
    assert!(world.check_witness(&key, job.job_modify_index, &other).is_err());
}

#[test]
fn a_second_leader_of_a_term_is_found() {
    let mut world = super::elections::region_of(3, 1);
    let (leader, _) = super::elections::await_leader(&mut world);
    super::elections::run_for(&mut world, Span::seconds(10));
    assert_eq!(world.check_term(leader), Ok(()));
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
