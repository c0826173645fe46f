//! What is broken of allocations and deployments.

use super::super::checks::{UPDATED, no_claim_has_two_holders};
use super::super::node_room::{Capacities, no_node_is_over_committed, none_is_on_a_down_node};
use super::super::rollouts::{all_have_ended, no_name_lives_twice, takes_no_more_than_it_may, update};
use super::super::tracked::TrackedState;
use super::super::world::World;
use super::{SERVER, is_found};
use model::alloc::{Allocation, DesiredStatus, Health, alloc_name};
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::id::NodeId;
use model::job::{Job, JobSpec, UpdatePolicy};
use model::random::Stream;
use model::time::{Span, Wall};
use state::samples::{self, AT, Region as Sample, alloc, alloc_id, eval_id, node_id, place, register, spec};
use std::sync::Arc;
use wire::command::Command;

/// With a node and a job that rolls one at a time.
fn region() -> (Sample, Job) {
    let mut region = Sample::default();
    region.ready_node(1);
    let mut web: JobSpec = spec("web", 2);
    let rolls = UpdatePolicy { max_parallel: 1, canary: 0, ..update(&mut Stream::new(1, 1)) };
    web.groups.iter_mut().for_each(|group| group.update = Some(rolls));
    region.run(&register(web, None));
    let job = region.job("web");
    (region, job)
}

fn tracked(allocs: Vec<Allocation>) -> TrackedState {
    let mut state = TrackedState::default();
    state.allocs.extend(allocs.into_iter().map(|a| (a.id, Arc::new(a))));
    state
}

/// The allocation `n` of the group, with a name of its own.
fn named(n: u128, job: &Job) -> Allocation {
    let name = alloc_name(&job.spec.id, "g", n as u64);
    Allocation { name, ..alloc(n, job, node_id(1), eval_id(1)) }
}

fn deployment(job: &Job, status: DeploymentStatus) -> Deployment {
    Deployment { status, ..samples::deployment(1, job, DeploymentGroup::default()) }
}

#[test]
fn a_node_that_is_promised_too_much_is_found() {
    let (region, job) = region();
    let most = |cpu_mhz: i64| {
        let of_node = region.view().node(node_id(1)).expect("reads").expect("is registered").available();
        Capacities::from([(node_id(1), model::resources::Amount { cpu_mhz, ..of_node })])
    };
    let over = |cpu: i64, node: NodeId| {
        let mut all = vec![named(1, &job), Allocation { node_id: node, ..named(2, &job) }];
        all.iter_mut().flat_map(|a| a.resources.tasks.values_mut()).for_each(|t| t.cpu_mhz = cpu);
        no_node_is_over_committed(&region.view(), &tracked(all), &most(4_000))
    };
    assert_eq!(over(2_000, node_id(1)), Ok(()));
    is_found(over(2_001, node_id(1)), "node node-1 is over-committed in cpu");
    assert_eq!(over(2_001, node_id(2)), Ok(()), "the other one is elsewhere");
}

/// And what servers were told of a node later counts only where it is more.
#[test]
fn the_most_that_a_node_was_known_to_have_counts() {
    let (mut region, _) = region();
    let mut world = World::new(1, 1, 1, false);
    let mut known = |cpu_mhz: i64| {
        let mut info = samples::info(1);
        info.capacity.cpu_mhz = cpu_mhz;
        region.run(&Command::RegisterNode { info: Box::new(info), evals: vec![], at: AT });
        world.regions[0].note_capacities(&region.view()).expect("reads");
        world.regions[0].capacities[&node_id(1)].cpu_mhz
    };
    assert_eq!([4_000, 5_000, 4_500].map(&mut known), [4_000, 5_000, 5_000]);
}

#[test]
fn an_alloc_that_stays_on_a_node_that_is_down_is_found() {
    let (mut region, job) = region();
    let alloc = named(1, &job);
    let (eval, deployment) = (eval_id(1), None);
    let nodes = place(vec![alloc]);
    region.run(&Command::ApplyPlan { eval, nodes, deployment, updates: vec![], evals: vec![], at: AT });
    assert_eq!(none_is_on_a_down_node(&region.view()), Ok(()));
    let (node, status) = (node_id(1), model::node::NodeStatus::Down);
    region.run(&Command::UpdateNodeStatus { node, status, event: None, evals: vec![], at: AT });
    is_found(none_is_on_a_down_node(&region.view()), "which is down");
}

