//! One small job, group and task, from which the tests of all rooms make theirs.

use crate::canonical::{self, Defaults};
use crate::job::{JobSpec, JobType, JobUpdate, Task, TaskGroup};
use crate::resources::Resources;
use crate::scaling::{Scaling, ScalingType, TaskScaling};
use crate::schema::{FieldView, Fields, Member, Slot};
use crate::time::Span;
use crate::value::Value;
use std::collections::BTreeMap;

/// A task of 100 MHz and 64 MiB.
pub fn task(name: &str) -> Task {
    let resources = Resources { cpu_mhz: 100, memory_mb: 64, ..Resources::default() };
    Task { name: name.into(), driver: "raw_exec".into(), resources, ..Task::default() }
}

pub fn group(name: &str, count: i64, tasks: Vec<Task>) -> TaskGroup {
    TaskGroup { name: name.into(), count, tasks, ..TaskGroup::default() }
}

/// A service that every node may run.
pub fn job(namespace: &str, id: &str, groups: Vec<TaskGroup>) -> JobSpec {
    JobSpec {
        namespace: namespace.into(),
        id: id.into(),
        name: id.into(),
        region: "global".into(),
        priority: 50,
        datacenters: vec!["*".into()],
        node_pool: "default".into(),
        groups,
        ..JobSpec::default()
    }
}

/// Text that a writer has to escape.
const ODD_TEXT: &str = "a \"b\" \\ ${c} %{d} $${e} é\tf";

/// A service that says something in every field that users write.
pub fn full_job() -> JobSpec {
    let mut spec = JobSpec::default();
    fill(&mut spec);
    spec.job_type = JobType::Service;
    spec.stop = false;
    for group in &mut spec.groups {
        let tasks = group.tasks.iter_mut().flat_map(|task| &mut task.resources.networks);
        let dynamic = group.networks.iter_mut().chain(tasks).flat_map(|network| &mut network.dynamic);
        dynamic.for_each(|port| port.value = 0);
        for task in &mut group.tasks {
            let scaling = Scaling { min: 1, max: 2, ..Scaling::default() };
            task.scaling = vec![TaskScaling { kind: ScalingType::VerticalMem, scaling }];
        }
        if let Some(scaling) = &mut group.scaling {
            scaling.policy = BTreeMap::from([("n".to_string(), Value::Float(1.5))]);
        }
    }
    spec.update = Some(JobUpdate::default());
    canonical::complete(&mut spec, &Defaults::default());
    spec
}

/// Something in every field, and one block in every list.
fn fill(block: &mut dyn Fields) {
    for member in block.block().members {
        let Some(slot) = block.slot(member.json) else { continue };
        match slot {
            Slot::Block(inner) => fill(inner),
            Slot::Blocks(list) => fill(list.push()),
            Slot::ByLabel(map) => fill(map.entry("label")),
            Slot::Text(text) => *text = format!("{} {ODD_TEXT}", member.json),
            Slot::Texts(list) => *list = vec!["a".to_string(), ODD_TEXT.to_string()],
            Slot::TextMap(map) => {
                map.insert("key".into(), "line\nline ${x}\n".into());
                map.insert("odd key".into(), ODD_TEXT.into());
            }
            Slot::Free(map) => {
                let inner = Value::Map(BTreeMap::from([("deep key".to_string(), Value::Bool(true))]));
                map.insert(
                    "list".into(),
                    Value::List(vec![Value::Int(-1), Value::Text(ODD_TEXT.into()), inner]),
                );
                map.insert("number".into(), Value::Float(0.25));
                map.insert("none".into(), Value::Null);
            }
            other => change(other),
        }
    }
}

/// Makes what stands there another value.
fn change(slot: Slot<'_>) {
    match slot {
        Slot::Text(text) => text.push('x'),
        Slot::Int(number) => *number += 3,
        Slot::Bool(flag) => *flag = !*flag,
        Slot::Span(span) => *span = *span + Span::millis(90_500),
        Slot::MaybeSpan(span) => *span = Some(span.unwrap_or_default() + Span::millis(90_500)),
        Slot::Word(word) => {
            let was = word.shown();
            let other = word.known().iter().find(|known| **known != was);
            assert!(other.is_some_and(|other| word.set(other)), "{was} is the only word");
        }
        Slot::Texts(list) => list.push("x".into()),
        Slot::TextMap(map) => drop(map.insert("x".into(), "x".into())),
        Slot::Free(map) => drop(map.insert("x".into(), Value::Int(1))),
        Slot::Block(_) => {}
        Slot::Blocks(list) => drop(list.push()),
        Slot::ByLabel(map) => drop(map.entry("x")),
    }
}

/// The way from a job to one of its fields: the members on it. Of blocks in a list it is always the first.
pub type Path = Vec<&'static Member>;

/// Every field of a job in which every block is there, by the way to it.
pub fn paths(spec: &JobSpec) -> Vec<Path> {
    let mut found = Vec::new();
    walk(spec, &mut Vec::new(), &mut found);
    found
}

fn walk(block: &dyn Fields, way: &mut Path, found: &mut Vec<Path>) {
    block.each(&mut |member, view| {
        way.push(member);
        match view {
            FieldView::NotKept => {}
            _ if !member.constant.is_empty() || member.always_zero => {}
            FieldView::Block(inner) => walk(inner, way, found),
            FieldView::Blocks(list) => {
                found.push(way.clone());
                list.at(0).into_iter().for_each(|inner| walk(inner, way, found));
            }
            FieldView::ByLabel(map) => {
                found.push(way.clone());
                map.get("label").into_iter().for_each(|inner| walk(inner, way, found));
            }
            _ => found.push(way.clone()),
        }
        way.pop();
    });
}

/// The job with that one field changed, and what follows from it.
pub fn with_change(spec: &JobSpec, path: &[&'static Member]) -> JobSpec {
    let mut spec = spec.clone();
    change_at(&mut spec, path);
    canonical::complete(&mut spec, &Defaults::default());
    spec
}

fn change_at(block: &mut dyn Fields, path: &[&'static Member]) {
    let [member, rest @ ..] = path else { return };
    let slot = block.slot(member.json).unwrap_or_else(|| panic!("{} has no place", member.json));
    match (slot, rest) {
        (slot, []) => change(slot),
        (Slot::Block(inner), rest) => change_at(inner, rest),
        (Slot::Blocks(list), rest) => change_at(list.at_mut(0).expect("there is one"), rest),
        (Slot::ByLabel(map), rest) => change_at(map.entry("label"), rest),
        _ => panic!("{} holds no block", member.json),
    }
}
