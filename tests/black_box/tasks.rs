//! What becomes of tasks, seen from outside: restart policies, deaf tasks, children, limits, users, environment.

use crate::node::{Node, is_alive, shell_job, text};
use crate::wait;
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;

fn events(alloc: &Value) -> Vec<String> {
    let events = alloc["TaskStates"]["t"]["Events"].as_array().expect("events").clone();
    events.iter().map(|e| text(&e["Type"]).to_string()).collect()
}

#[test]
fn a_policy_that_fails_gives_up_after_its_attempts() {
    let node = Node::dev();
    let mut job = shell_job("fails", "echo try; exit 7");
    job["TaskGroups"][0]["RestartPolicy"] =
        json!({"Attempts": 2, "Interval": 600 * SECOND, "Delay": SECOND / 10, "Mode": "fail"});
    node.register(&job);
    let alloc = node.await_alloc("fails", "failed");
    assert_eq!(node.stdout("fails"), "try\n".repeat(3));
    let state = &alloc["TaskStates"]["t"];
    assert_eq!(
        (&state["Restarts"], &state["Failed"], &state["State"]),
        (&json!(2), &json!(true), &json!("dead"))
    );
    let told = events(&alloc);
    assert_eq!(told.iter().filter(|e| *e == "Restarting").count(), 2, "{told:?}");
    let last = told.iter().rfind(|e| *e != "Alloc Unhealthy");
    assert_eq!(last.map(String::as_str), Some("Not Restarting"), "{told:?}");
}

#[test]
fn a_batch_task_is_killed_when_max_run_duration_is_over() {
    let node = Node::dev();
    let mut job = shell_job("long", "exec sleep 1000");
    job["TaskGroups"][0]["MaxRunDuration"] = json!(2 * SECOND);
    let refused = node.put("/v1/jobs", &json!({ "Job": job }));
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(refused.text().contains("does not allow max_run_duration"), "{}", refused.text());
    job["Type"] = "batch".into();
    node.register(&job);
    let alloc = node.await_alloc("long", "complete");
    assert_eq!(alloc["ClientDescription"], "allocation exceeded max_run_duration");
    let told = events(&alloc);
    assert!(told.iter().any(|e| e == "Max Run Duration Exceeded"), "{told:?}");
    wait::until_eq("the job is dead", &json!("dead"), || node.get("/v1/job/long").json()["Status"].clone());
    assert_eq!(node.allocs("long").len(), 1, "it is not placed again");
    let file = node.write("long.nomad.hcl", node.drover(&["job", "inspect", "-hcl", "long"]).exits(0));
    let text = std::fs::read_to_string(&file).expect("written");
    assert!(text.contains("max_run_duration = \"2s\""), "{text}");
}

#[test]
fn failed_allocations_are_rescheduled_as_their_policy_says() {
    let node = Node::dev();
    let mut job = shell_job("again", "exit 7");
    job["Type"] = "batch".into();
    let group = &mut job["TaskGroups"][0];
    group["RestartPolicy"] =
        json!({"Attempts": 0, "Interval": 600 * SECOND, "Delay": SECOND, "Mode": "fail"});
    group["ReschedulePolicy"] = json!({"Attempts": 1, "Interval": 3600 * SECOND, "Delay": 5 * SECOND});
    node.register(&job);
    let first = node.await_alloc("again", "failed");
    let id = text(&first["ID"]).to_string();
    let waits = wait::until("an evaluation waits", || {
        let alloc = node.get(&format!("/v1/allocation/{id}")).json();
        alloc["FollowupEvalID"].as_str().map(|eval| node.get(&format!("/v1/evaluation/{eval}")).json())
    });
    assert_eq!((&waits["TriggeredBy"], &waits["Status"]), (&json!("alloc-reschedule"), &json!("pending")));
    assert!(waits["WaitUntil"].is_string(), "{waits:#}");
    assert!(node.drover(&["alloc", "status", &id]).exits(0).contains("Reschedule Eligibility"));
    assert!(node.drover(&["job", "status", "again"]).exits(0).contains("Future Rescheduling Attempts"));

    let next = wait::until("it is placed again", || {
        let alloc = node.get(&format!("/v1/allocation/{id}")).json();
        alloc["NextAllocation"].as_str().map(str::to_string)
    });
    let first = node.get(&format!("/v1/allocation/{id}")).json();
    assert_eq!((&first["DesiredStatus"], &first["ClientStatus"]), (&json!("stop"), &json!("failed")));
    let second = wait::until("that has failed, too", || {
        let alloc = node.get(&format!("/v1/allocation/{next}")).json();
        (alloc["ClientStatus"] == "failed").then_some(alloc)
    });
    assert_eq!((&second["PreviousAllocation"], &second["Name"]), (&json!(id), &first["Name"]));
    let event = &second["RescheduleTracker"]["Events"][0];
    assert_eq!((&event["PrevAllocID"], &event["Delay"]), (&json!(id), &json!(5 * SECOND)));
    assert!(node.drover(&["alloc", "status", &next]).exits(0).contains("Reschedule Attempts"));
    wait::until_eq("the job is dead", &json!("dead"), || node.get("/v1/job/again").json()["Status"].clone());
    assert_eq!(node.allocs("again").len(), 2, "its attempts are used up");
}

