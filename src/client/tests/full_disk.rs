//! A node whose disk is full: nothing is written to it, what runs goes on, what is new waits and says why, and once there is
//! room it goes on by itself.

use super::fixtures::{alloc_id, assignment, restart, task};
use super::world::World;
use crate::effects::Input;
use model::job::{RestartMode, Task};
use model::time::Span;
use wire::client_rpc::{ClientRequest, RestartScope};
use wire::request::RefusalKind;

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

/// The disk takes no byte any more (or again), and the client is told. A write would be a fault, which no test survives.
pub fn set_room(w: &mut World, free: bool) {
    w.disk.fill(!free);
    w.inbox.push_front(Input::Space { free });
    w.settle();
}

/// One service runs on a node whose disk is full.
fn full() -> World {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(20));
    set_room(&mut w, false);
    w
}

fn place(w: &mut World, n: u8, tasks: &[Task]) {
    let fresh = assignment(n, tasks);
    w.assigned.insert(fresh.id, fresh);
    w.change(n, |_| {});
    w.pass(s(60));
}

fn description(w: &World, n: u8) -> &str {
    &w.told[&alloc_id(n)].client_description
}

#[test]
fn new_allocs_wait_on_a_full_disk_with_a_reason() {
    let mut w = full();
    let beats = w.client().status().last_heartbeat;
    place(&mut w, 2, &[task("new")]);
    assert_eq!(w.living(), ["web#1"], "{:#?}", w.trace);
    assert_eq!((w.status(1), w.status(2)), ("running", "pending"));
    assert!(description(&w, 2).contains("the node's disk is full"), "{}", description(&w, 2));
    assert!(w.client().status().last_heartbeat > beats, "heartbeats go on");
    assert!(w.client().status().troubles[0].contains("disk is full"));
    let syncs = w.disk.syncs();
    set_room(&mut w, true);
    w.pass(s(5));
    assert!(w.disk.syncs() > syncs, "what waited is stored");
    assert_eq!(w.living(), ["web#1", "new#2"], "{:#?}", w.trace);
    assert_eq!((w.status(2), description(&w, 2)), ("running", "Tasks are running"));
    assert_eq!(w.client().status().troubles, [""; 0]);
}

#[test]
fn the_node_is_unhealthy_for_new_work_until_there_is_room() {
    let mut w = full();
    w.pass(s(15));
    let driver = w.registered.drivers["raw_exec"].clone();
    assert!(!driver.healthy && driver.description.contains("disk is full"), "{driver:?}");
    set_room(&mut w, true);
    w.pass(s(15));
    assert!(w.registered.drivers["raw_exec"].healthy);
}

#[test]
fn an_exit_on_a_full_disk_is_reported_once_it_is_stored() {
    let mut w = full();
    w.exit("web", 1);
    w.pass(s(120));
    assert_eq!((w.living().len(), w.processes.len()), (0, 1), "a start that cannot be stored");
    assert!(description(&w, 1).contains("disk is full"), "{}", description(&w, 1));
    set_room(&mut w, true);
    w.pass(s(5));
    assert_eq!((w.living(), w.status(1)), (vec!["web#2".to_string()], "running"), "{:#?}", w.trace);
}

/// Its delay would have kept it waiting anyway: why it waits is told as it changes.
#[test]
fn a_full_disk_is_reported_and_so_is_its_end() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(20));
    w.exit("web", 1);
    w.pass(s(2));
    let plain = description(&w, 1).to_string();
    set_room(&mut w, false);
    w.pass(s(2));
    assert!(description(&w, 1).contains("disk is full"), "{}", description(&w, 1));
    set_room(&mut w, true);
    w.pass(s(2));
    assert_eq!((w.status(1), description(&w, 1)), ("pending", plain.as_str()));
}

#[test]
fn a_last_exit_is_not_reported_before_it_is_stored() {
    let mut w =
        World::new(&[assignment(1, &[Task { restart: restart(0, RestartMode::Fail), ..task("web") }])]);
    w.pass(s(20));
    set_room(&mut w, false);
    w.exit("web", 3);
    w.pass(s(60));
    assert_eq!(w.status(1), "running");
    assert_eq!(w.processes[0].label, "web", "nor is its run forgotten");
    // what is known of it in memory alone may be lost
    w.crash_agent();
    set_room(&mut w, false);
    w.pass(s(60));
    assert_eq!(w.status(1), "running");
    set_room(&mut w, true);
    w.pass(s(5));
    assert_eq!((w.status(1), w.processes[0].label.as_str()), ("failed", ""), "{:#?}", w.trace);
}

#[test]
fn stops_and_removals_continue_on_a_full_disk() {
    let mut w = full();
    w.stop_alloc(1);
    w.pass(s(10));
    assert_eq!(w.living().len(), 0, "{:#?}", w.trace);
    w.remove_alloc(1);
    w.pass(s(10));
    assert!(w.trace.contains(&"remove dir".to_string()), "{:#?}", w.trace);
    assert_eq!(w.client().status().allocs.len(), 0);
    set_room(&mut w, true);
    w.server_up = false;
    w.crash_agent();
    w.pass(s(10));
    assert_eq!(
        (w.client().status().allocs.len(), w.processes.len()),
        (0, 1),
        "what is gone is gone for good"
    );
}

#[test]
fn requests_to_be_stored_are_refused_on_a_full_disk() {
    let mut w = full();
    let restart = ClientRequest::Restart { alloc: alloc_id(1), scope: RestartScope::All };
    let meta = ClientRequest::SetMetadata { changes: [("rack".to_string(), Some("r1".to_string()))].into() };
    for ask in [restart.clone(), meta] {
        let refused = w.ask(ask).expect_err("it could not be stored");
        assert_eq!(refused.kind, RefusalKind::Unavailable);
        assert!(refused.message.contains("disk is full"), "{refused}");
    }
    set_room(&mut w, true);
    assert!(w.ask(restart).is_ok());
}
