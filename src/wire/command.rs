//! Replicated commands: what raft orders and `state` applies. Everything that is random or depends on a clock was
//! decided by the proposer, so that applying is deterministic. Append only: the position of a variant is its number.

use model::alloc::{ClientStatus, Transition};
use model::deployment::{Deployment, DeploymentStep, DeploymentUpdate, Verdict};
use model::dispatch::DispatchRequest;
use model::drain::Drain;
use model::eval::Evaluation;
use model::garbage::{Cutoffs, Garbage};
use model::id::{AllocId, DeploymentId, EvalId, NodeId, Uuid};
use model::job::JobSpec;
use model::join_token::{JoinTokenSpec, JoiningMachine};
use model::key::SigningKey;
use model::member::{Founding, ServerInfo};
use model::namespace::NamespaceSpec;
use model::node::{NodeInfo, NodeStatus};
use model::plan::NodePlan;
use model::pool::NodePoolSpec;
use model::scheduling::SchedulerSettings;
use model::submission::Submission;
use model::task::TaskState;
use model::time::{Span, Wall};
use model::value::Value;
use model::{id::JobKey, node::NodeEvent};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// The first entry of a region: who it is, and who its first servers are. In no log, because all of them begin with it.
    Init(Box<Founding>),
    /// A job and its evaluation in one entry. An unchanged spec makes no version; the evaluation is stored all the same.
    RegisterJob(Box<RegisterJobCommand>),
    /// A version with `stop` set. `no_shutdown_delay`: no end of an allocation that there is waits for anybody's `shutdown_delay`.
    StopJob {
        job: JobKey,
        no_shutdown_delay: bool,
        eval: Option<Box<Evaluation>>,
        tracked_versions: u32,
        at: Wall,
    },
    /// Removes a job with its allocations and versions.
    PurgeJob { job: JobKey, eval: Option<Box<Evaluation>>, at: Wall },
    /// A client's description of its machine. Of a known node only the description changes.
    RegisterNode { info: Box<NodeInfo>, evals: Vec<Evaluation>, at: Wall },
    UpdateNodeStatus {
        node: NodeId,
        status: NodeStatus,
        event: Option<Box<NodeEvent>>,
        evals: Vec<Evaluation>,
        at: Wall,
    },
    /// Inserts or replaces evaluations.
    UpdateEvals { evals: Vec<Evaluation>, at: Wall },
    /// The accepted part of a plan, with the evaluation that asked for it and those that it made.
    ApplyPlan {
        eval: EvalId,
        nodes: Vec<NodePlan>,
        /// To be created; one that there is learns from it what it wants now.
        deployment: Option<Box<Deployment>>,
        updates: Vec<DeploymentUpdate>,
        evals: Vec<Evaluation>,
        at: Wall,
    },
    /// What a client reports of its allocations and of their health, with the evaluations that follow from it.
    UpdateAllocs {
        node: NodeId,
        /// See `NodeRequest::Report`: refused if a report of this node was applied after that.
        seen: u64,
        updates: Vec<AllocUpdate>,
        verdicts: Vec<Verdict>,
        evals: Vec<Evaluation>,
        at: Wall,
    },
    /// Creates a namespace, or replaces what was said of it.
    UpsertNamespace { namespace: Box<NamespaceSpec> },
    /// Refused while jobs in it are not dead.
    DeleteNamespace { name: String },
    /// The region's first signing key; a second one changes nothing.
    AddSigningKey { key: Box<SigningKey> },
    /// What servers ask of allocations beyond running or stopping, with the evaluations that see to it.
    UpdateTransitions { allocs: Vec<(AllocId, Transition)>, evals: Vec<Evaluation>, at: Wall },
    /// A user changes a node: eligibility, drain or purge.
    UpdateNode { node: NodeId, request: NodeUpdateRequest, evals: Vec<Evaluation>, at: Wall },
    /// Progress of drains, with the evaluations that migrate allocations.
    AdvanceDrains { steps: Vec<DrainProgress>, evals: Vec<Evaluation>, at: Wall },
    /// A step of a deployment, with the evaluation that follows from it.
    StepDeployment(Box<StepDeploymentCommand>),
    /// A job gets the spec of one of its older versions once more.
    RevertJob(Box<RevertJobCommand>),
    /// Marks a version as stable or not.
    SetStability { job: JobKey, version: u64, stable: bool },
    /// `cas`: nothing changes unless the present settings have this modify index.
    ConfigureScheduler { settings: SchedulerSettings, cas: Option<u64> },
    /// Refused while evaluations are handed out. `skip_needed`: those that cannot go yet stay; otherwise none goes.
    DeleteEvals { ids: Vec<EvalId>, skip_needed: bool },
    /// Creates a node pool, or replaces what was said of it.
    UpsertNodePool { pool: Box<NodePoolSpec> },
    /// Refused while nodes are in it, or jobs in it are not dead.
    DeleteNodePool { name: String },
    /// Removes objects that have ended and are old, if that is still so.
    CollectGarbage(Box<CollectGarbageCommand>),
    /// A periodic job launches a child.
    LaunchJob(Box<LaunchJobCommand>),
    /// A parameterized job makes a child, unless the token has made one.
    DispatchJob(Box<DispatchJobCommand>),
    /// Sets the count of a group, or only records a scaling event.
    ScaleJob(Box<ScaleJobCommand>),
    /// Sets or removes the tag of a version.
    TagVersion(Box<TagVersionCommand>),
    /// One of the region's servers comes, votes from now on, goes, or is another than it was.
    ChangeMember(Box<MemberChange>),
    /// Every server knows what this level is about: from now on it may be proposed.
    RaiseFeatureLevel { level: u32 },
    /// An operator lets machines join.
    CreateJoinToken { token: Box<JoinTokenSpec>, at: Wall },
    /// The token lets nobody in any more.
    RevokeJoinToken { id: Uuid },
    /// A machine shows a token, which has one use less from then on.
    RedeemJoinToken(Box<RedeemJoinTokenCommand>),
}

