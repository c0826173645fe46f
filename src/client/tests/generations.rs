//! Servers that show another state than before: an older one of the same generation, or one of another generation.

use super::fixtures::{alloc_id, assignment, generation, task};
use super::world::World;
use model::alloc::DesiredStatus;
use model::member::Generation;
use model::time::Span;

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

/// A node with a running task, at index 10 of the first generation.
fn running() -> World {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(5));
    assert_eq!(w.living(), ["web#1"]);
    w
}

#[test]
fn an_older_index_stops_no_allocation() {
    let mut w = running();
    let known = std::mem::take(&mut w.assigned);
    w.index = 5;
    for _ in 0..2 {
        w.crash_agent();
        w.pass(Span::minutes(30));
        assert_eq!(w.living(), ["web#1"], "an older list says nothing");
        let troubles = w.client().status().troubles;
        assert!(troubles[0].contains("as of index 5, and this node has seen 10"), "{troubles:?}");
    }
    (w.assigned, w.index) = (known, 10);
    w.pass(s(10));
    assert_eq!(w.client().status().troubles, [""; 0], "that is as new as what it had");
    w.stop_alloc(1);
    w.pass(s(10));
    assert_eq!(w.living(), [""; 0], "what is newer is followed");
}

#[test]
fn another_server_is_asked_when_one_is_behind() {
    let mut w = running();
    w.config.servers = vec![1, 2];
    w.crash_agent();
    w.pass(s(5));
    w.asked.clear();
    w.assigned.clear();
    w.index = 5;
    w.crash_agent();
    w.pass(s(10));
    assert_eq!(w.asked.len(), 2);
}

#[test]
fn another_region_is_followed_whatever_its_index() {
    let mut w = running();
    (w.generation, w.index) = (generation(2), 3);
    w.assigned.clear();
    w.unknown_node = true;
    w.pass(s(30));
    assert_eq!(w.living(), [""; 0]);
    w.index = 2;
    w.assigned.insert(alloc_id(2), assignment(2, &[task("new")]));
    w.crash_agent();
    w.pass(s(60));
    assert_eq!(w.living(), [""; 0], "it has seen index 3 of that region, also over a restart");
    w.index = 4;
    w.pass(s(10));
    assert_eq!(w.living(), ["new#2"]);
}

/// The servers know the allocation as it was before the node heard of it last.
fn restored(w: &mut World) {
    w.change(1, |_| {});
    w.pass(s(5));
    (w.generation, w.index) = (Generation { restores: 1, ..w.generation }, 6);
    let alloc = w.assigned.get_mut(&alloc_id(1)).expect("it is assigned");
    (alloc.alloc_modify_index, alloc.desired) = (4, DesiredStatus::Stop);
    w.told.clear();
}

#[test]
fn a_restored_state_is_taken_as_it_is() {
    let mut w = running();
    restored(&mut w);
    w.crash_agent();
    w.pass(s(30));
    assert_eq!(w.living(), [""; 0], "a lower index is newer now");
    assert_eq!(w.status(1), "complete");
}

#[test]
fn after_a_restore_allocations_are_reported_again() {
    let mut w = running();
    restored(&mut w);
    w.assigned.get_mut(&alloc_id(1)).expect("it is assigned").desired = DesiredStatus::Run;
    w.unknown_node = false;
    w.index = 20;
    w.answer_watch();
    w.pass(s(10));
    assert_eq!((w.living(), w.status(1)), (vec!["web#1".to_string()], "running"));
}

/// It dies when the new state is stored, and before anything of it was fetched.
#[test]
fn a_generation_is_stored_with_what_it_makes_old() {
    let mut w = World::new(&[assignment(1, &[task("one")]), assignment(2, &[task("two")])]);
    w.pass(s(5));
    restored(&mut w);
    w.assigned.get_mut(&alloc_id(2)).expect("it is assigned").desired = DesiredStatus::Stop;
    w.crash_agent();
    while w.client().servers.shown().generation != w.generation {
        assert!(w.step(), "it comes with the first answers");
    }
    w.crash_agent();
    w.pass(s(30));
    assert_eq!(w.living(), [""; 0]);
}

#[test]
fn a_server_that_missed_the_restore_is_not_followed() {
    let mut w = running();
    let before = w.generation;
    restored(&mut w);
    w.assigned.get_mut(&alloc_id(1)).expect("it is assigned").desired = DesiredStatus::Run;
    w.crash_agent();
    w.pass(s(10));
    (w.generation, w.index) = (before, 50);
    w.assigned.clear();
    for _ in 0..2 {
        w.crash_agent();
        w.pass(Span::minutes(5));
        assert_eq!(w.living(), ["web#1"], "index 50 of before says nothing");
    }
}
