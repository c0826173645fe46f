//! A deployment: how far a new version of a job has come, group by group. Created and moved on by plans.

use super::id::{AllocId, DeploymentId, JobKey};
use super::job::Job;
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
    pub fn as_str(self) -> &'static str {
        match self {
            DeploymentStatus::Running => "running",
            DeploymentStatus::Paused => "paused",
            DeploymentStatus::Failed => "failed",
            DeploymentStatus::Successful => "successful",
            DeploymentStatus::Cancelled => "cancelled",
        }
    }

    /// Whether the deployment may still change what runs.
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
    /// The `JobModifyIndex` of that version.
    pub job_modify_index: u64,
    /// By name; groups without a rolling update have no part in it.
    pub groups: BTreeMap<String, DeploymentGroup>,
    pub status: DeploymentStatus,
    pub status_description: String,
    /// The priority of its evaluations.
    pub priority: i64,
    pub create_time: Wall,
    pub modify_time: Wall,
    pub create_index: u64,
    pub modify_index: u64,
}

/// What people and scripts read of a deployment: the field's own sentences.
pub const RUNNING: &str = "Deployment is running";
pub const NEEDS_PROMOTION: &str = "Deployment is running but requires manual promotion";
pub const PROMOTES_ITSELF: &str = "Deployment is running pending automatic promotion";
pub const PAUSED: &str = "Deployment is paused";
pub const COMPLETE: &str = "Deployment completed successfully";
pub const STOPPED: &str = "Cancelled because job is stopped";
pub const NEWER: &str = "Cancelled due to newer version of job";
pub const UNHEALTHY: &str = "Failed due to unhealthy allocations";
pub const TOO_SLOW: &str = "Failed due to progress deadline";
pub const MARKED_FAILED: &str = "Deployment marked as failed";

impl Deployment {
    /// Whether it is the deployment of just this version.
    pub fn is_of(&self, job: &Job) -> bool {
        (self.job_create_index, self.job_version) == (job.create_index, job.version)
    }

    /// What is said of it while it runs.
    pub fn running_description(&self) -> &'static str {
        let waiting = || self.groups.values().filter(|g| g.awaits_promotion());
        match waiting().next() {
            None => RUNNING,
            Some(_) if waiting().all(|g| g.auto_promote) => PROMOTES_ITSELF,
            Some(_) => NEEDS_PROMOTION,
        }
    }
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

    /// Everything that it wanted has been healthy; nothing is left to hurry.
    pub fn has_its_healthy(&self) -> bool {
        self.healthy >= self.desired_total.max(self.desired_canaries)
    }

    /// No deadline runs: all are healthy, or all canaries are and somebody has to say that they are good.
    pub fn is_in_time(&self) -> bool {
        // what was placed has not proven itself, and no node is left that may run it
        let is_unproven = self.placed > 0 && self.healthy == 0;
        (self.has_its_healthy() && !is_unproven)
            || (self.awaits_promotion() && self.healthy >= self.desired_canaries)
    }
}

/// A change of a deployment's status by a scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeploymentUpdate {
    pub id: DeploymentId,
    pub status: DeploymentStatus,
    pub description: String,
}

/// What a client found of an allocation of a service: said once for each deployment that it becomes part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub alloc: AllocId,
    /// The deployment that it is part of, as far as the client knows.
    pub deployment: Option<DeploymentId>,
    pub healthy: bool,
}

/// What becomes of a deployment, by its watcher's or a user's doing. Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DeploymentStep {
    Pause,
    Resume,
    Fail(Failure),
    /// The canaries of these groups are good; `None`: of all groups.
    Promote {
        groups: Option<Vec<String>>,
    },
    /// A user's word on allocations, which overrules what clients found; the deployment may fail of it.
    SetHealth {
        healthy: Vec<AllocId>,
        unhealthy: Vec<AllocId>,
        failure: Option<Failure>,
    },
}

/// How a deployment ends when it fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub description: String,
    /// The job gets the spec of this version once more, if it still has the deployment's own version then.
    pub revert: Option<u64>,
}
