//! Followers that were away for so long that the log does not reach them: they get the leader's state, whatever happens on the way.
//! That equal indexes have equal states is looked at after every turn, as everywhere in this world.
//!
//! Refuses to know: how rows travel. Links and disks are sound but for what a test says.

#![cfg(test)]

use super::faults::ServerFault;
use super::place::{Machine, ServerAt};
use super::server_host::RESERVE_BYTES;
use super::snapshot_links::SnapshotFaults;
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::time::Span;
use wire::snapshot::StopReason;

const SERVERS: usize = 3;
const NODES: usize = 2;
const STEP: Span = Span::millis(20);
/// Within this, whoever was away has caught up.
const CAUGHT_UP: Span = Span::minutes(10);

fn region(seed: u64) -> World {
    let mut world = World::new(seed, SERVERS, NODES, false);
    world.faults.heal();
    world.start_all().expect("fresh disks open");
    world.after(Span::seconds(1), Event::Work);
    world
}

fn run_for(world: &mut World, span: Span) {
    world.run_until(world.now.after(span)).unwrap_or_else(|e| panic!("{e}"));
}

fn until(world: &mut World, what: &str, limit: Span, mut done: impl FnMut(&World) -> bool) {
    let begun = world.now;
    while !done(world) {
        assert!(world.now.since(begun) < limit, "not within {limit:?}: {what}");
        run_for(world, STEP);
    }
}

fn leader(world: &mut World) -> ServerAt {
    let leads = |world: &World| world.regions.servers().into_iter().find(|at| world.regions[*at].leads());
    until(world, "somebody leads", Span::seconds(30), |world| leads(world).is_some());
    leads(world).expect("somebody leads")
}

fn follower(world: &mut World) -> ServerAt {
    let leader = leader(world);
    world.regions.servers().into_iter().find(|at| *at != leader).expect("there are three")
}

/// How far the log of whoever leads is cut.
fn compacted(world: &World) -> u64 {
    let servers = &world.regions[HOME_REGION].servers;
    let leads = servers.iter().filter(|s| s.leads());
    leads.filter_map(|s| s.brain.as_ref()).map(|s| s.status().log.compacted_index).max().unwrap_or(0)
}

/// A follower is away until the log does not reach it any more.
fn fall_behind(world: &mut World) -> ServerAt {
    let away = follower(world);
    run_for(world, Span::seconds(5));
    let applied = world.regions[away].applied_index();
    world.stop_server(away, Span::hours(10));
    until(world, "the log is cut", Span::minutes(20), |world| compacted(world) > applied + 10);
    away
}

fn come_back(world: &mut World, at: ServerAt) {
    world.start_server(at).unwrap_or_else(|e| panic!("{e}"));
}

/// Waits until the server is where the others are.
fn catches_up(world: &mut World, at: ServerAt) {
    until(world, "it has caught up", CAUGHT_UP, |world| {
        let newest = world.regions[HOME_REGION].newest_server().map_or(0, |s| s.applied_index());
        world.regions[at].is_up() && newest > 0 && world.regions[at].applied_index() + 2 >= newest
    });
}

/// All servers have the same, and all that users wanted has come about.
fn settle(world: &mut World) {
    world.workload.stop();
    world.heal().expect("what is down comes up");
    for at in world.regions.servers() {
        if !world.regions[at].is_up() {
            come_back(world, at);
        }
    }
    run_for(world, Span::minutes(20));
    world.check_settled().unwrap_or_else(|e| panic!("{e}"));
    let servers = &world.regions[HOME_REGION].servers;
    let digest = |s: &super::server_host::ServerHost| {
        s.look(|s| s.reader().view().map(|v| (v.index(), v.digest())).expect("reads"))
    };
    let all: Vec<_> = servers.iter().map(digest).collect();
    assert!(all.iter().all(|of| of.is_some() && *of == all[0]), "{all:?}");
}

#[test]
fn a_follower_that_the_log_does_not_reach_gets_the_state() {
    for seed in 1..=4 {
        let mut world = region(seed);
        let away = fall_behind(&mut world);
        assert_eq!(world.snapshot_links.installed, 0);
        come_back(&mut world, away);
        catches_up(&mut world, away);
        let links = &world.snapshot_links;
        assert_eq!((links.offers, links.installed), (1, 1), "one is enough: {:?}", links.stopped);
        settle(&mut world);
    }
}

/// The follower was away for moments: the log is kept for it.
#[test]
fn a_follower_that_was_away_for_moments_needs_no_snapshot() {
    for seed in 1..=3 {
        let mut world = region(seed);
        run_for(&mut world, Span::seconds(20));
        for _ in 0..5 {
            let away = follower(&mut world);
            world.stop_server(away, Span::seconds(2));
            run_for(&mut world, Span::seconds(10));
            catches_up(&mut world, away);
        }
        assert_eq!(world.snapshot_links.offers, 0, "seed {seed}");
    }
}

/// A server whose state came from a snapshot leads later, and its parts are what the state says.
#[test]
fn whoever_got_a_snapshot_can_lead() {
    let mut world = region(5);
    let away = fall_behind(&mut world);
    come_back(&mut world, away);
    catches_up(&mut world, away);
    for _ in 0..20 {
        let leader = leader(&mut world);
        if leader == away {
            break;
        }
        run_for(&mut world, Span::seconds(5));
        world.stop_server(leader, Span::seconds(12));
        run_for(&mut world, Span::seconds(10));
    }
    assert_eq!(leader(&mut world), away);
    run_for(&mut world, Span::seconds(30));
    settle(&mut world);
}

