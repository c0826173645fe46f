//! While a deployment holds its version back: what is replaced all the same, by what, and what is still unreplaced.

use super::rolling::{canary, deployment, group_of, next_version, with_update};
use super::*;
use model::alloc::Leave;
use model::deployment::DeploymentStatus as S;

/// A new version whose deployment is held: paused, failed, or with a canary on trial.
fn held(how: S) -> (Job, Job, Deployment, Vec<Allocation>) {
    let old = with_update(2, 1, 1);
    let new = next_version(&old);
    let mut deployment = Deployment { status: how, ..deployment(&new, 2) };
    group_of(&mut deployment).desired_canaries = 1;
    let mut allocs = running(&old, &[0, 1]);
    if how == S::Running {
        allocs.push(canary(&new, 0, &mut deployment, None));
    }
    (old, new, deployment, allocs)
}

const HELD: [S; 3] = [S::Running, S::Paused, S::Failed];

#[test]
fn lost_and_migrating_allocations_keep_their_version() {
    for how in HELD {
        let (_, new, deployment, mut allocs) = held(how);
        allocs[0].node_id = node_id(9);
        (allocs[1].node_id, allocs[1].transition.migrate) = (node_id(7), Some(Leave::AtOnce));
        let case = Case::rolling(&new, Some(&deployment));
        let changes = case.changes(&allocs);
        let replaced: Vec<_> = changes.replacements.iter().map(|r| (r.alloc.id, r.keeps_version)).collect();
        assert_eq!(replaced, [(allocs[0].id, true), (allocs[1].id, true)], "{how:?}");
        assert!(changes.missing.is_empty() && changes.destructive.is_empty(), "{how:?}");
    }
}

#[test]
fn an_unplaced_replacement_is_placed_by_any_later_eval() {
    for how in HELD {
        let (_, new, deployment, mut allocs) = held(how);
        (allocs[1].desired, allocs[1].client) = (D::Stop, C::Lost);
        allocs[1].desired_description = LOST.into();
        let case = Case::rolling(&new, Some(&deployment));
        let changes = case.changes(&allocs);
        assert_eq!(names_of(&changes.replacements), ["[1]"], "{how:?}");
        let mut replaced = allocs.clone();
        replaced[1].next = Some(alloc_id(99));
        assert!(case.changes(&replaced).replacements.is_empty(), "{how:?}: it has a successor");
        let mut unwanted = allocs.clone();
        unwanted[1].desired_description = NOT_NEEDED.into();
        assert!(case.changes(&unwanted).replacements.is_empty(), "{how:?}: nobody missed it");
        let mut ancient = allocs.clone();
        ancient[0].job_version += 1;
        assert!(case.changes(&ancient).replacements.is_empty(), "{how:?}: older than what is left");
    }
}

#[test]
fn replacements_are_of_the_newest_version() {
    let old = with_update(2, 1, 0);
    let new = next_version(&old);
    let deployment = deployment(&new, 2);
    let mut allocs = running(&old, &[0, 1]);
    allocs[0].node_id = node_id(9);
    let case = Case::rolling(&new, Some(&deployment));
    let changes = case.changes(&allocs);
    assert!(changes.replacements.iter().all(|r| !r.keeps_version) && changes.replacements.len() == 1);
}

#[test]
fn canaries_of_any_deployment_before_are_stopped() {
    let (_, new, mut first, mut allocs) = held(S::Running);
    first.status = S::Cancelled;
    let newest = next_version(&new);
    let second = Deployment { id: DeploymentId::from_random(9), ..deployment(&newest, 2) };
    let case = Case::rolling(&newest, Some(&second));
    let changes = case.changes(&allocs);
    let stopped: Vec<_> = changes.stops.iter().map(|s| s.alloc.id).collect();
    assert_eq!(stopped, [allocs[2].id], "though nothing names it any more");
    allocs[2].client = C::Failed;
    assert_eq!(case.changes(&allocs).stops.len(), 1, "a failed one, too");
}

#[test]
fn a_failed_canary_counts_until_it_is_replaced() {
    let (_, mut new, deployment, mut allocs) = held(S::Running);
    new.spec.groups[0].reschedule = model::job::ReschedulePolicy::default_for(model::job::JobType::Service);
    let hour = model::time::Span::hours(-1);
    (allocs[2].client, allocs[2].modify_time, allocs[2].create_time) =
        (C::Failed, NOW + hour, NOW + hour + hour);
    let case = Case::rolling(&new, Some(&deployment));
    let changes = case.changes(&allocs);
    assert!(changes.canaries.is_empty() && changes.rescheduled.is_empty() && changes.stops.is_empty());
    allocs[2].transition.reschedule = Some(true);
    let changes = case.changes(&allocs);
    assert_eq!(names_of(&changes.rescheduled), ["[0]"]);
    assert!(changes.canaries.is_empty() && changes.stops.is_empty());
}

#[test]
fn the_newest_version_of_a_duplicate_name_stays() {
    let old = with_update(2, 1, 0);
    let new = next_version(&old);
    let mut allocs = running(&old, &[0, 1]);
    allocs.push(alloc(&new, 0, 50));
    let case = Case::rolling(&new, None);
    let stopped: Vec<_> = case.changes(&allocs).stops.iter().map(|s| s.alloc.id).collect();
    assert_eq!(stopped, [allocs[0].id]);
}

#[test]
fn a_group_without_update_does_not_hold_a_deployment() {
    let mut job = with_update(1, 1, 0);
    let mut other = job.spec.groups[0].clone();
    (other.name, other.update) = ("other".into(), None);
    job.spec.groups.push(other);
    let mut deployment = deployment(&job, 1);
    group_of(&mut deployment).healthy = 1;
    let mut allocs = [alloc(&job, 0, 1), alloc(&job, 0, 2)];
    allocs[1].group = "other".into();
    let case = Case::rolling(&job, Some(&deployment));
    let changes = case.changes(&allocs);
    assert_eq!(changes.deployment_updates.iter().map(|u| u.status).collect::<Vec<_>>(), [S::Successful]);
}
