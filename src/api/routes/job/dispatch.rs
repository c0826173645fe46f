//! Jobs that make others: launching a periodic one now, dispatching a parameterized one (http-api.md 1.1.19, 1.1.20).
//!
//! Refuses to know: when a job is due, and what a child is called.

use crate::response::Response;
use crate::routes::job;
use crate::shape::dispatch::{JobDispatchShape, PeriodicForceShape};
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::dispatch::{DispatchRequest, MAX_TOKEN_BYTES, oversized};
use model::environment;
use model::id::JobKey;
use model::job::{Job, JobStatus};
use serde_json::{Map, Value};
use state::view::View;
use std::collections::BTreeMap;
use wire::request::{WriteReply, WriteRequest};

pub fn force(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let job = JobKey::new(call.namespace(), id);
    let answer = WriteResponder { kind: WriteKind::JobLaunched, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::ForceLaunch { job }, answer))
}

pub fn launched(done: &WriteReply, pretty: bool) -> Response {
    let (eval_id, eval_create_index, _) = job::of_job(done);
    let shape = PeriodicForceShape { eval_id, eval_create_index, index: done.index() };
    Response::json(&shape, pretty).with("X-Nomad-Index", done.index().max(1))
}

pub fn dispatch(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let body = json::object(call.body()?)?;
    if json::text(&body, "JobID")?.is_some_and(|named| !named.is_empty() && named != id) {
        return Err(Response::text(400, "Job ID does not match"));
    }
    let request = DispatchRequest {
        job: JobKey::new(call.namespace(), id),
        payload: payload(&body)?,
        meta: meta(&body)?,
        prefix: json::text(&body, "IdPrefixTemplate")?.unwrap_or_default().to_string(),
        token: call.query.text("idempotency_token").unwrap_or_default().to_string(),
        priority: priority(&body, call.ctx.agent.job_max_priority)?,
    };
    if request.token.len() > MAX_TOKEN_BYTES {
        let (bytes, most) = (request.token.len(), MAX_TOKEN_BYTES);
        return Err(Response::text(
            400,
            format!("the idempotency token has {bytes} bytes; at most {most} are allowed"),
        ));
    }
    let answer = WriteResponder { kind: WriteKind::JobDispatched, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::DispatchJob { request: Box::new(request) }, answer))
}

fn payload(body: &Map<String, Value>) -> Result<Vec<u8>, Response> {
    let text = json::text(body, "Payload")?.unwrap_or_default();
    let bad = |why| Response::text(400, format!("member Payload is not base64: {why}"));
    let payload = STANDARD.decode(text).map_err(bad)?;
    match oversized(&payload) {
        Some(why) => Err(Response::text(500, why)),
        None => Ok(payload),
    }
}

fn meta(body: &Map<String, Value>) -> Result<BTreeMap<String, String>, Response> {
    let bad = || Response::text(400, "member Meta must be an object of strings");
    let mut meta = BTreeMap::new();
    let Some(given) = json::member(body, "Meta") else { return Ok(meta) };
    for (key, value) in given.as_object().ok_or_else(bad)? {
        meta.insert(key.clone(), value.as_str().ok_or_else(bad)?.to_string());
    }
    match environment::refuses_meta(&meta) {
        Some(why) => Err(Response::text(400, why)),
        None => Ok(meta),
    }
}

/// 0: none is said.
fn priority(body: &Map<String, Value>, most: i64) -> Result<i64, Response> {
    let bad = || Response::text(400, "member Priority must be a whole number");
    let priority = json::member(body, "Priority").map_or(Some(0), Value::as_i64).ok_or_else(bad)?;
    if (0..=most).contains(&priority) {
        return Ok(priority);
    }
    Err(Response::text(500, format!("job priority must be between [1, {most}]")))
}

pub fn dispatched(done: &WriteReply, pretty: bool) -> Response {
    let WriteReply::Dispatched { job, eval, create_index, index } = done else {
        return Response::text(500, "the servers answered what was not asked");
    };
    let shape = JobDispatchShape {
        dispatched_job_id: job,
        eval_id: eval.map(|id| id.to_string()).unwrap_or_default(),
        eval_create_index: if eval.is_some() { *index } else { 0 },
        job_create_index: *create_index,
        index: *index,
    };
    Response::json(&shape, pretty).with("X-Nomad-Index", (*index).max(1))
}

/// How many children of one job are read and shown on their own.
pub const MAX_CHILDREN_SHOWN: usize = 1_000;

/// `None`: it is no job that makes others. A parent may have any number of children: where there are too many to be read, the
/// states are those that its summary counts, the living ones first.
pub fn states_of_children(view: &View, parent: &Job) -> Result<Option<Vec<&'static str>>, Response> {
    if parent.spec.periodic.is_none() && !parent.spec.is_parameterized() {
        return Ok(None);
    }
    let (namespace, id) = (parent.spec.namespace.as_str(), parent.spec.id.as_str());
    let heads = view.job_headers(Some(namespace), &format!("{id}/"), None, MAX_CHILDREN_SHOWN + 1)?;
    if heads.len() <= MAX_CHILDREN_SHOWN {
        let children = heads.iter().filter(|head| head.relation.parent() == id);
        return Ok(Some(children.map(|head| head.version.status.as_str()).collect()));
    }
    let counts = view.job_summary(&parent.spec.key())?.unwrap_or_default().children;
    let states = [
        (JobStatus::Pending, counts.pending),
        (JobStatus::Running, counts.running),
        (JobStatus::Dead, counts.dead),
    ];
    let each = |(status, count): (JobStatus, u64)| (0..count).map(move |_| status.as_str());
    Ok(Some(states.into_iter().flat_map(each).take(MAX_CHILDREN_SHOWN).collect()))
}
