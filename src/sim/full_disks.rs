//! Servers whose disks are full: they live, leave the lead to those with room, and lose nothing that was acknowledged.
//!
//! Refuses to know: what fills a disk.

#![cfg(test)]

use super::elections::{await_leader, leaders, region_of, run_for, settle};
use super::place::{Machine, ServerAt};
use super::server_host::RESERVE_BYTES;
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::time::Span;
use server::disk_full::MIN_RESERVE_BYTES;

/// Votes and the index that is applied: what a full disk is written.
const VOTES_BYTES: u64 = 64 << 10;
/// What a leader has told in vain it tells again after it would have come over a slow line.
const CATCHES_UP_IN: Span = Span::seconds(90);

/// From now on its disk takes that much.
fn fill(world: &mut World, at: ServerAt, room: u64) {
    world.regions[at].disk.set_room(Some(room));
    world.wake_server(at, Span(1));
}

fn free(world: &mut World, at: ServerAt) {
    world.after(Span(1), Event::Room(Machine::Server(at)));
}

fn others(world: &World, than: ServerAt) -> Vec<ServerAt> {
    world.regions.servers().into_iter().filter(|at| *at != than).collect()
}

fn applied(world: &World, at: ServerAt) -> u64 {
    world.regions[at].applied_index()
}

fn term(world: &World, at: ServerAt) -> Option<u64> {
    world.regions[at].brain.as_ref().map(|server| server.status().term)
}

fn lives(world: &World) -> Vec<u64> {
    world.regions[HOME_REGION].servers.iter().map(|server| server.lives).collect()
}

/// Until it has what the leader has.
fn catches_up(world: &mut World, at: ServerAt) {
    let begun = world.now;
    while world.now.since(begun) < CATCHES_UP_IN {
        let leader = await_leader(world).0;
        if applied(world, at) + 5 >= applied(world, leader) {
            return;
        }
        run_for(world, Span::millis(200));
    }
    panic!(
        "{at} has {} of {:?}",
        applied(world, at),
        leaders(world).iter().map(|l| applied(world, *l)).max()
    );
}

#[test]
fn a_leader_with_a_full_disk_hands_over_and_writes_go_on() {
    for seed in 1..=4 {
        let mut world = region_of(3, seed);
        let (leader, _) = await_leader(&mut world);
        run_for(&mut world, Span::seconds(20));
        let (before, acknowledged) = (lives(&world), world.ledger.acknowledged);
        fill(&mut world, leader, RESERVE_BYTES - 1);
        run_for(&mut world, Span::seconds(5));
        let (next, _) = await_leader(&mut world);
        assert_ne!(next, leader, "seed {seed}");
        run_for(&mut world, Span::minutes(3));
        assert_eq!(leaders(&world), [next], "seed {seed}: nobody else is elected");
        assert!(world.ledger.acknowledged > acknowledged + 5, "seed {seed}");
        assert_eq!(lives(&world), before, "seed {seed}");
        free(&mut world, leader);
        catches_up(&mut world, leader);
        settle(&mut world);
    }
}

/// A server without room does not take over either: the third one does.
#[test]
fn of_two_full_servers_neither_leads() {
    let mut world = region_of(3, 5);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(20));
    let [other, third] = others(&world, leader)[..] else { panic!("three servers") };
    for at in [other, leader] {
        fill(&mut world, at, RESERVE_BYTES - 1);
    }
    run_for(&mut world, Span::seconds(20));
    assert_eq!(leaders(&world), [third]);
    free(&mut world, leader);
    free(&mut world, other);
    fill(&mut world, third, RESERVE_BYTES - 1);
    run_for(&mut world, Span::seconds(20));
    assert_ne!(leaders(&world), [third]);
    free(&mut world, third);
    settle(&mut world);
}