#[test]
fn a_policy_that_delays_goes_on() {
    let node = Node::dev();
    let mut job = shell_job("delays", "echo try; exit 7");
    job["TaskGroups"][0]["RestartPolicy"] =
        json!({"Attempts": 1, "Interval": 5 * SECOND, "Delay": SECOND / 10, "Mode": "delay"});
    node.register(&job);
    wait::until("tries beyond one interval", || (node.stdout("delays").lines().count() >= 3).then_some(()));
    let alloc = &node.allocs("delays")[0];
    assert_ne!(alloc["ClientStatus"], "failed", "{alloc:#}");
}

#[test]
fn batch_ends_by_success_and_service_begins_again() {
    let node = Node::dev();
    let policy = json!({"Attempts": 50, "Interval": 600 * SECOND, "Delay": SECOND / 20, "Mode": "fail"});
    for kind in ["batch", "service"] {
        let mut job = shell_job(kind, "echo try; exit 0");
        job["Type"] = kind.into();
        job["TaskGroups"][0]["RestartPolicy"] = policy.clone();
        node.register(&job);
    }
    node.await_alloc("batch", "complete");
    wait::until("the service begins again", || (node.stdout("service").lines().count() >= 3).then_some(()));
    assert_eq!(node.stdout("batch"), "try\n");
    wait::until_eq("the batch job is dead", &json!("dead"), || {
        node.get("/v1/job/batch").json()["Status"].clone()
    });
}

#[test]
fn a_deaf_task_is_killed_after_its_timeout() {
    let node = Node::dev();
    let mut job = shell_job("deaf", "trap 'echo heard' INT TERM; echo pid $$; while :; do sleep 0.05; done");
    job["TaskGroups"][0]["Tasks"][0]["KillTimeout"] = json!(SECOND);
    node.register(&job);
    let pid = node.await_pid("deaf");
    let id = text(&node.allocs("deaf")[0]["ID"]).to_string();
    node.drover(&["job", "stop", "-detach", "deaf"]).exits(0);
    wait::until("the signal is heard", || node.stdout("deaf").contains("heard").then_some(()));
    assert!(is_alive(pid), "killed before its time");
    wait::until("it is killed", || (!is_alive(pid)).then_some(()));
    let alloc = node.await_alloc("deaf", "complete");
    assert_eq!(alloc["ID"], id.as_str());
    assert!(events(&alloc).ends_with(&["Killing".into(), "Terminated".into(), "Killed".into()]), "{alloc:#}");
    let end = alloc["TaskStates"]["t"]["Events"].as_array().expect("events").clone();
    let end = end.iter().find(|e| e["Type"] == "Terminated").expect("an end");
    assert_eq!((&end["Signal"], &end["ExitCode"]), (&json!(9), &json!(137)), "{end:#}");
}

#[test]
fn children_end_with_their_task() {
    let node = Node::dev();
    node.run("parent", "sh -c 'trap \"\" INT TERM HUP; sleep 1000 & echo pid $!; setsid sleep 1000 & echo far $!; wait' & wait");
    let child = node.await_pid("parent");
    let far: i32 = wait::until("the other child", || {
        node.stdout("parent").lines().find_map(|l| l.strip_prefix("far ")?.parse().ok())
    });
    assert!(is_alive(child) && is_alive(far));
    node.drover(&["job", "stop", "-detach", "parent"]).exits(0);
    wait::until("the children are gone", || (!is_alive(child) && !is_alive(far)).then_some(()));
}

/// This machine lets this user make memory cgroups.
fn memory_can_be_limited() -> bool {
    let v1 = std::path::Path::new("/sys/fs/cgroup/memory");
    let v2 = std::fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control");
    let parent = match v2 {
        Ok(controllers) if controllers.contains("memory") => std::path::Path::new("/sys/fs/cgroup"),
        _ => v1,
    };
    let probe = parent.join(format!("drover-probe-{}", std::process::id()));
    std::fs::create_dir(&probe).is_ok() && std::fs::remove_dir(&probe).is_ok()
}

#[test]
fn a_task_over_its_memory_is_killed_and_says_so() {
    let node = Node::dev();
    assert!(
        memory_can_be_limited(),
        "no memory cgroup can be made: run tests/run as root, with the memory controller below /sys/fs/cgroup"
    );
    // tail keeps its input's only line
    node.run("hungry", "head -c 200000000 /dev/zero | tail > /dev/null; exit $?");
    let alloc = node.await_alloc("hungry", "failed");
    let events = alloc["TaskStates"]["t"]["Events"].as_array().expect("events").clone();
    let end = events.iter().find(|e| e["Type"] == "Terminated").expect("an end");
    assert_eq!(end["ExitCode"], 137, "{end:#}");
    assert_eq!(end["Details"]["oom_killed"], "true", "{end:#}");
    assert!(text(&end["DisplayMessage"]).contains("OOM Killed"), "{end:#}");
}

