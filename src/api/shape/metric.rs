//! The metrics of a placement (`AllocationMetric`) as JSON. Refuses to know its outcome.

use super::{Null, map_or_null};
use model::alloc::{AllocMetric, NodeScore};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetricShape<'a> {
    nodes_evaluated: u64,
    nodes_filtered: u64,
    nodes_in_pool: u64,
    node_pool: &'a str,
    /// An empty map, not null, when no node is ready (http-api.md 2.8).
    nodes_available: &'a BTreeMap<String, u64>,
    class_filtered: Option<&'a BTreeMap<String, u64>>,
    constraint_filtered: Option<&'a BTreeMap<String, u64>>,
    nodes_exhausted: u64,
    class_exhausted: Option<&'a BTreeMap<String, u64>>,
    dimension_exhausted: Option<&'a BTreeMap<String, u64>>,
    quota_exhausted: Null,
    resources_exhausted: Null,
    scores: Null,
    score_meta_data: Option<Vec<ScoreShape>>,
    /// Nanoseconds.
    allocation_time: i64,
    coalesced_failures: u64,
}

impl<'a> MetricShape<'a> {
    pub fn new(m: &'a AllocMetric, node_pool: &'a str) -> Self {
        MetricShape {
            nodes_evaluated: m.nodes_evaluated,
            nodes_filtered: m.nodes_filtered,
            nodes_in_pool: m.nodes_in_pool,
            node_pool,
            nodes_available: &m.nodes_available,
            class_filtered: map_or_null(&m.class_filtered),
            constraint_filtered: map_or_null(&m.constraint_filtered),
            nodes_exhausted: m.nodes_exhausted,
            class_exhausted: map_or_null(&m.class_exhausted),
            dimension_exhausted: map_or_null(&m.dimension_exhausted),
            quota_exhausted: (),
            resources_exhausted: (),
            scores: (),
            score_meta_data: (!m.scores.is_empty()).then(|| m.scores.iter().map(ScoreShape::new).collect()),
            allocation_time: m.allocation_time.as_nanos(),
            coalesced_failures: m.coalesced_failures,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ScoreShape {
    #[serde(rename = "NodeID")]
    node_id: String,
    scores: BTreeMap<&'static str, f64>,
    norm_score: f64,
}

impl ScoreShape {
    fn new(s: &NodeScore) -> Self {
        let scores = s.by_name();
        ScoreShape { node_id: s.node_id.to_string(), scores, norm_score: s.normalized }
    }
}
