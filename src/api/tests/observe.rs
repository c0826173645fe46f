//! What an operator watches: events, metrics, members, servers, the machine, the agent's log.

use super::*;
use crate::events::Subscription;
use crate::metrics::{CpuMetrics, PrefixFilter};
use crate::monitor::{MonitorLevel, MonitorRequest};
use model::job::JobSpec;
use state::apply::ApplyResult as Applied;
use wire::metrics::MetricsSnapshot;
use wire::resource_usage::{AllocResourceUsage, CgroupUsage, ResourceUsage, TaskResourceUsage};

impl World {
    fn subscription(&self, target: &str) -> Result<Subscription, String> {
        match self.step(&request(Method::Get, target, ""), WaitState::default()) {
            RouteOutcome::Events(subscription) => Ok(subscription),
            RouteOutcome::Respond(response) => Err(format!("{} {}", response.status, text(&response))),
            _ => panic!("{target}: no subscription"),
        }
    }

    fn monitor(&self, target: &str) -> Result<MonitorRequest, String> {
        match self.step(&request(Method::Get, target, ""), WaitState::default()) {
            RouteOutcome::Monitor(monitor) => Ok(monitor),
            RouteOutcome::Respond(response) => Err(format!("{} {}", response.status, text(&response))),
            _ => panic!("{target}: no log"),
        }
    }
}

/// The line of this entry as a value.
fn line(subscription: &Subscription, applied: &Applied) -> Option<Value> {
    let line = subscription.line(applied.events.as_ref()?)?;
    assert_eq!(line.last(), Some(&b'\n'));
    Some(serde_json::from_slice(&line).unwrap())
}

fn topics(line: &Value) -> Vec<(&str, &str)> {
    let events = line["Events"].as_array().unwrap();
    events.iter().map(|e| (e["Topic"].as_str().unwrap(), e["Type"].as_str().unwrap())).collect()
}

#[test]
fn an_entry_becomes_a_line_with_its_objects() {
    let mut world = World::new();
    world.region.ready_node(1);
    let all = world.subscription("/v1/event/stream?namespace=*").unwrap();
    let applied = world.region.run(&register(spec("web", 1), Some(eval(1, "web"))));
    let told = line(&all, &applied).unwrap();
    assert_eq!(told["Index"], applied.index);
    assert_eq!(topics(&told), [("Evaluation", "JobRegistered"), ("Job", "JobRegistered")]);
    let (of_eval, of_job) = (&told["Events"][0], &told["Events"][1]);
    assert_eq!(of_eval["Key"], eval_id(1).to_string());
    assert_eq!(of_eval["FilterKeys"], serde_json::json!(["web"]));
    assert_eq!((&of_job["Key"], &of_job["Namespace"]), (&"web".into(), &"default".into()));
    assert_eq!(of_job["Payload"]["Job"]["ID"], "web");
    assert_eq!(of_job["Payload"]["Deleted"], false);

    let job = world.region.job("web");
    let nodes = place(vec![alloc(1, &job, node_id(1), eval_id(1))]);
    let applied = world.region.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes,
        deployment: None,
        updates: vec![],
        evals: vec![],
        at: AT,
    });
    let told = line(&world.subscription("/v1/event/stream?topic=Allocation:web").unwrap(), &applied).unwrap();
    assert_eq!(topics(&told), [("Allocation", "PlanResult")]);
    let payload = &told["Events"][0]["Payload"]["Allocation"];
    assert_eq!((&payload["JobID"], payload.get("Job")), (&"web".into(), None));

    let purge = Command::PurgeJob { job: job.spec.key(), eval: None, at: AT };
    let applied = world.region.run(&purge);
    let told = line(&world.subscription("/v1/event/stream?topic=Job").unwrap(), &applied).unwrap();
    assert_eq!(topics(&told), [("Job", "JobDeregistered")]);
    assert_eq!(told["Events"][0]["Payload"]["Deleted"], true);
    assert_eq!(told["Events"][0]["Payload"]["Job"]["ID"], "web", "the object as it was");
}

