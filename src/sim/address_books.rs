//! Nodes whose configuration names a server that is no more: they ask those that they have learned of.
//!
//! Refuses to know: how they keep them.

#![cfg(test)]

use super::elections::{await_leader, region_of, run_for, settle};
use super::place::ServerAt;
use super::users::HOME_REGION;
use model::time::Span;

#[test]
fn nodes_find_the_others_when_their_only_server_is_gone() {
    for seed in 1..=3 {
        let mut world = region_of(3, seed);
        await_leader(&mut world);
        run_for(&mut world, Span::seconds(30));
        let first = ServerAt { region: HOME_REGION, server: 0 };
        world.stop_server(first, Span::minutes(5));
        for n in world.regions.nodes() {
            world.regions[n].names_servers = Some(1);
            world.crash_agent(n);
        }
        run_for(&mut world, Span::minutes(2));
        for node in world.regions.node_hosts() {
            let status = node.client.as_ref().expect("it is up").status();
            assert!(status.registered, "{}: {:?}", node.at, status.troubles);
            let names: Vec<&str> = status.servers.iter().map(|server| server.rpc_addr.as_str()).collect();
            assert_eq!(names.len(), 3, "{names:?}");
            assert!(names.iter().all(|name| name.starts_with("server-0-")), "{names:?}");
        }
        settle(&mut world);
    }
}
