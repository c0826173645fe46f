//! Evaluations: inserting and replacing them, with what a successful one means for the job's blocked ones and for its
//! summary (scheduler.md 2); and deleting them. Refuses to know what an evaluation decided.

use super::super::cluster_config;
use super::super::fault::Fault;
use super::super::tables::{self, CreationKey, Kind, Part};
use super::super::view::Table;
use super::{ApplyTxn, Reply};
use model::eval::{EvalStatus, Evaluation};
use model::id::EvalId;
use model::job::JobStatus;
use model::time::{Span, Wall};
use std::sync::Arc;
use wire::change::Change;
use wire::event::Object;
use wire::request::{Refusal, RefusalKind, WriteReply};

impl ApplyTxn<'_> {
    pub(super) fn put_evals(&mut self, evals: Vec<Evaluation>, at: Wall) -> Result<(), Fault> {
        for eval in evals {
            self.upsert_eval(eval, at)?;
        }
        Ok(())
    }

    fn upsert_eval(&mut self, mut eval: Evaluation, at: Wall) -> Result<(), Fault> {
        let old = self.eval(eval.id)?;
        match &old {
            Some(old) => {
                eval.create_index = old.create_index;
                eval.create_time = old.create_time;
                eval.modify_time = not_before_creation(eval.create_time, at);
            }
            None => {
                eval.create_index = self.index();
                if eval.create_time.is_never() {
                    eval.create_time = at;
                }
                eval.modify_time = eval.modify_time.max(eval.create_time);
            }
        }
        self.write_eval(old.as_ref(), &mut eval)?;
        if let Some(job) = self.job(&eval.job)? {
            for (group, queued) in &eval.queued {
                if let Some(g) = job.summary.groups.get_mut(group) {
                    g.queued = *queued;
                }
            }
        }
        if eval.status == EvalStatus::Complete && eval.failed_groups.is_empty() {
            self.cancel_blocked(&eval, at)?;
        }
        Ok(())
    }

    /// Cancels the job's blocked evaluations: `by` has decided what they waited for.
    fn cancel_blocked(&mut self, by: &Evaluation, at: Wall) -> Result<(), Fault> {
        let prefix = Part::OpenEval.key(&tables::job_bytes(&by.job), &[]);
        for key in tables::keys(&self.rows, &prefix)? {
            let old: Evaluation =
                tables::must_get(&self.rows, &tables::eval_key(CreationKey::from_key_end(&key)?))?;
            if old.status != EvalStatus::Blocked || old.id == by.id {
                continue;
            }
            let mut eval = old.clone();
            eval.status = EvalStatus::Canceled;
            eval.status_description = format!("evaluation \"{}\" successful", by.id);
            eval.modify_time = not_before_creation(eval.create_time, at);
            self.write_eval(Some(&old), &mut eval)?;
        }
        Ok(())
    }

    /// Moves the evaluation's index, so that a scheduler that processes it after a plan of its own waits for that plan.
    pub(super) fn bump_eval(&mut self, id: EvalId) -> Result<(), Fault> {
        let Some(mut eval) = self.eval(id)? else { return Ok(()) };
        eval.modify_index = self.index();
        self.set_table_index(Table::Evals);
        self.put(&tables::eval_key(creation_key(&eval)), &eval)
    }

    fn write_eval(&mut self, old: Option<&Evaluation>, eval: &mut Evaluation) -> Result<(), Fault> {
        eval.modify_index = self.index();
        if old.is_some_and(|old| (old.id, old.create_index) != (eval.id, eval.create_index)) {
            return Err(Fault::corrupt(format!("evaluation {} lies where another one was created", eval.id)));
        }
        if eval.create_index > eval.modify_index {
            return Err(Fault::corrupt(format!("evaluation {} was created after its change", eval.id)));
        }
        let creation_key = creation_key(eval);
        let at = creation_key.bytes();
        if let Some(old) = old.filter(|old| old.job != eval.job) {
            let job = tables::job_bytes(&old.job);
            self.remove(&Part::Eval.key(&job, &at))?;
            self.remove(&Part::OpenEval.key(&job, &at))?;
            self.job(&old.job)?;
        }
        let job = tables::job_bytes(&eval.job);
        self.put(&tables::eval_key(creation_key), eval)?;
        self.put_bytes(
            &Kind::EvalId.key(&[creation_key.id.as_bytes()]),
            &creation_key.create_index.to_be_bytes(),
        )?;
        self.put_bytes(&Part::Eval.key(&job, &at), &[])?;
        let open = Part::OpenEval.key(&job, &at);
        if eval.status.is_terminal() {
            self.remove(&open)?;
        } else {
            self.put_bytes(&open, &[])?;
        }
        // The job's status depends on its evaluations: have it looked at when the entry ends.
        self.job(&eval.job)?;
        self.set_table_index(Table::Evals);
        self.events.push(Object::Eval(Arc::new(eval.clone())));
        self.changes.push(Change::Eval(Box::new(eval.clone())));
        Ok(())
    }

    /// Deletes all of these, or none; with `skip_needed`, those that can go. What goes is found nowhere any more.
    pub(super) fn delete_evals(&mut self, ids: &[EvalId], skip_needed: bool) -> Result<Reply, Fault> {
        let refuse = |message: String| Ok(Err(Refusal::new(RefusalKind::Validation, message)));
        if !cluster_config::read_scheduler_config(&self.rows)?.settings.pause_eval_broker {
            return refuse("eval broker is enabled; eval broker must be paused to delete evals".into());
        }
        let mut leaving = Vec::new();
        for id in ids {
            match self.eval(*id)? {
                Some(eval) if !self.is_eval_needed(&eval)? => leaving.push(eval),
                _ if skip_needed => {}
                Some(_) => return refuse(format!("eval {id} is not safe to delete")),
                None => return refuse("eval not found".into()),
            }
        }
        let mut count = 0;
        for eval in leaving {
            count += u64::from(self.remove_eval(eval)?);
        }
        Ok(Ok(WriteReply::Deleted { count, index: self.index() }))
    }

    fn is_eval_needed(&mut self, eval: &Evaluation) -> Result<bool, Fault> {
        let wanted = self.job(&eval.job)?.is_some_and(|row| !row.stop);
        cluster_config::is_eval_needed(&self.rows, eval, wanted)
    }

    /// Removes an evaluation. False: it was deleted already.
    pub(super) fn remove_eval(&mut self, eval: Evaluation) -> Result<bool, Fault> {
        if self.eval(eval.id)?.is_none() {
            return Ok(false);
        }
        let (creation_key, job) = (creation_key(&eval), tables::job_bytes(&eval.job));
        let at = creation_key.bytes();
        self.remove(&tables::eval_key(creation_key))?;
        self.remove(&Kind::EvalId.key(&[creation_key.id.as_bytes()]))?;
        self.remove(&Part::Eval.key(&job, &at))?;
        self.remove(&Part::OpenEval.key(&job, &at))?;
        // a job that was never placed, and now will not be, is dead; any other status follows from the rows that are left
        if let Some(row) = self.job(&eval.job)?
            && let Some(newest) = row.versions.last_mut().filter(|v| v.status == JobStatus::Pending)
        {
            newest.status = JobStatus::Dead;
        }
        self.set_table_index(Table::Evals);
        self.changes.push(Change::EvalDeleted(Box::new(eval)));
        Ok(true)
    }

    pub(super) fn eval(&self, id: EvalId) -> Result<Option<Evaluation>, Fault> {
        match tables::creation_key_of(&self.rows, Kind::EvalId, id.0)? {
            None => Ok(None),
            Some(creation_key) => tables::must_get(&self.rows, &tables::eval_key(creation_key)).map(Some),
        }
    }
}

fn creation_key(eval: &Evaluation) -> CreationKey {
    CreationKey { create_index: eval.create_index, id: eval.id.0 }
}

/// The time of a change: after the creation, whatever the clocks say.
fn not_before_creation(created: Wall, at: Wall) -> Wall {
    at.max(created + Span::nanos(1))
}
