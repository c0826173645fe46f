//! The seeds. Some are run twice: the same seed must give the same trace. Over all seeds every fault must have fired.

#![cfg(test)]
// Threads carry whole worlds, none of which knows of it; a soak counts real seconds.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod soak;

use super::faults::{Fault, Kind, ServerFault};
use super::place::{NodeAt, ServerAt};
use super::topologies::Topology;
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::id::RunId;
use model::job::{DisconnectPolicy, Reconcile};
use model::time::{Mono, Span};
use state::check::consistent;
use state::store::Options;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, available_parallelism};

const SERVERS: usize = 1;
const NODES: usize = 3;
const FIRST_SERVER: ServerAt = ServerAt { region: 0, server: 0 };
/// One in so many seeds is run twice. What would not repeat itself (a thread, a clock, a hasher's order) is in the code of all of them.
const RUN_TWICE: u64 = 4;
/// So many seeds hold every fault.
const ALL_FAULTS: u64 = 100;
/// Faults and users, then faults end and users leave, then everything has to come to rest.
const FAULTS_AND_USERS: Span = Span::minutes(10);
/// Until then drains with a deadline have ended.
const DRAINED: Span = Span::minutes(8);
/// How long the users think who write and read values, at most.
const CLIENTS_PAUSE: Span = Span::seconds(5);
const AT_REST: Span = Span::minutes(20);
/// What was launched last comes to its end.
const LAST_LAUNCHES: Span = Span::minutes(5);

/// The command that runs one seed again, after its number, and tells what happens.
const REPLAY: &str = "cargo test --profile sim -p drover-sim -- every_seed --nocapture";

struct Run {
    hash: u64,
    turns: u64,
    busiest: u64,
    simulated: Span,
    counts: BTreeMap<Kind, u64>,
    acknowledged: u64,
    reads: u64,
    /// Answers that were held against the log, and all that could have been.
    witnessed: u64,
    answers: u64,
}

fn run(seed: u64, print: bool) -> Result<Run, String> {
    let Topology { servers, nodes } = Topology::of_seed(seed);
    let mut world =
        World::new(seed, setting("DROVER_SIM_SERVERS").map_or(servers, |n| n as usize), nodes, print);
    world.vary(seed);
    all_phases(&mut world).map_err(|e| format!("at {:.6} s: {e}", world.now.0 as f64 / 1e9))?;
    world.count_disk_faults();
    Ok(Run {
        hash: world.trace.hash(),
        turns: world.turns,
        busiest: world.busiest,
        simulated: world.now.since(Mono(1)),
        counts: world.faults.counts().clone(),
        acknowledged: world.ledger.acknowledged,
        reads: world.asks.reads + world.clients.reads,
        witnessed: world.regions[HOME_REGION].history.witnessed,
        answers: world.regions[HOME_REGION].history.answers,
    })
}

/// Faults and users; healing; then rest, in which everything that was wanted must come about.
fn all_phases(world: &mut World) -> Result<(), String> {
    faults_and_users(world)?;
    world.heal()?;
    world.run_until(world.now.after(DRAINED))?;
    world.check_drained()?;
    let rest = world.now.after(AT_REST);
    world.run_until(rest)?;
    world.check_launched()?;
    world.stop_the_clock();
    let rest = world.now.after(LAST_LAUNCHES);
    world.run_until(rest)?;
    world.check_dispatched()?;
    world.check_settled()?;
    world.check_agreed()?;
    world.check_replaced()?;
    world.check_witnessed()?;
    world.check_events_read()
}

fn faults_and_users(world: &mut World) -> Result<(), String> {
    world.start_all()?;
    world.after(Span::seconds(1), Event::Work);
    world.after(Span::seconds(30), Event::Operate);
    world.after(Span::seconds(45), Event::Scale);
    world.next_fault();
    world.after(Span::seconds(3), Event::Dispatch);
    world.follow_events();
    world.after(Span::seconds(5), Event::ExecBesideTasks);
    if world.regions[HOME_REGION].servers.len() > 1 {
        world.clients.start(CLIENTS_PAUSE);
        world.after(Span::seconds(2), Event::ClientAsks);
    }
    world.run_until(Mono(1).after(FAULTS_AND_USERS))
}

/// A world that nothing troubles, with its first user.
fn calm_world(seed: u64) -> World {
    let mut world = World::new(seed, SERVERS, NODES, false);
    world.faults.heal();
    world.start_all().expect("fresh disks open");
    world.after(Span::seconds(1), Event::Work);
    world
}

/// The first process that runs in it, after how long that may take.
fn first_process(world: &mut World) -> (NodeAt, RunId) {
    let found = (1..200u64).find_map(|second| {
        world.run_until(Mono(1).after(Span::seconds(second as i64))).expect("no fault, no failure");
        let running =
            |n: &NodeAt| world.regions[*n].processes.values().find(|p| p.running).map(|p| (*n, p.run));
        world.regions.nodes().iter().find_map(running)
    });
    found.expect("some task runs within minutes")
}

