//! The checkers, each broken once on purpose: a calm small world in which all is well, one thing planted that must not be, and
//! the checker's own sentence. One that cannot fail proves nothing. Those that look at what only they know are broken beside it.
//!
//! Refuses to know how a brain could come to such a state.

#![cfg(test)]

mod jobs;
mod nodes;
mod states;

use super::place::{NodeAt, ServerAt};
use super::world::World;
use model::alloc::Allocation;
use model::deployment::DeploymentStatus;
use model::dispatch::Dispatch;
use model::eval::EvalStatus;
use model::id::{AllocId, DeploymentId, EvalId, JobKey, Uuid};
use model::job::{Job, JobSpec};
use model::time::Span;
use server::effects::Input;
use state::fault::{Detail, Fault};
use state::samples::Region as Sample;
use state::view::View;
use std::sync::Arc;
use wire::keeper::RunSpec;
use wire::request::WriteRequest;

const SERVER: ServerAt = ServerAt { region: 0, server: 0 };
const NODE: NodeAt = NodeAt { region: 0, node: 0 };

pub fn run_for(world: &mut World, span: Span) {
    world.run_until(world.now.after(span)).expect("no fault, no failure");
}

/// A server that leads, and nodes that nothing troubles.
pub fn calm(nodes: usize) -> World {
    let mut world = World::new(1, 1, nodes, false);
    world.faults.heal();
    world.start_all().expect("fresh disks open");
    run_for(&mut world, Span::seconds(20));
    world
}

/// The same with a job that runs, and its deployment under way.
fn calm_with_job() -> World {
    let mut world = calm(2);
    world.register_quietly("quiet-1", 1);
    run_for(&mut world, Span::seconds(5));
    world
}

fn view(world: &World) -> View {
    world.newest_view().expect("a server is up")
}

pub fn is_found<T: std::fmt::Debug>(found: Result<T, String>, sentence: &str) {
    assert!(found.as_ref().is_err_and(|e| e.contains(sentence)), "{sentence}: {found:?}");
}

fn register(world: &mut World, spec: JobSpec) {
    register_at(world, SERVER, spec);
    run_for(world, Span::seconds(2));
}

/// Asked of the leader past every user.
pub fn register_at(world: &mut World, leader: ServerAt, spec: JobSpec) {
    let token = world.workload.token();
    world.ledger.asked_aside(token);
    let action = WriteRequest::RegisterJob {
        spec: Box::new(spec),
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        submission: None,
    };
    world.server_input(leader, Input::Request { token, action });
}

/// As after a turn of the server that took the state further than ever, to what the world has noted.
fn look_again(world: &mut World) -> Result<(), String> {
    (world.regions[0].tracked_index, world.regions[SERVER].is_tracked) = (0, true);
    world.check_server(SERVER, &[])
}

fn alloc(world: &mut World) -> &mut Allocation {
    Arc::make_mut(world.regions[0].tracked.allocs.values_mut().next().expect("one runs"))
}

/// Another one beside it, which is this one otherwise.
fn second_alloc(world: &mut World) -> &mut Allocation {
    let other = Allocation { id: AllocId::from_random(2), ..alloc(world).clone() };
    let id = other.id;
    world.regions[0].tracked.allocs.insert(id, Arc::new(other));
    Arc::make_mut(world.regions[0].tracked.allocs.get_mut(&id).expect("was inserted"))
}

fn plant_job(world: &mut World, id: &str, dispatch: Option<Dispatch>) {
    let jobs = &mut world.regions[0].tracked.jobs;
    let known = jobs.values().next().expect("one is registered").clone();
    let spec = JobSpec { id: id.into(), dispatch, ..known.spec.clone() };
    jobs.insert(JobKey::new("default", id), Arc::new(Job { spec, ..Job::clone(&known) }));
}

#[test]
fn what_a_server_shows_and_must_not_be_is_found() {
    let mut world = calm_with_job();
    for n in 0..12 {
        if view(&world).index().is_multiple_of(3) {
            break;
        }
        world.register_quietly(&format!("none-{n}"), 0);
        run_for(&mut world, Span::seconds(2));
    }
    let kept = world.regions[0].tracked.clone();
    type Plant = fn(&mut World);
    let plants: [(&str, Plant); 6] = [
        ("is over-committed in cpu", |world| {
            alloc(world).resources.tasks.values_mut().for_each(|task| task.cpu_mhz = 1_000_000);
        }),
        ("is held by", |world| {
            alloc(world).resources.tasks.values_mut().for_each(|task| task.held.cores = vec![1]);
            second_alloc(world);
        }),
        ("lives twice", |world| {
            second_alloc(world);
        }),
        ("was not dispatched", |world| plant_job(world, "form/a", None)),
        ("the queues lack", |world| {
            let evals = &mut world.regions[0].tracked.evals;
            evals.values_mut().for_each(|eval| Arc::make_mut(eval).status = EvalStatus::Pending);
        }),
        ("are active, and", |world| {
            let all = &mut world.regions[0].tracked.deployments;
            let mut other = all.values().next().expect("one is under way").clone();
            let planted = Arc::make_mut(&mut other);
            (planted.id, planted.status) = (DeploymentId::from_random(3), DeploymentStatus::Running);
            all.insert(planted.id, other);
        }),
    ];
    for (sentence, plant) in plants {
        assert_eq!(look_again(&mut world), Ok(()), "before {sentence}");
        plant(&mut world);
        is_found(look_again(&mut world), sentence);
        world.regions[0].tracked = kept.clone();
        world.dispatchers = super::dispatchers::Dispatchers::new(1);
    }
}

