//! What users do with a deployment: `drover deployment promote`, `fail`, `pause`,
//! `resume` and `unblock`, and `drover job promote`.

use crate::Run;
use crate::deployment;
use crate::deployment::progress::{Deployment, Stepped};
use crate::error::{CommandError, CommandResult};
use crate::eval::monitor;
use crate::http::encode;
use crate::session::{Session, argument, namespace_query, path};
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// say that a deployment's canaries are good, so that it goes on
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment promote -group web 1a2b3c4d")]
pub struct DeploymentPromote {
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

/// say that the canaries of a job's newest deployment are good, so that it goes on
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job promote cache")]
pub struct JobPromote {
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

/// end a deployment as failed; a job that reverts by itself comes back to its last good version
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment fail 1a2b3c4d")]
pub struct DeploymentFail {
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

/// hold a deployment: nothing new is placed until it is resumed
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment pause 1a2b3c4d")]
pub struct DeploymentPause {
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    deployment: Option<String>,
}

/// let a paused deployment go on
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment resume 1a2b3c4d")]
pub struct DeploymentResume {
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

/// let a deployment go on that waits for its job's deployments in other regions
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover deployment unblock 1a2b3c4d")]
pub struct DeploymentUnblock {
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

impl Run for DeploymentPromote {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        let answer = step(session, "promote", &id, promotion(&id, &self.group))?;
        follow_change(session, &answer.eval_id, self.detach, self.verbose)
    }
}

impl Run for JobPromote {
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

impl Run for DeploymentFail {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        let answer = step(session, "fail", &id, json!({"DeploymentID": id}))?;
        let reverted = answer.reverted_job_version;
        session.out.line(&format!("Deployment {id:?} failed"))?;
        if let Some(version) = reverted {
            session.out.line(&format!("Job has been reverted to version {version}"))?;
        }
        // that its deployment has failed is what was asked for
        match told(session, &answer.eval_id, self.detach)? {
            true => Ok(ExitCode::SUCCESS),
            false => Ok(monitor::follow(session, &answer.eval_id, self.verbose)?.into()),
        }
    }
}

impl Run for DeploymentPause {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        step(session, "pause", &id, json!({"DeploymentID": id, "Pause": true}))?;
        let shown = crate::render::layout::id(&id, self.verbose);
        session.out.line(&format!("Deployment {shown:?} paused"))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Run for DeploymentResume {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let id = session.deployment_id(argument(&self.deployment, "deployment id")?)?;
        let answer = step(session, "pause", &id, json!({"DeploymentID": id, "Pause": false}))?;
        session.out.line(&format!("Deployment {id:?} resumed"))?;
        follow_change(session, &answer.eval_id, self.detach, self.verbose)
    }
}

impl Run for DeploymentUnblock {
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

fn step(session: &Session, verb: &str, id: &str, body: Value) -> CommandResult<Stepped> {
    Ok(session.client.put(&format!("/v1/deployment/{verb}/{}", encode(id)), &[], &body)?)
}

/// There is no evaluation to follow, or its id was all that was asked for: that is printed.
fn told(session: &Session, eval_id: &str, detach: bool) -> CommandResult<bool> {
    if detach && !eval_id.is_empty() {
        session.out.line(&format!("Evaluation ID: {eval_id}"))?;
    }
    Ok(detach || eval_id.is_empty())
}

/// What a changed job comes to: followed to the end of its deployment, unless only the evaluation's id is asked for.
pub fn follow_change(
    session: &Session,
    eval_id: &str,
    detach: bool,
    verbose: bool,
) -> CommandResult<ExitCode> {
    match told(session, eval_id, detach)? {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(follow_both(session, eval_id, verbose)?.into()),
    }
}

/// The evaluation, and then the deployment that it is part of. What waits for room may wait for ever: that is not waited for.
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
