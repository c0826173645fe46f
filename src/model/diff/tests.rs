//! Every kind of difference, one at a time.

use super::*;
use crate::constraint::Constraint;
use crate::dispatch::{DispatchPayload, Parameterized, PayloadRule};
use crate::job::{DisconnectPolicy, JobType, Reconcile, TaskAction};
use crate::periodic::Periodic;
use crate::plan::GroupChanges;
use crate::preference::{Affinity, Spread, SpreadTarget};
use crate::resources::{Hook, Lifecycle};
use crate::scaling::{Scaling, ScalingType, TaskScaling};
use crate::time::Span;
use crate::ui::{Ui, UiLink};
use crate::validate::tests::job;
use crate::value::Value;
use std::slice::from_ref;

type Change = fn(&mut JobSpec);

fn changed(change: Change) -> JobDiff {
    let (old, mut new) = (job(JobType::Service), job(JobType::Service));
    change(&mut new);
    JobDiff::between(Some(&old), &new)
}

fn field_line(f: &FieldDiff) -> String {
    let mark = if f.kind == DiffType::None { "=".into() } else { f.kind.as_str()[..1].to_string() };
    format!("{mark} {}: {:?} {:?}", f.name, f.old, f.new)
}

fn object_lines(o: &ObjectDiff, out: &mut Vec<String>) {
    out.push(format!("{} {}", o.kind.as_str(), o.name));
    out.extend(o.fields.iter().map(field_line));
    o.objects.iter().for_each(|o| object_lines(o, out));
}

fn lines(fields: &[FieldDiff], objects: &[ObjectDiff]) -> Vec<String> {
    let mut out: Vec<String> = fields.iter().map(field_line).collect();
    objects.iter().for_each(|o| object_lines(o, &mut out));
    out
}

fn edited(t: &mut JobSpec) -> &mut Task {
    &mut t.groups[0].tasks[0]
}

#[test]
fn equal_jobs_have_no_difference() {
    let diff = changed(|_| {});
    assert_eq!((diff.kind, diff.groups[0].kind, diff.groups[0].tasks[0].kind), Default::default());
    assert!(diff.fields.is_empty() && diff.objects.is_empty(), "{diff:?}");
}

#[test]
fn each_field_and_block_of_a_job_is_compared() {
    let cases: [(Change, &[&str]); 8] = [
        (|j| j.priority = 70, &["E Priority: \"50\" \"70\""]),
        (|j| j.stop = true, &["E Stop: \"false\" \"true\""]),
        (|j| j.all_at_once = true, &["E AllAtOnce: \"false\" \"true\""]),
        (|j| drop(j.meta.insert("foo".into(), "bar".into())), &["A Meta[foo]: \"\" \"bar\""]),
        (
            |j| j.datacenters = vec!["dc1".into(), "dc2".into()],
            &[
                "Edited Datacenters",
                "A Datacenters: \"\" \"dc1\"",
                "A Datacenters: \"\" \"dc2\"",
                "D Datacenters: \"*\" \"\"",
            ],
        ),
        (
            |j| {
                j.constraints =
                    vec![Constraint { left: "${a}".into(), operand: "=".into(), right: "x".into() }]
            },
            &[
                "Added Constraint",
                "A LTarget: \"\" \"${a}\"",
                "A Operand: \"\" \"=\"",
                "A RTarget: \"\" \"x\"",
            ],
        ),
        (
            |j| j.affinities = vec![Affinity { weight: -5, ..Affinity::default() }],
            &[
                "Added Affinity",
                "= LTarget: \"\" \"\"",
                "= Operand: \"\" \"\"",
                "= RTarget: \"\" \"\"",
                "A Weight: \"\" \"-5\"",
            ],
        ),
        (
            |j| {
                let targets = vec![SpreadTarget { value: "dc1".into(), percent: 70 }];
                j.spreads = vec![Spread { attribute: "${d}".into(), weight: 50, targets }];
            },
            &[
                "Added Spread",
                "A Attribute: \"\" \"${d}\"",
                "A Weight: \"\" \"50\"",
                "Added SpreadTarget",
                "A Percent: \"\" \"70\"",
                "A Value: \"\" \"dc1\"",
            ],
        ),
    ];
    for (change, want) in cases {
        let diff = changed(change);
        assert_eq!(lines(&diff.fields, &diff.objects), want);
        assert_eq!((diff.kind, diff.groups[0].kind), (DiffType::Edited, DiffType::None), "{want:?}");
    }
}

