//! Older versions of a job: reverting to one, marking one as stable, and tags that name them.
//!
//! Refuses to know: what changed between versions; `history` tells that.

use crate::response::Response;
use crate::shape::MetaShape;
use crate::shape::job_answers::{JobTagShape, StabilityShape};
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, json};
use model::id::JobKey;
use model::job::VersionTag;
use model::validate::multi_warning;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use wire::request::{WriteReply, WriteRequest};

pub fn revert(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let body = body_of(call, id)?;
    let mut warnings = Vec::new();
    for token in ["ConsulToken", "VaultToken"] {
        if json::text(&body, token)?.is_some_and(|t| !t.is_empty()) {
            warnings.push(format!("{token} has no effect: jobs are registered without such tokens"));
        }
    }
    let action = WriteRequest::RevertJob {
        job: JobKey::new(call.namespace(), id),
        version: json::number(&body, "JobVersion")?.unwrap_or(0),
        enforce_prior_version: json::number(&body, "EnforcePriorVersion")?,
    };
    let kind = WriteKind::Registered { warnings: multi_warning(&warnings) };
    Ok(RouteOutcome::Write(action, WriteResponder { kind, pretty: call.query.pretty }))
}

pub fn set_stability(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let body = body_of(call, id)?;
    let action = WriteRequest::SetStability {
        job: JobKey::new(call.namespace(), id),
        version: json::number(&body, "JobVersion")?.unwrap_or(0),
        stable: json::flag(&body, "Stable")?,
    };
    Ok(RouteOutcome::Write(
        action,
        WriteResponder { kind: WriteKind::StabilitySet, pretty: call.query.pretty },
    ))
}

/// What is not said to be of another version is of the newest: `Latest` says the same in other words.
pub fn set_tag(call: &Call<'_>, job: &str, name: &str) -> Result<RouteOutcome, Response> {
    check_chars("name", "1 to", name, 1..=VersionTag::MAX_NAME_CHARS)?;
    let body = match call.request.body.as_slice() {
        [] => Map::new(),
        body => json::object(body)?,
    };
    let description = json::text(&body, "Description")?.unwrap_or_default().to_string();
    check_chars("description", "at most", &description, 0..=VersionTag::MAX_DESCRIPTION_CHARS)?;
    let version = match json::flag(&body, "Latest")? {
        true => None,
        false => json::number(&body, "Version")?,
    };
    let (job, name) = (JobKey::new(call.namespace(), job), name.to_string());
    let kind = WriteKind::Tagged { name: name.clone(), description: description.clone() };
    let action = WriteRequest::TagVersion { job, name, version, description: Some(description) };
    Ok(RouteOutcome::Write(action, WriteResponder { kind, pretty: call.query.pretty }))
}

pub fn unset_tag(call: &Call<'_>, job: &str, name: &str) -> Result<RouteOutcome, Response> {
    check_chars("name", "1 to", name, 1..=VersionTag::MAX_NAME_CHARS)?;
    let (job, name) = (JobKey::new(call.namespace(), job), name.to_string());
    let kind = WriteKind::Tagged { name: String::new(), description: String::new() };
    let action = WriteRequest::TagVersion { job, name, version: None, description: None };
    Ok(RouteOutcome::Write(action, WriteResponder { kind, pretty: call.query.pretty }))
}

fn check_chars(what: &str, how_many: &str, text: &str, range: RangeInclusive<usize>) -> Result<(), Response> {
    if range.contains(&text.chars().count()) {
        return Ok(());
    }
    let most = range.end();
    Err(Response::text(400, format!("a tag's {what} must have {how_many} {most} characters")))
}

pub fn tagged(done: &WriteReply, name: &str, description: &str, pretty: bool) -> Response {
    let at = match done {
        WriteReply::Tagged { at, .. } if !name.is_empty() => at.0,
        _ => 0,
    };
    let index = done.index();
    let shape = JobTagShape { name, description, tagged_time: at, meta: MetaShape::new(index, false) };
    Response::json(&shape, pretty).with("X-Nomad-Index", index.max(1))
}

fn body_of(call: &Call<'_>, id: &str) -> Result<Map<String, Value>, Response> {
    let body = json::object(call.body()?)?;
    match json::text(&body, "JobID")?.unwrap_or_default() {
        "" => Err(Response::text(400, "JobID must be specified")),
        named if named != id => Err(Response::text(400, "Job ID does not match")),
        _ => Ok(body),
    }
}

pub fn stability_set(done: &WriteReply, pretty: bool) -> Response {
    let index = done.index();
    let job_modify_index = match done {
        WriteReply::Job { job_modify_index, .. } => *job_modify_index,
        _ => index,
    };
    Response::json(&StabilityShape { job_modify_index, index }, pretty).with("X-Nomad-Index", index.max(1))
}
