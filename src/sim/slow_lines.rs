//! A follower on a slow line: it takes the largest entry that raft does, and meanwhile nothing else stops.
//!
//! Refuses to know: how raft fills a line.

#![cfg(test)]

use super::elections::{await_leader, leaders, region_of, run_for, settle};
use super::line::Line;
use super::place::Machine;
use super::users::HOME_REGION;
use super::world::{EPOCH, World};
use model::eval::{EvalStatus, Evaluation};
use model::time::Span;
use server::Server;
use wire::frame::TrafficClass;

/// 64 kbit/s.
const BYTES_PER_SECOND: u64 = 8_000;
const STEP: Span = Span::millis(100);
const MAX_ENTRY_BYTES: usize = Server::MAX_ENTRY_BYTES;

/// An evaluation that nobody has looked at for so long is in hands that do nothing.
const MAX_PENDING: Span = Span::seconds(10);

fn forgotten_eval(world: &World) -> Option<Evaluation> {
    let open = world.newest_view().and_then(|view| view.open_evals().map_err(|e| e.to_string()));
    let now = EPOCH + Span(world.now.0 as i64);
    let is_old = |e: &Evaluation| e.wait_until.is_none() && e.create_time + MAX_PENDING < now;
    open.expect("reads").into_iter().find(|e| e.status == EvalStatus::Pending && is_old(e))
}

fn terms(world: &World) -> usize {
    world.regions[HOME_REGION].leaders.len()
}

#[test]
fn a_follower_on_64_kbit_takes_the_largest_entry() {
    let mut world = region_of(3, 1);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(20));
    let servers = world.regions.servers();
    let slow = servers.iter().copied().find(|at| *at != leader).expect("there are three");
    for other in servers.into_iter().filter(|other| *other != slow) {
        let (slow, other) = (Machine::Server(slow), Machine::Server(other));
        for link in [(slow, other), (other, slow)] {
            world.network.lines.insert(link, Line::new(BYTES_PER_SECOND));
        }
    }
    let (begun, before) = (world.now, terms(&world));
    // none of it is placed: a node that is connected to the slow server would be told of its meta
    world.register_with_meta(leader, "large", 0, MAX_ENTRY_BYTES - 4_000);
    run_for(&mut world, Span::seconds(2));
    let (index, acknowledged) = (world.regions[leader].applied_index(), world.ledger.acknowledged);
    assert!(world.regions[slow].applied_index() < index, "the others have committed it");
    while world.regions[slow].applied_index() < index {
        run_for(&mut world, STEP);
        assert!(world.now.since(begun) < Span::minutes(10), "it never arrives");
        assert_eq!((leaders(&world), terms(&world)), (vec![leader], before), "heartbeats pass");
        assert_eq!(forgotten_eval(&world), None, "the slow one is given no evaluations");
    }
    let took = world.now.since(begun);
    let counts = world.network.lines[&(Machine::Server(leader), Machine::Server(slow))].counts;
    println!("{MAX_ENTRY_BYTES} bytes at {BYTES_PER_SECOND} bytes/s: {took}, {counts:?}");
    let appends = TrafficClass::Appends as usize;
    assert!(took > Span::seconds(250) && counts.lost == 0);
    assert!(counts.sent_bytes[appends] < MAX_ENTRY_BYTES * 3 / 2, "it is sent once");
    assert!(counts.most_bytes[appends] < MAX_ENTRY_BYTES * 5 / 4, "what waits for it is bounded");
    assert!(world.ledger.acknowledged > acknowledged + 10, "the group goes on");
    assert_eq!(world.snapshot_links.installed, 0, "by the log");
    let (arrived, lags) = (world.now, |world: &World| {
        world.regions[leader].applied_index() > world.regions[slow].applied_index() + 20
    });
    while lags(&world) {
        run_for(&mut world, STEP);
        assert!(world.now.since(arrived) < Span::minutes(10), "it does not catch up");
    }
    println!("it has caught up after another {}", world.now.since(arrived));
    assert_eq!((leaders(&world), terms(&world)), (vec![leader], before), "nobody has campaigned");
    world.network.lines.clear();
    settle(&mut world);
}
