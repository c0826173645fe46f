//! What users want, as the HTTP requests that say it, and what the answers say: the way there and back that a command line takes.
//!
//! Refuses to know: who asks, and which server answers. Invariant: the request says what was wanted and nothing else, so that
//! the API reads the same action from it.

use api::response::Response;
use api::shape::dispatch::payload_text;
use api::shape::job::JobShape;
use model::dispatch::{Dispatch, DispatchRequest};
use model::id::{JobKey, NodeId};
use model::scheduling::SchedulerSettings;
use model::submission::Submission;
use serde_json::{Map, Value, json};
use wire::command::{NodeUpdateRequest, ScaleRequest};
use wire::http::{Method, Request};
use wire::request::{DeploymentRequest, Refusal, RefusalKind, WriteReply, WriteRequest};

/// What a server says of a write that it has handed in and lost sight of.
const UNKNOWN: &str = "nobody knows whether it was done";

/// `None`: no user of this world asks for that.
pub fn request_for(action: &WriteRequest) -> Option<Request> {
    Some(match action {
        WriteRequest::RegisterJob { spec, submission, .. } => {
            let job = serde_json::to_value(JobShape::of_spec(spec)).ok()?;
            let source = submission.as_deref().map(source);
            put("/v1/jobs".into(), json!({ "Job": job, "Submission": source }))
        }
        WriteRequest::DeregisterJob { job, purge, .. } => {
            let query = format!("purge={purge}");
            Request { method: Method::Delete, query, ..put(path_of(job, ""), Value::Null) }
        }
        WriteRequest::RevertJob { job, version, .. } => {
            put(path_of(job, "/revert"), json!({ "JobID": job.id, "JobVersion": version }))
        }
        WriteRequest::SetStability { job, version, stable } => {
            let body = json!({ "JobID": job.id, "JobVersion": version, "Stable": stable });
            put(path_of(job, "/stable"), body)
        }
        WriteRequest::ForceLaunch { job } => put(path_of(job, "/periodic/force"), json!({})),
        WriteRequest::DispatchJob { request } => dispatch(request),
        WriteRequest::ScaleJob(request) => scale(request),
        WriteRequest::UpdateNode { node, request } => node_update(*node, request),
        WriteRequest::ConfigureScheduler { settings, .. } => configuration(settings),
        WriteRequest::DeleteEvals { ids, .. } => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            Request { method: Method::Delete, ..put("/v1/evaluations".into(), json!({ "EvalIDs": ids })) }
        }
        WriteRequest::StepDeployment { deployment, step } => deployment_step(&deployment.to_string(), step),
        _ => return None,
    })
}

fn put(path: String, body: Value) -> Request {
    let body = if body.is_null() { vec![] } else { body.to_string().into_bytes() };
    Request { method: Method::Put, path, query: String::new(), body, websocket: false }
}

fn path_of(job: &JobKey, what: &str) -> String {
    format!("/v1/job/{}{what}", job.id.replace('/', "%2F"))
}

fn source(given: &Submission) -> Value {
    json!({ "Source": given.source, "Format": given.format })
}

fn dispatch(request: &DispatchRequest) -> Request {
    let said = Dispatch { payload: request.payload.clone(), token: String::new(), made_of: None };
    let body = json!({ "JobID": request.job.id, "Payload": payload_text(&said), "Meta": request.meta });
    let query = format!("idempotency_token={}", request.token);
    Request { query, ..put(path_of(&request.job, "/dispatch"), body) }
}

fn scale(request: &ScaleRequest) -> Request {
    let target = json!({ "Job": request.job.id, "Group": request.group });
    let (count, message, error) = (request.count, &request.message, request.error);
    let body = json!({ "Target": target, "Count": count, "Message": message, "Error": error });
    put(path_of(&request.job, "/scale"), body)
}

fn node_update(node: NodeId, request: &NodeUpdateRequest) -> Request {
    let drain = format!("/v1/node/{node}/drain");
    match request {
        NodeUpdateRequest::Drain { deadline, ignore_system, .. } => {
            let spec = json!({ "Deadline": deadline.as_nanos(), "IgnoreSystemJobs": ignore_system });
            put(drain, json!({ "NodeID": node.to_string(), "DrainSpec": spec }))
        }
        NodeUpdateRequest::EndDrain { mark_eligible, .. } => {
            let body =
                json!({ "NodeID": node.to_string(), "DrainSpec": null, "MarkEligible": mark_eligible });
            put(drain, body)
        }
        NodeUpdateRequest::Eligible(eligible) => {
            let word = if *eligible { "eligible" } else { "ineligible" };
            put(format!("/v1/node/{node}/eligibility"), json!({ "Eligibility": word }))
        }
        NodeUpdateRequest::Purge => put(format!("/v1/node/{node}/purge"), json!({})),
    }
}

fn configuration(settings: &SchedulerSettings) -> Request {
    let preemption = json!({
        "SystemSchedulerEnabled": settings.preemption.system,
        "SysBatchSchedulerEnabled": settings.preemption.sysbatch,
        "BatchSchedulerEnabled": settings.preemption.batch,
        "ServiceSchedulerEnabled": settings.preemption.service,
    });
    let body = json!({
        "SchedulerAlgorithm": settings.algorithm.as_str(),
        "MemoryOversubscriptionEnabled": settings.memory_oversubscription,
        "RejectJobRegistration": settings.reject_job_registration,
        "PauseEvalBroker": settings.pause_eval_broker,
        "PreemptionConfig": preemption,
    });
    put("/v1/operator/scheduler/configuration".into(), body)
}

