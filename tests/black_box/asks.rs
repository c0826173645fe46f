//! What a user asks of a node about an allocation that runs there.

use crate::node::{Node, shell_job, text};
use crate::wait;
use serde_json::{Value, json};

/// A task that tells its pid and what it is sent.
const LISTENER: &str = "trap 'echo got HUP' HUP; echo pid $$; while :; do sleep 0.05; done";

fn pids(node: &Node, job: &str) -> Vec<String> {
    node.stdout(job).lines().filter_map(|l| l.strip_prefix("pid ")).map(str::to_string).collect()
}

fn running(node: &Node, script: &str) -> String {
    node.run("job", script);
    let id = text(&node.await_alloc("job", "running")["ID"]).to_string();
    node.await_pid("job");
    id
}

fn events(node: &Node, alloc: &str) -> Vec<String> {
    let alloc = node.get(&format!("/v1/allocation/{alloc}")).json();
    let events = alloc["TaskStates"]["t"]["Events"].as_array().cloned().unwrap_or_default();
    events.iter().map(|e| text(&e["Type"]).to_string()).collect()
}

#[test]
fn tasks_are_restarted_and_signalled_where_they_run() {
    let node = Node::dev();
    let id = running(&node, LISTENER);
    let short = &id[..8];
    node.drover(&["alloc", "signal", "-s", "SIGHUP", short, "t"]).exits(0);
    wait::until("the signal arrives", || node.stdout("job").contains("got HUP").then_some(()));
    node.drover(&["alloc", "restart", "-task", "t", short]).exits(0);
    wait::until("a second process", || (pids(&node, "job").len() == 2).then_some(()));
    node.drover(&["alloc", "restart", "-all-tasks", short]).exits(0);
    wait::until("a third process", || (pids(&node, "job").len() == 3).then_some(()));
    wait::until("the node has told of it", || {
        let told = events(&node, &id);
        (told.iter().filter(|e| *e == "Restart Signaled").count() == 2 && told.last()? == "Started")
            .then_some(())
    });
    let alloc = node.await_alloc("job", "running");
    assert_eq!((text(&alloc["ID"]), &alloc["TaskStates"]["t"]["Restarts"]), (id.as_str(), &Value::from(2)));
    assert_eq!(
        node.put(&format!("/v1/client/allocation/{id}/restart"), &json!({})).json(),
        json!({"Index": 0})
    );
    // without a name: SIGKILL, and this job may not restart by itself
    node.drover(&["alloc", "signal", short]).exits(0);
    node.await_alloc("job", "failed");
    node.drover(&["alloc", "restart", short]).fails(1, "has ended");
}

#[test]
fn what_cannot_be_asked_is_refused_with_its_status() {
    let node = Node::dev();
    let id = running(&node, LISTENER);
    for (what, body, status, sentence) in [
        ("restart", json!({"TaskName": "nope"}), 400, "unknown task name \"nope\""),
        ("restart", json!({"TaskName": "t", "AllTasks": true}), 400, "cannot be set"),
        ("signal", json!({"Signal": "SIGNOTHING"}), 400, "is not a signal"),
        ("signal", json!({"Signal": "SIGHUP", "Task": "nope"}), 400, "unknown task name"),
    ] {
        let answer = node.put(&format!("/v1/client/allocation/{id}/{what}"), &body);
        assert_eq!(answer.status, status, "{what} {body}: {}", answer.text());
        assert!(answer.text().contains(sentence), "{what} {body}: {}", answer.text());
    }
    node.drover(&["alloc", "restart", "-task", "t", &id, "t"]).fails(1, "named twice");
    node.drover(&["alloc", "restart", "-all-tasks", &id, "t"]).fails(1, "exclude each other");
    node.drover(&["alloc", "signal", "ffffffff"]).fails(1, "No allocation(s)");
}

/// What was acknowledged happens once, also when the agent is killed right after it.
#[test]
fn a_restart_that_was_promised_outlives_the_agent() {
    let mut node = Node::durable();
    let mut job = shell_job("job", "trap '' INT; echo pid $$; while :; do sleep 0.05; done");
    job["TaskGroups"][0]["Tasks"][0]["KillTimeout"] = json!(2_000_000_000_u64);
    node.register(&job);
    let id = text(&node.await_alloc("job", "running")["ID"]).to_string();
    let first = node.await_pid("job");
    node.drover(&["alloc", "restart", &id]).exits(0);
    node.kill();
    assert!(crate::node::is_alive(first), "it does not hear SIGINT");
    node.start();
    wait::until("a second process", || (pids(&node, "job").len() == 2).then_some(()));
    wait::until("the node has told of it", || {
        (node.allocs("job")[0]["TaskStates"]["t"]["Restarts"] == 1).then_some(())
    });
    assert!(!crate::node::is_alive(first));
    assert_eq!(node.allocs("job").len(), 1);
}
