//! The table of commands, their aliases, and the commands that Nomad has and drover does not have yet.

mod completion;

use crate::{CliCommand, Ready};
use crate::{agent, alloc, deployment, eval, job, node, operator, status, tls, version, why};
use argh::{ArgsInfo, CommandInfoWithArgs, EarlyExit, FromArgs};

/// The longest name of a command has so many: `operator gossip keyring generate`.
pub const MAX_WORDS: usize = 4;

pub struct CommandSpec {
    pub name: &'static str,
    pub about: &'static str,
    /// The command asks an agent, and so takes the global flags.
    pub networked: bool,
    /// What follows the first argument is another program's command line.
    pub flags_first: bool,
    /// The exit code of what goes wrong.
    pub failure: u8,
    /// The command's flags and arguments.
    pub info: fn() -> CommandInfoWithArgs,
    /// Parses arguments; the first parameter is the program's name, for messages.
    pub parse: fn(&[&str], &[&str]) -> Result<Ready, EarlyExit>,
}

#[rustfmt::skip]
pub static COMMANDS: &[CommandSpec] = &[
    local::<agent::run::AgentCommand>("agent", "run an agent"),
    networked::<job::run::JobRunCommand>("job run", "run or update a job"),
    CommandSpec { failure: job::plan::FAILED, ..networked::<job::plan::JobPlanCommand>("job plan", "show what running a job would change") },
    networked::<job::status::JobStatusCommand>("job status", "list jobs, or show one"),
    networked::<job::stop::JobStopCommand>("job stop", "stop jobs"),
    networked::<job::start::JobStartCommand>("job start", "run stopped jobs again"),
    networked::<job::inspect::JobInspectCommand>("job inspect", "print a job as JSON or as its file"),
    networked::<job::inspect::JobHistoryCommand>("job history", "list the versions of a job"),
    networked::<job::revert::JobRevertCommand>("job revert", "revert a job to an older version"),
    networked::<job::periodic::JobPeriodicForceCommand>("job periodic force", "launch a periodic job now"),
    networked::<job::dispatch::JobDispatchCommand>("job dispatch", "run a job with a payload and metadata"),
    networked::<job::tag::JobTagApplyCommand>("job tag apply", "tag a version of a job"),
    networked::<job::tag::JobTagUnsetCommand>("job tag unset", "remove the tag of a job version"),
    networked::<job::scaling::JobScaleCommand>("job scale", "change the count of a group"),
    networked::<job::scaling::JobScalingEventsCommand>("job scaling-events", "list how a job was scaled"),
    networked::<job::scaling::ScalingPolicyListCommand>("scaling policy list", "list scaling policies"),
    networked::<job::scaling::ScalingPolicyInfoCommand>("scaling policy info", "show a scaling policy"),
    networked::<job::validate::JobValidateCommand>("job validate", "check a job file without running it"),
    networked::<job::action::JobActionCommand>("job action", "run a predefined action of a task"),
    networked::<job::allocs::JobAllocsCommand>("job allocs", "list the allocations of a job"),
    networked::<job::allocs::JobEvalCommand>("job eval", "force an evaluation of a job"),
    local::<job::init::JobInitCommand>("job init", "write an example of a job file"),
    networked::<deployment::show::JobDeploymentsCommand>("job deployments", "list the deployments of a job"),
    networked::<deployment::change::JobPromoteCommand>("job promote", "promote a job's canaries"),
    networked::<deployment::show::DeploymentListCommand>("deployment list", "list deployments"),
    networked::<deployment::show::DeploymentStatusCommand>("deployment status", "show a deployment"),
    networked::<deployment::change::DeploymentPromoteCommand>("deployment promote", "promote a deployment's canaries"),
    networked::<deployment::change::DeploymentFailCommand>("deployment fail", "mark a deployment as failed"),
    networked::<deployment::change::DeploymentPauseCommand>("deployment pause", "pause a deployment"),
    networked::<deployment::change::DeploymentResumeCommand>("deployment resume", "resume a paused deployment"),
    networked::<deployment::change::DeploymentUnblockCommand>("deployment unblock", "unblock a deployment"),
    networked::<eval::list::EvalListCommand>("eval list", "list evaluations"),
    networked::<eval::delete::EvalDeleteCommand>("eval delete", "delete evaluations while the broker is paused"),
    networked::<why::JobWhyCommand>("job why", "explain why a job is placed where it is, or not at all"),
    networked::<why::AllocWhyCommand>("alloc why", "explain the state of an allocation"),
    networked::<why::EvalWhyCommand>("eval why", "explain the outcome of an evaluation"),
    networked::<eval::status::EvalStatusCommand>("eval status", "show an evaluation"),
    networked::<alloc::status::AllocStatusCommand>("alloc status", "show an allocation"),
    networked::<alloc::logs::AllocLogsCommand>("alloc logs", "print the output of a task"),
    networked::<alloc::fs::AllocFsCommand>("alloc fs", "list or print the files of an allocation"),
    CommandSpec { flags_first: true, ..networked::<alloc::exec::AllocExecCommand>("alloc exec", "run a command in a task's environment") },
    networked::<alloc::restart::AllocRestartCommand>("alloc restart", "restart the tasks of an allocation"),
    networked::<alloc::restart::AllocSignalCommand>("alloc signal", "send a signal to tasks"),
    networked::<alloc::stop::AllocStopCommand>("alloc stop", "stop and reschedule an allocation"),
    networked::<alloc::checks::AllocChecksCommand>("alloc checks", "show the service checks of an allocation"),
    networked::<node::status::NodeStatusCommand>("node status", "list nodes, or show one"),
    networked::<node::drain::NodeDrainCommand>("node drain", "drain a node"),
    networked::<node::eligibility::NodeEligibilityCommand>("node eligibility", "set whether new work may be placed on a node"),
    networked::<operator::namespace_show::NamespaceListCommand>("namespace list", "list namespaces"),
    networked::<operator::namespace_show::NamespaceStatusCommand>("namespace status", "show a namespace"),
    networked::<operator::namespace_show::NamespaceInspectCommand>("namespace inspect", "print a namespace as JSON"),
    networked::<operator::namespace_change::NamespaceApplyCommand>("namespace apply", "create or change a namespace"),
    networked::<operator::namespace_change::NamespaceDeleteCommand>("namespace delete", "delete a namespace"),
    networked::<operator::servers::ServerMembersCommand>("server members", "list the servers"),
    local::<agent::join::ServerInitCommand>("server init", "make this machine the first server of a region"),
    networked::<agent::info::AgentInfoCommand>("agent-info", "show status and statistics of the agent"),
    networked::<agent::info::MonitorCommand>("monitor", "follow the agent's log"),
    networked::<operator::api::OperatorApiCommand>("operator api", "send a request to the API"),
    networked::<operator::scheduler_config::GetConfigCommand>("operator scheduler get-config", "show the scheduler configuration"),
    networked::<operator::scheduler_config::SetConfigCommand>("operator scheduler set-config", "change the scheduler configuration"),
    networked::<operator::servers::OperatorMetricsCommand>("operator metrics", "print the agent's metrics"),
    local::<operator::gossip::KeyringGenerateCommand>("operator gossip keyring generate", "make a key for the servers of a region"),
    networked::<operator::servers::RaftListPeersCommand>("operator raft list-peers", "list the Raft peers"),
    networked::<operator::raft::RaftRemovePeerCommand>("operator raft remove-peer", "remove a server for good"),
    networked::<operator::raft::RaftTransferLeadershipCommand>("operator raft transfer-leadership", "make another server the leader"),
    networked::<operator::join_tokens::TokenCreateCommand>("token create", "make a token with which machines join the region"),
    networked::<operator::join_tokens::TokenListCommand>("token list", "list join tokens"),
    networked::<operator::join_tokens::TokenRevokeCommand>("token revoke", "revoke a join token"),
    local::<agent::join::JoinCommand>("join", "make this machine one of a region"),
    networked::<operator::servers::SystemGcCommand>("system gc", "run the garbage collector now"),
    networked::<operator::servers::ReconcileSummariesCommand>("system reconcile summaries", "reconcile the summaries of all jobs"),
    networked::<operator::servers::UiCommand>("ui", "print the address of the web interface"),
    networked::<node::config::NodeConfigCommand>("node config", "list the servers of a client node"),
    networked::<node::meta::NodeMetaReadCommand>("node meta read", "show a node's metadata"),
    networked::<node::meta::NodeMetaApplyCommand>("node meta apply", "set a node's metadata"),
    networked::<node::pool_show::NodePoolListCommand>("node pool list", "list node pools"),
    networked::<node::pool_show::NodePoolInfoCommand>("node pool info", "show a node pool"),
    networked::<node::pool_show::NodePoolNodesCommand>("node pool nodes", "list the nodes of a node pool"),
    networked::<node::pool_show::NodePoolJobsCommand>("node pool jobs", "list the jobs of a node pool"),
    networked::<node::pool_change::NodePoolApplyCommand>("node pool apply", "create or change a node pool"),
    networked::<node::pool_change::NodePoolDeleteCommand>("node pool delete", "delete a node pool"),
    local::<node::pool_change::NodePoolInitCommand>("node pool init", "write an example of a node pool's file"),
    networked::<status::StatusCommand>("status", "show the object with this id or prefix"),
    local::<agent::keeper::KeeperRunCommand>("keeper run", "run the keeper, the parent process of all tasks"),
    local::<agent::keeper::KeeperStatusCommand>("keeper status", "list the processes of the keeper"),
    local::<agent::keeper::KeeperStopCommand>("keeper stop", "stop the keeper and all its tasks"),
    local::<job::fmt::FmtCommand>("fmt", "format HCL files"),
    local::<agent::config_validate::ConfigValidateCommand>("config validate", "check configuration files"),
    local::<tls::ca::TlsCaCreateCommand>("tls ca create", "make a certificate authority"),
    local::<tls::cert::TlsCertCreateCommand>("tls cert create", "make a certificate of an authority"),
    local::<completion::CompletionCommand>("completion", "print a shell's completion script"),
    local::<completion::CompleteCommand>("complete", "print completions of a command line"),
    local::<version::VersionCommand>("version", "print the version"),
];

const fn networked<T: FromArgs + ArgsInfo + CliCommand + 'static>(
    name: &'static str,
    about: &'static str,
) -> CommandSpec {
    CommandSpec {
        name,
        about,
        networked: true,
        flags_first: false,
        failure: 1,
        info: T::get_args_info,
        parse: parse::<T>,
    }
}

const fn local<T: FromArgs + ArgsInfo + CliCommand + 'static>(
    name: &'static str,
    about: &'static str,
) -> CommandSpec {
    CommandSpec {
        name,
        about,
        networked: false,
        flags_first: false,
        failure: 1,
        info: T::get_args_info,
        parse: parse::<T>,
    }
}

fn parse<T: FromArgs + CliCommand + 'static>(name: &[&str], args: &[&str]) -> Result<Ready, EarlyExit> {
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
    "tls ca info",
    "tls cert info",
    "check",
];
