//! The seeds. Each is run twice: the same seed must give the same trace. Over all seeds every fault must have fired.

#![cfg(test)]
// Threads carry whole worlds, none of which knows of it.
#![allow(clippy::disallowed_methods)]

use super::faults::{Fault, KINDS};
use super::world::{Event, World};
use model::time::{Mono, Span};
use state::check::consistent;
use state::store::Options;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, available_parallelism};

const NODES: usize = 3;
/// So many seeds hold every fault.
const ALL_FAULTS: u64 = 100;
/// Faults and users, then faults end and users leave, then everything has to come to rest.
const STORMY: Span = Span::minutes(10);
/// Until then drains with a deadline have ended.
const DRAINED: Span = Span::minutes(8);
const CALM: Span = Span::minutes(20);
/// What was launched last comes to its end.
const LAST_LAUNCHES: Span = Span::minutes(5);

struct Run {
    hash: u64,
    turns: u64,
    counts: BTreeMap<&'static str, u64>,
    acknowledged: u64,
    reads: u64,
}

fn run(seed: u64, print: bool) -> Result<Run, String> {
    let mut world = World::new(seed, NODES, print);
    weather(&mut world).map_err(|e| format!("at {:.6} s: {e}", world.now.0 as f64 / 1e9))?;
    world.count_disk_faults();
    Ok(Run {
        hash: world.trace_hash(),
        turns: world.turns,
        counts: world.faults.counts().clone(),
        acknowledged: world.ledger.acknowledged,
        reads: world.readers.reads,
    })
}

/// A storm, and then calm.
fn weather(world: &mut World) -> Result<(), String> {
    storm(world)?;
    world.heal()?;
    world.run_until(world.now.after(DRAINED))?;
    world.check_drained()?;
    let rest = world.now.after(CALM);
    world.run_until(rest)?;
    world.check_launched()?;
    world.stop_the_clock();
    let rest = world.now.after(LAST_LAUNCHES);
    world.run_until(rest)?;
    world.check_dispatched()?;
    world.check_settled()
}

fn storm(world: &mut World) -> Result<(), String> {
    world.start_server()?;
    for n in 0..NODES {
        world.start_keeper(n);
        world.start_agent(n)?;
    }
    world.after(Span::seconds(1), Event::Work);
    world.after(Span::seconds(30), Event::Operate);
    world.after(Span::seconds(45), Event::Scale);
    world.next_fault();
    world.after(Span::seconds(3), Event::Dispatch);
    world.run_until(Mono(1).after(STORMY))
}

/// Twice: the second time must be as the first.
fn run_twice(seed: u64) -> Result<Run, String> {
    let first = run(seed, false)?;
    let second = run(seed, false).map_err(|e| format!("failed the second time: {e}"))?;
    if first.hash != second.hash {
        return Err("does not repeat itself".to_string());
    }
    if first.turns < 1000 {
        return Err(format!("had only {} turns", first.turns));
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
            let kept = catch_unwind(|| run_twice(seed)).unwrap_or_else(|_| Err("panicked".to_string()));
            if kept.is_err() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
            runs.push((seed, kept));
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
        println!("fired: {:?}", seen.counts);
        return;
    }
    let seeds = setting("DROVER_SIM_SEEDS").unwrap_or(20);
    assert!(seeds > 0, "no seed, no proof");
    let mut counts: BTreeMap<&'static str, u64> = KINDS.iter().map(|k| (*k, 0)).collect();
    let (mut turns, mut acknowledged, mut reads) = (0, 0, 0);
    for (seed, kept) in all_cores(seeds) {
        let run = kept.unwrap_or_else(|e| {
            panic!("seed {seed} {e}\nto look at it: DROVER_SIM_SEED={seed} cargo test --profile sim -p drover-sim -- every_seed --nocapture")
        });
        turns += run.turns;
        acknowledged += run.acknowledged;
        reads += run.reads;
        for (kind, n) in run.counts {
            *counts.entry(kind).or_default() += n;
        }
    }
    println!(
        "{seeds} seeds, {turns} turns, {acknowledged} acknowledged writes, {reads} reads; faults fired:"
    );
    for (kind, n) in &counts {
        println!("{n:>8}  {kind}");
    }
    let silent: Vec<_> = counts.iter().filter(|(_, n)| **n == 0).map(|(k, _)| *k).collect();
    // a few seeds cannot hold every fault
    assert!(silent.is_empty() || seeds < ALL_FAULTS, "never fired: {silent:?}");
}

