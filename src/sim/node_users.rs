//! Users who ask the agent of a node that is no server: it passes on what servers have to answer, and each is told the truth, whatever
//! dies on the way.
//!
//! Refuses to know: how. `clients` says what must be so.

#![cfg(test)]

use super::consistency::{stop_clients, with_clients};
use super::elections::{await_leader, region_of, run_for};
use super::faults::Kind;
use super::line::Line;
use super::network::Cut;
use super::place::{Machine, NodeAt, ServerAt};
use super::users::HOME_REGION;
use super::world::World;
use model::node::NodeStatus;
use model::time::Span;

const NODE: NodeAt = NodeAt { region: HOME_REGION, node: 0 };
const JOB: &str = "http-0";

/// All of the users ask nodes.
fn with_users_of_nodes(servers: usize, seed: u64) -> World {
    let mut world = with_clients(servers, seed);
    world.clients.ask_nodes(seed, 1);
    world
}

fn count(world: &World, kind: Kind) -> u64 {
    world.faults.counts().get(&kind).copied().unwrap_or(0)
}

/// No node reaches the leader: the servers that they are connected to forward to it, or confirm their reads.
#[test]
fn a_nodes_user_writes_through_a_follower_and_reads() {
    for seed in 1..=2 {
        let mut world = with_users_of_nodes(3, seed);
        let (leader, _) = await_leader(&mut world);
        for n in world.regions.nodes_of(HOME_REGION) {
            let until = world.now.after(Span::hours(1));
            world.network.cut(&Cut::of_node(Machine::Node(n), vec![Machine::Server(leader)]), until);
        }
        run_for(&mut world, Span::minutes(1));
        let (unknown, asked) = (world.clients.unknown, count(&world, Kind::AskedThroughANode));
        run_for(&mut world, Span::minutes(2));
        assert_eq!(world.clients.unknown, unknown, "seed {seed}: nothing is in the way any more");
        assert!(count(&world, Kind::AskedThroughANode) > asked + 100);
        stop_clients(&mut world);
    }
}

/// Servers die in the middle of what nodes' users ask, whether they lead or not, and the nodes' agents die, too.
#[test]
fn servers_of_nodes_die_and_every_answer_stays_true() {
    let mut unknown = 0;
    for seed in 1..=4 {
        let mut world = with_users_of_nodes(3, seed);
        for round in 0..9 {
            await_leader(&mut world);
            let wait = Span::millis(200 + world.faults.draw(8_000) as i64);
            run_for(&mut world, wait);
            match round % 3 {
                0 => world.crash_agent(NodeAt { node: round / 3, ..NODE }),
                _ => {
                    let at = ServerAt { region: HOME_REGION, server: world.faults.draw(3) as usize };
                    world.stop_server(at, Span::seconds(5));
                }
            }
            run_for(&mut world, Span::seconds(10));
        }
        unknown += count(&world, Kind::UnknownThroughANode);
        stop_clients(&mut world);
    }
    assert!(unknown > 0, "some were under way");
}

/// The only server sleeps: its node's user is told after half a minute that nobody knows, and then the write happens.
#[test]
fn a_write_that_nobody_knows_of_may_come_late() {
    let mut world = region_of(1, 1);
    let (server, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(20));
    world.regions[server].paused_until = world.now.after(Span::seconds(50));
    world.client_writes(Machine::Node(NODE), JOB.into());
    run_for(&mut world, Span::seconds(29));
    assert_eq!(world.clients.unknown, 0, "it waits");
    run_for(&mut world, Span::seconds(2));
    assert_eq!((world.clients.unknown, world.clients.acknowledged), (1, 0));
    run_for(&mut world, Span::seconds(30));
    world.client_reads(Machine::Node(NODE), JOB.into(), false);
    run_for(&mut world, Span::seconds(2));
    assert_eq!((world.clients.unknown, world.clients.reads), (1, 1), "it is there");
}

/// Two megabytes that a node's user writes take minutes on a slow line, and the node's heartbeats do not wait for them.
#[test]
fn a_long_request_on_a_slow_line_takes_no_node_down() {
    let mut world = region_of(1, 1);
    let (server, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(20));
    let (node, id) = (Machine::Node(NODE), world.regions[NODE].id());
    world.network.lines.insert((node, Machine::Server(server)), Line::new(8_000));
    world.client_writes_with(node, JOB.into(), 2 << 20);
    for _ in 0..300 {
        run_for(&mut world, Span::seconds(1));
        let status = world.regions[server].look(|server| {
            let known = server.reader().view().and_then(|view| view.node(id)).expect("a sound disk");
            known.expect("it is registered").status
        });
        assert_eq!(status, Some(NodeStatus::Ready));
    }
    assert_eq!(world.clients.unknown, 1, "its user has given up");
    let sent = world.network.lines[&(node, Machine::Server(server))].counts.sent_bytes;
    assert!(sent.iter().sum::<usize>() > 2 << 20, "{sent:?}");
    world.client_reads(Machine::Server(server), JOB.into(), false);
    run_for(&mut world, Span::seconds(2));
    assert_eq!(world.clients.reads, 1, "it came late");
}
