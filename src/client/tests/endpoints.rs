//! Questions to a node: restarts and signals, what becomes of them when something dies in between, and what is refused.

use super::fixtures::{alloc_id, assignment, restart, task};
use super::world::World;
use crate::effects::RequestOutcome;
use model::job::{JobType, RestartMode, Task, TaskAction};
use model::resources::{Hook, Lifecycle};
use model::task::TaskPhase;
use model::time::Span;
use wire::client_rpc::{ClientReply, ClientRequest, LogStream, ReadOffset, RestartScope};
use wire::request::RefusalKind;

const DONE: RequestOutcome = RequestOutcome::Answer(ClientReply::Done);

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

fn restarting(scope: RestartScope) -> ClientRequest {
    ClientRequest::Restart { alloc: alloc_id(1), scope }
}

fn hooked(name: &str, hook: Hook, sidecar: bool) -> Task {
    Task { lifecycle: Some(Lifecycle { hook, sidecar }), ..task(name) }
}

fn one(name: &str) -> RestartScope {
    RestartScope::Task(name.into())
}

fn signalling(task: Option<&str>, signal: &str) -> ClientRequest {
    ClientRequest::Signal { alloc: alloc_id(1), task: task.map(str::to_string), signal: signal.into() }
}

/// Tasks that run, with a policy that allows no restart.
fn running(tasks: &[&str]) -> World {
    let tasks: Vec<Task> =
        tasks.iter().map(|name| Task { restart: restart(0, RestartMode::Fail), ..task(name) }).collect();
    let mut w = World::new(&[assignment(1, &tasks)]);
    w.pass(s(2));
    w.take_trace();
    w
}

fn besides_reports(w: &mut World) -> Vec<String> {
    w.take_trace().into_iter().filter(|t| !t.starts_with("report")).collect()
}

#[test]
fn a_requested_restart_ignores_the_restart_policy() {
    let mut w = running(&["web"]);
    for n in 1..=3 {
        assert_eq!(w.ask(restarting(one("web"))), Ok(DONE));
        w.pass(s(2));
        let (old, new) = (format!("web#{n}"), format!("web#{}", n + 1));
        let trace = [format!("stop {old} 2 5s"), format!("start {new}"), format!("forget {old}")];
        assert_eq!(besides_reports(&mut w), trace);
    }
    let state = w.task(1, "web");
    assert_eq!((state.restarts, state.failed), (3, false));
    assert_eq!(w.events(1, "web")[6..], ["Restart Signaled", "Terminated", "Restarting", "Started"]);
    let told: Vec<&str> = state.events[6..9].iter().map(|e| e.message.as_str()).collect();
    assert_eq!(told[0], "User requested task to restart");
    assert_eq!(told[2], "Task restarting in 0s");
    w.exit("web", 1);
    w.pass(s(2));
    assert_eq!(w.status(1), "failed", "the policy still allows none");
}

/// The agent dies at each turn of a restart: the run ends once, and is followed by one.
#[test]
fn a_restart_is_neither_lost_nor_doubled_by_a_crash() {
    for scope in [one("web"), RestartScope::Running, RestartScope::All] {
        for (steps, slow_start) in (0..12).flat_map(|steps| [(steps, 0), (steps, 2)]) {
            let mut w = running(&["web"]);
            w.slow_start = slow_start;
            assert_eq!(w.ask(restarting(scope.clone())), Ok(DONE));
            for _ in 0..steps {
                w.step();
            }
            w.crash_agent();
            w.pass(s(120));
            assert_eq!(w.living(), ["web#2"], "{scope:?}, {steps} steps, {slow_start}");
            assert_eq!((w.status(1), w.task(1, "web").restarts), ("running", 1), "{scope:?}, {steps}");
        }
    }
}

#[test]
fn a_restart_survives_a_stubborn_task_and_an_agent_crash() {
    let mut w = running(&["web"]);
    w.stubborn = vec!["web".into()];
    assert_eq!(w.ask(restarting(one("web"))), Ok(DONE));
    assert_eq!(w.ask(restarting(RestartScope::Running)), Ok(DONE), "asked twice is asked once");
    assert_eq!(w.living(), ["web#1"]);
    w.crash_agent();
    w.pass(s(120));
    assert_eq!(w.living(), ["web#2"]);
    assert_eq!(w.task(1, "web").restarts, 1);
}

