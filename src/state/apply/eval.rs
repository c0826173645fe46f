//! Evaluations: inserting and replacing them, with what a successful one means for the job's blocked ones and for its
//! summary (reference: scheduler 2). Refuses to know what an evaluation decided.

use super::super::fault::Fault;
use super::super::tables::{self, Kind, Part, Place};
use super::super::view::Table;
use super::Turn;
use crate::model::eval::{EvalStatus, Evaluation};
use crate::model::id::EvalId;
use crate::model::time::{Span, Wall};
use crate::wire::change::Change;
use crate::wire::event::Object;
use std::sync::Arc;

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

    fn eval(&self, id: EvalId) -> Result<Option<Evaluation>, Fault> {
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