impl Command {
    /// When its proposer made it, as that one's clock had it.
    pub fn at(&self) -> Option<Wall> {
        match self {
            Command::StopJob { at, .. }
            | Command::PurgeJob { at, .. }
            | Command::RegisterNode { at, .. }
            | Command::UpdateNodeStatus { at, .. }
            | Command::UpdateEvals { at, .. }
            | Command::ApplyPlan { at, .. }
            | Command::UpdateAllocs { at, .. }
            | Command::UpdateTransitions { at, .. }
            | Command::UpdateNode { at, .. }
            | Command::CreateJoinToken { at, .. }
            | Command::AdvanceDrains { at, .. } => Some(*at),
            Command::Init(founding) => Some(founding.at),
            Command::RegisterJob(order) => Some(order.at),
            Command::StepDeployment(order) => Some(order.at),
            Command::RevertJob(order) => Some(order.at),
            Command::CollectGarbage(order) => Some(order.at),
            Command::LaunchJob(order) => Some(order.at),
            Command::DispatchJob(order) => Some(order.at),
            Command::ScaleJob(order) => Some(order.at),
            Command::TagVersion(order) => Some(order.at),
            Command::RedeemJoinToken(order) => Some(order.redemption.at),
            Command::ChangeMember(_)
            | Command::RaiseFeatureLevel { .. }
            | Command::UpsertNamespace { .. }
            | Command::DeleteNamespace { .. }
            | Command::AddSigningKey { .. }
            | Command::SetStability { .. }
            | Command::ConfigureScheduler { .. }
            | Command::DeleteEvals { .. }
            | Command::UpsertNodePool { .. }
            | Command::RevokeJoinToken { .. }
            | Command::DeleteNodePool { .. } => None,
        }
    }

    /// What a stream of events calls the changes that it makes (server.md 2.5, http-api.md 11).
    pub fn event_kind(&self) -> &'static str {
        match self {
            Command::RegisterJob(_)
            | Command::RevertJob(_)
            | Command::LaunchJob(_)
            | Command::DispatchJob(_)
            | Command::ScaleJob(_)
            | Command::TagVersion(_)
            | Command::SetStability { .. } => "JobRegistered",
            Command::StopJob { .. } | Command::PurgeJob { .. } => "JobDeregistered",
            Command::RegisterNode { .. } => "NodeRegistration",
            Command::UpdateNodeStatus { .. } => "NodeStreamEvent",
            Command::UpdateEvals { .. } => "EvaluationUpdated",
            Command::ApplyPlan { .. } => "PlanResult",
            Command::UpdateAllocs { .. } => "AllocationUpdated",
            Command::StepDeployment(step) => match step.step {
                DeploymentStep::Promote { .. } => "DeploymentPromotion",
                DeploymentStep::SetHealth { .. } => "DeploymentAllocHealth",
                DeploymentStep::Pause | DeploymentStep::Resume | DeploymentStep::Fail(_) => {
                    "DeploymentStatusUpdate"
                }
            },
            Command::UpdateTransitions { .. } => "AllocationUpdateDesiredStatus",
            Command::UpdateNode { request: NodeUpdateRequest::Eligible(_), .. } => "NodeEligibility",
            Command::UpdateNode { request: NodeUpdateRequest::Purge, .. } => "NodeDeregistration",
            Command::UpdateNode { .. } | Command::AdvanceDrains { .. } => "NodeDrain",
            Command::UpsertNodePool { .. } => "NodePoolUpserted",
            Command::DeleteNodePool { .. } => "NodePoolDeleted",
            Command::CollectGarbage(order) => match &order.garbage {
                Garbage::Jobs(_) => "JobBatchDeregistered",
                Garbage::Stop(_) => "JobDeregistered",
                Garbage::Nodes(_) => "NodeDeregistration",
                Garbage::Allocs(_) | Garbage::Evals(_) | Garbage::Deployments(_) => "",
            },
            // they concern the region itself, and nothing that has events
            Command::Init(_)
            | Command::ChangeMember(_)
            | Command::RaiseFeatureLevel { .. }
            | Command::AddSigningKey { .. }
            | Command::ConfigureScheduler { .. }
            | Command::DeleteEvals { .. }
            | Command::CreateJoinToken { .. }
            | Command::RevokeJoinToken { .. }
            | Command::RedeemJoinToken(_)
            | Command::UpsertNamespace { .. }
            | Command::DeleteNamespace { .. } => "",
        }
    }
}

