//! Ends that were wanted and ends that were not, when the agent dies between the wish and the end: the first are no
//! failures, the second are told with their true code and follow the restart policy.

use super::fixtures::{assignment, restart, task};
use super::world::World;
use model::alloc::DesiredStatus;
use model::job::{JobType, RestartMode, Task};
use model::resources::{Hook, Lifecycle};
use model::task::ExitStatus;
use model::time::Span;
use wire::rpc::Assignment;

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

/// A task whose first failure is its last.
fn once(name: &str) -> Task {
    Task { restart: restart(0, RestartMode::Fail), ..task(name) }
}

fn leader_and_helper() -> [Task; 2] {
    [once("helper"), Task { leader: true, ..once("main") }]
}

/// These tasks run, and do not end when they are asked to.
fn running(tasks: &[Task]) -> World {
    let mut batch = assignment(1, tasks);
    batch.job_type = JobType::Batch;
    running_alloc(batch)
}

fn running_alloc(assignment: Assignment) -> World {
    let mut w = World::new(&[assignment]);
    w.stubborn = w.assigned.values().flat_map(|a| &a.group.tasks).map(|t| t.name.clone()).collect();
    w.pass(s(2));
    w
}

/// The agent dies, then these tasks end, then the next agent hears of all at once, as it does after a start.
fn end_without_agent(w: &mut World, ends: &[(&str, i32)]) {
    // whatever the keeper would say now, the dying agent does not hear
    w.keeper_up = false;
    for (task, code) in ends {
        w.exit(task, *code);
    }
    w.keeper_up = true;
    w.crash_agent();
    w.all_at_once();
    w.pass(s(60));
}

fn exit_told(w: &World, task: &str) -> Option<String> {
    let events = &w.task(1, task).events;
    events.iter().find(|e| e.kind == "Terminated").map(|e| e.message.clone())
}

#[track_caller]
fn assert_ended_as_wanted(w: &World, processes: usize) {
    assert_eq!((w.living().len(), w.status(1)), (0, "complete"), "{:#?}", w.trace);
    assert_eq!(w.processes.len(), processes, "something was started again: {:#?}", w.trace);
    assert!(w.processes.iter().all(|p| p.label.is_empty()), "an ended run is not forgotten: {:#?}", w.trace);
}

#[test]
fn a_stop_that_the_agent_did_not_live_to_see_is_no_failure() {
    let mut w = running(&[once("web")]);
    w.stop_alloc(1);
    assert_eq!(w.living(), ["web#1"], "asked to end, and not yet gone");
    end_without_agent(&mut w, &[("web", 130)]);
    assert_ended_as_wanted(&w, 1);
    assert_eq!(exit_told(&w, "web").as_deref(), Some("Exit Code: 130"));
    assert_eq!(w.events(1, "web").last(), Some(&"Killed"));
}

#[test]
fn a_stop_during_the_groups_shutdown_delay_is_no_failure() {
    let mut a = assignment(1, &[once("web")]);
    a.group.shutdown_delay = Some(s(30));
    let mut w = running_alloc(a);
    w.stop_alloc(1);
    w.pass(s(31));
    assert!(w.trace.iter().any(|line| line.starts_with("stop web#1")), "{:#?}", w.trace);
    end_without_agent(&mut w, &[("web", 130)]);
    assert_ended_as_wanted(&w, 1);
}

#[test]
fn a_skipped_shutdown_delay_delays_no_stop() {
    for called_off_later in [false, true] {
        let mut task = once("web");
        task.shutdown_delay = s(30);
        let mut a = assignment(1, &[task]);
        a.group.shutdown_delay = Some(s(30));
        let mut w = running_alloc(a);
        let stops = |w: &World| w.trace.iter().any(|line| line.starts_with("stop web#1"));
        if called_off_later {
            w.stop_alloc(1);
            w.pass(s(40));
            assert!(!stops(&w), "the group's delay is over, the task's is not: {:#?}", w.trace);
        }
        w.change(1, |a| {
            a.desired = DesiredStatus::Stop;
            a.no_shutdown_delay = true;
        });
        w.pass(s(1));
        assert!(stops(&w), "{called_off_later}: {:#?}", w.trace);
    }
}

#[test]
fn a_skipped_shutdown_delay_is_reported() {
    let delayed = Task { shutdown_delay: s(30), ..once("web") };
    let mut w = running(&[delayed, once("plain")]);
    w.change(1, |a| {
        a.desired = DesiredStatus::Stop;
        a.no_shutdown_delay = true;
    });
    w.pass(s(10));
    let told = w.task(1, "web").events.iter().find(|e| e.kind == "Skipping shutdown delay");
    let sentence = "Skipping shutdown_delay of 30s before killing the task.";
    assert_eq!(told.map(|e| e.message.as_str()), Some(sentence));
    assert!(!w.events(1, "plain").contains(&"Skipping shutdown delay"), "it has no delay");
}

