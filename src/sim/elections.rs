//! Regions of several servers: they elect a leader, follow it, and outlive its death. Every index that two servers have applied must
//! have one digest, as everywhere in this world.
//!
//! Refuses to know: how a vote is counted. Links are sound here, and disks forget nothing that was synced.

#![cfg(test)]

use super::broken::register_at;
use super::faults::ServerFault;
use super::garbage::RULES;
use super::job_groups::task_args;
use super::job_specs::batch_job;
use super::place::{Machine, ServerAt};
use super::tracked::TrackedState;
use super::users::HOME_REGION;
use super::world::{EPOCH, Event, World};
use model::alloc::{Allocation, ClientStatus};
use model::garbage::GarbageRules;
use model::id::JobKey;
use model::job::JobStatus;
use model::time::{Mono, Span, Wall};
use model::value::Value;
use server::effects::Input;
use wire::http::Method;
use wire::rpc::Peer;

const NODES: usize = 3;
/// Two election timeouts of the longest kind: 19 ticks of 100 ms.
const TWO_ELECTION_TIMEOUTS: Span = Span::millis(3_800);
const STEP: Span = Span::millis(20);

pub fn region_of(servers: usize, seed: u64) -> World {
    region_with(RULES, servers, seed)
}

fn region_with(garbage: GarbageRules, servers: usize, seed: u64) -> World {
    let mut world = World::new(seed, servers, NODES, false);
    for at in world.regions.servers() {
        // so that becoming leader takes many turns
        world.regions[at].rows_per_turn = 3;
        world.regions[at].garbage = garbage;
    }
    world.faults.heal();
    world.start_all().expect("fresh disks open");
    world.after(Span::seconds(1), Event::Work);
    world
}

pub fn run_for(world: &mut World, span: Span) {
    world.run_until(world.now.after(span)).unwrap_or_else(|e| panic!("{e}"));
}

pub fn leaders(world: &World) -> Vec<ServerAt> {
    world.regions.servers().into_iter().filter(|at| world.regions[*at].leads()).collect()
}

/// Runs until a server leads. How long that took.
pub fn await_leader(world: &mut World) -> (ServerAt, Span) {
    let begun = world.now;
    while world.now.since(begun) < Span::seconds(30) {
        if let [leader] = leaders(world)[..] {
            return (leader, world.now.since(begun));
        }
        run_for(world, STEP);
    }
    panic!("nobody leads");
}

/// All that users wanted has come about, and every server knows it.
pub fn settle(world: &mut World) {
    world.heal().expect("what is down comes up");
    run_for(world, Span::minutes(15));
    world.check_settled().unwrap_or_else(|e| panic!("{e}"));
    // an entry may just have been written: the others hear of it within two heartbeats
    let settled = world.now;
    loop {
        let servers = world.regions[HOME_REGION].servers.iter();
        let applied: Vec<u64> = servers.map(|server| server.applied_index()).collect();
        if applied.iter().all(|index| *index == applied[0]) {
            break;
        }
        assert!(world.now.since(settled) < Span::millis(400), "some lag: {applied:?}");
        run_for(world, STEP);
    }
    assert!(world.ledger.acknowledged > 0, "users wrote something");
}

#[test]
fn servers_elect_one_leader_and_apply_the_same() {
    for (seed, servers) in [(1, 3), (2, 3), (3, 5)] {
        let mut world = region_of(servers, seed);
        let (leader, _) = await_leader(&mut world);
        run_for(&mut world, Span::minutes(1));
        assert_eq!(leaders(&world), [leader], "nobody else is elected while it lives");
        let told = |at: ServerAt| world.regions[at].brain.as_ref().and_then(|s| s.status().leader);
        let all: Vec<_> = world.regions.servers().into_iter().map(told).collect();
        assert!(all.iter().all(|of| *of == Some(world.regions[leader].id())), "{all:?}");
        settle(&mut world);
    }
}

#[test]
fn a_dead_leader_has_a_successor_in_two_timeouts() {
    for seed in 1..=4 {
        let mut world = region_of(3, seed);
        for _ in 0..4 {
            let (leader, _) = await_leader(&mut world);
            run_for(&mut world, Span::seconds(20));
            world.stop_server(leader, Span::seconds(15));
            let (next, took) = await_leader(&mut world);
            assert_ne!(next, leader);
            assert!(took <= TWO_ELECTION_TIMEOUTS, "seed {seed}: {took:?}");
            run_for(&mut world, Span::seconds(20));
        }
        settle(&mut world);
    }
}

