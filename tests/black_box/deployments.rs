//! How a changed service is rolled out: by the command line, over HTTP, and back again when it is no good.

use crate::job_file::JobFile;
use crate::node::{Node, Said, path, text};
use crate::wait;
use serde_json::{Value, json};

/// A service of two that is healthy after a tenth of a second.
fn service(script: &str, update: &str) -> String {
    let in_group = format!(
        "count = 2\n update {{\n health_check = \"task_states\"\n min_healthy_time = \"100ms\"\n\
         healthy_deadline = \"10s\"\n progress_deadline = \"20s\"\n {update}\n}}\n restart {{\n attempts = 0\n mode = \"fail\"\n}}\n\
         reschedule {{\n attempts = 0\n unlimited = false\n}}"
    );
    JobFile { in_group: &in_group, ..JobFile::new("web", script) }.text()
}

fn run(node: &Node, name: &str, script: &str, update: &str) -> Said {
    let file = node.write(&format!("{name}.nomad.hcl"), &service(script, update));
    node.drover(&["job", "run", path(&file)])
}

fn latest(node: &Node) -> Value {
    node.get("/v1/job/web/deployment").json()
}

fn await_status(node: &Node, status: &str) -> Value {
    wait::until(status, || Some(latest(node)).filter(|d| d["Status"] == status))
}

/// The versions of the allocations that run.
fn running(node: &Node) -> Vec<u64> {
    let live = |a: &Value| a["ClientStatus"] == "running" && a["DesiredStatus"] == "run";
    let mut versions: Vec<u64> =
        node.allocs("web").iter().filter(|a| live(a)).filter_map(|a| a["JobVersion"].as_u64()).collect();
    versions.sort_unstable();
    versions
}

#[test]
fn a_rollout_is_followed_to_its_end_and_a_bad_one_comes_back() {
    let node = Node::dev();
    let said = run(&node, "good", "sleep 1000", "auto_revert = true");
    let out = said.exits(0);
    assert!(
        out.contains("Monitoring deployment") && out.contains("Deployment completed successfully"),
        "{out}"
    );
    assert_eq!(running(&node), [0, 0]);
    let first = latest(&node);
    assert_eq!(
        (&first["Status"], &first["TaskGroups"]["g"]["HealthyAllocs"]),
        (&"successful".into(), &2.into())
    );
    assert_eq!(node.get("/v1/job/web").json()["Stable"], true);

    let said = run(&node, "bad", "exit 1", "auto_revert = true");
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("rolling back to job version 0"), "{}", said.out);
    await_status(&node, "successful");
    wait::until_eq("the old spec runs again, where it still ran in place", &vec![2, 2], || running(&node));
    let job = node.get("/v1/job/web").json();
    assert_eq!((&job["Version"], &job["Stable"]), (&2.into(), &true.into()));
    let listed = node.drover(&["job", "deployments", "web"]);
    assert!(listed.exits(0).contains("rolling back to job version 0"), "{listed:?}");
    let versions: Vec<_> = listed.out.lines().skip(1).filter_map(|l| l.split_whitespace().nth(2)).collect();
    assert_eq!(versions, ["2", "1", "0"], "newest first");
    let shown = node.drover(&["job", "status", "web"]);
    assert!(
        shown.exits(0).contains("\nLatest Deployment\n") && shown.out.contains("\nDeployed\n"),
        "{shown:?}"
    );
}

