//! The pause: while an operator wants it, no evaluation is handed out, and the queues are empty; then they are filled from the
//! state, as a new leader does it. And what only a pause allows: deleting evaluations.
//!
//! Refuses to know why there is a pause. Invariant: what is deleted is in no queue, since there is nothing in any.

use super::blocked::Blocked;
use super::broker::Broker;
use super::unhurried::Unhurried;
use super::{Op, Server};
use model::id::EvalId;
use model::time::Mono;
use state::fault::Fault;
use state::view::View;
use wire::command::Command;
use wire::request::{Refusal, RefusalKind, WriteReply};

/// Evaluations that one entry deletes; the next follows when it is applied.
const DELETED_AT_ONCE: usize = 1024;

impl Server {
    pub(super) fn follow_pause(&mut self, now: Mono) -> Result<(), Fault> {
        let view = self.log.reader().view()?;
        let paused = view.scheduler_config()?.settings.pause_eval_broker;
        let before = std::mem::replace(&mut self.paused, paused);
        if paused && !before {
            self.empty_queues();
        } else if before && !paused {
            self.fill_queues(&view, now)?;
        }
        Ok(())
    }

    /// Nothing is left, and whatever comes of what was in workers' hands or on its way into the log concerns no queue.
    pub(super) fn empty_queues(&mut self) {
        self.broker = Broker::new(self.ids.seed());
        self.blocked = Blocked::default();
        self.unhurried = Unhurried::default();
        self.outstanding.clear();
        for op in self.ops.values_mut().filter(|op| matches!(op, Op::Plan { .. } | Op::Failed { .. })) {
            *op = Op::Unattended;
        }
    }

    /// A blocked evaluation may have missed its moment meanwhile: each gets one more try.
    pub(super) fn fill_queues(&mut self, view: &View, now: Mono) -> Result<(), Fault> {
        for eval in view.open_evals()? {
            self.await_turn(eval, now);
        }
        Ok(())
    }

    pub(super) fn delete_for_user(
        &mut self,
        token: u64,
        ids: Vec<EvalId>,
        skip_needed: bool,
        view: &View,
    ) -> Result<(), Fault> {
        if let Some(why) = undeletable(&ids, skip_needed, view)? {
            self.reply(token, Err(Refusal::new(RefusalKind::Validation, why)));
        } else if ids.is_empty() {
            self.reply(token, Ok(WriteReply::Deleted { count: 0, index: view.index() }));
        } else {
            self.delete_next(token, ids, skip_needed, 0);
        }
        Ok(())
    }

    fn delete_next(&mut self, token: u64, mut ids: Vec<EvalId>, skip_needed: bool, count: u64) {
        let later = ids.split_off(DELETED_AT_ONCE.min(ids.len()));
        self.propose(
            &Command::DeleteEvals { ids, skip_needed },
            Op::Delete { token, later, skip_needed, count },
        );
    }

    /// An entry that deletes is applied. `count`: of those before.
    pub(super) fn deleted(
        &mut self,
        (token, later, skip_needed, count): (u64, Vec<EvalId>, bool, u64),
        result: Result<WriteReply, Refusal>,
    ) {
        match result {
            Ok(WriteReply::Deleted { count: more, index }) if later.is_empty() => {
                self.reply(token, Ok(WriteReply::Deleted { count: count + more, index }));
            }
            Ok(WriteReply::Deleted { count: more, .. }) => {
                self.delete_next(token, later, skip_needed, count + more);
            }
            other => self.reply(token, other),
        }
    }

    /// How many evaluations are in the queues, or with workers, of a paused leader: none.
    #[cfg(any(test, feature = "testing"))]
    pub fn queued_in_the_pause(&self) -> usize {
        let queued = self.broker.contents().len() + self.blocked.len() + self.outstanding.len();
        if self.ready && self.paused { queued } else { 0 }
    }
}

/// Told before the first entry, so that a list goes as a whole or not at all.
fn undeletable(ids: &[EvalId], skip_needed: bool, view: &View) -> Result<Option<String>, Fault> {
    if !view.scheduler_config()?.settings.pause_eval_broker {
        return Ok(Some("eval broker is enabled; eval broker must be paused to delete evals".into()));
    }
    for id in ids.iter().filter(|_| !skip_needed) {
        match view.eval(*id)? {
            None => return Ok(Some("eval not found".into())),
            Some(eval) if view.needs(&eval)? => {
                return Ok(Some(format!("eval {id} is not safe to delete")));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
