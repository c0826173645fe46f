//! What a day costs the disks, and what a job costs them: ratchets, never to be raised without a reason.

#![cfg(test)]

use super::disk::Counts;
use super::world::World;
use model::garbage::GarbageRules;
use model::time::{Mono, Span};
use state::client_store;
use state::store::Options;

const NODES: usize = 3;
const JOBS: u64 = 6;

struct Cost {
    server: (u64, u64),
    clients: (u64, u64),
    keepers: (u64, u64),
}

fn sum(counts: impl Iterator<Item = Counts>) -> (u64, u64) {
    counts.fold((0, 0), |(syncs, bytes), c| (syncs + c.syncs, bytes + c.bytes_written))
}

fn cost(world: &World) -> Cost {
    Cost {
        server: sum([world.server.disk.counts()].into_iter()),
        clients: sum(world.nodes.iter().map(|n| n.disk.counts())),
        keepers: sum(world.nodes.iter().map(|n| n.journal.counts())),
    }
}

fn less(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 - b.0, a.1 - b.1)
}

/// A region without faults that has come to rest.
fn settled() -> World {
    let mut world = World::new(11, NODES, false);
    world.faults.heal();
    // as much memory as in life: with less, pages are written earlier and more often
    world.server.options = Options::default();
    // and what has ended is kept as long
    world.server.garbage = GarbageRules::default();
    world.nodes.iter_mut().for_each(|n| n.cache_bytes = client_store::CACHE_BYTES);
    world.start_server().expect("a fresh disk opens");
    for n in 0..NODES {
        world.start_keeper(n);
        world.start_agent(n).expect("a fresh disk opens");
    }
    go_on(&mut world, Span::minutes(2));
    world
}

fn go_on(world: &mut World, span: Span) {
    let until = Mono(world.now.0).after(span);
    world.run_until(until).expect("no fault, no failure");
}

#[test]
fn an_idle_day_writes_next_to_nothing_and_a_job_little() {
    let mut world = settled();
    let before = cost(&world);
    for n in 0..JOBS {
        world.register_quietly(&format!("quiet-{n}"));
        go_on(&mut world, Span::minutes(1));
    }
    let after = cost(&world);
    let running: usize = world.nodes.iter().map(|n| n.processes.values().filter(|p| p.running).count()).sum();
    assert_eq!(running as u64, JOBS, "all of them run");
    let of_jobs = |a: (u64, u64), b: (u64, u64)| {
        let (syncs, bytes) = less(a, b);
        (syncs.div_ceil(JOBS), bytes / JOBS)
    };
    let (server, client, keeper) = (
        of_jobs(after.server, before.server),
        of_jobs(after.clients, before.clients),
        of_jobs(after.keepers, before.keepers),
    );
    println!("a job costs (fsyncs, bytes): server {server:?}, client {client:?}, keeper {keeper:?}");
    // the verdict on its health and the end of its deployment included, and the zeros by which a young log grows
    assert!(server.0 <= 6 && server.1 <= 44_000, "server {server:?}");
    assert!(client.0 <= 3 && client.1 <= 84_000, "client {client:?}");
    assert!(keeper.0 <= 1 && keeper.1 <= 400, "keeper {keeper:?}");
    go_on(&mut world, Span::hours(1));
    let before = cost(&world);
    go_on(&mut world, Span::hours(24));
    let after = cost(&world);
    let server = less(after.server, before.server);
    println!("an idle day costs the server {server:?} (fsyncs, bytes)");
    assert_eq!(less(after.clients, before.clients), (0, 0), "clients wrote");
    assert_eq!(less(after.keepers, before.keepers), (0, 0), "keepers wrote");
    assert!(server.0 <= 24, "{} fsyncs", server.0);
}
