//! What a configuration says is what the agent does: at its start, on SIGHUP, and by the names of what it does not do.

use crate::node::{Node, path, text};
use crate::wait;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

const KEYS: &str = r#"
    name = "board-7"
    region = "eu"
    datacenter = "cellar"
    advertise { http = "board-7.local" }
    http_api_response_headers { X-Extra = "one" }
    enable_debug = true
    telemetry {
      prometheus_metrics = true
      publish_node_metrics = true
      use_node_name = true
      prefix_filter = ["-nomad.nomad"]
    }
    server {
      enable_event_broker = false
      job_max_priority = 200
      search { fuzzy_enabled = false }
    }
    client {
      node_class = "small"
      node_pool = "edge"
      meta { rack = "r1" }
      cpu_total_compute = 3000
      memory_total_mb = 500
      disk_total_mb = 2000
      disk_free_mb = 1000
      reserved { cpu = 100 memory = 64 disk = 5 }
      disable_remote_exec = true
      gc_max_allocs = 1
      node_max_allocs = 7
    }
"#;

fn configured(more: &str) -> Node {
    let mut node = Node::new();
    node.configure(more);
    node.start();
    node
}

fn node_shown(node: &Node) -> Value {
    let id = text(&node.get("/v1/nodes").json()[0]["ID"]).to_string();
    node.get(&format!("/v1/node/{id}")).json()
}