/// Some of them twice: the second time must be as the first.
fn run_checked(seed: u64) -> Result<Run, String> {
    let first = run(seed, false)?;
    if first.turns < 1000 {
        return Err(format!("had only {} turns", first.turns));
    }
    if seed.is_multiple_of(RUN_TWICE) {
        let second = run(seed, false).map_err(|e| format!("failed the second time: {e}"))?;
        if first.hash != second.hash {
            return Err("does not repeat itself".to_string());
        }
    }
    Ok(first)
}

/// All seeds in their order, up to the first that fails. Each has a world of its own, so that every core may have its share.
fn all_cores(seeds: u64) -> BTreeMap<u64, Result<Run, String>> {
    let cores = available_parallelism().map_or(1, NonZero::get) as u64;
    let failed = AtomicU64::new(u64::MAX);
    let share = |begin: u64| {
        let mut runs = vec![];
        for seed in (begin..=seeds).step_by(cores as usize) {
            if failed.load(Ordering::Relaxed) < seed {
                break;
            }
            let outcome = catch_unwind(|| run_checked(seed)).unwrap_or_else(|_| Err("panicked".to_string()));
            if outcome.is_err() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
            runs.push((seed, outcome));
        }
        runs
    };
    thread::scope(|scope| {
        let shares: Vec<_> = (1..=cores)
            .map(|begin| {
                scope.spawn({
                    let share = &share;
                    move || share(begin)
                })
            })
            .collect();
        shares.into_iter().flat_map(|share| share.join().expect("panics are caught")).collect()
    })
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

#[test]
fn every_seed_keeps_every_promise_and_repeats_itself() {
    if let Some(seed) = setting("DROVER_SIM_SEED") {
        let seen = run(seed, true).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        println!("fired: {:#?}", seen.counts);
        println!("{} of {} answers were seen in the log", seen.witnessed, seen.answers);
        return;
    }
    let seeds = setting("DROVER_SIM_SEEDS").unwrap_or(20);
    assert!(seeds > 0, "no seed, no proof");
    let mut counts: BTreeMap<Kind, u64> = Kind::ALL.iter().map(|k| (*k, 0)).collect();
    let (mut turns, mut acknowledged, mut reads, mut witnessed) = (0, 0, 0, 0);
    for (seed, outcome) in all_cores(seeds) {
        let run = outcome
            .unwrap_or_else(|e| panic!("seed {seed} {e}\nto look at it: DROVER_SIM_SEED={seed} {REPLAY}"));
        turns += run.turns;
        acknowledged += run.acknowledged;
        reads += run.reads;
        witnessed += run.witnessed;
        for (kind, n) in run.counts {
            *counts.entry(kind).or_default() += n;
        }
    }
    assert!(witnessed > 0, "the log bears witness");
    println!(
        "{seeds} seeds, {turns} turns, {acknowledged} acknowledged writes, {witnessed} answers seen in the log, {reads} reads; faults fired:"
    );
    for (kind, n) in &counts {
        println!("{n:>8}  {}", kind.name());
    }
    let silent: Vec<_> = counts.iter().filter(|(_, n)| **n == 0).map(|(k, _)| k.name()).collect();
    // a few seeds cannot hold every fault
    assert!(silent.is_empty() || seeds < ALL_FAULTS, "never fired: {silent:?}");
}

/// Checkers that cannot fail prove nothing: a task killed behind the servers' back must be found out.
#[test]
fn a_task_killed_without_a_reason_is_found() {
    let mut world = calm_world(1);
    let (n, run) = first_process(&mut world);
    assert!(world.check_kill(n, run).is_err());
}

/// A run that starts again is excused by rot in what the journal had of it, and by no other rot.
#[test]
fn a_second_execution_is_found_after_rot_elsewhere() {
    let mut world = calm_world(1);
    let (n, run) = first_process(&mut world);
    world.regions[n].doubtful.insert(RunId::from_random(9));
    let mut bits = 0;
    while !world.regions[n].doubtful.contains(&run) {
        assert!(world.release(n, run).is_err_and(|e| e.contains("a second time")));
        world.rot_journal(n, 1, false);
        bits += 1;
    }
    assert_eq!(world.release(n, run), Ok(()));
    assert!(bits < 10_000);
}

#[test]
fn a_node_that_runs_more_than_it_has_room_for_is_found() {
    let mut world = calm_world(1);
    let (n, run) = first_process(&mut world);
    assert_eq!(world.check_start(n, run), Ok(()));
    world.regions[n].traits.capacity.cpu_mhz = 1;
    let found = world.check_start(n, run);
    assert!(found.is_err_and(|e| e.contains("too much in cpu")));
}

/// A node may end a task by itself only once no server has answered for as long as the group's policy says.
#[test]
fn a_task_given_up_too_early_is_found() {
    let mut world = calm_world(1);
    let (n, run) = first_process(&mut world);
    let process = world.regions[n].processes.values().find(|p| p.run == run).expect("runs");
    let alloc = process.alloc().expect("has a label");
    let tracked = &mut world.regions[0].tracked;
    let (job, group) =
        tracked.allocs.get(&alloc).map(|a| (a.job.clone(), a.group.clone())).expect("is known");
    let job = Arc::make_mut(tracked.jobs.get_mut(&job).expect("is known"));
    let policy = DisconnectPolicy {
        lost_after: None,
        stop_on_client_after: Some(Span::minutes(10)),
        replace: true,
        reconcile: Reconcile::BestScore,
    };
    job.spec.groups.iter_mut().filter(|g| g.name == group).for_each(|g| g.disconnect = Some(policy));
    assert!(world.check_kill(n, run).is_err(), "its server answers");
    world.now = world.now.after(Span::minutes(10));
    assert_eq!(world.check_kill(n, run), Ok(()));
}

#[test]
fn a_committed_entry_that_changed_is_found() {
    let mut world = calm_world(1);
    world.run_until(Mono(1).after(Span::seconds(30))).expect("no fault, no failure");
    world.stop_server(FIRST_SERVER, Span::hours(1));
    world.start_server(FIRST_SERVER).expect("nothing has changed");
    world.stop_server(FIRST_SERVER, Span::hours(1));
    *world.regions[0].entries.values_mut().next_back().expect("some were applied") ^= 1;
    assert!(world.start_server(FIRST_SERVER).is_err_and(|e| e.contains("has changed")));
}

/// A row that rots under a living store: one that verifies says so, one that does not is contradicted by the checker.
#[test]
fn rot_is_a_fault_or_else_a_contradiction() {
    for unverified in [false, true] {
        let mut world = World::new(4, SERVERS, NODES, false);
        world.faults.heal();
        let host = &mut world.regions[FIRST_SERVER];
        host.options = Options { cache_bytes: 4096, unverified, ..host.options };
        world.start_server(FIRST_SERVER).expect("a fresh disk opens");
        world.run_until(Mono(1).after(Span::seconds(30))).expect("no fault, no failure");
        world.register_quietly("quiet-1", 1);
        world.run_until(Mono(1).after(Span::seconds(60))).expect("no fault, no failure");
        let image = world.regions[FIRST_SERVER].disk.image();
        let named = (0..image.len()).filter(|at| image[*at..].starts_with(b"quiet-1"));
        named.for_each(|at| world.regions[FIRST_SERVER].disk.rot_at(at + 6, 1));
        let server = world.regions[FIRST_SERVER].brain.as_ref().expect("nothing has failed");
        let looked = server.reader().view().map_err(|e| e.to_string()).and_then(|v| consistent(&v));
        let said = looked.expect_err("something is found");
        assert_eq!(said.contains("is damaged"), !unverified, "{said}");
    }
}

/// Checkers that cannot fail prove nothing: a server that does not look for rot does not get through its faults.
#[test]
fn rot_that_no_store_looks_for_is_found_by_the_world() {
    let blind = |seed| {
        let mut world = World::new(seed, SERVERS, NODES, false);
        world.regions[FIRST_SERVER].options.unverified = true;
        all_phases(&mut world)
    };
    let outcomes: Vec<_> = (1..=8).map(|seed| catch_unwind(|| blind(seed))).collect();
    let told = outcomes.iter().filter(|o| matches!(o, Ok(Err(_)))).count();
    let died = outcomes.iter().filter(|o| o.is_err()).count();
    println!("of {} blind worlds {told} were found out, {died} died of what they read", outcomes.len());
    assert!(told + died > 0);
}

#[test]
fn a_fault_by_name_strikes_and_is_counted_then() {
    let mut world = World::new(2, SERVERS, NODES, false);
    world.start_server(FIRST_SERVER).expect("a fresh disk opens");
    let strike = |world: &mut World, fault| {
        world.strike(Fault::Server(FIRST_SERVER, fault)).expect("no failure of the world");
    };
    strike(&mut world, ServerFault::Paused);
    assert_eq!(world.faults.counts().get(&Kind::ServerPaused), None, "it has missed nothing yet");
    world.wake_server(FIRST_SERVER, Span(1));
    assert_eq!(world.faults.counts().get(&Kind::ServerPaused), Some(&1));
    strike(&mut world, ServerFault::Killed);
    assert!(!world.regions[FIRST_SERVER].is_up());
    assert_eq!(world.faults.counts().get(&Kind::ServerKilled), Some(&1));
    strike(&mut world, ServerFault::Killed);
    assert_eq!(world.faults.counts().get(&Kind::ServerKilled), Some(&1), "the dead die no second time");
}

/// The same questions, asked of a world whose promises were broken on purpose.
#[test]
fn broken_promises_are_found() {
    let mut world = World::new(3, SERVERS, NODES, false);
    world.start_server(FIRST_SERVER).expect("a fresh disk opens");
    world.run_until(Mono(1).after(Span::seconds(5))).expect("no fault, no failure");
    let nothing = Ok(wire::request::WriteReply::Nothing { index: 0 });
    assert!(world.answered(99, nothing).is_err(), "never asked");
    let index = world.regions[FIRST_SERVER].applied_index();
    world.check_server(FIRST_SERVER, &[]).expect("nothing is broken yet");
    *world.regions[0].digests.get_mut(&index).expect("has a digest") ^= 1;
    assert!(world.check_server(FIRST_SERVER, &[]).is_err(), "another state at the same index");
}
