//! `drover job run`.

use crate::CliCommand;
use crate::deployment::change::follow_both;
use crate::error::{CommandError, CommandResult};
use crate::http::RequestError;
use crate::job;
use crate::job::file::{JobFile, JobFileOptions};
use crate::numbers;
use crate::session::Session;
use crate::shapes::RegisterAnswer;
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// run a new job or update one, and watch its evaluation and its deployment; exit code 2: not everything could be placed
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover job run -var count=3 cache.nomad.hcl",
    example = "cat cache.nomad.hcl | drover job run -detach -"
)]
pub struct JobRunCommand {
    /// submit only if the job is at this modify index; 0: only if it does not exist
    #[argh(option, from_str_fn(numbers::index))]
    check_index: Option<u64>,
    /// do not wait for the evaluation
    #[argh(switch)]
    detach: bool,
    /// priority of the evaluation, 1 to 100
    #[argh(option, from_str_fn(numbers::priority))]
    eval_priority: Option<u8>,
    /// refuse variables that the job does not declare (default true)
    #[argh(option, arg_name = "bool", default = "true")]
    hcl2_strict: bool,
    /// the file is the API's JSON
    #[argh(switch)]
    json: bool,
    /// print the job as JSON instead of submitting it
    #[argh(switch)]
    output: bool,
    /// groups that exist keep their count
    #[argh(switch)]
    preserve_counts: bool,
    /// taken with a warning: tasks get the resources that the file says
    #[argh(switch)]
    preserve_resources: bool,
    /// a variable as name=value; repeatable
    #[argh(option)]
    var: Vec<String>,
    /// a file with variables; repeatable
    #[argh(option)]
    var_file: Vec<String>,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// path of the job file; - is standard input
    #[argh(positional)]
    path: Option<String>,
}

impl CliCommand for JobRunCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let Some(path) = &self.path else {
            return Err(CommandError::usage("This command takes one argument: <path>"));
        };
        let options = JobFileOptions {
            json: self.json,
            vars: self.var.clone(),
            var_files: self.var_file.clone(),
            strict: self.hcl2_strict,
        };
        let file = job::file::read(path, &options)?;
        for warning in &file.warnings {
            session.out.warning(warning);
        }
        if self.output {
            session.out.json(&json!({"Job": file.job}))?;
            return Ok(ExitCode::SUCCESS);
        }
        use_job_region_and_namespace(session, &file);
        let answer = register(session, &[], &self.request(&file))?;
        warn(session, &answer.warnings)?;
        if self.detach || answer.eval_id.is_empty() {
            registered(session, "Job registration successful", &answer, &file.job)?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(follow_both(session, &answer.eval_id, self.verbose)?.into())
    }
}

impl JobRunCommand {
    fn request(&self, file: &JobFile) -> Value {
        let mut request = request(file);
        if let Some(index) = self.check_index {
            request["EnforceIndex"] = json!(true);
            request["JobModifyIndex"] = json!(index);
        }
        if let Some(priority) = self.eval_priority {
            request["EvalPriority"] = json!(priority);
        }
        if self.preserve_counts {
            request["PreserveCounts"] = json!(true);
        }
        if self.preserve_resources {
            request["PreserveResources"] = json!(true);
        }
        request
    }
}

/// To the region and namespace of the job, if it names any.
pub fn use_job_region_and_namespace(session: &mut Session, file: &JobFile) {
    let text = |member: &str| file.job.get(member).and_then(Value::as_str).unwrap_or("").to_string();
    session.client.set_region(&text("Region"));
    session.client.set_namespace(&text("Namespace"));
}

/// Prints the warnings of a registration.
pub fn warn(session: &Session, warnings: &str) -> CommandResult<()> {
    if warnings.is_empty() {
        return Ok(());
    }
    session.out.line(&session.out.bold(&format!("Job Warnings:\n{}\n", warnings.trim_end())))
}

/// The body of `PUT /v1/jobs`.
pub fn request(file: &JobFile) -> Value {
    json!({"Job": file.job, "Submission": file.submission})
}

pub fn register(session: &Session, home: &[(&str, &str)], request: &Value) -> CommandResult<RegisterAnswer> {
    session.client.put("/v1/jobs", home, request).map_err(|e| match e {
        RequestError::Status { text, .. } if text.contains(ENFORCING) => {
            let at = text.find(ENFORCING).unwrap_or(0);
            CommandError::new(format!("{}\nJob not updated", &text[at..]))
        }
        RequestError::Status { code, text } => {
            CommandError::new(format!("Error submitting job: Unexpected response code: {code} ({text})"))
        }
        other => other.into(),
    })
}

const ENFORCING: &str = "Enforcing job modify index";

/// `said`: what has succeeded.
pub fn registered(session: &Session, said: &str, answer: &RegisterAnswer, job: &Value) -> CommandResult<()> {
    session.out.line(said)?;
    let is = |block: &str| job.get(block).filter(|p| p.is_object());
    let periodic = is("Periodic").filter(|_| is("ParameterizedJob").is_none());
    if let Some(periodic) = periodic {
        let next = job::periodic::next_launch(session, periodic).unwrap_or_else(|| "none".to_string());
        session.out.line(&format!("Approximate next launch time: {next}"))?;
    }
    if !answer.eval_id.is_empty() {
        session.out.line(&format!("Evaluation ID: {}", answer.eval_id))?;
    }
    Ok(())
}
