//! Reading job files: from disk or standard input, with variables, into the API's JSON job. What is wrong is shown with its place.

use crate::error::{CommandError, CommandResult};
use crate::job::local_files::LocalFiles;
use agent::config::files::os_error;
use serde_json::{Value, json};
use std::io::Read;

/// A longer job file is not read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// How a job file is to be read.
#[derive(Clone, Debug, Default)]
pub struct JobFileOptions {
    /// The file is the API's JSON, not HCL.
    pub json: bool,
    /// `name=value` each.
    pub vars: Vec<String>,
    /// Paths of files with variables.
    pub var_files: Vec<String>,
    /// A value for a variable that the job does not declare is an error.
    pub strict: bool,
}

/// A job, ready to be submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    pub job: Value,
    /// What the user wrote, as the API's `Submission`.
    pub submission: Value,
    /// For people, one each.
    pub warnings: Vec<String>,
}

/// Reads `path`; `-` is standard input.
pub fn read(path: &str, options: &JobFileOptions) -> CommandResult<JobFile> {
    if path.contains("://") {
        return Err(CommandError::new(format!(
            "not supported yet: job files from a URL ({path}); download it first"
        )));
    }
    let text = read_text(path)?;
    if options.json { from_json(path, text, options) } else { from_hcl(path, text, options) }
}

fn from_json(path: &str, text: String, options: &JobFileOptions) -> CommandResult<JobFile> {
    if !options.vars.is_empty() || !options.var_files.is_empty() {
        return Err(CommandError::usage("-var and -var-file have no meaning with -json"));
    }
    let parsed: Value = serde_json::from_str(&text)
        .map_err(|e| CommandError::new(format!("Error parsing job file {path}: {e}")))?;
    let job = match parsed {
        Value::Object(mut members) if members.contains_key("Job") => {
            members.remove("Job").unwrap_or_default()
        }
        other => other,
    };
    if !job.is_object() {
        return Err(CommandError::new(format!(
            "Error parsing job file {path}: a JSON job is {{\"Job\": {{...}}}}"
        )));
    }
    let submission = json!({"Source": text, "Format": "json"});
    Ok(JobFile { job, submission, warnings: Vec::new() })
}

fn from_hcl(path: &str, text: String, options: &JobFileOptions) -> CommandResult<JobFile> {
    let vars = variables(options)?;
    let parsed = jobspec::parse(path, &text, &vars, Some(&LocalFiles));
    let problems: Vec<_> = parsed.diagnostics.iter().chain(&parsed.not_supported).cloned().collect();
    let job = match parsed.job {
        Some(job) if problems.is_empty() => job,
        _ => {
            let shown = jobspec::render(&problems);
            return Err(CommandError::new(format!(
                "Error parsing job file from {path}:\n{}",
                shown.trim_end()
            )));
        }
    };
    let files: Vec<&str> = vars.files.iter().map(|(_, text)| text.as_str()).collect();
    let flags: serde_json::Map<String, Value> =
        vars.flags.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    let submission = json!({
        "Source": text,
        "Format": "hcl2",
        "Variables": files.join("\n"),
        "VariableFlags": flags,
    });
    let warnings = parsed.warnings.iter().map(ToString::to_string).collect();
    Ok(JobFile { job, submission, warnings })
}

fn variables(options: &JobFileOptions) -> CommandResult<jobspec::Vars> {
    let split = |var: &String| match var.split_once('=') {
        Some((name, value)) => Ok((name.to_string(), value.to_string())),
        None => Err(CommandError::usage(format!("-var {var:?} is not name=value"))),
    };
    let flags: CommandResult<Vec<_>> = options.vars.iter().map(split).collect();
    let files: CommandResult<Vec<_>> =
        options.var_files.iter().map(|p| Ok((p.clone(), read_text(p)?))).collect();
    Ok(jobspec::Vars {
        env: environment(),
        files: files?,
        flags: flags?,
        strict: options.strict,
        seed: seed(),
    })
}

/// `DROVER_VAR_x` is `NOMAD_VAR_x`, and wins.
fn environment() -> Vec<(String, String)> {
    let all = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let mut nomad = Vec::new();
    let mut own = Vec::new();
    for (name, value) in all {
        if let Some(short) = name.strip_prefix("DROVER_VAR_") {
            own.push((format!("NOMAD_VAR_{short}"), value));
        } else if name.starts_with("NOMAD_VAR_") {
            nomad.push((name, value));
        }
    }
    nomad.retain(|(name, _)| !own.iter().any(|(other, _)| other == name));
    nomad.extend(own);
    nomad
}

/// Only functions like `uuidv4` use it: the present time is random enough.
fn seed() -> u64 {
    jiff::Timestamp::now().as_nanosecond() as u64
}

/// A flag and its value as they are typed, with a blank after them.
pub fn flag_with_value(flag: &str, value: &str) -> String {
    format!("-{flag}={} ", shell_word(value))
}

/// As a shell reads it as one word.
pub fn shell_word(text: &str) -> String {
    let special = |c: char| c.is_whitespace() || "\"$'[{*`\\&;|<>(?#!~".contains(c);
    match text.contains(special) {
        true => format!("'{}'", text.replace('\'', "'\\''")),
        false => text.to_string(),
    }
}

/// A whole file; `-` is standard input.
pub fn read_text(path: &str) -> CommandResult<String> {
    let fail = |e: std::io::Error| CommandError::new(format!("Error reading {path}: {}", os_error(&e)));
    let mut text = String::new();
    if path == "-" {
        std::io::stdin().take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(fail)?;
    } else {
        std::fs::File::open(path)
            .map_err(fail)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(fail)?;
    }
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(CommandError::new(format!("{path} is longer than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}
