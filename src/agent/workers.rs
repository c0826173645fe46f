//! Scheduler workers: threads that turn evaluations into decisions on a view of the state. The one place where a panic is
//! caught: a poisonous evaluation must not kill one leader after the other.

use super::messages::ServerMessage;
use ::io::clock;
use async_channel::{Receiver, Sender};
use server::board;
use server::effects::{Input, ScheduleTask};
use server::{rehearsal, why};
use state::fault::Fault;
use state::store::Reader;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wire::job_plan::{JobPlanReply, JobPlanRequest};
use wire::request::{Refusal, RefusalKind};
use wire::why::{Subject, Why};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread's panics are caught: everywhere else a panic ends the process.
pub fn panics_are_caught() -> bool {
    GUARDED.get()
}

/// Works until its sender is gone.
pub fn run(
    tasks: &Receiver<ScheduleTask>,
    results: &Sender<ServerMessage>,
    reader: impl Fn() -> Arc<Reader>,
) {
    while let Ok(task) = tasks.recv_blocking() {
        let (eval, token) = (task.eval.id, task.token);
        GUARDED.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| board::decide(&task, &reader())));
        GUARDED.set(false);
        let result = result.unwrap_or_else(|_| Err("the scheduler panicked on this evaluation".into()));
        if results.send_blocking(ServerMessage::Input(Input::Planned { eval, token, result })).is_err() {
            return;
        }
    }
}

/// What a job would come to.
pub fn rehearse(reader: &Reader, asked: &JobPlanRequest) -> Result<JobPlanReply, Refusal> {
    let at = clock::now().stamp();
    guarded(|| rehearsal::rehearse(&reader.view()?, asked, at))
}

pub fn explain(reader: &Reader, subject: &Subject) -> Result<Why, Refusal> {
    guarded(|| why::explain(&reader.view()?, subject, 0))
}

/// Its panic is caught as that of an evaluation is.
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
    use super::*;
    use model::id::EvalToken;
    use scheduler::Attempt;
    use server::board::Board;
    use state::samples::{AT, Region, eval};

    fn task(n: u128) -> ScheduleTask {
        ScheduleTask {
            eval: eval(n, "web"),
            token: EvalToken::from_random(n),
            attempt: Attempt::first(1),
            min_index: 0,
            at: AT,
            seed: 7,
            board: Arc::new(Board::default()),
        }
    }

    #[test]
    fn a_panic_is_an_answer_and_the_worker_goes_on() {
        let region = Region::default();
        let (sender, tasks) = async_channel::bounded(2);
        let (results, answers) = async_channel::bounded(2);
        (1..=2).for_each(|n| sender.send_blocking(task(n)).expect("there is room"));
        drop(sender);
        let looks = Cell::new(0);
        run(&tasks, &results, || {
            looks.set(looks.get() + 1);
            assert!(panics_are_caught() && looks.get() > 1, "the first one is poison");
            Arc::new(region.store.reader())
        });
        let told = [1, 2].map(|n| match answers.recv_blocking() {
            Ok(ServerMessage::Input(Input::Planned { token, result, .. })) => {
                assert_eq!(token, EvalToken::from_random(n));
                result.err()
            }
            _ => panic!("no plan"),
        });
        assert_eq!(told[0].as_deref(), Some("the scheduler panicked on this evaluation"));
        assert!(told[1].is_none() && !panics_are_caught(), "{told:?}");
    }
}