/// What users of the other servers ask meanwhile is acknowledged, and not only is somebody elected.
#[test]
fn a_paused_leader_holds_writes_up_for_two_timeouts_at_most() {
    let (mut longest, mut pauses) = (Span::ZERO, 0);
    for seed in 1..=12 {
        let mut world = region_of(if seed % 3 == 0 { 5 } else { 3 }, seed);
        for _ in 0..10 {
            let (leader, _) = await_leader(&mut world);
            run_for(&mut world, Span::seconds(3) + Span::millis(37 * pauses));
            let took = acknowledged_without(&mut world, leader);
            assert!(took <= TWO_ELECTION_TIMEOUTS, "seed {seed}: {took:?}");
            longest = longest.max(took);
            pauses += 1;
            run_for(&mut world, Span::seconds(12));
        }
        settle(&mut world);
    }
    println!("{pauses} pauses of leaders: a write was acknowledged after {longest} at the latest");
}

/// The leader is paused: how long it takes until another server acknowledges a write that it was asked for after that.
fn acknowledged_without(world: &mut World, leader: ServerAt) -> Span {
    const IN_FLIGHT: Span = Span::millis(200);
    let (begun, others) = (world.now, world.regions.servers().into_iter().filter(|at| *at != leader));
    let others: Vec<ServerAt> = others.collect();
    world.regions[leader].paused_until = begun.after(Span::seconds(10));
    // what the leader has answered arrives
    run_for(world, IN_FLIGHT);
    let before = world.clients.acknowledged;
    for n in 0.. {
        if world.clients.acknowledged > before || n > 200 {
            break;
        }
        let asked = others[n % others.len()];
        world.client_writes(Machine::Server(asked), format!("paused-{}", n % 4));
        run_for(world, Span::millis(50));
    }
    world.now.since(begun)
}

/// More comes from nodes than a leader can take, which has a turn every 95 ms alone: raft's messages pass by all of it.
#[test]
fn a_flood_of_frames_deposes_no_leader() {
    let mut world = region_of(3, 2);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(5));
    let term = |world: &World| world.regions[leader].brain.as_ref().map(|server| server.status().term);
    let (before, acknowledged) = (term(&world), world.ledger.acknowledged);
    for _ in 0..600 {
        world.regions[leader].paused_until = world.now.after(Span::millis(95));
        for _ in 0..400 {
            let from = Peer::Node(Default::default());
            world.server_input(leader, Input::Frame { from, bytes: vec![0; 20] });
        }
        run_for(&mut world, Span::millis(95) + Span(5_000));
    }
    assert_eq!((leaders(&world), term(&world)), (vec![leader], before));
    assert!(world.ledger.acknowledged > acknowledged, "users are heard, too");
    settle(&mut world);
}

/// The others agree with each other, and one of them leads from then on.
#[test]
fn a_leader_with_a_wrong_clock_hands_over() {
    let mut world = region_of(3, 1);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::minutes(1));
    assert_eq!(leaders(&world), [leader], "clocks that agree change nothing");
    let now = world.now;
    world.regions[leader].clock.step(Span::hours(87_600), now);
    run_for(&mut world, Span::seconds(35));
    let (next, _) = await_leader(&mut world);
    assert_ne!(next, leader);
    run_for(&mut world, Span::minutes(2));
    assert_eq!(leaders(&world), [next]);
    settle(&mut world);
}

/// The clock was nine hours off before; the others tell the time before the new leader is established.
#[test]
fn a_new_leader_with_a_wrong_clock_hands_over_at_once() {
    let mut led = 0;
    for seed in 1..=8 {
        let mut world = region_of(3, seed);
        let (leader, _) = await_leader(&mut world);
        run_for(&mut world, Span::minutes(1));
        let wrong = world.regions.servers().into_iter().find(|at| *at != leader).expect("three servers");
        let now = world.now;
        world.regions[wrong].clock.step(Span::hours(9), now);
        world.stop_server(leader, Span::seconds(4));
        let (next, _) = await_leader(&mut world);
        led += usize::from(next == wrong);
        run_for(&mut world, Span::seconds(15));
        assert_ne!(leaders(&world), [wrong], "seed {seed}");
        settle(&mut world);
        no_stamp_is_off(&world);
    }
    assert!(led >= 2, "the wrong one led {led} times");
}

/// Any server at any disk operation: what is unsynced is gone, and what was acknowledged is not.
#[test]
fn power_cuts_of_servers_lose_nothing_acknowledged() {
    for seed in 1..=4 {
        let mut world = region_of(3, seed);
        for _ in 0..12 {
            let server = world.faults.draw(3) as usize;
            let operations = 1 + world.faults.draw(60);
            let at = ServerAt { region: HOME_REGION, server };
            world.strike_server(at, ServerFault::PowerCut { operations });
            run_for(&mut world, Span::seconds(10));
        }
        settle(&mut world);
    }
}

