//! `agent -dev`: every example runs as its comment says; the tasks, the keeper and the directory end with the agent,
//! whatever ends it.

use crate::node::{self, Node, is_alive, text};
use crate::wait;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

/// File, job, client status of its allocations (empty: it has none, and makes other jobs), and for each task what it says.
type Example = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const EXAMPLES: &[Example] = &[
    ("actions", "counter", "running", &[("count", "counting\n")]),
    ("batch", "count", "complete", &[("count", "0: 5\n")]),
    ("constraints", "placed", "running", &[("where", ", amd64\n")]),
    ("dispatch", "thumbnail", "", &[]),
    (
        "dynamic",
        "sensors",
        "running",
        &[("temperature", "temperature in celsius\n"), ("humidity", "humidity in percent\n")],
    ),
    ("environment", "environment", "running", &[("show", "in dc1/cellar, owned by everybody, an example\n")]),
    ("graceful-stop", "graceful", "running", &[("serve", "serving\n")]),
    ("hello", "hello", "running", &[("hello", "hello from drover\n")]),
    ("lifecycle", "lifecycle", "running", &[("prepare", "prepared\n"), ("watch", "state: step ")]),
    ("logs", "talkative", "running", &[("talk", "line 100\n")]),
    ("periodic", "backup", "", &[]),
    ("restart", "flaky", "running", &[("flaky", "working\n")]),
    ("rollout", "rollout", "running", &[("serve", "the first version\n")]),
    ("scaling", "workers", "running", &[("work", "worker 0\n")]),
    ("system", "watcher", "running", &[("watch", "watching dc1\n")]),
    ("variables", "greeter", "running", &[("greet", "Good Morning! ATTIC, CELLAR\n")]),
];

#[test]
fn every_example_is_listed_here() {
    let entries = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/config/examples")).expect("examples");
    let names = entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.map(|n| n.replace(".nomad.hcl", "")).collect();
    names.sort();
    assert_eq!(names, EXAMPLES.iter().map(|e| e.0).collect::<Vec<_>>());
}

#[test]
fn the_examples_run_with_one_command() {
    let files: Vec<String> = EXAMPLES.iter().map(|e| format!("config/examples/{}.nomad.hcl", e.0)).collect();
    let args: Vec<&str> = files.iter().flat_map(|f| ["-job", f.as_str()]).collect();
    let mut node = Node::new();
    node.start_dev(&args);
    node.await_ready();
    for (_, job, status, tasks) in EXAMPLES {
        wait::until("the job is registered", || {
            (node.get(&format!("/v1/job/{job}")).status == 200).then_some(())
        });
        if status.is_empty() {
            assert_eq!(node.get(&format!("/v1/job/{job}")).json()["Status"], "running");
            continue;
        }
        let alloc = node.await_alloc(job, status);
        for (task, says) in *tasks {
            let id = text(&alloc["ID"]);
            wait::until(&format!("{task} of {job} says {says:?}"), || {
                let allocs = node.allocs(job);
                allocs.iter().any(|a| output(&node, text(&a["ID"]), task).contains(says)).then_some(())
            });
            assert!(!id.is_empty());
        }
    }
    let last = format!("==> HTTP API: http://127.0.0.1:{}; Ctrl-C stops the agent and its tasks", node.port);
    wait::until("the last word is said", || node.printed().contains(&last).then_some(()));
    node.signal(Signal::INT);
    let (status, printed) = node.await_end();
    assert!(status.success(), "{status}: {printed}");
    assert_eq!(node.processes(), [0; 0]);
    assert_eq!(node.throw_away(), [""; 0].map(std::path::PathBuf::from));
}

fn output(node: &Node, alloc: &str, task: &str) -> String {
    let answer = node.get(&format!("/v1/client/fs/logs/{alloc}?task={task}&type=stdout&plain=true"));
    if answer.status == 200 { answer.text() } else { String::new() }
}

