//! Regions whose servers come and go: they begin together, join with empty disks, are promoted, removed, replaced, and hand on
//! leadership, while users ask and whatever may fails. What must be so of every state is looked at after every turn
//! (`member_checks`); that nothing acknowledged is lost, when a world settles.
//!
//! Refuses to know: how members change.

#![cfg(test)]

use super::elections::{await_leader, leaders, region_of, run_for, settle};
use super::faults::{Kind, ServerFault};
use super::network::Cut;
use super::place::{Machine, ServerAt};
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::member::Suffrage;
use model::time::{Mono, Span};
use wire::http::Method;

const STEP: Span = Span::millis(50);
/// Within this a change of members comes about, whatever fails meanwhile.
const CHANGED: Span = Span::minutes(10);

pub fn with_clients(servers: usize, seed: u64) -> World {
    let mut world = region_of(servers, seed);
    start_clients(&mut world);
    world
}

fn start_clients(world: &mut World) {
    world.clients.start(Span::millis(400));
    for user in 0..4 {
        world.after(Span::seconds(3) + Span::millis(user), Event::ClientAsks);
    }
}

fn until(world: &mut World, what: &str, limit: Span, mut done: impl FnMut(&World) -> bool) {
    let begun = world.now;
    while !done(world) {
        assert!(world.now.since(begun) < limit, "not within {limit:?}: {what}");
        run_for(world, STEP);
    }
}

fn server(server: usize) -> ServerAt {
    ServerAt { region: HOME_REGION, server }
}

/// As the newest state lists it.
pub fn suffrage(world: &World, id: u64) -> Option<Suffrage> {
    let members = world.regions[HOME_REGION].newest_server()?.look(|s| s.reader().view()?.members())?;
    members.ok()?.into_iter().find(|member| member.id == id).map(|member| member.suffrage)
}

pub fn is_removed(world: &World, id: u64) -> bool {
    suffrage(world, id) == Some(Suffrage::Removed)
}

/// What an operator asked for last was answered as done. Before that, a server that was removed still counts.
pub fn is_acknowledged(world: &World) -> bool {
    world.clients.operations.contains(&200)
}

/// An empty disk takes the place of this server's. The id of who was there.
pub fn replace(world: &mut World, at: ServerAt) -> u64 {
    let old = world.regions[at].id();
    world.stop_server(at, Span::hours(10));
    world.regions[at].replace_disk();
    world.start_server(at).expect("an empty disk opens");
    // agents find servers by their addresses, and so who is there now
    for node in world.regions.nodes() {
        world.crash_agent(node);
    }
    old
}

fn joined(world: &mut World, at: ServerAt) {
    until(world, "it votes", CHANGED, |world| {
        suffrage(world, world.regions[at].id()) == Some(Suffrage::Voter)
    });
}

/// An operator asks any server that is up, again and again.
fn ask_until(world: &mut World, (method, path, query): (Method, &str, &str), done: impl Fn(&World) -> bool) {
    let begun = world.now;
    while !done(world) {
        assert!(world.now.since(begun) < CHANGED, "an operator asks in vain: {path}?{query}");
        let servers = world.regions.servers();
        let at = servers[world.faults.draw(servers.len() as u64) as usize];
        if world.regions[at].is_up() {
            world.operator_calls(at, method, path, query);
        }
        let asked = world.now;
        while !done(world) && world.now.since(asked) < Span::seconds(3) {
            run_for(world, STEP);
        }
    }
}

fn remove(world: &mut World, id: u64) {
    let query = format!("id={id}");
    world.clients.operations.clear();
    ask_until(world, (Method::Delete, "/v1/operator/raft/peer", &query), is_acknowledged);
    assert!(is_removed(world, id), "so it was said");
}

/// Who leads in the newest term: one that is paused may not know of it.
fn newest_leader(world: &World) -> Option<ServerAt> {
    let term = |at: &ServerAt| world.regions[*at].brain.as_ref().map(|server| server.status().term);
    leaders(world).into_iter().max_by_key(term)
}

fn transfer(world: &mut World) {
    until(world, "somebody leads", CHANGED, |world| newest_leader(world).is_some());
    let leader = newest_leader(world);
    let path = "/v1/operator/raft/transfer-leadership";
    let is_another = |world: &World| newest_leader(world).is_some_and(|at| Some(at) != leader);
    ask_until(world, (Method::Put, path, ""), is_another);
}

/// Every server of the region is one that the state lists, and all of them vote.
fn all_vote(world: &World) {
    for at in world.regions.servers() {
        assert_eq!(suffrage(world, world.regions[at].id()), Some(Suffrage::Voter), "{at}");
    }
}

pub fn end(mut world: World) {
    world.clients.stop();
    settle(&mut world);
    all_vote(&world);
    assert!(world.clients.acknowledged > 20, "{}", world.clients.acknowledged);
}

#[test]
fn an_empty_server_joins_and_votes_and_the_old_one_goes() {
    for (seed, servers) in [(1, 3), (2, 3), (3, 5)] {
        let mut world = with_clients(servers, seed);
        let (leader, _) = await_leader(&mut world);
        run_for(&mut world, Span::seconds(20));
        let at = world.regions.servers().into_iter().find(|at| *at != leader).expect("there are more");
        let old = replace(&mut world, at);
        assert_ne!(old, world.regions[at].id(), "another disk is another server");
        joined(&mut world, at);
        assert_eq!(suffrage(&world, old), Some(Suffrage::Voter), "only an operator removes");
        assert!(world.snapshot_links.installed >= 1, "it got the state by a snapshot");
        remove(&mut world, old);
        end(world);
    }
}

