//! Evaluations: inserting and replacing them, with what a successful one means for the job's blocked ones and for its
//! summary (scheduler.md 2); and deleting them. Refuses to know what an evaluation decided.

use super::super::fault::Fault;
use super::super::operating;
use super::super::tables::{self, Kind, Part, Place};
use super::super::view::Table;
use super::{Reply, Turn};
use model::eval::{EvalStatus, Evaluation};
use model::id::EvalId;
use model::job::JobStatus;
use model::time::{Span, Wall};
use std::sync::Arc;
use wire::change::Change;
use wire::event::Object;
use wire::request::{Refusal, RefusalKind, WriteReply};

impl Turn<'_> {
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
                eval.modify_time = later(eval.create_time, at);
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

    /// What the job still waited for, `by` has decided.
    fn cancel_blocked(&mut self, by: &Evaluation, at: Wall) -> Result<(), Fault> {
        let prefix = Part::OpenEval.key(&tables::job_bytes(&by.job), &[]);
        for key in tables::keys(&self.rows, &prefix)? {
            let old: Evaluation = tables::must_get(&self.rows, &tables::eval_key(Place::at_end(&key)?))?;
            if old.status != EvalStatus::Blocked || old.id == by.id {
                continue;
            }
            let mut eval = old.clone();
            eval.status = EvalStatus::Canceled;
            eval.status_description = format!("evaluation \"{}\" successful", by.id);
            eval.modify_time = later(eval.create_time, at);
            self.write_eval(Some(&old), &mut eval)?;
        }
        Ok(())
    }

    /// So that a scheduler that starts after a plan of this evaluation waits for the plan.
    pub(super) fn bump_eval(&mut self, id: EvalId) -> Result<(), Fault> {
        let Some(mut eval) = self.eval(id)? else { return Ok(()) };
        eval.modify_index = self.index();
        self.moved(Table::Evals);
        self.put(&tables::eval_key(place(&eval)), &eval)
    }

    fn write_eval(&mut self, old: Option<&Evaluation>, eval: &mut Evaluation) -> Result<(), Fault> {
        eval.modify_index = self.index();
        if eval.create_index > eval.modify_index {
            return Err(Fault::corrupt(format!("evaluation {} was created after its change", eval.id)));
        }
        let place = place(eval);
        let at = place.bytes();
        if let Some(old) = old.filter(|old| old.job != eval.job) {
            let job = tables::job_bytes(&old.job);
            self.remove(&Part::Eval.key(&job, &at))?;
            self.remove(&Part::OpenEval.key(&job, &at))?;
            self.job(&old.job)?;
        }
        let job = tables::job_bytes(&eval.job);
        self.put(&tables::eval_key(place), eval)?;
        self.put_bytes(&Kind::EvalId.key(&[place.id.as_bytes()]), &place.create_index.to_be_bytes())?;
        self.put_bytes(&Part::Eval.key(&job, &at), &[])?;
        let open = Part::OpenEval.key(&job, &at);
        if eval.status.is_terminal() {
            self.remove(&open)?;
        } else {
            self.put_bytes(&open, &[])?;
        }
        // The job's status depends on its evaluations: have it looked at when the entry ends.
        self.job(&eval.job)?;
        self.moved(Table::Evals);
        self.events.push(Object::Eval(Arc::new(eval.clone())));
        self.changes.push(Change::Eval(Box::new(eval.clone())));
        Ok(())
    }

    /// All of these, or none; with `skip_needed`, those that can go. What goes is found nowhere any more.
    pub(super) fn delete_evals(&mut self, ids: &[EvalId], skip_needed: bool) -> Result<Reply, Fault> {
        let refuse = |message: String| Ok(Err(Refusal::new(RefusalKind::Validation, message)));
        if !operating::read_scheduler_config(&self.rows)?.settings.pause_eval_broker {
            return refuse("eval broker is enabled; eval broker must be paused to delete evals".into());
        }
        let mut leaving = Vec::new();
        for id in ids {
            match self.eval(*id)? {
                Some(eval) if !self.is_needed(&eval)? => leaving.push(eval),
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

    fn is_needed(&mut self, eval: &Evaluation) -> Result<bool, Fault> {
        let wanted = self.job(&eval.job)?.is_some_and(|row| !row.stop);
        operating::is_needed(&self.rows, eval, wanted)
    }

    /// False: it is gone already.
    pub(super) fn remove_eval(&mut self, eval: Evaluation) -> Result<bool, Fault> {
        if self.eval(eval.id)?.is_none() {
            return Ok(false);
        }
        let (place, job) = (place(&eval), tables::job_bytes(&eval.job));
        let at = place.bytes();
        self.remove(&tables::eval_key(place))?;
        self.remove(&Kind::EvalId.key(&[place.id.as_bytes()]))?;
        self.remove(&Part::Eval.key(&job, &at))?;
        self.remove(&Part::OpenEval.key(&job, &at))?;
        // a job that was never placed, and will not be, is dead; whatever else it is follows from what is left of it
        if let Some(row) = self.job(&eval.job)?
            && let Some(newest) = row.versions.last_mut().filter(|v| v.status == JobStatus::Pending)
        {
            newest.status = JobStatus::Dead;
        }
        self.moved(Table::Evals);
        self.changes.push(Change::EvalDeleted(Box::new(eval)));
        Ok(true)
    }

    pub(super) fn eval(&self, id: EvalId) -> Result<Option<Evaluation>, Fault> {
        match tables::place_of(&self.rows, Kind::EvalId, id.0)? {
            None => Ok(None),
            Some(place) => tables::must_get(&self.rows, &tables::eval_key(place)).map(Some),
        }
    }
}

fn place(eval: &Evaluation) -> Place {
    Place { create_index: eval.create_index, id: eval.id.0 }
}

/// Never at or before the creation, whatever the clocks say.
fn later(created: Wall, at: Wall) -> Wall {
    at.max(created + Span::nanos(1))
}