#[test]
fn links_are_compared_one_with_another() {
    let link = |label: &str| UiLink { label: label.into(), url: "u".into() };
    let with = |links: &[UiLink]| {
        let ui = Some(Ui { description: "d".into(), links: links.to_vec() });
        JobSpec { ui, ..job(JobType::Service) }
    };
    let diff = JobDiff::between(Some(&with(&[link("a")])), &with(&[link("b"), link("c")]));
    let want = [
        "Edited UI",
        "= Description: \"d\" \"d\"",
        "Edited Link",
        "E Label: \"a\" \"b\"",
        "= URL: \"u\" \"u\"",
        "Added Link",
        "A Label: \"\" \"c\"",
        "A URL: \"\" \"u\"",
    ];
    assert_eq!(lines(&diff.fields, &diff.objects), want);
}

#[test]
fn times_of_launches_are_compared() {
    let diff = changed(|j| {
        let specs = vec!["@daily".to_string()];
        let (spec, time_zone) = (String::new(), "UTC".to_string());
        j.periodic = Some(Periodic { enabled: true, spec, specs, prohibit_overlap: false, time_zone });
    });
    let want = [
        "Added Periodic",
        "A Enabled: \"\" \"true\"",
        "A ProhibitOverlap: \"\" \"false\"",
        "= Spec: \"\" \"\"",
        "A SpecType: \"\" \"cron\"",
        "A Specs[0]: \"\" \"@daily\"",
        "A TimeZone: \"\" \"UTC\"",
    ];
    assert_eq!(lines(&diff.fields, &diff.objects), want);
}

#[test]
fn rules_of_dispatches_are_compared_with_their_lists() {
    let diff = changed(|j| {
        let (meta_required, meta_optional) = (vec!["a".to_string()], vec![]);
        j.parameterized =
            Some(Parameterized { payload: PayloadRule::Required, meta_required, meta_optional });
        edited(j).dispatch_payload = Some(DispatchPayload { file: "in/put".into() });
    });
    let want = [
        "Added ParameterizedJob",
        "A Payload: \"\" \"required\"",
        "Added MetaRequired",
        "A MetaRequired: \"\" \"a\"",
    ];
    assert_eq!(lines(&diff.fields, &diff.objects), want);
    let task = &diff.groups[0].tasks[0];
    assert_eq!(lines(&task.fields, &task.objects), ["Added DispatchPayload", "A File: \"\" \"in/put\""]);
}

#[test]
fn each_field_and_block_of_a_group_is_compared() {
    let cases: [(Change, &[&str]); 9] = [
        (|j| j.groups[0].count = 3, &["E Count: \"1\" \"3\""]),
        (|j| drop(j.groups[0].meta.insert("a".into(), "b".into())), &["A Meta[a]: \"\" \"b\""]),
        (|j| j.groups[0].shutdown_delay = Some(Span::seconds(1)), &["A ShutdownDelay: \"\" \"1000000000\""]),
        (
            |j| j.groups[0].ephemeral_disk.size_mb += 1,
            &[
                "Edited EphemeralDisk",
                "= Migrate: \"false\" \"false\"",
                "E SizeMB: \"300\" \"301\"",
                "= Sticky: \"false\" \"false\"",
            ],
        ),
        (
            |j| j.groups[0].constraints = vec![Constraint::default()],
            &["Added Constraint", "= LTarget: \"\" \"\"", "= Operand: \"\" \"\"", "= RTarget: \"\" \"\""],
        ),
        (
            |j| {
                j.groups[0].disconnect = Some(DisconnectPolicy {
                    lost_after: Some(Span::seconds(2)),
                    stop_on_client_after: None,
                    replace: true,
                    reconcile: Reconcile::BestScore,
                })
            },
            &[
                "Added Disconnect",
                "A LostAfter: \"\" \"2000000000\"",
                "A Reconcile: \"\" \"best_score\"",
                "A Replace: \"\" \"true\"",
                "= StopOnClientAfter: \"\" \"\"",
            ],
        ),
        (
            |j| j.groups[0].migrate = None,
            &[
                "Deleted Migrate",
                "D HealthCheck: \"checks\" \"\"",
                "D HealthyDeadline: \"300000000000\" \"\"",
                "D MaxParallel: \"1\" \"\"",
                "D MinHealthyTime: \"10000000000\" \"\"",
            ],
        ),
        (
            |j| j.groups[0].restart.attempts = 9,
            &[
                "Edited RestartPolicy",
                "E Attempts: \"2\" \"9\"",
                "= Delay: \"15000000000\" \"15000000000\"",
                "= Interval: \"1800000000000\" \"1800000000000\"",
                "= Mode: \"fail\" \"fail\"",
                "= RenderTemplates: \"false\" \"false\"",
            ],
        ),
        (
            |j| j.groups[0].update.iter_mut().for_each(|u| u.stagger = Span::seconds(1)),
            // it has no effect, and is no difference
            &[],
        ),
    ];
    for (change, want) in cases {
        let group = changed(change).groups.remove(0);
        assert_eq!(lines(&group.fields, &group.objects), want);
        assert_eq!((group.kind, group.tasks[0].kind), (DiffType::Edited, DiffType::None), "{want:?}");
    }
}

