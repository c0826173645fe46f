//! What a user asks of a node about an allocation that runs there.

use crate::node::{Node, path, shell_job, text};
use crate::wait;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

/// A task that tells its pid and what it is sent.
const LISTENER: &str = "trap 'echo got HUP' HUP; echo pid $$; while :; do sleep 0.05; done";

fn pids(node: &Node, job: &str) -> Vec<String> {
    node.stdout(job).lines().filter_map(|l| l.strip_prefix("pid ")).map(str::to_string).collect()
}

fn running(node: &Node, script: &str) -> String {
    node.run("job", script);
    let id = text(&node.await_alloc("job", "running")["ID"]).to_string();
    node.await_pid("job");
    id
}

fn events(node: &Node, alloc: &str) -> Vec<String> {
    let alloc = node.get(&format!("/v1/allocation/{alloc}")).json();
    let events = alloc["TaskStates"]["t"]["Events"].as_array().cloned().unwrap_or_default();
    events.iter().map(|e| text(&e["Type"]).to_string()).collect()
}

#[test]
fn tasks_are_restarted_and_signalled_where_they_run() {
    let node = Node::dev();
    let id = running(&node, LISTENER);
    let short = &id[..8];
    node.drover(&["alloc", "signal", "-s", "SIGHUP", short, "t"]).exits(0);
    wait::until("the signal arrives", || node.stdout("job").contains("got HUP").then_some(()));
    node.drover(&["alloc", "restart", "-task", "t", short]).exits(0);
    wait::until("a second process", || (pids(&node, "job").len() == 2).then_some(()));
    node.drover(&["alloc", "restart", "-all-tasks", short]).exits(0);
    wait::until("a third process", || (pids(&node, "job").len() == 3).then_some(()));
    wait::until("the node has told of it", || {
        let told = events(&node, &id);
        (told.iter().filter(|e| *e == "Restart Signaled").count() == 2 && told.last()? == "Started")
            .then_some(())
    });
    let alloc = node.await_alloc("job", "running");
    assert_eq!((text(&alloc["ID"]), &alloc["TaskStates"]["t"]["Restarts"]), (id.as_str(), &Value::from(2)));
    assert_eq!(
        node.put(&format!("/v1/client/allocation/{id}/restart"), &json!({})).json(),
        json!({"Index": 0})
    );
    wait::until("a fourth process", || (pids(&node, "job").len() == 4).then_some(()));
    // without a name: SIGKILL, and this job may not restart by itself
    node.drover(&["alloc", "signal", short]).exits(0);
    node.await_alloc("job", "failed");
    node.drover(&["alloc", "restart", short]).fails(1, "has ended");
}

#[test]
fn invalid_requests_to_a_node_are_refused() {
    let node = Node::dev();
    let id = running(&node, LISTENER);
    for (what, body, status, sentence) in [
        ("restart", json!({"TaskName": "nope"}), 400, "unknown task name \"nope\""),
        ("restart", json!({"TaskName": "t", "AllTasks": true}), 400, "cannot be set"),
        ("signal", json!({"Signal": "SIGNOTHING"}), 400, "is not a signal"),
        ("signal", json!({"Signal": "SIGHUP", "Task": "nope"}), 400, "unknown task name"),
    ] {
        let answer = node.put(&format!("/v1/client/allocation/{id}/{what}"), &body);
        assert_eq!(answer.status, status, "{what} {body}: {}", answer.text());
        assert!(answer.text().contains(sentence), "{what} {body}: {}", answer.text());
    }
    node.drover(&["alloc", "restart", "-task", "t", &id, "t"]).fails(1, "named twice");
    node.drover(&["alloc", "restart", "-all-tasks", &id, "t"]).fails(1, "exclude each other");
    node.drover(&["alloc", "signal", "ffffffff"]).fails(1, "No allocation(s)");
}

#[test]
fn files_are_listed_printed_and_followed() {
    let node = Node::dev();
    let script = "echo one > local/f; echo two >> local/f; echo pid $$; \
                  until [ -e ../go ]; do sleep 0.05; done; echo three >> local/f; rm local/f; sleep 1000";
    let id = running(&node, script);
    let fs = |args: &[&str]| node.drover(&[&["alloc", "fs"], args].concat());
    let top = fs(&[&id]).exits(0).to_string();
    assert!(top.starts_with("Mode") && top.contains(" alloc/\n") && top.contains(" t/\n"), "{top}");
    assert!(fs(&["-H", &id[..8], "t/local"]).exits(0).contains("-rw-r--r--  8 "), "sizes in bytes");
    assert!(fs(&["-stat", &id, "t/local/f"]).exits(0).contains("text/plain; charset=utf-8"), "its type");
    assert_eq!(fs(&[&id, "t/local/f"]).exits(0), "one\ntwo\n");
    assert_eq!(fs(&["-job", "job", "/t/local/f"]).exits(0), "one\ntwo\n");
    assert_eq!(fs(&["-tail", "-n", "1", &id, "t/local/f"]).exits(0), "two\n");
    assert_eq!(fs(&["-tail", "-c", "3", &id, "t/local/f"]).exits(0), "wo\n");
    fs(&[&id, "t/local/nope"]).fails(1, "no such file or directory");
    fs(&["-n", "1", &id, "t/local/f"]).fails(1, "with -tail only");

    let mut follower = node.drover_spawn(&["alloc", "fs", "-f", "-tail", "-c", "4", &id, "t/local/f"]);
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "two");
    node.allow(&id);
    assert_eq!(lines.next().expect("a line").expect("text"), "three");
    assert!(follower.wait().expect("its end").success(), "it ends when the file is deleted");
}

