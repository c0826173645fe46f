//! Annotations of a job's difference: how many allocations of a group, and which fields and tasks make it so.

use super::{DiffType, FieldDiff, GroupDiff, JobDiff, ObjectDiff, TaskDiff};
use crate::job::Task;
use crate::plan::GroupChanges;
use crate::schema::{Block, ChangeEffect, Declared, Member};
use std::collections::BTreeMap;

const CREATE: &str = "forces create";
const DESTROY: &str = "forces destroy";
const IN_PLACE: &str = "forces in-place update";
const REPLACE: &str = "forces create/destroy update";

impl JobDiff {
    /// `desired`: by group, what a scheduler would do.
    pub fn annotate(&mut self, desired: &BTreeMap<String, GroupChanges>) {
        for group in &mut self.groups {
            group.updates = desired.get(&group.name).map(counts).unwrap_or_default();
            group.fields.iter_mut().filter(|f| f.name == "Count").for_each(annotate_count);
            let GroupDiff { kind, tasks, .. } = group;
            tasks.iter_mut().for_each(|task| task.annotation = forced(*kind, task));
        }
    }
}

/// Only what there is something of.
fn counts(changes: &GroupChanges) -> BTreeMap<&'static str, u64> {
    let all = [
        ("canary", changes.canary),
        ("create", changes.place),
        ("create/destroy update", changes.destructive),
        ("destroy", changes.stop),
        ("ignore", changes.ignore),
        ("in-place update", changes.in_place),
        ("migrate", changes.migrate),
    ];
    let mut counts = BTreeMap::new();
    counts.extend(all.into_iter().filter(|(_, n)| *n > 0));
    counts
}

fn annotate_count(count: &mut FieldDiff) {
    let number = |text: &str| text.parse().unwrap_or(0_i64);
    count.annotation = match number(&count.new) - number(&count.old) {
        0 => None,
        more if more > 0 => Some(CREATE),
        _ => Some(DESTROY),
    };
}

fn forced(group: DiffType, task: &TaskDiff) -> Option<&'static str> {
    match (task.kind, group) {
        (DiffType::None, _) => None,
        (DiffType::Added, DiffType::Added) => Some(CREATE),
        (DiffType::Deleted, DiffType::Deleted) => Some(DESTROY),
        (DiffType::Edited, _) if stays(task) => Some(IN_PLACE),
        _ => Some(REPLACE),
    }
}

/// Whether its process may stay: by what the table says of each field.
fn stays(task: &TaskDiff) -> bool {
    let restarts = |block: &Block, field: &FieldDiff| {
        let name = field.name.split('[').next().unwrap_or_default();
        field.kind != DiffType::None
            && block.by_json(name).is_some_and(|m| m.change == ChangeEffect::Destructive)
    };
    let in_object = |object: &ObjectDiff| {
        let named = |m: &&Member| m.json == object.name || m.block().is_some_and(|b| b.shown == object.name);
        match Task::BLOCK.members.iter().find(named) {
            Some(member) if member.change == ChangeEffect::Destructive => true,
            Some(member) => member.block().is_some_and(|b| object.fields.iter().any(|f| restarts(b, f))),
            None => false,
        }
    };
    !task.fields.iter().any(|f| restarts(Task::BLOCK, f)) && !task.objects.iter().any(in_object)
}