#[test]
fn each_field_and_block_of_a_task_is_compared() {
    let cases: [(Change, &[&str]); 9] = [
        (|j| edited(j).driver = "exec".into(), &["E Driver: \"raw_exec\" \"exec\""]),
        (|j| edited(j).user = "web".into(), &["A User: \"\" \"web\""]),
        (|j| edited(j).leader = true, &["E Leader: \"false\" \"true\""]),
        (|j| drop(edited(j).env.insert("FOO".into(), "1".into())), &["A Env[FOO]: \"\" \"1\""]),
        (|j| edited(j).kill_timeout = Span::seconds(9), &["E KillTimeout: \"5000000000\" \"9000000000\""]),
        (
            |j| {
                let args = Value::List(vec![Value::Text("-v".into()), Value::Int(2)]);
                let inner = Value::Map([("deep".to_string(), Value::Bool(true))].into());
                edited(j).config = [("args".to_string(), args), ("m".to_string(), inner)].into();
            },
            &["Added Config", "A args[0]: \"\" \"-v\"", "A args[1]: \"\" \"2\"", "A m[deep]: \"\" \"true\""],
        ),
        (
            |j| edited(j).resources.memory_mb = 64,
            &[
                "Edited Resources",
                "= CPU: \"100\" \"100\"",
                "= Cores: \"0\" \"0\"",
                "= DiskMB: \"0\" \"0\"",
                "= IOPS: \"0\" \"0\"",
                "E MemoryMB: \"300\" \"64\"",
                "= MemoryMaxMB: \"0\" \"0\"",
                "= SecretsMB: \"0\" \"0\"",
            ],
        ),
        (
            |j| edited(j).lifecycle = Some(Lifecycle { hook: Hook::Prestart, sidecar: true }),
            &["Added Lifecycle", "A Hook: \"\" \"prestart\"", "A Sidecar: \"\" \"true\""],
        ),
        (
            |j| edited(j).logs.max_files = 3,
            &[
                "Edited LogConfig",
                "= Disabled: \"false\" \"false\"",
                "= MaxFileSizeMB: \"10\" \"10\"",
                "E MaxFiles: \"10\" \"3\"",
            ],
        ),
    ];
    for (change, want) in cases {
        let mut group = changed(change).groups.remove(0);
        let task = group.tasks.remove(0);
        assert_eq!(lines(&task.fields, &task.objects), want);
        assert_eq!((group.kind, task.kind), (DiffType::Edited, DiffType::Edited), "{want:?}");
    }
}

