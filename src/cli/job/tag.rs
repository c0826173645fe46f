//! `drover job tag apply` and `drover job tag unset`: names for versions (cli.md 2.1.1, http-api.md 1.1.17).

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::http::encode;
use crate::numbers;
use crate::session::{Session, argument, namespace_query, path};
use crate::shapes::JobStub;
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// give a version of a job a name, under which it is kept
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job tag apply -name good -description \"before the move\" cache")]
pub struct JobTagApplyCommand {
    /// the name
    #[argh(option)]
    name: Option<String>,
    /// its description
    #[argh(option)]
    description: Option<String>,
    /// that version instead of the newest
    #[argh(option, from_str_fn(numbers::index))]
    version: Option<u64>,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

/// take the name of a version back
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job tag unset -name good cache")]
pub struct JobTagUnsetCommand {
    /// the name
    #[argh(option)]
    name: Option<String>,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

impl CliCommand for JobTagApplyCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let name = given(&self.name)?;
        let stub = session.job(argument(&self.job, "job")?)?;
        let body = json!({
            "Version": self.version, "Latest": self.version.is_none(), "Description": self.description,
        });
        let _tag: Value = session.client.put(&target(&stub, name), &namespace_query(&stub), &body)?;
        session.out.line(&format!("Job version tag {name:?} applied to job {:?}", stub.id))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for JobTagUnsetCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let name = given(&self.name)?;
        let stub = session.job(argument(&self.job, "job")?)?;
        let _none: Value = session.client.delete(&target(&stub, name), &namespace_query(&stub))?;
        session.out.line(&format!("Job version tag {name:?} removed from job {:?}", stub.id))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn given(name: &Option<String>) -> CommandResult<&str> {
    let missing = || CommandError::usage("-name is missing: a tag has a name");
    name.as_deref().filter(|name| !name.is_empty()).ok_or_else(missing)
}

fn target(stub: &JobStub, name: &str) -> String {
    format!("{}/versions/{}/tag", path("job", &stub.id), encode(name))
}
