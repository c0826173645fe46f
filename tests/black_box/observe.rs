//! What an operator watches: events as they happen, metrics, the agent's own log, and the commands for them.

use crate::node::{Node, path, shell_job, text};
use crate::wait;
use crate::web;
use base64::Engine;
use serde_json::Value;
use std::io::BufReader;
use std::net::TcpStream;

/// A stream that stays open.
struct Stream(BufReader<TcpStream>);

impl Stream {
    #[track_caller]
    fn open(node: &Node, target: &str) -> Stream {
        let mut stream = web::open(node.port, "GET", target, "").expect("a connection");
        let (status, headers) = web::read_head(&mut stream).expect("a head");
        assert_eq!((status, headers["cache-control"].as_str()), (200, "no-cache"), "{target}");
        Stream(stream)
    }

    /// The next object; a read waits no longer than a connection may be silent.
    #[track_caller]
    fn next(&mut self) -> Value {
        let chunk = web::read_chunk(&mut self.0).expect("a chunk").expect("no end");
        serde_json::from_slice(&chunk).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&chunk)))
    }

    /// The first event, from now on, that `wanted` finds; heartbeats are passed over.
    #[track_caller]
    fn event(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.next();
            let events = line["Events"].as_array().into_iter().flatten();
            if let Some(event) = events.into_iter().find(|e| wanted(e)) {
                assert_eq!(event["Index"], line["Index"]);
                return event.clone();
            }
        }
    }
}