#[test]
fn actions_are_compared_one_with_another() {
    let action = |name: &str, args: &[&str]| {
        let args = args.iter().map(ToString::to_string).collect();
        TaskAction { name: name.into(), command: "echo".into(), args }
    };
    let with = |actions: &[TaskAction]| {
        let mut job = job(JobType::Service);
        edited(&mut job).actions = actions.to_vec();
        job
    };
    let (a, b) = (action("a", &["x", "y"]), action("b", &[]));
    let both = [a.clone(), b.clone()];
    let other = action("a", &["x", "z", "y"]);
    let cases: [(&[TaskAction], &[TaskAction], &[&str]); 3] = [
        (
            from_ref(&a),
            &[other, b.clone()],
            &[
                "Edited Action",
                "= Args[0]: \"x\" \"x\"",
                "E Args[1]: \"y\" \"z\"",
                "A Args[2]: \"\" \"y\"",
                "= Command: \"echo\" \"echo\"",
                "= Name: \"a\" \"a\"",
                "Added Action",
                "A Command: \"\" \"echo\"",
                "A Name: \"\" \"b\"",
            ],
        ),
        (from_ref(&b), &[], &["Deleted Action", "D Command: \"echo\" \"\"", "D Name: \"b\" \"\""]),
        (&both, &both, &[]),
    ];
    for (old, new, want) in cases {
        let diff = JobDiff::between(Some(&with(old)), &with(new));
        let task = &diff.groups[0].tasks[0];
        assert_eq!(lines(&task.fields, &task.objects), want);
    }
}

#[test]
fn a_diff_shows_added_and_removed_blocks_whole() {
    let new = job(JobType::Service);
    let diff = JobDiff::between(None, &new);
    assert_eq!(
        (diff.kind, diff.groups[0].kind, diff.groups[0].tasks[0].kind),
        (DiffType::Added, DiffType::Added, DiffType::Added)
    );
    assert!(diff.fields.iter().all(|f| f.kind == DiffType::Added && f.old.is_empty()), "{:?}", diff.fields);
    let diff = changed(|j| {
        let mut other = j.groups[0].clone();
        other.name = "b".into();
        j.groups[0].tasks[0].name = "u".into();
        j.groups.push(other);
    });
    let kinds: Vec<_> = diff.groups.iter().map(|g| (g.name.as_str(), g.kind)).collect();
    assert_eq!(kinds, [("b", DiffType::Added), ("g", DiffType::Edited)]);
    let tasks: Vec<_> = diff.groups[1].tasks.iter().map(|t| (t.name.as_str(), t.kind)).collect();
    assert_eq!(tasks, [("t", DiffType::Deleted), ("u", DiffType::Added)]);
}

#[test]
fn a_diff_is_annotated_with_what_it_leads_to() {
    let annotated = |change: Change| {
        let mut diff = changed(change);
        let does = GroupChanges { place: 2, ignore: 1, in_place: 3, ..GroupChanges::default() };
        diff.annotate(&[("g".to_string(), does)].into());
        diff.groups.remove(0)
    };
    let group = annotated(|j| j.groups[0].count = 3);
    let updates: Vec<_> = group.updates.iter().map(|(k, n)| (*k, *n)).collect();
    assert_eq!(updates, [("create", 2), ("ignore", 1), ("in-place update", 3)]);
    assert_eq!((group.fields[0].annotation, group.tasks[0].annotation), (Some("forces create"), None));
    assert_eq!(annotated(|j| j.groups[0].count = 0).fields[0].annotation, Some("forces destroy"));
    let (in_place, replaced) = (Some("forces in-place update"), Some("forces create/destroy update"));
    let policy = |j: &mut JobSpec| {
        edited(j).scaling.push(TaskScaling { kind: ScalingType::VerticalCpu, scaling: Scaling::default() })
    };
    let cases: [(Change, Option<&str>); 10] = [
        (policy, in_place),
        (|j| edited(j).actions.push(TaskAction::default()), in_place),
        (|j| edited(j).kill_timeout = Span::seconds(9), in_place),
        (|j| edited(j).constraints = vec![Constraint::default()], in_place),
        (|j| edited(j).logs.max_files = 3, in_place),
        (|j| edited(j).restart.attempts = 7, in_place),
        (|j| edited(j).logs.disabled = true, replaced),
        (|j| drop(edited(j).env.insert("A".into(), "b".into())), replaced),
        (|j| edited(j).resources.cpu_mhz = 7, replaced),
        (|j| edited(j).name = "u".into(), replaced),
    ];
    for (change, want) in cases {
        assert_eq!(annotated(change).tasks[0].annotation, want);
    }
    let mut new = JobDiff::between(None, &job(JobType::Batch));
    new.annotate(&BTreeMap::new());
    assert_eq!(new.groups[0].tasks[0].annotation, Some("forces create"));
}
