//! An agent without a server: what it answers itself follows from the table of routes, and the rest goes to a server.

use super::*;
use model::id::{AllocId, NodeId};
use state::samples::alloc_id;
use wire::http::MAX_HOLD;

/// Its node has allocation 1.
fn client_only() -> World {
    let mut world = World::new();
    (world.agent.server, world.agent.enable_debug) = (false, true);
    world.client.as_mut().expect("it runs a node").allocs = vec![alloc_id(1)];
    world
}

fn step(world: &World, request: &Request, state: WaitState) -> RouteOutcome {
    let context = RequestContext {
        reader: None,
        status: &ServerStatus::default(),
        agent: &world.agent,
        zones: |_| None,
        random: || Some([7; 48]),
        threads: || Some(3),
        client: world.client.as_ref(),
        now: world.now,
        seed: 3,
    };
    route(request, &context, state)
}

/// What becomes of it, in a word, or the status.
fn outcome(method: Method, target: &str, body: &str) -> String {
    match step(&client_only(), &request(method, target, body), WaitState::default()) {
        RouteOutcome::Respond(response) => response.status.to_string(),
        RouteOutcome::ForwardToServer { .. } => "forwarded".into(),
        RouteOutcome::AskClient(..) => "node".into(),
        RouteOutcome::Relay(RelayTarget::OwnServer, _) => "relayed".into(),
        RouteOutcome::Metrics(_) | RouteOutcome::Host(_) | RouteOutcome::Monitor(_) => "agent".into(),
        _ => panic!("{target}: there is no server here"),
    }
}

