//! `drover alloc stop`: ends an allocation where it runs; the servers place it anew.

use crate::CliCommand;
use crate::deployment::change::follow_both;
use crate::error::{CommandError, CommandResult};
use crate::session::{Session, argument, path};
use crate::shapes::RegisterAnswer;
use argh::{ArgsInfo, FromArgs};
use serde_json::json;
use std::process::ExitCode;

/// stop an allocation and reschedule it: as long as its job wants it, a replacement is placed, maybe elsewhere
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover alloc stop 1a2b3c4d")]
pub struct AllocStopCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// do not wait for any shutdown_delay
    #[argh(switch)]
    no_shutdown_delay: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    alloc: Option<String>,
}

impl CliCommand for AllocStopCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let prefix = argument(&self.alloc, "alloc-id")?;
        let id = session.alloc_id(prefix)?;
        let target = path("allocation", &id);
        let alloc = session.client.get_value(&target, &[]).map_err(|e| match e.is_not_found() {
            true => CommandError::new(format!("No allocation(s) with prefix or id {prefix:?} found")),
            false => e.into(),
        })?;
        let batch = alloc.pointer("/Job/Type").is_some_and(|kind| kind == "batch");
        let mut query = Vec::new();
        query.extend(batch.then_some(("reschedule", "true")));
        query.extend(self.no_shutdown_delay.then_some(("no_shutdown_delay", "true")));
        let answer: RegisterAnswer = session.client.put(&format!("{target}/stop"), &query, &json!({}))?;
        if self.detach {
            session.out.line(&answer.eval_id)?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(follow_both(session, &answer.eval_id, self.verbose)?.into())
    }
}
