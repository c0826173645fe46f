//! What is broken of jobs: what users were told of them, what they want, their launches, and what waits for room.

use super::super::checks::is_on_every_node;
use super::super::job_specs::{batch_job, service_job};
use super::super::ledger::WrittenJob;
use super::super::tracked::TrackedState;
use super::super::users::HOME_REGION;
use super::super::world::World;
use super::{SERVER, calm, is_found, register, run_for, view};
use model::alloc::{Allocation, ClientStatus, Health};
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::{EvalStatus, Evaluation, Trigger};
use model::id::JobKey;
use model::job::{Job, JobSpec, JobType};
use model::periodic::Periodic;
use model::time::Span;
use state::samples::{AT, Region as Sample, alloc, eval, eval_id, key, node_id, place, spec};
use std::sync::Arc;
use wire::command::{Command, NodeUpdateRequest};

fn nobody() -> World {
    World::new(1, 1, 1, false)
}

/// A state with a node, a job and so many allocations of it.
fn with_allocs(spec: JobSpec, count: u128) -> (Sample, Job) {
    let mut region = Sample::default();
    region.ready_node(1);
    let id = spec.id.clone();
    region.run(&state::samples::register(spec, None));
    let job = region.job(&id);
    let nodes = place((1..=count).map(|n| alloc(n, &job, node_id(1), eval_id(1))).collect());
    let (eval, deployment) = (eval_id(1), None);
    region.run(&Command::ApplyPlan { eval, nodes, deployment, updates: vec![], evals: vec![], at: AT });
    (region, job)
}

#[test]
fn a_job_that_is_not_as_users_were_told_is_found() {
    let mut world = nobody();
    let (region, job) = with_allocs(spec("web", 1), 0);
    let mut tell = |token, written| {
        world.ledger.asked(token, key("web"), written);
        world.ledger.acknowledge(token, world.now);
        world.acknowledged_is_there(&region.view())
    };
    let other = JobSpec { priority: 7, ..job.spec.clone() };
    assert_eq!(tell(1, WrittenJob::Spec(Box::new(job.spec.clone()))), Ok(()));
    is_found(tell(2, WrittenJob::Spec(Box::new(other))), "is none of the 1 things");
    is_found(tell(3, WrittenJob::Stopped), "is none of the 1 things");
    is_found(tell(4, WrittenJob::Absent), "is none of the 1 things");
    let nothing = Sample::default();
    assert_eq!(world.acknowledged_is_there(&nothing.view()), Ok(()));
    world.ledger.asked(5, key("web"), WrittenJob::Spec(Box::new(job.spec)));
    world.ledger.acknowledge(5, world.now);
    is_found(world.acknowledged_is_there(&nothing.view()), "is none of the 1 things");
}

#[test]
fn a_job_with_too_few_or_too_many_is_found() {
    let world = nobody();
    let (region, job) = with_allocs(spec("web", 2), 2);
    let found = |change: fn(&mut JobSpec)| {
        let mut job = job.clone();
        change(&mut job.spec);
        world.job_is_as_wanted(&region.view(), &job)
    };
    assert_eq!(found(|_| ()), Ok(()));
    is_found(found(|spec| spec.groups[0].count = 3), "wants 3 of g, has 2, and nothing waits");
    is_found(found(|spec| spec.groups[0].count = 1), "wants 1 of g, has 2, and nothing waits");
    is_found(found(|spec| spec.stop = true), "is stopped, 2 allocations are not");
    is_found(found(|spec| spec.groups[0].name = "h".into()), "is of a group that is no more");
    is_found(found(|spec| spec.periodic = Some(Periodic::default())), "runs something itself");
}

#[test]
fn a_system_job_that_is_not_on_every_node_is_found() {
    let system = |count| JobSpec { job_type: JobType::System, ..spec("sys", count) };
    let (one, job) = with_allocs(system(1), 1);
    let (none, _) = with_allocs(system(1), 0);
    let (two, _) = with_allocs(system(1), 2);
    let found = |region: &Sample, job: &Job| is_on_every_node(&region.view(), job, AT);
    assert_eq!(found(&one, &job), Ok(()));
    is_found(found(&none, &job), "is 0 times on node node-1");
    is_found(found(&two, &job), "is 2 times on node node-1");
    is_found(nobody().job_is_as_wanted(&none.view(), &job), "is 0 times on node node-1");
    let mut other = job.clone();
    (other.spec.groups[0].name, other.spec.groups[0].count) = ("h".into(), 0);
    is_found(found(&one, &other), "is on a node or of a group that is gone");
}

