//! What a client does when agents, keepers, machines and networks fail.

use super::fixtures::{alloc_id, assignment, restart, task};
use super::world::World;
use crate::effects::Input;
use model::alloc::DesiredStatus;
use model::id::{AllocId, RunId};
use model::job::{JobType, RestartMode, Task};
use model::resources::{Hook, Lifecycle};
use model::task::{Exit, ExitStatus};
use model::time::{Span, Wall};
use state::client_store::disk::Disk;
use wire::frame::{self, Body, Frame};
use wire::keeper::{Event, PROTOCOL};
use wire::rpc::{AllocSet, NodeReply, NodeRequest, Peer};

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

/// A world for every number of turns that its start takes, interrupted there.
fn at_every_step(start: impl Fn() -> World, mut check: impl FnMut(World)) {
    for steps in 0.. {
        let mut w = start();
        if !(0..steps).all(|_| w.step()) {
            assert!(steps > 8, "the script is too short to prove anything");
            return;
        }
        check(w);
    }
}

fn one_service() -> World {
    World::new(&[assignment(1, &[task("web")])])
}

fn with_hooks() -> World {
    let hook = |name, hook, sidecar| Task { lifecycle: Some(Lifecycle { hook, sidecar }), ..task(name) };
    let tasks = [
        task("main"),
        hook("pre", Hook::Prestart, false),
        hook("side", Hook::Prestart, true),
        hook("post", Hook::Poststart, false),
    ];
    let mut w = World::new(&[assignment(1, &tasks)]);
    w.brief = vec!["pre".into(), "post".into()];
    w
}

#[test]
fn an_agent_that_dies_at_any_step_starts_each_task_once() {
    at_every_step(one_service, |mut w| {
        w.crash_agent();
        w.pass(s(10));
        assert_eq!(w.living(), ["web#1"], "{:#?}", w.trace);
        assert_eq!(w.processes.len(), 1, "{:#?}", w.trace);
        assert_eq!(w.status(1), "running");
        w.stop_alloc(1);
        w.pass(s(10));
        assert_eq!((w.living().len(), w.status(1)), (0, "complete"));
    });
    at_every_step(with_hooks, |mut w| {
        w.crash_agent();
        w.pass(s(10));
        assert_eq!(w.processes.len(), 4, "{:#?}", w.trace);
        let mut living: Vec<_> = w.living().iter().map(|p| p[..4].to_string()).collect();
        living.sort();
        assert_eq!(living, ["main", "side"]);
        assert_eq!(w.status(1), "running");
        assert!(!w.task(1, "pre").failed && !w.task(1, "post").failed);
    });
}

#[test]
fn an_agent_that_dies_twice_still_starts_each_task_once() {
    at_every_step(with_hooks, |mut first| {
        first.crash_agent();
        for _ in 0..5 {
            first.step();
        }
        first.crash_agent();
        first.pass(s(10));
        assert_eq!((first.processes.len(), first.status(1)), (4, "running"), "{:#?}", first.trace);
    });
}

#[test]
fn a_reboot_at_any_step_ends_with_everything_running() {
    at_every_step(with_hooks, |mut w| {
        w.reboot();
        w.pass(s(10));
        let mut living: Vec<_> = w.living().iter().map(|p| p[..4].to_string()).collect();
        living.sort();
        assert_eq!(living, ["main", "side"], "{:#?}", w.trace);
        assert_eq!(w.status(1), "running");
        assert_eq!(w.task(1, "main").restarts.min(1), w.task(1, "main").restarts);
    });
}

#[test]
fn an_agent_that_dies_while_it_stops_a_task_goes_on() {
    for steps in 0..12 {
        let mut w = World::new(&[assignment(1, &[task("web")])]);
        w.pass(s(2));
        w.change(1, |a| a.desired = DesiredStatus::Stop);
        w.crash_agent();
        for _ in 0..steps {
            w.step();
        }
        w.crash_agent();
        w.pass(s(10));
        assert_eq!((w.living().len(), w.status(1)), (0, "complete"), "{:#?}", w.trace);
        assert_eq!(w.processes.len(), 1);
        assert_eq!(w.processes[0].label, "", "the run is forgotten");
        let exit =
            w.task(1, "web").events.iter().find(|e| e.kind == "Terminated").map(|e| e.message.as_str());
        assert_eq!(exit, Some("Exit Code: 130, Signal: 2"));
    }
}

