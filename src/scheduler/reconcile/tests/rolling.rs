//! Jobs with an `update` block: canaries, limits, and what becomes of deployments (scheduler.md 8.1, scheduler.md 8.2,
//! scheduler.md 8.5 to scheduler.md 8.9).

use super::*;
use model::alloc::{Health, Leave};
use model::deployment::{DeploymentGroup, DeploymentStatus as S};
use model::job::{HealthCheck, ReschedulePolicy, UpdatePolicy};
use model::time::Span;

pub fn with_update(count: i64, max_parallel: i64, canary: i64) -> Job {
    let mut job = job("a", count);
    job.spec.groups[0].update = Some(UpdatePolicy {
        stagger: Span::seconds(30),
        max_parallel,
        health_check: HealthCheck::TaskStates,
        min_healthy_time: Span::seconds(10),
        healthy_deadline: Span::minutes(5),
        progress_deadline: Span::minutes(10),
        auto_revert: true,
        auto_promote: false,
        canary,
    });
    job
}

pub fn next_version(of: &Job) -> Job {
    Job { version: of.version + 1, job_modify_index: 50, ..of.clone() }
}

/// A deployment of this version, with nothing placed yet.
pub fn deployment(job: &Job, desired_total: u64) -> Deployment {
    let group = DeploymentGroup { desired_total, ..DeploymentGroup::default() };
    Deployment {
        id: DeploymentId::from_random(3),
        job: job.spec.key(),
        job_create_index: job.create_index,
        job_version: job.version,
        job_modify_index: job.job_modify_index,
        groups: [("g".to_string(), group)].into(),
        status: S::Running,
        status_description: String::new(),
        priority: 50,
        create_time: Wall::NEVER,
        modify_time: Wall::NEVER,
        create_index: 0,
        modify_index: 0,
    }
}

pub fn group_of(deployment: &mut Deployment) -> &mut DeploymentGroup {
    deployment.groups.get_mut("g").expect("the group is there")
}

/// An allocation of the deployment with that health.
fn deployed(job: &Job, index: u64, of: &Deployment, healthy: Option<bool>) -> Allocation {
    let mut a = alloc(job, index, u128::from(index) + 20);
    (a.deployment, a.health) = (Some(of.id), Some(Health { healthy, ..Health::default() }));
    a
}

pub fn canary(job: &Job, index: u64, of: &mut Deployment, healthy: Option<bool>) -> Allocation {
    let mut a = deployed(job, index, of, healthy);
    a.health = a.health.map(|h| Health { canary: true, ..h });
    group_of(of).placed_canaries.push(a.id);
    a
}

fn updates(changes: &Changes) -> Vec<(S, String)> {
    changes.deployment_updates.iter().map(|u| (u.status, u.description.clone())).collect()
}

#[test]
fn r8_1_2_an_outdated_deployment_is_cancelled() {
    let old = with_update(1, 1, 0);
    let new = next_version(&old);
    let mut stopped = new.clone();
    stopped.spec.stop = true;
    let again = Job { create_index: 77, ..old.clone() };
    let cases = [
        (&new, "Cancelled due to newer version of job"),
        (&again, "Cancelled due to newer version of job"),
        (&stopped, "Cancelled because job is stopped"),
    ];
    for (job, why) in cases {
        for (status, cancelled) in [(S::Running, true), (S::Paused, true), (S::Failed, false)] {
            let deployment = Deployment { status, ..deployment(&old, 1) };
            let case = Case::rolling(job, Some(&deployment));
            let want = if cancelled { vec![(S::Cancelled, why.to_string())] } else { vec![] };
            assert_eq!(updates(&case.changes(&[])), want, "{status:?}");
        }
    }
    let deployment = deployment(&old, 1);
    let purged = Case { job: None, ..Case::rolling(&old, Some(&deployment)) };
    assert_eq!(updates(&purged.changes(&[]))[0].1, "Cancelled because job is stopped");
}

