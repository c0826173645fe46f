//! `drover alloc restart` and `drover alloc signal`: what changes nothing but the tasks of an allocation that runs.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::{Session, path};
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// restart tasks of an allocation where they run: all that run, unless one is named
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover alloc restart 1a2b3c4d web", example = "drover alloc restart -all-tasks 1a2b3c4d")]
pub struct AllocRestartCommand {
    /// every task, also those that have ended, in the order of their lifecycle
    #[argh(switch)]
    all_tasks: bool,
    /// the task's name
    #[argh(option)]
    task: Option<String>,
    /// print the allocation's id to stderr first
    #[argh(switch)]
    verbose: bool,
    /// an allocation's id or the beginning of one, and a task's name
    #[argh(positional)]
    target: Vec<String>,
}

/// send a signal to the tasks of an allocation: to all that run, unless one is named
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover alloc signal -s SIGHUP 1a2b3c4d web")]
pub struct AllocSignalCommand {
    /// the signal's name (SIGKILL)
    #[argh(option, long = "s", default = "String::from(\"SIGKILL\")")]
    signal: String,
    /// the task's name
    #[argh(option)]
    task: Option<String>,
    /// print the allocation's id to stderr first
    #[argh(switch)]
    verbose: bool,
    /// an allocation's id or the beginning of one, and a task's name
    #[argh(positional)]
    target: Vec<String>,
}

impl CliCommand for AllocRestartCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let (prefix, task) = target(&self.target, self.task)?;
        if self.all_tasks && task.is_some() {
            return Err(CommandError::usage("-all-tasks and a task's name exclude each other"));
        }
        let body = json!({"TaskName": task.unwrap_or_default(), "AllTasks": self.all_tasks});
        ask(session, &prefix, "restart", &body, self.verbose)
    }
}

impl CliCommand for AllocSignalCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let (prefix, task) = target(&self.target, self.task)?;
        let body = json!({"Task": task.unwrap_or_default(), "Signal": self.signal});
        ask(session, &prefix, "signal", &body, self.verbose)
    }
}

/// The allocation, and the task if one is named.
pub fn target(words: &[String], task: Option<String>) -> CommandResult<(String, Option<String>)> {
    match (words, task) {
        ([_, _], Some(_)) => Err(CommandError::usage("the task is named twice: by -task and by an argument")),
        ([alloc], task) => Ok((alloc.clone(), task)),
        ([alloc, task], None) => Ok((alloc.clone(), Some(task.clone()))),
        _ => Err(CommandError::usage("This command takes one or two arguments: <alloc-id> <task>")),
    }
}

fn ask(session: &Session, prefix: &str, what: &str, body: &Value, verbose: bool) -> CommandResult<ExitCode> {
    let id = session.alloc_id(prefix)?;
    if verbose {
        session.out.stderr_line(&format!("==> Allocation {id}"));
    }
    let _done: Value =
        session.client.put(&format!("{}/{what}", path("client/allocation", &id)), &[], body)?;
    Ok(ExitCode::SUCCESS)
}
