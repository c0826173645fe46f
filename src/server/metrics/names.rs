//! What the server counts and times, by the names of the field (http-api.md 12.3), and which commands and requests are
//! called what. Refuses to know figures.

use model::deployment::DeploymentStep;
use model::garbage::Garbage;
use model::job::JobType;
use wire::command::{Command, NodeUpdateRequest};
use wire::request::{DeploymentRequest, WriteRequest};
use wire::rpc::NodeRequest;

wire::metric_names! {
    pub enum Counter {
        RaftApply = "raft.apply",
        RaftStateLeader = "raft.state.leader",
        PlanNodeRejected = "nomad.plan.node_rejected",
        RpcQuery = "nomad.rpc.query",
        RpcRequest = "nomad.rpc.request",
        RpcRequestError = "nomad.rpc.request_error",
    }
}

wire::metric_names! {
    pub enum Timed {
        CommitTime = "raft.commitTime",
        DispatchLog = "raft.leader.dispatchLog",
        PlanApply = "nomad.plan.apply",
        PlanEvaluate = "nomad.plan.evaluate",
        PlanSubmit = "nomad.plan.submit",
        PlanWaitForIndex = "nomad.plan.wait_for_index",
        WorkerDequeueEval = "nomad.worker.dequeue_eval",
        WorkerInvokeBatch = "nomad.worker.invoke_scheduler.batch",
        WorkerInvokeService = "nomad.worker.invoke_scheduler.service",
        WorkerInvokeSysbatch = "nomad.worker.invoke_scheduler.sysbatch",
        WorkerInvokeSystem = "nomad.worker.invoke_scheduler.system",
        WorkerSendAck = "nomad.worker.send_ack",
        WorkerSendNack = "nomad.worker.send_nack",
        WorkerSubmitPlan = "nomad.worker.submit_plan",
        WorkerWaitForIndex = "nomad.worker.wait_for_index",
        BrokerProcessTime = "nomad.broker.process_time",
        BrokerWaitTime = "nomad.broker.wait_time",
        EvalAck = "nomad.eval.ack",
        EvalDequeue = "nomad.eval.dequeue",
        EvalNack = "nomad.eval.nack",
        HeartbeatInvalidate = "nomad.heartbeat.invalidate",
        AllocStop = "nomad.alloc.stop",
        ClientDrain = "nomad.client.update_drain",
        ClientDeregister = "nomad.client.deregister",
        ClientEligibility = "nomad.client.update_eligibility",
        ClientEvaluate = "nomad.client.evaluate",
        ClientGetAllocs = "nomad.client.get_client_allocs",
        ClientRegister = "nomad.client.register",
        ClientUpdateAlloc = "nomad.client.update_alloc",
        ClientUpdateStatus = "nomad.client.update_status",
        DeploymentFail = "nomad.deployment.fail",
        DeploymentPause = "nomad.deployment.pause",
        DeploymentPromote = "nomad.deployment.promote",
        DeploymentSetHealth = "nomad.deployment.set_alloc_health",
        EvalDelete = "nomad.eval.delete",
        JobDeregister = "nomad.job.deregister",
        JobDispatch = "nomad.job.dispatch",
        JobEvaluate = "nomad.job.evaluate",
        JobRegister = "nomad.job.register",
        JobRevert = "nomad.job.revert",
        JobScale = "nomad.job.scale",
        JobStable = "nomad.job.stable",
        NamespaceDelete = "nomad.namespace.delete_namespaces",
        NamespaceUpsert = "nomad.namespace.upsert_namespaces",
        NodePoolDelete = "nomad.node_pool.delete_node_pools",
        NodePoolUpsert = "nomad.node_pool.upsert_node_pools",
        PeriodicForce = "nomad.periodic.force",
        FsmAllocClientUpdate = "nomad.fsm.alloc_client_update",
        FsmAllocTransition = "nomad.fsm.alloc_update_desired_transition",
        FsmDeleteDeployment = "nomad.fsm.delete_deployment",
        FsmDeleteEval = "nomad.fsm.delete_eval",
        FsmDeploymentHealth = "nomad.fsm.apply_deployment_alloc_health",
        FsmDeploymentPromotion = "nomad.fsm.apply_deployment_promotion",
        FsmDeploymentStatus = "nomad.fsm.apply_deployment_status_update",
        FsmDeregisterJob = "nomad.fsm.deregister_job",
        FsmDeregisterNode = "nomad.fsm.deregister_node",
        FsmJobStability = "nomad.fsm.apply_job_stability",
        FsmNamespaceDelete = "nomad.fsm.apply_namespace_delete",
        FsmNamespaceUpsert = "nomad.fsm.apply_namespace_upsert",
        FsmNodeDrain = "nomad.fsm.node_drain_update",
        FsmNodeEligibility = "nomad.fsm.node_eligibility_update",
        FsmNodePoolDelete = "nomad.fsm.apply_node_pool_delete",
        FsmNodePoolUpsert = "nomad.fsm.apply_node_pool_upsert",
        FsmNodeStatus = "nomad.fsm.node_status_update",
        FsmPlanResults = "nomad.fsm.apply_plan_results",
        FsmRegisterJob = "nomad.fsm.register_job",
        FsmRegisterNode = "nomad.fsm.register_node",
        FsmSchedulerConfig = "nomad.fsm.apply_scheduler_config",
        FsmUpdateEval = "nomad.fsm.update_eval",
    }
}