#[test]
fn a_system_job_waits_only_for_users_who_said_their_last() {
    let mut region = Sample::default();
    for n in 1..=2 {
        region.ready_node(n);
    }
    region.run(&state::samples::register(JobSpec { job_type: JobType::System, ..spec("sys", 1) }, None));
    let job = region.job("sys");
    let group = DeploymentGroup { desired_canaries: 1, ..DeploymentGroup::default() };
    let deployment =
        Deployment { status: DeploymentStatus::Running, ..state::samples::deployment(1, &job, group) };
    let health = Health { healthy: None, at: AT, canary: true, modify_index: 1 };
    let canary = alloc(1, &job, node_id(1), eval_id(1));
    let canary = Allocation { deployment: Some(deployment.id), health: Some(health), ..canary };
    let (eval, nodes, created) = (eval_id(1), place(vec![canary.clone()]), canary.create_time);
    let deployment = Some(Box::new(deployment));
    region.run(&Command::ApplyPlan { eval, nodes, deployment, updates: vec![], evals: vec![], at: AT });
    assert_eq!(is_on_every_node(&region.view(), &job, created + Span(-1)), Ok(()), "nobody promotes it");
    is_found(is_on_every_node(&region.view(), &job, created), "is 0 times on node node-2");
}

fn clock_job() -> JobSpec {
    let specs = vec!["*/20 * * * * * *".to_string()];
    let periodic = Periodic { enabled: true, specs, ..Periodic::default() };
    JobSpec { periodic: Some(periodic), ..batch_job(&JobKey::new("default", "clock"), 1) }
}

fn registered(specs: &[JobSpec]) -> Sample {
    let mut region = Sample::default();
    for spec in specs {
        region.run(&state::samples::register(spec.clone(), None));
    }
    region
}

#[test]
fn a_launch_that_is_lost_or_that_no_time_names_is_found() {
    let mut world = nobody();
    let due = AT + Span::seconds(20);
    let child = JobSpec { parent: "clock".into(), ..spec("clock/periodic-1700000020", 1) };
    let (lost, made) = (registered(&[clock_job()]), registered(&[clock_job(), child]));
    let mut job = made.job("clock");
    assert_eq!(world.check_launch(&made.view(), &job, AT, due), Ok(()));
    is_found(world.check_launch(&lost.view(), &job, AT, due), "is lost");
    let between = AT + Span::seconds(7);
    is_found(world.check_launch(&made.view(), &job, AT, between), "it names no such time");
    is_found(world.check_launch(&made.view(), &job, due + Span::seconds(20), due), "it names no such time");
    job.spec.stop = true;
    is_found(world.check_launch(&made.view(), &job, AT, due), "has no times to launch at");
}

#[test]
fn a_state_that_goes_by_a_launch_is_found() {
    let mut world = nobody();
    let region = registered(&[clock_job()]);
    let launched = region.view().launched(&key("clock")).expect("reads").expect("it has times");
    let job = region.job("clock");
    assert_eq!(world.check_launches(SERVER, &region.view()), Ok(()));
    world.regions[0].launched.insert(key("clock"), (job.job_modify_index, launched + Span::seconds(-20)));
    is_found(world.check_launches(SERVER, &region.view()), "is lost");
}

#[test]
fn a_launch_that_comes_twice_is_found() {
    let mut world = nobody();
    let child = JobSpec { parent: "clock".into(), ..spec("clock/periodic-1", 1) };
    let mut region = Sample::default();
    let mut launch = |n| {
        let by_clock = Evaluation { trigger: Trigger::PeriodicJob, ..eval(n, "clock/periodic-1") };
        region.run(&state::samples::register(child.clone(), Some(by_clock)));
        (region.view(), region.job("clock/periodic-1"))
    };
    let (once, job) = launch(1);
    assert_eq!(world.is_launched_once(&once, &job), Ok(()));
    let (twice, job) = launch(2);
    is_found(world.is_launched_once(&twice, &job), "was launched 2 times by the clock");
    world.forced_launches.insert(1, None);
    assert_eq!(world.is_launched_once(&twice, &job), Ok(()), "somebody may have launched it by hand");
}