#[test]
fn nothing_secret_is_streamed_of_a_node() {
    let mut world = World::new();
    let info = Box::new(state::samples::info(1));
    let applied = world.region.run(&Command::RegisterNode { info, evals: vec![], at: AT });
    let told = line(&world.subscription("/v1/event/stream?topic=Node").unwrap(), &applied).unwrap();
    assert_eq!(told["Events"][0]["Payload"]["Node"]["SecretID"], "");
    assert_eq!(told["Events"][0]["FilterKeys"], Value::Null);
    assert!(line(&world.subscription("/v1/event/stream?topic=Job").unwrap(), &applied).is_none());
}

#[test]
fn topics_without_objects_here_are_accepted_and_silent() {
    let mut world = World::new();
    let info = Box::new(state::samples::info(1));
    let applied = world.region.run(&Command::RegisterNode { info, evals: vec![], at: AT });
    for topic in [
        "HostVolume",
        "CSIVolume",
        "CSIPlugin",
        "Variable",
        "Operator",
        "Service",
        "ACLToken",
        "ACLPolicy",
        "ACLRole",
        "ACLAuthMethod",
        "ACLBindingRule",
    ] {
        for query in [topic.to_string(), format!("{topic}:*"), format!("{topic}:a")] {
            let subscription = world.subscription(&format!("/v1/event/stream?topic={query}"));
            assert!(line(&subscription.unwrap(), &applied).is_none(), "{query}");
        }
    }
}

#[test]
fn subscriptions_and_logs_that_make_no_sense_are_refused() {
    let world = World::new();
    for (target, refusal) in [
        ("topic=Job:a:b", "400 Invalid topic query: Invalid key value pair for topic, topic: Job:a:b: say"),
        ("topic=Jobs", "400 Invalid topic query: Invalid key value pair for topic, topic: Jobs: no such"),
        ("index=x", "400 Unable to parse index: \"x\" is not a whole number from 0"),
        ("index=-1", "400 Unable to parse index: \"-1\""),
    ] {
        let why = world.subscription(&format!("/v1/event/stream?{target}")).unwrap_err();
        assert!(why.starts_with(refusal), "{why}");
    }
    assert_eq!(world.subscription("/v1/event/stream?index=7&topic=Job").unwrap().index, 7);
    assert_eq!(world.subscription("/v1/event/stream?index=").unwrap().index, 0);
    for (target, refusal) in [
        ("log_level=loud", "400 Unknown log level: loud"),
        ("node_id=a&server_id=b", "400 Cannot target node and server simultaneously"),
        ("node_id=00000000-0000-0000-0000-000000000000", "404 Unknown node"),
        ("node_id=a", "404 Unknown node \"a\""),
        ("server_id=other.eu", "404 unknown Nomad server other.eu"),
        ("log_include_location=true", "501 not supported yet: log_include_location"),
    ] {
        let why = world.monitor(&format!("/v1/agent/monitor?{target}")).unwrap_err();
        assert!(why.starts_with(refusal), "{why}");
    }
    let whole = MonitorRequest { level: MonitorLevel::Debug, json: true, plain: true };
    assert_eq!(world.monitor("/v1/agent/monitor?log_level=debug&log_json=true&plain=true"), Ok(whole));
    let plain = MonitorRequest { level: MonitorLevel::Info, json: false, plain: false };
    let own = format!("/v1/agent/monitor?node_id={}", node_id(1));
    assert_eq!(world.monitor(&own), Ok(plain));
    assert_eq!(world.monitor("/v1/agent/monitor?server_id=edge-1.eu"), Ok(plain));
    assert_eq!(world.monitor("/v1/agent/monitor?server_id=leader"), Ok(plain));
}

