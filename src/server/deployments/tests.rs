//! What the watcher makes of what it sees.

use super::*;
use model::alloc::{ClientStatus, Health};
use model::job::{DelayFunction, ReschedulePolicy};
use state::samples::{self, AT, Region, alloc, eval_id, node_id, register, spec};

/// A job with a deployment, and `allocs` of it with that health.
fn case(healths: &[(Option<bool>, bool)]) -> (Deployment, Job, Vec<Allocation>) {
    let mut r = Region::default();
    let mut spec = spec("web", 2);
    spec.groups[0].reschedule = Some(ReschedulePolicy {
        attempts: 1,
        interval: Span::hours(1),
        delay: Span::seconds(30),
        delay_function: DelayFunction::Constant,
        max_delay: Span::hours(1),
        unlimited: false,
    });
    r.run(&register(spec, None));
    let job = r.job("web");
    let id = DeploymentId::from_random(1);
    let group = DeploymentGroup {
        auto_revert: true,
        progress_deadline: Span::minutes(10),
        require_progress_by: AT + Span::minutes(10),
        desired_total: 2,
        ..DeploymentGroup::default()
    };
    let deployment = samples::deployment(1, &job, group);
    let one = |(n, (healthy, canary)): (usize, &(Option<bool>, bool))| Allocation {
        client: ClientStatus::Running,
        deployment: Some(id),
        health: Some(Health { healthy: *healthy, canary: *canary, ..Health::default() }),
        ..alloc(n as u128 + 1, &job, node_id(1), eval_id(1))
    };
    let allocs = healths.iter().enumerate().map(one).collect();
    (deployment, job, allocs)
}

fn judge(deployment: &Deployment, job: &Job, allocs: &[Allocation], late: bool) -> WatcherAction {
    let group = "g".to_string();
    let late: Vec<&String> = late.then_some(&group).into_iter().collect();
    next_action(deployment, &job.spec, allocs, &late, AT)
}

#[test]
fn unhealthy_allocs_are_retried_by_their_reschedule_policy() {
    let (mut deployment, job, mut allocs) = case(&[(Some(true), false), (Some(false), false)]);
    let bad = allocs[1].id;
    let found = judge(&deployment, &job, &allocs, false);
    assert!(matches!(found, WatcherAction::Replace(ids) if ids == [bad]));
    allocs[1].transition.reschedule = Some(true);
    assert!(matches!(judge(&deployment, &job, &allocs, false), WatcherAction::Nothing), "it may already");
    let before = model::reschedule::Reschedule {
        at: AT,
        previous_alloc: bad,
        previous_node: node_id(1),
        delay: Span::ZERO,
    };
    allocs[1].reschedules = vec![before];
    let found = judge(&deployment, &job, &allocs, false);
    assert!(matches!(found, WatcherAction::Fail { why: UNHEALTHY, revert: true }), "no attempt is left");
    allocs[1].reschedules = vec![];
    deployment.groups.get_mut("g").expect("is there").progress_deadline = Span::ZERO;
    let found = judge(&deployment, &job, &allocs, false);
    assert!(matches!(found, WatcherAction::Fail { why: UNHEALTHY, .. }), "no time to try again");
}

#[test]
fn system_allocs_are_retried_once_on_their_node() {
    let (deployment, mut job, mut allocs) = case(&[(Some(true), false), (Some(false), false)]);
    (job.spec.job_type, job.spec.groups[0].reschedule) = (JobType::System, None);
    let found = judge(&deployment, &job, &allocs, false);
    assert!(
        matches!(found, WatcherAction::Fail { why: UNHEALTHY, revert: true }),
        "it runs, and its time is over"
    );
    allocs[0].node_id = node_id(2);
    allocs[1].client = ClientStatus::Failed;
    let bad = allocs[1].id;
    let found = judge(&deployment, &job, &allocs, false);
    assert!(matches!(found, WatcherAction::Replace(ids) if ids == [bad]));
    let next = Allocation { id: AllocId::from_random(7), previous: Some(bad), ..allocs[1].clone() };
    allocs[1].next = Some(next.id);
    allocs.push(Allocation { health: None, client: ClientStatus::Running, ..next.clone() });
    assert!(matches!(judge(&deployment, &job, &allocs, false), WatcherAction::Nothing), "it is being tried");
    allocs[2] = next;
    let found = judge(&deployment, &job, &allocs, false);
    assert!(matches!(found, WatcherAction::Fail { why: UNHEALTHY, revert: true }), "twice is enough");
    allocs[2].node_id = node_id(3);
    let found = judge(&deployment, &job, &allocs, false);
    assert!(matches!(found, WatcherAction::Replace(ids) if ids == [allocs[2].id]), "each node has its own");
}

