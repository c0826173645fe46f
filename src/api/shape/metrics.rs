//! `GET /v1/metrics` as JSON (http-api.md 12.1).

use crate::metrics::names::Labels;
use serde::Serialize;
use wire::metrics::Aggregate;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetricsShape<'a> {
    pub timestamp: String,
    pub gauges: Vec<Gauge<'a>>,
    pub points: [(); 0],
    pub precision_gauges: [(); 0],
    pub counters: Vec<Counted>,
    pub samples: Vec<Counted>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Gauge<'a> {
    pub name: String,
    pub value: f64,
    pub labels: &'a Labels,
}

/// What one interval of the collector holds.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Counted {
    name: String,
    count: u64,
    rate: f64,
    sum: f64,
    min: f64,
    max: f64,
    mean: f64,
    stddev: f64,
    labels: Labels,
}

impl Counted {
    /// Values are divided by `unit`.
    pub fn new(name: String, a: &Aggregate, unit: f64) -> Counted {
        Counted {
            name,
            count: a.count,
            rate: a.rate() / unit,
            sum: a.sum as f64 / unit,
            min: a.min as f64 / unit,
            max: a.max as f64 / unit,
            mean: a.mean() / unit,
            stddev: a.standard_deviation() / unit,
            labels: Labels::new(),
        }
    }
}
