//! What a day costs the disks, and what a job costs them: ratchets, never to be raised without a reason.

#![cfg(test)]

use super::disk::Counts;
use super::elections::await_leader;
use super::place::ServerAt;
use super::world::World;
use model::garbage::GarbageRules;
use model::time::{Mono, Span};
use state::client_store;
use state::store::Options;

const SERVER: ServerAt = ServerAt { region: 0, server: 0 };
const NODES: usize = 3;
const JOBS: u64 = 6;
/// A log's next segment, now and then.
const GROWTH_BYTES: u64 = 64 << 10;
/// Lengths of young logs, over all jobs: the server's, and one of each node.
const GROWTH_SYNCS: u64 = 3;

/// Syncs, and bytes written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    syncs: u64,
    bytes: u64,
}

impl Written {
    fn of(counts: impl Iterator<Item = Counts>) -> Written {
        counts.fold(Written::default(), |sum, c| Written {
            syncs: sum.syncs + c.syncs,
            bytes: sum.bytes + c.bytes_written,
        })
    }

    fn since(self, before: Written) -> Written {
        Written { syncs: self.syncs - before.syncs, bytes: self.bytes - before.bytes }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    server: Written,
    clients: Written,
    keepers: Written,
}

impl Cost {
    fn so_far(world: &World) -> Cost {
        Cost {
            server: Written::of([world.regions[SERVER].disk.counts()].into_iter()),
            clients: Written::of(world.regions.node_hosts().map(|n| n.disk.counts())),
            keepers: Written::of(world.regions.node_hosts().map(|n| n.journal.counts())),
        }
    }

    fn since(self, before: Cost) -> Cost {
        Cost {
            server: self.server.since(before.server),
            clients: self.clients.since(before.clients),
            keepers: self.keepers.since(before.keepers),
        }
    }