#[test]
fn a_command_that_does_not_exist_fails_with_a_sentence() {
    let node = Node::dev();
    let mut job = shell_job("nothing", "");
    job["TaskGroups"][0]["Tasks"][0]["Config"] = json!({"command": "/no/such/thing"});
    node.register(&job);
    let alloc = node.await_alloc("nothing", "failed");
    let told = alloc["TaskStates"]["t"]["Events"].to_string();
    assert!(told.contains("Driver Failure") && told.contains("/no/such/thing"), "{told}");
}

#[test]
fn an_unknown_name_in_the_config_fails_the_task() {
    let node = Node::dev();
    node.run("misnamed", "echo ${nosuch.name}");
    let alloc = node.await_alloc("misnamed", "failed");
    let told = alloc["TaskStates"]["t"]["Events"].to_string();
    assert!(told.contains("Failed Validation") && told.contains("nosuch.name"), "{told}");
}

#[test]
fn the_environment_tells_where_the_task_is() {
    let node = Node::dev();
    node.run("where", "env; pwd; echo end; sleep 1000");
    node.await_alloc("where", "running");
    let out = wait::until("the environment", || Some(node.stdout("where")).filter(|o| o.contains("\nend\n")));
    let alloc = &node.allocs("where")[0];
    for line in [
        format!("NOMAD_ALLOC_ID={}", text(&alloc["ID"])),
        "NOMAD_ALLOC_INDEX=0".into(),
        "NOMAD_ALLOC_NAME=where.g[0]".into(),
        "NOMAD_JOB_ID=where".into(),
        "NOMAD_JOB_NAME=where".into(),
        "NOMAD_GROUP_NAME=g".into(),
        "NOMAD_TASK_NAME=t".into(),
        "NOMAD_DC=dc1".into(),
        "NOMAD_REGION=global".into(),
        "NOMAD_NAMESPACE=default".into(),
        "NOMAD_CPU_LIMIT=10".into(),
        "NOMAD_MEMORY_LIMIT=32".into(),
    ] {
        assert!(out.lines().any(|l| l == line), "no {line} in:\n{out}");
    }
    let pwd = out.lines().rev().nth(1).expect("pwd");
    assert!(pwd.ends_with(&format!("{}/t", text(&alloc["ID"]))), "{pwd}");
}

#[test]
fn a_changed_job_replaces_its_task() {
    let node = Node::dev();
    node.run("changes", "echo pid $$; sleep 1000");
    let old = node.await_pid("changes");
    node.run("changes", "echo pid $$; sleep 2000");
    wait::until("the old task is gone", || (!is_alive(old)).then_some(()));
    let alloc = wait::until("the new one runs", || {
        let allocs = node.allocs("changes");
        allocs.into_iter().find(|a| a["JobVersion"] == 1 && a["ClientStatus"] == "running")
    });
    assert_eq!(alloc["Name"], "changes.g[0]");
    // evaluations are worked on in the order of their entries: what came of the change is there once a later job runs
    node.run("later", "sleep 1000");
    node.await_alloc("later", "running");
    let evals = node.get("/v1/job/changes/evaluations").json();
    assert!(evals.as_array().expect("a list").iter().all(|e| e["Status"] == "complete"), "{evals:#}");
    assert_eq!(node.allocs("changes").len(), 2);
}

#[test]
fn max_kill_timeout_bounds_what_a_task_asks_for() {
    let mut node = Node::new();
    node.configure("client { max_kill_timeout = \"1s\" }");
    node.start();
    let mut job = shell_job("stubborn", "trap '' INT; echo pid $$; while :; do sleep 0.05; done");
    job["TaskGroups"][0]["Tasks"][0]["KillTimeout"] = json!(600_000_000_000_u64);
    node.register(&job);
    let pid = node.await_pid("stubborn");
    node.drover(&["job", "stop", "-detach", "stubborn"]).exits(0);
    let alloc = node.await_alloc("stubborn", "complete");
    assert!(!is_alive(pid));
    let events = alloc["TaskStates"]["t"]["Events"].as_array().expect("events");
    let killing = events.iter().find(|e| e["Type"] == "Killing").expect("it was killed");
    assert_eq!(killing["DisplayMessage"], "Sent interrupt. Waiting 1s before force killing");
}

#[test]
fn an_unknown_user_is_the_drivers_failure() {
    let node = Node::durable();
    let mut job = shell_job("stranger", "sleep 1000");
    job["TaskGroups"][0]["Tasks"][0]["User"] = json!("no-such-user");
    job["TaskGroups"][0]["RestartPolicy"]["Attempts"] = json!(3);
    node.register(&job);
    let alloc = node.await_alloc("stranger", "failed");
    assert_eq!(events(&alloc)[..4], ["Received", "Task Setup", "Driver Failure", "Not Restarting"]);
    let why = text(&alloc["TaskStates"]["t"]["Events"][2]["DisplayMessage"]).to_string();
    assert!(why.contains("the user \"no-such-user\" is not known to this system"), "{why}");
}
