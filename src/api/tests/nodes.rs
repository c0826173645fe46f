//! What users want of nodes, as HTTP says it.

use super::World;
use model::time::Span;
use serde_json::{Value, json};
use state::samples::{eval_id, node_id};
use std::collections::BTreeMap;
use wire::command::NodeUpdateRequest;
use wire::http::Method;
use wire::request::{WriteReply, WriteRequest};

fn drain(deadline: Span, ignore_system: bool) -> NodeUpdateRequest {
    NodeUpdateRequest::Drain { deadline, ignore_system, meta: BTreeMap::new() }
}

#[test]
fn node_requests_become_node_updates() {
    let world = World::running();
    let meta = BTreeMap::from([("why".to_string(), "disk".to_string())]);
    for (part, body, request) in [
        ("eligibility", r#"{"Eligibility":"eligible"}"#, NodeUpdateRequest::Eligible(true)),
        ("eligibility", r#"{"NodeID":"x","Eligibility":"ineligible"}"#, NodeUpdateRequest::Eligible(false)),
        ("drain", r#"{"DrainSpec":{"Deadline":-1}}"#, drain(Span(-1), false)),
        ("drain", r#"{"DrainSpec":{"Deadline":"1h","IgnoreSystemJobs":true}}"#, drain(Span::hours(1), true)),
        ("drain", r#"{"DrainSpec":{}}"#, drain(Span::ZERO, false)),
        (
            "drain",
            r#"{"DrainSpec":null,"MarkEligible":true,"Meta":{"why":"disk"}}"#,
            NodeUpdateRequest::EndDrain { mark_eligible: true, meta },
        ),
        ("purge", "", NodeUpdateRequest::Purge),
    ] {
        for method in [Method::Put, Method::Post] {
            let target = format!("/v1/node/{}/{part}", node_id(1));
            let (action, answer) = world.act(method, &target, body);
            assert_eq!(
                action,
                WriteRequest::UpdateNode { node: node_id(1), request: request.clone() },
                "{body}"
            );
            let done = WriteReply::Evals { evals: vec![eval_id(7)], modify_index: 9, index: 9 };
            let said: Value = serde_json::from_slice(&answer.response(Ok(done)).body).unwrap();
            assert_eq!(said["EvalIDs"], json!([eval_id(7).to_string()]));
            assert_eq!((&said["NodeModifyIndex"], &said["EvalCreateIndex"]), (&json!(9), &json!(9)));
        }
    }
}

#[test]
fn invalid_node_updates_are_refused_with_a_sentence() {
    let world = World::running();
    for (part, body, status, sentence) in [
        ("eligibility", "", 400, "Request body is empty"),
        ("eligibility", r#"{"Eligibility":"maybe"}"#, 500, "invalid scheduling eligibility"),
        ("drain", "", 400, "Request body is empty"),
        ("drain", r#"{"DrainSpec":{"Deadline":"soon"}}"#, 400, "Deadline must be nanoseconds or a duration"),
        ("drain", r#"{"DrainSpec":{"Deadline":1.5}}"#, 400, "Deadline must be nanoseconds or a duration"),
        ("drain", r#"{"DrainSpec":7}"#, 400, "DrainSpec must be an object or null"),
        ("drain", r#"{"Meta":{"a":1}}"#, 400, "Meta must be an object of strings"),
    ] {
        let response = world.respond(Method::Put, &format!("/v1/node/{}/{part}", node_id(1)), body);
        let said = String::from_utf8_lossy(&response.body).into_owned();
        assert!(response.status == status && said.contains(sentence), "{body}: {} {said}", response.status);
    }
    for part in ["eligibility", "drain", "purge"] {
        let target = format!("/v1/node/{}/{part}", node_id(1));
        assert_eq!(world.respond(Method::Get, &target, "").status, 405, "{part}");
        assert_eq!(world.respond(Method::Put, &format!("/v1/node/abc/{part}"), "{}").status, 400, "{part}");
    }
}
