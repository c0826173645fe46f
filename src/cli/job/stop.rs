//! `drover job stop`.

use crate::CliCommand;
use crate::deployment::change::follow_both;
use crate::error::{CommandError, CommandResult};
use crate::numbers;
use crate::session::{Session, namespace_query, path};
use crate::shapes::RegisterAnswer;
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// stop jobs: their tasks end, the jobs stay known unless -purge is given
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job stop -purge cache")]
pub struct JobStopCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// forget the job and its allocations at once
    #[argh(switch)]
    purge: bool,
    /// do not ask when only the beginning of an id is given
    #[argh(switch)]
    yes: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// stop a multiregion job everywhere (not supported yet)
    #[argh(switch)]
    global: bool,
    /// do not wait for any shutdown_delay (not with -purge)
    #[argh(switch)]
    no_shutdown_delay: bool,
    /// priority of the evaluation, 1 to 100
    #[argh(option, from_str_fn(numbers::priority))]
    eval_priority: Option<u8>,
    /// ids of jobs, or beginnings of ids
    #[argh(positional)]
    job: Vec<String>,
}

impl CliCommand for JobStopCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        if self.global {
            return Err(CommandError::new("not supported yet: -global"));
        }
        let stop = |prefix: &str| self.stop(session, prefix);
        each(session, &self.job, &stop, &|eval| follow_both(session, eval, self.verbose))
    }
}

/// Does the same to each job and monitors the evaluations. A failure does not stop the rest.
pub fn each(
    session: &Session,
    jobs: &[String],
    act: &dyn Fn(&str) -> CommandResult<Option<String>>,
    follow: &dyn Fn(&str) -> CommandResult<u8>,
) -> CommandResult<ExitCode> {
    if jobs.is_empty() {
        return Err(CommandError::usage("This command takes at least one argument: <job>"));
    }
    let mut evals = Vec::new();
    let mut code = 0;
    for prefix in jobs {
        match act(prefix) {
            Ok(eval) => evals.extend(eval),
            Err(CommandError::OutputClosed) => return Err(CommandError::OutputClosed),
            Err(failure) if jobs.len() == 1 => return Err(failure),
            Err(failure) => {
                session.out.error(&failure.to_string());
                code = 1;
            }
        }
    }
    for eval in evals {
        code = code.max(follow(&eval)?);
    }
    Ok(code.into())
}

impl JobStopCommand {
    /// The evaluation to be monitored, if there is one.
    fn stop(&self, session: &Session, prefix: &str) -> CommandResult<Option<String>> {
        let job = session.job(prefix)?;
        if job.id != *prefix && !self.yes && !confirmed(session, &format!("stop job {:?}", job.id))? {
            session.out.line("Cancelled job stop")?;
            return Ok(None);
        }
        let priority = self.eval_priority.map(|p| p.to_string());
        let mut query = vec![("purge", if self.purge { "true" } else { "false" })];
        query.extend(priority.as_deref().map(|p| ("eval_priority", p)));
        query.extend(self.no_shutdown_delay.then_some(("no_shutdown_delay", "true")));
        query.extend(namespace_query(&job));
        let answer: RegisterAnswer = session.client.delete(&path("job", &job.id), &query)?;
        if answer.eval_id.is_empty() {
            return Ok(None);
        }
        if self.detach {
            session.out.line(&answer.eval_id)?;
            return Ok(None);
        }
        Ok(Some(answer.eval_id))
    }
}

/// Only `y` and nothing else says yes.
pub fn confirmed(session: &Session, what: &str) -> CommandResult<bool> {
    let answer = session.out.ask(&format!("Are you sure you want to {what}? [y/N]"))?;
    match answer.as_str() {
        "y" => Ok(true),
        "" | "n" | "N" => Ok(false),
        _ if answer.starts_with(['y', 'Y']) => {
            session.out.line("For confirmation, an exact 'y' is required.")?;
            Ok(false)
        }
        _ => Ok(false),
    }
}
