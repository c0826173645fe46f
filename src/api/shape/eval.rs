//! Evaluations as JSON. Zero values are left out (http-api.md 0.2.6, 6.6).

use super::super::filter::OmitEmpty;
use super::metric::MetricShape;
use super::{MetaShape, is_zero, map_or_null, rfc3339};
use model::eval::Evaluation;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EvalShape<'a> {
    #[serde(rename = "ID")]
    id: String,
    namespace: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    priority: i64,
    #[serde(rename = "Type")]
    job_type: &'static str,
    triggered_by: &'static str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    job_modify_index: u64,
    #[serde(rename = "NodeID", skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    node_modify_index: u64,
    #[serde(rename = "DeploymentID", skip_serializing_if = "Option::is_none")]
    deployment_id: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    status_description: &'a str,
    /// Nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    wait: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_eval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_eval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_eval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    related_evals: Option<Vec<RelatedShape<'a>>>,
    #[serde(rename = "FailedTGAllocs", skip_serializing_if = "BTreeMap::is_empty")]
    failed_groups: BTreeMap<&'a str, MetricShape<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class_eligibility: Option<&'a BTreeMap<String, bool>>,
    #[serde(skip_serializing_if = "is_zero")]
    escaped_computed_class: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued_allocations: Option<&'a BTreeMap<String, u64>>,
    #[serde(skip_serializing_if = "is_zero")]
    snapshot_index: u64,
    #[serde(skip_serializing_if = "is_zero")]
    create_index: u64,
    #[serde(skip_serializing_if = "is_zero")]
    modify_index: u64,
    /// Nanoseconds since 1970.
    #[serde(skip_serializing_if = "is_zero")]
    create_time: i64,
    #[serde(skip_serializing_if = "is_zero")]
    modify_time: i64,
}

/// What `EvalShape` leaves out, or what no evaluation has yet.
pub static OMIT_EMPTY: OmitEmpty = OmitEmpty {
    text: &[
        "NodeID",
        "DeploymentID",
        "StatusDescription",
        "NextEval",
        "PreviousEval",
        "BlockedEval",
        "QuotaLimitReached",
    ],
    numbers: &[
        "Priority",
        "JobModifyIndex",
        "NodeModifyIndex",
        "Wait",
        "SnapshotIndex",
        "CreateIndex",
        "ModifyIndex",
        "CreateTime",
        "ModifyTime",
    ],
    flags: &["EscapedComputedClass", "AnnotatePlan"],
    others: &["RelatedEvals", "FailedTGAllocs", "ClassEligibility", "QueuedAllocations", "WaitUntil"],
};

impl<'a> EvalShape<'a> {
    /// `node_pool` is that of the evaluation's job: metrics name it.
    pub fn new(e: &'a Evaluation, node_pool: &'a str) -> Self {
        let failed = e.failed_groups.iter().map(|(g, m)| (g.as_str(), MetricShape::new(m, node_pool)));
        EvalShape {
            id: e.id.to_string(),
            namespace: &e.job.namespace,
            priority: e.priority,
            job_type: e.job_type.as_str(),
            triggered_by: e.trigger.as_str(),
            job_id: &e.job.id,
            job_modify_index: e.job_modify_index,
            node_id: e.node_id.map(|n| n.to_string()),
            node_modify_index: e.node_modify_index,
            deployment_id: e.deployment.map(|d| d.to_string()),
            status: e.status.as_str(),
            status_description: &e.status_description,
            wait: e.wait.as_nanos(),
            wait_until: e.wait_until.and_then(rfc3339),
            next_eval: e.next_eval.map(|n| n.to_string()),
            previous_eval: e.previous_eval.map(|p| p.to_string()),
            blocked_eval: e.blocked_eval.map(|b| b.to_string()),
            related_evals: None,
            failed_groups: failed.collect(),
            class_eligibility: map_or_null(&e.class_eligibility),
            escaped_computed_class: e.escaped_class,
            queued_allocations: map_or_null(&e.queued),
            snapshot_index: e.snapshot_index,
            create_index: e.create_index,
            modify_index: e.modify_index,
            create_time: e.create_time.0,
            modify_time: e.modify_time.0,
        }
    }

    /// With the evaluations that led to it or followed from it.
    pub fn related(self, related: &'a [Evaluation]) -> Self {
        EvalShape { related_evals: Some(related.iter().map(RelatedShape::new).collect()), ..self }
    }
}

/// An evaluation inside another one.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RelatedShape<'a> {
    #[serde(rename = "ID")]
    id: String,
    priority: i64,
    #[serde(rename = "Type")]
    job_type: &'static str,
    triggered_by: &'static str,
    namespace: &'a str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    #[serde(rename = "NodeID")]
    node_id: String,
    #[serde(rename = "DeploymentID")]
    deployment_id: String,
    status: &'static str,
    status_description: &'a str,
    next_eval: String,
    previous_eval: String,
    blocked_eval: String,
    create_index: u64,
    modify_index: u64,
    create_time: i64,
    modify_time: i64,
}

impl<'a> RelatedShape<'a> {
    fn new(e: &'a Evaluation) -> Self {
        let text = |id: Option<model::id::EvalId>| id.map(|i| i.to_string()).unwrap_or_default();
        RelatedShape {
            id: e.id.to_string(),
            priority: e.priority,
            job_type: e.job_type.as_str(),
            triggered_by: e.trigger.as_str(),
            namespace: &e.job.namespace,
            job_id: &e.job.id,
            node_id: e.node_id.map(|n| n.to_string()).unwrap_or_default(),
            deployment_id: e.deployment.map(|d| d.to_string()).unwrap_or_default(),
            status: e.status.as_str(),
            status_description: &e.status_description,
            next_eval: text(e.next_eval),
            previous_eval: text(e.previous_eval),
            blocked_eval: text(e.blocked_eval),
            create_index: e.create_index,
            modify_index: e.modify_index,
            create_time: e.create_time.0,
            modify_time: e.modify_time.0,
        }
    }
}

/// `DELETE /v1/evaluations`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EvalDeleteShape {
    pub count: u64,
    pub index: u64,
}

/// How many evaluations there are.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EvalCountShape {
    pub count: usize,
    #[serde(flatten)]
    pub meta: MetaShape,
}
