//! What the commands read of deployments in the API's answers (http-api.md). Everything has a default: an older agent may say less.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Deployment {
    #[serde(rename = "ID")]
    pub id: String,
    pub namespace: String,
    #[serde(rename = "JobID")]
    pub job_id: String,
    pub job_version: u64,
    pub task_groups: BTreeMap<String, DeployedGroup>,
    pub status: String,
    pub status_description: String,
    pub create_index: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeployedGroup {
    pub auto_revert: bool,
    pub promoted: bool,
    pub require_progress_by: Option<String>,
    pub desired_canaries: u64,
    pub desired_total: u64,
    pub placed_allocs: u64,
    pub healthy_allocs: u64,
    pub unhealthy_allocs: u64,
}

/// What a change of a deployment is answered with.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeploymentUpdate {
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub reverted_job_version: Option<u64>,
}
