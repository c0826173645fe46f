//! Samples of drains and of what users want of nodes.

use super::Samples;
use model::drain::{Drain, DrainStatus, LastDrain};
use model::node::Node;
use model::time::Span;
use state::samples::{AT, alloc_id, eval, node_id};
use std::collections::BTreeMap;
use wire::command::{Command, DrainProgress, NodeUpdateRequest};
use wire::rpc::NodeReply;

fn drain() -> Drain {
    Drain { deadline: Span::hours(1), ignore_system: true, started: AT, force_at: Some(AT + Span::hours(1)) }
}

pub fn draining(node: Node) -> Node {
    let meta = BTreeMap::from([("message".to_string(), "new disk".to_string())]);
    let last_drain = LastDrain { started: AT, updated: AT, status: DrainStatus::Canceled, meta };
    Node { drain: Some(drain()), last_drain: Some(last_drain), ..node }
}

pub fn node_commands(s: &mut Samples) {
    s.add("missed", &NodeReply::Missed { ttl: Span::seconds(12), info: 7 });
    let meta = BTreeMap::from([("message".to_string(), "new disk".to_string())]);
    for (what, request) in [
        ("ineligible node", NodeUpdateRequest::Eligible(false)),
        (
            "drain node",
            NodeUpdateRequest::Drain { deadline: Span::hours(1), ignore_system: true, meta: meta.clone() },
        ),
        ("end drain", NodeUpdateRequest::EndDrain { mark_eligible: true, meta }),
        ("purge node", NodeUpdateRequest::Purge),
    ] {
        s.add(what, &Command::UpdateNode { node: node_id(1), request, evals: vec![eval(3, "web")], at: AT });
    }
    let leaving = vec![alloc_id(1)];
    let step = DrainProgress { node: node_id(1), drain: drain(), leaving, at_once: false, complete: true };
    s.add(
        "advance drains",
        &Command::AdvanceDrains { steps: vec![step], evals: vec![eval(3, "web")], at: AT },
    );
}