#[test]
fn messages_that_are_lost_doubled_or_late_mix_nothing() {
    let (mut struck, mut installed) = (0, 0);
    for seed in 0..20 {
        let mut world = region(100 + seed);
        let away = fall_behind(&mut world);
        world.snapshot_links.faults = SnapshotFaults { lost: 20, doubled: 20, late: 20 };
        come_back(&mut world, away);
        catches_up(&mut world, away);
        struck += world.snapshot_links.struck;
        installed += world.snapshot_links.installed;
        let look = |at: ServerAt| world.regions[at].applied_index();
        assert!(look(away) > 0);
    }
    println!("{struck} messages struck, {installed} snapshots installed");
    assert!(struck > 20 && installed >= 20);
}

/// At any of its disk operations, again and again, until it is through.
#[test]
fn power_cuts_while_a_snapshot_comes_lose_nothing() {
    let (mut cuts, mut installed) = (0, 0);
    for seed in 0..20 {
        let mut world = region(200 + seed);
        let away = fall_behind(&mut world);
        let before = world.regions[away].disk.counts().power_cuts;
        come_back(&mut world, away);
        for _ in 0..4 {
            let operations = 1 + world.faults.draw(40);
            world.strike_server(away, ServerFault::PowerCut { operations });
            run_for(&mut world, Span::seconds(6));
        }
        world.regions[away].disk.heal();
        catches_up(&mut world, away);
        cuts += world.regions[away].disk.counts().power_cuts - before;
        installed += world.snapshot_links.installed;
        if seed % 10 == 0 {
            settle(&mut world);
        }
    }
    println!("{cuts} power cuts, {installed} snapshots installed");
    assert!(cuts >= 25 && installed >= 20);
}

#[test]
fn a_leader_that_dies_amid_a_transfer_has_a_successor_for_it() {
    let mut amid = 0;
    for seed in 0..10 {
        let mut world = region(300 + seed);
        let away = fall_behind(&mut world);
        // what is lost takes long, so that the leader dies in between
        world.snapshot_links.faults = SnapshotFaults { lost: 60, ..SnapshotFaults::default() };
        come_back(&mut world, away);
        until(&mut world, "a chunk is sent", CAUGHT_UP, |world| world.snapshot_links.chunks > 0);
        let first = leader(&mut world);
        world.snapshot_links.faults = SnapshotFaults::default();
        amid += u64::from(world.snapshot_links.installed == 0);
        world.stop_server(first, Span::seconds(60));
        catches_up(&mut world, away);
        assert!(world.snapshot_links.installed > 0);
        if seed % 5 == 0 {
            settle(&mut world);
        }
    }
    println!("{amid} times amid a transfer");
    assert!(amid > 2);
}

#[test]
fn a_full_disk_takes_no_snapshot_until_there_is_room() {
    for seed in 0..5 {
        let mut world = region(400 + seed);
        let away = fall_behind(&mut world);
        match seed % 2 {
            0 => world.regions[away].disk.set_room(Some(RESERVE_BYTES - 1)),
            _ => world.regions[away].disk.set_room(Some(100_000)),
        }
        come_back(&mut world, away);
        run_for(&mut world, Span::minutes(1));
        let links = &world.snapshot_links;
        assert!(links.stopped.contains(&StopReason::NoRoom), "{:?}", links.stopped);
        assert_eq!((links.installed, links.chunks), (0, 0));
        assert!(links.offers <= 8, "{} offers in a minute", links.offers);
        let acknowledged = world.ledger.acknowledged;
        run_for(&mut world, Span::minutes(1));
        assert!(world.ledger.acknowledged > acknowledged, "the region goes on without it");
        world.regions[away].disk.set_room(None);
        world.after(Span(1), Event::Room(Machine::Server(away)));
        catches_up(&mut world, away);
        assert_eq!(world.snapshot_links.installed, 1);
    }
}

/// The follower is paused, or its links are cut, while rows are on their way to it.
#[test]
fn a_follower_that_stalls_amid_a_transfer_gets_another_one() {
    for seed in 0..5 {
        let mut world = region(500 + seed);
        let away = fall_behind(&mut world);
        come_back(&mut world, away);
        until(&mut world, "an offer", CAUGHT_UP, |world| world.snapshot_links.offers > 0);
        world.strike_server(away, ServerFault::Paused);
        run_for(&mut world, Span::minutes(4));
        world.regions[away].paused_until = world.now;
        world.wake_server(away, Span(1));
        catches_up(&mut world, away);
        assert!(world.snapshot_links.installed > 0);
    }
}

#[test]
fn a_snapshot_comes_the_same_way_twice() {
    let run = || {
        let mut world = region(7);
        let away = fall_behind(&mut world);
        world.snapshot_links.faults = SnapshotFaults { lost: 20, doubled: 20, late: 20 };
        come_back(&mut world, away);
        catches_up(&mut world, away);
        (world.trace.hash(), world.turns)
    };
    assert_eq!(run(), run());
}