#[test]
fn the_log_of_another_agent_is_relayed() {
    let mut world = World::running();
    world.client = None;
    world.status.leader = Some(8);
    world.status.members =
        Arc::new(vec![member(7, "edge-1", "127.0.0.1:4647"), member(8, "edge-2", "10.0.0.2:4647")]);
    for (named, to) in [
        (format!("node_id={}", node_id(1)), RelayTarget::Node(node_id(1))),
        ("server_id=edge-2".into(), RelayTarget::Server(8)),
        ("server_id=edge-2.eu".into(), RelayTarget::Server(8)),
        ("server_id=8".into(), RelayTarget::Server(8)),
        ("server_id=leader".into(), RelayTarget::Server(8)),
    ] {
        for path in ["/v1/agent/monitor", "/v1/agent/host"] {
            assert_eq!(world.relayed(Method::Get, &format!("{path}?{named}"), "").0, to, "{path} {named}");
        }
    }
    world.status.leader = None;
    let why = world.monitor("/v1/agent/monitor?server_id=leader").unwrap_err();
    assert_eq!(why, "500 No cluster leader");
}

/// The metrics' names and labels with their values.
fn gauge(json: &Value, name: &str, label: &str, value: &str) -> Option<f64> {
    let gauges = json["Gauges"].as_array().unwrap();
    let found =
        gauges.iter().find(|g| g["Name"] == name && (label.is_empty() || g["Labels"][label] == value));
    found.and_then(|g| g["Value"].as_f64())
}

