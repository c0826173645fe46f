//! The table of commands, their aliases, and the commands that Nomad has and drover does not have yet.

use crate::{Ready, Run};
use crate::{
    agent_command, agent_info, alloc_ask, alloc_checks, alloc_exec, alloc_fs, alloc_logs, alloc_status,
    alloc_stop, completion, config_validate,
};
use crate::{deployment_change, deployment_show};
use crate::{eval_delete, eval_list, eval_status, fmt_command};
use crate::{
    job_action, job_allocs, job_dispatch, job_family, job_init, job_inspect, job_plan, job_revert, job_run,
    job_start, job_status, job_stop, job_tag, job_validate,
};
use crate::{
    keeper_command, namespace_change, namespace_show, node_config, node_drain, node_eligibility, node_meta,
    node_pool_change, node_pool_show, node_status, operator_api, scheduler_config,
};
use crate::{scaling, servers, status, version, why};
use argh::{ArgsInfo, CommandInfoWithArgs, EarlyExit, FromArgs};

pub struct Command {
    pub name: &'static str,
    pub about: &'static str,
    /// It asks an agent, and so takes the global flags.
    pub networked: bool,
    /// What follows its first argument is another's command line.
    pub flags_first: bool,
    /// The exit code of what goes wrong.
    pub failure: u8,
    /// Its flags and arguments.
    pub info: fn() -> CommandInfoWithArgs,
    /// Of the program's name and its arguments.
    pub parse: fn(&[&str], &[&str]) -> Result<Ready, EarlyExit>,
}

pub static COMMANDS: &[Command] = &[
    local::<agent_command::Agent>("agent", "run an agent"),
    networked::<job_run::JobRun>("job run", "run or update a job"),
    Command {
        failure: job_plan::FAILED,
        ..networked::<job_plan::JobPlan>("job plan", "show what running a job would change")
    },
    networked::<job_status::JobStatus>("job status", "list jobs, or show one"),
    networked::<job_stop::JobStop>("job stop", "stop jobs"),
    networked::<job_start::JobStart>("job start", "run stopped jobs again"),
    networked::<job_inspect::JobInspect>("job inspect", "print a job as JSON or as its file"),
    networked::<job_inspect::JobHistory>("job history", "list the versions of a job"),
    networked::<job_revert::JobRevert>("job revert", "bring an older version of a job back"),
    networked::<job_family::JobPeriodicForce>("job periodic force", "launch a periodic job now"),
    networked::<job_dispatch::JobDispatch>("job dispatch", "run a job with a payload and metadata"),
    networked::<job_tag::JobTagApply>("job tag apply", "give a version of a job a name"),
    networked::<job_tag::JobTagUnset>("job tag unset", "take the name of a version back"),
    networked::<scaling::JobScale>("job scale", "give a group another count"),
    networked::<scaling::JobScalingEvents>("job scaling-events", "list how a job was scaled"),
    networked::<scaling::ScalingPolicyList>("scaling policy list", "list scaling policies"),
    networked::<scaling::ScalingPolicyInfo>("scaling policy info", "show a scaling policy"),
    networked::<job_validate::JobValidate>("job validate", "check a job file without running it"),
    networked::<job_action::JobAction>("job action", "run what a task's author has prepared beside it"),
    networked::<job_allocs::JobAllocs>("job allocs", "list the allocations of a job"),
    networked::<job_allocs::JobEval>("job eval", "let the scheduler look at a job again"),
    local::<job_init::JobInit>("job init", "write an example of a job file"),
    networked::<deployment_show::JobDeployments>("job deployments", "list the deployments of a job"),
    networked::<deployment_change::JobPromote>("job promote", "say that a job's canaries are good"),
    networked::<deployment_show::DeploymentList>("deployment list", "list deployments"),
    networked::<deployment_show::DeploymentStatus>("deployment status", "show a deployment"),
    networked::<deployment_change::DeploymentPromote>("deployment promote", "say that canaries are good"),
    networked::<deployment_change::DeploymentFail>("deployment fail", "end a deployment as failed"),
    networked::<deployment_change::DeploymentPause>("deployment pause", "hold a deployment"),
    networked::<deployment_change::DeploymentResume>("deployment resume", "let a deployment go on"),
    networked::<deployment_change::DeploymentUnblock>("deployment unblock", "let a blocked deployment go on"),
    networked::<eval_list::EvalList>("eval list", "list evaluations"),
    networked::<eval_delete::EvalDelete>("eval delete", "delete evaluations while none is handed out"),
    networked::<why::JobWhy>("job why", "explain where a job finds a place, or why it finds none"),
    networked::<why::AllocWhy>("alloc why", "explain how an allocation became what it is"),
    networked::<why::EvalWhy>("eval why", "explain what an evaluation came to"),
    networked::<eval_status::EvalStatus>("eval status", "show an evaluation"),
    networked::<alloc_status::AllocStatus>("alloc status", "show an allocation"),
    networked::<alloc_logs::AllocLogs>("alloc logs", "print the output of a task"),
    networked::<alloc_fs::AllocFs>("alloc fs", "look at the files of an allocation"),
    Command {
        flags_first: true,
        ..networked::<alloc_exec::AllocExec>("alloc exec", "run a command beside a task")
    },
    networked::<alloc_ask::AllocRestart>("alloc restart", "restart the tasks of an allocation"),
    networked::<alloc_ask::AllocSignal>("alloc signal", "send a signal to tasks"),
    networked::<alloc_stop::AllocStop>("alloc stop", "stop an allocation and place it anew"),
    networked::<alloc_checks::AllocChecks>("alloc checks", "show the service checks of an allocation"),
    networked::<node_status::NodeStatus>("node status", "list nodes, or show one"),
    networked::<node_drain::NodeDrain>("node drain", "move all work off a node"),
    networked::<node_eligibility::NodeEligibility>("node eligibility", "let a node take new work, or not"),
    networked::<namespace_show::NamespaceList>("namespace list", "list namespaces"),
    networked::<namespace_show::NamespaceStatus>("namespace status", "show a namespace"),
    networked::<namespace_show::NamespaceInspect>("namespace inspect", "print a namespace as JSON"),
    networked::<namespace_change::NamespaceApply>("namespace apply", "create or change a namespace"),
    networked::<namespace_change::NamespaceDelete>("namespace delete", "delete a namespace"),
    networked::<servers::ServerMembers>("server members", "list the servers"),
    networked::<agent_info::AgentInfo>("agent-info", "show what the agent says of itself"),
    networked::<agent_info::Monitor>("monitor", "follow the agent's log"),
    networked::<operator_api::OperatorApi>("operator api", "send a request to the API"),
    networked::<scheduler_config::GetConfig>("operator scheduler get-config", "show how the scheduler works"),
    networked::<scheduler_config::SetConfig>(
        "operator scheduler set-config",
        "tell the scheduler how to work",
    ),
    networked::<servers::OperatorMetrics>("operator metrics", "print the agent's metrics"),
    networked::<servers::RaftListPeers>("operator raft list-peers", "list the servers in consensus"),
    networked::<servers::CollectGarbage>("system gc", "forget at once what has ended"),
    networked::<servers::ReconcileSummaries>("system reconcile summaries", "count all jobs' summaries anew"),
    networked::<servers::Ui>("ui", "print where the web interface is"),
    networked::<node_config::NodeConfig>("node config", "list the servers that a node talks to"),
    networked::<node_meta::NodeMetaRead>("node meta read", "show a node's metadata"),
    networked::<node_meta::NodeMetaApply>("node meta apply", "set a node's metadata"),
    networked::<node_pool_show::NodePoolList>("node pool list", "list node pools"),
    networked::<node_pool_show::NodePoolInfo>("node pool info", "show a node pool"),
    networked::<node_pool_show::NodePoolNodes>("node pool nodes", "list the nodes of a node pool"),
    networked::<node_pool_show::NodePoolJobs>("node pool jobs", "list the jobs that choose a node pool"),
    networked::<node_pool_change::NodePoolApply>("node pool apply", "create or change a node pool"),
    networked::<node_pool_change::NodePoolDelete>("node pool delete", "delete a node pool"),
    local::<node_pool_change::NodePoolInit>("node pool init", "write an example of a node pool's file"),
    networked::<status::Status>("status", "show whatever has this id"),
    local::<keeper_command::KeeperRun>("keeper run", "run the parent of all tasks"),
    local::<keeper_command::KeeperStatus>("keeper status", "list what the keeper runs"),
    local::<keeper_command::KeeperStop>("keeper stop", "stop the keeper and all its tasks"),
    local::<fmt_command::Fmt>("fmt", "lay out job files canonically"),
    local::<config_validate::ConfigValidate>("config validate", "check configuration files"),
    local::<completion::Completion>("completion", "print a shell's completion script"),
    local::<completion::Complete>("complete", "print what may come next on a command line"),
    local::<version::Version>("version", "print the version"),
];

