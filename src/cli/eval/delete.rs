//! `drover eval delete`.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::job::stop::confirmed;
use crate::operator::scheduler_config::CONFIGURATION;
use crate::render::layout;
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// delete evaluations while the broker is paused: operator scheduler set-config -pause-eval-broker=true
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover eval delete -filter 'Status == blocked and JobID == cache'")]
pub struct EvalDeleteCommand {
    /// delete the evaluations that match this expression and that nothing needs any more
    #[argh(option)]
    filter: Option<String>,
    /// do not ask
    #[argh(switch)]
    yes: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    eval: Option<String>,
}

impl CliCommand for EvalDeleteCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        if self.eval.is_some() == self.filter.as_ref().is_some_and(|f| !f.is_empty()) {
            let why = "Error validating command args and flags: evaluation ID or filter flag required";
            return Err(CommandError::usage(why));
        }
        let config = session.client.get_value(CONFIGURATION, &[])?;
        if config["SchedulerConfig"]["PauseEvalBroker"] != json!(true) {
            return Err(CommandError::new(NOT_PAUSED));
        }
        let body = match (&self.eval, &self.filter) {
            (Some(prefix), _) => json!({"EvalIDs": [session.eval_id(prefix)?]}),
            (None, filter) => {
                let filter = filter.as_deref().unwrap_or_default();
                if !self.yes && !self.confirmed(session, filter)? {
                    session.out.line("Cancelling eval deletion")?;
                    return Ok(ExitCode::SUCCESS);
                }
                json!({"Filter": filter})
            }
        };
        let answer: Value = session.client.delete_with("/v1/evaluations", &body)?;
        let said = match answer["Count"].as_u64().unwrap_or(0) {
            0 => "No evaluations were deleted".to_string(),
            n => format!("Successfully deleted {}", layout::count(n, "evaluation")),
        };
        session.out.line(&said)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl EvalDeleteCommand {
    fn confirmed(&self, session: &Session, filter: &str) -> CommandResult<bool> {
        let query = [("filter", filter), ("namespace", "*")];
        let answer = session.client.get_value("/v1/evaluations/count", &query)?;
        let count = answer["Count"].as_u64().unwrap_or(0);
        Ok(count == 0 || confirmed(session, &format!("delete {count} evals"))?)
    }
}

const NOT_PAUSED: &str = "Eval broker is not paused\n\n\
To delete evaluations you must first pause the eval broker by running \
\"drover operator scheduler set-config -pause-eval-broker=true\"\n\
After the deletion is complete, unpause the eval broker by running \
\"drover operator scheduler set-config -pause-eval-broker=false\"";
