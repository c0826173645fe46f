//! Differences between jobs as JSON (http-api.md 1.2.11).

use super::list_or_null;
use model::diff::{FieldDiff, GroupDiff, JobDiff, ObjectDiff, TaskDiff};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DiffShape<'a> {
    #[serde(rename = "Type")]
    kind: &'static str,
    #[serde(rename = "ID")]
    id: &'a str,
    fields: Option<Vec<FieldShape<'a>>>,
    objects: Option<Vec<ObjectShape<'a>>>,
    task_groups: Option<Vec<GroupDiffShape<'a>>>,
}

impl<'a> DiffShape<'a> {
    pub fn new(diff: &'a JobDiff) -> Self {
        DiffShape {
            kind: diff.kind.as_str(),
            id: &diff.id,
            fields: shapes(&diff.fields, FieldShape::new),
            objects: shapes(&diff.objects, ObjectShape::new),
            task_groups: shapes(&diff.groups, GroupDiffShape::new),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GroupDiffShape<'a> {
    #[serde(rename = "Type")]
    kind: &'static str,
    name: &'a str,
    fields: Option<Vec<FieldShape<'a>>>,
    objects: Option<Vec<ObjectShape<'a>>>,
    tasks: Option<Vec<TaskDiffShape<'a>>>,
    updates: Option<&'a BTreeMap<&'static str, u64>>,
}

impl<'a> GroupDiffShape<'a> {
    fn new(diff: &'a GroupDiff) -> Self {
        GroupDiffShape {
            kind: diff.kind.as_str(),
            name: &diff.name,
            fields: shapes(&diff.fields, FieldShape::new),
            objects: shapes(&diff.objects, ObjectShape::new),
            tasks: shapes(&diff.tasks, TaskDiffShape::new),
            updates: (!diff.updates.is_empty()).then_some(&diff.updates),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskDiffShape<'a> {
    #[serde(rename = "Type")]
    kind: &'static str,
    name: &'a str,
    fields: Option<Vec<FieldShape<'a>>>,
    objects: Option<Vec<ObjectShape<'a>>>,
    annotations: Option<[&'static str; 1]>,
}

impl<'a> TaskDiffShape<'a> {
    fn new(diff: &'a TaskDiff) -> Self {
        TaskDiffShape {
            kind: diff.kind.as_str(),
            name: &diff.name,
            fields: shapes(&diff.fields, FieldShape::new),
            objects: shapes(&diff.objects, ObjectShape::new),
            annotations: diff.annotation.map(|a| [a]),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ObjectShape<'a> {
    #[serde(rename = "Type")]
    kind: &'static str,
    name: &'a str,
    fields: Option<Vec<FieldShape<'a>>>,
    objects: Option<Vec<ObjectShape<'a>>>,
}

impl<'a> ObjectShape<'a> {
    fn new(diff: &'a ObjectDiff) -> Self {
        ObjectShape {
            kind: diff.kind.as_str(),
            name: diff.name,
            fields: shapes(&diff.fields, FieldShape::new),
            objects: shapes(&diff.objects, ObjectShape::new),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct FieldShape<'a> {
    #[serde(rename = "Type")]
    kind: &'static str,
    name: &'a str,
    old: &'a str,
    new: &'a str,
    annotations: Option<[&'static str; 1]>,
}

impl<'a> FieldShape<'a> {
    fn new(diff: &'a FieldDiff) -> Self {
        FieldShape {
            kind: diff.kind.as_str(),
            name: &diff.name,
            old: &diff.old,
            new: &diff.new,
            annotations: diff.annotation.map(|a| [a]),
        }
    }
}

fn shapes<'a, T, S>(list: &'a [T], shape: fn(&'a T) -> S) -> Option<Vec<S>> {
    list_or_null(list).map(|list| list.iter().map(shape).collect())
}