fn deployment_step(id: &str, step: &DeploymentRequest) -> Request {
    let ids = |all: &[model::id::AllocId]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (verb, mut body) = match step {
        DeploymentRequest::Pause => ("pause", json!({ "Pause": true })),
        DeploymentRequest::Resume => ("pause", json!({ "Pause": false })),
        DeploymentRequest::Fail => ("fail", json!({})),
        DeploymentRequest::Promote { groups: None } => ("promote", json!({ "All": true })),
        DeploymentRequest::Promote { groups } => ("promote", json!({ "Groups": groups })),
        DeploymentRequest::SetHealth { healthy, unhealthy } => {
            let body = json!({
                "HealthyAllocationIDs": ids(healthy),
                "UnhealthyAllocationIDs": ids(unhealthy),
            });
            ("allocation-health", body)
        }
    };
    body["DeploymentID"] = json!(id);
    put(format!("/v1/deployment/{verb}/{id}"), body)
}

/// Nobody answers any more.
pub fn unknown() -> Refusal {
    Refusal::new(RefusalKind::Unavailable, UNKNOWN)
}

/// Whether what was refused so may have been done, or may still be.
pub fn may_be_done(refusal: &Refusal) -> bool {
    let sure = ["No cluster leader", "No server is in reach", "disk is full", "it was not done"];
    refusal.kind == RefusalKind::Unavailable && !sure.iter().any(|text| refusal.message.contains(text))
}

#[test]
fn only_what_was_surely_not_done_is_known_to_be_undone() {
    let refused = |kind, text: &str| may_be_done(&Refusal::new(kind, text));
    assert!(may_be_done(&unknown()));
    assert!(refused(RefusalKind::Unavailable, "the leader changed: read the state before trying again"));
    assert!(!refused(RefusalKind::Unavailable, "No cluster leader"));
    assert!(!refused(RefusalKind::Unavailable, "No server is in reach of this agent's node"));
    assert!(!refused(RefusalKind::Unavailable, "and it was not done: try again"));
    assert!(!refused(RefusalKind::Busy, "a queue is full"));
}

/// What the response to `action` says. `Err(Err(_))`: nothing that makes sense.
pub fn answer_to(action: &WriteRequest, response: &Response) -> Result<Result<WriteReply, Refusal>, String> {
    let text = || String::from_utf8_lossy(&response.body).into_owned();
    let kind = match response.status {
        200 => return reply_to(action, response).map(Ok),
        400 => RefusalKind::Invalid,
        404 => RefusalKind::NotFound,
        429 => RefusalKind::Busy,
        500 if response.header("Retry-After").is_some() => RefusalKind::Unavailable,
        500 => RefusalKind::Validation,
        status => return Err(format!("{action:?} got {status}: {}", text())),
    };
    Ok(Err(Refusal::new(kind, text())))
}

fn reply_to(action: &WriteRequest, response: &Response) -> Result<WriteReply, String> {
    let body: Map<String, Value> = match response.body.as_slice() {
        [] => Map::new(),
        bytes => serde_json::from_slice(bytes).map_err(|e| format!("{action:?}: {e}"))?,
    };
    let lacks =
        |name| move || format!("the answer to {action:?} lacks {name}: {body:?}", body = text_of(response));
    let number = |name: &'static str| body.get(name).and_then(Value::as_u64).ok_or_else(lacks(name));
    let eval = || -> Result<Option<_>, String> {
        let id = body.get("EvalID").and_then(Value::as_str).ok_or_else(lacks("EvalID"))?;
        (!id.is_empty()).then(|| id.parse().map_err(|_| format!("{id} is no id"))).transpose()
    };
    let index = index_of(response).ok_or_else(lacks("X-Nomad-Index"))?;
    Ok(match action {
        WriteRequest::RegisterJob { .. } | WriteRequest::RevertJob { .. } | WriteRequest::ScaleJob(_) => {
            WriteReply::Job { eval: eval()?, job_modify_index: number("JobModifyIndex")?, index }
        }
        WriteRequest::DeregisterJob { .. } => match number("Index")? {
            0 => WriteReply::Nothing { index: 0 },
            _ => WriteReply::Job { eval: eval()?, job_modify_index: number("JobModifyIndex")?, index },
        },
        WriteRequest::ForceLaunch { .. } => WriteReply::Job { eval: eval()?, job_modify_index: 0, index },
        WriteRequest::DispatchJob { .. } => {
            let job =
                body.get("DispatchedJobID").and_then(Value::as_str).ok_or_else(lacks("DispatchedJobID"))?;
            let create_index = number("JobCreateIndex")?;
            WriteReply::Dispatched { job: job.into(), eval: eval()?, create_index, index }
        }
        _ => WriteReply::Nothing { index },
    })
}

fn text_of(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

pub fn index_of(response: &Response) -> Option<u64> {
    response.header("X-Nomad-Index").and_then(|v| v.parse().ok())
}
