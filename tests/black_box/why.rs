//! drover explains itself: what finds no place, what was restarted, and how that is shown.

use crate::job_file::JobFile;
use crate::node::{Node, path, shell_job, text};
use crate::wait;

/// A job that tries again twice before its group is placed anew.
fn job(id: &str, memory: u32, in_job: &str, script: &str) -> String {
    let memory = &memory.to_string();
    let in_group = "restart {\n      attempts = 2\n      delay    = \"100ms\"\n    }";
    JobFile { in_job, in_group, memory, ..JobFile::new(id, script) }.text()
}

#[test]
fn why_tells_what_would_help_an_unplaced_job() {
    let node = Node::dev();
    let nodes = node.get("/v1/nodes?resources=true").json();
    let room = nodes[0]["NodeResources"]["Memory"]["MemoryMB"].as_u64().expect("a node has memory");
    let large = node.write("large.hcl", &job("large", room as u32 + 12, "", "exec sleep 1000"));
    node.drover(&["job", "run", "-detach", path(&large)]).exits(0);
    let evals = wait::until("it waits", || {
        let evals = node.get("/v1/job/large/evaluations").json();
        evals.as_array()?.iter().any(|e| e["Status"] == "blocked").then_some(evals)
    });
    let said = node.drover(&["job", "why", "large"]);
    let shown = said.exits(0);
    for part in [
        "some of it waits for a place",
        "Group \"g\": 0 of 1 live; 0 of 1 nodes have a place for one more",
        "Nearest: 12 MiB of memory short on node ",
        &format!("  memory of at most {room} MiB"),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let complete = evals.as_array().into_iter().flatten().find(|e| e["Status"] == "complete").cloned();
    let id = text(&complete.expect("one has looked")["ID"]).to_string();
    let of_eval = node.drover(&["eval", "why", &id[..8]]);
    assert!(of_eval.exits(0).contains("leaves the rest to this one (queued-allocs, blocked)"), "{of_eval:?}");
    let picked = node.drover(&["job", "why", "-t", "{{ (index .Groups 0).Nearest.NodeName }}", "large"]);
    assert!(!picked.exits(0).trim().is_empty());

    let elsewhere = "constraint {\n    attribute = \"${node.class}\"\n    value = \"nowhere\"\n  }";
    let file = node.write("elsewhere.hcl", &job("elsewhere", 10, elsewhere, "exec sleep 1000"));
    node.drover(&["job", "run", "-detach", path(&file)]).exits(0);
    let why = wait::until("it is known", || {
        let answer = node.get("/v1/job/elsewhere/why");
        (answer.status == 200).then(|| answer.json())
    });
    let reasons = &why["Groups"][0]["Reasons"];
    assert_eq!((&reasons[0]["Reason"], &reasons[0]["Alone"]), (&"${node.class} = nowhere".into(), &1.into()));
    assert_eq!(node.get("/v1/job/nosuch/why").status, 404);
    assert_eq!(node.get("/v1/allocation/00000000-0000-0000-0000-000000000000/why").status, 404);
    node.drover(&["job", "why"]).fails(1, "takes one argument");
}

#[test]
fn why_tells_on_one_screen_what_became_of_an_alloc() {
    let node = Node::dev();
    let file = node.write("fails.hcl", &job("fails", 10, "type = \"batch\"", "exit 3"));
    node.drover(&["job", "run", "-detach", path(&file)]).exits(0);
    let alloc = node.await_alloc("fails", "failed");
    let said = node.drover(&["alloc", "why", text(&alloc["ID"])]);
    let shown = said.exits(0);
    for part in [
        "job-register",
        "was placed on ",
        "t: Terminated: Exit Code: 3",
        "t: Restarting: ",
        "The best nodes when it was placed",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.lines().count() <= 30, "{shown}");
    let json = node.drover(&["alloc", "why", "-json", text(&alloc["ID"])]);
    assert!(json.exits(0).contains("\"Kind\": \"task\""), "{json:?}");
}

#[test]
fn a_node_at_max_allocs_says_so_and_the_rest_waits() {
    let mut node = Node::new();
    node.configure("client {\n node_max_allocs = 2\n}\n");
    node.start();
    node.await_ready();
    let mut long = shell_job("long", "exec sleep 1000");
    long["TaskGroups"][0]["Count"] = 2.into();
    node.register(&long);
    wait::until("both run", || {
        (node.allocs("long").iter().filter(|a| a["ClientStatus"] == "running").count() == 2).then_some(())
    });
    let mut many = shell_job("many", "true");
    many["Type"] = "sysbatch".into();
    many["TaskGroups"][0]["Count"] = 5.into();
    many["TaskGroups"][0].as_object_mut().expect("a group").remove("RestartPolicy");
    node.register(&many);
    let waiting = wait::until("it waits", || {
        let evals = node.get("/v1/job/many/evaluations").json();
        evals.as_array()?.iter().find(|e| e["FailedTGAllocs"]["g"].is_object()).cloned()
    });
    assert_eq!(
        waiting["FailedTGAllocs"]["g"]["DimensionExhausted"]["max allocation exceeded"], 5,
        "{waiting:#}"
    );
    let said = node.drover(&["job", "why", "many"]);
    assert!(said.exits(0).contains("Nearest: max allocation exceeded on node "), "{said:?}");
    assert!(said.out.contains("\n  one allocation fewer there: 1 node\n"), "{said:?}");
    let status = node.drover(&["node", "status", "-self"]);
    assert!(status.exits(0).contains(" 2/2\n"), "{status:?}");
    assert_eq!(node.allocs("many").len(), 0);

    node.drover(&["job", "stop", "-detach", "long"]).exits(0);
    wait::until("all have had their turn", || {
        (node.allocs("many").iter().filter(|a| a["ClientStatus"] == "complete").count() == 5).then_some(())
    });
    assert_eq!(node.allocs("many").len(), 5, "none was tried in vain");
}
