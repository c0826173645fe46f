//! Deployments in the state: what is counted, what each step changes, and what it refuses.

use super::super::super::samples::*;
use super::super::super::scans::RangeScan;
use super::super::ApplyResult;
use model::alloc::{Allocation, ClientStatus, Health};
use model::deployment::{
    Deployment, DeploymentGroup, DeploymentStatus as S, DeploymentStep, DeploymentUpdate, Failure, Verdict,
};
use model::eval::EvalStatus;
use model::id::DeploymentId;
use model::job::{Job, JobStatus};
use model::time::Span;
use wire::command::{Command, StepDeploymentCommand};
use wire::request::{RefusalKind, WriteReply};

fn id(n: u128) -> DeploymentId {
    DeploymentId::from_random(n)
}

pub fn group(desired_canaries: u64) -> DeploymentGroup {
    DeploymentGroup {
        desired_total: 2,
        desired_canaries,
        progress_deadline: Span::minutes(10),
        ..DeploymentGroup::default()
    }
}

/// A job with a deployment and two allocations in it.
fn rolling(desired_canaries: u64) -> (Region, Job) {
    let mut r = Region::default();
    r.ready_node(1);
    r.run(&register(spec("web", 2), None));
    let job = r.job("web");
    let made = deployment(1, &job, group(desired_canaries));
    roll_out(&mut r, Some(made), vec![part(1, &job, desired_canaries > 0), part(2, &job, false)], vec![]);
    (r, job)
}

fn part(n: u128, job: &Job, canary: bool) -> Allocation {
    let health = canary.then(|| Health { canary: true, ..Health::default() });
    Allocation { deployment: Some(id(1)), health, ..alloc(n, job, node_id(1), eval_id(1)) }
}

fn roll_out(
    r: &mut Region,
    deployment: Option<Deployment>,
    allocs: Vec<Allocation>,
    updates: Vec<DeploymentUpdate>,
) -> ApplyResult {
    let (eval, nodes, deployment) = (eval_id(1), place(allocs), deployment.map(Box::new));
    r.run(&Command::ApplyPlan { eval, nodes, deployment, updates, evals: vec![], at: AT })
}

fn found(n: u128, deployment: Option<DeploymentId>, healthy: bool) -> Command {
    let updates = vec![report(n, ClientStatus::Running)];
    let verdicts = vec![Verdict { alloc: alloc_id(n), deployment, healthy }];
    Command::UpdateAllocs {
        seen: u64::MAX,
        node: node_id(1),
        updates,
        verdicts,
        evals: vec![],
        at: AT + Span::minutes(1),
    }
}

fn step(r: &mut Region, step: DeploymentStep) -> ApplyResult {
    let (eval, at) = (Some(eval(9, "web")), AT + Span::minutes(2));
    let order = StepDeploymentCommand { deployment: id(1), step, eval, tracked_versions: 6, at };
    r.run(&Command::StepDeployment(Box::new(order)))
}

fn read(r: &Region, n: u128) -> Deployment {
    r.view().deployment(id(n)).expect("reads").expect("exists")
}

fn refused(out: ApplyResult) -> String {
    let refusal = out.reply.expect_err("is refused");
    assert_eq!(refusal.kind, RefusalKind::Validation);
    refusal.message
}

#[test]
fn placed_and_healthy_allocs_are_counted_once() {
    let (mut r, _) = rolling(0);
    let g = |r: &Region| read(r, 1).groups["g"].clone();
    assert_eq!((g(&r).placed, g(&r).healthy, g(&r).require_progress_by), (2, 0, AT + Span::minutes(10)));
    for _ in 0..2 {
        r.run(&found(1, Some(id(1)), true));
    }
    assert_eq!((g(&r).healthy, g(&r).require_progress_by), (1, AT + Span::minutes(11)));
    r.run(&found(1, Some(id(1)), false));
    assert_eq!((g(&r).healthy, g(&r).unhealthy), (1, 0), "a client does not overrule what was found");
    r.run(&found(2, Some(id(7)), true));
    assert_eq!(g(&r).healthy, 1, "found in another deployment");
    r.run(&found(2, Some(id(1)), false));
    assert_eq!((g(&r).healthy, g(&r).unhealthy), (1, 1));
    let (healthy, unhealthy) = (vec![alloc_id(2)], vec![]);
    step(&mut r, DeploymentStep::SetHealth { healthy, unhealthy, failure: None });
    assert_eq!((g(&r).healthy, g(&r).unhealthy), (2, 0), "a user does");
    crate::check::consistent(&r.view()).expect("is whole");
}

