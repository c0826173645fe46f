//! The API over a real store: requests in, answers out, no socket.

mod actions;
mod client;
mod consistency;
mod deployments;
mod evaluations;
mod filters;
mod hostile;
mod join_tokens;
mod members;
mod namespaces_and_search;
mod nodes;
mod observe;
mod operator;
mod reads;
mod resources;
mod scaling;
mod shapes;
mod versions;
mod waits;
mod without_server;
mod writes;

use super::agent::{AgentInfo, ClientReport};
use super::host::HostData;
use super::metrics::HostMetrics;
use super::presentation::Presentation;
use super::response::Response;
use super::{
    RelayTarget, RequestContext, RouteOutcome, Wait, WaitState, WriteResponder, may_be_relayed, route,
};
use model::alloc::ClientStatus;
use model::eval::EvalStatus;
use model::member::{ServerInfo, ServerMember, Suffrage};
use model::time::{Mono, Span};
use serde_json::Value;
use state::samples::{AT, Region, alloc, eval, eval_id, node_id, place, register, report, spec};
use std::sync::Arc;
use wire::client_rpc::ClientRequest;
use wire::command::Command;
use wire::http::{Method, Request};
use wire::metrics::MetricsSnapshot;
use wire::request::WriteRequest;
use wire::status::ServerStatus;

/// A server that votes.
fn member(id: u64, name: &str, rpc_addr: &str) -> ServerMember {
    let info = ServerInfo {
        name: name.into(),
        region: "eu".into(),
        datacenter: "dc1".into(),
        rpc_addr: rpc_addr.into(),
        ..ServerInfo::default()
    };
    ServerMember { id, info, suffrage: Suffrage::Voter, create_index: 1, modify_index: 1 }
}

/// A region with its leader, a node and what these tests register.
struct World {
    region: Region,
    status: ServerStatus,
    agent: AgentInfo,
    client: Option<ClientReport>,
    now: Mono,
    machine: HostMetrics,
}

impl World {
    fn new() -> World {
        let agent = AgentInfo {
            name: "edge-1".into(),
            region: "eu".into(),
            datacenter: "dc1".into(),
            version: "0.1.0".into(),
            compatible_version: "2.0.5".into(),
            http_addr: "127.0.0.1:4646".into(),
            rpc_addr: "127.0.0.1:4647".into(),
            server: true,
            client: true,
            job_max_priority: 100,
            job_default_priority: 50,
            job_max_source_bytes: 1_000_000,
            ..AgentInfo::default()
        };
        let status =
            ServerStatus { id: 7, leader: Some(7), ready: true, voters: vec![7], ..ServerStatus::default() };
        let members = Arc::new(vec![member(7, "edge-1", "127.0.0.1:4647")]);
        let status = ServerStatus { members, ..status };
        let client = ClientReport {
            node_id: node_id(1),
            known_servers: vec!["127.0.0.1:4647".into()],
            allocs: vec![],
            since_heartbeat: None,
            heartbeat_ttl: Span::seconds(10),
            measured: MetricsSnapshot::default(),
        };
        World {
            region: Region::default(),
            status,
            agent,
            client: Some(client),
            now: Mono(0),
            machine: HostMetrics::default(),
        }
    }

    /// With node 1, job `web` and its evaluation 1, and allocation 1 that runs.
    fn running() -> World {
        let mut world = World::new();
        world.region.ready_node(1);
        world.job("web", 1);
        let job = world.region.job("web");
        let allocs = vec![alloc(1, &job, node_id(1), eval_id(1))];
        let mut done = eval(1, "web");
        done.status = EvalStatus::Complete;
        let plan = Command::ApplyPlan {
            eval: eval_id(1),
            nodes: place(allocs),
            deployment: None,
            updates: vec![],
            evals: vec![done],
            at: AT,
        };
        world.region.run(&plan);
        world.report(ClientStatus::Running);
        world
    }

    fn job(&mut self, id: &str, eval_number: u128) {
        self.region.run(&register(spec(id, 1), Some(eval(eval_number, id)))).reply.unwrap();
    }

