//! Looking before one acts: what a job would change, and what it changed before.

use crate::job_file::JobFile;
use crate::node::{Node, path, shell_job};
use serde_json::{Value, json};
use std::path::PathBuf;

fn file(node: &Node, count: u64, message: &str) -> PathBuf {
    let script = format!("while :; do echo {message}; sleep 1; done");
    let in_group = format!("count = {count}");
    let job = JobFile { in_group: &in_group, memory: "var.memory", ..JobFile::new("web", &script) };
    let text = format!("variable \"memory\" {{ default = 16 }}\n{}", job.text());
    node.write("web.nomad.hcl", &text)
}

#[test]
fn a_plan_tells_what_would_change_and_changes_nothing() {
    let node = Node::dev();
    let job = file(&node, 1, "a");
    let plan = |args: &[&str]| node.drover(&[&["job", "plan"][..], args, &[path(&job)]].concat());
    let new = plan(&[]);
    assert_eq!(new.code, 1, "{new:?}");
    let beginning = "+ Job: \"web\"\n+ Task Group: \"g\" (1 create)\n  + Task: \"t\" (forces create)\n\n\
                     Scheduler dry-run:\n- All tasks successfully allocated.\n\n";
    assert!(new.out.starts_with(beginning), "{}", new.out);
    let end = format!(
        "\nJob Modify Index: 0\nTo submit the job with version verification run:\n\n\
         drover job run -check-index 0 {}\n\n",
        path(&job)
    );
    assert!(new.out.contains(&end), "{}", new.out);
    assert_eq!(node.get("/v1/job/web").status, 404);
    node.drover(&["job", "run", "-check-index", "0", path(&job)]).exits(0);
    let before = node.get("/v1/job/web").json();

    let same = plan(&[]);
    let shown = same.exits(0);
    assert!(shown.starts_with("Job: \"web\"\nTask Group: \"g\" (1 ignore)\n  Task: \"t\"\n"), "{shown}");
    let index = before["JobModifyIndex"].as_u64().expect("an index");
    assert!(shown.contains(&format!("Job Modify Index: {index}\n")), "{shown}");

    file(&node, 3, "a");
    let more = plan(&[]);
    assert_eq!(more.code, 1, "{more:?}");
    let expected = "+/- Job: \"web\"\n+/- Task Group: \"g\" (2 create, 1 in-place update)\n  \
                    +/- Count: \"1\" => \"3\" (forces create)\n      Task: \"t\"\n";
    assert!(more.out.starts_with(expected), "{}", more.out);

    file(&node, 1, "b");
    let other = plan(&["-var", "memory=32"]);
    assert_eq!(other.code, 1, "{other:?}");
    for part in [
        "Task Group: \"g\" (1 create/destroy update)\n",
        "  +/- Task: \"t\" (forces create/destroy update)\n",
        "+/- Config {\n",
        "+/- MemoryMB: ",
        "\"16\" => \"32\"\n",
        "-var=memory=32",
    ] {
        assert!(other.out.contains(part), "no {part:?} in {}", other.out);
    }
    assert!(!plan(&["-diff=false"]).out.contains("Task: \"t\""));
    let answer: Value = serde_json::from_str(&plan(&["-json-output"]).out).expect("JSON");
    assert_eq!(answer["Annotations"]["DesiredTGUpdates"]["g"]["DestructiveUpdate"], json!(1));
    assert_eq!(node.get("/v1/job/web").json(), before, "a plan writes nothing");
}

#[test]
fn a_plan_says_what_would_find_no_room_and_what_is_wrong() {
    let node = Node::dev();
    let mut job = shell_job("big", "sleep 1000");
    job["TaskGroups"][0]["Tasks"][0]["Resources"] = json!({"CPU": 20, "MemoryMB": 100_000_000});
    let file = node.write("big.json", &json!({ "Job": job }).to_string());
    let said = node.drover(&["job", "plan", "-json", path(&file)]);
    for part in [
        "- WARNING: Failed to place all allocations.\n",
        "  Task Group \"g\" (failed to place 1 allocation):\n",
        "* Resources exhausted on 1 nodes\n",
        "Dimension \"memory\" exhausted on 1 nodes\n",
    ] {
        assert!(said.out.contains(part), "no {part:?} in {said:?}");
    }
    job["Priority"] = json!(1000);
    let wrong = node.write("wrong.json", &json!({ "Job": job }).to_string());
    node.drover(&["job", "plan", "-json", path(&wrong)]).fails(255, "Job priority must be between");
    node.drover(&["job", "plan", "-namespace", "none", "-json", path(&file)])
        .fails(255, "nonexistent namespace");
}

#[test]
fn a_jobs_history_shows_what_changed() {
    let node = Node::dev();
    for (count, message) in [(1, "a"), (2, "a"), (2, "b")] {
        node.drover(&["job", "run", "-detach", path(&file(&node, count, message))]).exits(0);
    }
    let shown = node.drover(&["job", "history", "-p", "web"]);
    let blocks: Vec<&str> = shown.exits(0).split("\n\nVersion ").collect();
    assert_eq!(blocks.len(), 3, "{shown:?}");
    assert!(blocks[0].contains("+/- Config {") && !blocks[0].contains("Count"), "{}", blocks[0]);
    assert!(blocks[1].contains("+/- Count: \"1\" => \"2\""), "{}", blocks[1]);
    assert!(!blocks[2].contains("Diff"), "{}", blocks[2]);
    let from_first = node.drover(&["job", "history", "-p", "-diff-version", "0", "-version", "2", "web"]);
    assert!(from_first.exits(0).contains("+/- Count: \"1\" => \"2\""), "{from_first:?}");
    node.drover(&["job", "history", "-p", "-diff-version", "9", "web"]).fails(1, "job version 9 not found");
}
