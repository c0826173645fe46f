//! How the time for one evaluation grows with the fleet and with the count, as two lines of a chart. Refuses to know how a
//! chart is drawn, and what is right.

use crate::chart::{Chart, Line};
use crate::kernel;
use crate::placing_world::{Case, World};
use std::error::Error;
use std::fs;
use std::process::Command;

const NODES: [usize; 7] = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000];
const COUNTS: [i64; 7] = [10, 30, 100, 300, 1_000, 3_000, 10_000];
/// The one of the two that stays.
const FIXED_NODES: usize = 10_000;
const FIXED_COUNT: i64 = 100;

/// Measures by `median_ms`, prints the points, and draws them into `file`.
pub fn draw(file: &str, median_ms: impl Fn(&World, i64, Case) -> f64) -> Result<(), Box<dyn Error>> {
    let mut lines = vec![];
    for case in [Case::Plain, Case::Rack] {
        let points = NODES.map(|n| (n as f64, median_ms(&World::new(n, 0.0), FIXED_COUNT, case)));
        lines.push(line(format!("{case:?}: N nodes, count {FIXED_COUNT}"), &points));
    }
    let world = World::new(FIXED_NODES, 0.0);
    for case in [Case::Plain, Case::Rack] {
        let points = COUNTS.map(|c| (c as f64, median_ms(&world, c, case)));
        lines.push(line(format!("{case:?}: {FIXED_NODES} nodes, count C"), &points));
    }
    let chart = Chart {
        title: "One evaluation, from a snapshot to a plan, on one thread".into(),
        note: format!("{}; {}", today()?, kernel::machine()),
        x: "N nodes, or a count of C (logarithmic)",
        y: "median time in ms (logarithmic)",
        lines,
    };
    fs::write(file, chart.svg()?)?;
    println!("drawn into {file}");
    Ok(())
}

fn line(name: String, points: &[(f64, f64)]) -> Line {
    let told: Vec<String> = points.iter().map(|(x, y)| format!("{x}: {y:.2} ms")).collect();
    println!("{name}: {}", told.join(", "));
    Line { name, points: points.to_vec() }
}

fn today() -> Result<String, Box<dyn Error>> {
    let date = Command::new("date").args(["-u", "+%F"]).output()?;
    Ok(String::from_utf8(date.stdout)?.trim().to_string())
}
