//! What a region bears, on one server: its real brain on two cores with raft, a store on a real file, the plan applier and
//! the scheduler's threads; nodes and users are simulated. `tests/measure region` builds and starts it; alone:
//! `cargo run --locked --release --example region -- place|rejected|unblocked|leader|snapshot|turns|remote|gc [allocations]`.
//!
//! Refuses to know HTTP, agents and tasks. Files go below `DROVER_MEASURE_DIR`, or the directory for temporary files.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

#[expect(dead_code, reason = "the other measuring programs ask for the rest")]
mod kernel;
mod region_host;
mod region_world;
mod remote;
mod snapshot;

use model::time::Span;
use region_host::Host;
use region_world::{World, service};
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use std::{env, fs};
use wire::request::WriteRequest;

type Outcome = Result<bool, Box<dyn Error>>;

const NODES: usize = 5_000;
const ALLOCATIONS: u64 = 1_000_000;
const OF_A_JOB: u64 = 1_000;
/// What a turn may take, or other servers may elect another leader meanwhile.
const HALF_ELECTION_TIMEOUT_MS: f64 = 500.0;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let scene = args.next().unwrap_or_default();
    let number = args.next().map(|n| n.parse()).transpose()?;
    println!("{}", kernel::machine());
    let dir = Dir::new()?;
    let all_well = match scene.as_str() {
        "place" => place(&dir.0, number.unwrap_or(ALLOCATIONS), false)?,
        "report" => place(&dir.0, number.unwrap_or(ALLOCATIONS), true)?,
        "rejected" => rejected(&dir.0, 2)? & rejected(&dir.0, 8)?,
        "unblocked" => unblocked(&dir.0)?,
        "leader" => becoming_leader(&dir.0)?,
        "snapshot" => snapshot_received(&dir.0)?,
        "turns" => long_turns(&dir.0)?,
        "remote" => remote::planned_elsewhere(&dir.0)?,
        "gc" => collected(&dir.0, number.unwrap_or(100_000))?,
        _ => {
            return Err(
                "what is to be measured? place, report, rejected, unblocked, leader, snapshot, turns, remote or gc"
                    .into(),
            );
        }
    };
    if all_well { Ok(()) } else { Err("a target was missed".into()) }
}

/// Its own, and gone with it.
struct Dir(PathBuf);