#[test]
fn leadership_is_handed_on_and_a_leader_is_removed() {
    for seed in 1..=3 {
        let mut world = with_clients(3, seed);
        await_leader(&mut world);
        run_for(&mut world, Span::seconds(10));
        transfer(&mut world);
        assert!(world.clients.operations.contains(&200), "{:?}", world.clients.operations);
        let (leader, _) = await_leader(&mut world);
        let id = world.regions[leader].id();
        remove(&mut world, id);
        let (next, _) = await_leader(&mut world);
        assert_ne!(next, leader, "it handed leadership on first");
        replace(&mut world, leader);
        joined(&mut world, leader);
        end(world);
    }
}

/// A removed server is told so when it speaks, and does not come back under its id.
#[test]
fn a_removed_server_is_told_and_stays_out() {
    for seed in 1..=3 {
        let mut world = with_clients(3, seed);
        let (leader, _) = await_leader(&mut world);
        run_for(&mut world, Span::seconds(10));
        let away = world.regions.servers().into_iter().find(|at| *at != leader).expect("there are more");
        let id = world.regions[away].id();
        world.stop_server(away, Span::hours(10));
        remove(&mut world, id);
        world.start_server(away).expect("its disk is sound");
        let told = |world: &World| {
            let status = world.regions[away].brain.as_ref().map(|server| server.status());
            status.is_some_and(|status| status.is_removed)
        };
        until(&mut world, "it is told", Span::minutes(1), told);
        let term = |world: &World| world.regions[HOME_REGION].leaders.keys().max().copied();
        let before = term(&world);
        run_for(&mut world, Span::minutes(1));
        assert!(is_removed(&world, id) && told(&world));
        assert_eq!(term(&world), before, "it disturbs nobody");
        replace(&mut world, away);
        joined(&mut world, away);
        end(world);
    }
}

/// Kills, power cuts and cut links while there is no region yet.
#[test]
fn a_region_begins_once_whatever_fails() {
    for (seed, servers) in (1..=12).map(|seed| (seed, if seed % 3 == 0 { 5 } else { 3 })) {
        let mut world = World::new(seed, servers, 2, false);
        world.faults.heal();
        world.start_all().expect("fresh disks open");
        world.after(Span::seconds(1), Event::Work);
        start_clients(&mut world);
        for _ in 0..8 {
            disturb(&mut world, 40);
            let span = Span::millis(100 + world.faults.draw(1_500) as i64);
            run_for(&mut world, span);
        }
        until(&mut world, "somebody leads", CHANGED, |world| !leaders(world).is_empty());
        run_for(&mut world, Span::minutes(1));
        end(world);
    }
}

/// A disk that is replaced before the region began is another server, and still there is one region.
#[test]
fn a_disk_replaced_at_the_beginning_begins_no_second_region() {
    for seed in 1..=6 {
        let mut world = World::new(seed, 3, 2, false);
        world.faults.heal();
        world.start_all().expect("fresh disks open");
        let span = Span::millis(world.faults.draw(2_500) as i64);
        run_for(&mut world, span);
        let at = server(world.faults.draw(3) as usize);
        let old = replace(&mut world, at);
        world.after(Span::seconds(1), Event::Work);
        start_clients(&mut world);
        joined(&mut world, at);
        if suffrage(&world, old).is_some() {
            remove(&mut world, old);
        }
        run_for(&mut world, Span::minutes(1));
        end(world);
    }
}

/// One server or one link suffers something.
fn disturb(world: &mut World, operations: u64) {
    let servers = world.regions.servers();
    let mut draw = |bound: usize| world.faults.draw(bound as u64) as usize;
    let (what, at, other) = (draw(6), servers[draw(servers.len())], servers[draw(servers.len())]);
    let span = Span::seconds(1 + draw(20) as i64);
    match what {
        0..=2 => {
            let operations = 1 + world.faults.draw(operations);
            world.strike_server(at, ServerFault::PowerCut { operations });
        }
        3 => world.strike_server(at, ServerFault::Killed),
        4 => world.regions[at].paused_until = world.now.after(span),
        _ => {
            let (from, to) = (vec![Machine::Server(at)], vec![Machine::Server(other)]);
            let cut = Cut { from, to, both_ways: span.0 % 2 == 0, kind: Kind::FrameLostBetweenGroups };
            let until: Mono = world.now.after(span);
            world.network.cut(&cut, until);
        }
    }
}

/// Servers are replaced and removed, and hand on leadership, while others lose power at any disk operation.
#[test]
fn membership_changes_under_faults_lose_nothing() {
    for (seed, servers) in (1..=6).map(|seed| (seed, if seed % 3 == 0 { 5 } else { 3 })) {
        let mut world = with_clients(servers, seed);
        await_leader(&mut world);
        for _ in 0..5 {
            disturb(&mut world, 60);
            run_for(&mut world, Span::seconds(4));
            disturb(&mut world, 60);
            let at = server(world.faults.draw(servers as u64) as usize);
            match world.faults.draw(4) {
                0 => transfer(&mut world),
                1 => {
                    let id = world.regions[at].id();
                    remove(&mut world, id);
                    disturb(&mut world, 60);
                    replace(&mut world, at);
                    joined(&mut world, at);
                }
                _ => {
                    let old = replace(&mut world, at);
                    joined(&mut world, at);
                    disturb(&mut world, 60);
                    remove(&mut world, old);
                }
            }
        }
        end(world);
    }
}
