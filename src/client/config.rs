//! The configuration of the client, set once by its agent.

use model::id::{NodeId, NodeSecret};
use model::task::DEFAULT_MAX_KILL_TIMEOUT;
use model::time::Span;

#[derive(Clone, Debug)]
pub struct Config {
    pub node: NodeId,
    pub secret: NodeSecret,
    pub region: String,
    /// Absolute; each allocation's directory lies in it.
    pub alloc_dir: String,
    /// Raft ids of the servers to ask, in order of preference.
    pub servers: Vec<u64>,
    /// Servers that the region lists are asked, too: not by a node whose agent is a server, which relays for it.
    pub asks_listed: bool,
    /// No task is given longer than this to end.
    pub max_kill_timeout: Span,
    /// Ended allocations that are kept for their logs.
    pub max_ended: usize,
    /// Commands may be run beside tasks on others' demand.
    pub remote_exec: bool,
    /// Dev mode: one machine, one user, nothing to spread, so that retries come after a second.
    pub dev: bool,
    /// The agent's own environment: handed on to tasks, except for what `env_denylist` names.
    pub host_env: Vec<(String, String)>,
    pub env_denylist: Vec<String>,
    /// Shown to tasks as NOMAD_PARENT_CGROUP. Empty: not shown.
    pub parent_cgroup: String,
}

impl Config {
    pub fn new(node: NodeId, secret: NodeSecret, alloc_dir: impl Into<String>) -> Config {
        Config {
            node,
            secret,
            region: "global".into(),
            alloc_dir: alloc_dir.into(),
            servers: Vec::new(),
            asks_listed: true,
            max_kill_timeout: DEFAULT_MAX_KILL_TIMEOUT,
            max_ended: DEFAULT_MAX_ENDED,
            remote_exec: true,
            dev: false,
            host_env: Vec::new(),
            env_denylist: ENV_DENYLIST.iter().map(|s| s.to_string()).collect(),
            parent_cgroup: String::new(),
        }
    }
}

pub const DEFAULT_MAX_ENDED: usize = 50;

/// Credentials of the agent that no task gets to see (client.md 15.5).
pub const ENV_DENYLIST: [&str; 8] = [
    "CONSUL_TOKEN",
    "CONSUL_HTTP_TOKEN",
    "VAULT_TOKEN",
    "NOMAD_LICENSE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
];
