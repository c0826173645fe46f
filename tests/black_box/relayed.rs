//! What a node alone can answer, asked at agents of other machines: it goes over the links that the machines have anyway.

use crate::exec::types_into;
use crate::node::{is_alive, text};
use crate::region::within;
use crate::roles::{Machine, server_and_node, three_servers_and_node};
use crate::{wait, web};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

const SAYS: &str = "echo pid $$; trap 'echo got it' HUP; while :; do sleep 0.05; done";

/// A running allocation of job `web` on the node.
fn runs_at(asked: &Machine, node: &Machine) -> (String, i32) {
    asked.registers("web", SAYS);
    let id = text(&asked.runs("web")["ID"]).to_string();
    (id, node.node.await_pid("web"))
}

/// The one of the three that the node has no link to.
fn without_link<'a>(servers: &'a [Machine; 3], node: &Machine) -> &'a Machine {
    let printed = node.node.printed();
    let is_linked = |server: &&Machine| printed.contains(&format!("address=127.0.0.1:{}", server.rpc));
    servers.iter().find(|server| !is_linked(server)).expect("a node has one link")
}

#[test]
fn any_server_answers_for_a_node_that_another_one_is_linked_to() {
    let (servers, node) = three_servers_and_node();
    let (id, pid) = runs_at(&servers[0], &node);
    let asked = without_link(&servers, &node);
    asked.runs("web");
    let drover = |words: &[&str]| asked.node.drover(words);
    assert!(drover(&["alloc", "logs", &id]).exits(0).contains(&format!("pid {pid}")));
    assert!(drover(&["alloc", "fs", &id]).exits(0).contains("alloc/"));
    assert!(drover(&["alloc", "fs", &id, "alloc/logs/t.stdout.0"]).exits(0).contains("pid"));
    let node_id = text(&servers[0].runs("web")["NodeID"]).to_string();
    assert!(drover(&["node", "status", "-stats", &node_id]).exits(0).contains("CPU"));
    drover(&["alloc", "signal", "-s", "SIGHUP", &id]).exits(0);
    within("the signal has come", || drover(&["alloc", "logs", &id]).out.contains("got it").then_some(()));
    drover(&["alloc", "restart", &id]).exits(0);
    within("another process runs", || {
        node.told_pids().into_iter().find(|told| *told != pid && is_alive(*told))
    });
    let refused = web::send(asked.node.port, "GET", &format!("/v1/client/fs/cat/{id}?path=none"), "");
    assert_eq!(refused.status, 404, "its own status comes back: {}", refused.text());
    let metadata = web::send(asked.node.port, "GET", &format!("/v1/client/metadata?node_id={node_id}"), "");
    assert!(metadata.status == 200 && metadata.json()["Meta"].is_object(), "{}", metadata.text());
}

#[test]
fn a_session_passes_input_and_status_through_other_servers() {
    let (servers, node) = three_servers_and_node();
    let (id, _) = runs_at(&servers[0], &node);
    let asked = without_link(&servers, &node);
    asked.runs("web");
    let cat = asked.node.drover_command(&["alloc", "exec", &id, "sh", "-c", "cat; echo end; exit 42"]);
    assert_eq!(types_into(cat).code(), Some(42));
    let much = ["alloc", "exec", &id, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"];
    let much = asked.node.drover(&much);
    assert_eq!((much.code, much.out.len()), (0, 3_000_000), "no byte is lost");
    let script = "test -t 0 && echo a terminal; read line; echo got $line";
    let mut shell = asked.node.drover_command(&["alloc", "exec", "-t=true", &id, "sh", "-c", script]);
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    shell.stdin.take().expect("a pipe").write_all(b"word\r").expect("typed");
    let mut said = String::new();
    shell.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(said.contains("a terminal") && said.contains("got word"), "{said}");
    assert!(shell.wait().expect("its end").success());
}

/// Nobody is left behind when a user goes away.
#[test]
fn what_is_followed_ends_with_its_reader() {
    let (server, node) = server_and_node();
    let (id, _) = runs_at(&server, &node);
    let mut follows = server.node.drover_spawn(&["alloc", "logs", "-f", &id]);
    let mut line = String::new();
    let mut lines = BufReader::new(follows.stdout.take().expect("a pipe"));
    lines.read_line(&mut line).expect("a line");
    assert!(line.starts_with("pid "), "{line}");
    server.node.drover(&["alloc", "signal", "-s", "SIGHUP", &id]).exits(0);
    line.clear();
    lines.read_line(&mut line).expect("a line");
    assert_eq!(line, "got it\n", "it comes as it is written");
    follows.kill().expect("killed");
    follows.wait().expect("its end");
    let script = "echo $$; exec sleep 1000";
    let mut user = server.node.drover_spawn(&["alloc", "exec", "-i=false", &id, "sh", "-c", script]);
    let mut line = String::new();
    BufReader::new(user.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let pid: i32 = line.trim().parse().expect("a pid");
    assert!(is_alive(pid));
    user.kill().expect("killed");
    user.wait().expect("its end");
    wait::until("the command ends with its user", || (!is_alive(pid)).then_some(()));
}

#[test]
fn a_nodes_agent_answers_for_another_node_through_its_server() {
    let (server, node) = server_and_node();
    let (id, pid) = runs_at(&server, &node);
    let mut other = Machine::new();
    other.start_node(&[server.rpc], "");
    within("the second node is ready", || {
        let nodes = other.get("/v1/nodes")?;
        let ready = nodes.as_array()?.iter().filter(|node| node["Status"] == "ready").count();
        (ready == 2).then_some(())
    });
    assert!(other.node.drover(&["alloc", "logs", &id]).exits(0).contains(&format!("pid {pid}")));
    let exec = other.node.drover(&["alloc", "exec", &id, "sh", "-c", "echo in it; exit 3"]);
    assert_eq!((exec.code, exec.out.as_str()), (3, "in it\n"));
    let node_id = text(&server.runs("web")["NodeID"]).to_string();
    let other_id = server.get("/v1/nodes").and_then(|nodes| {
        let ids = nodes.as_array()?.iter().map(|node| text(&node["ID"]).to_string()).collect::<Vec<_>>();
        ids.into_iter().find(|id| *id != node_id)
    });
    let other_id = other_id.expect("there are two nodes");
    for (asked, meant) in [(&other, &node_id), (&server, &other_id), (&node, &other_id)] {
        let target = format!("/v1/client/stats?node_id={meant}");
        let stats = web::send(asked.node.port, "GET", &target, "");
        assert!(stats.status == 200 && stats.json()["Memory"].is_object(), "{}", stats.text());
    }
    let mut log = web::open(
        server.node.port,
        "GET",
        &format!("/v1/agent/monitor?node_id={other_id}&log_level=trace"),
        "",
    )
    .expect("it is connected");
    let (status, _) = web::read_head(&mut log).expect("a head");
    assert_eq!(status, 200);
    assert!(web::read_chunk(&mut log).expect("a chunk").is_some());
}

#[test]
fn a_node_that_is_away_is_told_of() {
    let (server, mut node) = server_and_node();
    let (id, _) = runs_at(&server, &node);
    node.node.kill();
    within("its server has no path to it", || {
        let said = server.node.drover(&["alloc", "logs", &id]);
        (said.code == 1 && said.err.contains("No path to node")).then_some(())
    });
    let body = json!({"Signal": "SIGHUP"}).to_string();
    let target = format!("/v1/client/allocation/{id}/signal");
    let refused = web::send(server.node.port, "PUT", &target, &body);
    assert_eq!((refused.status, refused.text().as_str()), (404, "No path to node"));
}
