//! Operators who tell the scheduler how to work, and stop it for a while to delete what is done; and users who want older
//! versions back, or call them good. And what must hold of it: in a pause nothing waits in the leader's queues.

use super::ledger::Left;
use super::world::World;
use model::eval::Evaluation;
use model::id::{EvalId, JobKey};
use model::job::Job;
use model::scheduling::{Algorithm, SchedulerSettings};
use server::effects::Input;
use state::fault::Fault;
use state::view::View;
use wire::request::WriteRequest;

/// Evaluations that an operator deletes at once.
const MOST_DELETED: usize = 50;

impl World {
    /// One operator's word to the scheduler: rather the end of a pause than its beginning, and within it something goes.
    pub fn tell_scheduler(&mut self) {
        let Some(mut settings) = self.settings() else { return };
        let draw = self.operators.draw(6);
        let kind = match (settings.pause_eval_broker, draw) {
            (true, 0 | 1) => return self.delete_what_is_done(),
            (true, _) => {
                settings.pause_eval_broker = false;
                "broker goes on"
            }
            (false, 0 | 1) => {
                settings.pause_eval_broker = true;
                "broker paused"
            }
            (false, _) => {
                settings.algorithm = match settings.algorithm {
                    Algorithm::Binpack => Algorithm::Spread,
                    Algorithm::Spread => Algorithm::Binpack,
                };
                "algorithm changed"
            }
        };
        self.faults.fired(kind);
        self.operator_asks(WriteRequest::ConfigureScheduler { settings, cas: None });
    }

    /// When all is well again, nothing stays paused.
    pub fn end_pause(&mut self) -> Result<(), String> {
        let paused = self.settings().filter(|s| s.pause_eval_broker);
        if let Some(settings) = paused {
            let settings = SchedulerSettings { pause_eval_broker: false, ..settings };
            self.operator_asks(WriteRequest::ConfigureScheduler { settings, cas: None });
        }
        Ok(())
    }

    /// What is still to be done stays: who deletes that, wants it never to be done.
    fn delete_what_is_done(&mut self) {
        let done = |e: &Evaluation| e.status.is_terminal();
        let ids = self.read(|view| {
            let all = view.evals(None, usize::MAX)?;
            Ok(all.iter().filter(|e| done(e)).map(|e| e.id).take(MOST_DELETED).collect::<Vec<EvalId>>())
        });
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { return };
        self.faults.fired("evaluations deleted");
        self.operator_asks(WriteRequest::DeleteEvals { ids, skip_needed: true });
    }

    /// A user wants an older version back, or calls it good.
    pub fn go_back(&mut self, job: JobKey) {
        if !self.server.is_up() || !self.ledger.is_free(&job) {
            return;
        }
        let Some(versions) = self.read(|view| view.job_versions(&job)) else { return };
        let older: Vec<Job> = versions.into_iter().skip(1).collect();
        let Some(old) = older.get(self.workload.draw(older.len().max(1) as u64) as usize) else { return };
        let (token, version) = (self.workload.token(), old.version);
        let action = if self.workload.draw(3) == 0 {
            self.faults.fired("version called good");
            self.ledger.asked_aside(token);
            WriteRequest::SetStability { job, version, stable: true }
        } else {
            self.faults.fired("job reverted");
            let spec = old.spec.clone();
            let left = if spec.stop { Left::Stopped } else { Left::Spec(Box::new(spec)) };
            self.ledger.asked(token, job.clone(), left);
            WriteRequest::RevertJob { job, version, enforce_prior_version: None }
        };
        self.note(|_| format!("user    {token} {action:?}"));
        self.server_input(Input::Request { token, action });
    }

    fn settings(&mut self) -> Option<SchedulerSettings> {
        self.read(|view| Ok(view.scheduler_config()?.settings))
    }

    /// `None`: the server is not there, or its disk is not.
    pub fn read<T>(&mut self, look: impl FnOnce(&View) -> Result<T, Fault>) -> Option<T> {
        let server = self.server.server.as_ref()?;
        self.server.disk.hold_faults(true);
        let found = server.reader().view().and_then(|view| look(&view));
        self.server.disk.hold_faults(false);
        found.ok()
    }

    pub fn check_pause(&self) -> Result<(), String> {
        match self.server.server.as_ref().map_or(0, |s| s.queued_in_the_pause()) {
            0 => Ok(()),
            n => Err(format!("{n} evaluations are in the queues of a leader that is paused")),
        }
    }
}
