//! A scheduler worker takes an evaluation and makes a plan on the latest state, beside what other workers have reserved.
//!
//! Refuses to know: threads. The agent runs workers, and lends them the reservations that they share.

use super::effects::ScheduleTask;
use super::reservations::Reservations;
use model::plan::Decision;
use state::store::Reader;
use std::ops::DerefMut;

/// How often a worker tries when others reserve the same room first; then `plans` decides what fits.
const MAX_ATTEMPTS: u32 = 4;

/// `lock`: the reservations, for a moment.
pub fn decide<G: DerefMut<Target = Reservations>>(
    task: &ScheduleTask,
    reader: &Reader,
    lock: impl Fn() -> G,
) -> Result<Box<Decision>, String> {
    let key = (task.eval.id, task.token);
    let mut attempts = 0;
    loop {
        attempts += 1;
        let view = reader.view().map_err(|e| e.to_string())?;
        if view.index() < task.min_index {
            return Err(format!("the state has not reached index {}", task.min_index));
        }
        let on = |fleet| scheduler::schedule(&view, fleet, &task.eval, task.attempt, task.at, task.seed);
        let reserved = lock().fleet_with(key, view.index(), view.fleet());
        let mut decision = on(reserved.as_ref().unwrap_or(view.fleet()));
        let mut last = attempts == MAX_ATTEMPTS;
        let no_room = !decision.eval.failed_groups.is_empty() || decision.plan.preemptions().next().is_some();
        if reserved.is_some() && no_room {
            // a reservation may come to nothing, and nobody would then wake an evaluation that it blocked, or undo what it had preempted:
            // there is no room only if the state says so
            decision = on(view.fleet());
            last = true;
        }
        if let Some(fault) = view.fault() {
            return Err(fault.to_string());
        }
        if lock().reserve(key, view.index(), &decision.plan, view.fleet()) || last {
            return Ok(Box::new(decision));
        }
    }
}

#[cfg(test)]
mod tests;
