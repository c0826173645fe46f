//! Operators who tell the scheduler how to work, and stop it for a while to delete what is done; and users who want older
//! versions back, or call them good. And what must hold of it: in a pause nothing waits in the leader's queues.

use super::faults::Kind;
use super::ledger::WrittenJob;
use super::users::{HOME_REGION, User};
use super::world::World;
use model::eval::Evaluation;
use model::id::{EvalId, JobKey};
use model::job::Job;
use model::scheduling::{Algorithm, SchedulerSettings};
use wire::request::WriteRequest;

/// Evaluations that an operator deletes at once.
const MOST_DELETED: usize = 50;

impl World {
    /// One operator's word to the scheduler: rather the end of a pause than its beginning, and within it something goes.
    pub fn configure_scheduler(&mut self) -> Result<(), String> {
        let Some(mut settings) = self.settings()? else { return Ok(()) };
        let draw = self.operators.draw(6);
        let kind = match (settings.pause_eval_broker, draw) {
            (true, 0 | 1) => {
                self.delete_ended_evals();
                return Ok(());
            }
            (true, _) => {
                settings.pause_eval_broker = false;
                Kind::BrokerGoesOn
            }
            (false, 0 | 1) => {
                settings.pause_eval_broker = true;
                Kind::BrokerPaused
            }
            (false, _) => {
                settings.algorithm = match settings.algorithm {
                    Algorithm::Binpack => Algorithm::Spread,
                    Algorithm::Spread => Algorithm::Binpack,
                };
                Kind::AlgorithmChanged
            }
        };
        self.operator_asks(Some(kind), WriteRequest::ConfigureScheduler { settings, cas: None });
        Ok(())
    }

    /// When all is well again, nothing stays paused.
    pub fn end_pause(&mut self) -> Result<(), String> {
        let paused = self.settings()?.filter(|s| s.pause_eval_broker);
        if let Some(settings) = paused {
            let settings = SchedulerSettings { pause_eval_broker: false, ..settings };
            self.operator_asks(None, WriteRequest::ConfigureScheduler { settings, cas: None });
        }
        Ok(())
    }

    /// What is still to be done stays: who deletes that, wants it never to be done.
    fn delete_ended_evals(&mut self) {
        let done = |e: &Evaluation| e.status.is_terminal();
        let ids = self.read(User::Operator, |view| {
            let all = view.evals(None, usize::MAX)?;
            Ok(all.iter().filter(|e| done(e)).map(|e| e.id).take(MOST_DELETED).collect::<Vec<EvalId>>())
        });
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { return };
        let action = WriteRequest::DeleteEvals { ids, skip_needed: false };
        self.operator_asks(Some(Kind::EvaluationsDeleted), action);
    }

    /// A user wants an older version back, or calls it good.
    pub fn revert_a_job(&mut self, job: JobKey) {
        let settled = self.ledger.is_settled(&job, self.now);
        let Some(at) = self.server_of(User::Workload).filter(|_| settled) else { return };
        let Some(versions) = self.read(User::Workload, |view| view.job_versions(&job)) else { return };
        let newest = self.regions[HOME_REGION].tracked.jobs.get(&job);
        // its server may not be there yet
        if newest.map(|j| j.job_modify_index) != versions.first().map(|j| j.job_modify_index) {
            return;
        }
        let older: Vec<Job> = versions.into_iter().skip(1).collect();
        let Some(old) = older.get(self.workload.draw(older.len().max(1) as u64) as usize) else { return };
        let (token, version) = (self.workload.token(), old.version);
        let action = if self.workload.draw(3) == 0 {
            self.ledger.counts_when_done(token, Kind::VersionCalledGood);
            self.ledger.asked_aside(token);
            WriteRequest::SetStability { job, version, stable: true }
        } else {
            self.ledger.counts_when_done(token, Kind::JobReverted);
            let spec = old.spec.clone();
            let left = if spec.stop { WrittenJob::Stopped } else { WrittenJob::Spec(Box::new(spec)) };
            self.ledger.asked(token, job.clone(), left);
            WriteRequest::RevertJob { job, version, enforce_prior_version: None }
        };
        self.note(|_| format!("user    {token} {action:?}"));
        self.ask(User::Workload, at, token, action);
    }

    /// As the operators' server shows them.
    fn settings(&mut self) -> Result<Option<SchedulerSettings>, String> {
        let shown = self.read(User::Operator, |view| Ok((view.index(), view.scheduler_config()?)));
        let Some((index, config)) = shown else { return Ok(None) };
        self.operators.check_settings(index, &config)?;
        Ok(Some(config.settings))
    }
}

/// In a pause nothing waits in the leader's queues, of which that many are told to be there.
pub fn check_pause(queued: usize) -> Result<(), String> {
    match queued {
        0 => Ok(()),
        n => Err(format!("{n} evaluations are in the queues of a leader that is paused")),
    }
}