#[test]
fn files_elsewhere_and_secrets_are_not_shown() {
    let node = Node::dev();
    let script = "echo hush > secrets/token; ln -s /etc/passwd local/out; ln -s ../secrets/token local/in; \
                  mkfifo local/pipe; echo pid $$; sleep 1000";
    let id = running(&node, script);
    for (how, path, status, sentence) in [
        ("cat", "t/local/out", 500, "Path escapes the alloc directory"),
        ("cat", "../../../../etc/passwd", 500, "Path escapes the alloc directory"),
        ("stat", "t/local/out", 500, "Path escapes the alloc directory"),
        ("cat", "t/secrets/token", 403, "Reading secret file prohibited"),
        ("stream", "t/local/in", 403, "Reading secret file prohibited"),
        ("readat", "t/local/pipe", 400, "no regular file"),
        ("cat", "t/local", 400, "is a directory"),
        ("ls", "t/local/out", 500, "Path escapes"),
        ("cat", "", 400, "must provide a file name"),
    ] {
        let answer = node.get(&format!("/v1/client/fs/{how}/{id}?path={path}"));
        assert_eq!(answer.status, status, "{how} {path}: {}", answer.text());
        assert!(answer.text().contains(sentence), "{how} {path}: {}", answer.text());
    }
    let listed = node.get(&format!("/v1/client/fs/ls/{id}?path=t/secrets")).json();
    assert_eq!((listed[0]["Name"].as_str(), listed[0]["Size"].as_u64()), (Some("token"), Some(5)));
}

/// What was acknowledged happens once, also when the agent is killed right after it.
#[test]
fn a_restart_that_was_promised_outlives_the_agent() {
    let mut node = Node::durable();
    let mut job = shell_job("job", "trap '' INT; echo pid $$; while :; do sleep 0.05; done");
    job["TaskGroups"][0]["Tasks"][0]["KillTimeout"] = json!(2_000_000_000_u64);
    node.register(&job);
    let id = text(&node.await_alloc("job", "running")["ID"]).to_string();
    let first = node.await_pid("job");
    node.drover(&["alloc", "restart", &id]).exits(0);
    node.kill();
    assert!(crate::node::is_alive(first), "it does not hear SIGINT");
    node.start();
    wait::until("a second process", || (pids(&node, "job").len() == 2).then_some(()));
    wait::until("the node has told of it", || {
        (node.allocs("job")[0]["TaskStates"]["t"]["Restarts"] == 1).then_some(())
    });
    assert!(!crate::node::is_alive(first));
    assert_eq!(node.allocs("job").len(), 1);
}

#[test]
fn usage_of_tasks_and_of_the_machine_is_told() {
    let node = Node::dev();
    let id = running(&node, "echo pid $$; while :; do :; done");
    let stats = node.get(&format!("/v1/client/allocation/{id}/stats")).json();
    for usage in [&stats["ResourceUsage"], &stats["Tasks"]["t"]["ResourceUsage"]] {
        assert!(usage["MemoryStats"]["RSS"].as_u64() > Some(0), "{stats:#}");
        assert!(usage["CpuStats"]["Percent"].as_f64() > Some(1.0), "it never rests: {stats:#}");
        let memory = &usage["MemoryStats"];
        assert!(memory["Usage"].as_u64() >= memory["KernelUsage"].as_u64(), "{stats:#}");
        for (measured, names) in [
            (&memory["Measured"], ["Cache", "Mapped File", "Kernel Usage"].as_slice()),
            (&usage["CpuStats"]["Measured"], &["Throttled Periods", "Throttled Time"]),
        ] {
            let told = measured.as_array().expect("a list");
            assert!(names.iter().all(|name| told.contains(&(*name).into())), "{names:?}: {stats:#}");
        }
    }
    let pid = node.await_pid("job").to_string();
    assert!(stats["Tasks"]["t"]["Pids"][&pid].is_object(), "{stats:#}");
    assert_eq!(node.get(&format!("/v1/client/allocation/{id}/stats?task=nope")).status, 400);
    let shown = node.drover(&["alloc", "status", "-stats", &id]).exits(0).to_string();
    for part in ["/10 MHz", "Memory Stats", "Cache", "Kernel Usage", "Throttled Periods"] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let metrics = node.get("/v1/metrics?format=prometheus").text();
    for line in [
        "# TYPE nomad_client_allocs_memory_cache gauge",
        "# TYPE nomad_client_allocs_cpu_throttled_time gauge",
        "# TYPE nomad_client_allocs_cpu_total_ticks_count counter",
        "# TYPE nomad_client_host_cpu_total_ticks_count counter",
    ] {
        assert!(metrics.contains(line), "no {line:?} in {metrics}");
    }
    let host = node.get("/v1/client/stats").json();
    assert!(host["Memory"]["Total"].as_u64() > Some(0) && host["CPU"][0]["Idle"].is_number(), "{host:#}");
    assert!(host["AllocDirStats"]["Size"].as_u64() > Some(0), "{host:#}");
    let unknown = node.get("/v1/client/stats?node_id=00000000-0000-0000-0000-000000000000");
    assert_eq!((unknown.status, unknown.text().contains("Unknown node")), (404, true));
    assert_eq!(node.get(&format!("/v1/client/allocation/{id}/checks")).text(), "null");
}

