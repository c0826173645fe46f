//! Blocking queries and the wait for a leader.

use super::*;
use crate::watch::WatchKey;
use state::samples::{alloc_id, key};

#[test]
fn a_query_waits_for_what_it_read() {
    let world = World::running();
    let (eval, node) = (eval_id(1), node_id(1));
    for (target, watched) in [
        ("/v1/jobs".to_string(), WatchKey::Jobs),
        ("/v1/job/web".into(), WatchKey::Job(key("web"))),
        ("/v1/job/web/summary".into(), WatchKey::Job(key("web"))),
        ("/v1/job/web/versions".into(), WatchKey::Job(key("web"))),
        ("/v1/job/web/allocations".into(), WatchKey::JobAllocs(key("web"))),
        ("/v1/job/web/evaluations".into(), WatchKey::JobEvals(key("web"))),
        ("/v1/allocations".into(), WatchKey::Allocs),
        (format!("/v1/allocation/{}", alloc_id(1)), WatchKey::Alloc(alloc_id(1))),
        ("/v1/evaluations".into(), WatchKey::Evals),
        (format!("/v1/evaluation/{eval}"), WatchKey::Eval(eval)),
        (format!("/v1/evaluation/{eval}/allocations"), WatchKey::EvalAllocs(eval)),
        ("/v1/nodes".into(), WatchKey::Nodes),
        (format!("/v1/node/{node}"), WatchKey::Node(node)),
        (format!("/v1/node/{node}/allocations"), WatchKey::NodeAllocs(node)),
    ] {
        let index: u64 = world.get(&target).header("X-Nomad-Index").unwrap().parse().unwrap();
        let wait = world.wait(&format!("{target}?index={index}"), WaitState::default()).expect(&target);
        assert_eq!(wait.keys, vec![watched], "{target}");
        assert_eq!(wait.seen, world.region.view().index());
        assert!(
            world.wait(&format!("{target}?index={}", index - 1), WaitState::default()).is_none(),
            "{target}"
        );
        assert!(world.wait(&format!("{target}?index=1"), WaitState::default()).is_none(), "{target}");
    }
}

#[test]
fn a_list_by_prefix_waits_for_its_jobs_only() {
    let world = World::running();
    for (target, namespace) in
        [("/v1/jobs?prefix=we", Some("default")), ("/v1/jobs?prefix=we&namespace=*", None)]
    {
        let index: u64 = world.get(target).header("X-Nomad-Index").unwrap().parse().unwrap();
        let wait = world.wait(&format!("{target}&index={index}"), WaitState::default()).expect(target);
        let namespace = namespace.map(str::to_string);
        assert_eq!(wait.keys, vec![WatchKey::JobPrefix { namespace, prefix: "we".into() }], "{target}");
    }
}

#[test]
fn a_wait_ends_with_a_change_or_its_time() {
    let mut world = World::new();
    world.job("web", 1);
    let target = "/v1/job/web?index=1&wait=60s";
    let wait = world.wait(target, WaitState::default()).unwrap();
    let most = Span::seconds(60).as_nanos() as u64;
    assert!((most..most + most / 16).contains(&wait.wake_at.0), "{:?}", wait.wake_at);

    world.now = Mono(1);
    let again = world.wait(target, wait.state).unwrap();
    assert_eq!(again.wake_at, wait.wake_at, "waking in vain does not prolong it");

    world.now = wait.wake_at;
    assert!(world.wait(target, wait.state).is_none(), "the time is over");

    world.now = Mono(1);
    let mut changed = spec("web", 1);
    changed.priority = 60;
    world.region.run(&register(changed, None)).reply.unwrap();
    assert!(world.wait(target, wait.state).is_none(), "it changed");
}

#[test]
fn waits_are_capped_and_have_a_default() {
    let mut world = World::new();
    world.job("web", 1);
    let most = Span::seconds(300).as_nanos() as u64;
    for wait in ["", "&wait=3600s", "&wait=0", "&wait=-5s"] {
        let until = world.wait(&format!("/v1/jobs?index=1{wait}"), WaitState::default()).unwrap().wake_at;
        assert!((most..most + most / 16).contains(&until.0), "{wait}: {until:?}");
    }
}

#[test]
fn absent_objects_can_be_waited_for() {
    let mut world = World::new();
    world.job("other", 1);
    let wait = world.wait("/v1/job/web?index=1", WaitState::default()).unwrap();
    assert_eq!(wait.keys, vec![WatchKey::Job(key("web"))]);
    world.job("web", 2);
    assert!(world.wait("/v1/job/web?index=1", wait.state).is_none());
}

#[test]
fn reads_wait_a_little_for_a_leader() {
    let mut world = World::new();
    (world.status.leader, world.status.ready) = (None, false);
    let wait = world.wait("/v1/jobs", WaitState::default()).unwrap();
    assert!(wait.keys.is_empty());
    assert_eq!(wait.wake_at, Mono(0).after(Span::millis(5)));
    for (waited, until_next) in [(5, 5), (30, 30), (99, 99), (101, 100), (4_950, 50)] {
        world.now = Mono(0).after(Span::millis(waited));
        let wake_at = world.wait("/v1/jobs", wait.state).expect("there is no leader").wake_at;
        assert_eq!(wake_at.since(world.now), Span::millis(until_next), "after {waited} ms");
    }
    world.now = Mono(0).after(Span::seconds(5));
    match world.step(&request(Method::Get, "/v1/jobs", ""), wait.state) {
        RouteOutcome::Respond(r) => assert_eq!((r.status, text(&r).as_str()), (500, "No cluster leader")),
        _ => panic!("expected an answer"),
    }
    assert!(world.wait("/v1/jobs?stale", WaitState::default()).is_none(), "stale reads do not wait");
    world.status.leader = Some(7);
    assert!(world.wait("/v1/jobs", WaitState::default()).is_some());
    world.status.ready = true;
    assert!(world.wait("/v1/jobs", wait.state).is_none());
}
