//! Jobs that are scaled, on one machine: by the command line, over HTTP, within limits and beyond them, over a restart.

use crate::node::{Node, path, text};
use crate::wait;
use serde_json::{Value, json};

/// A batch job has no deployments that a word on its count would have to wait for.
fn file(node: &Node, id: &str, kind: &str, scaling: &str) -> String {
    let job = format!(
        "job \"{id}\" {{\n  type = \"{kind}\"\n  group \"g\" {{\n{scaling}\n    task \"t\" {{\n      driver = \"raw_exec\"\n      \
         config {{\n        command = \"/bin/sleep\"\n        args = [\"1000\"]\n      }}\n      resources {{\n        cpu = 20\n        \
         memory = 10\n      }}\n    }}\n  }}\n}}\n"
    );
    path(&node.write(&format!("{id}.hcl"), &job)).to_string()
}

const LIMITS: &str = "scaling {\n min = 1\n max = 3\n policy {\n cooldown = \"1m\"\n tries = 2\n}\n}";

fn running(node: &Node, id: &str) -> usize {
    let live = |a: &&Value| a["ClientStatus"] == "running" && a["DesiredStatus"] == "run";
    node.allocs(id).iter().filter(live).count()
}

fn events(node: &Node, id: &str) -> Vec<Value> {
    let status = node.get(&format!("/v1/job/{id}/scale")).json();
    status["TaskGroups"]["g"]["Events"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_job_is_scaled_within_its_limits_and_remembers_it() {
    let mut node = Node::durable();
    node.drover(&["job", "run", &file(&node, "work", "batch", LIMITS)]).exits(0);
    wait::until_eq("as few as there may be", &1, || running(&node, "work"));
    node.drover(&["job", "scale", "work", "3"]).exits(0);
    wait::until_eq("as many as there may be", &3, || running(&node, "work"));
    let job = node.get("/v1/job/work").json();
    assert_eq!((&job["Version"], &job["TaskGroups"][0]["Count"]), (&1.into(), &3.into()));
    let beyond = node.drover(&["job", "scale", "work", "g", "4"]);
    beyond.fails(1, "group count was greater than scaling policy maximum: 4 > 3");
    node.drover(&["job", "scale", "work", "0"])
        .fails(1, "group count was less than scaling policy minimum: 0 < 1");
    node.drover(&["job", "scale", "-check-index", "1", "work", "2"])
        .fails(1, "Enforcing job modify index 1: job exists with conflicting job modify index");
    let index = job["JobModifyIndex"].to_string();
    let scaled = node.drover(&["job", "scale", "-detach", "-check-index", &index, "work", "g", "2"]);
    assert!(scaled.exits(0).starts_with("Evaluation ID: "), "{scaled:?}");
    wait::until_eq("one has gone", &2, || running(&node, "work"));

    let said = json!({"Target": {"Group": "g"}, "Error": true, "Message": "no metrics", "Meta": {"load": 2}});
    let answer = node.put("/v1/job/work/scale", &said).json();
    assert_eq!((text(&answer["EvalID"]), &answer["EvalCreateIndex"]), ("", &0.into()));
    let before = events(&node, "work");
    let counts: Vec<_> = before.iter().map(|e| (e["PreviousCount"].clone(), e["Count"].clone())).collect();
    assert_eq!(json!(counts), json!([[2, null], [3, 2], [1, 3]]));
    assert_eq!((&before[0]["Meta"], &before[0]["Error"]), (&json!({"load": 2.0}), &true.into()));
    node.restart();
    assert_eq!(events(&node, "work"), before, "they are kept");
    let listed = node.drover(&["job", "scaling-events", "-verbose", "work"]);
    assert!(listed.exits(0).contains("no metrics") && listed.out.contains("Eval ID"), "{listed:?}");
    let evals = node.get("/v1/job/work/evaluations").json();
    let scaled = |e: &Value| e["TriggeredBy"] == "job-scaling";
    assert_eq!(evals.as_array().map(|all| all.iter().filter(|e| scaled(e)).count()), Some(2));

    node.drover(&["job", "stop", "-purge", "work"]).exits(0);
    assert_eq!(node.get("/v1/job/work/scale").status, 404);
    node.drover(&["job", "run", "-detach", &file(&node, "work", "batch", LIMITS)]).exits(0);
    let none = node.drover(&["job", "scaling-events", "work"]);
    assert_eq!(none.exits(0), "No events found\n", "a purge takes them along");
}

#[test]
fn policies_are_read_awaited_and_gone_with_their_job() {
    let node = Node::dev();
    node.drover(&["scaling", "policy", "list"]).exits(0);
    node.drover(&["job", "run", &file(&node, "work", "batch", LIMITS)]).exits(0);
    let listed = node.get("/v1/scaling/policies");
    let (index, all) = (listed.index(), listed.json());
    let id = text(&all[0]["ID"]).to_string();
    assert_eq!(all[0]["Target"], json!({"Namespace": "default", "Job": "work", "Group": "g"}));
    let whole = node.get(&format!("/v1/scaling/policy/{id}")).json();
    assert_eq!((&whole["Min"], &whole["Max"], &whole["Enabled"]), (&1.into(), &3.into(), &true.into()));
    assert_eq!(whole["Policy"], json!({"cooldown": "1m", "tries": 2.0}));
    let table = node.drover(&["scaling", "policy", "list", "-job", "work", "-type", "horizontal"]);
    assert!(table.exits(0).contains(&format!("{}  true     horizontal", &id[..8])), "{table:?}");
    let shown = node.drover(&["scaling", "policy", "info", &id[..8]]);
    assert!(
        shown.exits(0).contains("Max     = 3") && shown.out.contains("\"cooldown\": \"1m\""),
        "{shown:?}"
    );
    let found = node.drover(&["status", &id]);
    assert!(found.exits(0).contains("Target  = Namespace:default,Job:work,Group:g"), "{found:?}");

    node.drover(&["job", "scale", "work", "2"]).exits(0);
    let same = node.get(&format!("/v1/scaling/policies?index={index}&wait=300ms"));
    assert_eq!(same.index(), index, "a count is not its business");
    node.drover(&["job", "run", &file(&node, "work", "batch", &LIMITS.replace("max = 3", "max = 5"))])
        .exits(0);
    let moved = node.get(&format!("/v1/scaling/policy/{id}?index={index}&wait=60s"));
    assert_eq!(moved.json()["Max"], 5);
    assert!(moved.index() > index);
    assert_eq!(node.get("/v1/job/work").json()["TaskGroups"][0]["Count"], 1, "the file says so");
    node.drover(&["job", "stop", "work"]).exits(0);
    assert_eq!(node.get("/v1/scaling/policies").json(), json!([]));
    let gone = node.get(&format!("/v1/scaling/policy/{id}"));
    assert_eq!((gone.status, gone.text().as_str()), (404, "policy not found"));
}

#[test]
fn preserve_counts_and_scaling_limits() {
    let node = Node::dev();
    let job = file(&node, "work", "batch", LIMITS);
    node.drover(&["job", "run", &job]).exits(0);
    node.drover(&["job", "scale", "work", "3"]).exits(0);
    node.drover(&["job", "run", "-preserve-counts", &job]).exits(0);
    assert_eq!(node.get("/v1/job/work").json()["TaskGroups"][0]["Count"], 3);
    let warned = node.drover(&["job", "run", "-preserve-resources", &job]);
    assert!(warned.exits(0).contains("* PreserveResources has no effect"), "{warned:?}");
    assert_eq!(node.get("/v1/job/work").json()["TaskGroups"][0]["Count"], 1, "the file says so");
    for (scaling, why) in [
        ("count = 4\n scaling {\n max = 3\n}", "must not be greater than maximum count"),
        ("count = 1\n scaling {\n min = 2\n max = 3\n}", "must not be less than minimum count"),
        ("scaling {\n min = 2\n max = 1\n}", "maximum count must not be less than minimum count"),
    ] {
        let refused = node.drover(&["job", "run", &file(&node, "worse", "batch", scaling)]);
        refused.fails(1, why);
        assert!(refused.err.contains("Task group scaling policy validation failed"), "{refused:?}");
    }
    let missing = node.drover(&["job", "validate", &file(&node, "worse", "batch", "scaling {}")]);
    missing.fails(1, "scaling needs max");
}

#[test]
fn a_system_job_is_scaled_to_none_and_back() {
    let node = Node::dev();
    node.drover(&["job", "run", &file(&node, "watch", "system", "")]).exits(0);
    node.await_alloc("watch", "running");
    node.drover(&["job", "scale", "watch", "2"]).fails(1, "cannot scale jobs of type \"system\" to 2");
    node.drover(&["job", "scale", "watch", "0"]).exits(0);
    wait::until_eq("none is left", &0, || running(&node, "watch"));
    node.drover(&["job", "scale", "watch", "1"]).exits(0);
    wait::until_eq("it is back", &1, || running(&node, "watch"));
    node.drover(&["job", "run", &file(&node, "watch", "system", "scaling {\n max = 1\n}")])
        .fails(1, "Task groups with job type system do not support scaling blocks");
}

#[test]
fn policies_of_tasks_are_kept_listed_and_shown() {
    let node = Node::dev();
    let sized = "    task \"t\" {\n      scaling \"cpu\" {\n        max = 500\n      }\n      scaling \"mem\" {\n        min = 32\n        \
                 max = 256\n        policy {\n          cooldown = \"1h\"\n        }\n      }\n";
    let source = std::fs::read_to_string(file(&node, "work", "batch", "")).expect("the file");
    let write = |sized: &str| {
        path(&node.write("sized.nomad.hcl", &source.replacen("    task \"t\" {\n", sized, 1))).to_string()
    };
    node.drover(&["job", "run", &write(sized)]).exits(0);
    let list = node.drover(&["scaling", "policy", "list", "-type", "vertical"]);
    for row in
        ["vertical_cpu  Namespace:default,Job:work,Group:g,Task:t\n", "vertical_mem  Namespace:default"]
    {
        assert!(list.exits(0).contains(row), "{list:?}");
    }
    assert_eq!(
        node.drover(&["scaling", "policy", "list", "-type", "horizontal"]).exits(0),
        "No policies found\n"
    );
    let memory = node.get("/v1/scaling/policies?type=vertical_mem").json();
    let id = text(&memory[0]["ID"]);
    let shown = node.drover(&["scaling", "policy", "info", id]);
    for part in ["Type    = vertical_mem\n", "Min     = 32\n", "Max     = 256\n", "\"cooldown\": \"1h\""] {
        assert!(shown.exits(0).contains(part), "{part}: {shown:?}");
    }
    let job = node.get("/v1/job/work").json();
    let policies = &job["TaskGroups"][0]["Tasks"][0]["ScalingPolicies"];
    assert_eq!((&policies[1]["ID"], &policies[1]["Target"]["Task"]), (&memory[0]["ID"], &"t".into()));
    assert_eq!(node.put("/v1/jobs", &json!({"Job": job})).status, 200, "it is taken as it is shown");
    assert_eq!(node.get("/v1/job/work").json()["Version"], 0);
    let wrong = write(&sized.replace("max = 500", "min = 2\n        max = 1"));
    let refused = node.drover(&["job", "run", &wrong]);
    refused.fails(1, "Task scaling policy validation failed");
    node.drover(&["job", "stop", "work"]).exits(0);
    assert_eq!(node.get("/v1/scaling/policies").json(), json!([]));
}
