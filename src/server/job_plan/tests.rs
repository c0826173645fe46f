//! What is planned, against what then happens.

use super::*;
use model::plan::{Decision, GroupChanges};
use state::samples::{AT, Region, eval, eval_id, group, key, register, spec};
use wire::command::Command;

const SEED: u64 = 5;

fn asked(spec: &JobSpec) -> JobPlanRequest {
    JobPlanRequest { spec: Arc::new(spec.clone()), schedule: None, seed: SEED }
}

fn planned(region: &Region, spec: &JobSpec) -> JobPlanReply {
    let view = region.view();
    plan(&view, &asked(spec), AT).expect("the state can be read").expect("the job is fit")
}

/// Registers the job, lets the scheduler decide, and carries the plan out.
fn happens(region: &mut Region, spec: &JobSpec, n: u128) -> Decision {
    let pending = eval(n, &spec.id);
    region.run(&register(spec.clone(), Some(pending.clone()))).reply.expect("is registered");
    let view = region.view();
    let attempt = Attempt::first(view.index());
    let decision = scheduler::schedule(&view, view.fleet(), &pending, attempt, AT, SEED);
    let nodes = decision.plan.nodes.clone();
    let evals = vec![decision.eval.clone()];
    region
        .run(&Command::ApplyPlan {
            eval: eval_id(n),
            nodes,
            deployment: None,
            updates: vec![],
            evals,
            at: AT,
        })
        .reply
        .expect("is applied");
    decision
}

#[test]
fn a_job_plan_is_what_then_happens_and_writes_nothing() {
    let mut region = Region::default();
    region.ready_node(1);
    let changes: [fn(&mut JobSpec); 6] = [
        |_| {},
        |j| j.groups[0].count = 3,
        |j| j.groups[0].tasks[0].kill_timeout = model::time::Span::seconds(7),
        |j| drop(j.groups[0].tasks[0].env.insert("A".into(), "b".into())),
        |j| j.groups.push(group("h", 1)),
        |j| j.groups[0].count = 0,
    ];
    let mut wanted = spec("a", 2);
    for (n, change) in (1..).zip(changes) {
        change(&mut wanted);
        let before = (region.view().index(), region.view().digest());
        let reply = planned(&region, &wanted);
        assert_eq!((region.view().index(), region.view().digest()), before);
        assert_eq!(reply.before.as_ref().map(|j| j.version), (n > 1).then(|| n as u64 - 2));
        let done = happens(&mut region, &wanted, n);
        assert_eq!((&reply.desired, &reply.failed), (&done.desired, &done.eval.failed_groups), "change {n}");
        assert_ne!(reply.desired["g"], GroupChanges::default(), "change {n}");
    }
}

#[test]
fn each_change_is_counted_as_what_it_is() {
    let mut region = Region::default();
    region.ready_node(1);
    let mut wanted = spec("a", 2);
    let new = planned(&region, &wanted).desired["g"];
    assert_eq!(new, GroupChanges { place: 2, ..GroupChanges::default() });
    happens(&mut region, &wanted, 1);
    let same = planned(&region, &wanted).desired["g"];
    assert_eq!(same, GroupChanges { ignore: 2, ..GroupChanges::default() });
    let counted = |change: fn(&mut JobSpec)| {
        let mut other = wanted.clone();
        change(&mut other);
        planned(&region, &other).desired["g"]
    };
    let fewer = counted(|j| j.groups[0].count = 1);
    assert_eq!((fewer.stop, fewer.ignore + fewer.in_place), (1, 1));
    let replaced = counted(|j| j.groups[0].tasks[0].user = "web".into());
    assert_eq!(replaced, GroupChanges { destructive: 2, ..GroupChanges::default() });
    let renamed = planned(&region, &{
        wanted.groups[0].name = "h".into();
        wanted
    });
    assert_eq!((renamed.desired["g"].stop, renamed.desired["h"].place), (2, 2));
}

#[test]
fn a_plan_without_room_names_its_blocked_evaluation() {
    let region = Region::default();
    let reply = planned(&region, &spec("a", 3));
    assert_eq!(reply.failed["g"].coalesced_failures, 2);
    let created: Vec<_> = reply.created.iter().map(|e| (e.status, e.job.clone())).collect();
    assert_eq!(created, [(EvalStatus::Blocked, key("a"))]);
    assert_eq!(reply.before, None);
}

#[test]
fn a_job_plan_refuses_what_registration_refuses() {
    let mut region = Region::default();
    region.ready_node(1);
    happens(&mut region, &spec("a", 1), 1);
    type Spoil = fn(&mut JobSpec);
    let cases: [(Spoil, &str); 3] = [
        (|j| j.namespace = "nowhere".into(), "nonexistent namespace"),
        (|j| j.node_pool = "none".into(), "nonexistent node pool"),
        (|j| j.job_type = model::job::JobType::Batch, "cannot update job from type \"service\" to \"batch\""),
    ];
    for (change, part) in cases {
        let mut other = spec("a", 1);
        change(&mut other);
        let refusal = plan(&region.view(), &asked(&other), AT).expect("reads").expect_err("is unfit");
        assert!(refusal.message.contains(part), "{refusal}");
    }
}
