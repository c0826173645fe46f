//! `GET /v1/metrics` as JSON (http-api.md 12.1).

use crate::metrics::names::Labels;
use model::time::Mono;
use serde::Serialize;
use wire::metrics::{Aggregate, Sample};

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

/// The aggregate of one interval.
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
    #[serde(flatten)]
    quantiles: Option<Quantiles>,
    labels: Labels,
}

/// The quantiles 0.5, 0.9 and 0.99 of a sample.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Quantiles {
    p50: f64,
    p90: f64,
    p99: f64,
}

impl Counted {
    /// A sample's values are divided by `unit`.
    pub fn sample(name: String, sample: &Sample, now: Mono, unit: f64) -> Counted {
        let quantile = |q| sample.last_quantile(q, now).map(|value| value / unit);
        let told = (quantile(0.5), quantile(0.9), quantile(0.99));
        let quantiles = match told {
            (Some(p50), Some(p90), Some(p99)) => Some(Quantiles { p50, p90, p99 }),
            _ => None,
        };
        Counted { quantiles, ..Counted::new(name, &sample.series.last(now), unit) }
    }

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
            quantiles: None,
            labels: Labels::new(),
        }
    }
}