#[test]
fn an_exit_while_the_agent_was_away_is_counted_as_it_was() {
    let mut a = assignment(1, &[Task { restart: restart(0, RestartMode::Fail), ..task("web") }]);
    a.job_type = JobType::Batch;
    for (code, status) in [(0, "complete"), (3, "failed")] {
        let mut w = World::new(&[a.clone()]);
        w.pass(s(2));
        w.keeper_up = false;
        w.exit("web", code);
        w.keeper_up = true;
        w.crash_agent();
        w.pass(s(2));
        assert_eq!(w.status(1), status);
        let told = w.task(1, "web").events.iter().find(|e| e.kind == "Terminated").map(|e| &e.message);
        assert_eq!(told, Some(&format!("Exit Code: {code}")));
        assert_eq!(w.processes[0].label, "", "the run is forgotten");
    }
}

#[test]
fn after_a_reboot_tasks_run_again_with_no_server() {
    let mut batch = assignment(2, &[task("batch")]);
    batch.job_type = JobType::Batch;
    let mut w = World::new(&[assignment(1, &[task("web")]), batch]);
    w.pass(s(2));
    w.exit("batch", 0);
    w.pass(s(2));
    w.server_up = false;
    w.reboot();
    w.pass(s(5));
    assert_eq!(w.living(), ["web#3"], "the service runs, the batch job that ended does not");
    w.exit("web", 1);
    w.pass(s(20));
    assert_eq!(w.living(), ["web#4"], "the restart policy works without servers");
    w.server_up = true;
    w.pass(s(60));
    assert_eq!(w.status(1), "running");
    let events = w.events(1, "web");
    assert!(events.contains(&"Failed Restoring Task"), "{events:?}");
}

#[test]
fn a_reboot_is_no_failure_of_the_task() {
    for remembered in [true, false] {
        let mut w =
            World::new(&[assignment(1, &[Task { restart: restart(0, RestartMode::Fail), ..task("web") }])]);
        w.pass(s(2));
        if !remembered {
            w.processes.clear();
        }
        w.reboot();
        w.pass(s(5));
        assert_eq!(w.living().len(), 1, "{remembered}");
        assert_eq!(w.status(1), "running");
        let told =
            w.task(1, "web").events.iter().find(|e| e.kind == "Failed Restoring Task").map(|e| &e.message);
        assert_eq!(told.map(String::as_str), Some("the machine was restarted"));
    }
}

#[test]
fn after_a_restart_directories_are_built_before_any_start() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    w.take_trace();
    w.reboot();
    w.settle();
    let order: Vec<_> = w.take_trace().into_iter().filter(|l| !l.starts_with("report")).collect();
    assert_eq!(order, ["-- agent restarts", "build web", "start web#2", "forget web#1"]);

    w.crash_agent();
    while !w.trace.contains(&"build web".to_string()) {
        assert!(w.step());
    }
    w.inbox.retain(|i| !matches!(i, Input::DirBuilt { .. }));
    w.inbox.push_back(Input::DirBuilt { alloc: alloc_id(1), result: Err("no room".into()) });
    w.pass(s(30));
    assert_eq!(w.living(), ["web#2"], "what runs goes on");
    w.pass(s(60));
    w.exit("web", 1);
    w.pass(s(20));
    assert_eq!(w.living(), ["web#3"]);
}

#[test]
fn a_process_that_the_keeper_lost_counts_as_failed() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    w.drop_keeper();
    w.processes.clear();
    w.raise_keeper();
    assert_eq!(w.living(), [""; 0]);
    w.pass(s(20));
    assert_eq!(w.living(), ["web#1"]);
    assert_eq!(w.task(1, "web").restarts, 1);
    let events = w.events(1, "web");
    assert_eq!(events[3..], ["Failed Restoring Task", "Restarting", "Started"]);
}

#[test]
fn nothing_happens_to_tasks_while_the_keeper_is_away() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    w.take_trace();
    w.drop_keeper();
    w.stop_alloc(1);
    w.pass(s(100));
    assert_eq!(w.take_trace(), [""; 0]);
    assert!(w.client().status().troubles[0].starts_with("no keeper"));
    w.raise_keeper();
    w.pass(s(2));
    assert_eq!(w.take_trace(), ["stop web#1 2 5s", "report complete", "forget web#1"]);
}

#[test]
fn unknown_runs_are_stopped_and_forgotten() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    w.take_trace();
    // The store is lost: what runs is nobody's.
    w.disk = Disk::default();
    w.assigned.clear();
    w.index += 1;
    w.crash_agent();
    w.pass(s(2));
    assert_eq!(w.take_trace(), ["-- agent restarts", "stop web#1 15 5s", "forget web#1"]);
}

