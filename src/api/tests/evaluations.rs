//! Evaluations that somebody asks for, their count, and the states of jobs in one answer.

use super::*;
use crate::routes::job::dispatch::MAX_CHILDREN_SHOWN;
use model::alloc::{Leave, Transition};
use model::dispatch::{Parameterized, PayloadRule};
use model::id::JobKey;
use model::job::{JobSpec, JobType};
use state::samples::alloc_id;
use wire::request::WriteReply;

#[test]
fn jobs_and_nodes_are_evaluated_on_demand() {
    let world = World::running();
    let evaluate =
        |force_reschedule| WriteRequest::EvaluateJob { job: JobKey::new("default", "web"), force_reschedule };
    let (job, forced) = (evaluate(false), evaluate(true));
    let node = WriteRequest::EvaluateNode { node: node_id(1) };
    let of_node = format!("/v1/node/{}/evaluate", node_id(1));
    for (target, body, expected) in [
        ("/v1/job/web/evaluate", "", &job),
        ("/v1/job/web/evaluate", r#"{"JobID":"web"}"#, &job),
        ("/v1/job/web/evaluate", r#"{"JobID":"web","EvalOptions":{"ForceReschedule":false}}"#, &job),
        ("/v1/job/web/evaluate", r#"{"JobID":"web","EvalOptions":{"ForceReschedule":true}}"#, &forced),
        (&of_node, "", &node),
    ] {
        for method in [Method::Put, Method::Post] {
            assert_eq!(world.act(method, target, body).0, *expected, "{target} {body}");
        }
    }
    for (target, body, status, sentence) in [
        ("/v1/job/web/evaluate", "{}", 400, "Job ID must be specified"),
        ("/v1/job/web/evaluate", r#"{"JobID":"db"}"#, 400, "JobID not same as job name"),
        ("/v1/job/web/evaluate", r#"{"JobID":5}"#, 400, "member JobID must be a string"),
        (
            "/v1/job/web/evaluate",
            r#"{"JobID":"web","EvalOptions":1}"#,
            400,
            "member EvalOptions must be an object",
        ),
    ] {
        let response = world.respond(Method::Put, target, body);
        assert_eq!((response.status, text(&response).as_str()), (status, sentence), "{body}");
    }
    assert_eq!(world.respond(Method::Put, "/v1/node/abc/evaluate", "").status, 400);
    assert_eq!(world.respond(Method::Get, "/v1/job/web/evaluate", "").status, 405);
}

#[test]
fn stopping_an_alloc_sets_its_desired_transition() {
    let world = World::running();
    let target = format!("/v1/allocation/{}/stop", alloc_id(1));
    let migrate = Transition { migrate: Some(Leave::AtOnce), ..Transition::default() };
    let again = Transition { reschedule: Some(true), ..migrate };
    let hurried = Transition { no_shutdown_delay: Some(true), ..migrate };
    for (query, transition) in [
        ("", migrate),
        ("?reschedule=true", again),
        ("?no_shutdown_delay=false", migrate),
        ("?no_shutdown_delay=true", hurried),
    ] {
        for method in [Method::Put, Method::Post] {
            let (action, answer) = world.act(method, &format!("{target}{query}"), "");
            assert_eq!(action, WriteRequest::StopAlloc { alloc: alloc_id(1), transition }, "{query}");
            let done = WriteReply::Evals { evals: vec![eval_id(7)], modify_index: 3, index: 9 };
            let json: Value = serde_json::from_slice(&answer.response(Ok(done)).body).unwrap();
            assert_eq!(json, serde_json::json!({"EvalID": eval_id(7).to_string(), "Index": 9}));
        }
    }
    for (target, method, status) in [
        (format!("{target}?no_shutdown_delay=perhaps"), Method::Put, 400),
        (format!("{target}?reschedule=perhaps"), Method::Put, 400),
        ("/v1/allocation/abc/stop".to_string(), Method::Put, 400),
        (target.clone(), Method::Get, 405),
    ] {
        assert_eq!(world.respond(method, &target, "").status, status, "{target}");
    }
}

#[test]
fn an_evaluation_on_demand_is_answered_with_its_id() {
    let world = World::running();
    let done = WriteReply::Evals { evals: vec![eval_id(7)], modify_index: 3, index: 9 };
    let (_, answer) = world.act(Method::Put, "/v1/job/web/evaluate", "");
    let response = answer.response(Ok(done.clone()));
    let json: Value = serde_json::from_slice(&response.body).unwrap();
    let members = ["EvalID", "EvalCreateIndex", "JobModifyIndex", "Index"].map(|m| json[m].clone());
    let expected: [Value; 4] = [eval_id(7).to_string().into(), 9.into(), 3.into(), 9.into()];
    assert_eq!((members, response.header("X-Nomad-Index")), (expected, Some("9")));
    let target = format!("/v1/node/{}/evaluate", node_id(1));
    let told = |done: WriteReply| -> Value {
        let (_, answer) = world.act(Method::Put, &target, "");
        serde_json::from_slice(&answer.response(Ok(done)).body).unwrap()
    };
    let json = told(done);
    assert_eq!((&json["EvalIDs"][0], &json["NodeModifyIndex"]), (&eval_id(7).to_string().into(), &3.into()));
    let json = told(WriteReply::Evals { evals: vec![], modify_index: 3, index: 9 });
    assert_eq!((&json["EvalIDs"], &json["EvalCreateIndex"]), (&Value::Null, &0.into()));
}

#[test]
fn evaluations_are_counted_over_all_pages() {
    let mut world = World::running();
    world.job("db", 2);
    for (target, count) in [
        ("/v1/evaluations/count", 2),
        ("/v1/evaluations/count?per_page=1", 2),
        ("/v1/evaluations/count?job=db", 1),
        ("/v1/evaluations/count?namespace=other", 0),
        ("/v1/evaluations/count?filter=Status+==+complete", 1),
    ] {
        assert_eq!(world.json(target)["Count"], count, "{target}");
    }
    assert_eq!(world.get("/v1/evaluations/count?job=db&filter=ID+==+x").status, 400);
}

#[test]
fn states_of_jobs_come_in_the_order_of_their_changes() {
    let mut world = World::running();
    world.job("db", 2);
    let ids = |method, target: &str, body: &str| -> Vec<String> {
        let response = world.respond(method, target, body);
        let list: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
        list.iter().map(|job| job["ID"].as_str().unwrap_or_default().to_string()).collect()
    };
    let get = |target: &str| ids(Method::Get, target, "");
    assert_eq!(get("/v1/jobs/statuses"), ["web", "db"]);
    assert_eq!(get("/v1/jobs/statuses?reverse=true"), ["db", "web"]);
    assert_eq!(get("/v1/jobs/statuses?filter=ID+==+db&include_children=true"), ["db"]);
    let named = r#"{"Jobs":[{"ID":"db","Namespace":"default"},{"ID":"gone"},{"ID":"db"}]}"#;
    assert_eq!(ids(Method::Post, "/v1/jobs/statuses", named), ["db"]);
    let first = world.get("/v1/jobs/statuses?per_page=1");
    let token = first.header("X-Nomad-NextToken").unwrap();
    assert!(token.ends_with(".default.db"), "{token}");
    assert_eq!(get(&format!("/v1/jobs/statuses?per_page=1&next_token={token}")), ["db"]);
    let web = &world.json("/v1/jobs/statuses")[0];
    assert_eq!((&web["Allocs"][0]["ClientStatus"], &web["GroupCountSum"]), (&"running".into(), &1.into()));
    assert_eq!(web["Status"], "running");
    for (target, body) in [
        ("/v1/jobs/statuses?next_token=5", ""),
        ("/v1/jobs/statuses", "[]"),
        ("/v1/jobs/statuses", r#"{"Jobs":{}}"#),
        ("/v1/jobs/statuses", r#"{"Jobs":[5]}"#),
        ("/v1/jobs/statuses", r#"{"Jobs":[{"Namespace":"default"}]}"#),
    ] {
        assert_eq!(world.respond(Method::Post, target, body).status, 400, "{target} {body}");
    }
}

/// A job to be dispatched, and as many children, of which the first is dead and the others are pending.
fn world_with_children(count: usize) -> World {
    let mut world = World::new();
    let rules =
        Parameterized { payload: PayloadRule::Optional, meta_required: vec![], meta_optional: vec![] };
    let form = JobSpec { job_type: JobType::Batch, parameterized: Some(rules), ..spec("form", 1) };
    world.region.run(&register(form, None)).reply.unwrap();
    for n in 0..count {
        let id = format!("form/dispatch-{n:05}");
        let child = JobSpec { job_type: JobType::Batch, parent: "form".into(), ..spec(&id, 1) };
        let mut waiting = eval(n as u128 + 1, &id);
        waiting.status = if n == 0 { EvalStatus::Complete } else { EvalStatus::Pending };
        world.region.run(&register(child, Some(waiting))).reply.unwrap();
    }
    world
}

#[test]
fn states_of_children_are_shown_for_a_thousand_at_most() {
    let shown = |count: usize| {
        let list = world_with_children(count).json("/v1/jobs/statuses");
        assert_eq!(list.as_array().expect("a list").len(), 1, "children are not listed beside it");
        let states = list[0]["ChildStatuses"].as_array().expect("a parent").clone();
        let pending = states.iter().filter(|state| *state == "pending").count();
        (states.len(), pending, states.first().cloned())
    };
    assert_eq!(shown(0), (0, 0, None));
    assert_eq!(shown(MAX_CHILDREN_SHOWN), (MAX_CHILDREN_SHOWN, 999, Some("dead".into())));
    // more than are read: the living ones first
    assert_eq!(shown(MAX_CHILDREN_SHOWN + 1), (MAX_CHILDREN_SHOWN, 1_000, Some("pending".into())));
}

#[test]
fn summaries_need_no_reconciling() {
    let world = World::running();
    let response = world.respond(Method::Put, "/v1/system/reconcile/summaries", "");
    assert_eq!((response.status, text(&response).as_str()), (200, ""));
    assert_eq!(world.get("/v1/system/reconcile/summaries").status, 405);
}
