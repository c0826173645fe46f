//! What has failed is placed again, now or later or never (scheduler.md 9, scheduler.md 20).

use super::*;
use model::deployment::DeploymentStatus;
use model::eval::Trigger;
use model::id::EvalId;
use model::job::{JobType, ReschedulePolicy};
use model::reschedule::Reschedule;
use model::time::Span;

/// A job with the default policy of its type.
fn lenient(count: i64, job_type: JobType) -> Job {
    let mut job = job("a", count);
    job.spec.job_type = job_type;
    job.spec.groups[0].reschedule = ReschedulePolicy::default_for(job_type);
    job
}

fn service(count: i64) -> Job {
    lenient(count, JobType::Service)
}

/// Failed `ago` before `NOW`.
fn failed(job: &Job, index: u64, node: u128, ago: Span) -> Allocation {
    let mut a = alloc(job, index, node);
    (a.client, a.task_states) = (C::Failed, done(false));
    let at = NOW + Span(-ago.0);
    (a.create_time, a.modify_time) = (at + Span::minutes(-60), at);
    a.task_states.values_mut().for_each(|t| t.finished_at = at);
    a
}

fn again(changes: &Changes) -> Vec<String> {
    names_of(&changes.rescheduled)
}

/// When each evaluation to come is due, in tenths of a second from now, and the names that wait for it.
fn later(changes: &Changes) -> Vec<(i64, Vec<String>)> {
    let due = |f: &Followup| (f.at - NOW).0 / 100_000_000;
    let names = |f: &Followup| f.allocs.iter().map(|a| short(&a.name)).collect();
    changes.followups.iter().map(|f| (due(f), names(f))).collect()
}

#[test]
fn r9_a_delayed_reschedule_makes_a_follow_up_eval() {
    let job = service(2);
    let allocs = [alloc(&job, 0, 1), failed(&job, 1, 2, Span::seconds(10))];
    let case = Case::of(&job);
    let changes = case.changes(&allocs);
    assert_eq!(later(&changes), [(200, strings(&["[1]"]))]);
    assert!(again(&changes).is_empty() && changes.missing.is_empty() && changes.stops.is_empty());
    let followup = &changes.followups[0];
    assert_eq!(
        (followup.trigger, followup.description),
        (Trigger::AllocReschedule, "created for delayed rescheduling")
    );
}

#[test]
fn r9_a_reschedule_due_within_a_second_is_placed_now() {
    let job = service(1);
    for (ago, now) in [(28_900, false), (29_000, true), (30_000, true), (90_000, true)] {
        let allocs = [failed(&job, 0, 1, Span::millis(ago))];
        let case = Case::of(&job);
        let changes = case.changes(&allocs);
        assert_eq!((again(&changes).len(), later(&changes).len()), (now as usize, !now as usize), "{ago}");
    }
}

#[test]
fn r9_the_follow_up_eval_reschedules_by_id_not_by_clock() {
    let job = service(1);
    let mut allocs = [failed(&job, 0, 1, Span::ZERO)];
    let case = Case::of(&job);
    allocs[0].followup_eval = Some(case.eval.id);
    assert_eq!(again(&case.changes(&allocs)), strings(&["[0]"]));
    allocs[0].followup_eval = Some(EvalId::from_random(5));
    let other = case.changes(&allocs);
    assert!(again(&other).is_empty() && other.followups.is_empty(), "another one waits: nothing to do");
}

#[test]
fn r9_a_wrong_clock_delays_a_reschedule_at_most_once() {
    let job = service(1);
    let allocs = [failed(&job, 0, 1, Span::hours(-9))];
    assert_eq!(later(&Case::of(&job).changes(&allocs)), [(300, strings(&["[0]"]))]);
    let mut of_1970 = failed(&job, 0, 1, Span::ZERO);
    of_1970.create_time = NOW;
    of_1970.task_states.values_mut().for_each(|t| t.finished_at = Wall(1));
    let allocs = [of_1970];
    assert_eq!(later(&Case::of(&job).changes(&allocs)), [(300, strings(&["[0]"]))]);
}

/// Whatever the clocks said meanwhile, and whatever else the job is evaluated for.
#[test]
fn r9_a_follow_up_eval_that_is_over_is_not_waited_for() {
    let job = service(1);
    for ago in [Span::ZERO, Span::hours(-2)] {
        let mut allocs = [failed(&job, 0, 1, ago)];
        allocs[0].followup_eval = Some(EvalId::from_random(5));
        let waits = Case::of(&job);
        assert!(again(&waits.changes(&allocs)).is_empty());
        let over = Case { is_pending: &|_| false, ..Case::of(&job) };
        assert_eq!(again(&over.changes(&allocs)), strings(&["[0]"]), "{ago:?}");
    }
}

