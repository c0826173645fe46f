//! What operators do: older versions brought back, the scheduler told how to work, evaluations deleted, node pools.

use crate::node::{Node, path};
use crate::wait;
use serde_json::{Value, json};

/// A service of `count` that needs next to nothing.
fn service(id: &str, count: u32, more: &str) -> String {
    format!(
        "job {id:?} {{\n {more}\n group \"g\" {{\n count = {count}\n update {{\n health_check = \"task_states\"\n\
         min_healthy_time = \"100ms\"\n}}\n task \"t\" {{\n driver = \"raw_exec\"\n config {{\n\
         command = \"/bin/sleep\"\n args = [\"1000\"]\n}}\n resources {{\n cpu = 20\n memory = 10\n}}\n}}\n}}\n}}\n"
    )
}

fn run(node: &Node, id: &str, count: u32) {
    let file = node.write(&format!("{id}-{count}.nomad.hcl"), &service(id, count, ""));
    node.drover(&["job", "run", path(&file)]).exits(0);
}

fn running(node: &Node, id: &str) -> usize {
    node.allocs(id).iter().filter(|a| a["ClientStatus"] == "running" && a["DesiredStatus"] == "run").count()
}

#[test]
fn an_older_version_comes_back_and_what_cannot_is_told() {
    let node = Node::dev();
    run(&node, "web", 1);
    run(&node, "web", 2);
    let said = node.drover(&["job", "revert", "web", "0"]);
    assert!(said.exits(0).contains("Monitoring evaluation"), "{said:?}");
    wait::until_eq("one of two is left", &1, || running(&node, "web"));
    assert_eq!(node.get("/v1/job/web").json()["Version"], 2);
    let text = node.get("/v1/job/web/submission?version=2").json()["Source"].to_string();
    assert!(text.contains("count = 1"), "the text comes along: {text}");
    for (version, why) in [
        ("2", "can't revert to current version"),
        ("7", "job \"web\" in namespace \"default\" at version 7 not found"),
        ("gold", "not supported yet: tags of versions"),
    ] {
        node.drover(&["job", "revert", "web", version]).fails(1, why);
    }
    node.drover(&["job", "revert", "web"]).fails(1, "takes two arguments");
    node.drover(&["job", "revert", "nosuch", "0"]).fails(1, "No job(s) with prefix or ID \"nosuch\" found");
    let detached = node.drover(&["job", "revert", "-detach", "web", "1"]);
    assert!(detached.exits(0).starts_with("Evaluation ID: "), "{detached:?}");

    let stable = json!({"JobID": "web", "JobVersion": 1, "Stable": true});
    assert_eq!(node.put("/v1/job/web/stable", &stable).status, 200);
    let versions = node.get("/v1/job/web/versions").json();
    let good = |v: &Value| v["Version"] == 1 && v["Stable"] == true;
    assert!(versions["Versions"].as_array().into_iter().flatten().any(good), "{versions}");
}

#[test]
fn a_deployment_that_waits_for_no_other_region_is_not_unblocked() {
    let node = Node::dev();
    run(&node, "web", 1);
    let id = node.get("/v1/job/web/deployment").json()["ID"].as_str().unwrap_or_default().to_string();
    node.drover(&["deployment", "unblock", &id[..8]]).fails(1, "can't unblock terminal deployment");
    node.drover(&["deployment", "unblock", "12345678"]).fails(1, "No deployment(s) with prefix or id");
}
