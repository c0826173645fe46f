//! `drover deployment list` and `status`, and `drover job deployments`.

use crate::CliCommand;
use crate::deployment::monitor::follow_within;
use crate::deployment::progress::{page, table};
use crate::deployment::shapes::Deployment;
use crate::error::{CommandError, CommandResult};
use crate::eval::watch::POLL_INTERVAL;
use crate::http::decode;
use crate::output::{Objects, objects};
use crate::session::{Session, argument, namespace_query, path, refuse_unsupported};
use argh::{ArgsInfo, FromArgs};
use jobspec::duration;
use serde_json::Value;
use std::process::ExitCode;

/// list deployments, newest first
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment list -filter 'Status == \"running\"'")]
pub struct DeploymentListCommand {
    /// only those for which this expression is true
    #[argh(option)]
    filter: Option<String>,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
}

/// show a deployment; without an id, list them
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment status -monitor 1a2b3c4d")]
pub struct DeploymentStatusCommand {
    /// follow it to its end; exit code 1 unless it is successful
    #[argh(switch)]
    monitor: bool,
    /// with -monitor: how long one look waits for a change (1s)
    #[argh(option, arg_name = "duration")]
    wait: Option<String>,
    /// open the web interface (not supported yet)
    #[argh(switch)]
    ui: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full; with -monitor its allocations, too
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    deployment: Option<String>,
}

/// list the deployments of a job, newest first
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job deployments -latest cache")]
pub struct JobDeploymentsCommand {
    /// include those of an earlier job with the same id
    #[argh(switch)]
    all: bool,
    /// only the newest
    #[argh(switch)]
    latest: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

impl CliCommand for DeploymentListCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let mut query = vec![("reverse", "true")];
        query.extend(self.filter.as_deref().map(|filter| ("filter", filter)));
        let value = session.client.get_value("/v1/deployments", &query)?;
        show(session, objects, &value, self.verbose)
    }
}

impl CliCommand for DeploymentStatusCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        refuse_unsupported(&[(self.ui, "-ui")])?;
        let objects = objects(self.json, self.template.as_deref())?;
        if self.monitor && objects.is_some() {
            return Err(CommandError::usage("-monitor excludes -json and -t"));
        }
        let wait = self.wait()?;
        let Some(prefix) = &self.deployment else {
            let value = session.client.get_value("/v1/deployments", &[("reverse", "true")])?;
            return show(session, objects, &value, self.verbose);
        };
        let id = session.deployment_id(prefix)?;
        if self.monitor {
            return Ok(follow_within(session, &id, self.verbose, wait)?.into());
        }
        let value = session.client.get_value(&path("deployment", &id), &[])?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        page(&decode::<Deployment>(&value)?, session.zone(), self.verbose).print(&session.out)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl DeploymentStatusCommand {
    fn wait(&self) -> CommandResult<&str> {
        let Some(text) = self.wait.as_deref() else { return Ok(POLL_INTERVAL) };
        if !self.monitor {
            return Err(CommandError::usage("-wait needs -monitor"));
        }
        match duration::parse(text) {
            Ok(span) if span.as_nanos() > 0 => Ok(text),
            _ => Err(CommandError::usage(format!("-wait wants a duration such as 2s, not {text:?}"))),
        }
    }
}

impl CliCommand for JobDeploymentsCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let stub = session.job(argument(&self.job, "job")?)?;
        let objects = objects(self.json, self.template.as_deref())?;
        let base = path("job", &stub.id);
        if self.latest {
            let value = session.client.get_value(&format!("{base}/deployment"), &namespace_query(&stub))?;
            if let Some(objects) = objects {
                session.out.objects(objects, &value)?;
                return Ok(ExitCode::SUCCESS);
            }
            return match decode::<Option<Deployment>>(&value)? {
                None => none(session),
                Some(latest) => {
                    page(&latest, session.zone(), self.verbose).print(&session.out)?;
                    Ok(ExitCode::SUCCESS)
                }
            };
        }
        let all = if self.all { "true" } else { "false" };
        let query: Vec<_> = namespace_query(&stub).into_iter().chain([("all", all)]).collect();
        let mut value = session.client.get_value(&format!("{base}/deployments"), &query)?;
        if let Some(list) = value.as_array_mut() {
            list.sort_by_key(|d| std::cmp::Reverse(d["CreateIndex"].as_u64()));
        }
        show(session, objects, &value, self.verbose)
    }
}

fn show(
    session: &Session,
    objects: Option<Objects<'_>>,
    value: &Value,
    verbose: bool,
) -> CommandResult<ExitCode> {
    if let Some(objects) = objects {
        session.out.objects(objects, value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let deployments: Vec<Deployment> = decode(value)?;
    if deployments.is_empty() {
        return none(session);
    }
    session.out.text(&table(&deployments, verbose))?;
    Ok(ExitCode::SUCCESS)
}

fn none(session: &Session) -> CommandResult<ExitCode> {
    session.out.line("No deployments found")?;
    Ok(ExitCode::SUCCESS)
}