#[test]
fn lost_and_doubled_messages_change_nothing() {
    for lose_every in [None, Some(2), Some(3), Some(5)] {
        let mut w = World::new(&[assignment(1, &[task("web")]), assignment(2, &[task("db")])]);
        (w.duplicate, w.lose_every) = (true, lose_every);
        w.pass(Span::minutes(10));
        let mut living = w.living();
        living.sort();
        assert_eq!(living.len(), 2, "{lose_every:?}");
        w.stop_alloc(1);
        w.remove_alloc(2);
        w.pass(Span::minutes(12));
        assert_eq!(w.living(), [""; 0], "{lose_every:?}");
        assert_eq!(w.status(1), "complete");
        assert_eq!(w.processes.len(), 2);
        assert_eq!(w.client().status().allocs.len(), 1);
    }
}

#[test]
fn tasks_live_on_while_no_server_answers() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    w.server_up = false;
    w.pass(Span::hours(2));
    assert_eq!(w.living(), ["web#1"]);
    w.exit("web", 1);
    w.pass(s(20));
    assert_eq!(w.living(), ["web#2"]);
    w.server_up = true;
    w.pass(s(90));
    assert_eq!(w.task(1, "web").restarts, 1);
}

#[test]
fn equal_seeds_give_equal_traces() {
    let trace = || {
        let mut w = World::new(&[assignment(1, &[task("web")]), assignment(2, &[task("db")])]);
        w.lose_every = Some(3);
        w.pass(s(100));
        w.exit("web", 1);
        w.pass(s(100));
        (w.take_trace(), w.turns, w.now, w.disk.syncs())
    };
    assert_eq!(trace(), trace());
}

#[test]
fn a_server_without_a_leader_is_left_after_an_election() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.config.servers = vec![1, 2, 3];
    w.disk = Disk::default();
    w.crash_agent();
    w.leader = 3;
    w.pass(s(4));
    assert_eq!(w.asked, [Peer::Server(1)].into(), "an election is waited for");
    w.pass(s(15));
    assert_eq!(w.status(1), "running");
    w.stop_alloc(1);
    w.pass(s(10));
    assert_eq!(w.status(1), "complete");
}

#[test]
fn a_lost_node_registers_again_and_reports_everything() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(5));
    assert_eq!(w.registrations, 1);
    w.told.clear();
    w.unknown_node = true;
    w.pass(s(15));
    assert_eq!(w.registrations, 2);
    assert_eq!((w.status(1), w.living()), ("running", vec!["web#1".to_string()]));
}

#[test]
fn everything_is_reported_again_after_missed_heartbeats() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(5));
    w.told.clear();
    w.pass(s(15));
    assert!(w.told.is_empty(), "nothing is told twice without need");
    w.missed = true;
    w.pass(s(15));
    assert_eq!((w.status(1), w.missed), ("running", false));
}

#[test]
fn a_node_marked_down_heartbeats_before_it_reports() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(3));
    w.wants_heartbeat = true;
    w.exit("web", 1);
    w.pass(s(5));
    assert!(!w.wants_heartbeat);
    assert_eq!(w.status(1), "pending");
}

#[test]
fn a_registration_that_comes_late_is_undone() {
    let mut w = World::new(&[]);
    w.pass(s(5));
    let (newest, registrations) = (w.registered.clone(), w.registrations);
    w.registered.drivers.values_mut().for_each(|driver| driver.healthy = !driver.healthy);
    assert_ne!(w.registered, newest, "what was sent earlier, and comes now");
    w.pass(s(30));
    assert_eq!((&w.registered, w.registrations), (&newest, registrations + 1));
    w.pass(s(60));
    assert_eq!(w.registrations, registrations + 1, "once is enough");
}

#[test]
fn reports_wait_at_one_server_while_its_disk_is_full() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(3));
    w.asked.clear();
    (w.servers_full, w.requests) = (true, 0);
    w.exit("web", 1);
    w.pass(s(60));
    assert_eq!(w.asked, [Peer::Server(1)].into(), "no other server could do it");
    assert!((30..100).contains(&w.requests), "asked again and again, but not at once: {}", w.requests);
    let taken = w.reports;
    w.servers_full = false;
    w.pass(s(5));
    assert!(w.reports > taken);
}

#[test]
fn after_a_long_silence_everything_is_reported_again() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(5));
    let reports = w.reports;
    w.pass(s(100));
    assert_eq!(w.reports, reports);
    w.server_up = false;
    w.pass(s(100));
    w.server_up = true;
    w.pass(s(100));
    assert_eq!(w.reports, reports + 1);
}

