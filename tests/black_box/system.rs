//! Jobs on every node, on one machine: they come, change, and leave by the command line.

use crate::node::{Node, path, text};
use crate::wait;

fn file(node: &Node, kind: &str, id: &str, script: &str) -> String {
    let update = if kind == "system" { "update {\n      min_healthy_time = \"100ms\"\n    }\n" } else { "" };
    let job = format!(
        "job \"{id}\" {{\n  type = \"{kind}\"\n  group \"g\" {{\n    {update}    task \"t\" {{\n      driver = \"raw_exec\"\n      \
         config {{\n        command = \"/bin/sh\"\n        args = [\"-c\", \"{script}\"]\n      }}\n      resources {{\n        \
         cpu = 20\n        memory = 16\n      }}\n    }}\n  }}\n}}\n"
    );
    path(&node.write(&format!("{id}.hcl"), &job)).to_string()
}

#[test]
fn a_system_job_is_planned_run_changed_and_stopped() {
    let node = Node::dev();
    let job = file(&node, "system", "watch", "exec sleep 1000");
    let planned = node.drover(&["job", "plan", &job]);
    assert!(planned.exits(1).contains("1 create"), "{planned:?}");
    node.drover(&["job", "run", &job]).exits(0);
    let first = node.await_alloc("watch", "running");
    assert_eq!(text(&first["Name"]), "watch.g[0]");
    let status = node.drover(&["job", "status", "watch"]);
    let shown = status.exits(0);
    assert!(shown.contains("system") && shown.contains("running"), "{shown}");
    node.drover(&["job", "eval", "watch"]).exits(0);
    let stored = node.get("/v1/job/watch").json();
    assert_eq!(
        (&stored["Update"]["Stagger"], &stored["Update"]["MaxParallel"]),
        (&30_000_000_000_i64.into(), &1.into())
    );
    file(&node, "system", "watch", "exec sleep 2000");
    node.drover(&["job", "run", &job]).exits(0);
    wait::until("the new version runs", || {
        let allocs = node.allocs("watch");
        let new = allocs.iter().find(|a| a["JobVersion"] == 1 && a["ClientStatus"] == "running")?;
        let old = allocs.iter().find(|a| a["ID"] == first["ID"])?;
        let new = node.get(&format!("/v1/allocation/{}", text(&new["ID"]))).json();
        (new["PreviousAllocation"] == first["ID"] && old["ClientStatus"] == "complete").then_some(())
    });
    assert_eq!(node.allocs("watch").len(), 2, "and only that");
    node.drover(&["job", "stop", "watch"]).exits(0);
    wait::until("it is dead", || (node.get("/v1/job/watch").json()["Status"] == "dead").then_some(()));
}

#[test]
fn a_system_job_returns_with_its_node() {
    let node = Node::dev();
    node.drover(&["job", "run", &file(&node, "system", "watch", "exec sleep 1000")]).exits(0);
    node.await_alloc("watch", "running");
    node.drover(&["node", "drain", "-enable", "-ignore-system", "-self", "-yes"]).exits(0);
    assert_eq!(text(&node.await_alloc("watch", "running")["DesiredStatus"]), "run");
    node.drover(&["node", "drain", "-enable", "-self", "-yes"]).exits(0);
    wait::until("it has left", || {
        node.allocs("watch").iter().all(|a| a["ClientStatus"] == "complete").then_some(())
    });
    node.drover(&["node", "eligibility", "-enable", "-self"]).exits(0);
    wait::until("it runs again", || {
        node.allocs("watch").iter().any(|a| a["ClientStatus"] == "running").then_some(())
    });
}

#[test]
fn a_sysbatch_job_runs_once_and_is_dead() {
    let node = Node::dev();
    let job = file(&node, "sysbatch", "once", "echo done");
    node.drover(&["job", "run", &job]).exits(0);
    node.await_alloc("once", "complete");
    wait::until("it is dead", || (node.get("/v1/job/once").json()["Status"] == "dead").then_some(()));
    node.drover(&["job", "eval", "once"]).exits(0);
    node.drover(&["job", "run", &job]).exits(0);
    assert_eq!(node.allocs("once").len(), 1, "what is done stays done");
    let summary = node.get("/v1/job/once/summary").json();
    assert_eq!(summary["Summary"]["g"]["Complete"], 1);
}

#[test]
fn system_jobs_are_refused_what_they_cannot_have() {
    let node = Node::dev();
    let job = file(&node, "system", "watch", "exec sleep 1000");
    let text = std::fs::read_to_string(&job).expect("a file");
    for (line, sentence) in [
        ("count = 2", "Count cannot exceed 1 with system scheduler"),
        (
            "reschedule {\n attempts = 1\n interval = \"1h\"\n }",
            "System jobs should not have a reschedule policy",
        ),
        ("spread {\n attribute = \"${node.datacenter}\"\n }", "System jobs may not have a spread block"),
        ("update { canary = 101 }", "Canary of a system job is a percentage of its nodes"),
    ] {
        let bare = text.replace("update {\n      min_healthy_time = \"100ms\"\n    }\n", "");
        let worse = bare.replace("group \"g\" {", &format!("group \"g\" {{\n{line}"));
        let worse = node.write("worse.hcl", &worse);
        node.drover(&["job", "run", path(&worse)]).fails(1, sentence);
    }
}
