//! What a client does when nothing is broken.

use super::fixtures::{alloc_id, assignment, restart, task};
use super::world::World;
use crate::alloc_runner::AllocRunner;
use crate::effects::Input;
use crate::task_runner::Dirty;
use model::id::Uuid;
use model::job::{JobType, RestartMode, Task};
use model::resources::{Hook, Lifecycle};
use model::task::TaskPhase;
use model::time::{Mono, Now, Span, Wall};
use model::value::Value;
use state::client_store::{AllocRecord, RecoveredAlloc, Retention, RunRecord, TaskRecord};
use std::collections::{BTreeMap, BTreeSet};

fn hooked(name: &str, hook: Hook, sidecar: bool) -> Task {
    Task { lifecycle: Some(Lifecycle { hook, sidecar }), ..task(name) }
}

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

#[test]
fn an_assignment_comes_to_run_and_is_stopped() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    assert_eq!(w.take_trace(), ["build web", "start web#1", "report running"]);
    assert_eq!(w.events(1, "web"), ["Received", "Task Setup", "Started"]);
    assert_eq!(w.reports, 1, "what nobody waits for goes along");

    w.stop_alloc(1);
    w.pass(s(2));
    assert_eq!(w.take_trace(), ["stop web#1 2 5s", "report complete", "forget web#1"]);
    let events = ["Received", "Task Setup", "Started", "Killing", "Terminated", "Killed"];
    assert_eq!(w.events(1, "web"), events);
    assert!(!w.task(1, "web").failed);

    w.remove_alloc(1);
    w.pass(s(2));
    assert_eq!(w.take_trace(), ["remove dir"]);
    assert_eq!(w.client().status().allocs.len(), 0);
}

#[test]
fn a_node_at_rest_writes_nothing() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(30));
    let (syncs, turns) = (w.disk.syncs(), w.turns);
    w.pass(Span::minutes(30));
    assert_eq!(w.disk.syncs(), syncs);
    assert!(w.turns > turns + 100, "heartbeats went on");
    assert!(w.client().status().registered);
}

#[test]
fn each_step_of_a_task_costs_few_syncs() {
    let mut w = World::new(&[]);
    w.pass(s(2));
    let cost = |w: &mut World, act: fn(&mut World)| {
        let before = w.disk.syncs();
        act(w);
        w.pass(s(30));
        w.disk.syncs() - before
    };
    let start = cost(&mut w, |w| {
        let a = assignment(1, &[task("web")]);
        w.assigned.insert(a.id, a);
        w.change(1, |_| {});
        w.settle();
    });
    assert_eq!((start, w.living()), (1, vec!["web#1".to_string()]), "the assignment with its run");
    let restart = cost(&mut w, |w| w.exit("web", 1));
    assert_eq!((restart, w.living()), (1, vec!["web#2".to_string()]), "the next run");
    assert_eq!(cost(&mut w, |w| w.stop_alloc(1)), 2, "the wish, the end");
    assert_eq!(cost(&mut w, |w| w.remove_alloc(1)), 1, "the wish");
}

#[test]
fn poststop_tasks_run_though_the_agent_was_restarted_in_between() {
    let tasks = [task("main"), hooked("stop", Hook::Poststop, false)];
    let mut w = World::new(&[assignment(1, &tasks)]);
    w.stubborn = vec!["main".into()];
    w.pass(s(2));
    w.stop_alloc(1);
    w.crash_agent();
    w.pass(s(20));
    assert_eq!(w.living(), ["stop#2"]);
    w.exit("stop", 0);
    w.pass(s(2));
    assert_eq!(w.status(1), "complete");
}

/// A first run is durable before its directory is built, and that this was done is no promise: poststop tasks follow what may have run,
/// also when a second power cut comes once its end is known.
#[test]
fn a_task_that_may_have_run_before_a_power_cut_counts_as_run() {
    let tasks = [task("main"), hooked("stop", Hook::Poststop, false)];
    let record = AllocRecord {
        assignment: assignment(1, &tasks),
        dir_built: false,
        retention: Retention::Kept,
        health: None,
        received: Wall(1),
    };
    let asked = TaskRecord { run: Some(RunRecord::new(7, Uuid::default())), ..TaskRecord::default() };
    for (row, has_run) in [(TaskRecord::default(), false), (asked, true)] {
        let tasks = BTreeMap::from([("main".to_string(), row)]);
        let found = RecoveredAlloc { record: record.clone(), tasks };
        let alloc = AllocRunner::restore(found, Now { mono: Mono(9), wall: None });
        let rides_along = if has_run { Dirty::Lazy } else { Dirty::Clean };
        assert_eq!((alloc.record.dir_built, alloc.record_dirty), (has_run, rides_along));
    }
}

