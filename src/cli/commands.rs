//! The table of commands, their aliases, and the commands that Nomad has and drover does not have yet.

mod completion;

use crate::{Ready, Run};
use crate::{agent, alloc, deployment, eval, job, node, operator, status, version, why};
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
    /// Parses arguments; the first parameter is the program's name, for messages.
    pub parse: fn(&[&str], &[&str]) -> Result<Ready, EarlyExit>,
}

pub static COMMANDS: &[Command] = &[
    local::<agent::run::Agent>("agent", "run an agent"),
    networked::<job::run::JobRun>("job run", "run or update a job"),
    Command {
        failure: job::plan::FAILED,
        ..networked::<job::plan::JobPlan>("job plan", "show what running a job would change")
    },
    networked::<job::status::JobStatus>("job status", "list jobs, or show one"),
    networked::<job::stop::JobStop>("job stop", "stop jobs"),
    networked::<job::start::JobStart>("job start", "run stopped jobs again"),
    networked::<job::inspect::JobInspect>("job inspect", "print a job as JSON or as its file"),
    networked::<job::inspect::JobHistory>("job history", "list the versions of a job"),
    networked::<job::revert::JobRevert>("job revert", "bring an older version of a job back"),
    networked::<job::periodic::JobPeriodicForce>("job periodic force", "launch a periodic job now"),
    networked::<job::dispatch::JobDispatch>("job dispatch", "run a job with a payload and metadata"),
    networked::<job::tag::JobTagApply>("job tag apply", "give a version of a job a name"),
    networked::<job::tag::JobTagUnset>("job tag unset", "take the name of a version back"),
    networked::<job::scaling::JobScale>("job scale", "give a group another count"),
    networked::<job::scaling::JobScalingEvents>("job scaling-events", "list how a job was scaled"),
    networked::<job::scaling::ScalingPolicyList>("scaling policy list", "list scaling policies"),
    networked::<job::scaling::ScalingPolicyInfo>("scaling policy info", "show a scaling policy"),
    networked::<job::validate::JobValidate>("job validate", "check a job file without running it"),
    networked::<job::action::JobAction>("job action", "run what a task's author has prepared beside it"),
    networked::<job::allocs::JobAllocs>("job allocs", "list the allocations of a job"),
    networked::<job::allocs::JobEval>("job eval", "let the scheduler look at a job again"),
    local::<job::init::JobInit>("job init", "write an example of a job file"),
    networked::<deployment::show::JobDeployments>("job deployments", "list the deployments of a job"),
    networked::<deployment::change::JobPromote>("job promote", "say that a job's canaries are good"),
    networked::<deployment::show::DeploymentList>("deployment list", "list deployments"),
    networked::<deployment::show::DeploymentStatus>("deployment status", "show a deployment"),
    networked::<deployment::change::DeploymentPromote>("deployment promote", "say that canaries are good"),
    networked::<deployment::change::DeploymentFail>("deployment fail", "end a deployment as failed"),
    networked::<deployment::change::DeploymentPause>("deployment pause", "hold a deployment"),
    networked::<deployment::change::DeploymentResume>("deployment resume", "let a deployment go on"),
    networked::<deployment::change::DeploymentUnblock>(
        "deployment unblock",
        "let a blocked deployment go on",
    ),
    networked::<eval::list::EvalList>("eval list", "list evaluations"),
    networked::<eval::delete::EvalDelete>("eval delete", "delete evaluations while none is handed out"),
    networked::<why::JobWhy>("job why", "explain where a job finds a place, or why it finds none"),
    networked::<why::AllocWhy>("alloc why", "explain how an allocation became what it is"),
    networked::<why::EvalWhy>("eval why", "explain what an evaluation came to"),
    networked::<eval::status::EvalStatus>("eval status", "show an evaluation"),
    networked::<alloc::status::AllocStatus>("alloc status", "show an allocation"),
    networked::<alloc::logs::AllocLogs>("alloc logs", "print the output of a task"),
    networked::<alloc::fs::AllocFs>("alloc fs", "look at the files of an allocation"),
    Command {
        flags_first: true,
        ..networked::<alloc::exec::AllocExec>("alloc exec", "run a command beside a task")
    },
    networked::<alloc::restart::AllocRestart>("alloc restart", "restart the tasks of an allocation"),
    networked::<alloc::restart::AllocSignal>("alloc signal", "send a signal to tasks"),
    networked::<alloc::stop::AllocStop>("alloc stop", "stop an allocation and place it anew"),
    networked::<alloc::checks::AllocChecks>("alloc checks", "show the service checks of an allocation"),
    networked::<node::status::NodeStatus>("node status", "list nodes, or show one"),
    networked::<node::drain::NodeDrain>("node drain", "move all work off a node"),
    networked::<node::eligibility::NodeEligibility>("node eligibility", "let a node take new work, or not"),
    networked::<operator::namespace_show::NamespaceList>("namespace list", "list namespaces"),
    networked::<operator::namespace_show::NamespaceStatus>("namespace status", "show a namespace"),
    networked::<operator::namespace_show::NamespaceInspect>("namespace inspect", "print a namespace as JSON"),
    networked::<operator::namespace_change::NamespaceApply>(
        "namespace apply",
        "create or change a namespace",
    ),
    networked::<operator::namespace_change::NamespaceDelete>("namespace delete", "delete a namespace"),
    networked::<operator::servers::ServerMembers>("server members", "list the servers"),
    networked::<agent::info::AgentInfo>("agent-info", "show what the agent says of itself"),
    networked::<agent::info::Monitor>("monitor", "follow the agent's log"),
    networked::<operator::api::OperatorApi>("operator api", "send a request to the API"),
    networked::<operator::scheduler_config::GetConfig>(
        "operator scheduler get-config",
        "show how the scheduler works",
    ),
    networked::<operator::scheduler_config::SetConfig>(
        "operator scheduler set-config",
        "tell the scheduler how to work",
    ),
    networked::<operator::servers::OperatorMetrics>("operator metrics", "print the agent's metrics"),
    networked::<operator::servers::RaftListPeers>(
        "operator raft list-peers",
        "list the servers in consensus",
    ),
    networked::<operator::raft::RaftRemovePeer>("operator raft remove-peer", "remove a server for good"),
    networked::<operator::raft::RaftTransferLeadership>(
        "operator raft transfer-leadership",
        "let another server lead",
    ),
    networked::<operator::servers::CollectGarbage>("system gc", "forget at once what has ended"),
    networked::<operator::servers::ReconcileSummaries>(
        "system reconcile summaries",
        "count all jobs' summaries anew",
    ),
    networked::<operator::servers::Ui>("ui", "print where the web interface is"),
    networked::<node::config::NodeConfig>("node config", "list the servers that a node talks to"),
    networked::<node::meta::NodeMetaRead>("node meta read", "show a node's metadata"),
    networked::<node::meta::NodeMetaApply>("node meta apply", "set a node's metadata"),
    networked::<node::pool_show::NodePoolList>("node pool list", "list node pools"),
    networked::<node::pool_show::NodePoolInfo>("node pool info", "show a node pool"),
    networked::<node::pool_show::NodePoolNodes>("node pool nodes", "list the nodes of a node pool"),
    networked::<node::pool_show::NodePoolJobs>("node pool jobs", "list the jobs that choose a node pool"),
    networked::<node::pool_change::NodePoolApply>("node pool apply", "create or change a node pool"),
    networked::<node::pool_change::NodePoolDelete>("node pool delete", "delete a node pool"),
    local::<node::pool_change::NodePoolInit>("node pool init", "write an example of a node pool's file"),
    networked::<status::Status>("status", "show whatever has this id"),
    local::<agent::keeper::KeeperRun>("keeper run", "run the parent of all tasks"),
    local::<agent::keeper::KeeperStatus>("keeper status", "list what the keeper runs"),
    local::<agent::keeper::KeeperStop>("keeper stop", "stop the keeper and all its tasks"),
    local::<job::fmt::Fmt>("fmt", "lay out job files canonically"),
    local::<agent::config_validate::ConfigValidate>("config validate", "check configuration files"),
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