#[test]
fn a_restart_of_all_tasks_goes_through_the_lifecycle_again() {
    let tasks = [
        hooked("prepare", Hook::Prestart, false),
        hooked("proxy", Hook::Prestart, true),
        task("main"),
        hooked("clean", Hook::Poststop, false),
    ];
    for crash in [false, true] {
        let mut w = World::new(&[assignment(1, &tasks)]);
        w.brief = vec!["prepare".into()];
        w.stubborn = vec!["main".into()];
        w.pass(s(2));
        w.take_trace();
        assert_eq!(w.ask(restarting(RestartScope::All)), Ok(DONE));
        w.pass(s(1));
        assert!(w.take_trace().iter().all(|t| !t.starts_with("start")), "main still runs");
        if crash {
            w.crash_agent();
        }
        w.pass(s(120));
        let starts: Vec<String> = w.take_trace().into_iter().filter(|t| t.starts_with("start")).collect();
        assert_eq!(starts, ["start prepare#4", "start proxy#5", "start main#6"], "crash: {crash}");
        assert_eq!((w.status(1), w.living()), ("running", vec!["proxy#5".to_string(), "main#6".to_string()]));
    }
}

/// What runs beside poststop tasks would start after them.
#[test]
fn an_allocation_in_its_poststop_tasks_is_not_restarted() {
    let work = Task { restart: restart(0, RestartMode::Fail), ..task("work") };
    let mut batch = assignment(1, &[work, hooked("clean", Hook::Poststop, false)]);
    batch.job_type = JobType::Batch;
    let mut w = World::new(&[batch]);
    w.pass(s(2));
    w.exit("work", 0);
    w.pass(s(2));
    assert_eq!(w.task(1, "clean").phase, TaskPhase::Running);
    for scope in [RestartScope::All, RestartScope::Running, one("clean")] {
        let refused = w.ask(restarting(scope)).expect_err("it ends");
        assert!(refused.message.contains("has ended or is being stopped"), "{refused:?}");
    }
    w.exit("clean", 0);
    w.pass(s(2));
    assert_eq!((w.status(1), w.task(1, "work").restarts), ("complete", 0));
}

#[test]
fn a_stop_overtakes_a_restart() {
    let mut w = running(&["web"]);
    w.stubborn = vec!["web".into()];
    assert_eq!(w.ask(restarting(one("web"))), Ok(DONE));
    w.stop_alloc(1);
    w.pass(s(120));
    assert_eq!((w.living(), w.status(1)), (vec![], "complete"));
    let refused = w.ask(restarting(RestartScope::All)).expect_err("it has ended");
    assert_eq!(refused.kind, RefusalKind::Conflict);
    assert!(refused.message.contains("has ended"), "{refused}");
}

#[test]
fn signals_go_to_one_task_or_to_all_that_run() {
    let mut w = running(&["a", "b"]);
    assert_eq!(w.ask(signalling(Some("b"), "SIGHUP")), Ok(DONE));
    assert_eq!(w.take_trace(), ["signal b#2 1"]);
    assert_eq!(w.ask(signalling(None, "SIGUSR1")), Ok(DONE));
    assert_eq!(w.take_trace(), ["signal a#1 10", "signal b#2 10"]);
    w.pass(s(2));
    let last = w.task(1, "a").events.last().expect("an event").clone();
    assert_eq!((last.kind.as_str(), last.message.as_str()), ("Signaling", "Task being sent a signal"));
    assert_eq!(w.living(), ["a#1", "b#2"]);
}

