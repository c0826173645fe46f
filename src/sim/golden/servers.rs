//! Golden samples of what servers say to each other, of what machines show to each other, and of what they answer for nodes' users.

use super::Samples;
use model::claims::Claim;
use model::id::{EvalToken, NodeId};
use model::job::JobType;
use model::plan::{Decision, GroupChanges, Plan};
use model::resources::{Amount, Holding};
use state::samples::{AT, alloc, eval, eval_id, info, node_id, place};
use wire::credential::Credential;
use wire::http::{ForwardedResponse, Method, NodeHttpReply, NodeHttpRequest, Request};
use wire::relay::{RelayHeader, RelayRefusal, RelayWelcome, RelayedAnswer, RelayedRequest};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::{NodeReply, NodeRequest, Peer};
use wire::server_rpc::{InFlightPlan, RemoteDecision, RemoteTask, ServerReply, ServerRequest, TakenOnNode};

pub fn servers(s: &mut Samples) {
    let node: NodeId = node_id(1);
    s.add("http", &ServerRequest::Http(Box::new(request())));
    let request = NodeRequest::Heartbeat { node, secret: info(1).secret };
    s.add("node", &ServerRequest::Node { node, request });
    s.add("dequeue", &ServerRequest::Dequeue { free: 3, enabled: vec![JobType::Service, JobType::Sysbatch] });
    let (eval, token) = (eval(1, "web"), EvalToken::from_random(7));
    let nodes = place(vec![alloc(1, &super::job(), node, eval.id)]);
    let plan = Plan { eval_id: eval.id, snapshot_index: 9, nodes, ..Plan::default() };
    let changes = GroupChanges { place: 1, ..GroupChanges::default() };
    let desired = [("g".to_string(), changes)].into();
    let decision = Decision { plan, eval: eval.clone(), created: vec![], desired };
    let planned = RemoteDecision { eval: eval.id, token, result: Ok(decision), is_split: true };
    s.add("planned", &ServerRequest::Planned(Box::new(planned)));
    let failed = RemoteDecision { eval: eval.id, token, result: Err("no".into()), is_split: false };
    s.add("failed", &ServerRequest::Planned(Box::new(failed)));
    s.add("clock", &ServerRequest::Clock { wall: AT });
    let holding = Holding { amount: Amount { cpu_mhz: 500, ..Amount::ZERO }, claims: vec![Claim::Core(3)] };
    let nodes = vec![TakenOnNode { node, holding, allocs: 1 }];
    let in_flight = vec![InFlightPlan { eval: eval_id(2), token, visible_at: 12, nodes }];
    let (attempt, snapshot_index, min_index, at, seed) = (1, 9, 9, AT, 300);
    let task = RemoteTask { eval, token, attempt, snapshot_index, min_index, at, seed, in_flight };
    s.add("deliver", &ServerReply::Deliver { tasks: vec![task] });
    s.add("http", &ServerReply::Http(response()));
    s.add("not leader", &ServerReply::NotLeader);
    s.add("refused", &ServerReply::Refused(Refusal::new(RefusalKind::Busy, "no")));
    s.add("node", &ServerReply::Node { node, reply: NodeReply::Reported { index: 9 } });
}

pub fn for_nodes(s: &mut Samples) {
    let (node, secret) = (node_id(1), info(1).secret);
    s.add("write", &NodeHttpRequest { node, secret, request: request() });
    s.add("answered", &NodeHttpReply::Answered(response()));
    s.add("not done", &NodeHttpReply::NotDone);
    s.add("refused", &NodeHttpReply::Refused(Refusal::new(RefusalKind::Busy, "no")));
}

pub fn relays(s: &mut Samples) {
    s.add("node", &RelayHeader { to: Peer::Node(node_id(1)), hops: 1 });
    s.add("server", &RelayHeader { to: Peer::Server(300), hops: 2 });
    s.add("taken", &RelayWelcome::Taken);
    s.add("not here", &RelayWelcome::Refused(RelayRefusal::NotHere));
    s.add("busy", &RelayWelcome::Refused(RelayRefusal::Busy));
    s.add("wrong role", &RelayWelcome::Refused(RelayRefusal::WrongRole));
    s.add("malformed", &RelayWelcome::Refused(RelayRefusal::Malformed));
    s.add("write", &RelayedRequest(request()));
    s.add("whole", &RelayedAnswer::Whole(response()));
    s.add("stream", &RelayedAnswer::Stream { content_type: "text/plain".into() });
    s.add("session", &RelayedAnswer::Session);
}

pub fn credentials(s: &mut Samples) {
    let credential = |peer| Credential { region: "global".into(), peer, key: [3; 32] };
    s.add("node", &credential(Peer::Node(node_id(1))));
    s.add("server", &credential(Peer::Server(7)));
    s.add("server", &credential(Peer::Server(7)).signed(|_| [9; 64]));
}

fn request() -> Request {
    Request {
        method: Method::Put,
        path: "/v1/jobs".into(),
        query: "pretty".into(),
        body: b"{}".to_vec(),
        websocket: false,
    }
}

fn response() -> ForwardedResponse {
    let headers = vec![("X-Nomad-Index".to_string(), "7".to_string())];
    ForwardedResponse { status: 200, headers, body: b"[]".to_vec() }
}
