//! Jobs that make others, as JSON: their blocks, and how many children they have (reference: jobspec 3.14, http-api 1.2).

use crate::model::family::{Children, Periodic};
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

/// Never null (reference: corrections, "Jobs").
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
