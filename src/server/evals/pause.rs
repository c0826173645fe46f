//! Pauses of the scheduler (scheduler.md 3.8): an operator wants one, or the disk is full. What a pause means for evaluations is here; what is
//! refused meanwhile is not.

use super::Evals;
use crate::context::Context;
use crate::plans::Plans;
use state::fault::Fault;
use state::scans::RangeScan;
use state::view::View;

impl Evals {
    /// A pause empties the queues: what workers held, or was on its way into the log, comes back to none of them.
    pub fn apply_pause(&mut self, view: &View, cx: &mut Context<'_>) -> Result<(), Fault> {
        let paused = is_paused(view, cx)?;
        match (self.paused, paused) {
            (false, true) => {
                cx.outbox.drop_decisions();
                *self = Evals::new(view, cx)?;
            }
            (true, _) => self.is_ending = !paused,
            (false, false) => {}
        }
        Ok(())
    }

    /// The disk may be full, or have room again.
    pub fn apply_disk_space(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        if self.disk_has_space == cx.space_free {
            return Ok(());
        }
        self.disk_has_space = cx.space_free;
        self.apply_pause(&cx.view()?, cx)
    }

    /// The end of a pause fills the queues from the state, as a new leader does, and like that one only when the state shows every
    /// plan of before: an evaluation whose plan is still on its way would be planned a second time. Some rows are read a turn, and
    /// changes are followed meanwhile, but nothing is handed out: of what is superseded only half may be known.
    pub fn end_pause(&mut self, plans: &Plans, cx: &mut Context<'_>) -> Result<(), Fault> {
        let ends_now = self.is_ending && plans.in_flight() == 0;
        if !ends_now && self.restoring.is_none() {
            return Ok(());
        }
        let view = cx.view()?;
        if ends_now {
            *self = Evals { restoring: Some(RangeScan::default()), ..Evals::new(&view, cx)? };
        }
        let Some(scan) = &mut self.restoring else { return Ok(()) };
        assert!(!self.paused, "a pause that begins again ends what its end began");
        let evals = view.scan_open_evals(scan, cx.config.rows_per_turn)?;
        if scan.is_over() {
            self.restoring = None;
        }
        for eval in evals {
            if !self.broker.contains(eval.id) && !self.blocked.contains(eval.id) {
                self.restore(eval, cx);
            }
        }
        Ok(())
    }
}

pub fn is_paused(view: &View, cx: &Context<'_>) -> Result<bool, Fault> {
    Ok(!cx.space_free || view.scheduler_config()?.settings.pause_eval_broker)
}

#[cfg(test)]
mod tests {
    use super::super::super::effects::Effect;
    use super::super::super::testing::Alone;
    use model::eval::{EvalStatus, Evaluation};
    use model::id::EvalId;
    use model::time::Mono;
    use state::samples::{AT, eval};
    use std::collections::BTreeSet;
    use wire::command::Command;

    /// So many are open, each of a job of its own: each turn looks at two rows of each job, at most 100 in all.
    const EVALS: u128 = 207;

    fn in_a_pause() -> Alone {
        let mut alone = Alone::with(|config| config.scheduler.pause_eval_broker = true);
        let evals = (1..=EVALS).map(|n| eval(n, &format!("job-{n:03}"))).collect();
        alone.propose(&Command::UpdateEvals { evals, at: AT });
        assert_eq!(alone.server.queued_while_paused(), 0);
        alone
    }

    fn queued(alone: &mut Alone) -> BTreeSet<EvalId> {
        alone.leader().evals.broker().contents()
    }

    #[test]
    fn a_pauses_end_reads_some_rows_a_turn() {
        let mut alone = in_a_pause();
        assert_eq!(alone.pause(false), [], "nothing is given before all is read");
        let read = queued(&mut alone).len();
        assert!((1..EVALS as usize).contains(&read), "{read}");
        assert_eq!(alone.server.next_deadline(), Some(Mono(0)), "it goes on at once");
        // one evaluation ends, one begins, and two come to a job whose first one was read
        let canceled = Evaluation { status: EvalStatus::Canceled, ..eval(EVALS, "job-207") };
        let more = [eval(901, "job-000"), eval(902, "job-999"), eval(903, "job-001"), eval(904, "job-001")];
        let evals = [vec![canceled], more.to_vec()].concat();
        alone.append(&Command::UpdateEvals { evals, at: AT });
        let mut turns = 0;
        let given = loop {
            let effects = alone.turn(vec![]).effects;
            let given = effects.iter().filter(|effect| matches!(effect, Effect::Schedule(_))).count();
            turns += 1;
            if given > 0 {
                break given;
            }
            assert!(turns < 20, "they are handed out at last");
        };
        assert!(turns > 2, "{turns}");
        assert_eq!(given, 1, "there is one worker");
        let open: BTreeSet<EvalId> = alone.open().into_iter().collect();
        assert_eq!((open.len() as u128, queued(&mut alone)), (EVALS + 3, open));
    }

    #[test]
    fn a_pause_that_begins_anew_empties_the_queues_again() {
        let mut alone = in_a_pause();
        alone.pause(false);
        assert!(!queued(&mut alone).is_empty());
        assert_eq!(alone.pause(true), []);
        alone.turns(10);
        assert_eq!((alone.server.queued_while_paused(), alone.leader().evals.is_paused()), (0, true));
        alone.pause(false);
        alone.turns(10);
        assert_eq!(queued(&mut alone).len(), EVALS as usize);
    }
}
