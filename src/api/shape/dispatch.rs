//! Periodic and parameterized jobs as JSON: what was dispatched, and the number of their children (jobspec.md 3.14, http-api.md 1.2.9).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::dispatch::Dispatch;
use model::job_summary::Children;
use serde::Serialize;

pub fn payload_text(dispatch: &Dispatch) -> Option<String> {
    let payload = Some(&dispatch.payload).filter(|payload| !payload.is_empty())?;
    Some(STANDARD.encode(payload))
}

/// `PUT /v1/job/:id/dispatch`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobDispatchShape<'a> {
    #[serde(rename = "DispatchedJobID")]
    pub dispatched_job_id: &'a str,
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub eval_create_index: u64,
    pub job_create_index: u64,
    pub index: u64,
}

/// Never null (http-api.md 1.2.9).
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ChildrenShape {
    pending: u64,
    running: u64,
    dead: u64,
}

impl ChildrenShape {
    pub fn new(c: &Children) -> Self {
        ChildrenShape { pending: c.pending, running: c.running, dead: c.dead }
    }
}

/// `PUT /v1/job/:id/periodic/force`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PeriodicForceShape {
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub eval_create_index: u64,
    pub index: u64,
}
