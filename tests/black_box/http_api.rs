//! The HTTP API, asked as curl and the tools of the field ask it.

use crate::node::{Node, shell_job, text};
use crate::{wait, web};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[test]
fn lists_and_objects_carry_their_index() {
    let node = Node::dev();
    node.run("a", "sleep 1000");
    node.await_alloc("a", "running");
    for target in
        ["/v1/jobs", "/v1/job/a", "/v1/nodes", "/v1/allocations", "/v1/evaluations", "/v1/job/a/summary"]
    {
        let answer = node.get(target);
        assert!(answer.index() > 0, "{target}");
        assert_eq!(answer.headers["x-nomad-knownleader"], "true", "{target}");
        assert!(answer.headers["x-nomad-lastcontact"].parse::<u64>().is_ok(), "{target}");
        assert_eq!(answer.headers["content-type"], "application/json", "{target}");
    }
    let leader = node.get("/v1/status/leader").json();
    assert!(text(&leader).starts_with("127.0.0.1:"), "{leader}");
    let own = node.get("/v1/agent/self").json();
    assert_eq!(own["config"]["Datacenter"], "dc1");
    let client = &own["stats"]["client"];
    assert_eq!(client["known_servers"], leader, "{client}");
    let ttl = text(&client["heartbeat_ttl"]);
    assert!(ttl.ends_with('s') && ttl != "0s", "{client}");
    assert!(node.get("/v1/regions").json() == json!(["global"]));
    let (pretty, plain) = (node.get("/v1/regions?pretty").text(), node.get("/v1/regions").text());
    assert_eq!((pretty.as_str(), plain.as_str()), ("[\n    \"global\"\n]\n", "[\"global\"]"));
}