#[test]
fn r20_a_batch_job_is_rescheduled_once_a_day() {
    let job = lenient(1, JobType::Batch);
    let first = [failed(&job, 0, 1, Span::ZERO)];
    let case = Case { batch: true, ..Case::of(&job) };
    assert_eq!(later(&case.changes(&first)), [(50, strings(&["[0]"]))]);
    for (hours, tried_again) in [(23, false), (24, true)] {
        let mut second = failed(&job, 0, 1, Span::ZERO);
        second.reschedules = vec![Reschedule {
            at: NOW + Span::hours(-hours),
            previous_alloc: alloc_id(1),
            previous_node: node_id(1),
            delay: Span::seconds(5),
        }];
        let allocs = [second];
        let changes = case.changes(&allocs);
        assert_eq!(changes.followups.len(), usize::from(tried_again), "{hours}");
        assert!(changes.missing.is_empty(), "it keeps its place");
    }
}

#[test]
fn r9_no_reschedule_without_an_enabled_policy() {
    let mut job = service(1);
    let policy = job.spec.groups[0].reschedule.take();
    for policy in [None, policy.map(|p| ReschedulePolicy { unlimited: false, attempts: 0, ..p })] {
        job.spec.groups[0].reschedule = policy;
        let allocs = [failed(&job, 0, 1, Span::hours(1))];
        let case = Case::of(&job);
        let changes = case.changes(&allocs);
        assert!(again(&changes).is_empty() && changes.followups.is_empty() && changes.missing.is_empty());
    }
}

#[test]
fn r9_force_reschedule_needs_no_policy() {
    let mut job = service(1);
    job.spec.groups[0].reschedule = None;
    let mut allocs = [failed(&job, 0, 1, Span::ZERO)];
    allocs[0].transition.force_reschedule = Some(true);
    assert_eq!(again(&Case::of(&job).changes(&allocs)), strings(&["[0]"]));
    allocs[0].client = C::Running;
    assert!(again(&Case::of(&job).changes(&allocs)).is_empty(), "it runs");
}

#[test]
fn r9_not_during_a_deployment_unless_its_watcher_says_so() {
    let job = service(1);
    let mut deployment = rolling::deployment(&job, 1);
    let mut allocs = [failed(&job, 0, 1, Span::hours(1))];
    allocs[0].deployment = Some(deployment.id);
    assert!(again(&Case::rolling(&job, Some(&deployment)).changes(&allocs)).is_empty());
    allocs[0].transition.reschedule = Some(true);
    assert_eq!(again(&Case::rolling(&job, Some(&deployment)).changes(&allocs)), strings(&["[0]"]));
    allocs[0].transition.reschedule = None;
    deployment.status = DeploymentStatus::Successful;
    assert_eq!(again(&Case::rolling(&job, Some(&deployment)).changes(&allocs)), strings(&["[0]"]));
}

#[test]
fn r20_followups_are_batched_within_five_seconds_of_their_first() {
    let job = service(5);
    let delays = [10_000, 12_000, 14_900, 15_100, 21_000];
    let mut allocs = vec![];
    for (i, delay) in delays.iter().enumerate() {
        allocs.push(failed(&job, i as u64, i as u128 + 1, Span::millis(30_000 - delay)));
    }
    let want = [(100, strings(&["[0]", "[1]", "[2]"])), (151, strings(&["[3]"])), (210, strings(&["[4]"]))];
    assert_eq!(later(&Case::of(&job).changes(&allocs)), want);
}

#[test]
fn r9_replaced_or_stopped_allocs_get_no_follow_up() {
    let old = service(2);
    let mut new = old.clone();
    (new.version, new.job_modify_index) = (1, 50);
    let allocs = [alloc(&old, 0, 1), failed(&old, 1, 2, Span::ZERO)];
    let case = Case::of(&new);
    let changes = case.changes(&allocs);
    assert_eq!((names_of(&changes.destructive).len(), changes.followups.len()), (2, 0));
    new.spec.groups[0].count = 1;
    let case = Case::of(&new);
    let changes = case.changes_with(&allocs, Update::Ignore);
    assert_eq!((stopped(&changes, NOT_NEEDED), changes.followups.len()), (strings(&["[1]"]), 0));
}

#[test]
fn r8_7_1_reschedules_are_placed_first_under_their_name() {
    let job = service(3);
    let allocs = [failed(&job, 1, 1, Span::hours(1)), alloc(&job, 0, 9)];
    let case = Case::of(&job);
    let mut changes = case.changes(&allocs);
    assert_eq!(again(&changes), strings(&["[1]"]));
    assert_eq!(names_of(&changes.replacements), strings(&["[0]"]));
    assert_eq!(missing(&mut changes), strings(&["[2]"]));
    assert_eq!(stopped(&changes, LOST), strings(&["[0]"]), "what has failed is stopped when it is replaced");
}

#[test]
fn r8_7_1_reschedules_are_placed_up_to_the_count() {
    let job = service(1);
    let allocs = [alloc(&job, 0, 1), failed(&job, 1, 2, Span::hours(1))];
    let changes = Case::of(&job).changes(&allocs).stops.len();
    assert_eq!(changes, 1);
    assert!(again(&Case::of(&job).changes(&allocs)).is_empty());
}