    fn report(&mut self, client: ClientStatus) {
        let mut update = report(1, client);
        for state in update.task_states.values_mut() {
            state.started_at = AT;
        }
        let updates = vec![update];
        self.region.run(&Command::UpdateAllocs {
            seen: u64::MAX,
            node: node_id(1),
            updates,
            verdicts: vec![],
            evals: vec![],
            at: AT,
        });
    }

    fn step(&self, request: &Request, state: WaitState) -> RouteOutcome {
        let reader = self.region.store.reader();
        let context = RequestContext {
            reader: Some(&reader),
            status: &self.status,
            agent: &self.agent,
            zones: |_| None,
            random: || Some([7; 48]),
            threads: || Some(3),
            client: self.client.as_ref(),
            now: self.now,
            seed: 3,
        };
        route(request, &context, state)
    }

    fn respond(&self, method: Method, target: &str, body: &str) -> Response {
        match self.step(&request(method, target, body), WaitState::default()) {
            RouteOutcome::Respond(response) => response,
            RouteOutcome::Write(action, _) => panic!("{target}: an action {action:?}"),
            RouteOutcome::PlanJob(asked, _) => panic!("{target}: {asked:?}"),
            RouteOutcome::Explain(subject, _) => panic!("{target}: {subject:?}"),
            RouteOutcome::Wait(_) => panic!("{target}: a wait"),
            RouteOutcome::Forward(_) => panic!("{target}: is forwarded"),
            RouteOutcome::ForwardToServer { .. } => panic!("{target}: is forwarded to a server"),
            RouteOutcome::ConfirmRead(_) => panic!("{target}: a read to be confirmed"),
            RouteOutcome::Events(subscription) => panic!("{target}: {subscription:?}"),
            RouteOutcome::Metrics(metrics) => metrics.response(&self.machine),
            RouteOutcome::Host(host) => host.response(HostData::default()),
            RouteOutcome::Monitor(monitor) => panic!("{target}: {monitor:?}"),
            RouteOutcome::Compute(compute) => compute(),
            RouteOutcome::AskClient(ask, _) => panic!("{target}: {ask:?}"),
            RouteOutcome::Relay(to, _) => panic!("{target}: is relayed to {to:?}"),
        }
    }

    fn get(&self, target: &str) -> Response {
        self.respond(Method::Get, target, "")
    }

    fn json(&self, target: &str) -> Value {
        let response = self.get(target);
        assert_eq!(response.status, 200, "{target}: {}", text(&response));
        serde_json::from_slice(&response.body).unwrap()
    }

    fn act(&self, method: Method, target: &str, body: &str) -> (WriteRequest, WriteResponder) {
        match self.step(&request(method, target, body), WaitState::default()) {
            RouteOutcome::Write(action, answer) => (action, answer),
            RouteOutcome::Respond(response) => panic!("{target}: {} {}", response.status, text(&response)),
            _ => panic!("{target}: no action"),
        }
    }

    fn wait(&self, target: &str, state: WaitState) -> Option<Wait> {
        match self.step(&request(Method::Get, target, ""), state) {
            RouteOutcome::Wait(wait) => Some(wait),
            _ => None,
        }
    }

    fn ask(&self, method: Method, target: &str, body: &str) -> Result<(ClientRequest, Presentation), String> {
        match self.step(&request(method, target, body), WaitState::default()) {
            RouteOutcome::AskClient(ask, presentation) => Ok((ask, presentation)),
            RouteOutcome::Respond(response) => Err(format!("{} {}", response.status, text(&response))),
            _ => panic!("{target}: no question to a node"),
        }
    }

    /// Where it goes, and as what.
    fn relayed(&self, method: Method, target: &str, body: &str) -> (RelayTarget, Request) {
        match self.step(&request(method, target, body), WaitState::default()) {
            RouteOutcome::Relay(to, request) => (to, *request),
            RouteOutcome::Respond(response) => panic!("{target}: {} {}", response.status, text(&response)),
            _ => panic!("{target}: it is not relayed"),
        }
    }
}

fn request(method: Method, target: &str, body: &str) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Request {
        method,
        path: path.into(),
        query: query.into(),
        body: body.as_bytes().to_vec(),
        websocket: path.ends_with("/exec") || path.ends_with("/action"),
    }
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}
