//! The body of a job registration (jobspec.md 1.6).

use super::api_job::read_job;
use super::submitted::{Flaws, RefusedJob};
use model::job::JobSpec;
use model::submission::Submission;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A job to register, and under which conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    pub spec: JobSpec,
    /// With any, the job is not taken.
    pub flaws: Flaws,
    /// Register only if the stored job's job modify index is this one; 0: only if there is no such job.
    pub enforce_index: Option<u64>,
    /// The evaluation's priority, instead of the job's own: 1 to 100.
    pub eval_priority: Option<i64>,
    /// Groups that exist keep the count they have.
    pub preserve_counts: bool,
    /// The text that the job was made from.
    pub submission: Option<Submission>,
    /// Where the request wants to go, instead of what the job says.
    pub region: Option<String>,
    pub namespace: Option<String>,
    /// What the request says that changes nothing here.
    pub warnings: Vec<String>,
}

/// Decodes the body of `PUT /v1/jobs` and of `PUT /v1/job/<id>`.
pub fn decode_register(body: &[u8]) -> Result<Register, RefusedJob> {
    decode(body, true)
}

/// Decodes the body of `PUT /v1/validate/job`: a job without an id is one whose validation finds that it has none.
pub fn decode_validate(body: &[u8]) -> Result<Register, RefusedJob> {
    decode(body, false)
}

fn decode(body: &[u8], needs_id: bool) -> Result<Register, RefusedJob> {
    if body.is_empty() {
        return Err(RefusedJob::Malformed("Request body is empty".into()));
    }
    let value: Value = serde_json::from_slice(body).map_err(|e| RefusedJob::Malformed(e.to_string()))?;
    let Value::Object(members) = &value else {
        return Err(RefusedJob::Malformed("an object with the member Job is expected".into()));
    };
    let job = match member(members, "Job") {
        None | Some(Value::Null) => return Err(RefusedJob::Malformed("Job must be specified".into())),
        Some(job @ Value::Object(_)) => job,
        Some(_) => return Err(RefusedJob::Malformed("Job: an object is expected".into())),
    };
    let mut warnings = Vec::new();
    if flag(members, "PreserveResources")? {
        warnings.push("PreserveResources has no effect: tasks get the resources that this job says".into());
    }
    let enforce = flag(members, "EnforceIndex")?;
    let index = number(members, "JobModifyIndex")?.unwrap_or(0);
    let index =
        u64::try_from(index).map_err(|_| RefusedJob::Malformed("JobModifyIndex: it is negative".into()))?;
    let eval_priority = number(members, "EvalPriority")?.filter(|p| *p != 0);
    if eval_priority.is_some_and(|p| !(1..=100).contains(&p)) {
        return Err(RefusedJob::Malformed("Eval priority must be between 1 and 100 inclusively".into()));
    }
    let preserve_counts = flag(members, "PreserveCounts")?;
    if let Value::Object(job) = job
        && needs_id
        && member(job, "ID").is_none_or(Value::is_null)
    {
        return Err(RefusedJob::Malformed("Job ID hasn't been provided".into()));
    }
    let (spec, flaws) = read_job(job)?;
    Ok(Register {
        spec,
        flaws,
        enforce_index: enforce.then_some(index),
        eval_priority,
        preserve_counts,
        submission: submission(members)?,
        region: text(members, "Region")?,
        namespace: text(members, "Namespace")?,
        warnings,
    })
}

fn submission(members: &Map<String, Value>) -> Result<Option<Submission>, RefusedJob> {
    let given = match member(members, "Submission") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(RefusedJob::Malformed("Submission: an object is expected".into())),
    };
    let mut flags = BTreeMap::new();
    if let Some(Value::Object(all)) = member(given, "VariableFlags") {
        for (name, value) in all {
            let value = value.as_str().ok_or_else(|| {
                RefusedJob::Malformed(format!("Submission.VariableFlags[{name}]: a string is expected"))
            })?;
            flags.insert(name.clone(), value.to_string());
        }
    }
    Ok(Some(Submission {
        source: text(given, "Source")?.unwrap_or_default(),
        format: text(given, "Format")?.unwrap_or_default(),
        variable_flags: flags,
        variables: text(given, "Variables")?.unwrap_or_default(),
    }))
}

/// By its exact name, else in any spelling of upper and lower case.
fn member<'v>(members: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let loosely = || members.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v);
    members.get(name).or_else(loosely)
}

fn flag(members: &Map<String, Value>, name: &str) -> Result<bool, RefusedJob> {
    match member(members, name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(b)) => Ok(*b),
        Some(_) => Err(RefusedJob::Malformed(format!("{name}: true or false is expected"))),
    }
}

fn number(members: &Map<String, Value>, name: &str) -> Result<Option<i64>, RefusedJob> {
    match member(members, name) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => match v.as_i64() {
            Some(n) => Ok(Some(n)),
            None => Err(RefusedJob::Malformed(format!("{name}: a whole number is expected"))),
        },
    }
}

/// Empty is absent.
fn text(members: &Map<String, Value>, name: &str) -> Result<Option<String>, RefusedJob> {
    match member(members, name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) => Ok(Some(s.clone()).filter(|s| !s.is_empty())),
        Some(_) => Err(RefusedJob::Malformed(format!("{name}: a string is expected"))),
    }
}
