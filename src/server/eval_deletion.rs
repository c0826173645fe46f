//! Deleting evaluations, a bounded number by an entry; allowed only while the scheduler is paused.
//!
//! Refuses to know why there is a pause. Invariant: no deleted evaluation is in a queue, since a pause empties them all.

use super::context::Context;
use super::pending::OnApply;
use model::id::EvalId;
use state::fault::Fault;
use state::view::View;
use wire::command::Command;
use wire::request::{Refusal, RefusalKind, WriteReply};

/// Evaluations that one entry deletes; the next follows when it is applied.
const EVALS_PER_ENTRY: usize = 1024;

pub fn delete_for_user(
    token: u64,
    ids: Vec<EvalId>,
    skip_needed: bool,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    if let Some(why) = undeletable(&ids, skip_needed, view)? {
        cx.refuse(token, RefusalKind::Validation, why);
    } else if ids.is_empty() {
        cx.reply(token, Ok(WriteReply::Deleted { count: 0, index: view.index() }));
    } else {
        delete_next(token, ids, skip_needed, 0, cx);
    }
    Ok(())
}

fn delete_next(token: u64, mut ids: Vec<EvalId>, skip_needed: bool, count: u64, cx: &mut Context<'_>) {
    let rest = ids.split_off(EVALS_PER_ENTRY.min(ids.len()));
    let then = OnApply::EvalsDeleted { token, rest, skip_needed, count };
    cx.propose(Command::DeleteEvals { ids, skip_needed }, then);
}

/// An entry that deletes is applied. `count`: how many earlier entries of the list deleted.
pub fn deleted(
    (token, rest, skip_needed, count): (u64, Vec<EvalId>, bool, u64),
    result: Result<WriteReply, Refusal>,
    cx: &mut Context<'_>,
) {
    match result {
        Ok(WriteReply::Deleted { count: more, index }) if rest.is_empty() => {
            cx.reply(token, Ok(WriteReply::Deleted { count: count + more, index }));
        }
        Ok(WriteReply::Deleted { count: more, .. }) => {
            delete_next(token, rest, skip_needed, count + more, cx)
        }
        other => cx.reply(token, other),
    }
}

/// Why the list may not be deleted: checked before the first entry, so that it goes as a whole or not at all.
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
