//! Routes of the agent: `self`, `health`, `host`, `monitor`, the leader, the peers and the regions
//! (http-api.md 8).
//!
//! Refuses to know: where these values come from.

use crate::agent::ClientReport;
use crate::consistency::NO_LEADER;
use crate::host::HostRequest;
use crate::monitor::{MonitorLevel, MonitorRequest};
use crate::response::Response;
use crate::routes::client;
use crate::shape::agent::{AgentHealthShape, MembersShape, RoleHealth, SelfShape};
use crate::{Call, RelayTarget, RequestContext, RouteOutcome};
use model::member::{ServerMember, Suffrage};

pub fn own_self(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let ctx = call.ctx;
    let shape = SelfShape::new(ctx.agent, ctx.status, ctx.client, (ctx.threads)(), ctx.now);
    Ok(RouteOutcome::Respond(Response::json(&shape, call.query.pretty)))
}

/// 500 with the same JSON when a part is not well.
pub fn health(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let ctx = call.ctx;
    let asked: Vec<&str> = call.query.all("type").collect();
    let wanted = |part: &str| asked.is_empty() || asked.contains(&part);
    let health = AgentHealthShape {
        client: ctx.client.filter(|_| wanted("client")).map(client_health),
        server: (ctx.agent.server && wanted("server")).then(|| server_health(ctx)),
    };
    let well = [&health.client, &health.server].into_iter().flatten().all(|part| part.ok);
    let status = if well { 200 } else { 500 };
    Ok(RouteOutcome::Respond(Response::json(&health, call.query.pretty).status(status)))
}

fn client_health(client: &ClientReport) -> RoleHealth {
    if client.known_servers.is_empty() {
        return RoleHealth { ok: false, message: "no known servers".into() };
    }
    RoleHealth { ok: true, message: "ok".into() }
}

fn server_health(ctx: &RequestContext<'_>) -> RoleHealth {
    if let Some(fault) = &ctx.status.storage_fault {
        return RoleHealth { ok: false, message: fault.clone() };
    }
    match ctx.status.leader {
        None => RoleHealth { ok: false, message: NO_LEADER.to_string() },
        Some(_) => RoleHealth { ok: true, message: "ok".into() },
    }
}

pub fn members(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let shape = MembersShape::new(call.ctx.agent, call.ctx.status);
    Ok(RouteOutcome::Respond(Response::json(&shape, call.query.pretty)))
}

/// The servers that this agent's node asks.
pub fn servers(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let Some(client) = call.ctx.client else {
        return Err(Response::text(501, "this agent runs no node: ask one that does"));
    };
    let own = [call.ctx.agent.rpc_addr.clone()];
    let asked = if call.ctx.agent.server { &own[..] } else { &client.known_servers };
    Ok(RouteOutcome::Respond(Response::json(&asked, call.query.pretty)))
}

/// The agent that is meant. `None`: this one.
fn agent_meant(call: &Call<'_>) -> Result<Option<RelayTarget>, Response> {
    let (ctx, q) = (call.ctx, &call.query);
    if client::is_this_agent(call) {
        return Ok(None);
    }
    if let Some(id) = q.text("node_id").filter(|id| !id.is_empty()) {
        return Ok(client::other_node(call, id)?.map(RelayTarget::Node));
    }
    let named = q.text("server_id").unwrap_or_default();
    let unknown = || Response::text(404, format!("unknown Nomad server {named}"));
    let is_named = |id: u64, name: &str| {
        id.to_string() == named || name == named || format!("{name}.{}", ctx.agent.region) == named
    };
    let found = match named {
        "leader" => ctx.status.leader.ok_or_else(|| Response::text(500, NO_LEADER))?,
        _ if is_named(ctx.status.id, &ctx.agent.name) => ctx.status.id,
        _ => {
            let mut members = ctx.status.members.iter();
            members.find(|member| is_named(member.id, &member.info.name)).ok_or_else(unknown)?.id
        }
    };
    Ok(Some(RelayTarget::Server(found)).filter(|_| found != ctx.status.id))
}

/// The leader's RPC address; empty text when there is none.
pub fn leader(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let address = call.ctx.status.leading_member().map_or("", |member| &member.info.rpc_addr);
    Ok(RouteOutcome::Respond(Response::json(&address, call.query.pretty)))
}

pub fn peers(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let votes = |member: &&ServerMember| member.suffrage == Suffrage::Voter;
    let voters = call.ctx.status.members.iter().filter(votes);
    let peers: Vec<&str> = voters.map(|member| member.info.rpc_addr.as_str()).collect();
    Ok(RouteOutcome::Respond(Response::json(&peers, call.query.pretty)))
}

pub fn regions(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    Ok(RouteOutcome::Respond(Response::json(&[&call.ctx.agent.region], call.query.pretty)))
}

pub fn host(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let ctx = call.ctx;
    if let Some(other) = agent_meant(call)? {
        return Ok(call.relayed_to(other));
    }
    if !ctx.agent.enable_debug {
        let why = "the agent's configuration has to say enable_debug = true for this: Permission denied";
        return Err(Response::text(403, why));
    }
    let agent_id = ctx.client.map_or_else(|| ctx.agent.name.clone(), |c| c.node_id.to_string());
    Ok(RouteOutcome::Host(HostRequest::new(agent_id, call.query.pretty)))
}

pub fn monitor(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let q = &call.query;
    let present = |name: &str| q.text(name).is_some_and(|v| !v.is_empty());
    if present("node_id") && present("server_id") {
        return Err(Response::text(400, "Cannot target node and server simultaneously"));
    }
    if q.flag("log_include_location", false)? {
        return Err(Response::not_supported("log_include_location"));
    }
    let other = agent_meant(call)?;
    let level = match q.text("log_level").filter(|l| !l.is_empty()) {
        None => MonitorLevel::Info,
        Some(text) => level(text).ok_or_else(|| Response::text(400, format!("Unknown log level: {text}")))?,
    };
    let request = MonitorRequest { level, json: q.flag("log_json", false)?, plain: q.flag("plain", false)? };
    Ok(match other {
        Some(other) => call.relayed_to(other),
        None => RouteOutcome::Monitor(request),
    })
}

fn level(text: &str) -> Option<MonitorLevel> {
    Some(match text.to_ascii_uppercase().as_str() {
        "ERROR" | "ERR" => MonitorLevel::Error,
        "WARN" => MonitorLevel::Warn,
        "INFO" => MonitorLevel::Info,
        "DEBUG" => MonitorLevel::Debug,
        "TRACE" => MonitorLevel::Trace,
        _ => return None,
    })
}
