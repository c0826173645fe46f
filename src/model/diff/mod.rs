//! What changed from one version of a job to the next, as its user sees it: fields, blocks, groups and tasks
//! (server.md 9).
//!
//! Refuses to know: how it is shown, who asks, and what nodes there are. What a scheduler would do comes in as counts.
//! Invariants: equal jobs have no difference; names are in order, whatever the order in the file; a changed block
//! lists what did not change in it, too.

mod annotate;
mod fields;
#[cfg(test)]
mod tests;

use super::job::{JobSpec, Task, TaskGroup};
use super::scaling::ScalingType;
use super::schema::Fields;
use fields::{Flat, changes, kind_of, object, objects};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffType {
    #[default]
    None,
    Added,
    Deleted,
    Edited,
}

impl DiffType {
    pub fn as_str(self) -> &'static str {
        match self {
            DiffType::None => "None",
            DiffType::Added => "Added",
            DiffType::Deleted => "Deleted",
            DiffType::Edited => "Edited",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldDiff {
    pub kind: DiffType,
    pub name: String,
    pub old: String,
    pub new: String,
    pub annotation: Option<&'static str>,
}

/// A block within a job, a group or a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectDiff {
    pub kind: DiffType,
    pub name: &'static str,
    pub fields: Vec<FieldDiff>,
    pub objects: Vec<ObjectDiff>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskDiff {
    pub kind: DiffType,
    pub name: String,
    pub fields: Vec<FieldDiff>,
    pub objects: Vec<ObjectDiff>,
    pub annotation: Option<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDiff {
    pub kind: DiffType,
    pub name: String,
    pub fields: Vec<FieldDiff>,
    pub objects: Vec<ObjectDiff>,
    pub tasks: Vec<TaskDiff>,
    /// How many allocations what happens to.
    pub updates: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobDiff {
    pub kind: DiffType,
    pub id: String,
    pub fields: Vec<FieldDiff>,
    pub objects: Vec<ObjectDiff>,
    pub groups: Vec<GroupDiff>,
}

impl JobDiff {
    /// `old` `None`: a job that was not there.
    pub fn between(old: Option<&JobSpec>, new: &JobSpec) -> JobDiff {
        let fields = changes(&old.map(|j| Flat::of(j)).unwrap_or_default(), &Flat::of(new), false);
        let objects = objects(old.map(|j| j as &dyn Fields), Some(new));
        let (before, after) = (old.map(JobSpec::groups_by_name).unwrap_or_default(), new.groups_by_name());
        let groups: Vec<GroupDiff> = names(before.keys().chain(after.keys()))
            .into_iter()
            .map(|name| group(before.get(name).copied(), after.get(name).copied()))
            .collect();
        let same = fields.is_empty() && objects.is_empty() && groups.iter().all(|g| g.kind == DiffType::None);
        let kind = match old {
            None => DiffType::Added,
            Some(_) if same => DiffType::None,
            Some(_) => DiffType::Edited,
        };
        JobDiff { kind, id: new.id.clone(), fields, objects, groups }
    }
}

/// The names in either, each once, in order.
fn names<'a, 'n: 'a>(all: impl Iterator<Item = &'a &'n str>) -> BTreeSet<&'n str> {
    let mut names = BTreeSet::new();
    names.extend(all.copied());
    names
}

fn by_name(group: Option<&TaskGroup>) -> BTreeMap<&str, &Task> {
    let mut tasks = BTreeMap::new();
    for task in group.into_iter().flat_map(|g| &g.tasks) {
        tasks.insert(task.name.as_str(), task);
    }
    tasks
}

fn group(old: Option<&TaskGroup>, new: Option<&TaskGroup>) -> GroupDiff {
    let flat = |g: Option<&TaskGroup>| g.map(|g| Flat::of(g)).unwrap_or_default();
    let (before, after) = (by_name(old), by_name(new));
    let tasks = names(before.keys().chain(after.keys()))
        .into_iter()
        .map(|name| task(before.get(name).copied(), after.get(name).copied()))
        .collect();
    GroupDiff {
        kind: kind_of(old, new),
        name: old.or(new).map(|g| g.name.clone()).unwrap_or_default(),
        fields: changes(&flat(old), &flat(new), false),
        objects: objects(old.map(|g| g as &dyn Fields), new.map(|g| g as &dyn Fields)),
        tasks,
        updates: BTreeMap::new(),
    }
}

fn task(old: Option<&Task>, new: Option<&Task>) -> TaskDiff {
    let flat = |t: Option<&Task>| t.map(|t| Flat::of(t)).unwrap_or_default();
    TaskDiff {
        kind: kind_of(old, new),
        name: old.or(new).map(|t| t.name.clone()).unwrap_or_default(),
        fields: changes(&flat(old), &flat(new), false),
        objects: of_task(old, new),
        annotation: None,
    }
}

/// With the task's scaling policies: each type is compared with its like.
fn of_task(old: Option<&Task>, new: Option<&Task>) -> Vec<ObjectDiff> {
    let mut all = objects(old.map(|t| t as &dyn Fields), new.map(|t| t as &dyn Fields));
    for kind in ScalingType::VERTICAL {
        let of = |t: &Task| {
            let policy = t.scaling.iter().find(|s| s.kind == kind);
            policy.map(|s| Flat::of(&s.scaling).with("Type", kind.as_str()))
        };
        all.extend(object("Scaling", old.and_then(of), new.and_then(of)));
    }
    all.sort_by_key(|object| object.name);
    all
}
