//! Which server answers: the leader, one that has confirmed its read, or any.

use super::*;
use model::time::Span;

/// This server follows server 8, of which it heard 300 ms ago.
fn follower() -> World {
    let mut world = World::running();
    world.now = world.now.after(Span::seconds(10));
    let heard = Mono(world.now.0 - Span::millis(300).as_nanos() as u64);
    world.status = ServerStatus {
        id: 7,
        leader: Some(8),
        voters: vec![7, 8, 9],
        has_peers: true,
        last_contact: Some(heard),
        ..ServerStatus::default()
    };
    world
}

fn body(job: &str) -> String {
    let group = r#"{"Name":"g","Count":1,"Tasks":[{"Name":"t","Driver":"exec","Config":{"command":"x"}}]}"#;
    format!(r#"{{"Job":{{"ID":"{job}","Name":"{job}","Type":"service","TaskGroups":[{group}]}}}}"#)
}

#[test]
fn a_write_at_a_follower_is_forwarded_whole() {
    let world = follower();
    for (method, target) in [
        (Method::Put, "/v1/jobs"),
        (Method::Delete, "/v1/job/web"),
        (Method::Put, "/v1/system/gc"),
        (Method::Post, "/v1/operator/scheduler/configuration"),
    ] {
        let outcome = world.step(&request(method, target, &body("web")), WaitState::default());
        assert!(matches!(outcome, RouteOutcome::Forward(_)), "{method:?} {target}");
    }
    let refused = world.step(&request(Method::Get, "/v1/job/web?region=other", ""), WaitState::default());
    assert!(matches!(refused, RouteOutcome::Respond(r) if r.status == 500), "what is wrong goes nowhere");
}

#[test]
fn a_default_read_is_confirmed_once_and_a_stale_one_never() {
    let world = follower();
    for target in ["/v1/jobs", "/v1/job/web", "/v1/nodes", "/v1/job/web/allocations"] {
        let read = request(Method::Get, target, "");
        let RouteOutcome::ConfirmRead(wait) = world.step(&read, WaitState::default()) else {
            panic!("{target}: is answered unconfirmed");
        };
        let RouteOutcome::Respond(response) = world.step(&read, wait.state.confirmed()) else {
            panic!("{target}: is confirmed again");
        };
        assert_eq!((response.status, response.header("X-Nomad-LastContact")), (200, Some("0")), "{target}");
        let stale = world.get(&format!("{target}?stale"));
        assert_eq!(stale.header("X-Nomad-LastContact"), Some("300"), "{target}");
        assert_eq!(stale.header("X-Nomad-KnownLeader"), Some("true"), "{target}");
    }
}

#[test]
fn last_contact_counts_from_the_start_where_nobody_was_heard() {
    let mut world = follower();
    let header = |world: &World, name: &str| world.get("/v1/jobs?stale").header(name).map(str::to_string);
    let begun = Mono(world.now.0 - Span::millis(4_000).as_nanos() as u64);
    world.status.listens_since = Some(begun);
    assert_eq!(header(&world, "X-Nomad-LastContact").as_deref(), Some("300"));
    (world.status.leader, world.status.last_contact) = (None, None);
    assert_eq!(header(&world, "X-Nomad-LastContact").as_deref(), Some("4000"));
    assert_eq!(header(&world, "X-Nomad-KnownLeader").as_deref(), Some("false"));
    world.status.leader = Some(world.status.id);
    assert_eq!(header(&world, "X-Nomad-LastContact").as_deref(), Some("0"), "it leads");
}

#[test]
fn an_agent_shows_last_contact_as_raft_does() {
    let mut world = follower();
    let shown = |world: &World| world.json("/v1/agent/self")["stats"]["raft"]["last_contact"].clone();
    assert_eq!(shown(&world), "300ms");
    world.status.last_contact = Some(Mono(world.now.0 - 12_300_000));
    assert_eq!(shown(&world), "12.3ms");
    world.status.last_contact = None;
    assert_eq!(shown(&world), "never");
    world.status.leader = Some(world.status.id);
    assert_eq!(shown(&world), "0");
}

#[test]
fn a_read_at_a_full_server_that_lags_is_refused_with_why() {
    let mut world = follower();
    world.status.storage_fault = Some("the disk is full".into());
    let read = request(Method::Get, "/v1/jobs", "");
    let RouteOutcome::ConfirmRead(wait) = world.step(&read, WaitState::default()) else {
        panic!("is answered unconfirmed");
    };
    world.now = world.now.after(Span::seconds(5));
    let said = |outcome| match outcome {
        RouteOutcome::Respond(response) => (response.status, text(&response)),
        _ => panic!("it waits longer than for a leader"),
    };
    let (status, why) = said(world.step(&read, wait.state));
    assert!(status == 500 && why.contains("disk is full") && why.contains("ask another server"), "{why}");
    assert_eq!(world.get("/v1/jobs?stale").status, 200);
    world.status.leader = None;
    assert_eq!(said(world.step(&read, wait.state)), (500, "No cluster leader".to_string()));
}

#[test]
fn a_query_that_waits_is_not_confirmed_again() {
    let world = follower();
    let index = world.get("/v1/jobs?stale").header("X-Nomad-Index").expect("is told").to_string();
    let read = request(Method::Get, &format!("/v1/jobs?index={index}"), "");
    let RouteOutcome::ConfirmRead(first) = world.step(&read, WaitState::default()) else {
        panic!("is confirmed first");
    };
    let RouteOutcome::Wait(wait) = world.step(&read, first.state.confirmed()) else {
        panic!("then it waits")
    };
    assert!(matches!(world.step(&read, wait.state), RouteOutcome::Wait(_)), "and is not confirmed again");
}

#[test]
fn a_leader_with_peers_confirms_its_reads_and_does_its_writes() {
    let mut world = follower();
    (world.status.leader, world.status.ready, world.status.last_contact) = (Some(7), true, None);
    let read = world.step(&request(Method::Get, "/v1/jobs", ""), WaitState::default());
    assert!(matches!(read, RouteOutcome::ConfirmRead(_)), "another may have been elected");
    let write = world.step(&request(Method::Put, "/v1/jobs", &body("b")), WaitState::default());
    assert!(matches!(write, RouteOutcome::Write(..)));
}

#[test]
fn without_a_leader_requests_are_refused_after_a_while() {
    let mut world = follower();
    world.status.leader = None;
    for (method, target) in [(Method::Get, "/v1/jobs"), (Method::Delete, "/v1/job/web")] {
        let asked = request(method, target, "");
        let RouteOutcome::Wait(wait) = world.step(&asked, WaitState::default()) else {
            panic!("{target}: a leader is waited for");
        };
        let begun = world.now;
        world.now = begun.after(Span::seconds(5));
        let RouteOutcome::Respond(refused) = world.step(&asked, wait.state) else { panic!("{target}") };
        assert_eq!((refused.status, text(&refused)), (500, "No cluster leader".to_string()));
        world.now = begun;
    }
    assert_eq!(world.get("/v1/jobs?stale").header("X-Nomad-KnownLeader"), Some("false"));
}
