//! Users who scale jobs in the simulated world: within limits and beyond them, while deployments are under way and when jobs are
//! stopped; and what must hold of it: a count is what the last word on it said, and no word beyond a limit is taken.

use super::faults::Kind;
use super::ledger::WrittenJob;
use super::place::ServerAt;
use super::users::{HOME_REGION, User};
use super::world::{Event, World};
use model::id::JobKey;
use model::job::{Job, JobSpec, JobType};
use model::random::Stream;
use model::scaling::Scaling;
use model::time::Span;
use std::collections::BTreeMap;
use wire::command::ScaleRequest;
use wire::request::{Refusal, RefusalKind, WriteReply, WriteRequest};

const JOBS: u64 = 8;

pub struct Scalers {
    draws: Stream,
    asked: BTreeMap<u64, Asked>,
}

/// A word on a count that is under way.
struct Asked {
    job: JobKey,
    count: Option<i64>,
    beyond: bool,
}

impl Scalers {
    pub fn new(seed: u64) -> Self {
        Scalers { draws: Stream::new(seed, 105), asked: BTreeMap::new() }
    }

    /// Some jobs say how far they may be scaled.
    pub fn limit(&mut self, spec: &mut JobSpec) {
        let Some(group) = spec.groups.first_mut() else { return };
        if spec.job_type == JobType::System || self.draws.below(2) == 0 {
            return;
        }
        let min = self.draws.below(group.count as u64 + 1) as i64;
        let max = group.count + self.draws.below(3) as i64;
        let enabled = self.draws.below(4) > 0;
        group.scaling = Some(Scaling { min, max, enabled, policy: BTreeMap::new() });
    }
}

impl World {
    /// One word on one job's count; then, after a while, the next.
    pub fn scale(&mut self) -> Result<(), String> {
        if !self.faults.on() {
            return Ok(());
        }
        let job = JobKey::new("default", format!("job-{}", self.scalers.draws.below(JOBS)));
        let count = match self.scalers.draws.below(5) {
            0 => None,
            _ => Some(self.scalers.draws.below(6) as i64),
        };
        if let Some(at) = self.server_of(User::Scaler).filter(|_| self.ledger.is_settled(&job, self.now)) {
            self.ask_to_scale(at, job, count);
        }
        let wait = Span::seconds(5) + Span(self.scalers.draws.below(30_000_000_000) as i64);
        self.after(wait, Event::Scale);
        Ok(())
    }

    fn ask_to_scale(&mut self, at: ServerAt, job: JobKey, count: Option<i64>) {
        let tracked = &self.regions[HOME_REGION].tracked;
        let Some(known) = tracked.jobs.get(&job).cloned() else { return };
        let deployed = tracked.deployments.values().any(|d| d.job == job && d.status.is_active());
        let Some(group) = known.spec.groups.first() else { return };
        let rolls_back = known.spec.groups.iter().any(|g| g.update.is_some_and(|u| u.auto_revert));
        // while one may roll back, nobody can tell what comes of a word on its count
        if deployed && count.is_some() && rolls_back {
            return;
        }
        let system = known.spec.job_type == JobType::System;
        let beyond = count.is_some_and(|count| {
            (system && count > 1) || group.scaling.as_ref().is_some_and(|s| s.refuses(count).is_some())
        });
        let token = self.workload.token();
        match count {
            Some(count) => {
                let spec = scaled(&known, count);
                if spec.stop {
                    // a rollback to this version starts it
                    self.ledger.wanted(&job, JobSpec { stop: false, ..spec.clone() });
                }
                let left = if spec.stop { WrittenJob::Stopped } else { WrittenJob::Spec(Box::new(spec)) };
                self.ledger.asked_to_scale(token, job.clone(), left, count);
            }
            None => self.ledger.asked_aside(token),
        }
        self.note(|_| format!("user    {token} scales {} to {count:?}", job.id));
        self.scalers.asked.insert(token, Asked { job: job.clone(), count, beyond });
        let (message, meta) = (format!("word {token}"), BTreeMap::new());
        let group = group.name.clone();
        let request =
            ScaleRequest { job, group, count, message, error: count.is_none(), meta, enforce_index: None };
        self.ask(User::Scaler, at, token, WriteRequest::ScaleJob(Box::new(request)));
    }