#[test]
fn a_new_deployment_cancels_the_old_and_purge_deletes_all() {
    let (mut r, job) = rolling(0);
    roll_out(&mut r, Some(deployment(2, &job, group(0))), vec![], vec![]);
    assert_eq!((read(&r, 1).status, read(&r, 2).status), (S::Cancelled, S::Running));
    let latest = r.view().latest_deployment(&key("web")).expect("reads").expect("exists");
    assert_eq!(latest.id, id(2));
    let mut scan = RangeScan::default();
    let first = r.view().scan_active_deployments(&mut scan, 1).expect("reads");
    assert_eq!((first, scan.is_over()), (vec![], false), "the older one is canceled");
    let second = r.view().scan_active_deployments(&mut scan, 1).expect("reads");
    assert_eq!((second, scan.is_over()), (vec![latest], true));
    let late = DeploymentUpdate { id: id(1), status: S::Successful, description: "late".into() };
    roll_out(&mut r, None, vec![], vec![late]);
    assert_eq!(read(&r, 1).status, S::Cancelled, "what has ended has ended");
    r.run(&Command::PurgeJob { job: key("web"), eval: None, at: AT });
    assert!(r.view().deployments(None, 9).expect("reads").is_empty());
    roll_out(&mut r, Some(deployment(3, &job, group(0))), vec![], vec![]);
    assert!(r.view().deployments(None, 9).expect("reads").is_empty(), "its job is gone");
    crate::check::consistent(&r.view()).expect("is whole");
}

#[test]
fn a_plan_may_change_a_deployments_desired_counts() {
    let (mut r, job) = rolling(2);
    r.run(&found(1, Some(id(1)), true));
    let wants = |desired_total, desired_canaries| {
        deployment(1, &job, DeploymentGroup { desired_total, desired_canaries, healthy: 9, ..group(0) })
    };
    roll_out(&mut r, Some(wants(5, 1)), vec![], vec![]);
    let g = |r: &Region| read(r, 1).groups["g"].clone();
    assert_eq!((g(&r).desired_total, g(&r).desired_canaries), (5, 1));
    assert_eq!((g(&r).placed, g(&r).healthy), (2, 1), "what was counted is not a plan's to say");
    step(&mut r, DeploymentStep::Promote { groups: None }).reply.expect("there is a healthy one");
    let mut more = wants(6, 3);
    more.groups.insert("h".into(), group(0));
    roll_out(&mut r, Some(more), vec![], vec![]);
    assert_eq!((g(&r).desired_total, g(&r).desired_canaries, g(&r).promoted), (6, 1, true));
    assert_eq!(read(&r, 1).groups["h"].desired_total, 2, "a group that had nowhere to go before");
    let done = DeploymentUpdate { id: id(1), status: S::Successful, description: "done".into() };
    roll_out(&mut r, None, vec![], vec![done]);
    roll_out(&mut r, Some(wants(9, 9)), vec![], vec![]);
    assert_eq!((g(&r).desired_total, read(&r, 1).status), (6, S::Successful), "it comes too late");
    crate::check::consistent(&r.view()).expect("is whole");
}

#[test]
fn a_rescheduled_canary_is_replaced_in_the_canary_list() {
    let (mut r, job) = rolling(1);
    let placed = |r: &Region| read(r, 1).groups["g"].placed_canaries.clone();
    for n in 3..30 {
        let failed = Command::UpdateAllocs {
            seen: u64::MAX,
            node: node_id(1),
            updates: vec![report(if n == 3 { 1 } else { n - 1 }, ClientStatus::Failed)],
            verdicts: vec![],
            evals: vec![],
            at: AT,
        };
        r.run(&failed);
        let before = alloc_id(if n == 3 { 1 } else { n - 1 });
        roll_out(&mut r, None, vec![Allocation { previous: Some(before), ..part(n, &job, true) }], vec![]);
        assert_eq!(placed(&r), [alloc_id(n)]);
    }
    let mut other = part(30, &job, true);
    other.name = "web.g[7]".into();
    roll_out(&mut r, None, vec![other], vec![]);
    assert_eq!(placed(&r), [alloc_id(29), alloc_id(30)], "one that lives may be promoted");
    assert_eq!(read(&r, 1).groups["g"].placed, 30);
}

#[test]
fn a_successful_deployment_marks_its_version_stable() {
    let (mut r, _) = rolling(0);
    let done = DeploymentUpdate { id: id(1), status: S::Successful, description: "done".into() };
    roll_out(&mut r, None, vec![], vec![done]);
    assert!(r.job("web").stable);
}

#[test]
fn a_job_with_an_active_deployment_is_running() {
    let mut r = Region::default();
    r.run(&register(spec("web", 2), None));
    let job = r.job("web");
    assert_eq!(job.status, JobStatus::Pending);
    roll_out(&mut r, Some(deployment(1, &job, group(0))), vec![], vec![]);
    assert_eq!(r.job("web").status, JobStatus::Running);
    crate::check::consistent(&r.view()).expect("is whole");
}

