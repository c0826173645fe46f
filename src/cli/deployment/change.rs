//! What users do with a deployment: `drover deployment promote`, `fail`, `pause`,
//! `resume` and `unblock`, and `drover job promote`.

use crate::CliCommand;
use crate::deployment;
use crate::deployment::shapes::{Deployment, DeploymentUpdate};
use crate::error::{CommandError, CommandResult};
use crate::eval::monitor;
use crate::http::encode;
use crate::session::{Session, argument, namespace_query, path};
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// promote a deployment's canaries, so that it goes on
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment promote -group web 1a2b3c4d")]
pub struct DeploymentPromoteCommand {
    /// only this group; repeatable
    #[argh(option)]
    group: Vec<String>,
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    deployment: Option<String>,
}

/// promote the canaries of a job's newest deployment, so that it goes on
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job promote cache")]
pub struct JobPromoteCommand {
    /// only this group; repeatable
    #[argh(option)]
    group: Vec<String>,
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

/// mark a deployment as failed; a job with auto_revert goes back to its last stable version
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment fail 1a2b3c4d")]
pub struct DeploymentFailCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    deployment: Option<String>,
}

/// pause a deployment: nothing new is placed until it is resumed
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment pause 1a2b3c4d")]
pub struct DeploymentPauseCommand {
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    deployment: Option<String>,
}

/// resume a paused deployment
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment resume 1a2b3c4d")]
pub struct DeploymentResumeCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    deployment: Option<String>,
}

/// unblock a deployment that waits for its job's deployments in other regions
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment unblock 1a2b3c4d")]
pub struct DeploymentUnblockCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    deployment: Option<String>,
}

impl CliCommand for DeploymentPromoteCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        let answer = step(session, "promote", &id, promotion(&id, &self.group))?;
        follow_change(session, &answer.eval_id, self.detach, self.verbose)
    }
}

impl CliCommand for JobPromoteCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let stub = session.job(argument(&self.job, "job id")?)?;
        let target = format!("{}/deployment", path("job", &stub.id));
        let latest: Option<Deployment> = session.client.get(&target, &namespace_query(&stub))?;
        let Some(latest) = latest else {
            return Err(CommandError::new(format!("Job {:?} has no deployment to promote", stub.id)));
        };
        let answer = step(session, "promote", &latest.id, promotion(&latest.id, &self.group))?;
        follow_change(session, &answer.eval_id, self.detach, self.verbose)
    }
}

impl CliCommand for DeploymentFailCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        let answer = step(session, "fail", &id, json!({"DeploymentID": id}))?;
        let reverted = answer.reverted_job_version;
        session.out.line(&format!("Deployment {id:?} failed"))?;
        if let Some(version) = reverted {
            session.out.line(&format!("Job has been reverted to version {version}"))?;
        }
        // the failed deployment is not monitored: failing it was the request
        match nothing_to_monitor(session, &answer.eval_id, self.detach)? {
            true => Ok(ExitCode::SUCCESS),
            false => Ok(monitor::follow(session, &answer.eval_id, self.verbose)?.into()),
        }
    }
}

impl CliCommand for DeploymentPauseCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        step(session, "pause", &id, json!({"DeploymentID": id, "Pause": true}))?;
        let shown = crate::render::layout::id(&id, self.verbose);
        session.out.line(&format!("Deployment {shown:?} paused"))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for DeploymentResumeCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        let answer = step(session, "pause", &id, json!({"DeploymentID": id, "Pause": false}))?;
        session.out.line(&format!("Deployment {id:?} resumed"))?;
        follow_change(session, &answer.eval_id, self.detach, self.verbose)
    }
}

impl CliCommand for DeploymentUnblockCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        let answer = step(session, "unblock", &id, json!({"DeploymentID": id}))?;
        session.out.line(&format!("Deployment {id:?} unblocked"))?;
        follow_change(session, &answer.eval_id, self.detach, self.verbose)
    }
}

fn promotion(id: &str, groups: &[String]) -> Value {
    match groups {
        [] => json!({"DeploymentID": id, "All": true}),
        groups => json!({"DeploymentID": id, "Groups": groups}),
    }
}

fn step(session: &Session, verb: &str, id: &str, body: Value) -> CommandResult<DeploymentUpdate> {
    Ok(session.client.put(&format!("/v1/deployment/{verb}/{}", encode(id)), &[], &body)?)
}

/// Whether there is nothing to monitor. When detached, prints the evaluation's id.
fn nothing_to_monitor(session: &Session, eval_id: &str, detach: bool) -> CommandResult<bool> {
    if detach && !eval_id.is_empty() {
        session.out.line(&format!("Evaluation ID: {eval_id}"))?;
    }
    Ok(detach || eval_id.is_empty())
}

/// Monitors the evaluation and the deployment of a change, unless detached.
pub fn follow_change(
    session: &Session,
    eval_id: &str,
    detach: bool,
    verbose: bool,
) -> CommandResult<ExitCode> {
    match nothing_to_monitor(session, eval_id, detach)? {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(follow_both(session, eval_id, verbose)?.into()),
    }
}

/// The evaluation, and then its deployment. A blocked evaluation may wait for ever, so it is not waited for.
pub fn follow_both(session: &Session, eval_id: &str, verbose: bool) -> CommandResult<u8> {
    let code = monitor::follow(session, eval_id, verbose)?;
    if code != 0 {
        return Ok(code);
    }
    let eval: crate::shapes::Eval = session.client.get(&path("evaluation", eval_id), &[])?;
    if eval.deployment_id.is_empty() {
        return Ok(code);
    }
    deployment::monitor::follow(session, &eval.deployment_id, verbose)
}