#[test]
fn a_failing_service_is_restarted_twice() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    for n in 1..=2 {
        w.exit("web", 1);
        w.pass(Span::millis(14_900));
        assert_eq!(w.living(), [""; 0], "too early");
        w.pass(Span::millis(3_900));
        assert_eq!(w.living(), [format!("web#{}", n + 1)]);
    }
    w.exit("web", 1);
    w.pass(s(60));
    assert_eq!(w.living(), [""; 0]);
    assert_eq!(w.status(1), "failed");
    let state = w.task(1, "web");
    assert_eq!((state.failed, state.restarts), (true, 2));
    let last = &state.events[state.events.len() - 1];
    assert_eq!(last.kind, "Not Restarting");
    assert_eq!(last.message, "Exceeded allowed attempts 2 in interval 30m0s and mode is \"fail\"");
}

#[test]
fn tasks_that_fail_together_restart_apart() {
    let names = ["a", "b", "c", "d"];
    let mut w = World::new(&names.map(|name| assignment(name.as_bytes()[0], &[task(name)])));
    w.pass(s(2));
    for name in names {
        w.exit(name, 1);
    }
    w.pass(s(2));
    let delays: BTreeSet<_> = names
        .map(|name| {
            let events = &w.task(name.as_bytes()[0], name).events;
            let restart = events.iter().find(|e| e.kind == "Restarting").expect("it is restarted");
            restart.details["start_delay"].parse::<i64>().expect("nanoseconds")
        })
        .into();
    assert_eq!(delays.len(), names.len(), "{delays:?}");
    assert!(delays.iter().all(|d| (15_000_000_000..18_750_000_000).contains(d)), "{delays:?}");
}

#[test]
fn restart_modes() {
    let cases: [(JobType, i64, RestartMode, i32, &str, bool); 5] = [
        (JobType::Batch, 2, RestartMode::Fail, 0, "complete", false),
        (JobType::Batch, 0, RestartMode::Fail, 0, "complete", false),
        (JobType::Service, 0, RestartMode::Fail, 0, "failed", false),
        (JobType::Service, 1, RestartMode::Fail, 0, "running", true),
        (JobType::Service, 1, RestartMode::Delay, 3, "running", true),
    ];
    for (job_type, attempts, mode, code, status, lives) in cases {
        let one = Task { restart: restart(attempts, mode), ..task("web") };
        let mut a = assignment(1, &[one]);
        a.job_type = job_type;
        let mut w = World::new(&[a]);
        w.pass(s(2));
        w.exit("web", code);
        w.pass(s(20));
        assert_eq!((w.status(1), !w.living().is_empty()), (status, lives), "{job_type} {attempts} {code}");
    }
}

#[test]
fn mode_delay_waits_for_the_next_interval() {
    let one = Task { restart: restart(1, RestartMode::Delay), ..task("web") };
    let mut w = World::new(&[assignment(1, &[one])]);
    w.pass(s(2));
    w.exit("web", 1);
    w.pass(s(20));
    w.exit("web", 1);
    w.pass(s(1700));
    assert_eq!(w.living(), [""; 0]);
    w.pass(s(100));
    assert_eq!(w.living(), ["web#3"]);
    let reason = w.task(1, "web").events.iter().rev().find(|e| e.kind == "Restarting").map(|e| &e.message);
    assert!(
        reason.is_some_and(
            |m| m.starts_with("Exceeded allowed attempts, applying a delay - Task restarting in")
        )
    );
}

#[test]
fn a_stubborn_task_gets_its_time_and_no_more() {
    let slow = Task { kill_timeout: s(60), kill_signal: "SIGTERM".into(), ..task("web") };
    let mut w = World::new(&[assignment(1, &[slow])]);
    w.stubborn = vec!["web".into()];
    w.pass(s(2));
    w.stop_alloc(1);
    w.pass(s(29));
    assert_eq!(w.living(), ["web#1"]);
    w.pass(s(3));
    assert_eq!(w.living(), [""; 0]);
    assert_eq!(
        w.take_trace(),
        [
            "build web",
            "start web#1",
            "report running",
            "stop web#1 15 30s",
            "report complete",
            "forget web#1"
        ]
    );
    let exit = w.task(1, "web").events.iter().find(|e| e.kind == "Terminated").map(|e| e.message.as_str());
    assert_eq!(exit, Some("Exit Code: 137, Signal: 9"));
}

