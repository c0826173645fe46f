//! What an agent tells of itself: `self`, `health`, the leader, the peers and the regions.
//!
//! Refuses to know: where these values come from. They are handed in, whole, by whoever runs the agent.

use super::metrics::Filter;
use super::query::Query;
use super::response::Response;
use super::shape::agent::{HealthShape, MembersShape, PartHealth, SelfShape};
use super::{Context, no_leader};
use model::id::NodeId;
use model::time::Span;
use wire::measured::Measured;

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
    /// `host:port` that other servers and nodes reach this one at.
    pub rpc_addr: String,
    pub data_dir: String,
    /// All settings that hold, as they are shown.
    pub config: serde_json::Map<String, serde_json::Value>,
    pub log_level: String,
    pub dev: bool,
    pub server: bool,
    pub client: bool,
    /// Jobs may not ask for more.
    pub job_max_priority: i64,
    /// Of a job that names none.
    pub job_default_priority: i64,
    /// Longer sources of jobs are not kept.
    pub job_max_source_bytes: usize,
    pub search: SearchRules,
    pub telemetry: Telemetry,
    /// Events are neither kept nor streamed.
    pub no_events: bool,
    /// Paths that tell more than an operator may want to show are open.
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
    pub filter: Filter,
}

/// What this agent's node says of itself at present.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientReport {
    pub node_id: NodeId,
    pub known_servers: Vec<String>,
    pub allocations: u64,
    /// How long ago a server last answered a heartbeat; `None` before the first.
    pub since_heartbeat: Option<Span>,
    pub heartbeat_ttl: Span,
    pub measured: Measured,
}

pub fn own_self(ctx: &Context<'_>, q: &Query) -> Response {
    Response::json(&SelfShape::new(ctx.agent, ctx.status, ctx.client), q.pretty)
}

/// 500 with the same JSON when a part is not well.
pub fn health(ctx: &Context<'_>, q: &Query) -> Response {
    let asked: Vec<&str> = q.all("type").collect();
    let wanted = |part: &str| asked.is_empty() || asked.contains(&part);
    let health = HealthShape {
        client: ctx.client.filter(|_| wanted("client")).map(client_health),
        server: (ctx.agent.server && wanted("server")).then(|| server_health(ctx)),
    };
    let well = [&health.client, &health.server].into_iter().flatten().all(|part| part.ok);
    Response::json(&health, q.pretty).status(if well { 200 } else { 500 })
}

fn client_health(client: &ClientReport) -> PartHealth {
    if client.known_servers.is_empty() {
        return PartHealth { ok: false, message: "no known servers".into() };
    }
    PartHealth { ok: true, message: "ok".into() }
}

fn server_health(ctx: &Context<'_>) -> PartHealth {
    if let Some(fault) = &ctx.status.storage_fault {
        return PartHealth { ok: false, message: fault.clone() };
    }
    match ctx.status.leader {
        None => PartHealth { ok: false, message: no_leader().to_string() },
        Some(_) => PartHealth { ok: true, message: "ok".into() },
    }
}

pub fn members(ctx: &Context<'_>, q: &Query) -> Response {
    Response::json(&MembersShape::new(ctx.agent, ctx.status), q.pretty)
}

/// The servers that this agent's node asks.
pub fn servers(ctx: &Context<'_>, q: &Query) -> Result<Response, Response> {
    if ctx.client.is_none() {
        return Err(Response::text(501, "this agent runs no node: ask one that does"));
    }
    Ok(Response::json(&[&ctx.agent.rpc_addr], q.pretty))
}

/// What concerns one agent cannot be asked of another yet: `node_id` and `server_id` may name this one only.
pub fn only_this_agent(ctx: &Context<'_>, q: &Query) -> Result<(), Response> {
    let own_node = |id: &str| ctx.client.is_some_and(|c| c.node_id.to_string() == id);
    if q.text("node_id").is_some_and(|id| !id.is_empty() && !own_node(id)) {
        return Err(Response::not_supported("node_id of another agent's node: ask that agent itself"));
    }
    let member = format!("{}.{}", ctx.agent.name, ctx.agent.region);
    let leads = ctx.status.leader == Some(ctx.status.id);
    let own_server = |id: &str| {
        id == member || id == ctx.agent.name || id == ctx.status.id.to_string() || (id == "leader" && leads)
    };
    if q.text("server_id").is_some_and(|id| !id.is_empty() && !own_server(id)) {
        return Err(Response::not_supported("server_id of another agent: ask that agent itself"));
    }
    Ok(())
}

/// The leader's RPC address; empty text when there is none.
pub fn leader(ctx: &Context<'_>, q: &Query) -> Response {
    let own = ctx.status.leader == Some(ctx.status.id);
    Response::json(&if own { ctx.agent.rpc_addr.as_str() } else { "" }, q.pretty)
}

pub fn peers(ctx: &Context<'_>, q: &Query) -> Response {
    let own = ctx.status.voters.contains(&ctx.status.id);
    let peers: Vec<&str> = own.then_some(ctx.agent.rpc_addr.as_str()).into_iter().collect();
    Response::json(&peers, q.pretty)
}

pub fn regions(ctx: &Context<'_>, q: &Query) -> Response {
    Response::json(&[&ctx.agent.region], q.pretty)
}