#[test]
fn an_ended_allocation_is_collected_when_that_is_asked_for() {
    let node = Node::dev();
    let id = running(&node, LISTENER);
    let collect = || node.get(&format!("/v1/client/allocation/{id}/gc"));
    assert_eq!(collect().status, 500, "it runs");
    node.drover(&["job", "stop", "-detach", "job"]).exits(0);
    wait::until("it can be collected", || (collect().status == 200).then_some(()));
    let dir = node.throw_away()[0].join("alloc").join(&id);
    wait::until("its directory is gone", || (!dir.exists()).then_some(()));
    assert_eq!(node.get("/v1/client/gc").text(), "");
    let gone = node.get(&format!("/v1/client/fs/ls/{id}"));
    assert_eq!((gone.status, gone.text().contains("not found on client")), (404, true), "{}", gone.text());
}

#[test]
fn metadata_is_set_while_a_node_runs_and_outlives_it() {
    let mut node = Node::new();
    node.configure("client { meta { rack = \"r1\" } }");
    node.start();
    let meta = |node: &Node| node.get("/v1/client/metadata").json();
    node.drover(&["node", "meta", "apply", "-unset", "rack", "zone=z1"]).exits(0);
    let expected =
        json!({"Meta": {"zone": "z1"}, "Dynamic": {"rack": null, "zone": "z1"}, "Static": {"rack": "r1"}});
    assert_eq!(meta(&node), expected);
    node.restart();
    wait::until_eq("the same after a restart", &expected, || meta(&node));
    let id = text(&node.get("/v1/nodes").json()[0]["ID"]).to_string();
    wait::until_eq("the servers know it", &json!({"zone": "z1"}), || {
        node.get(&format!("/v1/node/{id}")).json()["Meta"].clone()
    });
    let shown = node.drover(&["node", "meta", "read", "-node-id", &id[..8]]).exits(0).to_string();
    assert!(shown.contains("zone = z1") && shown.contains("rack = <unset>"), "{shown}");
    node.drover(&["node", "meta", "apply", "a b=c"]).fails(1, "metadata key");
    node.drover(&["node", "meta", "apply", "nothing"]).fails(1, "key=value");
    assert_eq!(node.put("/v1/client/metadata", &json!({"Meta": {"a": "b"}})).status, 405);
}

/// What is stopped is placed anew as long as its job wants it, and the tasks of the old one end.
#[test]
fn a_stopped_allocation_is_placed_anew() {
    let mut node = Node::durable();
    node.run("web", "sleep 1000");
    let first = text(&node.await_alloc("web", "running")["ID"]).to_string();
    let stop = node.drover(&["alloc", "stop", &first[..8]]);
    for part in ["Evaluation triggered by job \"web\"", "created: node", "finished with status \"complete\""]
    {
        assert!(stop.exits(0).contains(part), "no {part:?} in {stop:?}");
    }
    let old = format!("/v1/allocation/{first}");
    wait::until_eq("the old one ends", &"complete".to_string(), || {
        text(&node.get(&old).json()["ClientStatus"]).to_string()
    });
    let shown = node.get(&old).json();
    assert_eq!(
        (&shown["DesiredStatus"], &shown["DesiredTransition"]["Migrate"]),
        (&"stop".into(), &true.into())
    );
    let running = |node: &Node| {
        let allocs = node.get("/v1/job/web/allocations").json();
        let live = allocs.as_array().into_iter().flatten().filter(|a| a["ClientStatus"] == "running");
        live.map(|a| text(&a["ID"]).to_string()).collect::<Vec<_>>()
    };
    let second = wait::until("another runs", || running(&node).first().filter(|id| **id != first).cloned());
    node.restart();
    assert_eq!(running(&node), std::slice::from_ref(&second), "nothing moves again after a restart");
    let eval = node.drover(&["alloc", "stop", "-detach", &second]);
    let eval = node.get(&format!("/v1/evaluation/{}", eval.exits(0).trim())).json();
    assert_eq!(eval["TriggeredBy"], "alloc-stop");
    node.drover(&["alloc", "stop", "ffffffff"])
        .fails(1, "No allocation(s) with prefix or id \"ffffffff\" found");
}