#[test]
fn a_late_group_fails_unless_healthy_or_waiting_for_promotion() {
    let (mut deployment, job, allocs) = case(&[(Some(true), false), (None, false)]);
    assert!(matches!(judge(&deployment, &job, &allocs, false), WatcherAction::Nothing));
    let found = judge(&deployment, &job, &allocs, true);
    assert!(matches!(found, WatcherAction::Fail { why: TOO_SLOW, revert: true }));
    let group = deployment.groups.get_mut("g").expect("is there");
    group.healthy = 2;
    assert!(matches!(judge(&deployment, &job, &allocs, true), WatcherAction::Nothing));
    let group = deployment.groups.get_mut("g").expect("is there");
    (group.healthy, group.desired_canaries) = (1, 1);
    assert!(matches!(judge(&deployment, &job, &allocs, true), WatcherAction::Nothing), "it waits for a user");
}

#[test]
fn a_deployment_that_lost_its_nodes_fails_when_too_slow() {
    let (mut deployment, job, allocs) = case(&[(None, false)]);
    let group = deployment.groups.get_mut("g").expect("is there");
    (group.desired_total, group.placed, group.healthy) = (0, 1, 0);
    assert!(!group.is_in_time(), "its deadline runs");
    let found = judge(&deployment, &job, &allocs, true);
    assert!(matches!(found, WatcherAction::Fail { why: TOO_SLOW, .. }));
    let group = deployment.groups.get_mut("g").expect("is there");
    group.placed = 0;
    assert!(group.is_in_time(), "nothing was ever placed");
}

#[test]
fn canaries_promote_themselves_once_all_of_them_are_healthy() {
    for (healths, wanted) in [
        (vec![(Some(true), true), (None, true)], false),
        (vec![(Some(true), true), (Some(true), false)], false),
        (vec![(Some(true), true), (Some(true), true)], true),
    ] {
        let (mut deployment, job, allocs) = case(&healths);
        let group = deployment.groups.get_mut("g").expect("is there");
        (group.desired_canaries, group.auto_promote) = (2, true);
        let found = judge(&deployment, &job, &allocs, false);
        assert_eq!(matches!(found, WatcherAction::Promote), wanted, "{healths:?}");
        let group = deployment.groups.get_mut("g").expect("is there");
        group.auto_promote = false;
        assert!(matches!(judge(&deployment, &job, &allocs, false), WatcherAction::Nothing));
    }
}

#[test]
fn progress_deadlines_survive_wrong_clocks() {
    let (deployment, ..) = case(&[]);
    let (now, later) = (Mono(0).after(Span::seconds(1)), Mono(0).after(Span::seconds(601)));
    for (wall, due) in [(AT, later), (Wall(1), later), (AT + Span::hours(9), now)] {
        let mut watcher = DeploymentWatcher::default();
        watcher.apply_change(deployment.id, true);
        watcher.set_deadlines(&deployment, now, wall);
        assert_eq!(watcher.overdue(deployment.id, due).len(), 1);
        assert_eq!(watcher.overdue(deployment.id, Mono(due.0 - 1)).len(), 0);
        watcher.set_deadlines(&deployment, now.after(Span::seconds(5)), wall + Span::hours(1));
        assert_eq!(watcher.overdue(deployment.id, due).len(), 1, "known already");
    }
}

#[test]
fn a_step_that_raft_refuses_is_tried_again_later() {
    let (id, now) = (DeploymentId::from_random(1), Mono(1));
    let mut watcher = DeploymentWatcher::default();
    watcher.apply_change(id, true);
    assert_eq!(watcher.take(now), [id]);
    watcher.in_flight.insert(id);
    watcher.proposal_refused(id, now);
    let again = now.after(RETRY_AFTER);
    assert_eq!((watcher.has_work(), watcher.next_deadline()), (false, Some(again)));
    assert_eq!((watcher.take(now), watcher.take(again)), (vec![], vec![id]));
}

#[test]
fn a_refused_step_takes_the_place_of_its_deadline() {
    let (one, ..) = case(&[]);
    let two = Deployment { id: DeploymentId::from_random(2), ..one.clone() };
    let now = Mono(1);
    let mut watcher = DeploymentWatcher::default();
    for deployment in [&one, &two] {
        watcher.apply_change(deployment.id, true);
        watcher.set_deadlines(deployment, now, AT);
    }
    watcher.in_flight.insert(one.id);
    watcher.proposal_refused(one.id, now);
    // another one has news before the first is looked at again
    watcher.set_deadlines(&two, now, AT);
    let again = now.after(RETRY_AFTER);
    assert_eq!(watcher.next_deadline(), Some(again));
    watcher.take(again);
    watcher.set_deadlines(&one, again, AT);
    assert_eq!(watcher.overdue(one.id, now.after(Span::minutes(10))).len(), 1, "its deadline is kept");
}
