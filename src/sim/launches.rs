//! Periodic jobs in the simulated world: times of every kind, users who launch them by hand, and what must be so of their
//! launches while servers die and clocks step: none is lost, none happens twice.

use super::api_requests::may_be_done;
use super::faults::Kind;
use super::ledger::WrittenJob;
use super::place::ServerAt;
use super::users::User;
use super::workload::Workload;
use super::world::World;
use jiff::tz::TimeZone;
use model::cron::Schedule;
use model::eval::{Evaluation, Trigger};
use model::id::JobKey;
use model::job::{Job, JobSpec};
use model::periodic::Periodic;
use model::time::{Span, Wall};
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::request::{Refusal, WriteReply, WriteRequest};

pub const CLOCK_JOB: &str = "clock";
const MADE_UP: &str = "Sim/Summer";

/// By job: its version, and up to when its launches were decided.
pub type Launched = BTreeMap<JobKey, (u64, Wall)>;

/// A zone that no machine has to know.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name == MADE_UP { TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").ok() } else { None }
}

impl Workload {
    pub fn times(&mut self) -> Periodic {
        let specs = match self.draw(8) {
            0 => vec!["0 * * * *"],
            1 => vec!["0 0 30 2 *"],
            2 => vec!["0 * * * * * *", "30 */2 * * * * *"],
            _ => vec!["*/20 * * * * * *"],
        };
        Periodic {
            enabled: self.draw(8) > 0,
            spec: String::new(),
            specs: specs.into_iter().map(String::from).collect(),
            prohibit_overlap: self.draw(3) == 0,
            time_zone: if self.draw(2) == 0 { MADE_UP.into() } else { Periodic::UTC.into() },
        }
    }
}

impl World {
    pub fn force_launch(&mut self) {
        let job = JobKey::new("default", CLOCK_JOB);
        let Some(at) = self.server_of(User::Workload).filter(|_| self.ledger.is_free(&job)) else { return };
        let token = self.workload.token();
        self.forced_launches.insert(token, None);
        self.note(|_| format!("user    {token} launches {job}"));
        self.ledger.asked_aside(token);
        self.faults.fired(Kind::LaunchByHand);
        self.ask(User::Workload, at, token, WriteRequest::ForceLaunch { job });
    }

    /// The leader times the jobs that the state says.
    pub fn check_timed_jobs(&self, at: ServerAt, view: &View) -> Result<(), String> {
        let Some(known) = self.regions[at].brain.as_ref().and_then(|s| s.timed_jobs()) else { return Ok(()) };
        let parent = JobKey::new("default", CLOCK_JOB);
        let job = view.job(&parent).map_err(|e| e.to_string())?;
        let timed = job.filter(|j| schedule(&j.spec).is_some()).map(|_| parent);
        let timed: BTreeSet<JobKey> = timed.into_iter().collect();
        if known != timed {
            return Err(format!("the leader times {known:?}, the state {timed:?}"));
        }
        Ok(())
    }

    /// Whenever the state has moved.
    pub fn check_launches(&mut self, at: ServerAt, view: &View) -> Result<(), String> {
        let parent = JobKey::new("default", CLOCK_JOB);
        let job = view.job(&parent).map_err(|e| e.to_string())?;
        let Some(job) = job else { return Ok(()) };
        if job.spec.periodic.is_none() {
            return Ok(());
        }
        let Some(launched) = view.launched(&parent).map_err(|e| e.to_string())? else { return Ok(()) };
        let now = (job.job_modify_index, launched);
        let before = self.regions[at.region].launched.insert(parent.clone(), now);
        match before.filter(|before| before.0 == now.0 && before.1 != now.1) {
            Some((_, before)) => self.check_launch(view, &job, before, launched),
            None => Ok(()),
        }
    }

