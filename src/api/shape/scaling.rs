//! Scaling as JSON: the policies of groups and tasks, and the scale of each group (http-api.md 1.2.7, 7.4).

use super::block::{self, FreeForm};
use model::job::{JobSpec, Task, TaskGroup};
use model::scaling::{Scaling, ScalingEvent, ScalingPolicy, ScalingTarget, ScalingType};
use model::value::Value;
use serde::Serialize;
use std::collections::BTreeMap;

type Free<'a> = BTreeMap<&'a str, FreeForm<'a>>;

/// `None`: absent.
fn free(map: &BTreeMap<String, Value>) -> Option<Free<'_>> {
    (!map.is_empty()).then(|| block::free(map))
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TargetShape<'a> {
    namespace: &'a str,
    job: &'a str,
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    task: &'a str,
}

impl<'a> TargetShape<'a> {
    fn of(target: ScalingTarget<'a>) -> Self {
        let ScalingTarget { namespace, job, group, task, kind: _ } = target;
        TargetShape { namespace, job, group, task }
    }
}

/// In a list.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PolicyStub<'a> {
    #[serde(rename = "ID")]
    id: String,
    enabled: bool,
    #[serde(rename = "Type")]
    kind: &'static str,
    target: TargetShape<'a>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> PolicyStub<'a> {
    pub fn new(p: &'a ScalingPolicy) -> Self {
        PolicyStub {
            id: p.id().to_string(),
            enabled: p.scaling.enabled,
            kind: p.kind.as_str(),
            target: TargetShape::of(p.target()),
            create_index: p.create_index,
            modify_index: p.modify_index,
        }
    }
}

/// By itself, and in its job, which does not know since when it is so.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PolicyShape<'a> {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Type")]
    kind: &'static str,
    target: TargetShape<'a>,
    policy: Option<Free<'a>>,
    min: i64,
    max: i64,
    enabled: bool,
    create_index: u64,
    modify_index: u64,
}

impl<'a> PolicyShape<'a> {
    pub fn new(p: &'a ScalingPolicy) -> Self {
        let (create_index, modify_index) = (p.create_index, p.modify_index);
        PolicyShape { create_index, modify_index, ..PolicyShape::of(p.target(), &p.scaling) }
    }

    pub fn of_group(job: &'a JobSpec, group: &'a TaskGroup) -> Option<Self> {
        let target = target(job, group, "", ScalingType::Horizontal);
        group.scaling.as_ref().map(|scaling| PolicyShape::of(target, scaling))
    }

    pub fn of_task(job: &'a JobSpec, group: &'a TaskGroup, task: &'a Task) -> Option<Vec<Self>> {
        let policies = task.scaling.iter();
        let shapes = policies.map(|s| PolicyShape::of(target(job, group, &task.name, s.kind), &s.scaling));
        (!task.scaling.is_empty()).then(|| shapes.collect())
    }

    fn of(target: ScalingTarget<'a>, scaling: &'a Scaling) -> Self {
        PolicyShape {
            id: target.id().to_string(),
            kind: target.kind.as_str(),
            target: TargetShape::of(target),
            policy: free(&scaling.policy),
            min: scaling.min,
            max: scaling.max,
            enabled: scaling.enabled,
            create_index: 0,
            modify_index: 0,
        }
    }
}

fn target<'a>(job: &'a JobSpec, group: &'a TaskGroup, task: &'a str, kind: ScalingType) -> ScalingTarget<'a> {
    ScalingTarget { namespace: &job.namespace, job: &job.id, group: &group.name, task, kind }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ScaleStatusShape<'a> {
    #[serde(rename = "JobID")]
    pub job_id: &'a str,
    pub namespace: &'a str,
    pub job_create_index: u64,
    pub job_modify_index: u64,
    pub job_stopped: bool,
    pub task_groups: BTreeMap<&'a str, GroupScaleShape>,
}

/// The scale status of a group: desired count, and counts of its allocations.
#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GroupScaleShape {
    pub desired: i64,
    pub placed: u64,
    pub running: u64,
    pub healthy: u64,
    pub unhealthy: u64,
    pub events: Option<Vec<ScalingEventShape>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ScalingEventShape {
    count: Option<i64>,
    previous_count: i64,
    error: bool,
    message: String,
    meta: Option<serde_json::Value>,
    #[serde(rename = "EvalID")]
    eval_id: Option<String>,
    /// Nanoseconds since 1970.
    time: i64,
    create_index: u64,
}

impl ScalingEventShape {
    pub fn new(e: ScalingEvent) -> Self {
        ScalingEventShape {
            count: e.count,
            previous_count: e.previous_count,
            error: e.error,
            meta: free(&e.meta)
                .map(|meta| serde_json::to_value(meta).expect("maps with text as keys always become JSON")),
            message: e.message,
            eval_id: e.eval.map(|id| id.to_string()),
            time: e.at.0,
            create_index: e.create_index,
        }
    }
}
