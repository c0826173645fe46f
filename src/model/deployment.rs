//! A deployment: how far a new version of a job has come, group by group. Created and moved on by plans.

use super::id::{AllocId, DeploymentId, JobKey};
use super::time::{Span, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Encoded by position: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeploymentStatus {
    Running,
    Paused,
    Failed,
    Successful,
    Cancelled,
}

impl DeploymentStatus {
    /// It may still change what runs.
    pub fn is_active(self) -> bool {
        matches!(self, DeploymentStatus::Running | DeploymentStatus::Paused)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deployment {
    pub id: DeploymentId,
    pub job: JobKey,
    /// With `job_version`, names the spec.
    pub job_create_index: u64,
    pub job_version: u64,
    pub job_modify_index: u64,
    /// By name; groups without a rolling update have no part in it.
    pub groups: BTreeMap<String, DeploymentGroup>,
    pub status: DeploymentStatus,
    pub status_description: String,
    pub priority: i64,
}

/// One group's progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeploymentGroup {
    pub auto_revert: bool,
    pub auto_promote: bool,
    pub progress_deadline: Span,
    /// The next allocation has to be healthy by then; never: no deadline.
    pub require_progress_by: Wall,
    pub promoted: bool,
    pub placed_canaries: Vec<AllocId>,
    pub desired_canaries: u64,
    pub desired_total: u64,
    pub placed: u64,
    pub healthy: u64,
    pub unhealthy: u64,
}

impl DeploymentGroup {
    /// Canaries are wanted, and nobody has said yet that they are good.
    pub fn awaits_promotion(&self) -> bool {
        self.desired_canaries > 0 && !self.promoted
    }
}

/// A change of a deployment's status by a scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeploymentUpdate {
    pub id: DeploymentId,
    pub status: DeploymentStatus,
    pub description: String,
}