#[test]
fn what_two_allocations_hold_is_found() {
    let (_, job) = region();
    let held = |cores: [u16; 2], node: NodeId| {
        let mut all = [named(1, &job), Allocation { node_id: node, ..named(2, &job) }];
        for (alloc, core) in all.iter_mut().zip(cores) {
            alloc.resources.tasks.values_mut().for_each(|t| t.held.cores = vec![core]);
        }
        no_claim_has_two_holders(&tracked(all.to_vec()))
    };
    assert_eq!(held([1, 2], node_id(1)), Ok(()));
    assert_eq!(held([1, 1], node_id(2)), Ok(()), "on two nodes");
    is_found(held([1, 1], node_id(1)), "Core(1) is held by");
}

#[test]
fn a_name_that_lives_twice_is_found() {
    let (region, job) = region();
    let all = |other: Allocation| tracked(vec![named(1, &job), other]);
    let view = region.view();
    assert_eq!(no_name_lives_twice(&view, &all(named(2, &job))), Ok(()));
    let twin = Allocation { name: named(1, &job).name, ..named(2, &job) };
    is_found(no_name_lives_twice(&view, &all(twin.clone())), "lives twice");
    let stopped = Allocation { desired: DesiredStatus::Stop, ..twin.clone() };
    assert_eq!(no_name_lives_twice(&view, &all(stopped)), Ok(()));
    let mut world = World::new(1, 1, 1, false);
    assert_eq!(world.check_deployments(SERVER, &view), Ok(()));
    world.regions[0].tracked = all(twin);
    is_found(world.check_deployments(SERVER, &view), "lives twice");
}

#[test]
fn a_deployment_that_takes_more_than_it_may_is_found() {
    let (region, job) = region();
    let active = deployment(&job, DeploymentStatus::Running);
    let replaced = |n: u128| {
        let old = named(n, &job);
        let desired_description = UPDATED.to_string();
        let new = Allocation { previous: Some(old.id), deployment: Some(active.id), ..named(n + 10, &job) };
        [Allocation { desired: DesiredStatus::Stop, desired_description, ..old }, new]
    };
    let view = region.view();
    let one = tracked(replaced(1).to_vec());
    let mut two = tracked([replaced(1), replaced(2)].concat());
    assert_eq!(takes_no_more_than_it_may(&view, &active, &one), Ok(()));
    is_found(takes_no_more_than_it_may(&view, &active, &two), "updates 2 at once, 1 are allowed");
    two.deployments.insert(active.id, Arc::new(active.clone()));
    let mut world = World::new(1, 1, 1, false);
    world.regions[0].tracked = two;
    is_found(world.check_deployments(SERVER, &view), "updates 2 at once, 1 are allowed");
}

/// With this deployment and one canary of it.
fn with_canary(status: DeploymentStatus, canary: bool) -> Sample {
    let (mut region, job) = region();
    let deployment = deployment(&job, status);
    let health = Health { healthy: None, at: AT, canary, modify_index: 1 };
    let alloc = Allocation { deployment: Some(deployment.id), health: Some(health), ..named(1, &job) };
    region.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes: place(vec![alloc]),
        deployment: Some(Box::new(deployment)),
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    region
}

#[test]
fn a_deployment_or_a_canary_that_never_ends_is_found() {
    let later: Wall = AT + Span::hours(1);
    let ended = |status, canary, settled| all_have_ended(&with_canary(status, canary).view(), settled, later);
    is_found(ended(DeploymentStatus::Running, false, later), "nothing ends");
    assert_eq!(ended(DeploymentStatus::Running, false, AT + Span(-1)), Ok(()), "it has begun just now");
    assert_eq!(ended(DeploymentStatus::Failed, false, later), Ok(()));
    is_found(ended(DeploymentStatus::Failed, true, later), "still tried for");
}

#[test]
fn who_makes_way_for_nobody_is_found() {
    let (region, job) = region();
    let mut world = World::new(1, 1, 1, false);
    let with = |desired| Allocation { desired, ..named(1, &job) };
    let view = region.view();
    assert_eq!(world.check_preempted(0, &view, &with(DesiredStatus::Run), &[]), Ok(()));
    is_found(world.check_preempted(0, &view, &with(DesiredStatus::Evict), &[]), "made way for nobody");
    assert!(world.regions[0].evicted.contains(&alloc_id(1)));
}
