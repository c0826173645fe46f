//! The launches of periodic jobs: when each is due, as the leader reckons from the state (server.md 10). An entry
//! says that one happens; the state lets each happen once, so that nothing is lost or doubled when leaders or clocks change.
//!
//! Refuses to know: what a child is. Of launches that were missed, the newest alone is made up for.

use super::{Op, Server};
use model::cron::Schedule;
use model::eval::{DEFAULT_PRIORITY, Evaluation, Trigger};
use model::id::JobKey;
use model::job::{Job, JobType};
use model::time::{Mono, Now, Wall};
use state::fault::Fault;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::command::{Command, LaunchJobCommand};

/// The rest follows in the next turn.
const LAUNCHES_PER_TURN: usize = 64;

#[derive(Default)]
pub struct Launches {
    jobs: BTreeMap<JobKey, Timer>,
    due: BTreeSet<(Wall, JobKey)>,
}

struct Timer {
    /// The version whose times these are.
    job_modify_index: u64,
    /// Up to when launches are decided.
    launched: Wall,
    schedule: Schedule,
    /// `None`: there is no further one, or its entry is under way.
    next: Option<Wall>,
}

impl Launches {
    fn forget(&mut self, key: &JobKey) {
        if let Some(Timer { next: Some(next), .. }) = self.jobs.remove(key) {
            self.due.remove(&(next, key.clone()));
        }
    }

    fn knows(&self, key: &JobKey, job_modify_index: u64, launched: Wall) -> bool {
        let same = |t: &Timer| (t.job_modify_index, t.launched) == (job_modify_index, launched);
        self.jobs.get(key).is_some_and(same)
    }

    /// The next job that has something to launch at `at`, its version, and the moment that it is for.
    fn take_due(&mut self, at: Wall) -> Option<(JobKey, u64, Wall)> {
        let (due, key) = self.due.first().filter(|(due, _)| *due <= at)?.clone();
        self.due.pop_first();
        let timer = self.jobs.get_mut(&key)?;
        timer.next = None;
        let newest = timer.schedule.newest(timer.launched, at);
        Some((key, timer.job_modify_index, newest.unwrap_or(due)))
    }
}

impl Server {
    /// `job`: as it is now.
    pub(super) fn follow_launches(
        &mut self,
        key: &JobKey,
        job: Option<&Job>,
        view: &View,
    ) -> Result<(), Fault> {
        let timed = job.filter(|j| !j.spec.stop && !j.spec.is_parameterized());
        let periodic = timed.and_then(|j| Some((j, j.spec.periodic.as_ref()?)));
        let Some((job, periodic)) = periodic else {
            self.launches.forget(key);
            return Ok(());
        };
        let Some(launched) = view.launched(key)? else { return Ok(()) };
        let job_modify_index = job.job_modify_index;
        if self.launches.knows(key, job_modify_index, launched) {
            return Ok(());
        }
        self.launches.forget(key);
        let Some(schedule) = periodic.schedule(self.config.zones) else {
            if periodic.enabled {
                let zone = periodic.time_zone.as_str();
                tracing::warn!(
                    job = key.id,
                    zone,
                    "is not launched: this machine does not know its time zone"
                );
            }
            return Ok(());
        };
        let next = schedule.next(launched);
        self.launches.due.extend(next.map(|next| (next, key.clone())));
        self.launches.jobs.insert(key.clone(), Timer { job_modify_index, launched, schedule, next });
        Ok(())
    }

    /// What is due is launched, unless the time is not known, or there is no room to write it down.
    pub(super) fn launch_due(&mut self, now: Now) {
        if !self.ready || !self.space_free || self.wall.0.is_never() {
            return;
        }
        let at = self.stamp(now);
        for _ in 0..LAUNCHES_PER_TURN {
            let Some((job, version, moment)) = self.launches.take_due(at) else { return };
            self.launch(job, moment, Some(version), Op::Unattended, at);
        }
    }

    pub(super) fn force_launch(&mut self, token: u64, job: JobKey, at: Wall) {
        let moment = Wall(at.unix_seconds().saturating_mul(1_000_000_000));
        self.launch(job, moment, None, Op::Reply { token }, at);
    }

    fn launch(&mut self, job: JobKey, moment: Wall, timed_by: Option<u64>, op: Op, at: Wall) {
        let (id, tracked_versions) = (self.ids.eval(), self.config.tracked_versions);
        // whose it is, of which type and how urgent, applying says
        let trigger = Trigger::PeriodicJob;
        let eval = Evaluation::pending(id, job.clone(), JobType::Batch, DEFAULT_PRIORITY, trigger, at);
        let order = LaunchJobCommand { job, moment, timed_by, eval, tracked_versions, at };
        self.propose(&Command::LaunchJob(Box::new(order)), op);
    }

    /// When the next one is due by this server's clock.
    pub(super) fn next_launch(&self) -> Option<Mono> {
        let (due, _) = self.launches.due.first().filter(|_| self.space_free && !self.wall.0.is_never())?;
        Some(self.wall.1.after(*due - self.wall.0))
    }

    /// The periodic jobs whose launches the leader times, if it leads.
    #[cfg(any(test, feature = "testing"))]
    pub fn timed_jobs(&self) -> Option<BTreeSet<JobKey>> {
        self.ready.then(|| self.launches.jobs.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests;
