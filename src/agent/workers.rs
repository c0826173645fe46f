//! Scheduler workers: threads that turn evaluations into decisions on a view of the state. The one place where a panic is
//! caught: a poisonous evaluation must not kill one leader after the other.

use super::http_service::server_call::NotSent;
use super::server_inbox::{ServerInboxSender, ServerMessage};
use ::io::clock;
use async_channel::Receiver;
use server::effects::{Input, ScheduleTask};
use server::reservations::{ReservationChange, Reservations};
use server::{job_plan, why, worker};
use state::fault::Fault;
use state::store::Reader;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::job_plan::{JobPlanReply, JobPlanRequest};
use wire::request::{Refusal, RefusalKind};
use wire::why::{Subject, Why};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What the workers have reserved, shared among them and with the server's loop.
#[derive(Debug, Default)]
pub struct SharedReservations(Mutex<Reservations>);

impl SharedReservations {
    pub fn apply(&self, changes: &[ReservationChange]) {
        if !changes.is_empty() {
            self.lock().apply(changes);
        }
    }

    /// A change is applied in one call that leaves the reservations consistent, so a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, Reservations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True while this thread's panics are caught: everywhere else a panic ends the process.
pub fn panics_are_caught() -> bool {
    GUARDED.get()
}

/// Works until the task channel is closed.
pub fn run(
    tasks: &Receiver<ScheduleTask>,
    results: &ServerInboxSender,
    reservations: &SharedReservations,
    reader: impl Fn() -> Reader,
) {
    while let Ok(task) = tasks.recv_blocking() {
        let (eval, token) = (task.eval.id, task.token);
        GUARDED.set(true);
        let result =
            catch_unwind(AssertUnwindSafe(|| worker::decide(&task, &reader(), || reservations.lock())));
        GUARDED.set(false);
        let result = result.unwrap_or_else(|_| Err("the scheduler panicked on this evaluation".into()));
        match results.send(ServerMessage::Input(Input::Planned { eval, token, result })) {
            Ok(()) => {}
            // the broker's deadline brings the evaluation back
            Err(NotSent::Full) => tracing::warn!(%eval, "lost a plan: the server's inbox is full"),
            Err(NotSent::Closed) => return,
        }
    }
}

/// Plans what registering a job would do.
pub fn plan_job(reader: &Reader, asked: &JobPlanRequest) -> Result<JobPlanReply, Refusal> {
    let at = clock::now().stamp();
    guarded(|| job_plan::plan(&reader.view()?, asked, at))
}

pub fn explain(reader: &Reader, subject: &Subject) -> Result<Why, Refusal> {
    guarded(|| why::explain(&reader.view()?, subject, 0))
}

/// Catches a panic of the work, as that of an evaluation is caught.
fn guarded<T>(work: impl FnOnce() -> Result<Result<T, Refusal>, Fault>) -> Result<T, Refusal> {
    let unavailable = |why: String| Err(Refusal::new(RefusalKind::Unavailable, why));
    GUARDED.set(true);
    let found = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    match found {
        Ok(Ok(answer)) => answer,
        Ok(Err(fault)) => unavailable(format!("the state cannot be read: {fault}")),
        Err(_) => unavailable("the scheduler panicked on this job".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::server_inbox::ServerInboxReceiver;
    use super::*;
    use model::id::EvalToken;
    use scheduler::Attempt;
    use state::samples::{AT, Region, eval};

    fn task(n: u128) -> ScheduleTask {
        ScheduleTask {
            eval: eval(n, "web"),
            token: EvalToken::from_random(n),
            attempt: Attempt::first(1),
            min_index: 0,
            at: AT,
            seed: 7,
        }
    }

    #[test]
    fn a_panic_fails_its_evaluation_and_the_worker_continues() {
        let region = Region::default();
        let (sender, tasks) = async_channel::bounded(2);
        let results = ServerInboxSender::default();
        let answers = ServerInboxReceiver::new(results.clone());
        (1..=2).for_each(|n| sender.send_blocking(task(n)).expect("there is room"));
        drop(sender);
        let looks = Cell::new(0);
        run(&tasks, &results, &SharedReservations::default(), || {
            looks.set(looks.get() + 1);
            assert!(panics_are_caught() && looks.get() > 1, "the first one is poison");
            region.store.reader()
        });
        let answers = answers.collect(None).messages;
        let told: Vec<Option<String>> = (1..)
            .zip(answers)
            .map(|(n, answer)| match answer {
                ServerMessage::Input(Input::Planned { token, result, .. }) => {
                    assert_eq!(token, EvalToken::from_random(n));
                    result.err()
                }
                _ => panic!("no plan"),
            })
            .collect();
        assert_eq!(told[0].as_deref(), Some("the scheduler panicked on this evaluation"));
        assert!(told[1].is_none() && told.len() == 2 && !panics_are_caught(), "{told:?}");
    }
}
