//! `drover job inspect` and `drover job history`: what a job is and was.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::http::decode;
use crate::job::file::{flag_with_value, shell_word};
use crate::numbers;
use crate::output::objects;
use crate::render::diff;
use crate::render::layout;
use crate::session::{Session, argument, namespace_query, path};
use crate::shapes::{Job, JobStub, Submission, Versions};
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// print a job as JSON, or as a job file
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job inspect -version 2 cache", example = "drover job inspect -hcl cache")]
pub struct JobInspectCommand {
    /// that version instead of the newest
    #[argh(option, from_str_fn(numbers::index))]
    version: Option<u64>,
    /// print the job file that it was made from, or one that says the same
    #[argh(switch)]
    hcl: bool,
    /// with -hcl: how to run it with the variables that it was submitted with, on standard error
    #[argh(switch)]
    with_vars: bool,
    /// without "Job" around it; without an id: the list of all jobs
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

/// list the versions of a job, newest first
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job history -p cache", example = "drover job history -full cache")]
pub struct JobHistoryCommand {
    /// show what changed from version to version
    #[argh(switch, long = "p")]
    diff: bool,
    /// print each version as JSON, too
    #[argh(switch)]
    full: bool,
    /// only that version
    #[argh(option, from_str_fn(numbers::index))]
    version: Option<u64>,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// with -p: compare each version with the one of this tag
    #[argh(option)]
    diff_tag: Option<String>,
    /// with -p: compare each version with this one
    #[argh(option, from_str_fn(numbers::index))]
    diff_version: Option<u64>,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

impl CliCommand for JobInspectCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        if self.with_vars && !self.hcl {
            return Err(CommandError::usage("-with-vars needs -hcl"));
        }
        let objects = objects(self.json, self.template.as_deref())?;
        if self.hcl && objects.is_some() {
            return Err(CommandError::usage("-hcl excludes -json and -t"));
        }
        let Some(prefix) = &self.job else {
            if let Some(objects) = objects {
                session.out.objects(objects, &session.client.get_value("/v1/jobs", &[])?)?;
                return Ok(ExitCode::SUCCESS);
            }
            let sentence =
                "This command takes one argument: <job> (only with -json or -t it may be left out)";
            return Err(CommandError::usage(sentence));
        };
        let stub = session.job(prefix)?;
        if self.hcl {
            self.source(session, &stub)?;
        } else {
            let job = self.object(session, &stub)?;
            match objects {
                Some(objects) => session.out.objects(objects, &job)?,
                None => session.out.json(&json!({ "Job": job }))?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl JobInspectCommand {
    fn object(&self, session: &Session, stub: &JobStub) -> CommandResult<Value> {
        match self.version {
            None => Ok(session.client.get_value(&path("job", &stub.id), &namespace_query(stub))?),
            Some(wanted) => Ok(versions(session, stub, Some(wanted))?.remove(0)),
        }
    }

    /// The file that its user wrote, else one that says the same.
    fn source(&self, session: &Session, stub: &JobStub) -> CommandResult<()> {
        let object = self.object(session, stub)?;
        let job: Job = decode(&object)?;
        let kept = match submission(session, stub, job.version)? {
            Some(kept) => Some(decode::<Submission>(&kept)?).filter(|kept| kept.format != "json"),
            None => None,
        };
        let kept = match kept {
            Some(kept) => kept,
            None => Submission { source: source_or_job_file(&object)?, ..Submission::default() },
        };
        session.out.text(&format!("{}\n", kept.source.trim_end()))?;
        if self.with_vars {
            session.out.stderr_line(&rerun_command(stub, job.version, &kept));
        }
        Ok(())
    }
}

/// The job as a job file. What it was dispatched with has no place in one.
fn source_or_job_file(job: &Value) -> CommandResult<String> {
    let mut job = job.clone();
    if let Value::Object(members) = &mut job {
        members.remove("Payload");
    }
    let spec = jobspec::decode_job(&job)
        .map_err(|e| CommandError::new(format!("The job cannot be written as a file: {e}")))?;
    Ok(jobspec::write(&spec))
}

/// What the version was made from, as the API's object, if that was kept.
pub fn submission(session: &Session, stub: &JobStub, version: u64) -> CommandResult<Option<Value>> {
    let version = version.to_string();
    let query: Vec<_> = namespace_query(stub).into_iter().chain([("version", version.as_str())]).collect();
    match session.client.get_value(&format!("{}/submission", path("job", &stub.id)), &query) {
        Ok(kept) => Ok(Some(kept)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// How the version is submitted once more, with the same variables.
fn rerun_command(stub: &JobStub, version: u64, kept: &Submission) -> String {
    let namespace: String = namespace_query(stub).iter().map(|(_, n)| format!("-namespace {n} ")).collect();
    let flags =
        kept.variable_flags.iter().map(|(name, value)| flag_with_value("var", &format!("{name}={value}")));
    let flags: String = flags.collect();
    let inspect = format!("drover job inspect {namespace}-hcl -version {version} {}", shell_word(&stub.id));
    let (intro, file) = match kept.variables.trim() {
        "" => ("As it was submitted:".to_string(), ""),
        text => {
            (format!("As it was submitted, with these lines in vars.hcl:\n\n{text}"), "-var-file=vars.hcl ")
        }
    };
    format!("\n{intro}\n\n{inspect} | drover job run {namespace}{flags}{file}-")
}

/// As they come, newest first; with `wanted` only that one.
pub fn versions(session: &Session, stub: &JobStub, wanted: Option<u64>) -> CommandResult<Vec<Value>> {
    let target = format!("{}/versions", path("job", &stub.id));
    let all: Versions = session.client.get(&target, &namespace_query(stub))?;
    let Some(wanted) = wanted else { return Ok(all.versions) };
    let mut versions = all.versions;
    let at = place(&versions, stub, wanted)?;
    Ok(vec![versions.swap_remove(at)])
}

fn place(versions: &[Value], stub: &JobStub, wanted: u64) -> CommandResult<usize> {
    let numbers: Vec<u64> = versions.iter().map(|job| job["Version"].as_u64().unwrap_or(0)).collect();
    numbers.iter().position(|n| *n == wanted).ok_or_else(|| {
        let known: Vec<String> = numbers.iter().map(u64::to_string).collect();
        CommandError::new(format!("Job {:?} has no version {wanted}; it has {}", stub.id, known.join(", ")))
    })
}

impl CliCommand for JobHistoryCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let bases = [(self.diff_version.is_some(), "-diff-version"), (self.diff_tag.is_some(), "-diff-tag")];
        match (bases, self.diff) {
            ([(true, _), (true, _)], _) => {
                return Err(CommandError::usage("-diff-version and -diff-tag exclude each other"));
            }
            ([(true, flag), _] | [_, (true, flag)], false) => {
                return Err(CommandError::usage(format!("{flag} needs -p")));
            }
            _ => {}
        }
        let stub = session.job(argument(&self.job, "job")?)?;
        let found = self.found(session, &stub)?;
        if let Some(objects) = objects(self.json, self.template.as_deref())? {
            session.out.objects(objects, &self.value(found))?;
            return Ok(ExitCode::SUCCESS);
        }
        for (i, value) in found.versions.iter().enumerate() {
            if i > 0 {
                session.out.line("")?;
            }
            let job: Job = decode(value)?;
            session.out.text(&block(&job, &session.time(job.submit_time)))?;
            if let Some(changed) = found.diffs.get(i) {
                let diff = diff::render(&decode(changed)?, false, &session.out);
                session.out.text(&format!("Diff        =\n{}\n", diff.trim_end()))?;
            }
            if self.full {
                session.out.json(value)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl JobHistoryCommand {
    /// The versions that are asked for, with their differences if those are, too.
    fn found(&self, session: &Session, stub: &JobStub) -> CommandResult<Versions> {
        let base = self.diff_version.map(|v| v.to_string());
        let mut query = namespace_query(stub);
        query.extend(self.diff.then_some(("diffs", "true")));
        query.extend(base.as_deref().map(|v| ("diff_version", v)));
        query.extend(self.diff_tag.as_deref().map(|tag| ("diff_tag", tag)));
        let target = format!("{}/versions", path("job", &stub.id));
        let mut all: Versions = session.client.get(&target, &query)?;
        let Some(wanted) = self.version else { return Ok(all) };
        let at = place(&all.versions, stub, wanted)?;
        let diffs = if at < all.diffs.len() { vec![all.diffs.swap_remove(at)] } else { vec![] };
        Ok(Versions { versions: vec![all.versions.swap_remove(at)], diffs })
    }

    fn value(&self, mut found: Versions) -> Value {
        match self.version {
            _ if self.diff => json!({"Versions": found.versions, "Diffs": found.diffs}),
            Some(_) if found.versions.len() == 1 => found.versions.remove(0),
            _ => Value::Array(found.versions),
        }
    }
}

fn block(job: &Job, submitted: &str) -> String {
    let mut rows = vec![
        ("Version", job.version.to_string()),
        ("Stable", job.stable.to_string()),
        ("Submit Date", submitted.to_string()),
    ];
    if let Some(tag) = &job.version_tag {
        rows.extend([("Tag Name", tag.name.clone()), ("Tag Description", tag.description.clone())]);
    }
    layout::key_values(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::VersionTag;

    #[test]
    fn how_a_version_is_submitted_again_names_its_variables() {
        let stub = JobStub { id: "cache".into(), ..JobStub::default() };
        let mut kept = Submission { format: "hcl2".into(), ..Submission::default() };
        let plain = "\nAs it was submitted:\n\ndrover job inspect -hcl -version 3 cache | drover job run -";
        assert_eq!(rerun_command(&stub, 3, &kept), plain);
        kept.variable_flags =
            [("n", "3"), ("who", "a b")].iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        kept.variables = "x = 1\n".into();
        let expected = "\nAs it was submitted, with these lines in vars.hcl:\n\nx = 1\n\n\
            drover job inspect -hcl -version 3 cache | drover job run -var=n=3 -var='who=a b' -var-file=vars.hcl -";
        assert_eq!(rerun_command(&stub, 3, &kept), expected);
    }

    #[test]
    fn a_version_is_laid_out_as_its_reference() {
        let job = Job { version: 3, stable: true, ..Job::default() };
        let expected = "Version     = 3\nStable      = true\nSubmit Date = 2024-05-01T10:20:30Z\n";
        assert_eq!(block(&job, "2024-05-01T10:20:30Z"), expected);
        let tag = VersionTag { name: "good".into(), description: String::new() };
        let named = block(&Job { version_tag: Some(tag), ..job }, "2024-05-01T10:20:30Z");
        assert!(named.ends_with("Tag Name        = good\nTag Description = <none>\n"), "{named}");
    }
}