#[test]
fn a_stale_report_is_sent_again_as_it_is_now() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(5));
    assert_eq!(
        (w.status(1), w.stale_reports),
        ("running", 0),
        "a node that hears of its reports is never stale"
    );
    // a report of an earlier life comes late, and is taken
    w.reported_at += 5;
    w.exit("web", 0);
    w.pass(s(1));
    assert_eq!(w.stale_reports, 1, "it is repeated at once, and knows of the other one then");
    assert_eq!(w.status(1), "pending", "it waits to be restarted");
    let reports = w.reports;
    w.pass(s(60));
    assert!(w.reports > reports && w.stale_reports == 1);
    assert_eq!(w.status(1), "running");
}

#[test]
fn an_assignment_older_than_wanted_is_fetched_again() {
    let mut w = World::new(&[assignment(1, &[task("a")]), assignment(2, &[task("b")])]);
    w.pass(s(5));
    let before = w.assigned[&alloc_id(2)].clone();
    w.index += 1;
    // an answer to a watch brings the first one along, and the second is fetched
    w.assigned.values_mut().for_each(|assigned| assigned.alloc_modify_index = w.index);
    w.assigned.get_mut(&alloc_id(2)).expect("it is assigned").desired = DesiredStatus::Stop;
    w.stale = Some(before);
    w.answer_watch();
    w.pass(s(20));
    assert_eq!((w.living(), w.stale.is_none()), (vec!["a#1".to_string()], true));
}

#[test]
fn allocs_beyond_the_nodes_bound_are_reported_failed() {
    let tasks = [task("web")];
    let most = crate::MAX_LIVE_ALLOCS + crate::config::DEFAULT_MAX_ENDED;
    let many: Vec<_> = (0..=most as u128)
        .map(|n| {
            let mut a = assignment(1, &tasks);
            a.id = AllocId::from_random(n << 64);
            a
        })
        .collect();
    let last = many.iter().map(|a| a.id).max().expect("there are some");
    let mut w = World::new(&many);
    w.pass(s(10));
    assert_eq!(w.client().status().allocs.len(), most);
    let failed: Vec<_> = w.told.values().filter(|u| u.client.as_str() == "failed").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].id, last);
    assert!(failed[0].client_description.starts_with("Unable to add allocation due to error: "));
}

#[test]
fn a_keeper_that_does_not_answer_is_asked_again() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.inbox.retain(|i| !matches!(i, Input::Keeper(_)));
    w.pass(s(9));
    assert_eq!(w.living(), [""; 0]);
    w.pass(s(2));
    assert_eq!(w.living(), ["web#1"]);
}

#[test]
fn a_keeper_of_another_protocol_is_not_used() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.inbox.retain(|i| !matches!(i, Input::Keeper(_)));
    let event = Event::Welcome { protocol: PROTOCOL + 1, boot_id: w.boot, keeper_pid: 1, runs: vec![] };
    w.inbox.push_back(Input::Keeper(event));
    w.pass(s(60));
    assert_eq!(w.processes.len(), 0);
    assert!(w.client().status().troubles[0].contains("speaks protocol 2, this agent 1"));
}

#[test]
fn unexpected_inputs_change_nothing() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    w.take_trace();
    let stray = |body| frame::encode(&Frame { request: 0, body });
    let set = AllocSet { index: 99, wanted: vec![], assignments: vec![] };
    let empty = NodeReply::Watched { generation: Default::default(), set, servers: None };
    let frames = [
        vec![],
        vec![b'D'; 40],
        stray(Body::Raft(vec![1])),
        stray(Body::Reply(empty)),
        stray(Body::Request(NodeRequest::Heartbeat { node: Default::default(), secret: Default::default() })),
    ];
    for bytes in frames {
        w.inbox.push_back(Input::Frame { from: Peer::Server(1), bytes });
    }
    let run = RunId::from_random(77);
    let exit = Exit { status: ExitStatus::Code(0), oom_killed: false };
    w.inbox.push_back(Input::Keeper(Event::Exited { run, exit, at: Wall::NEVER }));
    w.inbox.push_back(Input::Keeper(Event::Started { run, pid: 1, at: Wall::NEVER }));
    w.inbox.push_back(Input::Keeper(Event::Refused { run: Some(run), message: "no".into() }));
    w.inbox.push_back(Input::DirBuilt { alloc: alloc_id(9), result: Err("no".into()) });
    w.inbox.push_back(Input::DirRemoved { alloc: alloc_id(1), result: Ok(()) });
    w.pass(s(60));
    assert_eq!(w.living(), ["web#1"]);
    assert_eq!(w.take_trace(), ["forget ?", "stop ? 15 5s"]);
}