/// Encoded by position: append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeUpdateRequest {
    /// Whether new work may be placed there.
    Eligible(bool),
    /// All work is to leave, at the latest after `deadline`: zero is never, less is at once.
    Drain {
        deadline: Span,
        ignore_system: bool,
        meta: BTreeMap<String, String>,
    },
    EndDrain {
        mark_eligible: bool,
        meta: BTreeMap<String, String>,
    },
    /// The node is to be forgotten.
    Purge,
}

impl NodeUpdateRequest {
    /// From then on work may be placed there, if the node is ready.
    pub fn opens(&self) -> bool {
        matches!(
            self,
            NodeUpdateRequest::Eligible(true) | NodeUpdateRequest::EndDrain { mark_eligible: true, .. }
        )
    }

    /// From then on nothing may be placed there.
    pub fn closes(&self) -> bool {
        matches!(
            self,
            NodeUpdateRequest::Eligible(false) | NodeUpdateRequest::Drain { .. } | NodeUpdateRequest::Purge
        )
    }
}

/// Progress of the drain of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainProgress {
    pub node: NodeId,
    /// The drain that this was decided for: another one ignores it.
    pub drain: Drain,
    pub leaving: Vec<AllocId>,
    pub at_once: bool,
    pub complete: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegisterJobCommand {
    pub spec: JobSpec,
    /// `Some(0)`: must not exist; `Some(n)`: must exist with this `job_modify_index`.
    pub enforce_index: Option<u64>,
    /// Groups that the job has already keep their count, as far as their new limits let them.
    pub preserve_counts: bool,
    /// The text that the job was made from, if it is to be kept.
    pub submission: Option<Submission>,
    pub eval: Option<Evaluation>,
    /// How many of the newest versions stay listed.
    pub tracked_versions: u32,
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepDeploymentCommand {
    pub deployment: DeploymentId,
    pub step: DeploymentStep,
    pub eval: Option<Evaluation>,
    /// How many of the job's newest versions stay listed, if it gets another.
    pub tracked_versions: u32,
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevertJobCommand {
    pub job: JobKey,
    pub version: u64,
    /// The job must be of this version.
    pub enforce_prior_version: Option<u64>,
    pub eval: Option<Evaluation>,
    pub tracked_versions: u32,
    pub at: Wall,
}

/// A bounded number of objects to collect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectGarbageCommand {
    pub garbage: Garbage,
    pub before: Cutoffs,
    /// How many of the newest versions stay listed, if a job gets another.
    pub tracked_versions: u32,
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchJobCommand {
    pub job: JobKey,
    /// The moment that the child is named after.
    pub moment: Wall,
    /// The version whose times name that moment: of another one nothing happens. The launches up to that moment are decided by
    /// this, and none of them happens once more. `None`: a user wants it, whatever the times say.
    pub timed_by: Option<u64>,
    /// The child's evaluation.
    pub eval: Evaluation,
    pub tracked_versions: u32,
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchJobCommand {
    pub request: DispatchRequest,
    /// The child's evaluation. The child is named after it.
    pub eval: EvalId,
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleRequest {
    pub job: JobKey,
    pub group: String,
    /// Not negative. `None`: there is only something to be said.
    pub count: Option<i64>,
    pub message: String,
    pub error: bool,
    pub meta: BTreeMap<String, Value>,
    /// With a count: the job must have this `job_modify_index`.
    pub enforce_index: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleJobCommand {
    pub request: ScaleRequest,
    pub eval: Option<Evaluation>,
    pub tracked_versions: u32,
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagVersionCommand {
    pub job: JobKey,
    pub name: String,
    /// `None`: the newest.
    pub version: Option<u64>,
    /// `None`: the name is taken back.
    pub description: Option<String>,
    pub at: Wall,
}

/// A use of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redemption {
    /// Which machine, and with that in which role.
    pub machine: JoiningMachine,
    /// The public key that it has proved: the same machine with the same key may ask again.
    pub key: [u8; 32],
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedeemJoinTokenCommand {
    pub id: Uuid,
    /// SHA-256 of the secret that was shown.
    pub secret_digest: [u8; 32],
    pub redemption: Redemption,
}

/// Append only. All but `Update` are in the entries that change raft's members, and follow what those do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberChange {
    /// As a learner.
    Add {
        id: u64,
        info: ServerInfo,
    },
    /// The learner votes.
    Promote {
        id: u64,
    },
    Remove {
        id: u64,
    },
    /// What a member says of itself now.
    Update {
        id: u64,
        info: ServerInfo,
    },
}

/// The client's half of an allocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocUpdate {
    pub id: AllocId,
    pub client: ClientStatus,
    pub client_description: String,
    pub task_states: BTreeMap<String, TaskState>,
}