/// Without a majority nothing is acknowledged; with one again, all goes on.
#[test]
fn a_minority_acknowledges_nothing() {
    let mut world = region_of(3, 1);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::seconds(20));
    for at in world.regions.servers().into_iter().filter(|at| *at != leader) {
        world.stop_server(at, Span::seconds(60));
    }
    run_for(&mut world, Span::seconds(5));
    let acknowledged = world.ledger.acknowledged;
    run_for(&mut world, Span::seconds(50));
    assert_eq!((world.ledger.acknowledged, leaders(&world)), (acknowledged, vec![]));
    settle(&mut world);
    assert!(world.ledger.acknowledged >= acknowledged);
}

/// A region of one has nobody to wait for: it leads in the first turns of its first life.
#[test]
fn a_server_alone_leads_at_once() {
    let mut world = region_of(1, 1);
    world.run_until(Mono(1).after(Span::millis(100))).expect("no fault, no failure");
    assert_eq!(leaders(&world).len(), 1);
}

/// The server that each node asks, and how often it has turned to another one.
fn asked_servers(world: &World) -> Vec<(Option<Peer>, u64)> {
    let contacts = world.regions.node_hosts().map(|node| &node.contact);
    contacts.map(|contact| (contact.server(), contact.turned_away)).collect()
}

fn is_asked(world: &World, at: ServerAt) -> bool {
    let peer = Peer::Server(world.regions[at].id());
    asked_servers(world).iter().any(|(server, _)| *server == Some(peer))
}

/// A server that nodes ask, or one that they do not, is to lead in the place of another one. Who leads then.
fn hand_over(world: &mut World, to_asked: bool) -> ServerAt {
    let (leader, _) = await_leader(world);
    let next = world.regions.servers().into_iter().find(|at| is_asked(world, *at) == to_asked);
    let query = format!("id={}", world.regions[next.expect("one is asked, and two are not")].id());
    world.operator_calls(leader, Method::Put, "/v1/operator/raft/transfer-leadership", &query);
    run_for(world, Span::seconds(10));
    let (next, _) = await_leader(world);
    assert_ne!(next, leader);
    next
}

/// Users are served, and nodes have gone on asking their servers. How many allocations nodes have heard of.
fn nodes_have_stayed(world: &mut World, before: &[(Option<Peer>, u64)], round: usize) -> usize {
    let (leader, _) = await_leader(world);
    world.register_with_meta(leader, &format!("quiet-{round}"), 1, 0);
    run_for(world, Span::seconds(20));
    let key = JobKey::new("default", format!("quiet-{round}"));
    let allocs =
        world.newest_view().map(|view| view.allocs_of_job(&key).expect("reads")).expect("a server is up");
    let is_unheard_of = |alloc: &&Allocation| alloc.client == ClientStatus::Pending;
    let unheard_of = allocs.iter().find(is_unheard_of);
    assert!(unheard_of.is_none(), "round {round}: its node has not heard of it: {unheard_of:?}");
    assert_eq!(asked_servers(world), before, "round {round}: a node has turned to another server");
    let silences = world.regions.node_hosts().map(|node| node.contact.silence(world.now));
    assert!(silences.max() < Some(Span::seconds(30)), "round {round}: heartbeats are answered");
    allocs.len()
}

/// Who leads is no business of a node: the server that it is connected to goes on relaying.
#[test]
fn a_change_of_leader_reconnects_no_node() {
    let mut world = region_of(3, 1);
    let (leader, _) = await_leader(&mut world);
    run_for(&mut world, Span::minutes(1));
    let (before, mut asked_leads) = (asked_servers(&world), is_asked(&world, leader));
    for round in 0..5 {
        asked_leads = !asked_leads;
        hand_over(&mut world, asked_leads);
        nodes_have_stayed(&mut world, &before, round);
    }
    settle(&mut world);
}

/// The leader that dies is not the one that nodes ask.
#[test]
fn a_dead_leader_costs_no_other_servers_node_its_server() {
    let mut placed = 0;
    for seed in 1..=3 {
        let mut world = region_of(3, seed);
        await_leader(&mut world);
        run_for(&mut world, Span::minutes(1));
        let before = asked_servers(&world);
        for round in 0..4 {
            let (mut leader, _) = await_leader(&mut world);
            if is_asked(&world, leader) {
                leader = hand_over(&mut world, false);
            }
            world.stop_server(leader, Span::seconds(15));
            let (next, _) = await_leader(&mut world);
            assert_ne!(next, leader);
            placed += nodes_have_stayed(&mut world, &before, round);
        }
        settle(&mut world);
    }
    assert!(placed >= 6, "{placed}: else there was no room");
}