#[test]
fn an_agent_without_a_server_answers_what_is_its_own() {
    for (target, wanted) in [
        ("/v1/agent/self", "200"),
        ("/v1/agent/health", "200"),
        ("/v1/agent/servers", "200"),
        ("/v1/agent/host", "agent"),
        ("/v1/agent/monitor", "agent"),
        ("/v1/metrics", "agent"),
        ("/v1/client/stats", "node"),
        ("/v1/client/metadata", "node"),
        ("/v1/client/gc", "node"),
        ("/v1/nothing", "404"),
        ("/v1/allocation/x/nothing", "404"),
        ("/v1/vars", "501"),
        ("/v1/jobs?region=other", "500"),
        ("/v1/jobs?index=x", "400"),
        ("/v1/agent/monitor?server_id=leader", "relayed"),
    ] {
        assert_eq!(outcome(Method::Get, target, ""), wanted, "{target}");
    }
    let job = r#"{"JobHCL":"job \"a\" {\n group \"g\" {\n task \"t\" {\n driver = \"exec\"\n}\n}\n}"}"#;
    assert_eq!(outcome(Method::Put, "/v1/jobs/parse", job), "200");
    assert_eq!(outcome(Method::Delete, "/v1/jobs", ""), "405");
    let mut world = client_only();
    world.client.as_mut().expect("it runs a node").known_servers = vec!["10.0.0.9:4647".into()];
    let servers = request(Method::Get, "/v1/agent/servers", "");
    let RouteOutcome::Respond(response) = step(&world, &servers, WaitState::default()) else {
        panic!("its own")
    };
    assert_eq!(text(&response), r#"["10.0.0.9:4647"]"#);
}

#[test]
fn requests_for_servers_are_forwarded_to_one() {
    for target in [
        "/v1/jobs",
        "/v1/jobs?stale",
        "/v1/job/web",
        "/v1/nodes?filter=Name%20is%20not%20empty",
        "/v1/status/leader",
        "/v1/status/peers",
        "/v1/regions",
        "/v1/agent/members",
        "/v1/operator/raft/configuration",
        "/.well-known/jwks.json",
    ] {
        assert_eq!(outcome(Method::Get, target, ""), "forwarded", "{target}");
    }
    for (method, target) in [
        (Method::Put, "/v1/jobs"),
        (Method::Put, "/v1/validate/job"),
        (Method::Delete, "/v1/job/web"),
        (Method::Put, "/v1/system/gc"),
        (Method::Delete, "/v1/operator/raft/peer"),
    ] {
        assert_eq!(outcome(method, target, "{}"), "forwarded", "{target}");
    }
    assert_eq!(outcome(Method::Get, "/v1/event/stream", ""), "501", "a stream of a server");
}

#[test]
fn another_nodes_allocation_is_asked_through_a_server() {
    let (own, other) = (alloc_id(1), alloc_id(2));
    for (method, path, body) in [
        (Method::Get, "/v1/client/fs/ls/$id", ""),
        (Method::Get, "/v1/client/fs/stat/$id?path=a", ""),
        (Method::Get, "/v1/client/allocation/$id/stats", ""),
        (Method::Get, "/v1/client/allocation/$id/gc", ""),
        (Method::Put, "/v1/client/allocation/$id/restart", ""),
        (Method::Put, "/v1/client/allocation/$id/signal", "{}"),
    ] {
        let at = |id: AllocId| outcome(method, &path.replace("$id", &id.to_string()), body);
        assert_eq!((at(own), at(other)), ("node".into(), "relayed".into()), "{path}");
    }
    let checks = format!("/v1/allocation/{own}/checks");
    assert_eq!(outcome(Method::Get, &checks, ""), "200");
    for path in [
        "/v1/client/fs/logs/$id?task=t&type=stdout",
        "/v1/client/fs/cat/$id?path=a",
        "/v1/client/fs/readat/$id?path=a",
        "/v1/client/fs/stream/$id?path=a",
        "/v1/client/allocation/$id/exec?task=t&command=[%22a%22]",
        "/v1/job/web/action?action=a&task=t&allocID=$id",
    ] {
        let at = |id: AllocId| outcome(Method::Get, &path.replace("$id", &id.to_string()), "");
        assert_eq!((at(own), at(other)), ("node".into(), "relayed".into()), "{path}");
    }
    let unnamed = format!("/v1/job/web/action?action=a&allocID={own}");
    assert_eq!(outcome(Method::Get, &unnamed, ""), "400", "no state says which task has it");
}

#[test]
fn another_node_is_asked_through_a_server() {
    let (own, other) = (node_id(1), node_id(2));
    for path in ["/v1/client/stats", "/v1/client/metadata", "/v1/client/gc"] {
        let at = |id: NodeId| outcome(Method::Get, &format!("{path}?node_id={id}"), "");
        assert_eq!((at(own), at(other)), ("node".into(), "relayed".into()), "{path}");
    }
    let set = |id: NodeId| {
        let body = format!(r#"{{"NodeID":"{id}","Meta":{{"a":"b"}}}}"#);
        outcome(Method::Post, "/v1/client/metadata", &body)
    };
    assert_eq!((set(own), set(other)), ("node".into(), "relayed".into()));
}

#[test]
fn a_forwarded_query_says_how_long_it_may_be_held() {
    let world = client_only();
    for (target, wanted) in [
        ("/v1/jobs", Span::ZERO),
        ("/v1/jobs?wait=10s", Span::ZERO),
        ("/v1/jobs?index=5&wait=16s", Span::seconds(17)),
        ("/v1/jobs?index=5", Span::millis(318_750)),
        ("/v1/jobs?index=5&wait=9h", Span::millis(318_750)),
    ] {
        let asked = request(Method::Get, target, "");
        let RouteOutcome::ForwardToServer { hold, .. } = step(&world, &asked, WaitState::default()) else {
            panic!("{target}");
        };
        assert_eq!(hold, wanted, "{target}");
        assert!(hold <= MAX_HOLD);
    }
}

#[test]
fn without_a_server_in_reach_a_request_is_refused_in_time() {
    let mut world = client_only();
    let asked = request(Method::Put, "/v1/jobs", "{}");
    let mut state = WaitState::default();
    let begun = world.now;
    loop {
        match step(&world, &asked, state) {
            RouteOutcome::ForwardToServer { otherwise, .. } => {
                assert!(otherwise.wake_at > world.now, "not at once");
                (world.now, state) = (otherwise.wake_at, otherwise.state);
            }
            RouteOutcome::Respond(refused) => {
                let why = "No server is in reach of this agent's node".to_string();
                assert_eq!((refused.status, text(&refused)), (500, why));
                assert_eq!(refused.header("Retry-After"), Some("1"));
                break;
            }
            _ => panic!("there is no server here"),
        }
    }
    assert_eq!(world.now.since(begun), Span::seconds(5));
}
