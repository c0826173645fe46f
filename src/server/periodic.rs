//! The launches of periodic jobs: when each is due, as the leader reckons from the state (server.md 10). An entry
//! says that one happens; the state lets each happen once, so that nothing is lost or doubled when leaders or clocks change.
//!
//! Refuses to know: what a child is. Of launches that were missed, the newest alone is made up for.

use super::clock::WallClock;
use super::context::Context;
use super::pending::OnApply;
use model::cron::Schedule;
use model::eval::{DEFAULT_PRIORITY, Evaluation, Trigger};
use model::id::JobKey;
use model::job::{Job, JobType};
use model::time::{Mono, Wall};
use state::fault::Fault;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::command::{Command, LaunchJobCommand};

/// Launches proposed in one turn; the rest follows in the next.
const LAUNCHES_PER_TURN: usize = 64;

#[derive(Default)]
pub struct PeriodicDispatcher {
    jobs: BTreeMap<JobKey, Timer>,
    due: BTreeSet<(Wall, JobKey)>,
}

struct Timer {
    /// The version whose times these are.
    job_modify_index: u64,
    /// Up to when launches are decided.
    launched: Wall,
    schedule: Schedule,
    /// The next launch. `None`: there is no further one, or its entry is under way.
    next: Option<Wall>,
}

impl PeriodicDispatcher {
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

    /// `job`: as it is now.
    pub fn apply_change(
        &mut self,
        key: &JobKey,
        job: Option<&Job>,
        view: &View,
        cx: &Context<'_>,
    ) -> Result<(), Fault> {
        let timed = job.filter(|j| !j.spec.stop && !j.spec.is_parameterized());
        let periodic = timed.and_then(|j| Some((j, j.spec.periodic.as_ref()?)));
        let Some((job, periodic)) = periodic else {
            self.forget(key);
            return Ok(());
        };
        let Some(launched) = view.launched(key)? else { return Ok(()) };
        let job_modify_index = job.job_modify_index;
        if self.knows(key, job_modify_index, launched) {
            return Ok(());
        }
        self.forget(key);
        let Some(schedule) = periodic.schedule(cx.config.zones) else {
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
        self.due.extend(next.map(|next| (next, key.clone())));
        self.jobs.insert(key.clone(), Timer { job_modify_index, launched, schedule, next });
        Ok(())
    }

    /// Launches what is due, unless the time is not known, or there is no room to write it down.
    pub fn launch_due(&mut self, cx: &mut Context<'_>) {
        if !cx.space_free || !cx.clock.is_set() {
            return;
        }
        for _ in 0..LAUNCHES_PER_TURN {
            let Some((job, version, moment)) = self.take_due(cx.at) else { return };
            launch(job, moment, Some(version), OnApply::Nothing, cx);
        }
    }

    /// When the next one is due by this server's clock.
    pub fn next_deadline(&self, clock: WallClock) -> Option<Mono> {
        self.due.first().and_then(|(due, _)| clock.when(*due))
    }

    /// The jobs whose launches it times.
    #[cfg(any(test, feature = "testing"))]
    pub fn timed_jobs(&self) -> BTreeSet<JobKey> {
        self.jobs.keys().cloned().collect()
    }
}

/// A launch that a user wants now.
pub fn force_launch(token: u64, job: JobKey, cx: &mut Context<'_>) {
    let moment = Wall(cx.at.unix_seconds().saturating_mul(1_000_000_000));
    launch(job, moment, None, OnApply::Reply { token }, cx);
}

fn launch(job: JobKey, moment: Wall, timed_by: Option<u64>, then: OnApply, cx: &mut Context<'_>) {
    let (id, tracked_versions) = (cx.ids.eval(), cx.config.tracked_versions);
    // the job, type and priority are the child's: applying fills them in
    let trigger = Trigger::PeriodicJob;
    let eval = Evaluation::pending(id, job.clone(), JobType::Batch, DEFAULT_PRIORITY, trigger, cx.at);
    let order = LaunchJobCommand { job, moment, timed_by, eval, tracked_versions, at: cx.at };
    cx.propose(Command::LaunchJob(Box::new(order)), then);
}

#[cfg(test)]
mod tests;
