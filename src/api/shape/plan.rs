//! A job plan as JSON (http-api.md 1.2.4).

use super::alloc::{AllocStub, StubOptions};
use super::diff::DiffShape;
use super::eval::EvalShape;
use super::metric::MetricShape;
use super::{MetaShape, rfc3339};
use model::alloc::Allocation;
use model::diff::JobDiff;
use model::job::Job;
use model::plan::GroupChanges;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::job_plan::JobPlanReply;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlanShape<'a> {
    annotations: AnnotationsShape<'a>,
    #[serde(rename = "FailedTGAllocs")]
    failed_groups: Option<BTreeMap<&'a str, MetricShape<'a>>>,
    job_modify_index: u64,
    created_evals: Option<Vec<EvalShape<'a>>>,
    diff: Option<DiffShape<'a>>,
    next_periodic_launch: Option<String>,
    warnings: &'a str,
    #[serde(flatten)]
    meta: MetaShape,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AnnotationsShape<'a> {
    #[serde(rename = "DesiredTGUpdates")]
    desired: BTreeMap<&'a str, GroupPlanShape>,
    preempted_allocs: Option<Vec<AllocStub<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GroupPlanShape {
    ignore: u64,
    place: u64,
    migrate: u64,
    stop: u64,
    in_place_update: u64,
    destructive_update: u64,
    canary: u64,
    preemptions: u64,
}

impl GroupPlanShape {
    fn new(changes: &GroupChanges) -> GroupPlanShape {
        GroupPlanShape {
            ignore: changes.ignore,
            place: changes.place,
            migrate: changes.migrate,
            stop: changes.stop,
            in_place_update: changes.in_place,
            destructive_update: changes.destructive,
            canary: changes.canary,
            preemptions: changes.preemptions,
        }
    }
}

impl<'a> PlanShape<'a> {
    /// `node_pool` is that of the job: metrics name it.
    pub fn new(
        r: &'a JobPlanReply,
        diff: Option<&'a JobDiff>,
        node_pool: &'a str,
        warnings: &'a str,
    ) -> Self {
        let failed = r.failed.iter().map(|(g, m)| (g.as_str(), MetricShape::new(m, node_pool)));
        let evals = || r.created.iter().map(|e| EvalShape::new(e, node_pool)).collect();
        let stub = |(a, job): &'a (Allocation, Option<Arc<Job>>)| {
            AllocStub::new(a, job.as_deref(), StubOptions::default())
        };
        let preempted = || r.preempted.iter().map(stub).collect();
        PlanShape {
            annotations: AnnotationsShape {
                desired: r.desired.iter().map(|(g, c)| (g.as_str(), GroupPlanShape::new(c))).collect(),
                preempted_allocs: (!r.preempted.is_empty()).then(preempted),
            },
            failed_groups: (!r.failed.is_empty()).then(|| failed.collect()),
            job_modify_index: r.before.as_ref().map_or(0, |job| job.job_modify_index),
            created_evals: (!r.created.is_empty()).then(evals),
            diff: diff.map(DiffShape::new),
            next_periodic_launch: r.next_launch.and_then(rfc3339),
            warnings,
            meta: MetaShape::new(r.index, false),
        }
    }
}