#[test]
fn delays_come_before_the_signal() {
    let mut a = assignment(1, &[Task { shutdown_delay: s(3), ..task("web") }]);
    a.group.shutdown_delay = Some(s(10));
    let mut w = World::new(&[a]);
    w.pass(s(2));
    w.stop_alloc(1);
    w.pass(s(12));
    assert_eq!(w.living(), ["web#1"]);
    w.pass(s(2));
    assert_eq!(w.living(), [""; 0]);
    assert!(w.events(1, "web").contains(&"Waiting for shutdown delay"));
}

#[test]
fn a_dead_leader_stops_the_others_and_sidecars_last() {
    let leader = Task { leader: true, restart: restart(0, RestartMode::Fail), ..task("lead") };
    let tasks = [leader, task("web"), hooked("side", Hook::Prestart, true)];
    let mut a = assignment(1, &tasks);
    a.job_type = JobType::Batch;
    let mut w = World::new(&[a]);
    w.pass(s(2));
    assert_eq!(w.living(), ["side#1", "lead#2", "web#3"]);
    w.take_trace();
    w.exit("lead", 0);
    w.pass(s(2));
    let stops: Vec<_> = w.take_trace().into_iter().filter(|l| l.starts_with("stop")).collect();
    assert_eq!(stops, ["stop web#3 2 5s", "stop side#1 2 5s"]);
    assert!(w.events(1, "web").contains(&"Leader Task Dead"));
    assert_eq!(w.status(1), "complete");
}

#[test]
fn a_failed_task_stops_its_siblings() {
    let bad = Task { restart: restart(0, RestartMode::Fail), ..task("bad") };
    let mut w = World::new(&[assignment(1, &[bad, task("good")])]);
    w.pass(s(2));
    w.exit("bad", 1);
    w.pass(s(2));
    assert_eq!(w.living(), [""; 0]);
    assert_eq!(w.status(1), "failed");
    let told = w.task(1, "good").events.iter().find(|e| e.kind == "Sibling Task Failed");
    assert_eq!(told.map(|e| e.message.as_str()), Some("Task's sibling \"bad\" failed"));
    assert!(!w.task(1, "good").failed);
}

#[test]
fn a_stop_ends_the_leader_first() {
    let tasks = [task("web"), Task { leader: true, ..task("lead") }, hooked("side", Hook::Poststart, true)];
    let mut w = World::new(&[assignment(1, &tasks)]);
    w.pass(s(2));
    w.take_trace();
    w.stop_alloc(1);
    let stops: Vec<_> = w.take_trace().into_iter().filter(|l| l.starts_with("stop")).collect();
    assert_eq!(stops, ["stop lead#2 2 5s", "stop web#1 2 5s", "stop side#3 2 5s"]);
}

#[test]
fn hooks_run_in_their_order() {
    let tasks = [
        task("main"),
        hooked("pre", Hook::Prestart, false),
        hooked("side", Hook::Prestart, true),
        hooked("post", Hook::Poststart, false),
        hooked("stop", Hook::Poststop, false),
    ];
    let mut a = assignment(1, &tasks);
    a.job_type = JobType::Batch;
    let mut w = World::new(&[a]);
    w.pass(s(2));
    assert_eq!(w.living(), ["pre#1", "side#2"]);
    w.exit("pre", 0);
    assert_eq!(w.living(), ["side#2", "main#3", "post#4"]);
    w.exit("post", 0);
    assert_eq!(w.living(), ["side#2", "main#3"]);
    w.pass(s(2));
    assert_eq!(w.status(1), "running");
    w.exit("main", 0);
    assert_eq!(w.living(), ["stop#5"]);
    assert!(w.trace.contains(&"stop side#2 2 5s".to_string()));
    w.exit("stop", 0);
    w.pass(s(2));
    assert_eq!(w.status(1), "complete");
    assert!(w.events(1, "side").contains(&"Main Tasks Dead"));
}

#[test]
fn poststop_runs_after_a_stop_but_not_after_a_removal() {
    let tasks = [task("main"), hooked("stop", Hook::Poststop, false)];
    let mut w = World::new(&[assignment(1, &tasks), assignment(2, &tasks)]);
    w.pass(s(2));
    w.stop_alloc(1);
    assert_eq!(w.living(), ["main#2", "stop#3"]);
    w.remove_alloc(2);
    assert_eq!(w.living(), ["stop#3"]);
    assert_eq!(w.client().status().allocs.len(), 1);
}

#[test]
fn a_prestart_task_that_fails_starts_nothing_else() {
    let pre = Task { restart: restart(0, RestartMode::Fail), ..hooked("pre", Hook::Prestart, false) };
    let mut w = World::new(&[assignment(1, &[task("main"), pre])]);
    w.pass(s(2));
    w.exit("pre", 1);
    w.pass(s(2));
    assert_eq!(w.processes.len(), 1);
    assert_eq!(w.status(1), "failed");
    assert_eq!(w.task(1, "main").phase, TaskPhase::Dead);
}

