//! A node without servers, and what only one allocation can hold at a time.

use super::fixtures::{assignment, task};
use super::world::World;
use model::claims::{HeldNetwork, HeldPort};
use model::job::{DisconnectPolicy, Reconcile};
use model::time::Span;
use wire::rpc::Assignment;

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

fn living(w: &World) -> Vec<String> {
    let mut names: Vec<String> =
        w.living().iter().map(|run| run.split('#').next().unwrap_or_default().to_string()).collect();
    names.sort();
    names
}

fn given_up_after(n: u8, after: Option<Span>) -> Assignment {
    let mut a = assignment(n, &[task(&format!("t{n}"))]);
    let policy = |stop_on_client_after| DisconnectPolicy {
        lost_after: None,
        stop_on_client_after: Some(stop_on_client_after),
        replace: true,
        reconcile: Reconcile::BestScore,
    };
    a.group.disconnect = after.map(policy);
    a
}

#[test]
fn stop_on_client_after_ends_only_its_own_allocations() {
    let mut w = World::new(&[given_up_after(1, Some(s(60))), given_up_after(2, None)]);
    w.pass(s(30));
    assert_eq!(living(&w), ["t1", "t2"]);
    w.server_up = false;
    w.pass(s(40));
    assert_eq!(living(&w), ["t1", "t2"], "the last heartbeat is younger than that");
    w.pass(s(40));
    assert_eq!(living(&w), ["t2"]);
    w.server_up = true;
    w.pass(s(120));
    assert_eq!((w.status(1), living(&w)), ("failed", vec!["t2".to_string()]));
}

#[test]
fn an_agent_that_starts_without_servers_waits_as_long() {
    let mut w = World::new(&[given_up_after(1, Some(s(60)))]);
    w.pass(s(30));
    w.server_up = false;
    w.crash_agent();
    w.pass(s(50));
    assert_eq!(living(&w), ["t1"]);
    w.pass(s(20));
    assert_eq!(living(&w), Vec::<String>::new());
}

fn with_port(n: u8, value: u16) -> Assignment {
    let mut a = assignment(n, &[task(&format!("t{n}"))]);
    let port = HeldPort { value, host_ip: "10.0.0.1".into(), ..HeldPort::default() };
    a.resources.networks = vec![HeldNetwork { ports: vec![port], ..HeldNetwork::default() }];
    a
}

/// Its holder, which takes its time to end, leaves it to another one.
fn port_is_reused(leave: impl FnOnce(&mut World)) {
    let mut w = World::new(&[with_port(1, 80)]);
    w.pass(s(2));
    w.stubborn = vec!["t1".into()];
    leave(&mut w);
    for next in [with_port(2, 80), with_port(3, 81)] {
        w.assigned.insert(next.id, next);
    }
    w.change(2, |_| {});
    w.change(3, |_| {});
    w.pass(s(2));
    assert_eq!(living(&w), ["t1", "t3"], "the port is held by the one that is told to end");
    w.pass(s(30));
    assert_eq!(living(&w), ["t2", "t3"]);
}

#[test]
fn a_port_is_reused_only_once_its_holder_has_ended() {
    port_is_reused(|w| w.stop_alloc(1));
}

/// Its job was purged: servers know nothing of it any more, and have given its port to another one.
#[test]
fn a_port_of_a_purged_job_is_reused_once_it_has_ended() {
    port_is_reused(|w| w.remove_alloc(1));
}
