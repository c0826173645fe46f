//! Node pools, the scheduler's configuration and deleted evaluations over HTTP.

use super::*;
use model::pool::NodePoolSpec;
use model::scheduling::{Algorithm, PoolScheduling, PreemptionConfig, SchedulerSettings};
use serde_json::json;
use state::samples::{info, node_pool};
use wire::request::WriteReply;

const CONFIGURATION: &str = "/v1/operator/scheduler/configuration";

#[test]
fn scheduler_configuration_is_read_and_written() {
    let mut world = World::new();
    let shown = world.json(CONFIGURATION);
    let said = &shown["SchedulerConfig"];
    let preemption = json!({"SystemSchedulerEnabled": true, "SysBatchSchedulerEnabled": false,
        "BatchSchedulerEnabled": false, "ServiceSchedulerEnabled": false});
    assert_eq!((&said["SchedulerAlgorithm"], &said["PreemptionConfig"]), (&"binpack".into(), &preemption));
    assert_eq!((&said["ModifyIndex"], &shown["KnownLeader"]), (&0.into(), &true.into()));
    let body = r#"{"SchedulerAlgorithm":"spread","PauseEvalBroker":true,"RejectJobRegistration":true,
        "MemoryOversubscriptionEnabled":true,"PreemptionConfig":{"SystemSchedulerEnabled":true}}"#;
    let settings = SchedulerSettings {
        algorithm: Algorithm::Spread,
        memory_oversubscription: true,
        reject_job_registration: true,
        pause_eval_broker: true,
        preemption: PreemptionConfig::default(),
    };
    for (target, cas) in [("", None), ("?cas=7", Some(7)), ("?cas=0", Some(0))] {
        for method in [Method::Put, Method::Post] {
            let (action, answer) = world.act(method, &format!("{CONFIGURATION}{target}"), body);
            assert_eq!(action, WriteRequest::ConfigureScheduler { settings, cas });
            let response = answer.response(Ok(WriteReply::SchedulerConfig { updated: false, index: 9 }));
            assert_eq!((response.status, text(&response).as_str()), (200, r#"{"Updated":false,"Index":9}"#));
        }
    }
    world.region.run(&Command::ConfigureScheduler { settings, cas: None });
    let said = world.json(CONFIGURATION)["SchedulerConfig"].clone();
    let index = world.region.view().index();
    assert_eq!((&said["SchedulerAlgorithm"], &said["ModifyIndex"]), (&"spread".into(), &index.into()));
    assert_eq!(world.get(CONFIGURATION).header("x-nomad-index"), Some(index.to_string().as_str()));
}

#[test]
fn invalid_scheduler_configuration_is_refused() {
    let world = World::new();
    for (query, body, status, why) in [
        ("", "{", 400, "Error parsing scheduler config: EOF"),
        ("", r#"{"SchedulerAlgorithm":"best"}"#, 400, "invalid scheduler algorithm: best"),
        ("?cas=x", "{}", 400, "Error parsing cas value"),
        ("", r#"{"PauseEvalBroker":1}"#, 400, "member PauseEvalBroker must be true or false"),
        ("", r#"{"PreemptionConfig":{"ServiceSchedulerEnabled":1}}"#, 400, "member ServiceSchedulerEnabled"),
        ("", r#"{"NodeLimitForFeasibilityChecks":-1}"#, 400, "member NodeLimitForFeasibilityChecks"),
    ] {
        let refused = world.respond(Method::Put, &format!("{CONFIGURATION}{query}"), body);
        assert_eq!(refused.status, status, "{body}");
        assert!(text(&refused).starts_with(why), "{}", text(&refused));
    }
    assert_eq!(world.respond(Method::Delete, CONFIGURATION, "").status, 405);
}

#[test]
fn a_limit_of_nodes_is_taken_with_a_warning() {
    let world = World::new();
    for (limit, warned) in [(0, false), (100, false), (7, true)] {
        let body = json!({ "NodeLimitForFeasibilityChecks": limit }).to_string();
        let (_, answer) = world.act(Method::Put, CONFIGURATION, &body);
        let response = answer.response(Ok(WriteReply::SchedulerConfig { updated: true, index: 9 }));
        let told: Value = serde_json::from_slice(&response.body).unwrap();
        let warning = told["Warnings"].as_str().unwrap_or_default();
        assert_eq!(warning.contains("NodeLimitForFeasibilityChecks has no effect"), warned, "{told}");
    }
}

#[test]
fn evals_are_deleted_by_id_or_by_filter() {
    let mut world = World::running();
    world.job("db", 2);
    let delete = |body: &str| world.act(Method::Delete, "/v1/evaluations", body);
    let (action, answer) = delete(&json!({"EvalIDs": [eval_id(9).to_string()]}).to_string());
    assert_eq!(action, WriteRequest::DeleteEvals { ids: vec![eval_id(9)], skip_needed: false });
    let response = answer.response(Ok(WriteReply::Deleted { count: 3, index: 9 }));
    assert_eq!((response.status, text(&response).as_str()), (200, r#"{"Count":3,"Index":9}"#));
    let (action, _) = delete(r#"{"Filter":"JobID == db"}"#);
    assert_eq!(action, WriteRequest::DeleteEvals { ids: vec![eval_id(2)], skip_needed: true });
    let many = json!({"EvalIDs": vec![eval_id(1).to_string(); 7282]}).to_string();
    let id = eval_id(1).to_string();
    for (body, status, why) in [
        ("{}", 400, "evals must be deleted by either ID or filter"),
        (
            &*json!({"EvalIDs": [id], "Filter": "JobID == db"}).to_string(),
            400,
            "evals cannot be deleted by both ID and filter",
        ),
        (r#"{"EvalIDs":["x"],"Filter":"y"}"#, 400, "evals cannot be deleted by both ID and filter"),
        (r#"{"Filter":"JobID =="}"#, 400, "failed to create result paginator"),
        (r#"{"EvalIDs":["x"]}"#, 400, "eval lookup failed"),
        (&*many, 400, "request includes 7282 evaluation IDs, must be 7281 or fewer"),
        (r#"{"EvalIDs":7}"#, 400, "member EvalIDs must be a list of strings"),
    ] {
        let refused = world.respond(Method::Delete, "/v1/evaluations", body);
        assert_eq!(refused.status, status, "{why}");
        assert!(text(&refused).starts_with(why), "{}", text(&refused));
    }
}

fn pools() -> World {
    let mut world = World::running();
    world.region.run(&node_pool("boards"));
    let mut here = info(2);
    here.pool = "boards".into();
    world.region.run(&Command::RegisterNode { info: Box::new(here), evals: vec![], at: AT });
    let mut there = spec("db", 1);
    there.node_pool = "boards".into();
    world.region.run(&register(there, None)).reply.unwrap();
    world
}

fn listed(world: &World, target: &str, member: &str) -> Vec<String> {
    let list = world.json(target);
    let names = list.as_array().into_iter().flatten().filter_map(|one| one[member].as_str());
    names.map(str::to_string).collect()
}

#[test]
fn node_pools_are_listed_with_their_nodes_and_jobs() {
    let world = pools();
    for (query, names) in [
        ("", vec!["all", "boards", "default"]),
        ("?prefix=b", vec!["boards"]),
        ("?per_page=1&next_token=boards", vec!["boards"]),
        ("?reverse=true", vec!["default", "boards", "all"]),
        ("?filter=Name%20!%3D%20all", vec!["boards", "default"]),
    ] {
        assert_eq!(listed(&world, &format!("/v1/node/pools{query}"), "Name"), names, "{query}");
    }
    assert_eq!(world.get("/v1/node/pools?per_page=1").header("x-nomad-nexttoken"), Some("boards"));
    let one = world.json("/v1/node/pool/boards");
    assert_eq!(
        (&one["Name"], &one["SchedulerConfiguration"], &one["Meta"]),
        (&"boards".into(), &Value::Null, &Value::Null)
    );
    assert_eq!(one["Hash"].as_str().map(str::len), Some(44));
    let (first, second) = (node_id(1).to_string(), node_id(2).to_string());
    assert_eq!(listed(&world, "/v1/node/pool/boards/nodes", "ID"), [second.as_str()]);
    assert_eq!(listed(&world, "/v1/node/pool/default/nodes", "ID"), [first.as_str()]);
    assert_eq!(listed(&world, "/v1/node/pool/all/nodes", "ID").len(), 2);
    assert_eq!(listed(&world, "/v1/node/pool/boards/jobs", "ID"), ["db"]);
    assert_eq!(listed(&world, "/v1/node/pool/all/jobs", "ID"), [""; 0]);
    for target in ["/v1/node/pool/no", "/v1/node/pool/no/nodes", "/v1/node/pool/no/jobs"] {
        let missing = world.get(target);
        assert_eq!((missing.status, text(&missing).as_str()), (404, "node pool not found"));
    }
    assert_eq!(text(&world.get("/v1/node/pool/all/nodes?prefix=a")), "prefix argument not allowed");
    let found: Value = serde_json::from_slice(
        &world.respond(Method::Post, "/v1/search", r#"{"Prefix":"bo","Context":"node_pools"}"#).body,
    )
    .unwrap();
    assert_eq!(found["Matches"]["node_pools"], json!(["boards"]));
}

#[test]
fn node_pool_upsert_becomes_a_write_request() {
    let world = World::new();
    let body = r#"{"Name":"boards","Description":"ours","Meta":{"a":"b"},
        "SchedulerConfiguration":{"SchedulerAlgorithm":"spread","MemoryOversubscriptionEnabled":false}}"#;
    let pool = NodePoolSpec {
        name: "boards".into(),
        description: "ours".into(),
        meta: [("a".to_string(), "b".to_string())].into(),
        scheduling: Some(PoolScheduling {
            algorithm: Some(Algorithm::Spread),
            memory_oversubscription: Some(false),
        }),
    };
    for target in ["/v1/node/pools", "/v1/node/pool/boards"] {
        let (action, answer) = world.act(Method::Put, target, body);
        assert_eq!(action, WriteRequest::UpsertNodePool { pool: Box::new(pool.clone()) });
        assert_eq!(answer.response(Ok(WriteReply::Written { index: 9 })).body, b"");
    }
    let (action, _) = world.act(Method::Delete, "/v1/node/pool/boards", "");
    assert_eq!(action, WriteRequest::DeleteNodePool { name: "boards".into() });
    for (target, body, why) in [
        ("/v1/node/pool/other", body, "Node pool name does not match request path"),
        ("/v1/node/pools", r#"{"Name":"a b"}"#, "invalid node pool \"a b\": 1 error occurred:"),
        ("/v1/node/pools", r#"{"Name":"all"}"#, "modifying node pool \"all\" is not allowed"),
        (
            "/v1/node/pools",
            r#"{"Name":"a","SchedulerConfiguration":{"SchedulerAlgorithm":"x"}}"#,
            "invalid scheduler algorithm: x",
        ),
    ] {
        let refused = world.respond(Method::Put, target, body);
        assert_eq!(refused.status, 400);
        assert!(text(&refused).starts_with(why), "{}", text(&refused));
    }
}

#[test]
fn node_pool_changes_are_streamed() {
    let mut world = World::new();
    let events = world.region.run(&node_pool("boards")).events.expect("has events");
    for (topic, expected) in [("NodePool:boards", true), ("NodePool:other", false), ("Node", false)] {
        let asked = request(Method::Get, &format!("/v1/event/stream?topic={topic}"), "");
        let RouteOutcome::Events(subscription) = world.step(&asked, WaitState::default()) else {
            panic!("no stream")
        };
        let line = subscription.line(&events).map(|l| serde_json::from_slice::<Value>(&l).unwrap());
        assert_eq!(line.is_some(), expected, "{topic}");
        if let Some(line) = line {
            let event = &line["Events"][0];
            assert_eq!((&event["Type"], &event["Key"]), (&"NodePoolUpserted".into(), &"boards".into()));
            assert_eq!(event["Payload"]["NodePool"]["Name"], "boards");
        }
    }
}

#[test]
fn a_change_of_a_node_pool_wakes_its_waiters() {
    let mut world = pools();
    let wait = world.wait("/v1/node/pools?index=100", WaitState::default()).expect("waits");
    assert_eq!(wait.keys, [super::super::watch::WatchKey::NodePools]);
    world.region.run(&node_pool("more"));
    let index = world.region.view().index();
    let target = format!("/v1/node/pool/more?index={}", index - 1);
    assert_eq!(world.json(&target)["Name"], "more");
}
