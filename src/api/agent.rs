//! The agent as values: its fixed settings, and the reports of its node.
//!
//! Refuses to know: where these values come from, and how they are shown. They are handed in, whole, by whoever runs the agent.

use crate::metrics::names::PrefixFilter;
use model::id::{AllocId, NodeId};
use model::time::Span;
use wire::metrics::MetricsSnapshot;

/// What stays the same while the agent runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentInfo {
    pub name: String,
    pub region: String,
    pub datacenter: String,
    /// drover's own version.
    pub version: String,
    /// The version of the API that it speaks, for clients that compare it.
    pub compatible_version: String,
    pub bind_addr: String,
    /// `host:port` that others reach the HTTP API at.
    pub http_addr: String,
    /// HTTPS is spoken there.
    pub https: bool,
    /// `host:port` that other servers and nodes reach this one at.
    pub rpc_addr: String,
    pub data_dir: String,
    /// All settings that hold, as they are shown.
    pub config: serde_json::Map<String, serde_json::Value>,
    pub log_level: String,
    pub dev: bool,
    /// That the process may run on.
    pub cpus: usize,
    pub server: bool,
    pub client: bool,
    /// Jobs may not ask for more.
    pub job_max_priority: i64,
    /// The priority of a job that names none.
    pub job_default_priority: i64,
    /// Longer sources of jobs are not kept.
    pub job_max_source_bytes: usize,
    pub search: SearchRules,
    pub telemetry: Telemetry,
    /// Events are neither kept nor streamed.
    pub no_events: bool,
    /// SHA-256 of the public key by which the region's machines know each other; `None`: they have none.
    pub region_key_digest: Option<[u8; 32]>,
    /// `enable_debug`: routes that show the machine are open.
    pub enable_debug: bool,
}

/// What a search by a part of a name may cost (http-api.md 7.6, cli.md 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchRules {
    pub fuzzy_enabled: bool,
    /// Objects of a kind that are looked at.
    pub limit_query: u32,
    /// Matches of a context that are told.
    pub limit_results: u32,
    /// Characters.
    pub min_term_length: u32,
}

impl Default for SearchRules {
    fn default() -> Self {
        SearchRules { fuzzy_enabled: true, limit_query: 20, limit_results: 100, min_term_length: 2 }
    }
}

/// Which metrics are told, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    pub prometheus: bool,
    /// Figures of the machine, too.
    pub publish_node: bool,
    /// What each task uses, too.
    pub publish_allocations: bool,
    /// Summaries of dispatched jobs are left out of the metrics.
    pub hide_dispatched: bool,
    /// The label `host` of gauges; `None`: they have none.
    pub host: Option<String>,
    pub filter: PrefixFilter,
}

/// The latest report of this agent's node.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientReport {
    pub node_id: NodeId,
    pub known_servers: Vec<String>,
    /// Those that it has, ascending.
    pub allocs: Vec<AllocId>,
    /// How long ago a server last answered a heartbeat; `None` before the first.
    pub since_heartbeat: Option<Span>,
    pub heartbeat_ttl: Span,
    pub measured: MetricsSnapshot,
}