/// A farm whose checkers cannot fail proves nothing: a task killed behind the servers' back must be found out.
#[test]
fn a_task_killed_without_a_reason_is_found() {
    let mut world = World::new(1, NODES, false);
    world.faults.heal();
    world.start_server().expect("a fresh disk opens");
    for n in 0..NODES {
        world.start_keeper(n);
        world.start_agent(n).expect("a fresh disk opens");
    }
    world.after(Span::seconds(1), Event::Work);
    let found = (1..200u64).find_map(|second| {
        world.run_until(Mono(1).after(Span::seconds(second as i64))).expect("no fault, no failure");
        let running = |n: usize| world.nodes[n].processes.values().find(|p| p.running).map(|p| (n, p.run));
        (0..NODES).find_map(running)
    });
    let (n, run) = found.expect("some task runs within minutes");
    assert!(world.check_kill(n, run).is_err());
}

/// A row that rots under a living store: one that verifies says so, one that does not is contradicted by the checker.
#[test]
fn rot_is_a_fault_or_else_a_contradiction() {
    for unverified in [false, true] {
        let mut world = World::new(4, NODES, false);
        world.faults.heal();
        world.server.options = Options { cache_bytes: 4096, unverified, ..world.server.options };
        world.start_server().expect("a fresh disk opens");
        world.run_until(Mono(1).after(Span::seconds(30))).expect("no fault, no failure");
        world.register_quietly("quiet-1");
        world.run_until(Mono(1).after(Span::seconds(60))).expect("no fault, no failure");
        let image = world.server.disk.image();
        let named = (0..image.len()).filter(|at| image[*at..].starts_with(b"quiet-1"));
        named.for_each(|at| world.server.disk.rot_at(at + 6, 1));
        let server = world.server.server.as_ref().expect("nothing has failed");
        let looked = server.reader().view().map_err(|e| e.to_string()).and_then(|v| consistent(&v));
        let said = looked.expect_err("something is found");
        assert_eq!(said.contains("is damaged"), !unverified, "{said}");
    }
}

/// A farm whose checkers cannot fail proves nothing: a server that does not look for rot does not get through its storms.
#[test]
fn rot_that_no_store_looks_for_is_found_by_the_world() {
    let blind = |seed| {
        let mut world = World::new(seed, NODES, false);
        world.server.options.unverified = true;
        weather(&mut world)
    };
    let outcomes: Vec<_> = (1..=8).map(|seed| catch_unwind(|| blind(seed))).collect();
    let told = outcomes.iter().filter(|o| matches!(o, Ok(Err(_)))).count();
    let died = outcomes.iter().filter(|o| o.is_err()).count();
    println!("of {} blind worlds {told} were found out, {died} died of what they read", outcomes.len());
    assert!(told + died > 0);
}

/// A power cut that loses nothing would prove nothing: the disk must be seen to forget.
#[test]
fn a_fault_by_name_strikes() {
    let mut world = World::new(2, NODES, false);
    world.start_server().expect("a fresh disk opens");
    world.strike(Fault::ServerKilled).expect("a kill is no failure of the world");
    assert!(!world.server.is_up());
    assert_eq!(world.faults.counts().get("server killed"), Some(&1));
}

/// A farm that lives: the same questions, asked of a world whose promises were broken on purpose.
#[test]
fn broken_promises_are_found() {
    let mut world = World::new(3, NODES, false);
    world.start_server().expect("a fresh disk opens");
    world.run_until(Mono(1).after(Span::seconds(5))).expect("no fault, no failure");
    let made_up = wire::keeper::Event::Exited {
        run: model::id::RunId::from_random(7),
        exit: model::task::Exit { status: model::task::ExitStatus::Code(0), oom_killed: false },
        at: model::time::Wall::NEVER,
    };
    assert!(world.check_exits(0, &made_up).is_err(), "an exit of nobody");
    assert!(world.answered(99, Ok(wire::request::WriteReply::Nothing { index: 0 })).is_err(), "never asked");
    let index = world.server.server.as_ref().map_or(0, |s| s.status().applied_index);
    world.check_server(&[]).expect("nothing is broken yet");
    *world.server.digests.get_mut(&index).expect("has a digest") ^= 1;
    assert!(world.check_server(&[]).is_err(), "another state at the same index");
}
