//! How a changed system job is rolled out on one machine: by its health, with canaries, and back again when it is no good.

use crate::job_file::JobFile;
use crate::node::{Node, Said, path, text};
use crate::wait;
use serde_json::Value;

/// A system job that is healthy after a tenth of a second, and fails at once or not at all.
fn watcher(script: &str, update: &str) -> String {
    let in_group = format!(
        "update {{\n min_healthy_time = \"100ms\"\n healthy_deadline = \"10s\"\n progress_deadline = \"20s\"\n {update}\n}}\n\
         restart {{\n attempts = 0\n mode = \"fail\"\n}}"
    );
    JobFile { in_job: "type = \"system\"", in_group: &in_group, ..JobFile::new("watch", script) }.text()
}

fn run(node: &Node, script: &str, update: &str) -> Said {
    let file = node.write("watch.nomad.hcl", &watcher(script, update));
    node.drover(&["job", "run", path(&file)])
}

fn start(node: &Node, script: &str, update: &str) {
    let file = node.write("watch.nomad.hcl", &watcher(script, update));
    node.drover(&["job", "run", "-detach", path(&file)]).exits(0);
}

fn latest(node: &Node) -> Value {
    node.get("/v1/job/watch/deployment").json()
}

fn await_status(node: &Node, status: &str) -> Value {
    wait::until(status, || Some(latest(node)).filter(|d| d["Status"] == status))
}

/// The versions of the allocations that run.
fn running(node: &Node) -> Vec<u64> {
    let live = |a: &Value| a["ClientStatus"] == "running" && a["DesiredStatus"] == "run";
    node.allocs("watch").iter().filter(|a| live(a)).filter_map(|a| a["JobVersion"].as_u64()).collect()
}

#[test]
fn a_rollout_is_followed_to_its_end_and_a_bad_one_comes_back() {
    let node = Node::dev();
    let said = run(&node, "sleep 1000", "auto_revert = true");
    let out = said.exits(0);
    assert!(
        out.contains("Monitoring deployment") && out.contains("Deployment completed successfully"),
        "{out}"
    );
    assert_eq!(node.get("/v1/job/watch").json()["Stable"], true);
    run(&node, "sleep 2000", "auto_revert = true").exits(0);
    assert_eq!(running(&node), [1]);
    let group = latest(&node)["TaskGroups"]["g"].clone();
    assert_eq!((&group["DesiredTotal"], &group["HealthyAllocs"]), (&1.into(), &1.into()));

    let said = run(&node, "exit 1", "auto_revert = true");
    assert_eq!(said.code, 1, "{said:?}");
    let why = "Failed due to unhealthy allocations - rolling back to job version 1";
    assert!(said.out.contains(why), "{}", said.out);
    await_status(&node, "successful");
    wait::until_eq("the old spec runs again", &vec![3], || running(&node));
    let bad = node.allocs("watch").iter().filter(|a| a["JobVersion"] == 2).count();
    assert_eq!(bad, 2, "it was tried once more");
    let evals = node.get("/v1/job/watch/evaluations").json();
    let triggers = || evals.as_array().into_iter().flatten().map(|e| text(&e["TriggeredBy"]));
    assert!(triggers().any(|t| t == "deployment-watcher"), "{evals}");
    assert!(triggers().all(|t| t != "rolling-update"), "no stagger is waited for: {evals}");
    let shown = node.drover(&["job", "status", "watch"]);
    assert!(
        shown.exits(0).contains("\nLatest Deployment\n") && shown.out.contains("\nDeployed\n"),
        "{shown:?}"
    );
}