    /// Launches up to `launched` are decided now.
    pub(super) fn check_launch(
        &mut self,
        view: &View,
        job: &Job,
        before: Wall,
        launched: Wall,
    ) -> Result<(), String> {
        let key = job.spec.key();
        let Some(schedule) = schedule(&job.spec) else {
            return Err(format!("{key} has no times to launch at"));
        };
        let first = schedule.next(before);
        if schedule.next(launched + Span(-1)) != Some(launched) || launched < before {
            return Err(format!(
                "{key} was launched for {launched:?}, after {before:?}: it names no such time"
            ));
        }
        let missed = first != Some(launched);
        self.faults.fired(if missed { Kind::LaunchesWereMissed } else { Kind::LaunchedInTime });
        let child = JobKey::new("default", format!("{CLOCK_JOB}/periodic-{}", launched.unix_seconds()));
        let made = view.job(&child).map_err(|e| e.to_string())?.is_some();
        let alone = job.spec.periodic.as_ref().is_some_and(|p| p.prohibit_overlap);
        if !made && !alone {
            return Err(format!("the launch of {key} for {launched:?} is lost"));
        }
        if !made {
            self.faults.fired(Kind::LaunchSkipped);
        }
        Ok(())
    }

    /// Without faults, after a while: nothing that was due is still to come, and nothing has come twice.
    pub fn check_launched(&self) -> Result<(), String> {
        let view = self.newest_view()?;
        let parent = JobKey::new("default", CLOCK_JOB);
        let launched = view.launched(&parent).map_err(|e| e.to_string())?;
        if let (Some(job), Some(launched)) = (view.job(&parent).map_err(|e| e.to_string())?, launched)
            && let Some(schedule) = schedule(&job.spec)
            && let Some(wall) = self.any_server()?.clock.at(self.now).wall
            && schedule.newest(launched, wall + Span::seconds(-2)).is_some()
        {
            return Err(format!("{parent} should have been launched after {launched:?}: it is {wall:?}"));
        }
        let children = view.jobs(None, &format!("{CLOCK_JOB}/"), None, usize::MAX);
        children.map_err(|e| e.to_string())?.iter().try_for_each(|child| self.is_launched_once(&view, child))
    }

    /// By the clock at most once, and besides as often as somebody wanted it in that second, or may have wanted it.
    pub(super) fn is_launched_once(&self, view: &View, child: &Job) -> Result<(), String> {
        let evals = view.evals_of_job(&child.spec.key()).map_err(|e| e.to_string())?;
        let by_hand = |e: &Evaluation| self.forced_launches.values().any(|known| *known == Some(e.id));
        let by_clock = |e: &&Evaluation| e.trigger == Trigger::PeriodicJob && !by_hand(e);
        let launches = evals.iter().filter(by_clock).count();
        let unsure = self.forced_launches.values().filter(|known| known.is_none()).count();
        if child.spec.parent != CLOCK_JOB || launches > 1 + unsure {
            return Err(format!("{} was launched {launches} times by the clock", child.spec.id));
        }
        Ok(())
    }

    /// What a launch by hand came to.
    pub fn note_launch(&mut self, token: u64, result: &Result<WriteReply, Refusal>) {
        let Some(known) = self.forced_launches.get_mut(&token) else { return };
        match result {
            Ok(WriteReply::Job { eval, .. }) => *known = *eval,
            Err(refusal) if may_be_done(refusal) => {}
            _ => drop(self.forced_launches.remove(&token)),
        }
    }

    /// A user has seen enough of it.
    pub fn stop_the_clock(&mut self) {
        let job = JobKey::new("default", CLOCK_JOB);
        let Some(at) = self.server_of(User::Workload) else { return };
        let token = self.workload.token();
        self.ledger.asked(token, job.clone(), WrittenJob::Stopped);
        let action =
            WriteRequest::DeregisterJob { job, purge: false, eval_priority: None, no_shutdown_delay: false };
        self.ask(User::Workload, at, token, action);
    }
}

fn schedule(spec: &JobSpec) -> Option<Schedule> {
    spec.periodic.as_ref().filter(|_| !spec.stop)?.schedule(zone)
}
