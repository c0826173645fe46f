//! The table of commands, their aliases, and the commands that Nomad has and drover does not have yet.

use crate::cli::{Env, Prepared, Run, Say, prepare};
use crate::cli::{
    agent_command, alloc_ask, alloc_exec, alloc_fs, alloc_logs, alloc_status, job_run, job_status, job_stop,
};
use crate::cli::{keeper_command, node_meta, node_status, status, version};
use argh::{ArgsInfo, FromArgs};

pub struct Command {
    pub name: &'static str,
    pub about: &'static str,
    /// It asks an agent, and so takes the global flags.
    pub networked: bool,
    /// What follows its first argument is another's command line.
    pub flags_first: bool,
    pub prepare: fn(&Command, &[String], Env<'_>) -> Result<Prepared, Say>,
}

pub static COMMANDS: &[Command] = &[
    local::<agent_command::Agent>("agent", "run an agent"),
    networked::<job_run::JobRun>("job run", "run or update a job"),
    networked::<job_status::JobStatus>("job status", "list jobs, or show one"),
    networked::<job_stop::JobStop>("job stop", "stop jobs"),
    networked::<alloc_status::AllocStatus>("alloc status", "show an allocation"),
    networked::<alloc_logs::AllocLogs>("alloc logs", "print the output of a task"),
    networked::<alloc_fs::AllocFs>("alloc fs", "look at the files of an allocation"),
    Command {
        flags_first: true,
        ..networked::<alloc_exec::AllocExec>("alloc exec", "run a command beside a task")
    },
    networked::<alloc_ask::AllocRestart>("alloc restart", "restart the tasks of an allocation"),
    networked::<alloc_ask::AllocSignal>("alloc signal", "send a signal to tasks"),
    networked::<node_status::NodeStatus>("node status", "list nodes, or show one"),
    networked::<node_meta::NodeMetaRead>("node meta read", "show a node's metadata"),
    networked::<node_meta::NodeMetaApply>("node meta apply", "set a node's metadata"),
    networked::<status::Status>("status", "show whatever has this id"),
    local::<keeper_command::KeeperRun>("keeper run", "run the parent of all tasks"),
    local::<keeper_command::KeeperStatus>("keeper status", "list what the keeper runs"),
    local::<keeper_command::KeeperStop>("keeper stop", "stop the keeper and all its tasks"),
    local::<version::Version>("version", "print the version"),
];

const fn networked<T: FromArgs + ArgsInfo + Run + 'static>(
    name: &'static str,
    about: &'static str,
) -> Command {
    Command { name, about, networked: true, flags_first: false, prepare: prepare::<T> }
}

const fn local<T: FromArgs + ArgsInfo + Run + 'static>(name: &'static str, about: &'static str) -> Command {
    Command { name, about, networked: false, flags_first: false, prepare: prepare::<T> }
}

/// Reference: cli 1.4.
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

/// Reference: cli 2. A name of a group stands for all of the group that is not in `COMMANDS`.
pub static NOT_SUPPORTED: &[&str] = &[
    "job plan",
    "job validate",
    "job inspect",
    "job history",
    "job start",
    "job revert",
    "job promote",
    "job scale",
    "job scaling-events",
    "job dispatch",
    "job periodic",
    "job eval",
    "job restart",
    "job allocs",
    "job deployments",
    "job init",
    "job action",
    "job tag",
    "fmt",
    "alloc stop",
    "alloc checks",
    "alloc pause",
    "node drain",
    "node eligibility",
    "node config",
    "node pool",
    "node identity",
    "node intro",
    "server members",
    "server join",
    "server force-leave",
    "agent-info",
    "monitor",
    "system gc",
    "system reconcile",
    "ui",
    "eval status",
    "eval list",
    "eval delete",
    "deployment list",
    "deployment status",
    "deployment promote",
    "deployment fail",
    "deployment resume",
    "deployment unblock",
    "deployment pause",
    "namespace",
    "var",
    "service",
    "scaling",
    "volume",
    "plugin",
    "quota",
    "recommendation",
    "sentinel",
    "license",
    "setup",
    "operator",
    "acl",
    "login",
    "tls",
    "check",
    "config",
];