    /// All three together.
    fn total(self) -> Written {
        let all = [self.server, self.clients, self.keepers];
        Written { syncs: all.iter().map(|w| w.syncs).sum(), bytes: all.iter().map(|w| w.bytes).sum() }
    }
}

/// A region without faults that has come to rest.
fn settled(servers: usize) -> World {
    let mut world = World::new(11, servers, NODES, false);
    world.faults.heal();
    for at in world.regions.servers() {
        // as much memory as in life: with less, pages are written earlier and more often
        let options = Options::default();
        world.regions[at].options =
            Options { new_server_id: world.regions[at].options.new_server_id, ..options };
        // and what has ended is kept as long
        world.regions[at].garbage = GarbageRules::default();
    }
    world.regions[0].nodes.iter_mut().for_each(|n| n.segment_bytes = client_store::SEGMENT_BYTES);
    world.start_all().expect("fresh disks open");
    go_on(&mut world, Span::minutes(2));
    world
}

fn go_on(world: &mut World, span: Span) {
    let until = Mono(world.now.0).after(span);
    world.run_until(until).expect("no fault, no failure");
}

/// What `JOBS` jobs of this many tasks cost until they run, one after the other, and what it costs that they are healthy and their deployments over.
fn cost_of_jobs(world: &mut World, name: &str, count: i64) -> (Cost, Cost) {
    let (mut until_running, mut until_rest) = (Cost::default(), Cost::default());
    let add = |sum: &mut Written, more: Written| {
        *sum = Written { syncs: sum.syncs + more.syncs, bytes: sum.bytes + more.bytes };
    };
    for n in 0..JOBS {
        for (sum, span) in [(&mut until_running, Span::seconds(5)), (&mut until_rest, Span::seconds(55))] {
            let before = Cost::so_far(world);
            if span == Span::seconds(5) {
                world.register_quietly(&format!("{name}-{n}"), count);
            }
            go_on(world, span);
            let cost = Cost::so_far(world).since(before);
            add(&mut sum.server, cost.server);
            add(&mut sum.clients, cost.clients);
            add(&mut sum.keepers, cost.keepers);
        }
    }
    (until_running, until_rest)
}

fn running(world: &World) -> usize {
    world.regions.node_hosts().map(|n| n.processes.values().filter(|p| p.running).count()).sum()
}

#[test]
fn an_idle_day_writes_next_to_nothing_and_a_job_little() {
    let mut world = settled(1);
    let (registered, rest) = cost_of_jobs(&mut world, "registered", 0);
    println!("{JOBS} jobs registered, nothing placed: {registered:?}, then {rest:?}");
    // Alone, its evaluation finds no commit to go along with and has a sync of its own (scheduler.md 6.10). Half of the bytes are the
    // zeros by which a young log grows.
    assert!(registered.server.syncs <= 2 * JOBS + GROWTH_SYNCS, "{registered:?}");
    assert!(registered.server.bytes <= JOBS * (20 << 10), "{registered:?}");
    assert_eq!((registered.clients, registered.keepers), (Written::default(), Written::default()));
    assert_eq!((rest, running(&world)), (Cost::default(), 0));

    let (started, rest) = cost_of_jobs(&mut world, "running", 1);
    assert_eq!(running(&world) as u64, JOBS, "all of them run");
    println!("{JOBS} jobs registered and running: {started:?}, {:?}", started.total());
    println!("then, until they are healthy and their deployments over: {rest:?}, {:?}", rest.total());
    // job, plan and report; the node's record with the intent to start; what the logs grew by
    let total = started.total();
    assert!(total.syncs <= 4 * JOBS + GROWTH_SYNCS, "{started:?}");
    assert!(total.bytes <= JOBS * (40 << 10), "{started:?}");
    assert!(started.clients.syncs <= JOBS + GROWTH_SYNCS && started.keepers.syncs == 0, "{started:?}");
    assert!(
        rest.total().syncs <= 4 * JOBS && rest.total().bytes <= JOBS * (40 << 10) + GROWTH_BYTES,
        "{rest:?}"
    );

    go_on(&mut world, Span::hours(1));
    let before = Cost::so_far(&world);
    go_on(&mut world, Span::hours(24));
    let idle = Cost::so_far(&world).since(before);
    println!("an idle day costs {idle:?}");
    assert_eq!((idle.clients, idle.keepers), (Written::default(), Written::default()), "nodes wrote");
    assert!(idle.server.syncs <= 24, "{idle:?}");
}

/// In logs that have their size, over so many jobs that both segments were begun anew.
#[test]
fn a_job_writes_little_once_the_logs_have_grown() {
    const GROWING: u64 = 320;
    const COUNTED: u64 = 320;
    let mut world = settled(1);
    let mut register = |jobs: std::ops::Range<u64>| {
        let before = Cost::so_far(&world).server;
        for n in jobs {
            world.register_quietly(&format!("registered-{n}"), 0);
            go_on(&mut world, Span::seconds(5));
        }
        Cost::so_far(&world).server.since(before)
    };
    let growing = register(0..GROWING);
    let counted = register(GROWING..GROWING + COUNTED);
    println!("{GROWING} jobs while the logs grow: {growing:?}, then {COUNTED}: {counted:?}");
    // two pages, for none goes along with another one's commit, and what the database writes when a segment is full
    assert!(counted.bytes <= COUNTED * (14 << 10), "{counted:?}");
}

#[test]
fn each_of_three_servers_writes_as_little() {
    let mut world = settled(3);
    let servers = world.regions.servers();
    let so_far = |world: &World| -> Vec<Written> {
        servers.iter().map(|at| Written::of([world.regions[*at].disk.counts()].into_iter())).collect()
    };
    for (name, count) in [("registered", 0), ("running", 1)] {
        let before = so_far(&world);
        for n in 0..JOBS {
            let (leader, _) = await_leader(&mut world);
            world.register_with_meta(leader, &format!("{name}-{n}"), count, 0);
            go_on(&mut world, Span::seconds(5));
        }
        let written: Vec<Written> =
            so_far(&world).iter().zip(before).map(|(now, before)| now.since(before)).collect();
        println!("{JOBS} jobs {name}, each server: {written:?}");
        // those that run: also what makes earlier ones healthy
        let (syncs, kib) = if count == 0 { (2, 20) } else { (4, 40) };
        for one in written {
            assert!(one.syncs <= syncs * JOBS + GROWTH_SYNCS, "{one:?}");
            assert!(one.bytes > 0 && one.bytes <= JOBS * (kib << 10), "{one:?}");
        }
    }
    assert_eq!(running(&world) as u64, JOBS, "all of them run");
}
