//! Looks at an evaluation and the allocations of its job again whenever they have changed: blocking queries, no polling.

use crate::error::CommandResult;
use crate::http::decode;
use crate::session::{Session, path};
use crate::shapes::{Alloc, Eval};

/// The longest wait for a change; a terminal's ages and size are looked at so often.
pub const POLL_INTERVAL: &str = "1s";

/// What was seen last.
#[derive(Default)]
pub struct EvalWatch {
    eval_index: u64,
    allocs_index: u64,
}

pub struct EvalUpdate {
    pub eval: Eval,
    /// Those of the job that the evaluation has placed or that have changed since it was made.
    pub allocs: Vec<Alloc>,
}

impl EvalWatch {
    /// At once the first time; then when something has changed, or a second later.
    pub fn next(&mut self, session: &Session, eval: &str) -> CommandResult<EvalUpdate> {
        let eval = self.eval(session, eval)?;
        let target = format!("{}/allocations", path("job", &eval.job_id));
        // as long as the evaluation is under way, it is waited for; then its allocations are
        let after = if is_terminal(&eval.status) { self.allocs_index } else { 0 };
        let namespace = [("namespace", eval.namespace.as_str())];
        let (value, index) = changed(session, &target, &namespace, after)?;
        self.allocs_index = index;
        let mut allocs: Vec<Alloc> = decode(&value)?;
        allocs.retain(|a| a.eval_id == eval.id || a.modify_index >= eval.create_index);
        Ok(EvalUpdate { eval, allocs })
    }

    fn eval(&mut self, session: &Session, id: &str) -> CommandResult<Eval> {
        let after = if self.allocs_index == 0 { 0 } else { self.eval_index };
        let (value, index) = changed(session, &path("evaluation", id), &[], after)?;
        let eval: Eval = decode(&value)?;
        // one that is over does not change any more
        self.eval_index = if is_terminal(&eval.status) { 0 } else { index };
        Ok(eval)
    }
}

pub fn is_terminal(status: &str) -> bool {
    matches!(status, "complete" | "failed" | "canceled")
}

/// The object once its index is beyond `after`, or after a second; at once when `after` is 0.
pub fn changed(
    session: &Session,
    target: &str,
    query: &[(&str, &str)],
    after: u64,
) -> CommandResult<(serde_json::Value, u64)> {
    changed_within(session, target, query, after, POLL_INTERVAL)
}

/// The same after another time.
pub fn changed_within(
    session: &Session,
    target: &str,
    query: &[(&str, &str)],
    after: u64,
    time: &str,
) -> CommandResult<(serde_json::Value, u64)> {
    let after = after.to_string();
    let wait = [("index", after.as_str()), ("wait", time)];
    let waiting = if after == "0" { &[][..] } else { &wait[..] };
    let query: Vec<_> = query.iter().chain(waiting).copied().collect();
    Ok(session.client.get_indexed(target, &query)?)
}
