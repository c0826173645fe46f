//! Jobs that make others, as JSON: their blocks, and the number of their children (jobspec.md 3.14, http-api.md 1.2.9).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::family::dispatch::{Dispatch, Parameterized};
use model::family::{Children, Periodic};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PeriodicShape<'a> {
    enabled: bool,
    spec: &'a str,
    specs: &'a [String],
    spec_type: &'static str,
    prohibit_overlap: bool,
    time_zone: &'a str,
}

impl<'a> PeriodicShape<'a> {
    pub fn new(p: &'a Periodic) -> Self {
        PeriodicShape {
            enabled: p.enabled,
            spec: &p.spec,
            specs: &p.specs,
            spec_type: Periodic::SPEC_TYPE,
            prohibit_overlap: p.prohibit_overlap,
            time_zone: &p.time_zone,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ParameterizedShape<'a> {
    payload: &'static str,
    meta_required: Option<&'a [String]>,
    meta_optional: Option<&'a [String]>,
}

impl<'a> ParameterizedShape<'a> {
    pub fn new(p: &'a Parameterized) -> Self {
        let some = |list: &'a Vec<String>| Some(list.as_slice()).filter(|list| !list.is_empty());
        ParameterizedShape {
            payload: p.payload.as_str(),
            meta_required: some(&p.meta_required),
            meta_optional: some(&p.meta_optional),
        }
    }
}

pub fn payload_text(dispatch: &Dispatch) -> Option<String> {
    let payload = Some(&dispatch.payload).filter(|payload| !payload.is_empty())?;
    Some(STANDARD.encode(payload))
}

/// A task's `DispatchPayload`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PayloadFileShape<'a> {
    file: &'a str,
}

impl<'a> PayloadFileShape<'a> {
    pub fn new(file: &'a str) -> Option<Self> {
        (!file.is_empty()).then_some(PayloadFileShape { file })
    }
}

/// What dispatching led to.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DispatchedShape<'a> {
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

/// What forcing a launch led to.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LaunchedShape {
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub eval_create_index: u64,
    pub index: u64,
}
