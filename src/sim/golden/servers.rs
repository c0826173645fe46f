//! Golden samples of what servers say to each other.

use super::Samples;
use model::id::NodeId;
use state::samples::{info, node_id};
use wire::http::{ForwardedResponse, Method, Request};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::{NodeReply, NodeRequest};
use wire::server_rpc::{ServerReply, ServerRequest};

pub fn servers(s: &mut Samples) {
    let node: NodeId = node_id(1);
    let request = Request {
        method: Method::Put,
        path: "/v1/jobs".into(),
        query: "pretty".into(),
        body: b"{}".to_vec(),
        websocket: false,
    };
    s.add("http", &ServerRequest::Http(Box::new(request)));
    let request = NodeRequest::Heartbeat { node, secret: info(1).secret };
    s.add("node", &ServerRequest::Node { node, request });
    let headers = vec![("X-Nomad-Index".to_string(), "7".to_string())];
    s.add("http", &ServerReply::Http(ForwardedResponse { status: 200, headers, body: b"[]".to_vec() }));
    s.add("not leader", &ServerReply::NotLeader);
    s.add("refused", &ServerReply::Refused(Refusal::new(RefusalKind::Busy, "no")));
    s.add("node", &ServerReply::Node { node, reply: NodeReply::Reported });
}
