//! Whether a change of a group's spec needs a new allocation, or can be made in place (scheduler.md 11.6). What the change of
//! a field means stands in the field's row of the job's table.
//! Refuses to know where the allocation runs and whether the new spec fits there.

use model::job::{JobSpec, Task, TaskGroup};
use model::schema::change::of_block;
use model::schema::{ChangeEffect, Fields};
use std::collections::BTreeMap;

/// Metadata is compared over all levels, as the task sees it.
const META: &str = "Meta";
/// Tasks are compared one by one, by name.
const TASKS: &str = "Tasks";

/// Whether the running tasks cannot become the new ones without being started again.
pub fn tasks_changed(old: &JobSpec, new: &JobSpec, group: &str) -> bool {
    let (Some(a), Some(b)) = (old.group(group), new.group(group)) else { return true };
    let task_changed = |t: &Task| b.task(&t.name).is_none_or(|u| one_task_changed((old, a, t), (new, b, u)));
    a.tasks.len() != b.tasks.len() || is_destructive(a, b) || a.tasks.iter().any(task_changed)
}

type Placed<'a> = (&'a JobSpec, &'a TaskGroup, &'a Task);

fn one_task_changed(old: Placed, new: Placed) -> bool {
    is_destructive(old.2, new.2) || combined_meta(old) != combined_meta(new)
}

fn is_destructive(old: &dyn Fields, new: &dyn Fields) -> bool {
    of_block(old, new, &[META, TASKS]) == ChangeEffect::Destructive
}

/// What the task sees: its own keys over its group's over its job's.
fn combined_meta<'a>((job, group, task): Placed<'a>) -> BTreeMap<&'a String, &'a String> {
    job.meta.iter().chain(&group.meta).chain(&task.meta).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::spec;
    use model::claims::{Network, Port};
    use model::constraint::Constraint;
    use model::job::TaskAction;
    use model::preference::{Affinity, Spread};
    use model::resources::{Hook, Lifecycle};
    use model::samples;
    use model::scaling::{Scaling, ScalingType, TaskScaling};
    use model::schema::Member;
    use model::time::Span;
    use model::value::Value;

    type Edit = fn(&mut JobSpec);

    fn changed(change: Edit) -> bool {
        let (old, mut new) = (spec("a", 2), spec("a", 2));
        change(&mut new);
        assert_ne!(old, new, "the change changes something");
        tasks_changed(&old, &new, "g")
    }

    fn task(spec: &mut JobSpec) -> &mut Task {
        &mut spec.groups[0].tasks[0]
    }

    #[test]
    fn changes_that_are_destructive() {
        let changes: [(&str, Edit); 16] = [
            ("another task", |j| {
                let mut t = task(j).clone();
                t.name = "u".into();
                j.groups[0].tasks.push(t);
            }),
            ("renamed task", |j| task(j).name = "u".into()),
            ("disk", |j| j.groups[0].ephemeral_disk.size_mb += 1),
            ("group render_templates", |j| j.groups[0].restart.render_templates = true),
            ("driver", |j| task(j).driver = "raw_exec".into()),
            ("user", |j| task(j).user = "nobody".into()),
            ("config", |j| drop(task(j).config.insert("command".into(), Value::Text("x".into())))),
            ("env", |j| drop(task(j).env.insert("A".into(), "1".into()))),
            ("job meta", |j| drop(j.meta.insert("m".into(), "1".into()))),
            ("group meta", |j| drop(j.groups[0].meta.insert("m".into(), "1".into()))),
            ("task meta", |j| drop(task(j).meta.insert("m".into(), "1".into()))),
            ("cpu", |j| task(j).resources.cpu_mhz += 1),
            ("memory", |j| task(j).resources.memory_mb += 1),
            ("logs.disabled", |j| task(j).logs.disabled = true),
            ("task render_templates", |j| task(j).restart.render_templates = true),
            ("group gone", |j| j.groups[0].name = "h".into()),
        ];
        for (name, change) in changes {
            assert!(changed(change), "{name}");
        }
    }

    #[test]
    fn changes_that_are_made_in_place() {
        let changes: [(&str, Edit); 15] = [
            ("scaling", |j| {
                let kind = ScalingType::VerticalMem;
                task(j).scaling.push(TaskScaling { kind, scaling: Scaling::default() })
            }),
            ("action", |j| task(j).actions.push(TaskAction::default())),
            ("affinity", |j| j.groups[0].affinities.push(Affinity::default())),
            ("spread", |j| j.spreads.push(Spread::default())),
            ("count", |j| j.groups[0].count += 1),
            ("priority", |j| j.priority += 1),
            ("datacenters", |j| j.datacenters.push("dc9".into())),
            ("constraint", |j| j.constraints.push(Constraint::default())),
            ("restart", |j| j.groups[0].restart.attempts += 1),
            ("kill_timeout", |j| task(j).kill_timeout = Span::seconds(77)),
            ("kill_signal", |j| task(j).kill_signal = "SIGUSR1".into()),
            ("shutdown_delay", |j| task(j).shutdown_delay = Span::seconds(7)),
            ("log size", |j| task(j).logs.max_files += 1),
            ("leader", |j| task(j).leader = true),
            ("lifecycle", |j| task(j).lifecycle = Some(Lifecycle { hook: Hook::Poststart, sidecar: true })),
        ];
        for (name, change) in changes {
            assert!(!changed(change), "{name}");
        }
    }

    #[test]
    fn moving_a_key_between_levels_changes_nothing_for_the_task() {
        let (mut old, mut new) = (spec("a", 2), spec("a", 2));
        old.meta.insert("m".into(), "1".into());
        new.groups[0].tasks[0].meta.insert("m".into(), "1".into());
        assert!(!tasks_changed(&old, &new, "g"));
    }

    #[test]
    fn a_change_means_what_the_row_of_its_field_says() {
        let old = samples::full_job();
        let all = samples::paths(&old);
        assert!(all.len() > 120, "{} fields", all.len());
        for path in all {
            let names: Vec<_> = path.iter().map(|member| member.json).collect();
            if matches!(names[..], ["TaskGroups"] | ["TaskGroups", "Name"] | ["TaskGroups", "Tasks", "Name"])
            {
                continue;
            }
            let is_destructive = |member: &&Member| member.change == ChangeEffect::Destructive;
            let expected = path.iter().any(is_destructive) || names == ["TaskGroups", "Tasks"];
            let new = samples::with_change(&old, &path);
            assert_ne!(old, new, "{names:?}");
            assert_eq!(tasks_changed(&old, &new, &old.groups[0].name), expected, "{names:?}");
        }
    }

    #[test]
    fn host_mode_and_the_order_of_ports_are_no_change() {
        let port = |label: &str| Port { label: label.into(), ..Port::default() };
        let network = |mode: &str, ports: [&str; 2]| Network {
            mode: mode.into(),
            dynamic: ports.map(port).to_vec(),
            ..Network::default()
        };
        let (mut old, mut new) = (spec("a", 2), spec("a", 2));
        old.groups[0].networks = vec![network("", ["a", "b"])];
        new.groups[0].networks = vec![network("host", ["b", "a"])];
        assert!(!tasks_changed(&old, &new, "g"));
        new.groups[0].networks = vec![network("host", ["b", "c"])];
        assert!(tasks_changed(&old, &new, "g"));
    }
}
