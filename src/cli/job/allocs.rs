//! `drover job allocs` and `drover job eval`: a job's allocations, and a fresh look at where they should be.

use crate::CliCommand;
use crate::deployment::change::follow_both;
use crate::error::CommandResult;
use crate::http::decode;
use crate::output::objects;
use crate::render::lists::alloc_table;
use crate::session::{Session, argument, namespace_query, path};
use crate::shapes::{Alloc, RegisterAnswer};
use argh::{ArgsInfo, FromArgs};
use serde_json::json;
use std::process::ExitCode;

/// list the allocations of a job
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job allocs -verbose cache")]
pub struct JobAllocsCommand {
    /// include allocations of an earlier job with the same id
    #[argh(switch)]
    all: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full, and more columns
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

/// force an evaluation of a job, though nothing has changed
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job eval -detach cache")]
pub struct JobEvalCommand {
    /// reschedule failed allocations, whatever their policy says
    #[argh(switch)]
    force_reschedule: bool,
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

impl CliCommand for JobAllocsCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let stub = session.job(argument(&self.job, "job")?)?;
        let objects = objects(self.json, self.template.as_deref())?;
        let all = if self.all { "true" } else { "false" };
        let query: Vec<_> = namespace_query(&stub).into_iter().chain([("all", all)]).collect();
        let value = session.client.get_value(&format!("{}/allocations", path("job", &stub.id)), &query)?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let allocs: Vec<Alloc> = decode(&value)?;
        if allocs.is_empty() {
            session.out.line("No allocations placed")?;
        } else {
            session.out.text(&alloc_table(&allocs, session.now(), self.verbose))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for JobEvalCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let stub = session.job(argument(&self.job, "job")?)?;
        let body = json!({"JobID": stub.id, "EvalOptions": {"ForceReschedule": self.force_reschedule}});
        let target = format!("{}/evaluate", path("job", &stub.id));
        let answer: RegisterAnswer = session.client.put(&target, &namespace_query(&stub), &body)?;
        if self.detach {
            session.out.line(&format!("Created eval ID: {:?}", answer.eval_id))?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(follow_both(session, &answer.eval_id, self.verbose)?.into())
    }
}