#[test]
fn metrics_have_the_names_of_the_field() {
    let mut world = World::running();
    let second = Mono(1_000_000_000);
    let mut measured = MetricsSnapshot::default();
    measured.gauge("nomad.broker.total_ready", 3);
    measured.count("raft.apply", second);
    for millis in [5, 5, 5, 5, 5, 5, 5, 5, 5, 50] {
        measured.sample("nomad.plan.apply", Span::millis(millis), second);
    }
    world.status.measured = measured.into();
    world.now = Mono(12_000_000_000);
    world.agent.telemetry.host = Some("edge-1".into());
    let json = world.json("/v1/metrics");
    assert_eq!(gauge(&json, "nomad.nomad.broker.total_ready", "host", "edge-1"), Some(3.0));
    assert_eq!(gauge(&json, "nomad.nomad.job_status.running", "", ""), Some(1.0));
    assert_eq!(gauge(&json, "nomad.nomad.job_summary.running", "job", "web"), Some(1.0));
    let counter = &json["Counters"][0];
    assert_eq!((&counter["Name"], &counter["Count"]), (&"nomad.raft.apply".into(), &1.into()));
    assert_eq!(counter.get("P50"), None, "a counter has no quantiles");
    let sample = &json["Samples"][0];
    assert_eq!((&sample["Name"], &sample["Mean"]), (&"nomad.nomad.plan.apply".into(), &9.5.into()));
    for (name, millis) in [("P50", 5.0), ("P90", 5.0), ("P99", 50.0)] {
        let told = sample[name].as_f64().unwrap();
        assert!((told - millis).abs() <= millis * 0.032, "{name}: {sample}");
    }
    assert_eq!((&json["Points"], &json["PrecisionGauges"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    world.now = Mono(25_000_000_000);
    assert_eq!(world.json("/v1/metrics")["Counters"], Value::Array(vec![]), "the interval is over");
}

#[test]
fn metrics_of_children_are_labelled_with_their_parent() {
    let mut world = World::running();
    for (id, parent) in
        [("clock/periodic-170", "clock"), ("form/dispatch-170-1a", "form"), ("form/other", "")]
    {
        world.region.run(&register(JobSpec { parent: parent.into(), ..spec(id, 1) }, None));
    }
    let labels = |world: &World, job: &str| {
        let told = world.json("/v1/metrics");
        let gauges = told["Gauges"].as_array().expect("a list").clone();
        let mine = |g: &&Value| g["Labels"]["job"] == job && g["Name"] == "nomad.nomad.job_summary.running";
        gauges.iter().find(mine).map(|g| g["Labels"].clone())
    };
    let found = labels(&world, "form/dispatch-170-1a").expect("is told");
    assert_eq!((&found["parent_id"], &found["dispatch_id"]), (&"form".into(), &"170-1a".into()));
    let found = labels(&world, "clock/periodic-170").expect("is told");
    assert_eq!((&found["parent_id"], &found["periodic_id"]), (&"clock".into(), &"170".into()));
    assert_eq!(labels(&world, "form/other").expect("is told")["parent_id"], Value::Null);
    world.agent.telemetry.hide_dispatched = true;
    assert_eq!(labels(&world, "form/dispatch-170-1a"), None);
    assert!(labels(&world, "clock/periodic-170").is_some() && labels(&world, "form/other").is_some());
}

#[test]
fn alloc_metrics_are_shown_when_published() {
    let mut world = World::running();
    let collect =
        |world: &World| match world.step(&request(Method::Get, "/v1/metrics", ""), WaitState::default()) {
            RouteOutcome::Metrics(metrics) => metrics,
            _ => panic!("no metrics"),
        };
    assert_eq!(collect(&world).allocs().count(), 0);
    world.agent.telemetry.publish_allocations = true;
    let mut metrics = collect(&world);
    let id = metrics.allocs().next().unwrap();
    let usage =
        ResourceUsage { user_percent: 3.0, system_percent: 1.0, rss_bytes: 4096, ..ResourceUsage::default() };
    let task = world.region.store.reader().view().unwrap().alloc(id).unwrap().unwrap();
    let name = task.resources.tasks.keys().next().unwrap().clone();
    let cgroup = CgroupUsage {
        cache_bytes: Some(1),
        swap_bytes: Some(2),
        mapped_file_bytes: Some(3),
        kernel_bytes: Some(4),
        max_kernel_bytes: Some(5),
        throttled_periods: Some(6),
        throttled_nanos: Some(7),
        cpu_nanos: Some(2_500_000_000),
        ..CgroupUsage::default()
    };
    let measured = TaskResourceUsage { usage, cgroup, ..TaskResourceUsage::default() };
    let tasks = [(name.clone(), measured)].into();
    metrics.add_alloc_usage(id, &AllocResourceUsage { tasks, at: AT });
    let info = world.region.store.reader().view().unwrap().node(node_id(1)).unwrap().unwrap().info.clone();
    let core_mhz = info.capacity.cpu_mhz as f64 / f64::from(info.cpu_cores);
    let json: Value = serde_json::from_slice(&metrics.response(&HostMetrics::default()).body).unwrap();
    for (metric, expected) in [
        ("cpu.total_percent", Some(4.0)),
        ("memory.rss", Some(4096.0)),
        ("memory.allocated", Some(task.resources.tasks[&name].memory_mb as f64 * 1_048_576.0)),
        ("memory.usage", None),
        ("memory.cache", Some(1.0)),
        ("memory.swap", Some(2.0)),
        ("memory.mapped_file", Some(3.0)),
        ("memory.kernel_usage", Some(4.0)),
        ("memory.kernel_max_usage", Some(5.0)),
        ("cpu.throttled_periods", Some(6.0)),
        ("cpu.throttled_time", Some(7.0)),
        ("cpu.total_ticks_count", Some(2.5 * core_mhz)),
    ] {
        let found = gauge(&json, &format!("nomad.client.allocs.{metric}"), "task", &name);
        assert_eq!(found, expected, "{metric}");
    }
}

#[test]
fn ticks_of_the_machine_are_its_share_of_a_core() {
    let mut world = World::running();
    world.agent.telemetry.publish_node = true;
    let outcome = world.step(&request(Method::Get, "/v1/metrics", ""), WaitState::default());
    let RouteOutcome::Metrics(metrics) = outcome else { panic!("no metrics") };
    let cpus =
        vec![CpuMetrics { name: "cpu0".into(), total: 50.0, busy_seconds: 8.0, ..CpuMetrics::default() }];
    let json: Value =
        serde_json::from_slice(&metrics.response(&HostMetrics { cpus, ..HostMetrics::default() }).body)
            .unwrap();
    let info = world.region.store.reader().view().unwrap().node(node_id(1)).unwrap().unwrap().info.clone();
    let half = info.capacity.cpu_mhz as f64 / f64::from(info.cpu_cores) / 2.0;
    assert_eq!(gauge(&json, "nomad.client.host.cpu.total_ticks", "cpu", "cpu0"), Some(half));
    assert_eq!(gauge(&json, "nomad.client.host.cpu.total_ticks_count", "cpu", "cpu0"), Some(16.0 * half));
}

#[test]
fn metrics_are_filtered_by_the_longest_beginning_of_their_names() {
    let mut world = World::running();
    let mut measured = MetricsSnapshot::default();
    for name in ["raft.apply", "raft.commitTime", "nomad.plan.apply"] {
        measured.gauge(name, 1);
        measured.count(name, Mono(0));
        measured.sample(name, Span::millis(1), Mono(0));
    }
    world.status.measured = measured.into();
    world.machine.process.threads = Some(3);
    world.now = Mono(12_000_000_000);
    for (default, prefixes, expected) in [
        (true, &[("nomad.raft", false), ("nomad.nomad.job", false)][..], &["nomad.nomad.plan.apply"][..]),
        (false, &[("nomad.raft", true), ("nomad.raft.commit", false)], &["nomad.raft.apply"]),
        (false, &[], &[]),
    ] {
        let prefixes = prefixes.iter().map(|(prefix, told)| (prefix.to_string(), *told)).collect();
        world.agent.telemetry.filter = PrefixFilter { default, prefixes };
        let json = world.json("/v1/metrics");
        for kind in ["Gauges", "Counters", "Samples"] {
            let names = json[kind].as_array().unwrap().iter().map(|m| m["Name"].as_str().unwrap());
            let told: Vec<&str> =
                names.filter(|n| !n.ends_with("process_threads") && !n.contains(".runtime.")).collect();
            assert_eq!(told, expected, "{kind}");
        }
        assert_eq!(gauge(&json, "process_threads", "", ""), Some(3.0));
    }
}

#[test]
fn events_that_are_not_kept_are_refused_with_a_sentence() {
    let mut world = World::running();
    world.agent.no_events = true;
    let refused = world.get("/v1/event/stream");
    assert_eq!(refused.status, 500);
    assert!(text(&refused).contains("enable_event_broker"), "{}", text(&refused));
}

#[test]
fn prometheus_metrics_need_their_setting() {
    let mut world = World::running();
    let refused = world.get("/v1/metrics?format=prometheus");
    assert_eq!((refused.status, text(&refused).as_str()), (415, "Prometheus is not enabled"));
    assert_eq!(world.get("/v1/metrics?format=xml").status, 400);
    world.agent.telemetry.prometheus = true;
    let mut measured = MetricsSnapshot::default();
    measured.count("client.allocs.running", Mono(0));
    measured.sample("raft.commitTime", Span::millis(2), Mono(0));
    world.status.measured = measured.into();
    world.machine.process.resident_memory_bytes = Some(4096);
    let response = world.get("/v1/metrics?format=prometheus");
    let body = text(&response);
    for wanted in [
        "# TYPE nomad_client_allocs_running counter\nnomad_client_allocs_running 1\n",
        "# TYPE nomad_raft_commitTime summary\nnomad_raft_commitTime{quantile=\"0.5\"} 2\n",
        "nomad_raft_commitTime{quantile=\"0.99\"} 2\nnomad_raft_commitTime_sum 2\nnomad_raft_commitTime_count 1\n",
        "# TYPE nomad_runtime_alloc_bytes gauge\nnomad_runtime_alloc_bytes 4096\n",
        "nomad_nomad_job_summary_running{job=\"web\",namespace=\"default\",task_group=\"g\"} 1\n",
        "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 4096\n",
    ] {
        assert!(body.contains(wanted), "no {wanted:?} in\n{body}");
    }
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
}

#[test]
fn node_metrics_are_shown_when_published() {
    let mut world = World::running();
    world.machine.memory =
        Some(crate::metrics::MemoryMetrics { total_bytes: 10, available_bytes: 4, free_bytes: 1 });
    assert_eq!(gauge(&world.json("/v1/metrics"), "nomad.client.host.memory.used", "", ""), None);
    world.agent.telemetry.publish_node = true;
    let json = world.json("/v1/metrics");
    assert_eq!(gauge(&json, "nomad.client.host.memory.used", "node_pool", "default"), Some(6.0));
}

#[test]
fn a_server_alone_is_its_region() {
    let mut world = World::new();
    let members = world.json("/v1/agent/members");
    let member = &members["Members"][0];
    let address =
        format!("{}:{}", member["Addr"].as_str().unwrap(), member["Tags"]["port"].as_str().unwrap());
    assert_eq!(world.json("/v1/status/leader"), address, "the leader can be found among the members");
    assert_eq!(member["Port"].to_string(), member["Tags"]["port"].as_str().unwrap());
    assert_eq!((&members["ServerName"], &member["Status"]), (&"edge-1".into(), &"alive".into()));
    assert_eq!(world.json("/v1/agent/servers"), serde_json::json!(["127.0.0.1:4647"]));
    let raft = world.json("/v1/operator/raft/configuration");
    let server = &raft["Servers"][0];
    assert_eq!(
        (&server["ID"], &server["Leader"], &server["Voter"]),
        (&"7".into(), &true.into(), &true.into())
    );
    let health = world.json("/v1/operator/autopilot/health");
    assert_eq!(
        (&health["Healthy"], &health["Leader"], &health["Voters"][0]),
        (&true.into(), &"7".into(), &"7".into())
    );
    world.status.storage_fault = Some("the disk is full".into());
    let unwell = world.get("/v1/operator/autopilot/health");
    assert_eq!(unwell.status, 429);
    assert!(text(&unwell).contains("\"Healthy\":false"));
    world.client = None;
    assert_eq!(world.get("/v1/agent/servers").status, 501);
    assert_eq!(world.respond(Method::Put, "/v1/system/reconcile/summaries?stale", "").status, 200);
    assert_eq!(world.get("/v1/system/reconcile/summaries").status, 405);
}

#[test]
fn agent_host_needs_enable_debug() {
    let mut world = World::new();
    let refused = world.get("/v1/agent/host");
    assert_eq!(refused.status, 403);
    assert!(text(&refused).ends_with("Permission denied"), "clients look for these words at the end");
    world.agent.enable_debug = true;
    let host = world.json("/v1/agent/host");
    assert_eq!(host["AgentID"], node_id(1).to_string());
    assert!(host["HostData"]["Disk"].is_object());
    assert_eq!(world.get("/v1/agent/host?server_id=other").status, 404);
}

#[test]
fn only_the_public_half_of_a_key_is_shown() {
    use model::key::{Seed, SigningKey};
    let mut world = World::new();
    assert_eq!(world.json("/.well-known/jwks.json"), serde_json::json!({"keys": []}));
    let id = model::id::Uuid::from_random(3 << 64 | 3);
    let key = SigningKey { id, seed: Seed([7; 32]), public: [9; 32], created: AT, create_index: 0 };
    assert!(!format!("{key:?}").contains("7, 7"), "{key:?}");
    world.region.run(&Command::AddSigningKey { key: Box::new(key.clone()) });
    let second = SigningKey { id: model::id::Uuid::from_random(4), ..key };
    world.region.run(&Command::AddSigningKey { key: Box::new(second) });
    let set = world.json("/.well-known/jwks.json");
    assert_eq!(set["keys"].as_array().map(Vec::len), Some(1), "the first key stays");
    let shown = &set["keys"][0];
    assert_eq!(
        (&shown["kty"], &shown["crv"], &shown["kid"]),
        (&"OKP".into(), &"Ed25519".into(), &id.to_string().into())
    );
    assert_eq!(shown["x"], "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk");
    let listed = world.get("/v1/operator/keyring/keys");
    assert!(text(&listed).contains("\"State\":\"active\"") && !text(&listed).contains("BwcH"));
}