#[test]
fn the_servers_address_is_shown_as_it_is_configured() {
    let node = configured("ports { rpc = 24647 }");
    let shown = |node: &Node, target: &str| node.get(target).json().to_string();
    wait::until("the node has a server", || {
        shown(&node, "/v1/agent/self").contains(r#""known_servers":"127.0.0.1:24647""#).then_some(())
    });
    for target in
        ["/v1/status/leader", "/v1/status/peers", "/v1/agent/servers", "/v1/operator/raft/configuration"]
    {
        assert!(shown(&node, target).contains("127.0.0.1:24647"), "{target}: {}", shown(&node, target));
    }
    assert_eq!(node.get("/v1/agent/members").json()["Members"][0]["Port"], 24_647);
    let told = configured(r#"advertise { rpc = "board-7.local:9" }"#);
    assert_eq!(told.get("/v1/status/leader").json(), "board-7.local:9");
}

#[test]
fn the_agent_is_as_it_is_configured() {
    let node = configured(KEYS);
    let shown = wait::until("the node is described", || {
        node.get("/v1/nodes").json().get(0).is_some().then(|| node_shown(&node))
    });
    for (pointer, expected) in [
        ("/Name", Value::from("board-7")),
        ("/Datacenter", "cellar".into()),
        ("/NodeClass", "small".into()),
        ("/NodePool", "edge".into()),
        ("/Meta/rack", "r1".into()),
        ("/NodeResources/Cpu/CpuShares", 3000.into()),
        ("/NodeResources/Memory/MemoryMB", 500.into()),
        ("/NodeResources/Disk/DiskMB", 1000.into()),
        ("/ReservedResources/Cpu/CpuShares", 100.into()),
        ("/ReservedResources/Memory/MemoryMB", 64.into()),
        ("/ReservedResources/Disk/DiskMB", 5.into()),
        ("/NodeMaxAllocs", 7.into()),
        ("/Attributes/unique.storage.bytestotal", (2000_u64 << 20).to_string().into()),
    ] {
        assert_eq!(shown.pointer(pointer), Some(&expected), "{pointer}: {shown:#}");
    }
    assert_eq!(shown["HTTPAddr"], format!("board-7.local:{}", node.port));
    let answer = node.get("/v1/regions");
    assert_eq!((answer.json(), answer.headers["x-extra"].as_str()), (serde_json::json!(["eu"]), "one"));
    assert_eq!(node.get("/v1/agent/host").status, 200);
    assert_eq!(node.get("/v1/event/stream").status, 500);
    assert_eq!(node.put("/v1/search/fuzzy", &serde_json::json!({"Text": "web"})).status, 500);
    let metrics = node.get("/v1/metrics?format=prometheus").text();
    assert!(metrics.contains("nomad_client_uptime{") && metrics.contains("host=\"board-7\""), "{metrics}");
    assert!(!metrics.contains("nomad_nomad_"), "{metrics}");
}

#[test]
fn disable_remote_exec_and_gc_max_allocs() {
    let node = configured(
        "client {\n disable_remote_exec = true\n gc_max_allocs = 1\n}\ntelemetry { publish_allocation_metrics = true }",
    );
    node.run("long", "while :; do sleep 0.05; done");
    let alloc = text(&node.await_alloc("long", "running")["ID"]).to_string();
    node.drover(&["alloc", "exec", &alloc, "true"]).fails(1, "client.disable_remote_exec");
    let metrics = node.get("/v1/metrics").text();
    assert!(metrics.contains("nomad.client.allocs.memory.rss") && metrics.contains(&alloc), "{metrics}");
    let dirs = || fs::read_dir(node.data_dir().join("alloc")).map_or(0, Iterator::count);
    for id in ["one", "two", "three"] {
        node.run(id, "true");
        node.drover(&["job", "stop", "-detach", id]).exits(0);
    }
    wait::until("one that runs and one that ended have directories", || (dirs() == 2).then_some(()));
}

#[test]
fn a_log_file_is_written_and_rotated() {
    let log = |more: &str, node: &Node| format!("log_file = \"{}/logs/\"\n{more}", node.data_dir().display());
    let mut node = Node::new();
    node.configure(&log(
        "log_rotate_bytes = 1\nlog_rotate_max_files = 2\nlog_include_location = true",
        &node,
    ));
    node.start();
    let logs = node.data_dir().join("logs");
    let names = || -> Vec<String> {
        let names = fs::read_dir(&logs).expect("a folder").map(|e| e.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    for lines in 1..=3 {
        node.signal(Signal::HUP);
        let more = || (node.printed().matches("log level set").count() == lines).then_some(());
        wait::until("there is another line", more);
    }
    let found = wait::until("two were rotated", || Some(names()).filter(|n| n.len() == 3));
    assert_eq!(found[2], "drover.log", "{found:?}");
    let line = fs::read_to_string(logs.join("drover.log")).expect("the log");
    assert!(line.lines().count() == 1 && line.contains("src/"), "{line}");
    assert!(node.printed().contains("drover agent is up"), "stderr has it, too");
    let nowhere = node.write("nowhere.hcl", "log_file = \"/proc/nowhere/drover.log\"");
    node.drover(&["agent", "-dev", "-config", path(&nowhere)]).fails(1, "log_file /proc/nowhere/drover.log");
}

#[test]
fn a_reload_takes_over_what_it_can_and_names_the_rest() {
    let node = Node::durable();
    assert!(!node.get("/v1/regions").headers.contains_key("x-extra"));
    node.configure("log_level = \"DEBUG\"\nhttp_api_response_headers { X-Extra = \"one\" }\nregion = \"eu\"");
    node.signal(Signal::HUP);
    wait::until("the rest is named", || {
        node.printed().contains("only a restart of the agent takes it over: keys=region").then_some(())
    });
    assert!(node.printed().contains("log level set: level=DEBUG"), "{}", node.printed());
    let answer = node.get("/v1/regions");
    assert_eq!(answer.headers["x-extra"], "one");
    assert_eq!(answer.json(), serde_json::json!(["global"]));
    node.configure("log_level = \"NOISY\"");
    node.signal(Signal::HUP);
    wait::until("the mistake is told", || node.printed().contains("is not reloaded").then_some(()));
    assert_eq!(node.get("/v1/jobs").json(), Value::Array(vec![]));
}

#[test]
fn flags_that_are_not_built_are_refused_by_name() {
    let node = Node::new();
    for flag in ["-raft-protocol", "-rejoin", "-acl-enabled"] {
        node.drover(&["agent", "-dev", flag, "x"]).fails(1, &format!("not supported yet: {flag}"));
    }
}

#[test]
fn servers_that_are_named_need_a_key_that_is_made_here() {
    let node = Node::new();
    let named = ["agent", "-dev", "-retry-join", "10.0.0.2", "-bind", "10.0.0.1", "-insecure-http"];
    node.drover(&named).fails(1, "another server is named, 10.0.0.2:4647");
    node.drover(&named).fails(1, "drover operator gossip keyring generate");
    let made = node.drover(&["operator", "gossip", "keyring", "generate"]);
    let key = made.exits(0).trim();
    assert_eq!(key.len(), 44, "{key}");
    node.write(
        "key.hcl",
        &format!(
            "data_dir = \"/d\" addresses {{ http = \"127.0.0.1\" }} client {{ enabled = true }} \
             server {{ enabled = true encrypt = {key:?} }}"
        ),
    );
    let file = node.data_dir().with_file_name("key.hcl");
    node.drover(&["config", "validate", path(&file)]).exits(0);
    node.drover(&["operator", "gossip", "keyring", "list"]).fails(1, "not supported yet: operator gossip");
}

#[test]
fn a_secret_is_in_no_answer_and_in_no_line_of_the_log() {
    let secrets =
        ["bWFrZSB5b3VyIG93bjoga2V5cmluZyBnZW5lcmF0ZSE=", "bWFrZSB5b3VyIG93bjoga2V5cmluZyBnZW5lcmF0ZT8="];
    let with = |key: &str, more: &str| {
        let rpc = "addresses { rpc = \"127.0.0.77\" }";
        format!("log_level = \"TRACE\"\n{rpc}\nserver {{ encrypt = {key:?} {more} }}")
    };
    let node = configured(&with(secrets[0], ""));
    let shown = node.get("/v1/agent/self").json().to_string();
    node.configure(&with(secrets[1], ""));
    node.signal(Signal::HUP);
    wait::until("the changed key is named", || node.printed().contains("server.encrypt").then_some(()));
    node.configure(&with(secrets[1], "regoin = 1"));
    node.signal(Signal::HUP);
    wait::until("the mistake is told", || node.printed().contains("is not reloaded").then_some(()));
    for secret in secrets {
        assert!(!shown.contains(secret) && !node.printed().contains(secret), "{}", node.printed());
    }
}