#[test]
fn canaries_are_planned_wait_for_a_word_and_hold_nothing_else() {
    let node = Node::dev();
    run(&node, "sleep 1000", "canary = 30").exits(0);
    let first = latest(&node);
    assert_eq!((&first["TaskGroups"]["g"]["DesiredCanaries"], running(&node)), (&0.into(), vec![0]));
    let file = node.write("watch.nomad.hcl", &watcher("sleep 2000", "canary = 30"));
    let planned = node.drover(&["job", "plan", path(&file)]);
    assert!(planned.exits(1).contains("1 canary"), "{planned:?}");
    start(&node, "sleep 2000", "canary = 30");
    let deployment = wait::until("a healthy canary", || {
        let found = latest(&node);
        let healthy = found["TaskGroups"]["g"]["HealthyAllocs"] == 1 && found["JobVersion"] == 1;
        healthy.then_some(found)
    });
    let waits = "Deployment is running but requires manual promotion";
    assert_eq!((text(&deployment["StatusDescription"]), running(&node)), (waits, vec![1]));
    let id = text(&deployment["ID"]).to_string();
    let shown = node.drover(&["deployment", "status", &id]);
    assert!(shown.exits(0).contains("Promoted  Desired  Canaries"), "{shown:?}");
    node.drover(&["deployment", "pause", &id]).exits(0);
    await_status(&node, "paused");
    node.drover(&["deployment", "resume", "-detach", &id]).exits(0);
    await_status(&node, "running");
    node.drover(&["deployment", "promote", &id]).exits(0);
    await_status(&node, "successful");
    let alloc = node.allocs("watch").into_iter().find(|a| a["JobVersion"] == 1).expect("is there");
    let health = &alloc["DeploymentStatus"];
    assert_eq!((&health["Healthy"], &health["Canary"]), (&true.into(), &false.into()));
}

#[test]
fn system_auto_promote_and_auto_revert() {
    let node = Node::dev();
    let update = "canary = 100\n auto_promote = true\n auto_revert = true";
    run(&node, "sleep 1000", update).exits(0);
    run(&node, "sleep 2000", update).exits(0);
    let second = latest(&node);
    assert_eq!((&second["JobVersion"], &second["Status"]), (&1.into(), &"successful".into()));
    assert_eq!(second["TaskGroups"]["g"]["Promoted"], true);
    let said = run(&node, "exit 1", update);
    assert!(said.code == 1 && said.out.contains("rolling back to job version 1"), "{said:?}");
    await_status(&node, "successful");
    wait::until_eq("the old spec runs again", &vec![3], || running(&node));
}

#[test]
fn without_auto_revert_a_failed_version_stays() {
    let node = Node::dev();
    run(&node, "sleep 1000", "").exits(0);
    start(&node, "exit 1", "");
    let failed = await_status(&node, "failed");
    assert_eq!(text(&failed["StatusDescription"]), "Failed due to unhealthy allocations");
    let before = node.allocs("watch").len();
    node.drover(&["job", "eval", "watch"]).exits(0);
    assert_eq!(
        (running(&node), node.allocs("watch").len()),
        (vec![], before),
        "it is not tried a third time"
    );
    run(&node, "sleep 3000", "").exits(0);
    assert_eq!(running(&node), [2]);
}

#[test]
fn a_returning_node_needs_no_new_deployment() {
    let node = Node::dev();
    node.drover(&["node", "eligibility", "-disable", "-self"]).exits(0);
    start(&node, "sleep 1000", "");
    assert_eq!(latest(&node), Value::Null);
    node.drover(&["node", "eligibility", "-enable", "-self"]).exits(0);
    let first = await_status(&node, "successful");
    node.drover(&["node", "drain", "-enable", "-self", "-yes"]).exits(0);
    wait::until_eq("it has left", &vec![], || running(&node));
    start(&node, "sleep 2000", "");
    node.drover(&["node", "eligibility", "-enable", "-self"]).exits(0);
    let second = wait::until("a deployment of the second version", || {
        Some(latest(&node)).filter(|d| d["JobVersion"] == 1 && d["Status"] == "successful")
    });
    assert_ne!(first["ID"], second["ID"]);
    node.drover(&["node", "drain", "-enable", "-self", "-yes"]).exits(0);
    wait::until_eq("it has left", &vec![], || running(&node));
    node.drover(&["node", "eligibility", "-enable", "-self"]).exits(0);
    wait::until_eq("it runs again", &vec![1], || running(&node));
    assert_eq!(latest(&node)["ID"], second["ID"], "it was proven before");
}

#[test]
fn all_at_once_is_no_deployment() {
    let node = Node::dev();
    for script in ["sleep 1000", "sleep 2000"] {
        run(&node, script, "max_parallel = 0").exits(0);
    }
    wait::until_eq("the new one runs", &vec![1], || running(&node));
    assert_eq!(latest(&node), Value::Null);
}
