//! The rules of `model::garbage`, one at a time, on a job and an allocation of the samples.

use crate::samples::{AT, Region, alloc, alloc_id, eval, eval_id, node_id, register, spec};
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::deployment::DeploymentStatus;
use model::eval::Evaluation;
use model::garbage::*;
use model::id::DeploymentId;
use model::job::JobType;
use model::time::Span;

const RULES: GarbageRules = GarbageRules {
    interval: Span::minutes(5),
    jobs: Span::hours(1),
    evals: Span::hours(1),
    batch_evals: Span::hours(3),
    deployments: Span::hours(1),
    nodes: Span::hours(1),
    after_leap: Span::hours(1),
};

/// A service's allocation that ended well two hours ago, and its job.
fn ended() -> (Allocation, Holder) {
    let mut r = Region::default();
    r.run(&register(spec("web", 1), None));
    let job = r.job("web");
    let mut alloc = alloc(1, &job, node_id(1), eval_id(1));
    (alloc.client, alloc.modify_time) = (ClientStatus::Complete, AT);
    let holder = Holder {
        create_index: job.create_index,
        version: job.version,
        job_modify_index: job.job_modify_index,
        job_type: JobType::Service,
        stop: false,
        groups: vec!["g".into()],
        deployment: None,
    };
    (alloc, holder)
}

fn goes(change: impl Fn(&mut Allocation, &mut Holder)) -> bool {
    let (mut alloc, mut holder) = ended();
    change(&mut alloc, &mut holder);
    alloc_may_go(&alloc, true, &holder, &Cutoffs::of(&RULES, AT + Span::hours(2)))
}

#[test]
fn only_old_ended_objects_are_collected() {
    assert!(goes(|_, _| {}));
    assert!(!goes(|a, _| a.modify_time = AT + Span::hours(1) + Span(1)), "too young");
    assert!(!goes(|a, _| a.client = ClientStatus::Running));
    assert!(
        !goes(|a, _| (a.client, a.desired) = (ClientStatus::Running, DesiredStatus::Stop)),
        "still there"
    );
    assert!(!goes(|a, _| (a.client, a.desired) = (ClientStatus::Unknown, DesiredStatus::Stop)));
    let (mut a, holder) = ended();
    (a.client, a.desired) = (ClientStatus::Unknown, DesiredStatus::Stop);
    assert!(alloc_may_go(&a, false, &holder, &Cutoffs::FORCED), "nobody will ever say more of it");
}

#[test]
fn a_failed_alloc_that_was_not_replaced_is_kept() {
    let failed = |a: &mut Allocation| a.client = ClientStatus::Failed;
    assert!(!goes(|a, _| failed(a)));
    assert!(!goes(|a, h| (failed(a), h.job_type = JobType::System).1));
    assert!(goes(|a, _| (failed(a), a.next = Some(alloc_id(2))).1));
    assert!(goes(|a, _| (failed(a), a.desired = DesiredStatus::Stop).1));
    assert!(goes(|a, h| (failed(a), h.stop = true).1));
    assert!(goes(|a, h| (failed(a), h.groups.clear()).1), "its group is wanted no more");
    assert!(goes(|a, h| (failed(a), h.create_index += 1).1), "of a job that was purged");
}

#[test]
fn completed_batch_allocs_are_kept_while_they_matter() {
    let batch = |h: &mut Holder| h.job_type = JobType::Batch;
    let at = AT + Span::hours(4);
    let old = |change: fn(&mut Allocation, &mut Holder)| {
        let (mut alloc, mut holder) = ended();
        batch(&mut holder);
        change(&mut alloc, &mut holder);
        alloc_may_go(&alloc, true, &holder, &Cutoffs::of(&RULES, at))
    };
    assert!(!old(|_, _| {}));
    assert!(old(|_, h| h.stop = true));
    assert!(old(|_, h| h.version += 1), "of an older version");
    assert!(old(|a, _| a.next = Some(alloc_id(2))));
    assert!(!goes(|_, h| (batch(h), h.stop = true).1), "batch jobs' are kept for longer");
    assert!(!old(|_, h| h.job_type = JobType::Sysbatch));
    assert!(old(|_, h| (h.job_type, h.job_modify_index) = (JobType::Sysbatch, 99)));
}

#[test]
fn an_active_deployment_keeps_its_allocs() {
    let id = DeploymentId::from_random(1);
    let of = |status| {
        move |a: &mut Allocation, h: &mut Holder| {
            (a.deployment, h.deployment) = (Some(id), Some((id, status)));
            a.next = Some(alloc_id(2));
        }
    };
    assert!(!goes(of(DeploymentStatus::Running)));
    assert!(goes(of(DeploymentStatus::Failed)));
    let stopped = |status| {
        move |a: &mut Allocation, h: &mut Holder| {
            (a.desired, h.deployment) = (DesiredStatus::Stop, Some((id, status)));
        }
    };
    assert!(!goes(stopped(DeploymentStatus::Failed)));
    assert!(goes(stopped(DeploymentStatus::Successful)));
}

#[test]
fn evaluations_go_when_they_are_over_and_old() {
    use model::eval::EvalStatus::{Blocked, Canceled, Complete};
    let before = Cutoffs::of(&RULES, AT + Span::hours(2));
    for (status, job_type, goes) in [
        (Complete, JobType::Service, true),
        (Canceled, JobType::System, true),
        (Blocked, JobType::Service, false),
        (Complete, JobType::Batch, false),
    ] {
        let eval = Evaluation { status, job_type, modify_time: AT, ..eval(1, "web") };
        assert_eq!(eval_may_go(&eval, &before), goes, "{status:?} {job_type:?}");
    }
}
