//! What has ended is forgotten: when somebody asks for it, and by itself after the times that the configuration says.

use crate::job_file::JobFile;
use crate::node::{Node, path, text};
use crate::wait;

fn job(node: &Node, kind: &str, id: &str, script: &str) -> String {
    let file = JobFile { in_job: &format!("type = {kind:?}"), ..JobFile::new(id, script) };
    path(&node.write(&format!("{id}.hcl"), &file.text())).to_string()
}

fn status_of(node: &Node, what: &str) -> u16 {
    node.get(what).status
}

#[test]
fn system_gc_collects_what_has_ended() {
    let node = Node::dev();
    node.drover(&["job", "run", &job(&node, "batch", "done", "true")]).exits(0);
    node.drover(&["job", "run", &job(&node, "service", "stopped", "exec sleep 1000")]).exits(0);
    node.drover(&["job", "run", &job(&node, "service", "lives", "exec sleep 1000")]).exits(0);
    let ended = node.await_alloc("done", "complete");
    node.await_alloc("lives", "running");
    node.drover(&["job", "stop", "stopped"]).exits(0);
    let stopped = node.await_alloc("stopped", "complete");
    let said = node.drover(&["system", "gc", "extra"]);
    assert_eq!(said.exits(0), "", "it is silent");
    for alloc in [&ended, &stopped] {
        let id = text(&alloc["ID"]);
        wait::until("it is forgotten", || {
            (status_of(&node, &format!("/v1/allocation/{id}")) == 404).then_some(())
        });
        let dir = format!("/v1/client/fs/ls/{id}");
        wait::until("its node has dropped it", || (status_of(&node, &dir) == 404).then_some(()));
    }
    for id in ["done", "stopped"] {
        wait::until("it is forgotten", || (status_of(&node, &format!("/v1/job/{id}")) == 404).then_some(()));
        let evals = node.get(&format!("/v1/job/{id}/evaluations")).json();
        assert_eq!(evals.as_array().map(Vec::len), Some(0), "{evals}");
    }
    assert_eq!(text(&node.await_alloc("lives", "running")["JobID"]), "lives");
    assert_eq!(
        (node.put("/v1/system/gc", &serde_json::json!({})).status, node.get("/v1/system/gc").status),
        (200, 405)
    );
}

#[test]
fn an_old_job_is_collected_by_itself() {
    let mut node = Node::new();
    node.configure("server {\n  job_gc_interval = \"1s\"\n  job_gc_threshold = \"1s\"\n}\n");
    node.start();
    node.drover(&["job", "run", &job(&node, "batch", "done", "true")]).exits(0);
    wait::until("it is forgotten", || (status_of(&node, "/v1/job/done") == 404).then_some(()));
}