impl Timed {
    pub fn invoke_scheduler(job_type: JobType) -> Timed {
        match job_type {
            JobType::Batch => Timed::WorkerInvokeBatch,
            JobType::Service => Timed::WorkerInvokeService,
            JobType::Sysbatch => Timed::WorkerInvokeSysbatch,
            JobType::System => Timed::WorkerInvokeSystem,
        }
    }

    /// What a user's request is timed as.
    pub fn request(action: &WriteRequest) -> Option<Timed> {
        Some(match action {
            WriteRequest::RegisterJob { .. } => Timed::JobRegister,
            WriteRequest::RevertJob { .. } => Timed::JobRevert,
            WriteRequest::SetStability { .. } => Timed::JobStable,
            WriteRequest::DeregisterJob { .. } => Timed::JobDeregister,
            WriteRequest::ScaleJob(_) => Timed::JobScale,
            WriteRequest::DispatchJob { .. } => Timed::JobDispatch,
            WriteRequest::EvaluateJob { .. } => Timed::JobEvaluate,
            WriteRequest::ForceLaunch { .. } => Timed::PeriodicForce,
            WriteRequest::UpsertNamespace { .. } => Timed::NamespaceUpsert,
            WriteRequest::DeleteNamespace { .. } => Timed::NamespaceDelete,
            WriteRequest::UpsertNodePool { .. } => Timed::NodePoolUpsert,
            WriteRequest::DeleteNodePool { .. } => Timed::NodePoolDelete,
            WriteRequest::DeleteEvals { .. } => Timed::EvalDelete,
            WriteRequest::StopAlloc { .. } => Timed::AllocStop,
            WriteRequest::EvaluateNode { .. } => Timed::ClientEvaluate,
            WriteRequest::UpdateNode { request: NodeUpdateRequest::Eligible(_), .. } => {
                Timed::ClientEligibility
            }
            WriteRequest::UpdateNode { request: NodeUpdateRequest::Purge, .. } => Timed::ClientDeregister,
            WriteRequest::UpdateNode { .. } => Timed::ClientDrain,
            WriteRequest::StepDeployment { step, .. } => match step {
                DeploymentRequest::Pause | DeploymentRequest::Resume => Timed::DeploymentPause,
                DeploymentRequest::Promote { .. } => Timed::DeploymentPromote,
                DeploymentRequest::Fail => Timed::DeploymentFail,
                DeploymentRequest::SetHealth { .. } => Timed::DeploymentSetHealth,
            },
            WriteRequest::ConfigureScheduler { .. }
            | WriteRequest::CollectGarbage
            | WriteRequest::RemoveServer { .. }
            | WriteRequest::TransferLeadership { .. }
            | WriteRequest::CreateJoinToken { .. }
            | WriteRequest::RevokeJoinToken { .. }
            | WriteRequest::RedeemJoinToken { .. }
            | WriteRequest::TagVersion { .. } => {
                return None;
            }
        })
    }