#[test]
fn r8_1_6_a_deployment_is_successful_when_every_group_is_done() {
    let job = with_update(2, 1, 0);
    let mut deployment = deployment(&job, 2);
    let allocs = [deployed(&job, 0, &deployment, Some(true)), deployed(&job, 1, &deployment, Some(true))];
    for (healthy, done) in [(1, false), (2, true)] {
        group_of(&mut deployment).healthy = healthy;
        let case = Case::rolling(&job, Some(&deployment));
        let want = (S::Successful, "Deployment completed successfully".to_string());
        assert_eq!(updates(&case.changes(&allocs)), if done { vec![want] } else { vec![] });
    }
    group_of(&mut deployment).desired_canaries = 1;
    assert!(updates(&Case::rolling(&job, Some(&deployment)).changes(&allocs)).is_empty(), "not promoted");
    group_of(&mut deployment).promoted = true;
    assert_eq!(updates(&Case::rolling(&job, Some(&deployment)).changes(&allocs)).len(), 1);
    assert!(
        updates(&Case::rolling(&job, Some(&deployment)).changes(&allocs[..1])).is_empty(),
        "one is missing"
    );
    deployment.status = S::Successful;
    assert!(
        updates(&Case::rolling(&job, Some(&deployment)).changes(&allocs)).is_empty(),
        "it is done already"
    );
}

#[test]
fn r8_6_the_rolling_limit() {
    let old = with_update(6, 2, 0);
    let new = next_version(&old);
    let of_old = |from: u64| -> Vec<Allocation> { (from..6).map(|i| alloc(&old, i, i.into())).collect() };
    let none = Case::rolling(&new, None);
    assert_eq!(
        names_of(&none.changes(&of_old(0)).destructive),
        strings(&["[0]", "[1]"]),
        "no deployment yet"
    );

    let healths: [(&str, &[Option<bool>], usize); 6] = [
        ("two not yet healthy", &[None, None], 0),
        ("one of them healthy", &[None, Some(true)], 1),
        ("both", &[Some(true), Some(true)], 2),
        ("one unhealthy", &[Some(false), Some(true)], 0),
        ("unhealthy and unknown", &[Some(false), None], 0),
        ("more undecided than may be", &[None, None, None], 0),
    ];
    for (name, healths, want) in healths {
        let deployment = deployment(&new, 6);
        let new_ones = healths.iter().enumerate().map(|(i, h)| deployed(&new, i as u64, &deployment, *h));
        let allocs: Vec<_> = new_ones.chain(of_old(healths.len() as u64)).collect();
        let case = Case::rolling(&new, Some(&deployment));
        assert_eq!(case.changes(&allocs).destructive.len(), want, "{name}");
    }
    for (status, want) in [(S::Running, 2), (S::Paused, 0), (S::Failed, 0)] {
        let deployment = Deployment { status, ..deployment(&new, 6) };
        let case = Case::rolling(&new, Some(&deployment));
        assert_eq!(case.changes(&of_old(0)).destructive.len(), want, "{status:?}");
    }
}

#[test]
fn r8_6_without_a_rolling_update_all_are_replaced_at_once() {
    let mut old = with_update(3, 0, 0);
    for update in [old.spec.groups[0].update, None] {
        old.spec.groups[0].update = update;
        let new = next_version(&old);
        let allocs = running(&old, &[0, 1, 2]);
        let case = Case::rolling(&new, None);
        let changes = case.changes(&allocs);
        assert_eq!((changes.destructive.len(), changes.deployment.is_none()), (3, true));
    }
    let old = with_update(3, 1, 0);
    let new = next_version(&old);
    let allocs = running(&old, &[0, 1, 2]);
    let case = Case { batch: true, ..Case::rolling(&new, None) };
    let changes = case.changes(&allocs);
    assert_eq!((changes.destructive.len(), changes.deployment.is_none()), (3, true), "a batch job");
}

