//! A node that is not heard of for a while, and comes back: what `disconnect` says of its work.

use crate::node::{Node, is_alive, path, shell_job, text};
use crate::wait;
use serde_json::{Value, json};

/// An agent whose node is given up, or disconnected, after two seconds.
fn impatient() -> Node {
    let mut node = Node::new();
    let text = format!(
        "data_dir = \"{}\"\nbind_addr = \"127.0.0.1\"\nports {{ http = {} }}\n\
         server {{\n enabled = true\n bootstrap_expect = 1\n min_heartbeat_ttl = \"1s\"\n heartbeat_grace = \"1s\"\n}}\n\
         client {{ enabled = true }}\nplugin \"raw_exec\" {{\n config {{ enabled = true }}\n}}\n",
        path(&node.data_dir()),
        node.port
    );
    node.write("agent.hcl", &text);
    node.start();
    node
}

/// The node says nothing, until it was missed once more.
fn be_silent(node: &Node) {
    let before = missed_heartbeats(node);
    let held = node.hold_thread("client");
    wait::until("the servers miss the node", || (missed_heartbeats(node) > before).then_some(()));
    drop(held);
}

fn missed_heartbeats(node: &Node) -> usize {
    let id = node.get("/v1/nodes").json()[0]["ID"].clone();
    let events = node.get(&format!("/v1/node/{}", text(&id))).json()["Events"].clone();
    let missed = |e: &&Value| e["Message"] == "Node heartbeat missed";
    events.as_array().expect("events").iter().filter(missed).count()
}

fn patient_job(id: &str, disconnect: Value) -> Value {
    let mut job = shell_job(id, "echo pid $$; exec sleep 1000");
    job["TaskGroups"][0]["Disconnect"] = disconnect;
    job
}

fn statuses(node: &Node, alloc: &str) -> Vec<String> {
    let alloc = node.get(&format!("/v1/allocation/{alloc}")).json();
    let states = alloc["AllocStates"].as_array().cloned().unwrap_or_default();
    states.iter().map(|s| text(&s["Value"]).to_string()).collect()
}

#[test]
fn a_disconnected_allocation_is_unknown_and_runs_on() {
    let node = impatient();
    let hour = 3_600_000_000_000_u64;
    node.register(&patient_job("stays", json!({"LostAfter": hour, "Replace": false})));
    let (alloc, pid) = (node.await_alloc("stays", "running"), node.await_pid("stays"));
    let id = text(&alloc["ID"]);
    for silence in 1..=2 {
        be_silent(&node);
        wait::until("it was unknown and is known again", || {
            let unknown = statuses(&node, id).iter().filter(|s| *s == "unknown").count() == silence;
            (unknown && node.allocs("stays")[0]["ClientStatus"] == "running").then_some(())
        });
        wait::until("the node is ready", || {
            (node.get("/v1/nodes").json()[0]["Status"] == "ready").then_some(())
        });
    }
    let allocs = node.allocs("stays");
    assert_eq!((allocs.len(), text(&allocs[0]["ID"])), (1, id));
    assert!(is_alive(pid), "a silence is no reason to end a process");
}

#[test]
fn an_allocation_without_disconnect_is_lost_and_replaced() {
    let node = impatient();
    node.run("goes", "echo pid $$; exec sleep 1000");
    let alloc = node.await_alloc("goes", "running");
    let pid = node.await_pid("goes");
    be_silent(&node);
    wait::until("another is running, and the first has ended", || {
        let allocs = node.allocs("goes");
        let other = |a: &&Value| a["ID"] != alloc["ID"] && a["ClientStatus"] == "running";
        (allocs.iter().find(other).is_some() && !is_alive(pid)).then_some(())
    });
    let first = node.get(&format!("/v1/allocation/{}", text(&alloc["ID"]))).json();
    assert_eq!(text(&first["DesiredStatus"]), "stop");
    let line =
        format!("[WARN]  nomad.heartbeat: node TTL expired: node_id={} status=down", text(&first["NodeID"]));
    assert!(node.printed().contains(&line), "{line}\n{}", node.printed());
}
