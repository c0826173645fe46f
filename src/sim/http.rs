//! One step of an HTTP request at the agent of a server or a node, through `api` as a socket would bring it.
//!
//! Refuses to know: sockets, who asks, and what comes of it.

use super::place::{Machine, NodeAt, ServerAt};
use super::world::World;
use api::agent::{AgentInfo, ClientReport};
use api::{RequestContext, RouteOutcome, WaitState, route};
use wire::http::Request;
use wire::status::ServerStatus;

/// What every server's API knows of its agent, and every node's.
pub struct HttpAgent {
    server: AgentInfo,
    node: AgentInfo,
    /// What a node's agent knows of a server of its own.
    no_server: ServerStatus,
}

impl HttpAgent {
    pub fn new() -> Self {
        let server = AgentInfo {
            name: "server".into(),
            region: "global".into(),
            datacenter: "dc1".into(),
            server: true,
            job_max_priority: 100,
            job_default_priority: 50,
            job_max_source_bytes: 1_000_000,
            ..AgentInfo::default()
        };
        let node = AgentInfo { name: "node".into(), server: false, client: true, ..server.clone() };
        HttpAgent { server, node, no_server: ServerStatus::default() }
    }
}

impl World {
    /// `None`: the agent is down.
    pub fn route(&self, at: Machine, request: &Request, state: WaitState) -> Option<RouteOutcome> {
        match at {
            Machine::Server(at) => {
                let status = self.regions[at].brain.as_ref()?.status();
                self.route_with(at, request, state, &status)
            }
            Machine::Node(at) => self.route_at_node(at, request, state),
        }
    }

    fn route_at_node(&self, at: NodeAt, request: &Request, state: WaitState) -> Option<RouteOutcome> {
        let status = self.regions[at].client.as_ref()?.status();
        let client = ClientReport {
            node_id: status.node,
            known_servers: vec![],
            allocs: status.allocs,
            since_heartbeat: None,
            heartbeat_ttl: status.heartbeat_ttl,
            measured: status.measured,
        };
        let ctx = RequestContext {
            reader: None,
            status: &self.http_agent.no_server,
            agent: &self.http_agent.node,
            random: || Some([7; 48]),
            threads: || None,
            zones: super::launches::zone,
            client: Some(&client),
            now: self.now,
            seed: self.now.0,
        };
        Some(route(request, &ctx, state))
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
            reader: Some(&reader),
            status,
            agent: &self.http_agent.server,
            random: || Some([7; 48]),
            threads: || None,
            zones: super::launches::zone,
            client: None,
            now: self.now,
            seed: self.now.0,
        };
        Some(route(request, &ctx, state))
    }
}
