//! `drover job revert`.

use crate::CliCommand;
use crate::deployment::change::follow_change;
use crate::error::{CommandError, CommandResult};
use crate::session::{Session, namespace_query, path};
use crate::shapes::{JobStub, RegisterAnswer, Versions};
use argh::{ArgsInfo, FromArgs};
use serde_json::json;
use std::process::ExitCode;

/// revert a job to an older version, which becomes its newest
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job revert cache 3")]
pub struct JobRevertCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// a token for Consul (not supported yet)
    #[argh(option)]
    consul_token: Option<String>,
    /// a token for Vault (not supported yet)
    #[argh(option)]
    vault_token: Option<String>,
    /// an id or the beginning of one, and the number or the tag of the version
    #[argh(positional)]
    job_and_version: Vec<String>,
}

/// The number of the version with this tag.
fn named(session: &Session, stub: &JobStub, tag: &str) -> CommandResult<u64> {
    let target = format!("{}/versions", path("job", &stub.id));
    let all: Versions = session.client.get(&target, &namespace_query(stub))?;
    let found = all.versions.iter().find(|job| job["VersionTag"]["Name"] == tag);
    let unknown = || CommandError::new(format!("Job {:?} has no version with the tag {tag:?}", stub.id));
    found.and_then(|job| job["Version"].as_u64()).ok_or_else(unknown)
}

impl CliCommand for JobRevertCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let [job, version] = &self.job_and_version[..] else {
            return Err(CommandError::usage("This command takes two arguments: <job> <version|tag>"));
        };
        let tokens = [(&self.consul_token, "-consul-token"), (&self.vault_token, "-vault-token")];
        if let Some((_, flag)) = tokens.iter().find(|(t, _)| t.as_ref().is_some_and(|t| !t.is_empty())) {
            return Err(CommandError::new(format!("not supported yet: {flag}")));
        }
        let stub = session.job(job)?;
        let version = match version.parse::<u64>() {
            Ok(number) => number,
            Err(_) => named(session, &stub, version)?,
        };
        let body = json!({"JobID": stub.id, "JobVersion": version});
        let target = format!("{}/revert", path("job", &stub.id));
        let answer: RegisterAnswer = session.client.put(&target, &namespace_query(&stub), &body)?;
        follow_change(session, &answer.eval_id, self.detach, self.verbose)
    }
}