#[test]
fn a_stop_adds_one_leader_dead_event_to_the_other_tasks() {
    let mut w = running(&leader_and_helper());
    w.stop_alloc(1);
    w.pass(s(3));
    assert_eq!(w.events(1, "helper").last(), Some(&"Started"), "the leader ends first");
    w.pass(s(30));
    let helper: Vec<_> = w.events(1, "helper").into_iter().skip(3).collect();
    assert_eq!(helper, ["Leader Task Dead", "Killing", "Terminated", "Killed"]);
    assert!(!w.events(1, "main").contains(&"Leader Task Dead"));
}

#[test]
fn a_task_killed_because_its_leader_ended_has_not_failed() {
    let mut w = running(&leader_and_helper());
    w.exit("main", 0);
    assert_eq!(w.living(), ["helper#1"], "asked to end, and not yet gone");
    end_without_agent(&mut w, &[("helper", 137)]);
    assert_ended_as_wanted(&w, 2);
    assert!(!w.task(1, "helper").failed);
    let told = w.events(1, "helper").into_iter().filter(|kind| *kind == "Leader Task Dead");
    assert_eq!(told.count(), 1);
}

/// Servers replace what has failed: nothing of it may still run then.
#[test]
fn failed_is_reported_after_the_last_task_has_ended() {
    let mut w = running(&[once("bad"), once("good")]);
    w.take_trace();
    w.exit("bad", 1);
    w.pass(s(3));
    assert_eq!((w.living(), w.status(1)), (vec!["good#2".to_string()], "running"));
    assert_eq!(w.events(1, "good").last(), Some(&"Killing"), "told why before it is killed");
    assert!(w.events(1, "good").contains(&"Sibling Task Failed"));
    assert!(w.task(1, "bad").failed, "the servers know already that a task has failed");
    w.pass(s(10));
    assert_eq!((w.living().len(), w.status(1)), (0, "failed"));
    let ends: Vec<_> = w.take_trace().into_iter().filter(|line| !line.starts_with("forget")).collect();
    assert_eq!(ends, ["stop good#2 2 5s", "report failed"]);
}

#[test]
fn a_poststop_task_ends_before_failed_is_reported() {
    let lifecycle = Some(Lifecycle { hook: Hook::Poststop, sidecar: false });
    let mut w = running(&[once("main"), Task { lifecycle, ..once("stop") }]);
    w.exit("main", 1);
    w.pass(s(3));
    assert_eq!((w.living(), w.status(1)), (vec!["stop#2".to_string()], "running"));
    w.exit("stop", 0);
    w.pass(s(3));
    assert_eq!(w.status(1), "failed");
}

#[test]
fn an_exit_in_the_turn_of_the_stop_is_no_failure() {
    let mut w = running(&[once("web")]);
    w.change(1, |a| a.desired = DesiredStatus::Stop);
    let run = w.processes[0].run;
    w.end(run, ExitStatus::Code(3));
    assert_eq!(w.inbox.len(), 2, "the wish, then the end");
    w.all_at_once();
    w.pass(s(10));
    assert_ended_as_wanted(&w, 1);
    assert_eq!(exit_told(&w, "web").as_deref(), Some("Exit Code: 3"));
}

#[test]
fn an_exit_before_the_stop_is_stored_counts_by_itself() {
    for (task, status) in [(once("web"), "failed"), (task("web"), "complete")] {
        let mut w = running(&[task]);
        w.server_up = false;
        w.change(1, |a| a.desired = DesiredStatus::Stop);
        w.inbox.clear();
        end_without_agent(&mut w, &[]);
        assert_eq!(w.living(), ["web#1"], "the next agent does not know of the wish either");
        w.exit("web", 3);
        w.server_up = true;
        w.pass(s(60));
        assert_eq!((w.living().len(), w.status(1), w.processes.len()), (0, status, 1), "{:#?}", w.trace);
        assert_eq!(exit_told(&w, "web").as_deref(), Some("Exit Code: 3"));
    }
}

#[test]
fn an_exit_without_an_agent_follows_the_restart_policy() {
    let mut w = running(&[task("web")]);
    end_without_agent(&mut w, &[("web", 3)]);
    assert_eq!((w.living(), w.status(1)), (vec!["web#2".to_string()], "running"), "{:#?}", w.trace);
    assert_eq!(w.task(1, "web").restarts, 1);
    assert_eq!(exit_told(&w, "web").as_deref(), Some("Exit Code: 3"));
    let mut w = running(&[once("web")]);
    end_without_agent(&mut w, &[("web", 3)]);
    assert_eq!((w.living().len(), w.status(1)), (0, "failed"));
}

/// Nobody asked the helper to end: that the leader ended, too, is heard of at the same time.
#[test]
fn exits_in_one_turn_count_alike_in_any_order() {
    let mut tasks = leader_and_helper();
    for _ in 0..2 {
        let mut w = running(&tasks);
        end_without_agent(&mut w, &[("main", 0), ("helper", 3)]);
        assert_eq!(exit_told(&w, "helper").as_deref(), Some("Exit Code: 3"));
        assert_eq!((w.task(1, "helper").failed, w.task(1, "main").failed), (true, false), "{:#?}", w.trace);
        tasks.reverse();
    }
}
