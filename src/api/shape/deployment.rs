//! Deployments as JSON, and the answer to a request that changes one (http-api.md 5.2, 5.3).

use super::{is_zero, rfc3339};
use crate::filter::OmitEmpty;
use model::alloc::Health;
use model::deployment::{Deployment, DeploymentGroup};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeploymentShape<'a> {
    #[serde(rename = "ID")]
    id: String,
    namespace: &'a str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    job_version: u64,
    job_modify_index: u64,
    job_spec_modify_index: u64,
    job_create_index: u64,
    is_multiregion: bool,
    task_groups: BTreeMap<&'a str, DeploymentGroupShape>,
    status: &'static str,
    status_description: &'a str,
    eval_priority: i64,
    create_index: u64,
    modify_index: u64,
    /// Nanoseconds since 1970.
    create_time: i64,
    modify_time: i64,
}

/// Nothing is left out.
pub static OMIT_EMPTY: OmitEmpty = OmitEmpty { text: &[], numbers: &[], flags: &[], others: &[] };

impl<'a> DeploymentShape<'a> {
    pub fn new(d: &'a Deployment) -> Self {
        DeploymentShape {
            id: d.id.to_string(),
            namespace: &d.job.namespace,
            job_id: &d.job.id,
            job_version: d.job_version,
            job_modify_index: d.job_modify_index,
            job_spec_modify_index: d.job_modify_index,
            job_create_index: d.job_create_index,
            is_multiregion: false,
            task_groups: d
                .groups
                .iter()
                .map(|(name, g)| (name.as_str(), DeploymentGroupShape::new(g)))
                .collect(),
            status: d.status.as_str(),
            status_description: &d.status_description,
            eval_priority: d.priority,
            create_index: d.create_index,
            modify_index: d.modify_index,
            create_time: d.create_time.0,
            modify_time: d.modify_time.0,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DeploymentGroupShape {
    auto_revert: bool,
    auto_promote: bool,
    /// Nanoseconds.
    progress_deadline: i64,
    require_progress_by: Option<String>,
    promoted: bool,
    placed_canaries: Option<Vec<String>>,
    desired_canaries: u64,
    desired_total: u64,
    placed_allocs: u64,
    healthy_allocs: u64,
    unhealthy_allocs: u64,
}

impl DeploymentGroupShape {
    fn new(g: &DeploymentGroup) -> Self {
        let canaries: Vec<_> = g.placed_canaries.iter().map(ToString::to_string).collect();
        DeploymentGroupShape {
            auto_revert: g.auto_revert,
            auto_promote: g.auto_promote,
            progress_deadline: g.progress_deadline.as_nanos(),
            require_progress_by: rfc3339(g.require_progress_by),
            promoted: g.promoted,
            placed_canaries: Some(canaries).filter(|c| !c.is_empty()),
            desired_canaries: g.desired_canaries,
            desired_total: g.desired_total,
            placed_allocs: g.placed,
            healthy_allocs: g.healthy,
            unhealthy_allocs: g.unhealthy,
        }
    }
}

/// An allocation as part of a deployment.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocHealthShape {
    healthy: Option<bool>,
    timestamp: Option<String>,
    canary: bool,
    modify_index: u64,
}

impl AllocHealthShape {
    pub fn new(health: &Health) -> Self {
        AllocHealthShape {
            healthy: health.healthy,
            timestamp: rfc3339(health.at),
            canary: health.canary,
            modify_index: health.modify_index,
        }
    }
}

/// What a change of a deployment led to.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeploymentUpdateShape {
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub eval_create_index: u64,
    pub deployment_modify_index: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub reverted_job_version: Option<u64>,
    pub index: u64,
}
