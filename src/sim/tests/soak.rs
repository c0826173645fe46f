//! Seeds on all cores for as long as asked, from a seed on: `tests/soak` starts it. Without its settings it runs one seed on each core.
//!
//! Refuses to know what a seed does.

use super::{Kind, REPLAY, Run, run, setting};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

/// Where it begins unless told otherwise: beyond the seeds that every run of the tests has.
const FIRST_SEED: u64 = 1_000_001;

/// A seed that takes longer is told: something in it may be more work than it should be.
const SLOW: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Sum {
    seeds: u64,
    turns: u64,
    /// The most turns of a second in any of them.
    busiest: u64,
    simulated_hours: f64,
    acknowledged: u64,
    counts: BTreeMap<Kind, u64>,
    failed: Option<(u64, String)>,
}

impl Sum {
    fn add(&mut self, seed: u64, outcome: Result<Run, String>) {
        match outcome {
            Ok(run) => {
                self.seeds += 1;
                self.turns += run.turns;
                self.busiest = self.busiest.max(run.busiest);
                self.simulated_hours += run.simulated.as_nanos() as f64 / 3.6e12;
                self.acknowledged += run.acknowledged;
                run.counts.into_iter().for_each(|(kind, n)| *self.counts.entry(kind).or_default() += n);
            }
            Err(why) => drop(self.failed.get_or_insert((seed, why))),
        }
    }

    fn print(&self, seconds: f64) {
        println!(
            "{} seeds in {seconds:.0} s, of which {:.0} s of processors, {} acknowledged writes: {:.2} seeds/s, {:.0} turns/s (at most {} in a second of a world), {:.0} simulated hours an hour; faults fired:",
            self.seeds,
            processor_seconds(),
            self.acknowledged,
            self.seeds as f64 / seconds,
            self.turns as f64 / seconds,
            self.busiest,
            self.simulated_hours * 3600.0 / seconds
        );
        for kind in Kind::ALL {
            println!("{:>10}  {}", self.counts.get(kind).copied().unwrap_or(0), kind.name());
        }
    }
}

/// What this process has had of all processors, which is less than there was where others work beside it (proc(5): ticks of 1/100 s).
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

#[test]
fn soak_runs_seeds_for_as_long_as_asked() {
    let seconds = setting("DROVER_SIM_SOAK_SECONDS").unwrap_or(0);
    let next = AtomicU64::new(setting("DROVER_SIM_FIRST_SEED").unwrap_or(FIRST_SEED));
    let (sum, stop) = (Mutex::new(Sum::default()), AtomicBool::new(false));
    let begun = Instant::now();
    let share = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let began = Instant::now();
            let outcome = catch_unwind(|| run(seed, false)).unwrap_or_else(|_| Err("panicked".into()));
            if began.elapsed() > SLOW {
                println!("seed {seed} took {} s", began.elapsed().as_secs());
            }
            if outcome.is_err() || begun.elapsed() >= Duration::from_secs(seconds) {
                stop.store(true, Ordering::Relaxed);
            }
            sum.lock().expect("nobody panics with it").add(seed, outcome);
        }
    };
    let cores = available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(share))));
    let sum = sum.into_inner().expect("nobody panics with it");
    sum.print(begun.elapsed().as_secs_f64());
    if let Some((seed, why)) = &sum.failed {
        panic!("seed {seed} {why}\nto look at it: DROVER_SIM_SEED={seed} {REPLAY}");
    }
    assert!(sum.seeds > 0);
}
