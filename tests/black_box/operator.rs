//! What operators do: older versions brought back, the scheduler told how to work, evaluations deleted, node pools.

use crate::job_file::JobFile;
use crate::node::{Node, Said, path, text};
use crate::wait;
use crate::web;
use serde_json::{Value, json};

/// A service of `count` that needs next to nothing.
fn service(id: &str, count: u32, more: &str) -> String {
    let in_group = format!(
        "count = {count}\n update {{\n health_check = \"task_states\"\n min_healthy_time = \"100ms\"\n}}"
    );
    JobFile { in_job: more, in_group: &in_group, ..JobFile::new(id, "exec sleep 1000") }.text()
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
        ("gold", "Job \"web\" has no version with the tag \"gold\""),
    ] {
        node.drover(&["job", "revert", "web", version]).fails(1, why);
    }
    let unknown = node.put("/v1/job/web/revert", &json!({"JobID": "web", "JobVersion": 7}));
    assert_eq!(unknown.status, 500, "as Nomad answers it");
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
fn a_named_version_is_kept_compared_with_and_brought_back() {
    let node = Node::dev();
    run(&node, "web", 1);
    node.drover(&["job", "tag", "apply", "-name", "good", "-description", "before the move", "web"]).exits(0);
    let tag = node.get("/v1/job/web").json()["VersionTag"].clone();
    assert_eq!((&tag["Name"], &tag["Description"]), (&"good".into(), &"before the move".into()));
    assert!(tag["TaggedTime"].as_i64() > Some(0), "{tag}");
    for count in 2..10 {
        let file = node.write("web.hcl", &service("web", count % 2 + 2, ""));
        node.drover(&["job", "run", "-detach", path(&file)]).exits(0);
    }
    let versions = node.get("/v1/job/web/versions").json();
    let numbers: Vec<_> =
        versions["Versions"].as_array().into_iter().flatten().map(|v| v["Version"].clone()).collect();
    assert_eq!(json!(numbers), json!([8, 7, 6, 5, 4, 3, 0]), "six, and the one with a name");
    let shown = node.drover(&["job", "history", "-p", "-diff-tag", "good", "-version", "8", "web"]);
    assert!(shown.exits(0).contains("Count"), "{shown:?}");
    let named = node.drover(&["job", "history", "-version", "0", "web"]);
    assert!(
        named.exits(0).contains("Tag Name        = good\nTag Description = before the move"),
        "{named:?}"
    );
    node.drover(&["job", "history", "-p", "-diff-tag", "bad", "web"]).fails(1, "tag \"bad\" not found");
    node.drover(&["job", "tag", "apply", "-name", "good", "web"])
        .fails(1, "tag \"good\" already exists on a different version of job \"web\"");
    node.drover(&["job", "tag", "apply", "-name", "x", "-version", "1", "web"])
        .fails(1, "at version 1 not found");
    node.drover(&["job", "revert", "-detach", "web", "good"]).exits(0);
    let job = node.get("/v1/job/web").json();
    assert_eq!((&job["Version"], &job["TaskGroups"][0]["Count"]), (&9.into(), &1.into()));
    assert_eq!(job["VersionTag"], Value::Null, "the name stays where it was");
    node.drover(&["job", "tag", "unset", "-name", "good", "web"]).exits(0);
    node.drover(&["job", "tag", "unset", "-name", "good", "web"])
        .fails(1, "tag \"good\" not found on job \"web\"");
    node.drover(&["job", "tag", "apply", "web"]).fails(1, "-name is missing");
}

#[test]
fn a_deployment_that_waits_for_no_other_region_is_not_unblocked() {
    let node = Node::dev();
    run(&node, "web", 1);
    let id = node.get("/v1/job/web/deployment").json()["ID"].as_str().unwrap_or_default().to_string();
    node.drover(&["deployment", "unblock", &id[..8]]).fails(1, "can't unblock terminal deployment");
    node.drover(&["deployment", "unblock", "12345678"]).fails(1, "No deployment(s) with prefix or id");
}

/// The fit score of the job's first allocation.
fn fit(node: &Node, id: &str) -> f64 {
    let alloc = node.await_alloc(id, "running");
    let whole = node.get(&format!("/v1/allocation/{}", text(&alloc["ID"]))).json();
    whole["Metrics"]["ScoreMetaData"][0]["Scores"]["binpack"].as_f64().unwrap_or(-1.0)
}