#[test]
fn impossible_requests_are_refused() {
    let mut a = assignment(1, &[task("web"), task("brief")]);
    a.job_type = JobType::Batch;
    let mut w = World::new(&[a]);
    w.brief = vec!["brief".into()];
    w.pass(s(2));
    let other = alloc_id(9);
    let logs = |alloc, task: &str| {
        let (task, stream, from) = (task.to_string(), LogStream::Stdout, ReadOffset::FromStart(0));
        ClientRequest::Logs { alloc, task, stream, from, follow: false }
    };
    let unknown = format!("state for allocation {other} not found on client");
    for (ask, kind, message) in [
        (restarting(one("nope")), RefusalKind::Invalid, "unknown task name \"nope\""),
        (restarting(one("brief")), RefusalKind::Conflict, "Task not running"),
        (signalling(Some("brief"), "SIGHUP"), RefusalKind::Conflict, "Task not running"),
        (signalling(None, "HUP"), RefusalKind::Invalid, "\"HUP\" is not a signal"),
        (signalling(None, ""), RefusalKind::Invalid, "\"\" is not a signal"),
        (logs(alloc_id(1), "nope"), RefusalKind::Invalid, "unknown task name"),
        (logs(other, "web"), RefusalKind::NotFound, unknown.as_str()),
        (
            ClientRequest::Restart { alloc: other, scope: RestartScope::All },
            RefusalKind::NotFound,
            unknown.as_str(),
        ),
    ] {
        let refused = w.ask(ask.clone()).expect_err("it cannot be");
        assert_eq!(refused.kind, kind, "{ask:?}");
        assert!(refused.message.contains(message), "{ask:?}: {refused}");
    }
    assert_eq!(w.ask(logs(alloc_id(1), "web")), Ok(RequestOutcome::Files { ended: false }));
    w.drop_keeper();
    let refused = w.ask(signalling(None, "SIGHUP")).expect_err("nobody is there to do it");
    assert_eq!(refused.kind, RefusalKind::Unavailable);
}

#[test]
fn ended_allocations_are_collected_when_that_is_asked_for() {
    let mut w = World::new(&[assignment(1, &[task("web")]), assignment(2, &[task("web")])]);
    w.pass(s(2));
    let collect = |alloc| ClientRequest::GarbageCollect { alloc };
    let refused = w.ask(collect(Some(alloc_id(1)))).expect_err("it runs");
    assert!(refused.message.contains("has not ended"), "{refused}");
    assert_eq!(w.ask(collect(None)), Ok(DONE));
    assert_eq!(w.client().status().allocs.len(), 2, "both run");
    w.stop_alloc(1);
    w.stop_alloc(2);
    w.pass(s(2));
    w.take_trace();
    assert_eq!(w.ask(collect(Some(alloc_id(1)))), Ok(DONE));
    w.pass(s(2));
    assert_eq!((w.take_trace(), w.client().status().allocs.len()), (vec!["remove dir".to_string()], 1));
    assert_eq!(w.ask(collect(None)), Ok(DONE));
    w.crash_agent();
    w.pass(s(2));
    assert_eq!(w.client().status().allocs.len(), 0, "what was promised is done after a crash");
}

#[test]
fn metadata_that_is_set_is_stored_and_reported() {
    let mut w = World::new(&[]);
    w.pass(s(2));
    let set = |key: &str, value: Option<&str>| {
        let changes = [(key.to_string(), value.map(str::to_string))].into();
        ClientRequest::SetMetadata { changes }
    };
    let meta = |w: &mut World| match w.ask(ClientRequest::Metadata) {
        Ok(RequestOutcome::Answer(ClientReply::Metadata { meta, dynamic, .. })) => (meta, dynamic),
        other => panic!("{other:?}"),
    };
    let registrations = w.registrations;
    assert!(w.ask(set("rack", Some("r1"))).is_ok());
    w.pass(s(15));
    assert_eq!(w.registrations, registrations + 1, "the servers are told");
    w.crash_agent();
    w.pass(s(2));
    assert_eq!(meta(&mut w).0, [("rack".to_string(), "r1".to_string())].into());
    assert!(w.ask(set("rack", None)).is_ok());
    assert_eq!(meta(&mut w), ([].into(), [].into()), "what only was set is gone");
    for key in ["", "a b", "a\0", &"x".repeat(201)] {
        assert_eq!(w.ask(set(key, Some("v"))).map_err(|r| r.kind), Err(RefusalKind::Invalid), "{key:?}");
    }
    let long = "x".repeat(1 << 20);
    assert_eq!(w.ask(set("long", Some(&long))).map_err(|r| r.kind), Err(RefusalKind::Invalid));
    let syncs = w.disk.syncs();
    assert!(w.ask(set("nothing", None)).is_ok());
    assert_eq!(w.disk.syncs(), syncs, "no change, no write");
}