    /// What a node's request is timed as.
    pub fn node_request(request: &NodeRequest) -> Timed {
        match request {
            NodeRequest::Register { .. } => Timed::ClientRegister,
            NodeRequest::Heartbeat { .. } => Timed::ClientUpdateStatus,
            NodeRequest::Watch { .. } | NodeRequest::Fetch { .. } => Timed::ClientGetAllocs,
            NodeRequest::Report { .. } => Timed::ClientUpdateAlloc,
        }
    }

    /// What applying a command is timed as.
    pub fn command(command: &Command) -> Option<Timed> {
        Some(match command {
            Command::RegisterJob(_)
            | Command::RevertJob(_)
            | Command::LaunchJob(_)
            | Command::DispatchJob(_)
            | Command::ScaleJob(_) => Timed::FsmRegisterJob,
            Command::StopJob { .. } | Command::PurgeJob { .. } => Timed::FsmDeregisterJob,
            Command::SetStability { .. } => Timed::FsmJobStability,
            Command::RegisterNode { .. } => Timed::FsmRegisterNode,
            Command::UpdateNodeStatus { .. } => Timed::FsmNodeStatus,
            Command::UpdateEvals { .. } => Timed::FsmUpdateEval,
            Command::DeleteEvals { .. } => Timed::FsmDeleteEval,
            Command::ApplyPlan { .. } => Timed::FsmPlanResults,
            Command::UpdateAllocs { .. } => Timed::FsmAllocClientUpdate,
            Command::UpdateTransitions { .. } => Timed::FsmAllocTransition,
            Command::UpdateNode { request: NodeUpdateRequest::Eligible(_), .. } => Timed::FsmNodeEligibility,
            Command::UpdateNode { request: NodeUpdateRequest::Purge, .. } => Timed::FsmDeregisterNode,
            Command::UpdateNode { .. } | Command::AdvanceDrains { .. } => Timed::FsmNodeDrain,
            Command::StepDeployment(step) => match step.step {
                DeploymentStep::Promote { .. } => Timed::FsmDeploymentPromotion,
                DeploymentStep::SetHealth { .. } => Timed::FsmDeploymentHealth,
                _ => Timed::FsmDeploymentStatus,
            },
            Command::ConfigureScheduler { .. } => Timed::FsmSchedulerConfig,
            Command::UpsertNamespace { .. } => Timed::FsmNamespaceUpsert,
            Command::DeleteNamespace { .. } => Timed::FsmNamespaceDelete,
            Command::UpsertNodePool { .. } => Timed::FsmNodePoolUpsert,
            Command::DeleteNodePool { .. } => Timed::FsmNodePoolDelete,
            Command::CollectGarbage(order) => match &order.garbage {
                Garbage::Jobs(_) | Garbage::Stop(_) => Timed::FsmDeregisterJob,
                Garbage::Nodes(_) => Timed::FsmDeregisterNode,
                Garbage::Allocs(_) | Garbage::Evals(_) => Timed::FsmDeleteEval,
                Garbage::Deployments(_) => Timed::FsmDeleteDeployment,
            },
            Command::Init(_)
            | Command::ChangeMember(_)
            | Command::RaiseFeatureLevel { .. }
            | Command::AddSigningKey { .. }
            | Command::CreateJoinToken { .. }
            | Command::RevokeJoinToken { .. }
            | Command::RedeemJoinToken(_)
            | Command::TagVersion(_) => return None,
        })
    }
}