#[test]
fn r8_2_15_canaries_are_placed_beside_the_old_ones() {
    let old = with_update(3, 1, 2);
    let new = next_version(&old);
    let allocs = running(&old, &[0, 1, 2]);
    let case = Case::rolling(&new, None);
    let changes = case.changes(&allocs);
    assert_eq!(changes.canaries.iter().map(|(_, n)| n.clone()).collect::<Vec<_>>(), [vec![0, 1]]);
    assert!(changes.destructive.is_empty() && changes.stops.is_empty() && changes.missing.is_empty());
    let created = changes.deployment.expect("there is a deployment");
    assert_eq!(created.status_description, "Deployment is running but requires manual promotion");
    assert_eq!((created.groups["g"].desired_canaries, created.groups["g"].desired_total), (2, 3));

    let mut deployment = created;
    let mut all = allocs.clone();
    all.push(canary(&new, 0, &mut deployment, None));
    for (status, more) in [(S::Running, vec![vec![1]]), (S::Paused, vec![]), (S::Failed, vec![])] {
        deployment.status = status;
        let case = Case::rolling(&new, Some(&deployment));
        let changes = case.changes(&all);
        assert_eq!(changes.canaries.iter().map(|(_, n)| n.clone()).collect::<Vec<_>>(), more, "{status:?}");
    }
    deployment.status = S::Running;
    all.push(canary(&new, 1, &mut deployment, Some(true)));
    let case = Case::rolling(&new, Some(&deployment));
    let changes = case.changes(&all);
    assert!(
        changes.canaries.is_empty() && changes.destructive.is_empty() && changes.stops.is_empty(),
        "they wait"
    );
}

#[test]
fn r8_2_15_canaries_are_placed_without_old_allocs() {
    let old = with_update(1, 1, 1);
    let new = next_version(&old);
    let mut deployment = deployment(&new, 1);
    group_of(&mut deployment).desired_canaries = 1;
    let mut lost = alloc(&old, 0, 1);
    (lost.desired, lost.client) = (D::Stop, C::Lost);
    for allocs in [vec![lost], vec![]] {
        let case = Case::rolling(&new, Some(&deployment));
        let placed: Vec<_> = case.changes(&allocs).canaries.iter().map(|(_, n)| n.clone()).collect();
        assert_eq!(placed, [vec![0]]);
    }
    let (there, case) = (canary(&new, 0, &mut deployment, None), Case::rolling(&new, Some(&deployment)));
    assert!(case.changes(&[there]).canaries.is_empty());
}

#[test]
fn r8_1_6_a_deployment_that_promotes_itself_says_so() {
    let mut old = with_update(1, 1, 1);
    old.spec.groups[0].update.as_mut().expect("it has one").auto_promote = true;
    let new = next_version(&old);
    let allocs = running(&old, &[0]);
    let case = Case::rolling(&new, None);
    let created = case.changes(&allocs).deployment.expect("there is a deployment");
    assert_eq!(created.status_description, "Deployment is running pending automatic promotion");
}

#[test]
fn r8_2_4_canaries_of_no_deployment_are_stopped() {
    let old = with_update(1, 1, 1);
    let new = next_version(&old);
    let newest = next_version(&new);
    let mut of_new = deployment(&new, 1);
    group_of(&mut of_new).desired_canaries = 1;
    let allocs = [alloc(&old, 0, 1), canary(&new, 0, &mut of_new, Some(true))];
    let stops = |job: &Job, deployment: &Deployment| {
        let case = Case::rolling(job, Some(deployment));
        stopped(&case.changes(&allocs), NOT_NEEDED)
    };
    assert_eq!(stops(&newest, &of_new), strings(&["[0]"]), "of a deployment before");
    assert!(stops(&new, &of_new).is_empty(), "on trial");
    let failed = Deployment { status: S::Failed, ..of_new.clone() };
    assert_eq!(stops(&new, &failed), strings(&["[0]"]), "of one that has failed");
    group_of(&mut of_new).promoted = true;
    let case = Case::rolling(&newest, Some(&of_new));
    let changes = case.changes(&allocs);
    assert!(changes.stops.iter().all(|s| s.alloc.id == allocs[0].id), "promoted: one of the group");
}

#[test]
fn r8_2_4_canaries_leave_their_nodes_without_being_counted() {
    let old = with_update(1, 1, 1);
    let new = next_version(&old);
    for (node, description) in [(9, LOST), (7, MIGRATING)] {
        let mut deployment = deployment(&new, 1);
        group_of(&mut deployment).desired_canaries = 1;
        let mut allocs = [alloc(&old, 0, 1), canary(&new, 0, &mut deployment, None)];
        (allocs[1].node_id, allocs[1].transition.migrate) = (node_id(node), Some(Leave::AtOnce));
        if node == 9 {
            allocs[1].transition.migrate = None;
        }
        let case = Case::rolling(&new, Some(&deployment));
        let changes = case.changes(&allocs);
        assert_eq!(stopped(&changes, description), strings(&["[0]"]));
        assert_eq!(changes.canaries.len(), 1, "another one is tried");
        assert!(changes.replacements.is_empty());
    }
}