fn set(node: &Node, flags: &[&str]) -> Said {
    node.drover(&[&["operator", "scheduler", "set-config"], flags].concat())
}

#[test]
fn the_scheduler_works_as_it_is_told() {
    let node = Node::dev();
    let shown = node.drover(&["operator", "scheduler", "get-config"]);
    assert!(shown.exits(0).starts_with("Scheduler Algorithm           = binpack\n"), "{shown:?}");
    run(&node, "full", 1);
    let said = set(&node, &["-scheduler-algorithm", "spread"]);
    assert_eq!(said.exits(0), "Scheduler configuration updated!\n");
    run(&node, "empty", 1);
    let (full, empty) = (fit(&node, "full"), fit(&node, "empty"));
    assert!((0.0..0.5).contains(&full) && empty > 0.5, "{full} {empty}");
    let index =
        node.drover(&["operator", "scheduler", "get-config", "-t", "{{.SchedulerConfig.ModifyIndex}}"]);
    let index = index.exits(0).trim().to_string();
    set(&node, &["-check-index", "1", "-reject-job-registration=true"])
        .fails(1, &format!("check-index 1 does not match current state value {index}"));
    set(&node, &["-check-index", &index, "-reject-job-registration=true", "-memory-oversubscription"])
        .exits(0);
    let config = node.drover(&["operator", "scheduler", "get-config", "-json"]);
    let config: Value = serde_json::from_str(config.exits(0)).unwrap_or_default();
    let config = &config["SchedulerConfig"];
    assert_eq!(
        (&config["SchedulerAlgorithm"], &config["RejectJobRegistration"]),
        (&"spread".into(), &true.into())
    );
    assert_eq!(config["MemoryOversubscriptionEnabled"], true);
    run(&node, "still", 1);
    set(&node, &["-scheduler-algorithm", "best"]).fails(1, "invalid scheduler algorithm: best");
    let late = node.put("/v1/operator/scheduler/configuration?cas=1", config);
    assert_eq!((late.status, &late.json()["Updated"]), (200, &false.into()));
}

#[test]
fn a_new_region_begins_as_its_configuration_says() {
    let mut node = Node::new();
    node.configure("server {\n default_scheduler_config {\n scheduler_algorithm = \"spread\"\n pause_eval_broker = true\n}\n}\n");
    node.start();
    let shown = node.drover(&["operator", "scheduler", "get-config"]);
    assert!(
        shown.exits(0).contains("Algorithm           = spread\n")
            && shown.out.contains("Broker             = true"),
        "{shown:?}"
    );
    set(&node, &["-pause-eval-broker=false"]).exits(0);
    node.restart();
    let shown = node.drover(&["operator", "scheduler", "get-config"]);
    assert!(shown.exits(0).contains("Pause Eval Broker             = false"), "it begins once: {shown:?}");
}

fn evals(node: &Node, id: &str) -> Vec<Value> {
    node.get(&format!("/v1/job/{id}/evaluations")).json().as_array().cloned().unwrap_or_default()
}

#[test]
fn in_a_pause_nothing_is_placed_and_evaluations_can_be_deleted() {
    let node = Node::dev();
    run(&node, "web", 1);
    let eval = text(&evals(&node, "web")[0]["ID"]).to_string();
    node.drover(&["eval", "delete", &eval]).fails(1, "Eval broker is not paused");
    let refused = web::send(node.port, "DELETE", "/v1/evaluations", &json!({"EvalIDs": [eval]}).to_string());
    assert!(refused.text().contains("eval broker must be paused to delete evals"), "{}", refused.text());

    set(&node, &["-pause-eval-broker"]).exits(0);
    for id in ["late", "later"] {
        let file = node.write(&format!("{id}.nomad.hcl"), &service(id, 1, ""));
        node.drover(&["job", "run", "-detach", path(&file)]).exits(0);
    }
    assert_eq!(evals(&node, "late")[0]["Status"], "pending");
    node.drover(&["eval", "delete", &eval]).fails(1, "is not safe to delete");
    node.drover(&["eval", "delete"]).fails(1, "evaluation ID or filter flag required");
    node.drover(&["eval", "delete", &eval, "-filter", "JobID == web"])
        .fails(1, "evaluation ID or filter flag required");
    let said = node.drover(&["eval", "delete", "-yes", "-filter", "JobID == nosuch"]);
    assert_eq!(said.exits(0), "No evaluations were deleted\n");
    let said = node.drover(&["eval", "delete", "-yes", "-filter", "Status == pending and JobID == later"]);
    assert_eq!(said.exits(0), "Successfully deleted 1 evaluation\n");
    assert_eq!(
        (evals(&node, "later").len(), &node.get("/v1/job/later").json()["Status"]),
        (0, &"dead".into())
    );
    node.drover(&["eval", "delete", "-filter", "JobID == late"]).exits(0);
    assert_eq!(evals(&node, "late").len(), 1, "nobody said yes");
    assert_eq!(node.allocs("late").len(), 0);

    set(&node, &["-pause-eval-broker=false"]).exits(0);
    wait::until_eq("what waited is placed", &1, || running(&node, "late"));
    assert_eq!(node.allocs("later").len(), 0, "what was deleted is not");
}

