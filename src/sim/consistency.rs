//! Regions of several servers whose users ask any of them: writes are forwarded to the leader, default reads are linearizable,
//! stale ones are true of some time, and nodes are served by whichever server they are connected to.
//!
//! Refuses to know: how. `clients` says what must be so.

#![cfg(test)]

use super::elections::{await_leader, leaders, region_of, run_for, settle};
use super::faults::Kind;
use super::network::Cut;
use super::place::{Machine, ServerAt};
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::time::Span;

pub fn with_clients(servers: usize, seed: u64) -> World {
    let mut world = region_of(servers, seed);
    world.clients.start(Span::millis(400));
    for user in 0..6 {
        world.after(Span::seconds(1) + Span::millis(user), Event::ClientAsks);
    }
    world
}

/// Each of the users did something.
fn all_was_asked(world: &World) {
    let clients = &world.clients;
    let counts = [clients.acknowledged, clients.reads, clients.stale_reads];
    assert!(counts.iter().all(|n| *n > 20), "{counts:?}");
}

fn server(server: usize) -> ServerAt {
    ServerAt { region: HOME_REGION, server }
}

fn cut_between(world: &mut World, from: &[ServerAt], to: &[ServerAt], both_ways: bool, span: Span) {
    let machines = |all: &[ServerAt]| all.iter().map(|at| Machine::Server(*at)).collect();
    let kind = Kind::FrameLostBetweenGroups;
    let cut = Cut { from: machines(from), to: machines(to), both_ways, kind };
    let until = world.now.after(span);
    world.network.cut(&cut, until);
}

pub fn stop_clients(world: &mut World) {
    world.clients.stop();
    settle(world);
    all_was_asked(world);
}

#[test]
fn any_server_answers_users_and_nodes() {
    for (seed, servers) in [(1, 3), (2, 5)] {
        let mut world = with_clients(servers, seed);
        run_for(&mut world, Span::minutes(2));
        assert_eq!(world.clients.unknown, 0, "nothing was in the way");
        assert!(world.decided_by_followers > 5, "{}", world.decided_by_followers);
        stop_clients(&mut world);
    }
}

/// The server that leads dies, in the middle of what it was asked.
#[test]
fn leaders_die_and_every_answer_stays_true() {
    for seed in 1..=4 {
        let mut world = with_clients(3, seed);
        for _ in 0..5 {
            let (leader, _) = await_leader(&mut world);
            let wait = Span::millis(200 + world.faults.draw(8_000) as i64);
            run_for(&mut world, wait);
            world.stop_server(leader, Span::seconds(5));
            run_for(&mut world, Span::seconds(10));
        }
        stop_clients(&mut world);
    }
}

/// A leader that others do not hear goes on believing in itself for a while, and must not answer reads meanwhile.
#[test]
fn a_cut_off_leader_shows_nothing_old() {
    for seed in 1..=4 {
        let mut world = with_clients(3, seed);
        for round in 0..6 {
            let (leader, _) = await_leader(&mut world);
            let others: Vec<ServerAt> = (0..3).map(server).filter(|at| *at != leader).collect();
            let span = Span::seconds(6);
            match round % 3 {
                0 => cut_between(&mut world, &[leader], &others, true, span),
                1 => cut_between(&mut world, &[leader], &others, false, span),
                _ => cut_between(&mut world, &others, &[leader], false, span),
            }
            run_for(&mut world, Span::seconds(12));
        }
        stop_clients(&mut world);
        assert!(world.faults.counts().get(&Kind::FrameLostBetweenGroups).is_some_and(|n| *n > 0));
    }
}

/// A paused leader wakes up and does not know that others have elected another one.
#[test]
fn a_paused_leader_shows_nothing_old() {
    for seed in 1..=4 {
        let mut world = with_clients(3, seed);
        for _ in 0..5 {
            let (leader, _) = await_leader(&mut world);
            let until = world.now.after(Span::seconds(6));
            world.regions[leader].paused_until = until;
            run_for(&mut world, Span::seconds(4));
            let next = leaders(&world).into_iter().find(|at| *at != leader);
            assert!(next.is_some(), "seed {seed}: the others elect one");
            run_for(&mut world, Span::seconds(10));
        }
        stop_clients(&mut world);
    }
}

/// What a checker must see: a read that shows less than was acknowledged before it began.
#[test]
fn an_old_read_is_found() {
    let mut world = with_clients(3, 1);
    run_for(&mut world, Span::minutes(1));
    world.clients.believe_in_a_later_write();
    let end = world.now.after(Span::minutes(1));
    let found = world.run_until(end).expect_err("an old answer is seen");
    assert!(found.contains("a read that began later shows"), "{found}");
}

/// While no leader is there, the others talk to each other: that is no contact with one.
#[test]
fn whoever_has_lost_its_leader_says_so() {
    let mut told = 0;
    for seed in 1..=3 {
        let mut world = with_clients(3, seed);
        run_for(&mut world, Span::seconds(10));
        for _ in 0..4 {
            let (leader, _) = await_leader(&mut world);
            world.stop_server(leader, Span::seconds(6));
            for _ in 0..60 {
                for at in world.regions.servers().into_iter().filter(|at| *at != leader) {
                    world.client_reads(Machine::Server(at), "http-0".into(), true);
                }
                run_for(&mut world, Span::millis(50));
            }
            run_for(&mut world, Span::seconds(12));
        }
        told += world.clients.stale_reads;
        stop_clients(&mut world);
    }
    assert!(told > 500, "{told} stale reads");
}