impl Dir {
    fn new() -> std::io::Result<Dir> {
        let parent = env::var_os("DROVER_MEASURE_DIR").map_or_else(env::temp_dir, PathBuf::from);
        let dir = parent.join(format!("drover-region-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Dir(dir))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn world(dir: &Path, name: &str, workers: usize, reporting: bool) -> Result<World, Box<dyn Error>> {
    let dir = dir.join(name);
    fs::create_dir(&dir)?;
    Ok(World::new(Host::start(&dir, workers)?, reporting))
}

/// From the first submission to the last allocation that the state has taken in.
fn place(dir: &Path, allocations: u64, reporting: bool) -> Outcome {
    let mut world = world(dir, "place", 2, reporting)?;
    let began = Instant::now();
    world.register(0..NODES);
    println!("{NODES} nodes are ready after {:.1} s", began.elapsed().as_secs_f64());
    let (began, cpu) = (Instant::now(), cpu_seconds()?);
    world.submit((0..allocations / OF_A_JOB).map(|n| service("small", n, OF_A_JOB as i64, 10, 10)));
    let mut next = 0;
    world.until("all is placed", |w| {
        let placed = w.placed();
        if placed >= next {
            next = placed + allocations / 10;
            println!("{placed} placed after {:.1} s, {} running", began.elapsed().as_secs_f64(), w.running);
        }
        placed >= allocations && w.at_rest()
    });
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    if reporting {
        world.until("all is running", |w| w.running >= allocations && w.reports == 0);
        println!("all are reported running after {:.1} s", began.elapsed().as_secs_f64());
    }
    let turns = world.host.counts.turns.load(Relaxed);
    let (peak, rate) = (peak_kib()? / 1024.0, world.placed() as f64 / seconds);
    world.host.stop();
    let mut bytes = 0;
    for file in fs::read_dir(dir.join("place"))? {
        let file = file?;
        let (length, taken) = (file.metadata()?.len(), file.metadata()?.blocks() * 512);
        println!("{}: {length} bytes long, {taken} taken", file.file_name().to_string_lossy());
        bytes += taken;
    }
    let of_each = bytes as f64 / allocations as f64 / 1024.0;
    println!(
        "{allocations} allocations in {seconds:.1} s, of {cpu:.1} s of processor time, and {turns} turns"
    );
    println!("| figure | target | measured | |\n|---|---|---|---|");
    let verdict = |well: bool| if well { "ok" } else { "missed" };
    let fast = rate >= 16_000.0;
    println!("| allocations per second | >= 16,000 | {rate:.0} | {} |", verdict(fast));
    println!(
        "| peak memory, nodes and users counted in | <= 1,024 MiB | {peak:.0} MiB | {} |",
        verdict(peak <= 1_024.0)
    );
    println!("| disk per allocation | <= 1.5 KiB | {of_each:.2} KiB | {} |", verdict(of_each <= 1.5));
    Ok(fast && peak <= 1_024.0 && of_each <= 1.5)
}

/// A fleet that is half full, and many services that come at once.
fn rejected(dir: &Path, workers: usize) -> Outcome {
    let mut world = world(dir, &format!("rejected-{workers}"), workers, false)?;
    world.register(0..1_000);
    world.submit((0..40).map(|n| service("filler", n, 100, 500, 256)));
    world.until("half of it is full", |w| w.placed() >= 4_000 && w.at_rest());
    let counts = world.host.counts.clone();
    let before = (counts.plans.load(Relaxed), counts.nodes_in_plans.load(Relaxed));
    let began = Instant::now();
    world.submit((0..5_000).map(|n| service("late", n, 2, 100, 64)));
    world.until("all is placed", |w| w.placed() >= 14_000 && w.at_rest());
    let seconds = began.elapsed().as_secs_f64();
    // until it is published
    world.wait(Span::seconds(2));
    let plans = counts.plans.load(Relaxed) - before.0;
    let nodes = counts.nodes_in_plans.load(Relaxed) - before.1;
    let refused = world.counted("nomad.plan.node_rejected");
    world.host.stop();
    let each = refused as f64 * 1e3 / plans as f64;
    println!(
        "{workers} workers: {refused} nodes of {nodes} rejected in {plans} plans, {each:.1} per 1,000 plans (target 10), {seconds:.1} s"
    );
    Ok(each <= 10.0)
}

/// One node comes, and each blocked evaluation is evaluated again: by brain, workers and store together.
fn unblocked(dir: &Path) -> Outcome {
    const ROOM: u64 = 8;
    let mut each = vec![];
    for blocked in [1_250, 2_500, 5_000, 10_000] {
        let mut world = world(dir, &format!("unblocked-{blocked}"), 2, false)?;
        world.register(0..1);
        world.submit((0..blocked + ROOM).map(|n| service("wants", n, 1, 500, 256)));
        world.until("all wait", |w| w.at_rest() && w.host.status().broker.blocked == blocked);
        let counts = world.host.counts.clone();
        let before = counts.decisions.load(Relaxed);
        let began = Instant::now();
        world.register(1..2);
        world.until("each was evaluated", |w| {
            let left = w.host.status().broker.blocked;
            counts.decisions.load(Relaxed) >= before + blocked && w.at_rest() && left == blocked - ROOM
        });
        let took = began.elapsed();
        let placed = world.placed() - ROOM;
        world.host.stop();
        each.push(took.as_secs_f64() * 1e6 / blocked as f64);
        println!(
            "{blocked} blocked: all evaluated again after {:.0} ms, {:.0} µs each, {placed} placed",
            took.as_secs_f64() * 1e3,
            each[each.len() - 1]
        );
    }
    // eight times as many, and not eight times as long for each
    Ok(each[each.len() - 1] <= 2.0 * each[0])
}

/// A server that becomes leader with 20,000 jobs, 100,000 allocations, 5,000 nodes and 20,000 open evaluations: its longest turn.
fn becoming_leader(dir: &Path) -> Outcome {
    const JOBS: u64 = 20_000;
    let mut world = world(dir, "leader", 2, false)?;
    world.register(0..NODES);
    world.submit((0..JOBS).map(|n| service("runs", n, 5, 10, 10)));
    world.until("all is placed", |w| w.placed() >= 5 * JOBS && w.at_rest());
    world.submit((0..JOBS).map(|n| service("waits", n, 1, 100_000, 10)));
    world.until("the others wait", |w| w.at_rest() && w.host.status().broker.blocked == JOBS);
    world.host.stop();
    let mut longest_ms: f64 = 0.0;
    for _ in 0..3 {
        let host = Host::start(&dir.join("leader"), 0)?;
        let began = Instant::now();
        while !host.status().ready {
            assert!(began.elapsed().as_secs() < 60, "nobody leads");
            std::thread::yield_now();
        }
        let ms = host.counts.longest_turn_us.load(Relaxed) as f64 / 1e3;
        println!(
            "leads after {:.1} ms; its longest turn took {ms:.1} ms",
            began.elapsed().as_secs_f64() * 1e3
        );
        longest_ms = longest_ms.max(ms);
        host.stop();
    }
    Ok(longest_ms <= HALF_ELECTION_TIMEOUT_MS)
}

/// The state of 20,000 jobs, 100,000 allocations and 5,000 nodes goes to an empty server.
fn snapshot_received(dir: &Path) -> Outcome {
    const JOBS: u64 = 20_000;
    let mut world = world(dir, "sender", 2, false)?;
    world.register(0..NODES);
    world.submit((0..JOBS).map(|n| service("runs", n, 5, 10, 10)));
    world.until("all is placed", |w| w.placed() >= 5 * JOBS && w.at_rest());
    let state_bytes = fs::metadata(dir.join("sender").join("state.0"))?.len();
    let mut well = true;
    for n in 0..3 {
        well &=
            snapshot::receive(&dir.join(format!("receiver-{n}")), world.host.reader.view()?, state_bytes)?;
    }
    world.host.stop();
    Ok(well)
}

/// Plans of a job of so many allocations, all to be placed at once, and then purged at once: the longest turn of each.
fn long_turns(dir: &Path) -> Outcome {
    let mut world = world(dir, "turns", 2, false)?;
    world.register(0..NODES);
    let counts = world.host.counts.clone();
    let mut well = true;
    for (n, count) in [1_000, 5_000, 20_000].into_iter().enumerate() {
        let (before, name) = (world.placed(), format!("large-{n}"));
        counts.longest_turn_us.store(0, Relaxed);
        world.submit([service(&name, 1, count, 10, 10)].into_iter());
        world.until("all is placed", |w| w.placed() - before >= count as u64 && w.at_rest());
        let placing = counts.longest_turn_us.swap(0, Relaxed) as f64 / 1e3;
        let keys = world.host.reader.view()?.job_keys(None, usize::MAX)?;
        let key = keys.into_iter().find(|key| key.id.starts_with(&name)).ok_or("the job is known")?;
        world.act(WriteRequest::DeregisterJob {
            job: key,
            purge: true,
            eval_priority: None,
            no_shutdown_delay: false,
        });
        world.until("all is stopped", |w| w.at_rest());
        let purging = counts.longest_turn_us.swap(0, Relaxed) as f64 / 1e3;
        println!(
            "{count} allocations: placed in turns of up to {placing:.1} ms, purged of up to {purging:.1} ms"
        );
        well &= placing.max(purging) <= HALF_ELECTION_TIMEOUT_MS || count > 5_000;
    }
    world.host.stop();
    Ok(well)
}

/// Services that ran everywhere and were stopped: all of it is collected at once, while a user keeps asking for more.
fn collected(dir: &Path, allocations: u64) -> Outcome {
    let mut world = world(dir, "gc", 2, true)?;
    world.register(0..NODES);
    world.submit((0..allocations / OF_A_JOB).map(|n| service("old", n, OF_A_JOB as i64, 10, 10)));
    world.until("all is running", |w| w.placed() >= allocations && w.running >= allocations && w.at_rest());
    let keys = world.host.reader.view()?.job_keys(None, usize::MAX)?;
    world.stop_all(keys);
    world.until("all has ended", |w| w.running >= 2 * allocations && w.at_rest());
    let counts = world.host.counts.clone();
    let turns_so_far = |counts: &region_host::Counts| {
        let all = [&counts.longest_turn_us, &counts.long_turns, &counts.longest_work_us, &counts.long_work];
        all.map(|n| n.swap(0, Relaxed))
    };
    let [longest, long, work, long_work] = turns_so_far(&counts);
    println!(
        "until then the longest turn took {:.1} ms, {:.1} ms of a processor; {long} and {long_work} more than 20 ms",
        longest as f64 / 1e3,
        work as f64 / 1e3
    );
    let (turns, began) = (counts.turns.load(Relaxed), Instant::now());
    world.act(WriteRequest::CollectGarbage);
    let mut left = allocations;
    while left > 0 {
        world.wait(Span::millis(500));
        let view = world.host.reader.view()?;
        left = view.job_keys(None, usize::MAX)?.len() as u64 + view.allocs(None, 1)?.len() as u64;
    }
    let (seconds, turns) = (began.elapsed().as_secs_f64(), counts.turns.load(Relaxed) - turns);
    let [longest, long, work, long_work] = turns_so_far(&counts);
    let (longest, work) = (longest as f64 / 1e3, work as f64 / 1e3);
    world.host.stop();
    println!(
        "{allocations} allocations and their jobs are collected after {seconds:.1} s and {turns} turns: \
         the longest took {longest:.1} ms, {work:.1} ms of a processor; {long} and {long_work} took more than 20 ms"
    );
    Ok(longest <= 20.0)
}

/// The most memory that this process ever had at once.
fn peak_kib() -> Result<f64, String> {
    let text = fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let number = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok());
    number.ok_or_else(|| "this kernel tells no VmHWM".into())
}

/// Processor time of this process, all threads together. The kernel tells it in hundredths.
fn cpu_seconds() -> Result<f64, String> {
    let text = fs::read_to_string("/proc/self/stat").map_err(|e| e.to_string())?;
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name.split_whitespace().skip(11).take(2).map(|n| n.parse::<f64>().unwrap_or(0.0));
    Ok(ticks.sum::<f64>() / 100.0)
}