#[test]
fn r8_5_2_canaries_on_trial_are_no_surplus() {
    let old = with_update(2, 1, 1);
    let new = next_version(&old);
    let mut deployment = deployment(&new, 2);
    group_of(&mut deployment).desired_canaries = 1;
    let mut allocs = running(&old, &[0, 1]);
    allocs.push(canary(&new, 0, &mut deployment, Some(true)));
    let case = Case::rolling(&new, Some(&deployment));
    assert!(case.changes(&allocs).stops.is_empty());
}

#[test]
fn r8_5_3a_a_promoted_canary_replaces_its_namesake() {
    let old = with_update(3, 1, 1);
    let new = next_version(&old);
    let mut deployment = deployment(&new, 3);
    let mut allocs = running(&old, &[0, 1, 2]);
    allocs.push(canary(&new, 0, &mut deployment, Some(true)));
    (group_of(&mut deployment).desired_canaries, group_of(&mut deployment).promoted) = (1, true);
    let case = Case::rolling(&new, Some(&deployment));
    let changes = case.changes(&allocs);
    let stops: Vec<_> = changes.stops.iter().map(|s| s.alloc.id).collect();
    assert_eq!(stops, [allocs[0].id]);
    assert_eq!(names_of(&changes.destructive), strings(&["[1]"]), "and the update goes on");
}

/// Were the failed one stopped first, the count would be right, and two would run under one name for good.
#[test]
fn r8_5_3a_replaced_allocs_stop_before_failed_ones() {
    let old = with_update(2, 1, 1);
    let new = next_version(&old);
    let mut deployment = deployment(&new, 2);
    let mut allocs = running(&old, &[0, 1]);
    allocs[1].client = C::Failed;
    allocs.push(canary(&new, 0, &mut deployment, Some(true)));
    (group_of(&mut deployment).desired_canaries, group_of(&mut deployment).promoted) = (1, true);
    let case = Case::rolling(&new, Some(&deployment));
    let changes = case.changes(&allocs);
    let stops: Vec<_> = changes.stops.iter().map(|s| s.alloc.id).collect();
    assert_eq!(stops, [allocs[0].id]);
}

#[test]
fn r8_5_3_older_versions_stop_before_failed_allocs() {
    let old = with_update(2, 1, 0);
    let new = next_version(&old);
    let mut allocs = running(&old, &[0, 1]);
    allocs[1].client = C::Failed;
    allocs.extend(running(&new, &[0]).into_iter().map(|a| Allocation { id: alloc_id(90), ..a }));
    let case = Case::rolling(&new, None);
    let changes = case.changes(&allocs);
    let stops: Vec<_> = changes.stops.iter().map(|s| s.alloc.id).collect();
    assert_eq!(stops, [allocs[0].id]);
}

#[test]
fn r8_5_3b_migrating_allocs_with_highest_names_stop() {
    let job = job("a", 2);
    let mut allocs = running(&job, &[0, 1, 2]);
    for i in [0, 1] {
        (allocs[i].node_id, allocs[i].transition.migrate) = (node_id(7), Some(Leave::AtOnce));
    }
    let case = Case::of(&job);
    let changes = case.changes(&allocs);
    assert_eq!(stopped(&changes, NOT_NEEDED), strings(&["[1]"]));
    assert_eq!(stopped(&changes, MIGRATING), strings(&["[0]"]));
}

#[test]
fn r8_2_20_migrations_are_not_limited() {
    let job = with_update(3, 1, 0);
    let mut allocs = running(&job, &[0, 1, 2]);
    for a in &mut allocs {
        (a.node_id, a.transition.migrate) = (node_id(7), Some(Leave::AtOnce));
    }
    let case = Case::rolling(&job, None);
    let changes = case.changes(&allocs);
    assert_eq!(stopped(&changes, MIGRATING), strings(&["[0]", "[1]", "[2]"]));
    assert_eq!(names_of(&changes.replacements), strings(&["[0]", "[1]", "[2]"]));
    assert!(changes.missing.is_empty());
}

