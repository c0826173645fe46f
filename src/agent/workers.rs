//! Scheduler workers: threads that turn evaluations into decisions on a view of the state. The one place where a panic is
//! caught: a poisonous evaluation must not kill one leader after the other.

use super::server_loop::Mail;
use crate::io::clock;
use crate::server::board;
use crate::server::effects::{Input, ScheduleTask};
use crate::server::{rehearsal, why};
use crate::state::fault::Fault;
use crate::state::store::Reader;
use crate::wire::rehearsal::{Rehearsal, Rehearse};
use crate::wire::request::{Refusal, RefusalKind};
use crate::wire::why::{Subject, Why};
use async_channel::{Receiver, Sender};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread's panics are caught: everywhere else a panic ends the process.
pub fn panics_are_caught() -> bool {
    GUARDED.get()
}

/// Works until its sender is gone.
pub fn run(tasks: &Receiver<ScheduleTask>, results: &Sender<Mail>, reader: impl Fn() -> Arc<Reader>) {
    while let Ok(task) = tasks.recv_blocking() {
        let (eval, token) = (task.eval.id, task.token);
        GUARDED.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| board::decide(&task, &reader())));
        GUARDED.set(false);
        let result = result.unwrap_or_else(|_| Err("the scheduler panicked on this evaluation".into()));
        if results.send_blocking(Mail::Brain(Input::Planned { eval, token, result })).is_err() {
            return;
        }
    }
}

/// What a job would come to.
pub fn rehearse(reader: &Reader, asked: &Rehearse) -> Result<Rehearsal, Refusal> {
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
