//! Pauses of the scheduler (scheduler.md 3.8): an operator wants one, or the disk is full. What a pause means for evaluations is here; what is
//! refused meanwhile is not.

use super::Evals;
use crate::context::Context;
use crate::plans::Plans;
use state::fault::Fault;
use state::view::View;

impl Evals {
    /// A pause empties the queues: what workers held, or was on its way into the log, comes back to none of them. Its end fills them
    /// from the state, as a new leader does, and like that one only when the state shows every plan of before: an evaluation whose
    /// plan is still on its way would be planned a second time.
    pub fn follow_pause(&mut self, view: &View, plans: &Plans, cx: &mut Context<'_>) -> Result<(), Fault> {
        let paused = is_paused(view, cx)?;
        if paused == self.paused {
            self.is_ending = false;
            return Ok(());
        }
        if paused {
            cx.outbox.drop_deferred();
            *self = Evals::new(view, cx)?;
            return Ok(());
        }
        self.is_ending = plans.in_flight() > 0;
        if !self.is_ending {
            *self = Evals::new(view, cx)?;
            view.open_evals()?.into_iter().for_each(|eval| self.restore(eval, cx));
        }
        Ok(())
    }

    /// The disk may be full, or have room again.
    pub fn follow_disk_space(&mut self, plans: &Plans, cx: &mut Context<'_>) -> Result<(), Fault> {
        if self.disk_has_space == cx.space_free {
            return Ok(());
        }
        self.disk_has_space = cx.space_free;
        self.follow_pause(&cx.view()?, plans, cx)
    }

    /// Ends a pause that is over once no plan of before it is on its way any more.
    pub fn end_pause(&mut self, plans: &Plans, cx: &mut Context<'_>) -> Result<(), Fault> {
        if !self.is_ending || plans.in_flight() > 0 {
            return Ok(());
        }
        self.follow_pause(&cx.view()?, plans, cx)
    }
}

pub fn is_paused(view: &View, cx: &Context<'_>) -> Result<bool, Fault> {
    Ok(!cx.space_free || view.scheduler_config()?.settings.pause_eval_broker)
}