#[test]
fn a_job_is_looked_at_again_when_asked() {
    let node = Node::dev();
    node.run("web", "sleep 1000");
    let first = text(&node.await_alloc("web", "running")["ID"]).to_string();
    let eval = node.drover(&["job", "eval", "we"]);
    assert!(eval.exits(0).contains("finished with status \"complete\""), "{eval:?}");
    assert!(eval.out.contains("Deployment completed successfully"), "its deployment is followed: {eval:?}");
    let detached = node.drover(&["job", "eval", "-detach", "web"]);
    let id = detached.exits(0).trim().strip_prefix("Created eval ID: \"").and_then(|id| id.strip_suffix('"'));
    let made = node.get(&format!("/v1/evaluation/{}", id.expect("an id"))).json();
    assert_eq!((&made["JobID"], &made["TriggeredBy"]), (&"web".into(), &"job-register".into()));
    assert_eq!(
        node.await_alloc("web", "running")["ID"].as_str(),
        Some(first.as_str()),
        "nothing was to be done"
    );
    node.drover(&["job", "eval", "nope"]).fails(1, "No job(s) with prefix or ID \"nope\" found");
}

#[test]
fn failed_allocations_are_rescheduled_when_forced() {
    let node = Node::dev();
    let repaired = node.data_dir().with_file_name("repaired");
    let mut job = shell_job("web", &format!("[ -e {} ] || exit 3; sleep 1000", path(&repaired)));
    let hour = 3_600_000_000_000_u64;
    // without a deployment, which would be followed
    job["Update"] = json!({"MaxParallel": 0});
    job["TaskGroups"][0]["ReschedulePolicy"] = json!({
        "Attempts": 1, "Interval": 24 * hour, "Delay": hour, "DelayFunction": "constant", "Unlimited": false
    });
    node.register(&job);
    let failed = text(&node.await_alloc("web", "failed")["ID"]).to_string();
    node.write("repaired", "");
    node.drover(&["job", "eval", "web"]).exits(0);
    assert_eq!(node.allocs("web").len(), 1, "its time has not come");
    node.drover(&["job", "eval", "-force-reschedule", "web"]).exits(0);
    let second = node.await_alloc("web", "running");
    let replaced = node.get(&format!("/v1/allocation/{failed}")).json();
    assert_eq!(replaced["NextAllocation"], second["ID"]);
    node.drover(&["job", "eval", "-force-reschedule", "web"]).exits(0);
    assert_eq!(node.allocs("web").len(), 2, "it was replaced already");
}

#[test]
fn a_shutdown_delay_is_called_off() {
    let node = Node::dev();
    let mut job = shell_job("web", "sleep 1000");
    job["Update"] = json!({"MaxParallel": 0});
    job["TaskGroups"][0]["ShutdownDelay"] = json!(3_600_000_000_000_u64);
    node.register(&job);
    let first = text(&node.await_alloc("web", "running")["ID"]).to_string();
    node.drover(&["alloc", "stop", "-detach", "-no-shutdown-delay", &first]).exits(0);
    let shown = |id: &str| node.get(&format!("/v1/allocation/{id}")).json();
    wait::until("it has ended", || (shown(&first)["ClientStatus"] == "complete").then_some(()));
    assert_eq!(shown(&first)["DesiredTransition"]["NoShutdownDelay"], true);
    let second = wait::until("another runs", || {
        let newest = node.allocs("web").remove(0);
        (newest["ClientStatus"] == "running").then(|| text(&newest["ID"]).to_string())
    });
    node.drover(&["job", "stop", "-detach", "web"]).exits(0);
    wait::until("it is to end", || (shown(&second)["DesiredStatus"] == "stop").then_some(()));
    assert_eq!(shown(&second)["ClientStatus"], "running", "it waits for an hour");
    node.drover(&["job", "stop", "-purge", "-no-shutdown-delay", "web"]).fails(1, "not supported yet");
    node.drover(&["job", "stop", "-detach", "-no-shutdown-delay", "web"]).exits(0);
    wait::until("it does not wait any more", || (shown(&second)["ClientStatus"] == "complete").then_some(()));
}
