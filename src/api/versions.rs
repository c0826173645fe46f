//! What users do with a job's older versions: come back to one, and say which are good.

use super::response::Response;
use super::shape::job_answers::StabilityShape;
use super::{Answer, AnswerKind, Call, Outcome, json};
use crate::model::id::JobKey;
use crate::wire::request::{Action, Done};
use serde_json::{Map, Value};

pub fn revert(call: &Call<'_>, id: String) -> Result<Outcome, Response> {
    let body = body_of(call, &id)?;
    for token in ["ConsulToken", "VaultToken"] {
        if json::text(&body, token)?.is_some_and(|t| !t.is_empty()) {
            return Err(Response::not_supported(&format!("job/:id/revert with {token}")));
        }
    }
    let action = Action::RevertJob {
        job: JobKey::new(call.namespace(), id),
        version: json::number(&body, "JobVersion")?.unwrap_or(0),
        enforce_prior_version: json::number(&body, "EnforcePriorVersion")?,
    };
    let kind = AnswerKind::Registered { warnings: String::new() };
    Ok(Outcome::Act(action, Answer { kind, pretty: call.query.pretty }))
}

pub fn set_stability(call: &Call<'_>, id: String) -> Result<Outcome, Response> {
    let body = body_of(call, &id)?;
    let action = Action::SetStability {
        job: JobKey::new(call.namespace(), id),
        version: json::number(&body, "JobVersion")?.unwrap_or(0),
        stable: json::flag(&body, "Stable")?,
    };
    Ok(Outcome::Act(action, Answer { kind: AnswerKind::StabilitySet, pretty: call.query.pretty }))
}

fn body_of(call: &Call<'_>, id: &str) -> Result<Map<String, Value>, Response> {
    let body = json::object(call.body()?)?;
    match json::text(&body, "JobID")?.unwrap_or_default() {
        "" => Err(Response::text(400, "JobID must be specified")),
        named if named != id => Err(Response::text(400, "Job ID does not match")),
        _ => Ok(body),
    }
}

pub fn stability_set(done: &Done, pretty: bool) -> Response {
    let index = done.index();
    let job_modify_index = match done {
        Done::Job { job_modify_index, .. } => *job_modify_index,
        _ => index,
    };
    Response::json(&StabilityShape { job_modify_index, index }, pretty).with("X-Nomad-Index", index.max(1))
}
