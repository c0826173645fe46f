//! `drover job validate`: by an agent, or without one as far as that goes.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::http::{RequestError, decode};
use crate::job;
use crate::job::file::JobFileOptions;
use crate::session::{Session, argument};
use crate::shapes::ValidateAnswer;
use argh::{ArgsInfo, FromArgs};
use model::canonical::{self, DEFAULT_NODE_POOL, Defaults};
use model::eval::DEFAULT_PRIORITY;
use model::validate::{Limits, multi_error, validate};
use serde_json::{Value, json};
use std::process::ExitCode;

/// check a job file without running it; without an agent, the file alone is checked
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job validate -var count=3 cache.nomad.hcl")]
pub struct JobValidateCommand {
    /// refuse variables that the job does not declare (default true)
    #[argh(option, arg_name = "bool", default = "true")]
    hcl2_strict: bool,
    /// the file is the API's JSON
    #[argh(switch)]
    json: bool,
    /// a variable as name=value; repeatable
    #[argh(option)]
    var: Vec<String>,
    /// a file with variables; repeatable
    #[argh(option)]
    var_file: Vec<String>,
    /// path of the job file; - is standard input
    #[argh(positional)]
    path: Option<String>,
}

impl CliCommand for JobValidateCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let path = argument(&self.path, "path")?.to_string();
        let options = JobFileOptions {
            json: self.json,
            vars: self.var,
            var_files: self.var_file,
            strict: self.hcl2_strict,
        };
        let file = job::file::read(&path, &options)?;
        for warning in &file.warnings {
            session.out.warning(warning);
        }
        job::run::use_job_region_and_namespace(session, &file);
        let asked = session.client.put::<Value>("/v1/validate/job", &[], &json!({ "Job": file.job }));
        let answer = match asked {
            Ok(answer) => decode(&answer)?,
            Err(RequestError::Failed(why)) => {
                session.out.warning(&format!("Only the file is checked: {why}"));
                validate_locally(&file.job)
            }
            Err(refused) => return Err(refused.into()),
        };
        if !answer.error.is_empty() {
            let errors = answer.error.trim_end();
            return Err(CommandError::new(format!("Job validation errors:\n{errors}")));
        }
        job::run::warn(session, &answer.warnings)?;
        session.out.line(&session.out.bold("Job validation successful"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What a server would say of the job by itself, with the limits of a server that is not configured otherwise.
fn validate_locally(job: &Value) -> ValidateAnswer {
    match jobspec::read_job(job) {
        Err(jobspec::RefusedJob::Malformed(error)) => ValidateAnswer { error, ..ValidateAnswer::default() },
        Err(jobspec::RefusedJob::Invalid(errors) | jobspec::RefusedJob::NotSupported(errors)) => {
            ValidateAnswer { error: multi_error(&errors), ..ValidateAnswer::default() }
        }
        Ok((mut spec, flaws)) => {
            let defaults = Defaults { priority: DEFAULT_PRIORITY, node_pool: DEFAULT_NODE_POOL.into() };
            canonical::complete(&mut spec, &defaults);
            let found = validate(&spec, &Limits::default());
            let warnings = found.warning_text();
            ValidateAnswer { error: multi_error(&flaws.with(found.errors)), warnings }
        }
    }
}