#[test]
fn a_jobs_life_is_streamed_and_can_be_read_again() {
    let node = Node::dev();
    let mut stream = Stream::open(&node, "/v1/event/stream?topic=Job:web&topic=Allocation:web");
    assert_eq!(stream.next(), serde_json::json!({}), "the first line is empty, and comes at once");
    node.run("other", "sleep 1000");
    node.run("web", "sleep 1000");
    let registered = stream.event(|e| e["Type"] == "JobRegistered");
    assert_eq!((&registered["Topic"], &registered["Key"]), (&"Job".into(), &"web".into()));
    assert_eq!(registered["Payload"]["Job"]["ID"], "web");
    let running = stream.event(|e| e["Payload"]["Allocation"]["ClientStatus"] == "running");
    assert_eq!((&running["Type"], &running["FilterKeys"][0]), (&"AllocationUpdated".into(), &"web".into()));
    // who comes later reads from where it left off
    let from = registered["Index"].as_u64().expect("an index");
    let mut again = Stream::open(&node, &format!("/v1/event/stream?topic=Job:web&index={from}"));
    assert_eq!(again.event(|_| true), registered);
    node.drover(&["job", "stop", "-purge", "-detach", "web"]).exits(0);
    let gone = again.event(|e| e["Type"] == "JobDeregistered");
    assert_eq!(gone["Payload"]["Deleted"], true);
    for bad in ["topic=Job:a:b", "topic=Nope", "index=x"] {
        assert_eq!(node.get(&format!("/v1/event/stream?{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn metrics_count_what_happens() {
    let node = Node::dev();
    node.run("web", "sleep 1000");
    node.await_alloc("web", "running");
    let figure = |name: &str| {
        let text = node.drover(&["operator", "metrics", "-format", "prometheus"]).exits(0).to_string();
        let line = text.lines().find(|l| l.split(['{', ' ']).next() == Some(name)).map(str::to_string);
        line.and_then(|l| l.rsplit(' ').next()?.parse::<f64>().ok())
    };
    for (name, value) in [
        ("nomad_client_allocations_running", 1.0),
        ("nomad_client_allocs_running", 1.0),
        ("nomad_nomad_job_status_running", 1.0),
        ("nomad_nomad_heartbeat_active", 1.0),
        ("nomad_nomad_blocked_evals_total_blocked", 0.0),
    ] {
        wait::until_eq(name, &Some(value), || figure(name));
    }
    assert!(figure("process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6));
    let json = node.get("/v1/metrics").json();
    let names: Vec<&str> =
        json["Gauges"].as_array().into_iter().flatten().map(|g| text(&g["Name"])).collect();
    assert!(names.contains(&"nomad.client.allocated.memory"), "{names:?}");
    assert!(names.contains(&"nomad.client.allocs.memory.rss"), "-dev tells everything: {names:?}");
}

/// What dashboards and alerts for Nomad read, and what is not zero once a job has run and was stopped.
const WORKED: &[&str] = &[
    "nomad_client_allocs_complete",
    "nomad_client_allocs_running",
    "nomad_client_allocs_start",
    "nomad_client_host_memory_total",
    "nomad_client_unallocated_memory",
    "nomad_client_uptime",
    "nomad_nomad_broker_process_time_count",
    "nomad_nomad_broker_wait_time_count",
    "nomad_nomad_client_get_client_allocs_count",
    "nomad_nomad_client_register_count",
    "nomad_nomad_client_update_alloc_count",
    "nomad_nomad_client_update_status_count",
    "nomad_nomad_eval_ack_count",
    "nomad_nomad_eval_dequeue_count",
    "nomad_nomad_fsm_alloc_client_update_count",
    "nomad_nomad_fsm_apply_plan_results_count",
    "nomad_nomad_fsm_deregister_job_count",
    "nomad_nomad_fsm_node_status_update_count",
    "nomad_nomad_fsm_register_job_count",
    "nomad_nomad_fsm_register_node_count",
    "nomad_nomad_heartbeat_active",
    "nomad_nomad_job_deregister_count",
    "nomad_nomad_job_register_count",
    "nomad_nomad_job_status_dead",
    "nomad_nomad_job_summary_complete",
    "nomad_nomad_plan_apply_count",
    "nomad_nomad_plan_apply_sum",
    "nomad_nomad_plan_evaluate_count",
    "nomad_nomad_plan_submit_count",
    "nomad_nomad_plan_wait_for_index_count",
    "nomad_nomad_rpc_query",
    "nomad_nomad_rpc_request",
    "nomad_nomad_rpc_request_error",
    "nomad_nomad_worker_dequeue_eval_count",
    "nomad_nomad_worker_invoke_scheduler_service_count",
    "nomad_nomad_worker_send_ack_count",
    "nomad_nomad_worker_submit_plan_count",
    "nomad_nomad_worker_wait_for_index_count",
    "nomad_raft_apply",
    "nomad_raft_appliedIndex",
    "nomad_raft_commitTime_count",
    "nomad_raft_commitTime_sum",
    "nomad_raft_leader_dispatchLog_count",
    "nomad_raft_state_leader",
    "nomad_runtime_alloc_bytes",
    "nomad_runtime_num_goroutines",
    "nomad_runtime_sys_bytes",
];

/// Those that may be zero.
const THERE: &[&str] = &[
    "nomad_client_allocations_pending",
    "nomad_client_allocations_running",
    "nomad_client_host_cpu_idle",
    "nomad_client_host_disk_used_percent",
    "nomad_nomad_blocked_evals_total_blocked",
    "nomad_nomad_blocked_evals_total_escaped",
    "nomad_nomad_broker_batch_ready",
    "nomad_nomad_broker_service_ready",
    "nomad_nomad_broker_system_unacked",
    "nomad_nomad_broker_total_pending",
    "nomad_nomad_broker_total_ready",
    "nomad_nomad_broker_total_unacked",
    "nomad_nomad_broker_total_waiting",
    "nomad_nomad_plan_node_rejected",
    "nomad_nomad_plan_queue_depth",
];

#[test]
fn metrics_of_dashboards_are_there_once_a_job_ran() {
    let node = Node::dev();
    node.run("web", "sleep 1000");
    node.await_alloc("web", "running");
    node.drover(&["job", "stop", "-detach", "web"]).exits(0);
    node.await_alloc("web", "complete");
    assert!(web::send(node.port, "DELETE", "/v1/node/pool/nowhere", "").status >= 400);
    let told = || node.get("/v1/metrics?format=prometheus").text();
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|l| l.split(['{', ' ']).next() == Some(name))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let lacking = || {
        let text = told();
        let worked = WORKED.iter().filter(|name| value(&text, name).is_none_or(|n| n <= 0.0));
        worked.chain(THERE.iter().filter(|name| value(&text, name).is_none())).copied().collect::<Vec<_>>()
    };
    wait::until_eq("all of them", &vec![], lacking);
    let text = told();
    let median = "nomad_nomad_plan_submit{quantile=\"0.5\"} ";
    let median = text.lines().find_map(|l| l.strip_prefix(median)).and_then(|n| n.parse::<f64>().ok());
    assert!(median.is_some_and(|millis| millis > 0.0 && millis < 60_000.0), "{median:?} in\n{text}");
}

#[test]
fn the_log_says_at_debug_what_happens_and_is_calm_at_info() {
    let told = |node: &Node| {
        node.run("web", "sleep 1000");
        let alloc = node.await_alloc("web", "running");
        node.drover(&["job", "stop", "-detach", "web"]).exits(0);
        node.await_alloc("web", "complete");
        text(&alloc["ID"]).to_string()
    };
    let node = Node::dev();
    let alloc = told(&node);
    let mut fails = shell_job("again", "exit 1");
    fails["TaskGroups"][0]["RestartPolicy"]["Attempts"] = 1.into();
    node.register(&fails);
    let failed = text(&node.await_alloc("again", "failed")["ID"]).to_string();
    let event_of = |alloc: &str, kind: &str| {
        format!("[DEBUG] client.alloc_runner.task_runner: Task event: alloc_id={alloc} task=t type={kind} ")
    };
    let event = |kind: &str| event_of(&alloc, kind);
    for line in [
        "[INFO]  nomad: cluster leadership acquired: ",
        "[DEBUG] nomad.client: node registered: node_id=",
        "[DEBUG] nomad.job: job registered: job_id=web namespace=default version=0 ",
        "[DEBUG] nomad.eval: evaluation created: eval_id=",
        "[DEBUG] nomad.worker: dequeued evaluation: eval_id=",
        "[DEBUG] nomad.worker: plan evaluated: eval_id=",
        "[DEBUG] nomad: plan applied: index=",
        "[DEBUG] nomad.worker: ack evaluation: eval_id=",
        "[DEBUG] nomad.job: job deregistered: job_id=web ",
        &event("Received"),
        &event("Started"),
        &event("Killing"),
        &event("Killed"),
        &event_of(&failed, "Restarting"),
        &format!("[DEBUG] client.alloc_runner: allocation status changed: alloc_id={alloc} job_id=web "),
    ] {
        wait::until(line, || node.printed().contains(line).then_some(()));
    }
    let printed = node.printed();
    let plans = printed.lines().filter(|line| line.contains("nomad.worker: plan evaluated: "));
    let accepted = plans.filter(|line| line.contains(" nodes=1 rejected=0 ")).count();
    assert!(accepted >= 2, "each job has a plan for the node: {printed}");
    let calm = Node::durable();
    wait::until("it has begun", || calm.printed().contains("node registration complete").then_some(()));
    let before = calm.printed();
    told(&calm);
    assert_eq!(calm.printed(), before, "nothing is wrong");
}

#[test]
fn telemetry_and_debugging_follow_the_configuration() {
    let mut node = Node::new();
    node.configure(
        "enable_debug = true\ntelemetry {\n publish_node_metrics = true\n disable_hostname = true\n}",
    );
    node.start();
    node.run("web", "sleep 1000");
    node.await_alloc("web", "running");
    let answer = node.get("/v1/metrics?format=prometheus");
    assert_eq!((answer.status, answer.text().as_str()), (415, "Prometheus is not enabled"));
    let json = node.get("/v1/metrics").json();
    let gauges = json["Gauges"].as_array().expect("gauges");
    assert!(gauges.iter().any(|g| g["Name"] == "nomad.client.host.memory.total"), "{json}");
    assert!(gauges.iter().all(|g| g["Labels"].get("host").is_none()), "{json}");
    assert!(gauges.iter().all(|g| !text(&g["Name"]).contains("client.allocs.")), "not asked for: {json}");
    let host = node.get("/v1/agent/host").json();
    assert!(text(&host["HostData"]["OS"]).contains("Linux"), "{host}");
    let config = node.write("refused.hcl", "telemetry {\n statsd_address = \"127.0.0.1:8125\"\n}\n");
    node.drover(&["agent", "-dev", "-config", path(&config)]).fails(1, "telemetry.statsd_address");
}

#[test]
fn the_agents_log_is_followed_at_the_level_asked_for() {
    let mut node = Node::new();
    node.configure("log_level = \"ERROR\"");
    node.start();
    let mut stream = Stream::open(&node, "/v1/agent/monitor?log_level=INFO&log_json=true");
    node.signal(rustix::process::Signal::HUP);
    let line = loop {
        let frame = stream.next();
        let Some(data) = frame["Data"].as_str() else { continue };
        let line = base64::engine::general_purpose::STANDARD.decode(data).expect("base64");
        let line: Value = serde_json::from_slice(&line).expect("a JSON object a line");
        if line["@message"] == "log level set" {
            break line;
        }
    };
    assert_eq!(line["@level"], "info");
    assert!(!node.printed().contains("log level set"), "the agent's own level holds: {}", node.printed());
    assert_eq!(node.get("/v1/agent/monitor?log_level=loud").status, 400);
}

#[test]
fn operators_commands_show_what_there_is() {
    let node = Node::dev();
    let members = node.drover(&["server", "members"]);
    let members = members.exits(0);
    assert!(members.starts_with("Name  "), "{members}");
    assert!(members.contains("  alive   true  ") && members.contains("  global"), "{members}");
    let info = node.drover(&["agent-info"]);
    assert!(info.exits(0).contains("raft\n") && info.out.contains("\n  state = Leader\n"), "{info:?}");
    for line in [
        "  last_log_term = ",
        "  commit_index = ",
        "  fsm_pending = 0\n",
        "  latest_configuration = [{Suffrage:Voter ID:",
        "  protocol_version = 3\n",
        "  last_snapshot_index = ",
        "serf\n",
        "  members = 1\n",
        "  known_regions = 1\n",
        "  heartbeat_ttl = ",
        "  cpu_count = ",
    ] {
        assert!(info.out.contains(line), "no {line:?} in {info:?}");
    }
    let peers = node.drover(&["operator", "raft", "list-peers"]);
    assert!(peers.exits(0).contains("leader  true   3"), "{peers:?}");
    node.drover(&["system", "reconcile", "summaries"]).exits(0);
    assert!(node.drover(&["ui"]).exits(0).starts_with("URL for web UI: http://127.0.0.1:"));
    let own = node.drover(&["operator", "api", "/v1/regions"]);
    assert_eq!(own.exits(0), "[\"global\"]");
    let deleted = node.drover(&["operator", "api", "-X", "DELETE", "/v1/job/none"]);
    assert!(deleted.exits(0).contains("\"EvalID\""), "{deleted:?}");
    let dry = node.drover(&["operator", "api", "-dryrun", "-X", "PUT", "-H", "A: b", "/v1/system/gc"]);
    assert!(dry.exits(0).starts_with("curl -X PUT -H 'A: b' "), "{dry:?}");
    for (args, sentence) in [
        (&["operator", "raft", "info"][..], "not supported yet: operator raft info"),
        (&["ui", "-authenticate"], "not supported yet: -authenticate"),
    ] {
        node.drover(args).fails(1, sentence);
    }
}

#[test]
fn the_regions_key_is_made_once_and_outlives_the_agent() {
    let mut node = Node::durable();
    let keys = |node: &Node| node.get("/.well-known/jwks.json").json()["keys"].clone();
    let made = wait::until("the key is made", || Some(keys(&node)).filter(|k| k[0]["kid"].is_string()));
    assert_eq!(made.as_array().map(Vec::len), Some(1));
    let listed = |filter: &str| {
        node.get(&format!("/v1/operator/keyring/keys?filter=State+==+{filter}"))
            .json()
            .as_array()
            .map(Vec::len)
    };
    assert_eq!((listed("active"), listed("inactive")), (Some(1), Some(0)));
    node.restart();
    assert_eq!(keys(&node), made);
}
