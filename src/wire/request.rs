//! Write requests of an API to the servers, their replies, and refusals.

use crate::command::{NodeUpdateRequest, ScaleRequest};
use model::alloc::Transition;
use model::dispatch::DispatchRequest;
use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId, Uuid};
use model::job::JobSpec;
use model::join_token::{JoinToken, JoinTokenSpec, JoiningMachine};
use model::namespace::NamespaceSpec;
use model::pool::NodePoolSpec;
use model::scheduling::SchedulerSettings;
use model::submission::Submission;
use model::time::Wall;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A write. Reads never come this way: they use a view of the state.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteRequest {
    /// `spec` is canonical and valid by itself; the servers check it against the region.
    RegisterJob {
        spec: Box<JobSpec>,
        enforce_index: Option<u64>,
        eval_priority: Option<i64>,
        /// Groups that exist keep their count.
        preserve_counts: bool,
        /// The text that the job was made from, if it is to be kept.
        submission: Option<Box<Submission>>,
    },
    /// The job gets the spec of that version once more.
    RevertJob {
        job: JobKey,
        version: u64,
        enforce_prior_version: Option<u64>,
    },
    /// Marks a version as stable or not.
    SetStability {
        job: JobKey,
        version: u64,
        stable: bool,
    },
    DeregisterJob {
        job: JobKey,
        purge: bool,
        eval_priority: Option<i64>,
        /// No task's `shutdown_delay` is waited for. Not with `purge`: of a purged job nodes learn only that it is gone.
        no_shutdown_delay: bool,
    },
    /// Sound by itself.
    UpsertNamespace {
        namespace: Box<NamespaceSpec>,
    },
    DeleteNamespace {
        name: String,
    },
    /// Sound by itself, and none of those that always exist.
    UpsertNodePool {
        pool: Box<NodePoolSpec>,
    },
    DeleteNodePool {
        name: String,
    },
    /// `cas`: only if the present settings have this modify index.
    ConfigureScheduler {
        settings: SchedulerSettings,
        cas: Option<u64>,
    },
    /// `skip_needed`: those that cannot go yet stay, instead of all.
    DeleteEvals {
        ids: Vec<EvalId>,
        skip_needed: bool,
    },
    /// Everything that has ended and is not needed is forgotten at once, however young.
    CollectGarbage,
    /// Stops an allocation and places it anew.
    StopAlloc {
        alloc: AllocId,
        transition: Transition,
    },
    /// Gives a group another count, or says of it what is to be remembered.
    ScaleJob(Box<ScaleRequest>),
    /// Names a version, the newest unless it is said; without a description the name is taken back.
    TagVersion {
        job: JobKey,
        name: String,
        version: Option<u64>,
        description: Option<String>,
    },
    /// Launches a periodic job now.
    ForceLaunch {
        job: JobKey,
    },
    /// Sound by itself.
    DispatchJob {
        request: Box<DispatchRequest>,
    },
    /// Looks at a job again: an evaluation, and nothing else changes, unless what has failed is to be placed again now.
    EvaluateJob {
        job: JobKey,
        force_reschedule: bool,
    },
    /// The same for every job that has allocations on the node.
    EvaluateNode {
        node: NodeId,
    },
    UpdateNode {
        node: NodeId,
        request: NodeUpdateRequest,
    },
    /// A server of the region goes, for good.
    RemoveServer {
        id: u64,
    },
    /// Another server is to lead: that one, or whichever is fit.
    TransferLeadership {
        to: Option<u64>,
    },
    /// Sound by itself.
    CreateJoinToken {
        token: Box<JoinTokenSpec>,
    },
    RevokeJoinToken {
        id: Uuid,
    },
    /// A machine that joins has shown a token, of whose secret this is the SHA-256.
    RedeemJoinToken {
        id: Uuid,
        secret_digest: [u8; 32],
        machine: JoiningMachine,
        key: [u8; 32],
    },
    /// A user changes a deployment.
    StepDeployment {
        deployment: DeploymentId,
        step: DeploymentRequest,
    },
}

/// What a user may want of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeploymentRequest {
    Pause,
    Resume,
    Fail,
    /// `None`: all groups.
    Promote {
        groups: Option<Vec<String>>,
    },
    SetHealth {
        healthy: Vec<AllocId>,
        unhealthy: Vec<AllocId>,
    },
}

/// Given once the change is durable and applied. `index` is the change's place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteReply {
    Job {
        eval: Option<EvalId>,
        job_modify_index: u64,
        index: u64,
    },
    Nothing {
        index: u64,
    },
    /// `eval` `None`: it was there already.
    Dispatched {
        job: String,
        eval: Option<EvalId>,
        create_index: u64,
        index: u64,
    },
    /// A namespace or a node pool was written or deleted.
    Written {
        index: u64,
    },
    /// Another server leads.
    Transferred {
        to: u64,
        index: u64,
    },
    /// `updated`: it was as the caller had seen it.
    SchedulerConfig {
        updated: bool,
        index: u64,
    },
    /// How many evaluations were deleted.
    Deleted {
        count: u64,
        index: u64,
    },
    /// A version has its name since `at`, or has none any more.
    Tagged {
        at: Wall,
        index: u64,
    },
    /// `modify_index` is that of the job or node that was looked at.
    Evals {
        evals: Vec<EvalId>,
        modify_index: u64,
        index: u64,
    },
    /// As the region keeps it.
    JoinToken {
        token: Box<JoinToken>,
        index: u64,
    },
    /// `reverted`: the version whose spec the job has once more.
    Deployment {
        eval: Option<EvalId>,
        reverted: Option<u64>,
        index: u64,
    },
}

impl WriteReply {
    pub fn index(&self) -> u64 {
        match self {
            WriteReply::Job { index, .. } | WriteReply::Nothing { index } | WriteReply::Written { index } => {
                *index
            }
            WriteReply::Evals { index, .. } | WriteReply::Deployment { index, .. } => *index,
            WriteReply::Dispatched { index, .. } => *index,
            WriteReply::SchedulerConfig { index, .. } | WriteReply::Deleted { index, .. } => *index,
            WriteReply::Tagged { index, .. } | WriteReply::Transferred { index, .. } => *index,
            WriteReply::JoinToken { index, .. } => *index,
        }
    }
}

/// The caller's fault, or a state of the region that the caller has to wait out: the only errors that leave by HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// A sentence for the caller. Where Nomad's clients look for a text, that text.
    pub message: String,
}

/// Append only: a node's refusals cross machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// The request itself is wrong.
    Invalid,
    /// What it names does not exist.
    NotFound,
    /// The request was right for another state than the present one.
    Conflict,
    /// Validation, which Nomad answers with status 500.
    Validation,
    /// A queue is full: try again later.
    Busy,
    /// No leader, or storage refuses writes: try again later.
    Unavailable,
    /// Not permitted to anyone.
    Forbidden,
}

impl Refusal {
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Refusal { kind, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
