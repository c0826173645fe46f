//! Groups that get other counts, their policies and what is left of it.

use super::super::ApplyResult;
use super::*;
use crate::check;
use model::eval::Evaluation;
use model::eval::Trigger;
use model::scaling::{Scaling, ScalingEvent, ScalingPolicy, ScalingType, TaskScaling, policy_id};
use wire::command::ScaleJobCommand;
use wire::command::ScaleRequest;

fn limits(min: i64, max: i64) -> Option<Scaling> {
    Some(Scaling { min, max, enabled: true, ..Scaling::default() })
}

/// A service of two of which there may be one to three.
fn scalable() -> JobSpec {
    let mut spec = spec("web", 2);
    spec.groups[0].scaling = limits(1, 3);
    spec
}

fn registered() -> Region {
    let mut r = Region::default();
    r.run(&submit(scalable(), "text", 6));
    r
}

fn request(count: Option<i64>) -> ScaleRequest {
    ScaleRequest {
        job: key("web"),
        group: "g".into(),
        count,
        message: "busy".into(),
        error: false,
        meta: [("load".to_string(), model::value::Value::Float(0.5))].into(),
        enforce_index: None,
    }
}

fn scale(r: &mut Region, request: ScaleRequest) -> ApplyResult {
    let eval = request.count.map(|_| Evaluation { trigger: Trigger::JobScaling, ..eval(60, "web") });
    r.run(&Command::ScaleJob(Box::new(ScaleJobCommand { request, eval, tracked_versions: 6, at: AT })))
}

fn events(r: &Region) -> Vec<ScalingEvent> {
    r.view().scaling_events(&key("web"), "g").unwrap().0
}

fn policy(r: &Region, job: &str) -> Option<ScalingPolicy> {
    r.view().scaling_policy(policy_id("default", job, "g")).unwrap()
}

#[test]
fn a_count_makes_a_version_an_evaluation_and_an_event() {
    let mut r = registered();
    let out = scale(&mut r, request(Some(3)));
    let (index, id) = (out.index, eval(60, "web").id);
    assert_eq!(out.reply, Ok(WriteReply::Job { eval: Some(id), job_modify_index: index, index }));
    let job = r.job("web");
    assert_eq!((job.version, job.spec.groups[0].count, job.job_modify_index), (1, 3, index));
    let evaluation = r.view().eval(id).unwrap().unwrap();
    assert_eq!((evaluation.trigger, evaluation.job_modify_index), (Trigger::JobScaling, index));
    let event = events(&r).remove(0);
    assert_eq!((event.count, event.previous_count, event.eval), (Some(3), 2, Some(id)));
    assert_eq!((event.message.as_str(), event.create_index, event.at), ("busy", index, AT));
    assert!(r.view().submission(&job).unwrap().is_none(), "the text says another count");
    let again = scale(&mut r, request(Some(3)));
    assert_eq!(r.job("web").version, 2, "the same count makes a version, too: {again:?}");
    check::consistent(&r.view()).unwrap();
}

#[test]
fn a_scaling_event_alone_changes_only_the_events() {
    let mut r = registered();
    let before = r.job("web");
    let out = scale(&mut r, ScaleRequest { error: true, ..request(None) });
    let (index, job_modify_index) = (out.index, before.modify_index);
    assert_eq!(out.reply, Ok(WriteReply::Job { eval: None, job_modify_index, index }));
    assert_eq!(out.changes, [Change::Job { job: key("web") }]);
    assert_eq!(r.job("web"), before);
    let event = events(&r).remove(0);
    assert_eq!((event.count, event.previous_count, event.error, event.eval), (None, 2, true, None));
}

#[test]
fn refused_scalings_write_nothing() {
    let mut r = registered();
    let index = r.job("web").job_modify_index;
    let conflict =
        format!("Enforcing job modify index 77: job exists with conflicting job modify index: {index}");
    for (request, kind, message) in [
        (
            ScaleRequest { job: key("gone"), ..request(None) },
            RefusalKind::NotFound,
            "job \"gone\" not found".to_string(),
        ),
        (
            ScaleRequest { group: "no".into(), ..request(Some(1)) },
            RefusalKind::Invalid,
            "task group \"no\" specified for scaling does not exist in job".into(),
        ),
        (
            request(Some(0)),
            RefusalKind::Invalid,
            "group count was less than scaling policy minimum: 0 < 1".into(),
        ),
        (
            request(Some(4)),
            RefusalKind::Invalid,
            "group count was greater than scaling policy maximum: 4 > 3".into(),
        ),
        (ScaleRequest { enforce_index: Some(77), ..request(Some(1)) }, RefusalKind::Conflict, conflict),
    ] {
        let out = scale(&mut r, request);
        let refusal = out.reply.expect_err("is refused");
        assert_eq!((refusal.kind, refusal.message), (kind, message));
        assert!(out.changes.is_empty());
    }
    assert_eq!((r.job("web").version, events(&r).len()), (0, 0));
    let held = scale(&mut r, ScaleRequest { enforce_index: Some(index), ..request(Some(1)) });
    assert!(held.reply.is_ok(), "{held:?}");
}

#[test]
fn a_deployment_that_is_under_way_holds_the_count() {
    let mut r = registered();
    let deployment = deployment(9, &r.job("web"), super::deployments::group(0));
    r.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes: vec![],
        deployment: Some(Box::new(deployment)),
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    let refusal = scale(&mut r, request(Some(3))).reply.expect_err("is refused");
    assert_eq!(refusal.message, "job scaling blocked due to active deployment");
    assert!(scale(&mut r, request(None)).reply.is_ok(), "an event is welcome at any time");
}

