//! A machine that is full: what is less urgent makes way, where that is switched on, and comes back when there is room.

use crate::node::{Node, path, shell_job, text};
use crate::wait;
use serde_json::{Value, json};

/// One machine with 1,000 MHz.
fn small() -> Node {
    let mut node = Node::new();
    node.configure("client {\n cpu_total_compute = 1000\n reserved {\n cpu = 0\n }\n}\n");
    node.start();
    node.await_ready();
    node
}

fn job(id: &str, kind: &str, priority: u64, cpu: u64, script: &str) -> Value {
    let mut job = shell_job(id, script);
    (job["Type"], job["Priority"]) = (kind.into(), priority.into());
    job["TaskGroups"][0]["Tasks"][0]["Resources"]["CPU"] = cpu.into();
    if kind == "system" {
        job["TaskGroups"][0].as_object_mut().expect("a group").remove("RestartPolicy");
    }
    job
}

fn one(node: &Node, job: &str, desired: &str) -> Value {
    wait::until(&format!("an allocation of {job} is to {desired}"), || {
        node.allocs(job).into_iter().find(|a| a["DesiredStatus"] == desired)
    })
}

fn preempt_services(node: &Node) {
    node.drover(&["operator", "scheduler", "set-config", "-preempt-service-scheduler=true"]).exits(0);
    let config = node.drover(&["operator", "scheduler", "get-config"]);
    assert!(config.exits(0).contains("Preemption Service Scheduler  = true\n"), "{config:?}");
}

fn a_plan_tells_who_would_leave(node: &Node, high: &Value, low: &Value) {
    let file = path(&node.write("high.json", &json!({"Job": high}).to_string())).to_string();
    let plan = node.drover(&["job", "plan", "-json", &file]);
    let short = &text(&low["ID"])[..8];
    let table = format!("Preemptions:\nAlloc ID  Job ID  Task Group\n{short}  low     g\n");
    assert!(plan.exits(1).contains(&table), "{plan:?}");
    let planned = node.put("/v1/job/high/plan", &json!({"Job": high})).json();
    let annotations = &planned["Annotations"];
    assert_eq!(annotations["DesiredTGUpdates"]["g"]["Preemptions"], 1);
    assert_eq!(annotations["PreemptedAllocs"][0]["ID"], low["ID"]);
    assert_eq!(one(node, "low", "run")["ID"], low["ID"], "a plan changes nothing");
}

#[test]
fn the_less_urgent_makes_way_and_returns() {
    let node = small();
    node.register(&job(
        "low",
        "service",
        20,
        900,
        "trap 'sleep 1; exit 0' TERM INT; while :; do sleep 0.1; done",
    ));
    let low = node.await_alloc("low", "running");
    let high = job("high", "service", 50, 900, "exec sleep 1000");
    node.register(&high);
    wait::until("it waits for room", || {
        let evals = node.get("/v1/job/high/evaluations").json();
        evals.as_array()?.iter().any(|e| e["Status"] == "blocked").then_some(())
    });
    assert_eq!(
        node.allocs("high"),
        Vec::<Value>::new(),
        "services send nobody away unless that is switched on"
    );
    node.drover(&["job", "stop", "-purge", "high"]).exits(0);
    preempt_services(&node);

    a_plan_tells_who_would_leave(&node, &high, &low);
    node.register(&high);
    let evicted = one(&node, "low", "evict");
    let waiting = one(&node, "high", "run");
    assert_eq!(waiting["PreemptedAllocations"], json!([low["ID"]]));
    assert_eq!((&evicted["ID"], &evicted["PreemptedByAllocation"]), (&low["ID"], &waiting["ID"]));
    let by = text(&waiting["ID"]);
    assert_eq!(text(&evicted["DesiredDescription"]), format!("Preempted by alloc ID {by}"));
    let running = node.await_alloc("high", "running");
    let ended = node.get(&format!("/v1/allocation/{}", text(&low["ID"]))).json();
    assert_eq!(
        (&ended["ClientStatus"], &ended["PreemptedByAllocation"]),
        (&"complete".into(), &waiting["ID"])
    );
    let finished = text(&ended["TaskStates"]["t"]["FinishedAt"]).to_string();
    let whole = node.get(&format!("/v1/allocation/{}", text(&running["ID"]))).json();
    let started = text(&whole["TaskStates"]["t"]["StartedAt"]).to_string();
    assert!(finished <= started, "{finished} {started}");
    assert!(whole["Metrics"]["ScoreMetaData"][0]["Scores"]["preemption"].as_f64() > Some(0.9));
    for (args, name, id) in [
        (&["alloc", "status", "-verbose", by][..], "Preempted Alloc IDs ", text(&low["ID"])),
        (&["alloc", "status", text(&low["ID"])], "Preempted By Alloc ID ", &by[..8]),
    ] {
        let status = node.drover(args);
        let told = |line: &str| line.starts_with(name) && line.ends_with(id);
        assert!(status.exits(0).lines().any(told), "{status:?}");
    }

    let evals = node.get("/v1/job/low/evaluations").json();
    let again =
        evals.as_array().and_then(|all| all.iter().find(|e| e["TriggeredBy"] == "preemption").cloned());
    assert!(again.is_some(), "{evals}");
    assert_eq!(node.allocs("low").len(), 1, "it waits for room");
    node.drover(&["job", "stop", "-detach", "high"]).exits(0);
    let back = node.await_alloc("low", "running");
    assert_ne!(back["ID"], low["ID"]);
}

#[test]
fn system_jobs_preempt_by_default_but_not_equals() {
    let node = small();
    node.register(&job("low", "service", 50, 900, "exec sleep 1000"));
    let low = node.await_alloc("low", "running");
    node.register(&job("equal", "system", 59, 200, "exec sleep 1000"));
    wait::until("it waits for room", || {
        let evals = node.get("/v1/job/equal/evaluations").json();
        evals.as_array()?.iter().any(|e| e["Status"] == "blocked").then_some(())
    });
    assert_eq!(one(&node, "low", "run")["ID"], low["ID"]);
    node.drover(&["job", "stop", "-purge", "equal"]).exits(0);
    node.register(&job("agent", "system", 60, 200, "exec sleep 1000"));
    let agent = node.await_alloc("agent", "running");
    assert_eq!(agent["PreemptedAllocations"], json!([low["ID"]]));
    assert_eq!(one(&node, "low", "evict")["PreemptedByAllocation"], agent["ID"]);
}

#[test]
fn a_region_begins_with_what_its_configuration_says_of_it() {
    let mut node = Node::new();
    node.configure(
        "server {\n default_scheduler_config {\n preemption_config {\n service_scheduler_enabled = true\n \
         batch_scheduler_enabled = true\n sysbatch_scheduler_enabled = true\n system_scheduler_enabled = false\n}\n}\n}\n",
    );
    node.start();
    let config = node.get("/v1/operator/scheduler/configuration").json();
    let expected = json!({"SystemSchedulerEnabled": false, "SysBatchSchedulerEnabled": true,
        "BatchSchedulerEnabled": true, "ServiceSchedulerEnabled": true});
    assert_eq!(config["SchedulerConfig"]["PreemptionConfig"], expected);
}