#[test]
fn the_previous_allocation_ends_first() {
    let mut next = assignment(2, &[task("next")]);
    next.previous = Some(alloc_id(1));
    let mut w = World::new(&[assignment(1, &[task("prev")]), next]);
    w.stubborn = vec!["prev".into()];
    w.pass(s(2));
    assert_eq!(w.living(), ["prev#1"]);
    w.stop_alloc(1);
    assert_eq!(w.living(), ["prev#1"]);
    w.pass(s(6));
    assert_eq!(w.living(), ["next#2"]);
}

#[test]
fn preempted_allocs_end_before_the_new_one_starts() {
    let mut next = assignment(3, &[task("next")]);
    next.preempted = vec![alloc_id(1), alloc_id(2)];
    let mut w = World::new(&[assignment(1, &[task("one")]), assignment(2, &[task("two")]), next]);
    w.stubborn = vec!["two".into()];
    w.pass(s(2));
    assert_eq!(w.living(), ["one#1", "two#2"]);
    w.evict_alloc(1);
    w.evict_alloc(2);
    assert_eq!(w.living(), ["two#2"]);
    w.pass(s(6));
    assert_eq!(w.living(), ["next#3"]);
}

#[test]
fn a_wrong_config_fails_the_task_and_says_why() {
    let mut bad = task("web");
    bad.config.insert("command".into(), Value::Text("${nosuch}".into()));
    let mut w = World::new(&[assignment(1, &[bad])]);
    w.pass(s(2));
    assert_eq!(w.status(1), "failed");
    assert_eq!(w.events(1, "web"), ["Received", "Task Setup", "Failed Validation", "Not Restarting"]);
    let events = &w.task(1, "web").events;
    assert!(events[2].message.contains("\"nosuch\""), "{}", events[2].message);
    assert_eq!(events[3].message, "Error was unrecoverable");
}

#[test]
fn a_directory_that_cannot_be_built_fails_the_allocation() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    while !w.trace.contains(&"build web".to_string()) {
        assert!(w.step());
    }
    w.inbox.retain(|i| !matches!(i, Input::DirBuilt { .. }));
    w.inbox.push_back(Input::DirBuilt { alloc: alloc_id(1), result: Err("disk is full".into()) });
    w.pass(s(2));
    assert_eq!(w.status(1), "failed");
    let why = "failed to setup alloc: pre-run hook \"alloc_dir\" failed: disk is full";
    assert_eq!(w.task(1, "web").events.last().map(|e| e.message.as_str()), Some(why));
}

#[test]
fn a_stop_before_the_start_is_reported_too() {
    let mut a = assignment(1, &[task("web")]);
    a.desired = model::alloc::DesiredStatus::Stop;
    let mut w = World::new(&[a]);
    w.pass(s(2));
    assert_eq!(w.take_trace(), ["report complete"]);
    assert_eq!(w.processes.len(), 0);
}

#[test]
fn ended_allocations_are_collected_and_never_run_again() {
    let batch = |n: u8| {
        let mut a = assignment(n, &[task("job")]);
        a.job_type = JobType::Batch;
        a
    };
    let all: Vec<_> = (1..=60).map(batch).collect();
    let mut w = World::new(&all);
    w.pass(s(2));
    assert_eq!(w.living().len(), 60);
    for _ in 0..60 {
        let run = w.living()[0].clone();
        let number: usize = run.trim_start_matches("job#").parse().expect("a number");
        let process = w.processes[number - 1].run;
        w.exit_run(process, 0);
        w.pass(Span::millis(10));
    }
    w.pass(s(5));
    assert_eq!(w.client().status().allocs.len(), 50);
    w.crash_agent();
    w.index += 1;
    w.pass(s(30));
    assert_eq!(w.processes.len(), 60, "nothing was run again");
    assert_eq!(w.client().status().allocs.len(), 50);
}

#[test]
fn a_dev_agent_stops_its_tasks() {
    let tasks = [Task { shutdown_delay: s(60), ..task("web") }, hooked("stop", Hook::Poststop, false)];
    let mut w = World::new(&[assignment(1, &tasks)]);
    w.pass(s(2));
    w.inbox.push_back(Input::Shutdown { kill_tasks: true });
    w.settle();
    assert_eq!(w.living(), [""; 0]);
    assert_eq!(w.processes.len(), 1);
    assert_eq!(w.trace.last().map(String::as_str), Some("done"));

    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    w.inbox.push_back(Input::Shutdown { kill_tasks: false });
    w.settle();
    assert_eq!(w.living(), ["web#1"]);
    assert_eq!(w.trace.last().map(String::as_str), Some("done"));
}
