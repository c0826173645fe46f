//! What is broken of nodes: processes, and what agents tell of them.

use super::super::node_host::End;
use super::super::place::NodeAt;
use super::super::world::World;
use super::{NODE, calm_with_job, is_found, run_spec, view};
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::id::{NodeSecret, RunId};
use model::task::{Exit, ExitStatus};
use model::time::Mono;
use state::samples::{AT, Region as Sample, alloc, alloc_id, eval_id, place, register, report, spec};
use std::collections::BTreeMap;
use wire::command::{AllocUpdate, Command};
use wire::frame::{self, Body, Frame};
use wire::rpc::NodeRequest;

/// One node, on which this runs.
fn world_with(processes: &[(u128, &str)]) -> World {
    let mut world = World::new(1, 1, 1, false);
    world.faults.heal();
    for (run, label) in processes {
        let spec = run_spec(label.to_string(), &["run", "0", "0"]);
        world.spawn(NODE, RunId::from_random(*run), spec);
    }
    world.regions[NODE].processes.values_mut().for_each(|process| process.running = true);
    world
}

#[test]
fn a_task_or_a_run_with_two_processes_is_found() {
    assert_eq!(world_with(&[(1, "a.t"), (2, "b.t")]).check_processes(), Ok(()));
    is_found(world_with(&[(1, "a.t"), (2, "a.t")]).check_processes(), "a.t runs twice on");
    is_found(world_with(&[(1, "a.t"), (1, "b.t")]).check_processes(), "lives twice on");
    let mut waits = world_with(&[(1, "a.t"), (2, "a.t")]);
    waits.regions[NODE].processes.values_mut().for_each(|process| process.running = false);
    assert_eq!(waits.check_processes(), Ok(()), "neither has become its command");
}

#[test]
fn an_end_that_is_reported_while_a_task_runs_is_found() {
    let frame = |client| {
        let request = NodeRequest::Report {
            node: Default::default(),
            secret: NodeSecret::from_random(1),
            seen: 0,
            updates: vec![AllocUpdate { task_states: BTreeMap::new(), ..report(1, client) }],
            verdicts: vec![],
        };
        frame::encode(&Frame { request: 1, body: Body::Request(request) })
    };
    let mut world = world_with(&[(1, &format!("{}.t", alloc_id(1)))]);
    assert_eq!(world.check_report(NODE, &frame(ClientStatus::Running)), Ok(()));
    is_found(world.check_report(NODE, &frame(ClientStatus::Complete)), "as complete while");
    world.regions[NODE].processes.clear();
    assert_eq!(world.check_report(NODE, &frame(ClientStatus::Complete)), Ok(()));
}

/// A state whose node is the world's, with one allocation on it.
fn with_alloc_on(world: &World, n: NodeAt, change: fn(&mut Allocation)) -> Sample {
    let mut region = Sample::default();
    let info = Box::new(world.regions[n].info());
    region.run(&Command::RegisterNode { info, evals: vec![], at: AT });
    region.run(&register(spec("web", 1), None));
    let mut alloc = alloc(1, &region.job("web"), world.regions[n].id(), eval_id(1));
    change(&mut alloc);
    let nodes = place(vec![alloc]);
    let (eval, deployment) = (eval_id(1), None);
    region.run(&Command::ApplyPlan { eval, nodes, deployment, updates: vec![], evals: vec![], at: AT });
    region
}

#[test]
fn what_runs_and_nobody_wants_is_found() {
    let world = calm_with_job();
    let now = view(&world);
    assert_eq!(world.nodes_run_what_is_wanted(&now), Ok(()));
    is_found(world.nodes_run_what_is_wanted(&Sample::default().view()), "and nobody wants it");
    let world = world_with(&[]);
    let stopped = |alloc: &mut Allocation| alloc.desired = DesiredStatus::Stop;
    let left = with_alloc_on(&world, NODE, stopped);
    is_found(world.nodes_run_what_is_wanted(&left.view()), "was stopped and is still pending");
    assert_eq!(world.nodes_run_what_is_wanted(&with_alloc_on(&world, NODE, |_| ()).view()), Ok(()));
}

#[test]
fn a_success_that_nobody_saw_is_found() {
    let mut world = world_with(&[]);
    let mut region = with_alloc_on(&world, NODE, |_| ());
    assert_eq!(world.success_was_seen(0, &region.view()), Ok(()));
    let (node, updates) = (world.regions[NODE].id(), vec![report(1, ClientStatus::Complete)]);
    let seen = region.view().index();
    region.run(&Command::UpdateAllocs { node, seen, updates, verdicts: vec![], evals: vec![], at: AT });
    is_found(world.success_was_seen(0, &region.view()), "nobody saw t succeed");
    let exit = |code| Exit { status: ExitStatus::Code(code), oom_killed: false };
    let label = format!("{}.t", alloc_id(1));
    let end = End { label, exit: exit(1), seen: true, keeper_deaths: 0, told: None, at: Mono(1), boot: 1 };
    for (seen, code, sound) in [(true, 1, false), (false, 0, false), (true, 0, true)] {
        let end = End { seen, exit: exit(code), ..end.clone() };
        world.regions[NODE].ends.insert(RunId::from_random(1), end);
        let found = world.success_was_seen(0, &region.view());
        assert_eq!(found.is_ok(), sound, "seen {seen}, code {code}: {found:?}");
    }
    world.regions[NODE].ends.clear();
    world.regions[0].stopped.insert(alloc_id(1), Mono(1));
    assert_eq!(world.success_was_seen(0, &region.view()), Ok(()), "it was told to end");
}

#[test]
fn a_node_that_is_known_with_less_than_it_has_is_found() {
    let mut world = calm_with_job();
    let seen = view(&world);
    assert_eq!(world.nodes_are_known_as_they_are(&seen), Ok(()));
    world.regions[NODE].traits.capacity.cpu_mhz += 1;
    is_found(world.nodes_are_known_as_they_are(&seen), "is known to have");
}