#[test]
fn a_policy_is_updated_and_removed_with_its_block() {
    let mut r = registered();
    let first = policy(&r, "web").expect("is there");
    assert_eq!((first.create_index, first.modify_index, first.scaling.max), (1, 1, 3));
    scale(&mut r, request(Some(3)));
    assert_eq!(policy(&r, "web"), Some(first.clone()), "a count is none of its business");
    assert_eq!(r.view().table_index(Table::ScalingPolicies), 1);
    let mut wider = scalable();
    wider.groups[0].scaling = limits(1, 9);
    let changed = r.run(&submit(wider.clone(), "wider", 6)).index;
    let second = policy(&r, "web").expect("is there");
    assert_eq!((second.create_index, second.modify_index, second.id()), (1, changed, first.id()));
    let stopped = r
        .run(&Command::StopJob {
            job: key("web"),
            no_shutdown_delay: false,
            eval: None,
            tracked_versions: 6,
            at: AT,
        })
        .index;
    assert_eq!((policy(&r, "web"), r.view().table_index(Table::ScalingPolicies)), (None, stopped));
    let back = r.run(&submit(wider, "wider", 6)).index;
    let third = policy(&r, "web").expect("is there again");
    assert_eq!((third.create_index, third.id()), (back, first.id()));
    assert_eq!(events(&r).len(), 1, "events outlive a stop");
    r.run(&Command::PurgeJob { job: key("web"), eval: None, at: AT });
    assert_eq!((policy(&r, "web"), events(&r).len()), (None, 0));
    check::consistent(&r.view()).unwrap();
}

#[test]
fn a_removed_group_loses_its_policy_and_events() {
    let mut r = registered();
    scale(&mut r, request(None));
    let mut renamed = scalable();
    renamed.groups[0].name = "other".into();
    r.run(&submit(renamed, "other", 6));
    assert_eq!((policy(&r, "web"), events(&r).len()), (None, 0));
    let ids = r.view().scaling_policy_ids("", 9).unwrap();
    assert_eq!(ids, [policy_id("default", "web", "other")]);
    check::consistent(&r.view()).unwrap();
}

#[test]
fn preserved_counts_follow_the_log_within_new_limits() {
    let mut r = registered();
    scale(&mut r, request(Some(3)));
    let keep = |r: &mut Region, spec: JobSpec| {
        let order = RegisterJobCommand { preserve_counts: true, ..registration(spec, None) };
        r.run(&Command::RegisterJob(Box::new(order))).reply.unwrap();
        r.job("web").spec.groups[0].count
    };
    assert_eq!(keep(&mut r, scalable()), 3);
    let mut narrow = scalable();
    narrow.groups[0].scaling = limits(1, 2);
    assert_eq!(keep(&mut r, narrow), 2);
}

#[test]
fn scaling_a_parent_job_makes_no_evaluation() {
    let mut r = Region::default();
    let mut clock = scalable();
    clock.job_type = JobType::Batch;
    clock.periodic = Some(model::periodic::Periodic {
        enabled: true,
        spec: "@daily".into(),
        specs: vec![],
        prohibit_overlap: false,
        time_zone: "UTC".into(),
    });
    r.run(&register(clock, None));
    let out = scale(&mut r, request(Some(3)));
    assert!(matches!(out.reply, Ok(WriteReply::Job { eval: None, .. })), "{out:?}");
    assert_eq!(events(&r).remove(0).eval, None);
}

#[test]
fn policies_of_tasks_come_and_go_with_their_blocks() {
    let mut r = Region::default();
    let mut wanted = scalable();
    let of_task = |kind| TaskScaling { kind, scaling: limits(1, 9).unwrap() };
    wanted.groups[0].tasks[0].scaling = ScalingType::VERTICAL.map(of_task).to_vec();
    let first = r.run(&submit(wanted.clone(), "text", 6)).index;
    let kept = |r: &Region| {
        let view = r.view();
        check::consistent(&view).unwrap();
        let ids = view.scaling_policy_ids("", usize::MAX).unwrap();
        let policies = ids.into_iter().map(|id| view.scaling_policy(id).unwrap().unwrap());
        let mut found: Vec<_> = policies.map(|p| (p.kind, p.task, p.create_index, p.modify_index)).collect();
        found.sort();
        found
    };
    let task = wanted.groups[0].tasks[0].name.clone();
    let [cpu, mem] = ScalingType::VERTICAL;
    let of_group = (ScalingType::Horizontal, String::new(), first, first);
    assert_eq!(
        kept(&r),
        [of_group.clone(), (cpu, task.clone(), first, first), (mem, task.clone(), first, first)]
    );
    wanted.groups[0].tasks[0].scaling.remove(0);
    wanted.groups[0].tasks[0].scaling[0].scaling.max = 10;
    let second = r.run(&submit(wanted, "text", 6)).index;
    assert_eq!(kept(&r), [of_group, (mem, task, first, second)]);
    r.run(&Command::StopJob {
        job: key("web"),
        no_shutdown_delay: false,
        eval: None,
        tracked_versions: 6,
        at: AT,
    });
    assert_eq!(kept(&r), []);
}
