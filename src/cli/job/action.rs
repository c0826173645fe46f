//! `drover job action`: runs an action that a job's author has prepared beside a task (cli.md 2.1.10).

use crate::CliCommand;
use crate::alloc::exec::ExecOptions;
use crate::error::{CommandError, CommandResult};
use crate::session::{Session, argument, namespace_query, path};
use crate::shapes::Alloc;
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// run an action that the job defines for a task. The exit code is the action's
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover job action -job cache -group g flush",
    example = "drover job action -alloc 1a2b3c4d -task web flush"
)]
pub struct JobActionCommand {
    /// the job: an id or the beginning of one
    #[argh(option)]
    job: Option<String>,
    /// the allocation: an id or the beginning of one
    #[argh(option)]
    alloc: Option<String>,
    /// the task, if several have such an action
    #[argh(option)]
    task: Option<String>,
    /// the group: without -alloc, one of its allocations that run
    #[argh(option)]
    group: Option<String>,
    /// pass standard input on (the default)
    #[argh(option, long = "i", arg_name = "bool", default = "true")]
    interactive: bool,
    /// allocate a terminal (the default if standard input is one)
    #[argh(option, long = "t", arg_name = "bool")]
    tty: Option<bool>,
    /// the character that, typed with a dot at the beginning of a line, leaves; none to have no way out (~)
    #[argh(option, long = "e", default = "String::from(\"~\")")]
    escape: String,
    /// the action's name
    #[argh(positional)]
    action: Option<String>,
}

impl CliCommand for JobActionCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let action = argument(&self.action, "action")?;
        let manner = ExecOptions::new(self.interactive, self.tty, &self.escape)?;
        let alloc = match &self.alloc {
            Some(prefix) => self.named(session, prefix)?,
            None => self.any(session)?,
        };
        let group = self.group.as_deref().unwrap_or(&alloc.task_group);
        let mut query = vec![("action", action), ("allocID", &alloc.id), ("group", group)];
        query.extend(self.task.as_deref().map(|task| ("task", task)));
        query.push(("namespace", &alloc.namespace));
        manner.run_session(session, &format!("{}/action", path("job", &alloc.job_id)), query)
    }
}

impl JobActionCommand {
    fn named(&self, session: &Session, prefix: &str) -> CommandResult<Alloc> {
        let alloc: Alloc = session.client.get(&path("allocation", &session.alloc_id(prefix)?), &[])?;
        match &self.job {
            Some(job) if !alloc.job_id.starts_with(job) => {
                let (id, own) = (&alloc.id, &alloc.job_id);
                Err(CommandError::new(format!("Allocation {id} is one of job {own:?}, not of {job:?}")))
            }
            _ => Ok(alloc),
        }
    }

    /// The newest of the group that runs.
    fn any(&self, session: &Session) -> CommandResult<Alloc> {
        let missing =
            |what| move || CommandError::usage(format!("{what} is required if no allocation is provided"));
        let job = self.job.as_deref().ok_or_else(missing("A job ID"))?;
        let group = self.group.as_deref().ok_or_else(missing("A group name"))?;
        let stub = session.job(job)?;
        let list = format!("{}/allocations", path("job", &stub.id));
        let allocs: Vec<Alloc> = session.client.get(&list, &namespace_query(&stub))?;
        let running = allocs.into_iter().filter(|a| a.task_group == group && a.client_status == "running");
        let none = || {
            CommandError::new(format!("No allocation of job {:?} and group {group:?} is running", stub.id))
        };
        running.max_by_key(|a| a.create_index).ok_or_else(none)
    }
}