#[test]
fn canaries_wait_for_a_word_and_a_pause_holds_everything() {
    let node = Node::dev();
    run(&node, "first", "sleep 1000", "canary = 1").exits(0);
    let file = node.write("second.nomad.hcl", &service("sleep 2000", "canary = 1"));
    node.drover(&["job", "run", "-detach", path(&file)]).exits(0);
    let waits = "Deployment is running but requires manual promotion";
    let deployment = wait::until("a healthy canary", || {
        let found = latest(&node);
        let healthy = found["TaskGroups"]["g"]["HealthyAllocs"] == 1 && found["Status"] == "running";
        healthy.then_some(found)
    });
    assert_eq!((text(&deployment["StatusDescription"]), running(&node)), (waits, vec![0, 0, 1]));
    let id = text(&deployment["ID"]).to_string();
    node.drover(&["deployment", "pause", &id[..8]]).exits(0);
    await_status(&node, "paused");
    node.drover(&["deployment", "resume", "-detach", &id]).exits(0);
    await_status(&node, "running");
    let promoted = node.drover(&["job", "promote", "web"]);
    assert!(promoted.exits(0).contains("Deployment completed successfully"), "{promoted:?}");
    await_status(&node, "successful");
    wait::until_eq("all are new", &vec![1, 1], || running(&node));
    let status = |flags: &[&str]| node.drover(&[&["deployment", "status"], flags, &[&id]].concat());
    status(&["-monitor"]).exits(0);
    let shown = status(&["-monitor", "-wait", "5s", "-verbose"]);
    assert!(shown.exits(0).contains("\nAllocations\nID "), "{shown:?}");
    status(&["-wait", "5s"]).fails(1, "-wait needs -monitor");
    status(&["-monitor", "-wait", "soon"]).fails(1, "-wait wants a duration");
    status(&["-ui"]).fails(1, "not supported yet: -ui");
    node.drover(&["deployment", "promote", &id]).fails(1, "can't promote terminal deployment");
    let listed = node.drover(&["deployment", "list", "-json"]);
    let all: Vec<Value> = serde_json::from_str(listed.exits(0)).expect("JSON");
    assert_eq!(all.len(), 2);
    let canary = &deployment["TaskGroups"]["g"]["PlacedCanaries"][0];
    let canary = node.get(&format!("/v1/allocation/{}", text(canary))).json();
    assert_eq!(
        (&canary["DeploymentStatus"]["Healthy"], &canary["DeploymentStatus"]["Canary"]),
        (&true.into(), &false.into())
    );
}

#[test]
fn a_user_may_judge_and_fail_over_http() {
    let node = Node::dev();
    run(&node, "first", "sleep 1000", "").exits(0);
    let file = node.write(
        "second.nomad.hcl",
        &service("sleep 2000", "health_check = \"manual\"").replacen(
            "health_check = \"task_states\"\n",
            "",
            1,
        ),
    );
    node.drover(&["job", "run", "-detach", path(&file)]).exits(0);
    let deployment = await_status(&node, "running");
    let id = text(&deployment["ID"]).to_string();
    let of = |verb: &str| format!("/v1/deployment/{verb}/{id}");
    let placed = wait::until("an allocation of the second version", || {
        let allocs = node.get(&format!("/v1/deployment/allocations/{id}")).json();
        allocs.as_array().and_then(|all| all.first().cloned())
    });
    for (target, body, status, sentence) in [
        (of("promote"), json!({}), 400, "DeploymentID must be specified"),
        (of("pause"), json!({"DeploymentID": "x"}), 400, "Deployment ID does not match"),
        (of("allocation-health"), json!({"DeploymentID": id}), 500, "must specify at least one"),
        (of("unblock"), json!({"DeploymentID": id}), 500, "can't unblock"),
        (
            "/v1/deployment/fail/00000000-0000-0000-0000-000000000000".into(),
            json!({}),
            500,
            "deployment not found",
        ),
    ] {
        let answer = node.put(&target, &body);
        assert!(answer.status == status && answer.text().contains(sentence), "{target}: {}", answer.text());
    }
    let body = json!({"DeploymentID": id, "HealthyAllocationIDs": [placed["ID"]]});
    assert_eq!(node.put(&of("allocation-health"), &body).status, 200);
    wait::until("the next one is placed", || {
        let placed = latest(&node)["TaskGroups"]["g"]["PlacedAllocs"] == 2;
        placed.then_some(())
    });
    let failed = node.put(&of("fail"), &json!({})).json();
    assert_ne!(failed["EvalID"], "");
    let ended = await_status(&node, "failed");
    assert_eq!(ended["StatusDescription"], "Deployment marked as failed");
    assert_eq!(node.put(&of("fail"), &json!({})).status, 500);
}