const fn networked<T: FromArgs + ArgsInfo + Run + 'static>(
    name: &'static str,
    about: &'static str,
) -> Command {
    Command {
        name,
        about,
        networked: true,
        flags_first: false,
        failure: 1,
        info: T::get_args_info,
        parse: parse::<T>,
    }
}

const fn local<T: FromArgs + ArgsInfo + Run + 'static>(name: &'static str, about: &'static str) -> Command {
    Command {
        name,
        about,
        networked: false,
        flags_first: false,
        failure: 1,
        info: T::get_args_info,
        parse: parse::<T>,
    }
}

fn parse<T: FromArgs + Run + 'static>(name: &[&str], args: &[&str]) -> Result<Ready, EarlyExit> {
    let parsed = T::from_args(name, args)?;
    Ok(Box::new(move |session| parsed.run(session)))
}

/// Shorter and older names of commands (cli.md 1.4).
pub fn unalias(name: &str) -> &str {
    match name {
        "run" => "job run",
        "stop" => "job stop",
        "logs" => "alloc logs",
        "alloc-status" => "alloc status",
        "node-status" => "node status",
        "plan" => "job plan",
        "inspect" => "job inspect",
        "validate" => "job validate",
        "init" => "job init",
        "fs" => "alloc fs",
        "exec" => "alloc exec",
        "action" => "job action",
        "start" => "job start",
        "node-drain" => "node drain",
        "eval-status" => "eval status",
        "server-members" => "server members",
        "server-join" => "server join",
        "server-force-leave" => "server force-leave",
        "client-config" => "node config",
        other => other,
    }
}

/// Commands that Nomad has and drover does not (cli.md 1.2). A name of a group stands for all of it that is not in `COMMANDS`.
pub static NOT_SUPPORTED: &[&str] = &[
    "job restart",
    "alloc pause",
    "node identity",
    "node intro",
    "server join",
    "server force-leave",
    "monitor export",
    "var",
    "service",
    "volume",
    "plugin",
    "quota",
    "recommendation",
    "sentinel",
    "license",
    "setup",
    "operator raft remove-peer",
    "operator raft transfer-leadership",
    "operator raft migrate-backend",
    "operator raft info",
    "operator raft logs",
    "operator raft state",
    "operator snapshot",
    "operator autopilot",
    "operator debug",
    "operator gossip",
    "operator root",
    "operator client-state",
    "operator utilization",
    "acl",
    "login",
    "tls",
    "check",
];