#[test]
fn a_blocking_query_wakes_on_its_change_alone() {
    let node = Node::dev();
    node.run("watched", "sleep 1000");
    node.await_alloc("watched", "running");
    let index = node.get("/v1/job/watched").index();
    let target = format!("/v1/job/watched?index={index}&wait=60s");
    let mut waiting = web::open(node.port, "GET", &target, "").expect("a connection");
    // somebody else's change does not wake it, its own does
    node.run("other", "sleep 1000");
    node.await_alloc("other", "running");
    let mut job = shell_job("watched", "sleep 1000");
    job["Priority"] = json!(70);
    let changed = node.register(&job)["JobModifyIndex"].as_u64().expect("an index");
    let answer = web::read_answer(&mut waiting).expect("an answer");
    assert_eq!(answer.json()["Priority"], 70);
    assert!(answer.index() >= changed, "{} {changed}", answer.index());
    // nothing happens: the wait ends by itself
    let begin = Instant::now();
    let index = node.get("/v1/job/watched").index();
    let answer = node.get(&format!("/v1/job/watched?index={index}&wait=300ms"));
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert!(answer.index() >= 1 && answer.status == 200);
    // an old index does not wait at all
    let begin = Instant::now();
    assert_eq!(node.get("/v1/jobs?index=1&wait=60s").status, 200);
    assert!(begin.elapsed() < Duration::from_secs(30));
    for bad in ["index=x", "index=1&wait=x", "index=-1"] {
        assert_eq!(node.get(&format!("/v1/jobs?{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn put_and_post_are_one_and_others_are_refused() {
    let node = Node::dev();
    let body = json!({"Job": shell_job("posted", "sleep 1000")}).to_string();
    for method in ["POST", "PUT"] {
        assert_eq!(web::send(node.port, method, "/v1/jobs", &body).status, 200, "{method}");
    }
    assert_eq!(node.get("/v1/job/posted").json()["Version"], 0);
    for (method, target, status) in [
        ("DELETE", "/v1/jobs", 405),
        ("PATCH", "/v1/job/posted", 405),
        ("GET", "/v1/job/nope", 404),
        ("GET", "/v1/allocation/00000000-0000-0000-0000-000000000000", 404),
        ("GET", "/v1/node/00000000-0000-0000-0000-000000000000", 404),
        ("GET", "/v1/evaluation/00000000-0000-0000-0000-000000000000", 404),
        ("PUT", "/v1/jobs", 400),
    ] {
        let answer = web::send(node.port, method, target, "");
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.text());
        assert!(!answer.text().is_empty() && !answer.text().contains("panick"), "{method} {target}");
    }
    // http-api.md 0.1.1
    for target in ["/v1/nonsense", "/v2/jobs", "/v1"] {
        let answer = node.get(target);
        assert_eq!((answer.status, answer.text().as_str()), (404, ""), "{target}");
    }
    for target in ["/v1/acl/tokens", "/v1/volume/csi/data", "/v1/operator/snapshot", "/v1/agent/keyring/list"]
    {
        let answer = node.get(target);
        assert!(
            answer.status >= 400 && answer.text().contains("not supported yet"),
            "{target}: {} {}",
            answer.status,
            answer.text()
        );
    }
}

#[test]
fn a_job_id_may_hold_anything_a_path_can() {
    let node = Node::dev();
    for (id, encoded) in
        [("team/web", "team/web"), ("team/web", "team%2Fweb"), ("a b?c", "a%20b%3Fc"), ("50%", "50%25")]
    {
        let answer = node.put("/v1/jobs", &json!({"Job": shell_job(id, "sleep 1000")}));
        if id.contains(' ') {
            assert_ne!(answer.status, 200, "spaces are refused: {id}");
            continue;
        }
        answer.json();
        assert_eq!(node.get(&format!("/v1/job/{encoded}")).json()["ID"], id);
        assert_eq!(node.get(&format!("/v1/job/{encoded}/summary")).json()["JobID"], id);
        node.drover(&["job", "status", id]).exits(0);
        assert_eq!(
            web::send(node.port, "DELETE", &format!("/v1/job/{encoded}?purge=true"), "").status,
            200,
            "{id}"
        );
        assert_eq!(node.get(&format!("/v1/job/{encoded}")).status, 404, "{id}");
    }
}

#[test]
fn a_large_body_and_broken_ones_are_refused() {
    let node = Node::dev();
    let large = "x".repeat(64 << 20);
    if let Ok(answer) = web::try_send(node.port, "PUT", "/v1/jobs", &large) {
        assert!(answer.status == 413 || answer.status == 400, "{} {}", answer.status, answer.text());
    }
    for body in
        ["{", "[]", "null", "{}", "{\"Job\":null}", "{\"Job\":{}}", "{\"Job\":{\"ID\":7}}", "\u{0}", "\"x\""]
    {
        let answer = web::send(node.port, "PUT", "/v1/jobs", body);
        assert!((400..=500).contains(&answer.status), "{body}: {} {}", answer.status, answer.text());
        assert!(!answer.text().is_empty(), "{body}");
    }
    let deep = format!("{{\"Job\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(web::send(node.port, "PUT", "/v1/jobs", &deep).status, 400);
    assert_eq!(node.get("/v1/jobs").json(), json!([]), "it still answers");
}

#[test]
fn an_unchanged_job_keeps_its_version() {
    let node = Node::dev();
    let first = node.run("same", "sleep 1000");
    node.await_alloc("same", "running");
    let again = node.run("same", "sleep 1000");
    assert_eq!(again["JobModifyIndex"].as_u64(), node.get("/v1/job/same").json()["ModifyIndex"].as_u64());
    let job = node.get("/v1/job/same").json();
    assert_eq!((&job["Version"], &job["JobModifyIndex"]), (&json!(0), &first["JobModifyIndex"]));
    for n in 1..=8 {
        node.run("same", &format!("sleep 100{n}"));
    }
    let versions = node.get("/v1/job/same/versions").json();
    let numbers: Vec<u64> = versions["Versions"]
        .as_array()
        .expect("versions")
        .iter()
        .map(|v| v["Version"].as_u64().expect("a number"))
        .collect();
    assert_eq!(numbers, [8, 7, 6, 5, 4, 3]);
}

#[test]
fn an_enforced_index_is_enforced() {
    let node = Node::dev();
    let job = shell_job("guarded", "sleep 1000");
    let ask = |index: u64| {
        let body = json!({"Job": job, "EnforceIndex": true, "JobModifyIndex": index});
        let answer = node.put("/v1/jobs", &body);
        (answer.status, answer.text())
    };
    let (status, said) = ask(7);
    assert_eq!((status, said.as_str()), (500, "Enforcing job modify index 7: job does not exist"));
    assert_eq!(ask(0).0, 200);
    assert_eq!(ask(0), (500, "Enforcing job modify index 0: job already exists".into()));
    let index = node.get("/v1/job/guarded").json()["JobModifyIndex"].as_u64().expect("an index");
    let (status, said) = ask(index + 90);
    let conflict = format!(
        "Enforcing job modify index {}: job exists with conflicting job modify index: {index}",
        index + 90
    );
    assert_eq!((status, said), (500, conflict));
    assert_eq!(ask(index).0, 200);
}

#[test]
fn stop_keeps_a_job_and_purge_does_not() {
    let node = Node::dev();
    node.run("kept", "sleep 1000");
    node.await_alloc("kept", "running");
    let stopped = web::send(node.port, "DELETE", "/v1/job/kept", "").json();
    assert!(text(&stopped["EvalID"]).len() == 36, "{stopped}");
    node.await_alloc("kept", "complete");
    let job = node.get("/v1/job/kept").json();
    assert_eq!((&job["Stop"], &job["Status"]), (&json!(true), &json!("dead")));
    node.run("kept", "sleep 1000");
    crate::wait::until("it runs again", || {
        node.allocs("kept").iter().any(|a| a["ClientStatus"] == "running").then_some(())
    });
    assert_eq!(node.get("/v1/job/kept").json()["Stop"], false);
    web::send(node.port, "DELETE", "/v1/job/kept?purge=true", "").json();
    assert_eq!(node.get("/v1/job/kept").status, 404);
    assert_eq!(node.get("/v1/job/kept/allocations").json(), json!([]));
    assert_eq!(node.get("/v1/job/kept/versions").status, 404);
    crate::wait::until("its task is gone", || {
        node.drover(&["keeper", "status", "-data-dir", crate::node::path(&node.throw_away()[0])])
            .out
            .contains("0 runs")
            .then_some(())
    });
    let never = web::send(node.port, "DELETE", "/v1/job/never", "").json();
    assert_eq!((&never["EvalID"], &never["Index"]), (&json!(""), &json!(0)), "{never}");
}

#[test]
fn a_job_as_the_real_command_sends_it_is_taken() {
    let node = Node::dev();
    let body = full_job();
    let answer = node.put("/v1/jobs", &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    node.await_alloc("full", "running");
    let back = node.get("/v1/job/full").json();
    assert_eq!(back["TaskGroups"][0]["Tasks"][0]["KillTimeout"], 5_000_000_000_u64);
    assert_eq!(back["TaskGroups"][0]["Tasks"][0]["LogConfig"]["MaxFiles"], 10);
    // what was read is taken back unchanged
    node.put("/v1/jobs", &json!({"Job": back})).json();
    assert_eq!(node.get("/v1/job/full").json()["Version"], 0);
    let parsed = node.put("/v1/jobs/parse", &json!({"JobHCL": "job \"p\" {\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n config { command = \"/bin/true\" }\n }\n }\n}\n", "Canonicalize": true})).json();
    assert_eq!((&parsed["ID"], &parsed["Priority"]), (&json!("p"), &json!(50)));
}

/// Every member that the command line of the field sends, most of them null.
fn full_job() -> Value {
    let text = r#"
        {"EnforceIndex":false,"JobModifyIndex":0,"PolicyOverride":false,"PreserveCounts":false,
        "PreserveResources":false,"EvalPriority":0,"Region":"","Namespace":"","SecretID":"",
        "Submission":{"Source":"job \"full\" {}","Format":"hcl2","VariableFlags":{},"Variables":""},
        "Job":{"Region":null,"Namespace":null,"ID":"full","Name":"full","Type":null,"Priority":null,
        "AllAtOnce":null,"Datacenters":["dc1"],"NodePool":null,"Constraints":null,"Affinities":null,
        "TaskGroups":[{"Name":"g","Count":1,"Constraints":null,"Affinities":null,"Tasks":[{"Name":"t",
        "Driver":"raw_exec","User":"","Lifecycle":null,"Config":{"command":"/bin/sleep","args":["1000"]},
        "Constraints":null,"Affinities":null,"Env":null,"Services":null,"Resources":{"CPU":20,"Cores":null,
        "MemoryMB":20,"MemoryMaxMB":null,"DiskMB":null,"Networks":null,"Devices":null,"NUMA":null,
        "SecretsMB":null,"IOPS":null},"RestartPolicy":null,"Meta":null,"KillTimeout":null,"LogConfig":null,
        "Artifacts":null,"Vault":null,"Consul":null,"Templates":null,"DispatchPayload":null,
        "VolumeMounts":null,"CSIPluginConfig":null,"Leader":false,"ShutdownDelay":0,"KillSignal":"",
        "Kind":"","ScalingPolicies":null,"Identity":null,"Identities":null,"Actions":null,"Schedule":null}],
        "Spreads":null,"Volumes":null,"RestartPolicy":null,"Disconnect":null,"ReschedulePolicy":null,
        "EphemeralDisk":null,"Update":null,"Migrate":null,"Networks":null,"Meta":null,"Services":null,
        "ShutdownDelay":null,"StopAfterClientDisconnect":null,"MaxClientDisconnect":null,"Scaling":null,
        "Consul":null,"PreventRescheduleOnLost":null}],"Update":null,"Multiregion":null,"Spreads":null,
        "Periodic":null,"ParameterizedJob":null,"Reschedule":null,"Migrate":null,"Meta":null,
        "ConsulToken":null,"VaultToken":null,"UI":null,"Stop":null,"ParentID":null,"Dispatched":false,
        "DispatchIdempotencyToken":null,"Payload":null,"ConsulNamespace":null,"VaultNamespace":null,
        "NomadTokenID":null,"Status":null,"StatusDescription":null,"Stable":null,"Version":null,
        "SubmitTime":null,"CreateIndex":null,"ModifyIndex":null,"JobModifyIndex":null,"VersionTag":null}}
    "#;
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_job_and_its_node_are_evaluated_on_demand() {
    let node = Node::dev();
    node.run("asked", "sleep 1000");
    let alloc = node.await_alloc("asked", "running");
    let of_node = format!("/v1/node/{}/evaluate", text(&alloc["NodeID"]));
    for (target, trigger) in [("/v1/job/asked/evaluate", "job-register"), (&of_node, "node-update")] {
        let answer = web::send(node.port, "PUT", target, "").json();
        let id = answer.get("EvalID").or(answer.pointer("/EvalIDs/0")).expect("an id").clone();
        assert_eq!(answer["EvalCreateIndex"], answer["Index"], "{target}");
        let target = format!("/v1/evaluation/{}", text(&id));
        wait::until_eq("it is complete", &json!("complete"), || node.get(&target).json()["Status"].clone());
        assert_eq!(node.get(&target).json()["TriggeredBy"], trigger);
    }
    assert_eq!(node.allocs("asked").len(), 1, "nothing was placed anew");
    assert_eq!(node.get("/v1/evaluations/count?filter=TriggeredBy+==+%22node-update%22").json()["Count"], 1);
    for (target, sentence) in [
        ("/v1/job/nosuch/evaluate".to_string(), "job not found"),
        ("/v1/node/00000000-0000-0000-0000-000000000000/evaluate".into(), "node not found"),
    ] {
        let answer = web::send(node.port, "PUT", &target, "");
        assert_eq!((answer.status, answer.text().as_str()), (500, sentence), "{target}");
    }
}

#[test]
fn lists_are_filtered_and_counted_in_pages() {
    let node = Node::dev();
    for id in ["a-1", "b-1", "a-2"] {
        node.run(id, "sleep 1000");
    }
    let first = node.get("/v1/jobs?per_page=1&filter=ID+matches+%22%5Ea%22");
    assert_eq!(first.json()[0]["ID"], "a-1");
    assert_eq!(first.headers["x-nomad-nexttoken"], "default.a-2");
    let bad = node.get("/v1/jobs?filter=ID+=+x");
    assert_eq!(bad.status, 400);
    assert!(bad.text().contains("character 4: expected an operator"), "{}", bad.text());
}
