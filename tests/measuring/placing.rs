//! How long one evaluation takes: a view and a fleet in, a plan out, on one thread. `tests/measure placing` builds and starts it;
//! alone: `cargo run --locked --release --example placing [runs]`, or `-- growth FILE` for a chart of how the time grows.
//!
//! Refuses to know servers, stores and clients.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

mod chart;
mod growth;
#[expect(dead_code, reason = "the other measuring programs ask for the rest")]
mod kernel;
mod placing_world;

use placing_world::{Case, World};
use std::error::Error;
use std::time::{Duration, Instant};

const RUNS: usize = 21;
/// The fleet that others have to leave for what is placed.
const CROWDED: usize = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let first = args.next();
    if first.as_deref() == Some("growth") {
        let file = args.next().ok_or("which file is the chart to be drawn into?")?;
        return growth::draw(&file, |world, count, case| median(world, &world.job(count, case), RUNS).0);
    }
    let runs = first.and_then(|n| n.parse().ok()).unwrap_or(RUNS);
    println!("| nodes | count | job | at most | median | fastest | |");
    println!("|---:|---:|---|---:|---:|---:|---|");
    for (nodes, count, plain_ms, spread_ms) in [
        (1_000, 300, 0.5, 1.0),
        (5_000, 1_200, 4.0, 8.0),
        (10_000, 1_200, 6.0, 10.0),
        (100_000, 10_000, 80.0, 160.0),
    ] {
        let empty = World::new(nodes, 0.0);
        report(&empty, nodes as i64 / 2, Case::System, Some(nodes as f64 / 500.0), runs);
        let full = World::new(nodes, 0.95);
        if nodes == CROWDED {
            let crowded = World::crowded(nodes, 10);
            report(&crowded, 1, Case::Plain, Some(250.0), runs);
            report(&crowded, count, Case::Plain, Some(1_000.0), runs);
        }
        let plain = report(&empty, count, Case::Plain, Some(plain_ms), runs);
        report(&empty, count, Case::Rack, Some(spread_ms), runs);
        report(&empty, count, Case::EachNode, Some(3.0 * plain), runs);
        report(&empty, count, Case::Mixed, Some(3.0 * plain), runs);
        report(&full, count, Case::Plain, None, runs);
        report(&full, count, Case::Rack, None, runs);
        report_why(&full, count, nodes as f64 / 500.0, runs);
    }
    Ok(())
}

/// Measures, prints a line, and returns the median in milliseconds.
fn report(world: &World, count: i64, case: Case, at_most_ms: Option<f64>, runs: usize) -> f64 {
    let spec = world.job(count, case);
    let placed = world.place(&spec, 0);
    let (median, fastest) = median(world, &spec, runs);
    let limit = at_most_ms.map_or("".into(), |l| format!("{l:.2} ms"));
    let verdict = at_most_ms.map_or("", |l| if median <= l { "ok" } else { "missed" });
    let (nodes, fill) = (world.nodes(), world.filled());
    println!(
        "| {nodes} | {placed} of {count} | {case:?}{fill} | {limit} | {median:.2} ms | {fastest:.2} ms | {verdict} |"
    );
    median
}

/// What explaining one group costs, where little has room.
fn report_why(world: &World, count: i64, at_most_ms: f64, runs: usize) {
    let spec = world.job(count, Case::Mixed);
    let mut took: Vec<Duration> = (0..runs).map(|run| world.explain(&spec, run as u64)).collect();
    took.sort();
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let (median, fastest) = (ms(took[runs / 2]), ms(took[0]));
    let verdict = if median <= at_most_ms { "ok" } else { "missed" };
    println!(
        "| {} | | why, 95 % full | {at_most_ms:.2} ms | {median:.2} ms | {fastest:.2} ms | {verdict} |",
        world.nodes()
    );
}

/// And the fastest; in milliseconds.
fn median(world: &World, spec: &model::job::JobSpec, runs: usize) -> (f64, f64) {
    let mut took: Vec<Duration> = (0..runs).map(|run| time(world, spec, run as u64 + 1)).collect();
    took.sort();
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    (ms(took[runs / 2]), ms(took[0]))
}

fn time(world: &World, spec: &model::job::JobSpec, seed: u64) -> Duration {
    let prepared = world.prepare(spec);
    let began = Instant::now();
    let decision = prepared.decide(seed);
    let took = began.elapsed();
    drop(decision);
    took
}