#[test]
fn a_session_is_the_tasks_own_process_in_all_but_its_command() {
    let own = Task { user: "web".into(), ..task("web") };
    let mut w = World::new(&[assignment(1, &[own, task("brief")])]);
    w.brief = vec!["brief".into()];
    w.pass(s(2));
    let exec = |task: &str, command: &[&str]| {
        let command = command.iter().map(|c| c.to_string()).collect();
        ClientRequest::Exec { alloc: alloc_id(1), task: task.into(), command, tty: false }
    };
    let Ok(RequestOutcome::Session { run, spec }) = w.ask(exec("web", &["ls", "-l"])) else {
        panic!("refused")
    };
    assert_eq!(Some(run), w.processes.iter().find(|p| p.label == "web").map(|p| p.run));
    assert_eq!(
        (spec.command.as_str(), &spec.args[..], spec.user.as_str()),
        ("ls", &["-l".to_string()][..], "web")
    );
    assert!(spec.cwd.ends_with("/web") && spec.logs.is_none(), "{spec:?}");
    assert!(spec.env.iter().any(|(k, v)| k == "NOMAD_TASK_NAME" && v == "web"));
    for (ask, kind) in [
        (exec("brief", &["ls"]), RefusalKind::NotFound),
        (exec("nope", &["ls"]), RefusalKind::Invalid),
        (exec("web", &[]), RefusalKind::Invalid),
    ] {
        assert_eq!(w.ask(ask.clone()).map_err(|r| r.kind), Err(kind), "{ask:?}");
    }
    w.config.remote_exec = false;
    w.crash_agent();
    w.pass(s(2));
    let refused = w.ask(exec("web", &["ls"])).expect_err("switched off");
    assert_eq!(refused.kind, RefusalKind::Forbidden);
    assert!(refused.message.contains("disable_remote_exec"), "{refused}");
}

#[test]
fn an_action_is_what_the_task_that_runs_says_it_is() {
    let action = |name: &str, command: &str, args: &[&str]| TaskAction {
        name: name.into(),
        command: command.into(),
        args: args.iter().map(ToString::to_string).collect(),
    };
    let actions = vec![
        action("show", "${NOMAD_TASK_DIR}/show", &["${NOMAD_TASK_NAME}", "${node.class}", "${n} $X"]),
        action("huge", "x", &[&"x".repeat(1 << 20)]),
    ];
    let own = Task { actions, ..task("web") };
    let mut w = World::new(&[assignment(1, &[own.clone(), task("plain")])]);
    w.pass(s(2));
    let ask = |task: &str, action: &str| ClientRequest::Action {
        alloc: alloc_id(1),
        task: task.into(),
        action: action.into(),
        tty: false,
    };
    let Ok(RequestOutcome::Session { spec, .. }) = w.ask(ask("web", "show")) else { panic!("refused") };
    assert_eq!(spec.command, format!("/allocs/{}/web/local/show", alloc_id(1)));
    assert_eq!(spec.args, ["web", "", "${n} $X"]);
    for (ask, kind, part) in [
        (
            ask("web", "nope"),
            RefusalKind::NotFound,
            "\"nope\" not found; there are: show (task web), huge (task web)",
        ),
        (ask("plain", "show"), RefusalKind::NotFound, "\"show\" not found: there are none"),
        (ask("nope", "show"), RefusalKind::Invalid, "unknown task name"),
        (ask("web", "huge"), RefusalKind::Conflict, "at most 524288 can be handed on"),
    ] {
        let refused = w.ask(ask.clone()).expect_err("it cannot be");
        assert!(refused.kind == kind && refused.message.contains(part), "{ask:?}: {refused:?}");
    }
}

#[test]
fn as_many_ended_allocations_are_kept_as_the_configuration_says() {
    let assigned: Vec<_> = (1..=5).map(|n| assignment(n, &[task("web")])).collect();
    let mut w = World::new(&assigned);
    w.config.max_ended = 2;
    w.crash_agent();
    w.pass(s(2));
    (1..=5).for_each(|n| w.stop_alloc(n));
    w.pass(s(5));
    assert_eq!(w.client().status().allocs.len(), 2);
}