/// One server of three is away for so long, and the clock of another one leaps, while it leads or is down for a moment. Who that is.
fn one_leaps(world: &mut World, seed: u64, away_for: Span) -> ServerAt {
    let (leader, _) = await_leader(world);
    let follower = world.regions.servers().into_iter().find(|at| *at != leader).expect("three servers");
    let (wrong, away) = if seed.is_multiple_of(2) { (leader, follower) } else { (follower, leader) };
    world.stop_server(if wrong == leader { away } else { wrong }, Span::seconds(2));
    let now = world.now;
    let step = [Span::hours(87_600), Span::hours(9), Span::hours(-720)][seed as usize % 3];
    world.regions[wrong].clock.step(step, now);
    if wrong != leader {
        run_for(world, Span::seconds(10));
    }
    world.stop_server(away, away_for);
    wrong
}

/// One of three is away, and the others differ: nobody knows who is right. Whatever a leader's clock shows, stamps go on from the last one,
/// so that nothing expires, ten years early or nine hours; and no time is told twice.
#[test]
fn a_leap_that_nobody_confirms_moves_no_stamp() {
    let mut led = 0;
    for seed in 1..=8 {
        let mut world = region_of(3, seed);
        await_leader(&mut world);
        run_for(&mut world, Span::minutes(1));
        let wrong = one_leaps(&mut world, seed, Span::minutes(10));
        run_for(&mut world, Span::minutes(5));
        led += usize::from(leaders(&world) == [wrong]);
        no_stamp_is_off(&world);
        settle(&mut world);
        no_stamp_is_off(&world);
    }
    assert!(led >= 2, "the wrong one led {led} times");
}

/// The same with what agents keep: what has ended is no older than it was, before clocks are set right and after it.
#[test]
fn a_leap_that_nobody_confirms_collects_nothing() {
    let mut led = 0;
    for seed in 1..=6 {
        let mut world = region_with(GarbageRules::default(), 3, seed);
        let (leader, _) = await_leader(&mut world);
        run_for(&mut world, Span::minutes(1));
        let job = ended_batch_job(&mut world, leader);
        let wrong = one_leaps(&mut world, seed, Span::minutes(15));
        // the collector goes round each five minutes
        for minutes in [5, 6] {
            run_for(&mut world, Span::minutes(minutes));
            led += usize::from(leaders(&world) == [wrong]);
            nothing_of_it_is_gone(&world, &job);
        }
        world.heal().expect("what is down comes up");
        run_for(&mut world, Span::minutes(15));
        nothing_of_it_is_gone(&world, &job);
        no_stamp_is_off(&world);
    }
    assert!(led >= 4, "at {led} looks the wrong one led");
}

/// One that has run for a second.
fn ended_batch_job(world: &mut World, leader: ServerAt) -> JobKey {
    let key = JobKey::new("default", "ended");
    let mut spec = batch_job(&key, 1);
    let config = &mut spec.groups[0].tasks[0].config;
    config.insert("command".into(), Value::Text("sim".into()));
    config.insert("args".into(), task_args(1_000, 0, false));
    register_at(world, leader, spec);
    run_for(world, Span::seconds(30));
    nothing_of_it_is_gone(world, &key);
    key
}

fn nothing_of_it_is_gone(world: &World, key: &JobKey) {
    let view = world.newest_view().expect("a server is up");
    let job = view.job(key).expect("reads").expect("it is known");
    assert_eq!(job.status, JobStatus::Dead, "it has ended");
    let (allocs, evals) = (view.allocs_of_job(key).expect("reads"), view.evals_of_job(key).expect("reads"));
    assert!(!allocs.is_empty() && !evals.is_empty(), "{allocs:?} {evals:?}");
}

fn no_stamp_is_off(world: &World) {
    let view = world.newest_view().expect("a server is up");
    let state = TrackedState::read(&view).expect("reads");
    let latest = EPOCH + Span(world.now.0 as i64) + Span::minutes(1);
    let stamps = || {
        let evals = state.evals.values().map(|eval| eval.modify_time);
        evals.chain(state.allocs.values().map(|alloc| alloc.modify_time))
    };
    let ahead: Vec<Wall> = stamps().filter(|stamp| *stamp > latest).collect();
    assert!(ahead.is_empty(), "{ahead:?}");
    let newest = stamps().max().expect("users wrote something");
    // settling takes a quarter of an hour, in which nobody writes
    assert!(newest + Span::minutes(30) > latest, "{newest:?} is the newest");
}
