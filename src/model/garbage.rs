//! Rules of garbage collection (server.md 14) on plain data: an object may be removed when it has ended, is old, and decides
//! nothing any more. Refuses to know where any of it is kept, and when garbage is collected.
//!
//! Invariant: without what goes, a scheduler decides as it would have with it.

use super::alloc::{Allocation, ClientStatus, DesiredStatus};
use super::deployment::DeploymentStatus;
use super::eval::Evaluation;
use super::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId};
use super::job::JobType;
use super::time::{Span, Wall};
use serde::{Deserialize, Serialize};

/// How long what has ended is kept, and how often somebody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GarbageRules {
    pub interval: Span,
    pub jobs: Span,
    /// Evaluations and allocations, but for those of batch jobs.
    pub evals: Span,
    pub batch_evals: Span,
    pub deployments: Span,
    pub nodes: Span,
    /// When the clock leaps, nothing is collected for so long: until somebody has set it right, everything may look old.
    pub after_leap: Span,
}

impl Default for GarbageRules {
    fn default() -> Self {
        GarbageRules {
            interval: Span::minutes(5),
            jobs: Span::hours(4),
            evals: Span::hours(1),
            batch_evals: Span::hours(24),
            deployments: Span::hours(1),
            nodes: Span::hours(24),
            after_leap: Span::hours(1),
        }
    }
}

/// What has not changed since then is old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cutoffs {
    pub jobs: Wall,
    pub evals: Wall,
    pub batch_evals: Wall,
    pub deployments: Wall,
    pub nodes: Wall,
}

impl Cutoffs {
    pub fn of(rules: &GarbageRules, at: Wall) -> Cutoffs {
        let before = |kept: Span| at + Span(kept.0.saturating_neg());
        Cutoffs {
            jobs: before(rules.jobs),
            evals: before(rules.evals),
            batch_evals: before(rules.batch_evals),
            deployments: before(rules.deployments),
            nodes: before(rules.nodes),
        }
    }

    /// Everything is old.
    pub const FORCED: Cutoffs = {
        let end = Wall(i64::MAX);
        Cutoffs { jobs: end, evals: end, batch_evals: end, deployments: end, nodes: end }
    };

    fn of_work(&self, job_type: JobType) -> Wall {
        if job_type == JobType::Batch { self.batch_evals } else { self.evals }
    }
}

/// Things of one kind that may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Garbage {
    /// With all that is theirs.
    Jobs(Vec<JobKey>),
    /// A job that has ended, and has too many parts to go at once: it is stopped, and the parts go before it.
    Stop(JobKey),
    Allocs(Vec<AllocId>),
    Evals(Vec<EvalId>),
    Deployments(Vec<DeploymentId>),
    Nodes(Vec<NodeId>),
}

/// What of a job its allocations are judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub create_index: u64,
    pub version: u64,
    pub job_modify_index: u64,
    pub job_type: JobType,
    pub stop: bool,
    pub groups: Vec<String>,
    /// The job's newest.
    pub deployment: Option<(DeploymentId, DeploymentStatus)>,
}

impl Holder {
    /// The job's scheduler, or whoever watches its deployment, looks at the allocation although it has ended.
    fn needs(&self, alloc: &Allocation) -> bool {
        if self.stop || alloc.job_create_index != self.create_index {
            return false;
        }
        let watched = |(id, status): &(DeploymentId, DeploymentStatus)| {
            status.is_active() && alloc.deployment == Some(*id)
        };
        if self.deployment.as_ref().is_some_and(watched) {
            return true;
        }
        if alloc.next.is_some() {
            return false;
        }
        match self.job_type {
            JobType::Batch => alloc.job_version == self.version,
            JobType::Sysbatch => alloc.job_modify_index == self.job_modify_index,
            JobType::Service | JobType::System => self.keeps_a_place(alloc) || self.owes(alloc),
        }
    }

    /// Whether the allocation has failed and was not replaced: nothing else is to take its place.
    fn keeps_a_place(&self, alloc: &Allocation) -> bool {
        let failed = alloc.client == ClientStatus::Failed && alloc.desired == DesiredStatus::Run;
        failed && self.groups.contains(&alloc.group)
    }

    /// Whether the allocation was stopped, and its successor may be made from what it was while a deployment is open.
    fn owes(&self, alloc: &Allocation) -> bool {
        let open = self.deployment.is_some_and(|(_, status)| status != DeploymentStatus::Successful);
        open && alloc.server_terminal()
    }
}

/// Whether the allocation runs nowhere any more. `node_known`: its node may still report it.
pub fn has_ended(alloc: &Allocation, node_known: bool) -> bool {
    alloc.client_terminal() || (alloc.server_terminal() && !node_known)
}

pub fn alloc_may_go(alloc: &Allocation, node_known: bool, holder: &Holder, before: &Cutoffs) -> bool {
    has_ended(alloc, node_known)
        && alloc.modify_time <= before.of_work(holder.job_type)
        && !holder.needs(alloc)
}

/// If nothing that it placed is left.
pub fn eval_may_go(eval: &Evaluation, before: &Cutoffs) -> bool {
    eval.status.is_terminal() && eval.modify_time <= before.of_work(eval.job_type)
}