/// Nobody can take over: it goes on leading, so that reads go on, and writes are refused.
#[test]
fn where_all_disks_are_full_the_leader_stays() {
    let mut world = region_of(3, 6);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(20));
    let before = lives(&world);
    for at in world.regions.servers() {
        fill(&mut world, at, RESERVE_BYTES - 1);
    }
    run_for(&mut world, Span::seconds(10));
    let full = (term(&world, leader), world.ledger.acknowledged);
    run_for(&mut world, Span::minutes(3));
    assert_eq!(leaders(&world), [leader]);
    assert_eq!((term(&world, leader), world.ledger.acknowledged), full);
    for at in world.regions.servers() {
        assert!(world.regions[at].disk.free_bytes() > RESERVE_BYTES - VOTES_BYTES, "{at}");
        free(&mut world, at);
    }
    run_for(&mut world, Span::minutes(1));
    assert!(world.ledger.acknowledged > full.1, "all goes on");
    assert_eq!(lives(&world), before);
    settle(&mut world);
}

#[test]
fn a_full_follower_lives_and_catches_up() {
    for seed in 1..=4 {
        let mut world = region_of(3, seed);
        let (leader, _) = await_leader(&mut world);
        run_for(&mut world, Span::seconds(20));
        let follower = others(&world, leader)[0];
        let before = lives(&world);
        fill(&mut world, follower, MIN_RESERVE_BYTES + 20_000);
        run_for(&mut world, Span::minutes(2));
        let (stands, acknowledged) = (applied(&world, follower), world.ledger.acknowledged);
        run_for(&mut world, Span::minutes(2));
        assert_eq!(applied(&world, follower), stands, "seed {seed}: it takes no entries any more");
        assert!(applied(&world, leader) > stands, "seed {seed}");
        assert!(world.ledger.acknowledged > acknowledged, "seed {seed}: the others go on");
        assert_eq!(
            (leaders(&world), lives(&world)),
            (vec![leader], before),
            "seed {seed}: it deposes nobody"
        );
        let left = world.regions[follower].disk.free_bytes();
        assert!(left > MIN_RESERVE_BYTES - (256 << 10), "seed {seed}: {left}");
        free(&mut world, follower);
        catches_up(&mut world, follower);
        settle(&mut world);
    }
}

/// The full follower alone has all entries but for the dead leader: it is elected, and hands over as soon as a server with room can lead.
#[test]
fn a_full_follower_that_is_elected_hands_over() {
    let mut world = region_of(3, 7);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(20));
    let [full, behind] = others(&world, leader)[..] else { panic!("three servers") };
    fill(&mut world, full, RESERVE_BYTES - 1);
    world.regions[behind].paused_until = world.now.after(Span::seconds(15));
    run_for(&mut world, Span::seconds(10));
    world.stop_server(leader, Span::minutes(5));
    run_for(&mut world, Span::seconds(30));
    assert_eq!(leaders(&world), [behind]);
    free(&mut world, full);
    settle(&mut world);
}

/// Nobody else can lead. Nodes are heard, nothing is written, and all goes on when there is room.
#[test]
fn a_region_of_one_outlives_a_full_disk() {
    for seed in 1..=4 {
        let mut world = region_of(1, seed);
        run_for(&mut world, Span::minutes(1));
        let (leader, _) = await_leader(&mut world);
        let before = lives(&world);
        fill(&mut world, leader, RESERVE_BYTES - 1);
        run_for(&mut world, Span::seconds(1));
        let (index, acknowledged) = (applied(&world, leader), world.ledger.acknowledged);
        assert!(acknowledged > 5, "seed {seed}: {acknowledged}");
        let node = world.regions.nodes()[0];
        world.crash_agent(node);
        run_for(&mut world, Span::minutes(8));
        assert_eq!(applied(&world, leader), index, "seed {seed}: nothing is written");
        assert_eq!((leaders(&world), lives(&world)), (vec![leader], before), "seed {seed}");
        assert_eq!(world.ledger.acknowledged, acknowledged, "seed {seed}");
        free(&mut world, leader);
        run_for(&mut world, Span::minutes(1));
        assert!(world.ledger.acknowledged > acknowledged, "seed {seed}: users go on");
        settle(&mut world);
    }
}