#[test]
fn r8_8_placements_use_up_the_limit() {
    let old = with_update(4, 3, 0);
    let new = next_version(&old);
    let deployment = deployment(&new, 4);
    let mut allocs = running(&old, &[0, 1, 2, 3]);
    allocs[3].node_id = node_id(9);
    let case = Case::rolling(&new, Some(&deployment));
    let changes = case.changes(&allocs);
    assert_eq!(names_of(&changes.replacements), strings(&["[3]"]));
    assert_eq!(names_of(&changes.destructive), strings(&["[0]", "[1]"]));
}

#[test]
fn r8_8_a_held_deployment_replaces_only_lost_and_failed() {
    let mut job = with_update(4, 2, 0);
    job.spec.groups[0].reschedule = ReschedulePolicy::default_for(job.spec.job_type);
    for status in [S::Paused, S::Failed] {
        let deployment = Deployment { status, ..deployment(&job, 4) };
        let mut allocs = running(&job, &[0, 1, 2]);
        allocs[0].node_id = node_id(9);
        (allocs[1].client, allocs[1].modify_time) = (C::Failed, NOW + Span::hours(-1));
        allocs[1].create_time = NOW + Span::hours(-2);
        (allocs[2].client, allocs[2].modify_time) = (C::Failed, NOW + Span::hours(-1));
        (allocs[2].create_time, allocs[2].deployment) = (NOW + Span::hours(-2), Some(deployment.id));
        allocs[2].transition.reschedule = Some(true);
        let case = Case::rolling(&job, Some(&deployment));
        let changes = case.changes(&allocs);
        assert_eq!(names_of(&changes.replacements), strings(&["[0]"]), "{status:?}");
        assert_eq!(names_of(&changes.rescheduled), strings(&["[1]"]), "{status:?}: not what failed with it");
        assert!(changes.missing.is_empty(), "{status:?}");
    }
}

#[test]
fn r8_9_when_a_deployment_is_created() {
    let old = with_update(2, 1, 0);
    let new = next_version(&old);
    let created = |job: &Job, allocs: &[Allocation], older: Update| {
        let case = Case::rolling(job, None);
        case.changes_with(allocs, older).deployment.map(|d| d.groups["g"].desired_total)
    };
    let of_old = running(&old, &[0, 1]);
    assert_eq!(created(&old, &[], Update::Ignore), Some(2), "the first registration");
    assert_eq!(created(&new, &of_old, Update::Destructive), Some(2), "a change of the spec");
    assert_eq!(created(&new, &of_old, Update::InPlace), Some(2), "in place, too");
    assert_eq!(created(&old, &of_old, Update::Ignore), None, "nothing to do");
    assert_eq!(created(&old, &of_old[..1], Update::Ignore), None, "one of the same version is missing");
    let mut more = next_version(&old);
    more.spec.groups[0].count = 4;
    assert_eq!(
        created(&more, &of_old, Update::InPlace),
        Some(4),
        "a count alone: the others follow in place"
    );
    let none = with_update(0, 1, 0);
    let case = Case::rolling(&none, None);
    assert!(case.changes(&[]).deployment.is_none(), "nothing is wanted");
    let deployment = deployment(&new, 2);
    let case = Case::rolling(&new, Some(&deployment));
    assert!(case.changes(&of_old).deployment.is_none(), "there is one");
}

#[test]
fn r8_9_a_new_deployment_names_its_job_and_version() {
    let job = with_update(2, 1, 0);
    let case = Case::rolling(&job, None);
    let made = case.changes(&[]).deployment.expect("there is a deployment");
    assert_eq!((made.id, made.status), (case.deployments.new_id, S::Running));
    assert_eq!((made.job_create_index, made.job_version), (job.create_index, job.version));
    assert_eq!(made.status_description, "Deployment is running");
    let group = &made.groups["g"];
    assert!(group.auto_revert && !group.auto_promote && group.progress_deadline == Span::minutes(10));
}
