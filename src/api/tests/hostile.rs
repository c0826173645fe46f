//! Requests that nobody means well with: every one is answered, and none with a 200.

use super::*;

#[test]
fn wrong_methods_are_refused() {
    let world = World::running();
    for (method, target) in [
        (Method::Delete, "/v1/jobs"),
        (Method::Put, "/v1/allocations"),
        (Method::Get, "/v1/jobs/parse"),
        (Method::Get, "/v1/search"),
        (Method::Post, "/v1/job/a/summary"),
        (Method::Head, "/v1/jobs/parse"),
        (Method::Head, "/v1/event/stream"),
        (Method::Head, "/v1/agent/monitor"),
        (Method::Options, "/v1/nodes"),
        (Method::Other, "/v1/job/a"),
        (Method::Put, "/v1/client/fs/logs/x"),
    ] {
        let response = world.respond(method, target, "{}");
        assert_eq!((response.status, text(&response).as_str()), (405, "Invalid method"), "{target}");
    }
}

#[test]
fn bad_targets_are_refused() {
    let world = World::running();
    for target in [
        "/v1/job/%",
        "/v1/job/%zz",
        "/v1/job/%ff",
        "/v1/job/a%00b",
        "/v1/jobs?prefix=%ff",
        "/v1/jobs?prefix=%0",
        "/v1/jobs?index=99999999999999999999",
        "/v1/jobs?index=-1",
        "/v1/jobs?wait=forever",
        "/v1/jobs?per_page=abc",
        "/v1/jobs?per_page=-1",
        "/v1/jobs?next_token=x",
        "/v1/evaluations?next_token=x.y",
        "/v1/allocations?next_token=1.2.3",
        "/v1/nodes?resources=maybe",
        "/v1/jobs?stale=5",
    ] {
        assert_eq!(world.get(target).status, 400, "{target}");
    }
    for target in ["/v1/allocation/abc", "/v1/evaluation/../../etc", "/v1/node/%2e%2e", "/v1/evaluation/"] {
        let response = world.get(target);
        assert!(matches!(response.status, 400 | 404), "{target}: {}", response.status);
    }
}

/// Every route with an id in its path, but for a node's allocations: whoever is no node has none.
const ROUTES_WITH_AN_ID: &[(Method, &str)] = &[
    (Method::Get, "/v1/allocation/:id"),
    (Method::Get, "/v1/allocation/:id/why"),
    (Method::Put, "/v1/allocation/:id/stop"),
    (Method::Get, "/v1/evaluation/:id"),
    (Method::Get, "/v1/evaluation/:id/why"),
    (Method::Get, "/v1/evaluation/:id/allocations"),
    (Method::Get, "/v1/deployment/:id"),
    (Method::Get, "/v1/deployment/allocations/:id"),
    (Method::Put, "/v1/deployment/fail/:id"),
    (Method::Put, "/v1/deployment/pause/:id"),
    (Method::Put, "/v1/deployment/promote/:id"),
    (Method::Put, "/v1/deployment/unblock/:id"),
    (Method::Put, "/v1/deployment/allocation-health/:id"),
    (Method::Get, "/v1/node/:id"),
    (Method::Put, "/v1/node/:id/evaluate"),
    (Method::Put, "/v1/node/:id/eligibility"),
    (Method::Put, "/v1/node/:id/drain"),
    (Method::Put, "/v1/node/:id/purge"),
    (Method::Get, "/v1/scaling/policy/:id"),
    (Method::Get, "/v1/client/fs/logs/:id?task=t&type=stdout"),
    (Method::Get, "/v1/client/fs/ls/:id"),
    (Method::Get, "/v1/client/fs/stat/:id?path=a"),
    (Method::Get, "/v1/client/fs/cat/:id?path=a"),
    (Method::Get, "/v1/client/fs/readat/:id?path=a&limit=1"),
    (Method::Get, "/v1/client/fs/stream/:id?path=a"),
    (Method::Get, "/v1/client/allocation/:id/exec?task=t&command=[%22a%22]"),
    (Method::Get, "/v1/client/allocation/:id/stats"),
    (Method::Get, "/v1/client/allocation/:id/gc"),
    (Method::Put, "/v1/client/allocation/:id/restart"),
    (Method::Put, "/v1/client/allocation/:id/signal"),
];

#[test]
fn a_malformed_id_is_a_400_on_every_route() {
    let world = World::running();
    let body = r#"{"Eligibility":"eligible","Signal":"SIGHUP","Pause":true,"All":true}"#;
    for id in
        ["5", "xyz", "..", "00000000-0000-4000-8000-00000000000", "0000000g-0000-4000-8000-000000000001"]
    {
        for (method, target) in ROUTES_WITH_AN_ID {
            let target = target.replace(":id", id);
            let response = world.respond(*method, &target, body);
            let told = text(&response);
            assert_eq!(response.status, 400, "{target}: {told}");
            let sentence = format!("lookup failed: {id:?} is not a full id of 36 characters");
            assert!(told.contains(&sentence) || told == "must provide a valid alloc id", "{target}: {told}");
        }
        let given = format!(r#"{{"EvalIDs":[{id:?}]}}"#);
        assert_eq!(world.respond(Method::Delete, "/v1/evaluations", &given).status, 400, "{given}");
        assert_eq!(text(&world.get(&format!("/v1/node/{id}/allocations"))), "[]");
    }
}

#[test]
fn huge_requests_are_bounded() {
    let world = World::running();
    let long = format!("/v1/job/{}", "a".repeat(1 << 20));
    assert_eq!(world.get(&long).status, 400);
    let many = format!("/v1/jobs?{}", "a=1&".repeat(1000));
    assert_eq!(world.get(&many).status, 400);
    for body in [
        "[".repeat(1 << 20),
        format!("{{\"Job\":{}", "{\"a\":".repeat(1 << 18)),
        format!("{{\"Job\":{{\"ID\":{}", "[".repeat(1 << 20)),
        "\u{0}".repeat(1000),
        "{\"Job\":5}".into(),
        "{\"Job\":{\"TaskGroups\":5}}".into(),
        "{\"Job\":{\"ID\":\"a\",\"Priority\":1e400}}".into(),
    ] {
        let response = world.respond(Method::Put, "/v1/jobs", &body);
        assert_eq!(response.status, 400, "{}", text(&response));
        assert!(response.body.len() < 1000, "the refusal is short");
    }
    for (target, body) in
        [("/v1/search", "[".repeat(1 << 20)), ("/v1/jobs/parse", "{\"JobHCL\":".repeat(99_999))]
    {
        assert_eq!(world.respond(Method::Put, target, &body).status, 400);
    }
    let deep = serde_json::json!({ "JobHCL": "{[(".repeat(50_000) }).to_string();
    assert_eq!(world.respond(Method::Put, "/v1/jobs/parse", &deep).status, 400);
}