#[test]
fn a_leader_that_does_not_watch_what_is_active_is_found() {
    let mut world = calm_with_job();
    let now = view(&world);
    assert_eq!(world.check_watched_deployments(SERVER), Ok(()));
    assert_eq!(world.check_leader(SERVER, &now), Ok(()));
    world.regions[0].tracked.deployments.clear();
    is_found(world.check_watched_deployments(SERVER), "are watched");
    is_found(world.check_leader(SERVER, &now), "are watched");
}

#[test]
fn queues_that_lack_or_hold_too_much_are_found() {
    let mut world = calm_with_job();
    let tracked = &world.regions[0].tracked;
    let none = Default::default();
    assert_eq!(super::checks::queues_are_what_the_state_says(tracked, &none), Ok(()));
    let more = [EvalId::from_random(9)].into();
    is_found(super::checks::queues_are_what_the_state_says(tracked, &more), "and hold [");
    let evals = &mut world.regions[0].tracked.evals;
    evals.values_mut().for_each(|eval| Arc::make_mut(eval).status = EvalStatus::Blocked);
    let tracked = &world.regions[0].tracked;
    is_found(super::checks::queues_are_what_the_state_says(tracked, &none), "the queues lack [");
}

#[test]
fn work_in_the_queues_of_a_leader_in_a_pause_is_found() {
    assert_eq!(super::scheduler_config::check_pause(0), Ok(()));
    is_found(super::scheduler_config::check_pause(1), "1 evaluations are in the queues");
}

#[test]
fn members_regions_and_leaders_that_contradict_are_found() {
    let mut world = calm(1);
    let now = view(&world);
    assert_eq!(world.check_members(SERVER, &now), Ok(()));
    is_found(world.check_members(SERVER, &Sample::default().view()), "raft's voters are");
    let kept = world.regions[0].id.replace(Uuid::from_random(7));
    is_found(world.check_members(SERVER, &now), "others to");
    is_found(world.check_server(SERVER, &[]), "others to");
    world.regions[0].id = kept;
    world.regions[0].leaders.values_mut().for_each(|id| *id += 1);
    is_found(world.check_members(SERVER, &now), "has led in it");
    assert_eq!(world.check_members(SERVER, &now), Ok(()), "that one was noted since");
}

#[test]
fn a_log_that_ends_before_what_was_applied_is_found() {
    let mut world = calm(1);
    world.stop_server(SERVER, Span::hours(1));
    assert_eq!(world.start_server(SERVER), Ok(()));
    world.stop_server(SERVER, Span::hours(1));
    world.regions[SERVER].applied += 1_000;
    is_found(world.start_server(SERVER), "was applied, but the log ends at");
}

#[test]
fn a_server_that_fills_its_disk_to_the_end_is_found() {
    let mut world = calm(1);
    let full = || Detail { message: "no space left on device".into(), may_have_changed: true };
    is_found(world.server_fails(SERVER, Some(Fault::Full(full()))), "until its disk took no more");
    assert!(world.regions[SERVER].is_up());
    assert_eq!(world.server_fails(SERVER, Some(Fault::Storage(full()))), Ok(()));
    assert!(!world.regions[SERVER].is_up(), "it starts again on what the disk holds");
}

#[test]
fn a_server_that_schedules_what_it_is_not_to_is_found() {
    let mut world = calm(1);
    world.register_quietly("quiet-1", 1);
    run_for(&mut world, Span::seconds(5));
    world.regions[SERVER].enabled_schedulers.clear();
    world.register_quietly("quiet-2", 1);
    let found = world.run_until(world.now.after(Span::seconds(5)));
    is_found(found, "schedules for a service job");
}

#[test]
fn a_world_that_is_not_at_rest_is_found() {
    let mut world = calm_with_job();
    run_for(&mut world, Span::minutes(2));
    assert_eq!(world.check_settled(), Ok(()));
    world.ledger.asked_aside(99);
    is_found(world.check_settled(), "1 questions were never answered");
    world.ledger.answered_aside(99);
    assert_eq!(world.check_settled(), Ok(()));
    world.stop_agent(NODE);
    // until it is collected, which is soon
    let is_down = |e: &String| e.contains("node node-0 is down");
    let mut found = (0..60).filter_map(|_| {
        run_for(&mut world, Span::seconds(2));
        world.check_settled().err().filter(is_down)
    });
    assert!(found.next().is_some());
}

/// A run that asks for nothing.
pub fn run_spec(label: String, args: &[&str]) -> Box<RunSpec> {
    Box::new(RunSpec {
        label,
        command: "sim".into(),
        args: args.iter().map(ToString::to_string).collect(),
        search: vec![],
        env: vec![],
        cwd: "/".into(),
        user: String::new(),
        logs: None,
        cpu_mhz: 0,
        memory_bytes: 0,
        memory_low_bytes: 0,
    })
}