    /// What became of a word on a count.
    pub fn note_scaled(&mut self, token: u64, result: &Result<WriteReply, Refusal>) -> Result<(), String> {
        let Some(Asked { job, count, beyond }) = self.scalers.asked.remove(&token) else { return Ok(()) };
        match (result, count) {
            (Ok(_), None) => self.faults.fired(Kind::ScalingEventAlone),
            (Ok(_), Some(_)) if beyond => {
                return Err(format!("{job} was scaled to {count:?}, beyond its limits"));
            }
            (Ok(reply), Some(count)) => {
                self.faults.fired(Kind::Scaled);
                return self.check_scaled(&job, count, token, reply.index());
            }
            (Err(refusal), _) if refusal.message.contains("active deployment") => {
                self.faults.fired(Kind::ScalingBlockedByADeployment);
            }
            (Err(refusal), _) if refusal.kind == RefusalKind::Invalid => {
                if !beyond {
                    return Err(format!("{job} was not scaled to {count:?}: {refusal}"));
                }
                self.faults.fired(Kind::ScalingBeyondLimits);
            }
            (Err(_), _) => {}
        }
        Ok(())
    }

    /// The scaling was just acknowledged with that index, and nobody else has a word on this job under way.
    fn check_scaled(&mut self, key: &JobKey, count: i64, token: u64, index: u64) -> Result<(), String> {
        let found = self.read(User::Scaler, |view| {
            Ok((view.index() >= index, view.job(key)?, view.scaling_events(key, "group")?))
        });
        // its server may not be there yet
        let Some((true, job, events)) = found else { return Ok(()) };
        let said =
            events.0.first().is_some_and(|e| e.count == Some(count) && e.message == format!("word {token}"));
        let is = job.as_ref().and_then(|job| job.spec.groups.first()).map(|g| g.count);
        if said && is == Some(count) {
            return Ok(());
        }
        Err(format!("{key} was scaled to {count}, it has {is:?}, and its events are {:?}", events.0.first()))
    }
}

fn scaled(known: &Job, count: i64) -> JobSpec {
    let mut spec = known.spec.clone();
    spec.groups.iter_mut().take(1).for_each(|g| g.count = count);
    spec
}

#[test]
fn a_rollback_may_bring_what_was_scaled_while_stopped() {
    use model::time::Mono;
    use std::sync::Arc;
    let mut world = World::new(1, 1, 1, false);
    world.faults.heal();
    world.start_all().expect("fresh disks open");
    world.run_until(Mono(1).after(Span::seconds(30))).expect("no fault, no failure");
    world.register_quietly("job-0", 3);
    world.run_until(Mono(1).after(Span::seconds(60))).expect("no fault, no failure");
    let job = JobKey::new("default", "job-0");
    let known = world.regions[HOME_REGION].tracked.jobs.get_mut(&job).expect("it is registered");
    let known = Arc::make_mut(known);
    let (running, count) = (known.spec.clone(), 1);
    known.spec.stop = true;
    world.ask_to_scale(ServerAt { region: HOME_REGION, server: 0 }, job.clone(), Some(count));
    let mut brought = running;
    assert!(world.ledger.was_ever_wanted(&job, &brought), "it was registered");
    brought.groups[0].count = count;
    assert!(world.ledger.was_ever_wanted(&job, &brought));
    brought.groups[0].count = 2;
    assert!(!world.ledger.was_ever_wanted(&job, &brought), "nobody has said so");
}

#[test]
fn a_count_that_is_not_what_was_said_last_is_found() {
    use super::broken::{calm, run_for};
    let mut world = calm(1);
    world.register_quietly("job-0", 3);
    run_for(&mut world, Span::seconds(60));
    let (job, at) = (JobKey::new("default", "job-0"), ServerAt { region: HOME_REGION, server: 0 });
    world.ask_to_scale(at, job.clone(), Some(1));
    run_for(&mut world, Span::seconds(5));
    assert_eq!(world.faults.counts().get(&Kind::Scaled), Some(&1));
    let token = world.workload.token() - 1;
    assert_eq!(world.check_scaled(&job, 1, token, 1), Ok(()));
    for (count, token) in [(2, token), (1, token + 7)] {
        let found = world.check_scaled(&job, count, token, 1);
        assert!(found.as_ref().is_err_and(|e| e.contains("and its events are")), "{found:?}");
    }
    assert_eq!(world.check_scaled(&job, 2, token, u64::MAX), Ok(()), "its server is not there yet");
}

#[test]
fn a_word_beyond_a_limit_that_is_taken_is_found() {
    let mut world = World::new(1, 1, 1, false);
    let job = JobKey::new("default", "job-0");
    let mut told = |beyond, result: &Result<WriteReply, Refusal>| {
        world.scalers.asked.insert(1, Asked { job: job.clone(), count: Some(9), beyond });
        world.note_scaled(1, result)
    };
    let refused = Err(Refusal::new(RefusalKind::Invalid, "group count was greater than scaling maximum"));
    let done = Ok(WriteReply::Nothing { index: 7 });
    assert_eq!(told(true, &refused), Ok(()));
    assert_eq!(told(false, &done), Ok(()), "no server is up that could tell more");
    assert!(told(true, &done).is_err_and(|e| e.contains("beyond its limits")));
    assert!(told(false, &refused).is_err_and(|e| e.contains("was not scaled")));
}