#[test]
fn jobs_go_to_the_pool_that_they_name() {
    let mut node = Node::new();
    node.configure("client {\n node_pool = \"boards\"\n}\n");
    node.start();
    let listed = node.drover(&["node", "pool", "list"]);
    assert!(
        listed.exits(0).starts_with("Name     Description\nall      Node pool with all nodes.\nboards   "),
        "{listed:?}"
    );
    let file = node.write("else.nomad.hcl", &service("web", 1, "node_pool = \"elsewhere\""));
    node.drover(&["job", "run", path(&file)])
        .fails(1, "job \"web\" is in nonexistent node pool \"elsewhere\"");

    let pool = node.write("beside", "").with_file_name("pool.hcl");
    node.drover(&["node", "pool", "init", "-quiet", path(&pool)]).exits(0);
    node.drover(&["node", "pool", "init", path(&pool)]).fails(1, "already exists");
    let said = node.drover(&["node", "pool", "apply", path(&pool)]);
    assert_eq!(said.exits(0), "Successfully applied node pool \"example\"!\n");
    let boards = "node_pool \"boards\" {\n description = \"small\"\n scheduler_config {\n scheduler_algorithm = \"spread\"\n}\n}\n";
    let boards = node.write("boards.hcl", boards);
    node.drover(&["node", "pool", "apply", path(&boards)]).exits(0);
    let info = node.drover(&["node", "pool", "info", "boa"]);
    assert!(
        info.exits(0).contains("Description = small\n") && info.out.contains("Scheduler Algorithm = spread"),
        "{info:?}"
    );

    let file = node.write("web.nomad.hcl", &service("web", 1, "node_pool = \"boards\""));
    node.drover(&["job", "run", path(&file)]).exits(0);
    assert!(fit(&node, "web") > 0.5, "the pool spreads");
    let file = node.write("no.nomad.hcl", &service("nowhere", 1, "node_pool = \"example\""));
    node.drover(&["job", "run", "-detach", path(&file)]).exits(0);
    wait::until("it waits for a node", || {
        evals(&node, "nowhere").into_iter().find(|e| e["Status"] == "blocked")
    });
    let nodes = node.drover(&["node", "pool", "nodes", "boards"]);
    assert!(nodes.exits(0).contains("boards"), "{nodes:?}");
    assert_eq!(node.drover(&["node", "pool", "nodes", "example"]).exits(0), "No nodes\n");
    let jobs = node.drover(&["node", "pool", "jobs", "boards"]);
    assert!(jobs.exits(0).contains("\nweb "), "{jobs:?}");
    node.drover(&["node", "pool", "delete", "boards"]).fails(1, "has non-terminal jobs in regions: [global]");
    node.drover(&["job", "stop", "-purge", "web"]).exits(0);
    node.drover(&["node", "pool", "delete", "boards"]).fails(1, "node pool \"boards\" has nodes");
    node.drover(&["node", "pool", "delete", "all"]).fails(1, "deleting node pool \"all\" is not allowed");
    node.drover(&["job", "stop", "-purge", "nowhere"]).exits(0);
    let said = node.drover(&["node", "pool", "delete", "example"]);
    assert_eq!(said.exits(0), "Successfully deleted node pool \"example\"!\n");
    node.drover(&["node", "pool", "info", "example"]).fails(1, "Node pool \"example\" matched no node pools");
}
