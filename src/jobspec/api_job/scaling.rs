//! How far groups, and what their tasks are given, may be scaled (jobspec.md 3.14.11).

use super::{ApiJobDecoder, Given, plain};
use model::job::TaskGroup;
use model::scaling::{Scaling, ScalingType, TaskScaling};
use model::value::Value as Plain;
use serde_json::Value;
use std::collections::BTreeMap;

impl ApiJobDecoder<'_> {
    pub(super) fn group_scaling(&mut self, group: &mut TaskGroup, g: Given<'_>, path: &str) {
        let (Some(scaling), Some(given)) = (&mut group.scaling, g.inner("Scaling")) else { return };
        scaling.policy = free_form(given.0.get("Policy"));
        let only = ScalingType::Horizontal.as_str();
        if let Some(other) = given.text("Type").filter(|t| !t.is_empty() && *t != only) {
            self.checker
                .wrong(format!("{path}.Scaling: scaling policy type {other:?} is not valid; it is {only:?}"));
        }
    }

    pub(super) fn task_scaling(&mut self, t: Given<'_>, path: &str) -> Vec<TaskScaling> {
        let mut found = Vec::new();
        for (i, given) in t.many("ScalingPolicies").enumerate() {
            let path = format!("{path}.ScalingPolicies[{i}]");
            let name = given.text("Type").unwrap_or_default();
            match ScalingType::VERTICAL.into_iter().find(|kind| kind.as_str() == name) {
                Some(kind) => {
                    let mut scaling = Scaling::default();
                    self.fill(&mut scaling, given, &path);
                    scaling.policy = free_form(given.0.get("Policy"));
                    found.push(TaskScaling { kind, scaling });
                }
                None => self.checker.wrong(format!(
                    "{path}: scaling policy type {name:?} is not valid; it is \"vertical_cpu\" or \"vertical_mem\""
                )),
            }
        }
        found
    }
}

/// Numbers are floats here, whole or not (jobspec.md 10.4).
pub fn free_form(object: Option<&Value>) -> BTreeMap<String, Plain> {
    let members = object.and_then(Value::as_object).into_iter().flatten();
    members.map(|(name, value)| (name.clone(), in_floats(plain(value)))).collect()
}

fn in_floats(value: Plain) -> Plain {
    match value {
        Plain::Int(n) => Plain::Float(n as f64),
        Plain::List(list) => Plain::List(list.into_iter().map(in_floats).collect()),
        Plain::Map(map) => Plain::Map(map.into_iter().map(|(name, v)| (name, in_floats(v))).collect()),
        other => other,
    }
}