#[test]
fn a_launch_that_is_overdue_is_found() {
    let mut world = calm(1);
    let mut hourly = clock_job();
    hourly.periodic = hourly.periodic.map(|p| Periodic { specs: vec!["0 * * * *".into()], ..p });
    register(&mut world, hourly);
    assert_eq!(world.check_launched(), Ok(()));
    assert_eq!(world.check_timed_jobs(SERVER, &view(&world)), Ok(()));
    world.now = world.now.after(Span::hours(2));
    is_found(world.check_launched(), "should have been launched after");
}

#[test]
fn a_leader_that_times_and_drains_other_things_is_found() {
    let mut world = calm(1);
    let mut region = registered(&[clock_job()]);
    assert_eq!(world.check_timed_jobs(SERVER, &view(&world)), Ok(()));
    is_found(world.check_timed_jobs(SERVER, &region.view()), "the leader times {}");
    assert_eq!(world.check_led_drains(SERVER), Ok(()));
    let node = region.ready_node(1);
    let drain =
        NodeUpdateRequest::Drain { deadline: Span::hours(1), ignore_system: false, meta: Default::default() };
    region.run(&Command::UpdateNode { node, request: drain, evals: vec![], at: AT });
    world.regions[HOME_REGION].tracked.nodes = TrackedState::read(&region.view()).expect("reads").nodes;
    is_found(world.check_led_drains(SERVER), "the leader drains {}");
    is_found(world.check_leader(SERVER, &region.view()), "the leader drains {}");
}

#[test]
fn what_waits_at_a_leader_and_could_be_placed_is_found() {
    let mut world = calm(1);
    let mut large = service_job(&key("large"), 1);
    large.groups[0].tasks[0].resources.cpu_mhz = 3_000;
    register(&mut world, large.clone());
    run_for(&mut world, Span::seconds(5));
    let now = view(&world);
    assert_eq!(world.check_blocked(&now), Ok(()), "no node has so much");
    let blocked = now.open_evals().expect("reads").into_iter().find(|e| e.status == EvalStatus::Blocked);
    let mut region = Sample::default();
    region.ready_node(1);
    region.run(&state::samples::register(large, blocked));
    is_found(world.check_blocked(&region.view()), "waits, and could be placed");
}

/// The allocation failed, and its place is to be filled. While the job was stopped it was not, and one look may show that and a new version.
#[test]
fn an_allocation_forgotten_before_its_place_is_filled_is_found() {
    let mut world = nobody();
    let (region, job) = with_allocs(spec("web", 1), 1);
    let mut before = TrackedState::read(&region.view()).expect("reads");
    let failed = |alloc: &Arc<Allocation>| {
        let mut alloc = Allocation::clone(alloc);
        alloc.client = ClientStatus::Failed;
        Arc::new(alloc)
    };
    before.allocs.values_mut().for_each(|alloc| *alloc = failed(alloc));
    world.regions[0].tracked = before.clone();
    world.regions[0].tracked.allocs.clear();
    is_found(world.check_forgotten(0, &before), "was forgotten: it would be placed again");
    let mut stopped = job;
    stopped.spec.stop = true;
    before.jobs.insert(stopped.spec.key(), Arc::new(stopped));
    assert_eq!(world.check_forgotten(0, &before), Ok(()));
}

#[test]
fn what_is_gone_too_early_or_left_too_long_is_found() {
    let mut world = nobody();
    let (region, _) = with_allocs(spec("web", 1), 1);
    let before = TrackedState::read(&region.view()).expect("reads");
    world.regions[0].tracked = before.clone();
    assert_eq!(world.check_forgotten(0, &before), Ok(()));
    world.regions[0].tracked.allocs.clear();
    is_found(world.check_forgotten(0, &before), "was forgotten while it was to run");
    assert_eq!(world.check_collected(&region.view()), Ok(()));
    let mut old = Sample::default();
    let complete = Evaluation { status: EvalStatus::Complete, ..eval(1, "web") };
    old.run(&Command::UpdateEvals { evals: vec![complete], at: AT });
    is_found(world.check_collected(&old.view()), "should have been forgotten");
}