#[test]
fn promotion_needs_healthy_canaries_and_unmarks_them() {
    let (mut r, job) = rolling(1);
    let all = DeploymentStep::Promote { groups: None };
    assert_eq!(refused(step(&mut r, all.clone())), "Task group \"g\" has 0/1 healthy allocations");
    assert!(r.view().eval(eval_id(9)).expect("reads").is_none(), "nothing has changed");
    r.run(&found(1, Some(id(1)), true));
    let elsewhere = DeploymentStep::Promote { groups: Some(vec!["nosuch".into()]) };
    assert!(step(&mut r, elsewhere).reply.is_ok() && !read(&r, 1).groups["g"].promoted);
    let out = step(&mut r, all);
    let index = out.index;
    assert_eq!(out.reply, Ok(WriteReply::Deployment { eval: Some(eval_id(9)), reverted: None, index }));
    assert!(read(&r, 1).groups["g"].promoted && !r.alloc(1).is_canary());
    let eval = r.view().eval(eval_id(9)).expect("reads").expect("goes on from there");
    assert_eq!(eval.status, EvalStatus::Pending);
    roll_out(&mut r, None, vec![part(3, &job, true)], vec![]);
    assert!(!r.alloc(3).is_canary(), "a canary that comes late is none");
}

#[test]
fn a_paused_deployment_restarts_its_deadlines() {
    let (mut r, _) = rolling(0);
    step(&mut r, DeploymentStep::Pause);
    let paused = read(&r, 1);
    assert_eq!((paused.status, paused.status_description.as_str()), (S::Paused, "Deployment is paused"));
    step(&mut r, DeploymentStep::Resume);
    let resumed = read(&r, 1);
    assert_eq!((resumed.status, resumed.status_description.as_str()), (S::Running, "Deployment is running"));
    assert_eq!(resumed.groups["g"].require_progress_by, AT + Span::minutes(12));
}

#[test]
fn a_failure_ends_it_and_may_bring_an_older_spec_back() {
    let (mut r, _) = rolling(0);
    let done = DeploymentUpdate { id: id(1), status: S::Successful, description: "done".into() };
    roll_out(&mut r, None, vec![], vec![done]);
    let first = r.job("web").spec.clone();
    r.run(&register(spec("web", 3), None));
    let second = r.job("web");
    roll_out(&mut r, Some(deployment(2, &second, group(0))), vec![], vec![]);
    let fail = |revert| {
        let step = DeploymentStep::Fail(Failure { description: "why".into(), revert });
        let order =
            StepDeploymentCommand { deployment: id(2), step, eval: None, tracked_versions: 6, at: AT };
        Command::StepDeployment(Box::new(order))
    };
    let out = r.run(&fail(Some(0)));
    assert!(matches!(out.reply, Ok(WriteReply::Deployment { reverted: Some(0), .. })), "{:?}", out.reply);
    let third = r.job("web");
    assert_eq!((third.version, third.stable, &third.spec), (2, true, &first));
    assert_eq!((read(&r, 2).status, read(&r, 2).status_description.as_str()), (S::Failed, "why"));
    assert_eq!(refused(r.run(&fail(None))), "can't fail terminal deployment");
    crate::check::consistent(&r.view()).expect("is whole");
}

#[test]
fn auto_revert_yields_to_a_newer_job_version() {
    let (mut r, _) = rolling(0);
    r.run(&register(spec("web", 5), None));
    let failure = Failure { description: "why".into(), revert: Some(0) };
    let out = step(&mut r, DeploymentStep::Fail(failure));
    assert!(matches!(out.reply, Ok(WriteReply::Deployment { reverted: None, .. })), "{:?}", out.reply);
    assert_eq!((r.job("web").version, read(&r, 1).status), (1, S::Failed));
}

#[test]
fn allocs_outside_a_deployment_get_no_health() {
    let (mut r, _) = rolling(0);
    let (healthy, unhealthy) = (vec![alloc_id(77)], vec![]);
    let why = refused(step(&mut r, DeploymentStep::SetHealth { healthy, unhealthy, failure: None }));
    assert!(why.contains("is not part of deployment"), "{why}");
}

/// Deployments are collected when no allocation is left of their version: one of another version must not name them.
#[test]
fn an_update_in_place_leaves_the_deployment_of_its_old_version() {
    let (mut r, job) = rolling(0);
    let mut wanted = job.spec.clone();
    wanted.groups[0].count = 3;
    r.run(&register(wanted, None));
    let newest = r.job("web");
    assert_eq!(newest.version, job.version + 1);
    roll_out(&mut r, None, vec![part(1, &newest, false), part(2, &job, false)], vec![]);
    let of = |n| r.view().alloc(alloc_id(n)).expect("reads").expect("exists").deployment;
    assert_eq!((of(1), of(2)), (None, Some(id(1))));
}
