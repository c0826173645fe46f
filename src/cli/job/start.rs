//! `drover job start`: a job that was stopped runs again, as it is (cli.md 2.1.6).

use crate::CliCommand;
use crate::deployment::change::follow_both;
use crate::error::{CommandError, CommandResult};
use crate::job::inspect::{submission, versions};
use crate::job::run::{register, registered, warn};
use crate::job::stop::each;
use crate::session::{Session, namespace_query};
use crate::shapes::JobStub;
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// run jobs again that were stopped, as they are
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job start cache")]
pub struct JobStartCommand {
    /// do not wait for the evaluation: print its id
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// ids of jobs, or beginnings of ids
    #[argh(positional)]
    job: Vec<String>,
}

impl CliCommand for JobStartCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let start = |prefix: &str| self.start(session, prefix);
        each(session, &self.job, &start, &|eval| follow_both(session, eval, self.verbose))
    }
}

impl JobStartCommand {
    /// The evaluation to be followed, if there is one.
    fn start(&self, session: &Session, prefix: &str) -> CommandResult<Option<String>> {
        let stub = session.job(prefix)?;
        let mut versions = versions(session, &stub, None)?;
        let mut job = versions.remove(0);
        if job["Stop"] != json!(true) {
            return Err(CommandError::new(format!("Job {:?} has not been stopped", stub.id)));
        }
        job["Stop"] = json!(false);
        let request = json!({
            "Job": job, "Submission": submission_text(session, &stub, &job, &versions)?,
            "EnforceIndex": true, "JobModifyIndex": job["JobModifyIndex"],
        });
        let answer = register(session, &namespace_query(&stub), &request)?;
        warn(session, &answer.warnings)?;
        if self.detach || answer.eval_id.is_empty() {
            registered(session, "Job start successful", &answer, &job)?;
            return Ok(None);
        }
        Ok(Some(answer.eval_id))
    }
}

/// The text that this very job was made from, if one of its older versions has it.
fn submission_text(
    session: &Session,
    stub: &JobStub,
    job: &Value,
    older: &[Value],
) -> CommandResult<Option<Value>> {
    let wanted = comparable_spec(job);
    for version in older.iter().filter(|version| comparable_spec(version) == wanted) {
        if let Some(kept) = submission(session, stub, version["Version"].as_u64().unwrap_or(0))? {
            let members = ["Source", "Format", "VariableFlags", "Variables"];
            return Ok(Some(members.iter().map(|name| (name.to_string(), kept[*name].clone())).collect()));
        }
    }
    Ok(None)
}

/// What the job is, without what became of it.
fn comparable_spec(job: &Value) -> Value {
    let mut job = job.clone();
    let history = [
        "JobModifyIndex",
        "ModifyIndex",
        "Stable",
        "Status",
        "StatusDescription",
        "SubmitTime",
        "Version",
        "VersionTag",
    ];
    for name in history {
        job[name] = Value::Null;
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_the_same_whatever_became_of_it() {
        let job =
            json!({"ID": "a", "Stop": false, "Version": 1, "Stable": true, "TaskGroups": [{"Count": 1}]});
        let later =
            json!({"ID": "a", "Stop": false, "Version": 2, "Status": "dead", "TaskGroups": [{"Count": 1}]});
        assert_eq!(comparable_spec(&job), comparable_spec(&later));
        for (name, value) in [("Stop", json!(true)), ("TaskGroups", json!([{"Count": 2}]))] {
            let mut other = later.clone();
            other[name] = value;
            assert_ne!(comparable_spec(&job), comparable_spec(&other), "{name}");
        }
    }
}