#[test]
fn the_start_is_told_in_the_known_layout() {
    let mut node = Node::new();
    node.start_dev(&["-job", "config/examples/hello.nomad.hcl"]);
    node.await_ready();
    wait::until("the job runs", || node.printed().contains(r#"Job "hello": 1 running"#).then_some(()));
    let printed = node.printed();
    let at = |line: &str| printed.find(line).unwrap_or_else(|| panic!("no {line:?} in: {printed}"));
    assert!(printed.starts_with("==> drover agent configuration:\n\n"), "{printed}");
    let bound = format!("        Bind Addrs: HTTP: 127.0.0.1:{}\n", node.port);
    let order = [
        at(&bound),
        at("         Log Level: DEBUG\n"),
        at("            Region: global (DC: dc1)\n"),
        at("==> drover agent started! Log data will stream in below:\n"),
        at(&format!("==> HTTP API: http://127.0.0.1:{}\n", node.port)),
        at("Evaluation triggered by job \"hello\"\n"),
        at("finished with status \"complete\"\n"),
    ];
    assert!(order.is_sorted(), "{order:?}: {printed}");
    assert!(printed.contains("[DEBUG]") && !printed.contains("[TRACE]"), "{printed}");
}

#[test]
fn an_interrupt_stops_tasks_by_their_own_signal() {
    let mut node = Node::dev();
    let script = "trap 'echo bye > $NOMAD_ALLOC_DIR/../../../../bye; exit 0' INT; echo pid $$; while :; do sleep 0.1; done";
    node.run("polite", script);
    let pid = node.await_pid("polite");
    node.signal(Signal::INT);
    let (status, printed) = node.await_end();
    assert!(status.success(), "{printed}");
    assert!(!is_alive(pid));
    // beside the throw-away directory, which is gone
    let left = node.throw_away();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].ends_with("bye"), "{left:?}");
}

#[test]
fn a_second_interrupt_does_not_wait_for_a_deaf_task() {
    let mut node = Node::dev();
    // it is deaf by the time that it tells its pid
    let mut job = node::shell_job("deaf", "trap '' INT TERM; echo pid $$; while :; do sleep 0.1; done");
    job["TaskGroups"][0]["Tasks"][0]["KillTimeout"] = Value::from(25_000_000_000_u64);
    node.register(&job);
    let pid = node.await_pid("deaf");
    node.signal(Signal::INT);
    wait::until("the interrupt was heard", || {
        node.printed().contains("==> Stopping the agent and its tasks").then_some(())
    });
    assert!(is_alive(pid));
    node.signal(Signal::INT);
    let (status, printed) = node.await_end();
    assert_eq!(status.code(), Some(1), "{printed}");
    assert!(printed.contains("stopped by a second signal"), "{printed}");
    wait::until("nothing is left", || node.processes().is_empty().then_some(()));
    assert!(node.throw_away().is_empty());
}

#[test]
fn a_killed_dev_agent_leaves_nothing() {
    let mut node = Node::dev();
    node.run("orphan", "trap '' INT TERM HUP; echo pid $$; sleep 1000 & wait; sleep 1000");
    let pid = node.await_pid("orphan");
    node.kill();
    wait::until("the tasks and the keeper are gone", || node.processes().is_empty().then_some(()));
    assert!(!is_alive(pid));
    assert!(node.throw_away().is_empty(), "nor its directory");
}

#[test]
fn a_refused_job_ends_the_agent_with_a_sentence() {
    let mut node = Node::new();
    let file = node.write("bad.nomad.hcl", "job \"bad\" {\n  group \"g\" {\n    cuont = 2\n  }\n}\n");
    node.start_dev(&["-job", node::path(&file)]);
    let (status, printed) = node.await_end();
    assert_eq!(status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("cuont") && printed.contains("count") && printed.contains(":3,5-10:"),
        "{printed}"
    );
    assert!(node.processes().is_empty());
    assert!(node.throw_away().is_empty());
}

#[test]
fn a_taken_port_is_told() {
    let first = Node::dev();
    let mut second = Node::new();
    second.port = first.port;
    second.configure("");
    second.start_dev(&[]);
    let (status, printed) = second.await_end();
    assert_eq!(status.code(), Some(1), "{printed}");
    assert!(printed.contains(&format!("127.0.0.1:{} is in use", first.port)), "{printed}");
    assert!(second.throw_away().is_empty(), "{:?}", second.throw_away());
}
