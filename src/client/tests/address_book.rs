//! Servers that the node learns of from those that it asks.

use super::fixtures::{assignment, task};
use super::world::World;
use model::member::{ServerAddress, ServerList};
use model::time::Span;
use wire::rpc::Peer;

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

/// The servers tell of these.
fn list(w: &mut World, index: u64, ids: &[u64]) {
    let address = |id: &u64| ServerAddress { id: *id, rpc_addr: format!("10.0.0.{id}:4647") };
    w.listed = ServerList { index, servers: ids.iter().map(address).collect() };
    w.answer_watch();
    w.pass(s(5));
}

fn known(w: &World) -> Vec<u64> {
    w.client().status().servers.iter().map(|server| server.id).collect()
}

#[test]
fn a_node_asks_servers_that_it_learned_of_before() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(5));
    list(&mut w, 4, &[2, 3]);
    assert_eq!(known(&w), [1, 2, 3]);
    w.crash_agent();
    (w.gone, w.leader) = ([1, 2].into(), 3);
    w.asked.clear();
    w.pass(s(30));
    assert!(w.client().status().registered, "those of the configuration are gone");
    assert_eq!(w.asked, [1, 2, 3].map(Peer::Server).into());
    assert_eq!(w.client().status().servers[2].rpc_addr, "10.0.0.3:4647");
    w.stop_alloc(1);
    w.pass(s(10));
    assert_eq!(w.living(), [""; 0], "the others are heard");
}

#[test]
fn a_changed_list_of_servers_is_sent_and_stored() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(5));
    let syncs = w.disk.syncs();
    list(&mut w, 4, &[1, 2]);
    assert_eq!((w.lists_sent, w.disk.syncs()), (1, syncs + 1));
    w.pass(Span::minutes(20));
    list(&mut w, 5, &[1, 2]);
    assert_eq!((w.lists_sent, w.disk.syncs()), (2, syncs + 1), "they are the same");
    list(&mut w, 6, &[2]);
    assert_eq!((w.lists_sent, w.disk.syncs()), (3, syncs + 2));
    assert_eq!(known(&w), [1, 2], "the configuration names it");
    list(&mut w, 7, &[3]);
    assert_eq!(known(&w), [1, 3], "one that was removed is asked no more");
}

#[test]
fn an_older_list_is_not_taken() {
    let mut w = World::new(&[]);
    w.pass(s(5));
    list(&mut w, 4, &[1, 2]);
    w.index = 9;
    w.crash_agent();
    list(&mut w, 5, &[3]);
    assert_eq!(known(&w), [1, 2], "it comes with an older state");
}
