//! One step of an HTTP request at a server, through `api` as a socket would bring it.
//!
//! Refuses to know: sockets, who asks, and what comes of it.

use super::place::ServerAt;
use super::world::World;
use api::agent::AgentInfo;
use api::{RequestContext, RouteOutcome, WaitState, route};
use wire::http::Request;
use wire::status::ServerStatus;

/// What every server's API knows of its agent.
pub struct HttpAgent(AgentInfo);

impl HttpAgent {
    pub fn new() -> Self {
        HttpAgent(AgentInfo {
            name: "server".into(),
            region: "global".into(),
            datacenter: "dc1".into(),
            server: true,
            job_max_priority: 100,
            job_default_priority: 50,
            job_max_source_bytes: 1_000_000,
            ..AgentInfo::default()
        })
    }
}

impl World {
    /// `None`: the server is down.
    pub fn route(&self, at: ServerAt, request: &Request, state: WaitState) -> Option<RouteOutcome> {
        let status = self.regions[at].brain.as_ref()?.status();
        self.route_with(at, request, state, &status)
    }

    /// As if the server led its region.
    pub fn route_as_leader(&self, at: ServerAt, request: &Request) -> Option<RouteOutcome> {
        let status = self.regions[at].brain.as_ref()?.status();
        let leads = ServerStatus { ready: true, ..ServerStatus::clone(&status) };
        self.route_with(at, request, WaitState::default(), &leads)
    }

    fn route_with(
        &self,
        at: ServerAt,
        request: &Request,
        state: WaitState,
        status: &ServerStatus,
    ) -> Option<RouteOutcome> {
        let server = self.regions[at].brain.as_ref()?;
        let reader = server.reader();
        let ctx = RequestContext {
            reader: &reader,
            status,
            agent: &self.http_agent.0,
            threads: || None,
            zones: super::launches::zone,
            client: None,
            now: self.now,
            seed: self.now.0,
        };
        Some(route(request, &ctx, state))
    }
}
