//! Allocations that take longer than `max_run_duration`.

use super::fixtures::{alloc_id, assignment, restart, task};
use super::world::World;
use model::job::{JobType, RestartMode, Task};
use model::resources::{Hook, Lifecycle};
use model::time::Span;
use wire::rpc::Assignment;

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

fn limited(limit: Span, tasks: &[Task]) -> Assignment {
    let mut a = assignment(1, tasks);
    a.job_type = JobType::Batch;
    a.group.max_run_duration = Some(limit);
    a
}

fn poststop(name: &str) -> Task {
    Task { lifecycle: Some(Lifecycle { hook: Hook::Poststop, sidecar: false }), ..task(name) }
}

fn status(w: &World) -> (&str, &str) {
    (w.status(1), &w.told[&alloc_id(1)].client_description)
}

const OVER: (&str, &str) = ("complete", "allocation exceeded max_run_duration");

#[test]
fn an_allocation_beyond_its_run_limit_is_complete() {
    let mut w = World::new(&[limited(s(60), &[task("work"), poststop("after")])]);
    w.pass(s(55));
    assert_eq!((w.living(), w.status(1)), (vec!["work#1".to_string()], "running"));
    w.pass(s(30));
    assert_eq!((w.living().len(), status(&w)), (0, OVER), "{:#?}", w.trace);
    let states = &w.told[&alloc_id(1)].task_states;
    assert!(states.values().all(|state| !state.failed), "{states:?}");
    let told =
        |task: &str| states[task].events.iter().filter(|e| e.kind == "Max Run Duration Exceeded").count();
    assert_eq!((told("work"), told("after")), (1, 1));
    assert!(states["after"].started_at.is_never(), "poststop tasks have no time left, either");
}

#[test]
fn an_allocation_within_its_run_limit_is_complete() {
    let mut w = World::new(&[limited(s(60), &[task("work")])]);
    w.pass(s(20));
    w.exit("work", 0);
    w.pass(s(90));
    assert_eq!(status(&w), ("complete", "All tasks have completed"));
}

#[test]
fn waiting_counts_and_so_does_time_without_an_agent() {
    let mut w = World::new(&[limited(s(60), &[task("work")])]);
    w.pass(s(40));
    w.crash_agent();
    w.pass(s(15));
    assert_eq!(w.living(), ["work#1"], "{:#?}", w.trace);
    w.crash_agent();
    w.pass(s(25));
    assert_eq!((w.living().len(), status(&w)), (0, OVER), "{:#?}", w.trace);
}

#[test]
fn an_agent_that_restarts_while_tasks_are_stopped_goes_on() {
    let mut w = World::new(&[limited(s(30), &[task("work")])]);
    w.stubborn = vec!["work".into()];
    w.pass(s(31));
    w.crash_agent();
    w.pass(s(60));
    assert_eq!((w.living().len(), status(&w)), (0, OVER), "{:#?}", w.trace);
}

#[test]
fn a_failure_in_time_stays_a_failure() {
    let work = Task { restart: restart(0, RestartMode::Fail), ..task("work") };
    let mut w = World::new(&[limited(s(8), &[work, task("other")])]);
    w.stubborn = vec!["other".into()];
    w.pass(s(5));
    w.exit("work", 1);
    w.pass(s(60));
    assert_eq!(status(&w), ("failed", "Failed tasks"), "{:#?}", w.trace);
}

#[test]
fn a_changed_run_limit_applies_at_once() {
    let mut w = World::new(&[limited(s(60), &[task("work")])]);
    w.pass(s(30));
    w.change(1, |a| a.group.max_run_duration = Some(s(600)));
    w.pass(s(200));
    assert_eq!(w.living(), ["work#1"]);
    w.change(1, |a| a.group.max_run_duration = Some(s(100)));
    w.pass(s(20));
    assert_eq!((w.living().len(), status(&w)), (0, OVER));
}
