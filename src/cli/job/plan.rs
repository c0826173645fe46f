//! `drover job plan`: what `job run` would do.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::eval::monitor::failed_groups;
use crate::http::{RequestError, decode};
use crate::job;
use crate::job::file::JobFileOptions;
use crate::job::run::{use_job_region_and_namespace, warn};
use crate::output::objects;
use crate::render::diff;
use crate::render::diff::JobDiffAnswer;
use crate::render::layout;
use crate::session::{Session, argument, path};
use crate::shapes::{Alloc, AllocMetric};
use argh::{ArgsInfo, FromArgs};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The exit code of any error: 1 has a meaning of its own.
pub const FAILED: u8 = 255;

const CHANGES: u8 = 1;

/// show what running a job would change, without running it; exit code 1: allocations would come or go; 255: an error
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job plan -var count=3 cache.nomad.hcl")]
pub struct JobPlanCommand {
    /// show what is different in the job (default true)
    #[argh(option, arg_name = "bool", default = "true")]
    diff: bool,
    /// refuse variables that the job does not declare (default true)
    #[argh(option, arg_name = "bool", default = "true")]
    hcl2_strict: bool,
    /// the file is the API's JSON
    #[argh(switch)]
    json: bool,
    /// print the API's answer as JSON
    #[argh(switch)]
    json_output: bool,
    /// print the API's answer through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// override soft mandatory policies (no effect: there are none)
    #[argh(switch)]
    policy_override: bool,
    /// a variable as name=value; repeatable
    #[argh(option)]
    var: Vec<String>,
    /// a file with variables; repeatable
    #[argh(option)]
    var_file: Vec<String>,
    /// show all that is in what comes or goes
    #[argh(switch)]
    verbose: bool,
    /// path of the job file; - is standard input
    #[argh(positional)]
    path: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct PlanAnswer {
    annotations: Annotations,
    #[serde(rename = "FailedTGAllocs")]
    failed_groups: BTreeMap<String, AllocMetric>,
    job_modify_index: u64,
    diff: Option<JobDiffAnswer>,
    next_periodic_launch: String,
    warnings: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Annotations {
    #[serde(rename = "DesiredTGUpdates")]
    desired: BTreeMap<String, GroupChanges>,
    preempted_allocs: Vec<Alloc>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct GroupChanges {
    place: u64,
    stop: u64,
    migrate: u64,
    destructive_update: u64,
    canary: u64,
}

impl CliCommand for JobPlanCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let file_path = argument(&self.path, "path")?.to_string();
        let options = JobFileOptions {
            json: self.json,
            vars: self.var.clone(),
            var_files: self.var_file.clone(),
            strict: self.hcl2_strict,
        };
        let file = job::file::read(&file_path, &options)?;
        for warning in &file.warnings {
            session.out.warning(warning);
        }
        use_job_region_and_namespace(session, &file);
        let id = file.job.get("ID").and_then(Value::as_str).unwrap_or("");
        let target = format!("{}/plan", path("job", id));
        let request = json!({"Job": file.job, "Diff": self.diff, "PolicyOverride": self.policy_override});
        let found: Value = session.client.put(&target, &[], &request).map_err(|e| match e {
            RequestError::Status { code, text } => {
                CommandError::new(format!("Error during plan: Unexpected response code: {code} ({text})"))
            }
            other => other.into(),
        })?;
        let answer: PlanAnswer = decode(&found)?;
        match objects(self.json_output, self.template.as_deref())? {
            Some(how) => session.out.objects(how, &found)?,
            None => self.show(session, &answer, &file_path)?,
        }
        Ok(ExitCode::from(answer.exit_code()))
    }
}

impl PlanAnswer {
    fn exit_code(&self) -> u8 {
        let moved = |g: &GroupChanges| g.place + g.stop + g.migrate + g.destructive_update + g.canary > 0;
        if self.annotations.desired.values().any(moved) { CHANGES } else { 0 }
    }
}

impl JobPlanCommand {
    fn show(&self, session: &Session, answer: &PlanAnswer, file: &str) -> CommandResult<()> {
        let out = &session.out;
        if let Some(diff) = &answer.diff {
            out.text(&format!("{}\n\n", diff::render(diff, self.verbose, out).trim_end()))?;
        }
        out.title("Scheduler dry-run:")?;
        if answer.failed_groups.is_empty() {
            out.line(&out.colored("- All tasks successfully allocated.", anstyle::AnsiColor::Green))?;
        } else {
            let warning = "- WARNING: Failed to place all allocations.";
            out.line(&out.colored(warning, anstyle::AnsiColor::Yellow))?;
            failed_groups(&answer.failed_groups).iter().try_for_each(|l| out.line(&format!("  {l}")))?;
        }
        if !answer.next_periodic_launch.is_empty() {
            let (next, now) = (layout::unix_nanos(&answer.next_periodic_launch), session.now());
            let when = format!("{} ({})", session.time(next), layout::relative(next, now));
            out.line(&format!("- If submitted now, next periodic launch would be at {when}."))?;
        }
        out.line("")?;
        warn(session, &answer.warnings)?;
        self.show_preempted(session, &answer.annotations.preempted_allocs)?;
        let index = answer.job_modify_index;
        out.title(&format!("Job Modify Index: {index}"))?;
        out.line("To submit the job with version verification run:\n")?;
        out.line(&format!("drover job run -check-index {index} {}\n", self.flag_with_value(file)))?;
        out.line(
            "With -check-index the job is only run if it is still as this plan saw it. If its index has\n\
             moved, somebody changed the job meanwhile: plan again.",
        )
    }

    /// Allocations of other jobs that would have to make way.
    fn show_preempted(&self, session: &Session, preempted: &[Alloc]) -> CommandResult<()> {
        if preempted.is_empty() {
            return Ok(());
        }
        session.out.title("Preemptions:")?;
        let row = |a: &Alloc| vec![layout::id(&a.id, self.verbose), a.job_id.clone(), a.task_group.clone()];
        let rows: Vec<_> = preempted.iter().map(row).collect();
        session.out.text(&layout::table(&["Alloc ID", "Job ID", "Task Group"], &rows))?;
        session.out.line("")
    }

    /// The same file with the same variables.
    fn flag_with_value(&self, file: &str) -> String {
        let json = if self.json { "-json ".to_string() } else { String::new() };
        let vars = self.var.iter().map(|v| job::file::flag_with_value("var", v));
        let files = self.var_file.iter().map(|v| job::file::flag_with_value("var-file", v));
        format!("{json}{}{file}", vars.chain(files).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_whether_allocations_come_or_go() {
        for (member, code) in [
            ("Ignore", 0),
            ("InPlaceUpdate", 0),
            ("Place", 1),
            ("Stop", 1),
            ("Migrate", 1),
            ("DestructiveUpdate", 1),
            ("Canary", 1),
        ] {
            let answer = json!({"Annotations": {"DesiredTGUpdates": {"g": {member: 1}, "h": {}}}});
            let answer: PlanAnswer = crate::answer::read(&answer).unwrap();
            assert_eq!(answer.exit_code(), code, "{member}");
        }
    }
}
