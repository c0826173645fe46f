//! The shapes, member by member, as golden JSON.

use crate::shape::alloc::{AllocShape, AllocStub, StubOptions};
use crate::shape::eval::EvalShape;
use crate::shape::job::JobShape;
use crate::shape::node::{NodeShape, NodeStub};
use model::alloc::{AllocMetric, Allocation, ClientStatus, NodeScore, Scores};
use model::claims::NodeAddress;
use model::constraint::Constraint;
use model::eval::{EvalStatus, Evaluation};
use model::job::{
    DelayFunction, HealthCheck, Job, JobStatus, JobUpdate, MigratePolicy, ReschedulePolicy, UpdatePolicy,
};
use model::node::{DriverInfo, Node, NodeEvent, NodeNetwork, NodeStatus};
use model::preference::{Affinity, Spread, SpreadTarget};
use model::resources::{Amount, Hook, Lifecycle};
use model::task::{TaskEvent, TaskPhase, TaskState};
use model::time::Span;
use model::value::Value;
use serde::Serialize;
use serde_json::{Value as Json, json, to_value};
use state::samples::{AT, alloc, alloc_id, eval, eval_id, info, node_id, spec};
use std::collections::BTreeMap;

/// Compares member by member, so that a difference names itself.
fn golden<T: Serialize>(shape: &T, expected: &Json) {
    let got = to_value(shape).unwrap();
    compare("", &got, expected);
}

fn compare(path: &str, got: &Json, expected: &Json) {
    match (got, expected) {
        (Json::Object(g), Json::Object(e)) => {
            let names = |o: &serde_json::Map<String, Json>| o.keys().cloned().collect::<Vec<_>>();
            let (mut a, mut b) = (names(g), names(e));
            a.sort();
            b.sort();
            assert_eq!(a, b, "members of {path:?}");
            g.iter().for_each(|(k, v)| compare(&format!("{path}/{k}"), v, &e[k]));
        }
        (Json::Array(g), Json::Array(e)) if g.len() == e.len() => {
            g.iter().zip(e).enumerate().for_each(|(i, (g, e))| compare(&format!("{path}/{i}"), g, e));
        }
        _ => assert_eq!(got, expected, "{path}"),
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn job() -> Job {
    let mut spec = spec("web", 2);
    spec.meta = map(&[("owner", "me")]);
    spec.update = Some(JobUpdate { stagger: Span::seconds(30), max_parallel: 1 });
    let targets = vec![SpreadTarget { value: "dc1".into(), percent: 60 }];
    spec.spreads = vec![Spread { attribute: "${node.datacenter}".into(), weight: 100, targets }];
    let group = &mut spec.groups[0];
    group.update = Some(UpdatePolicy {
        stagger: Span::seconds(30),
        max_parallel: 1,
        health_check: HealthCheck::Checks,
        min_healthy_time: Span::seconds(10),
        healthy_deadline: Span::minutes(5),
        progress_deadline: Span::minutes(10),
        auto_revert: false,
        auto_promote: false,
        canary: 0,
    });
    group.reschedule = Some(ReschedulePolicy {
        attempts: 0,
        interval: Span::ZERO,
        delay: Span::seconds(30),
        delay_function: DelayFunction::Exponential,
        max_delay: Span::hours(1),
        unlimited: true,
    });
    group.migrate = Some(MigratePolicy {
        max_parallel: 1,
        health_check: HealthCheck::TaskStates,
        min_healthy_time: Span::seconds(10),
        healthy_deadline: Span::minutes(5),
    });
    group.shutdown_delay = Some(Span::seconds(2));
    group.spreads = vec![Spread { attribute: "${meta.rack}".into(), weight: 50, targets: vec![] }];
    let condition = Constraint { left: "${node.class}".into(), operand: "=".into(), right: "big".into() };
    group.affinities = vec![Affinity { condition, weight: -20 }];
    let task = &mut group.tasks[0];
    task.lifecycle = Some(Lifecycle { hook: Hook::Prestart, sidecar: true });
    task.env = map(&[("A", "<b>")]);
    task.config = BTreeMap::from([
        ("args".into(), Value::List(vec![Value::Int(1), Value::Float(1.5), Value::Bool(true), Value::Null])),
        ("labels".into(), Value::Map(BTreeMap::from([("k".into(), Value::Text("v".into()))]))),
    ]);
    Job {
        spec,
        version: 3,
        stable: true,
        status: JobStatus::Running,
        status_description: String::new(),
        submit_time: AT,
        create_index: 5,
        modify_index: 9,
        job_modify_index: 8,
        tag: None,
    }
}

fn resources(cpu: i64, memory: i64, disk: i64) -> Json {
    json!({
        "CPU": cpu, "Cores": 0, "MemoryMB": memory, "MemoryMaxMB": 0, "DiskMB": disk, "IOPS": 0,
        "SecretsMB": 0,
        "Networks": null, "Devices": null, "NUMA": null
    })
}

fn restart() -> Json {
    json!({
        "Attempts": 2, "Interval": 1_800_000_000_000_i64, "Delay": 15_000_000_000_i64, "Mode": "fail",
        "RenderTemplates": false
    })
}

fn golden_task() -> Json {
    json!({
        "Name": "t", "Driver": "raw_exec", "User": "",
        "Config": { "args": [1, 1.5, true, null], "labels": { "k": "v" } },
        "Env": { "A": "<b>" }, "Services": null, "Vault": null, "Consul": null, "Templates": null,
        "Constraints": null, "Affinities": null, "Resources": resources(100, 64, 0),
        "RestartPolicy": restart(), "DispatchPayload": null,
        "Lifecycle": { "Hook": "prestart", "Sidecar": true }, "Meta": null,
        "KillTimeout": 5_000_000_000_i64,
        "LogConfig": { "MaxFiles": 10, "MaxFileSizeMB": 10, "Disabled": false },
        "Artifacts": null, "Leader": false, "ShutdownDelay": 0, "VolumeMounts": null,
        "ScalingPolicies": null, "KillSignal": "", "Kind": "", "CSIPluginConfig": null, "Identity": null,
        "Identities": null, "Actions": null, "Schedule": null, "Secrets": null
    })
}

fn golden_group() -> Json {
    json!({
        "Name": "g", "Count": 2,
        "Update": {
            "Stagger": 30_000_000_000_i64, "MaxParallel": 1, "HealthCheck": "checks",
            "MinHealthyTime": 10_000_000_000_i64, "HealthyDeadline": 300_000_000_000_i64,
            "ProgressDeadline": 600_000_000_000_i64, "Canary": 0, "AutoRevert": false, "AutoPromote": false
        },
        "Migrate": {
            "MaxParallel": 1, "HealthCheck": "task_states", "MinHealthyTime": 10_000_000_000_i64,
            "HealthyDeadline": 300_000_000_000_i64
        },
        "Constraints": null,
        "Affinities": [{ "LTarget": "${node.class}", "RTarget": "big", "Operand": "=", "Weight": -20 }],
        "Spreads": [{ "Attribute": "${meta.rack}", "Weight": 50, "SpreadTarget": null }], "Scaling": null,
        "RestartPolicy": restart(),
        "ReschedulePolicy": {
            "Attempts": 0, "Interval": 0, "Delay": 30_000_000_000_i64, "DelayFunction": "exponential",
            "MaxDelay": 3_600_000_000_000_i64, "Unlimited": true
        },
        "EphemeralDisk": { "Sticky": false, "SizeMB": 300, "Migrate": false },
        "Networks": null, "Services": null, "Volumes": null, "Consul": null, "Disconnect": null,
        "Tasks": [golden_task()], "Meta": null, "ShutdownDelay": 2_000_000_000_i64,
        "StopAfterClientDisconnect": null, "MaxClientDisconnect": null, "MaxRunDuration": null,
        "PreventRescheduleOnLost": false
    })
}

fn golden_job() -> Json {
    json!({
        "Stop": false, "Region": "global", "Namespace": "default", "ID": "web", "ParentID": "",
        "Name": "web", "Type": "service", "Priority": 50, "AllAtOnce": false, "Datacenters": ["*"],
        "NodePool": "default", "Constraints": null, "Affinities": null,
        "Spreads": [{
            "Attribute": "${node.datacenter}", "Weight": 100, "SpreadTarget": [{ "Value": "dc1", "Percent": 60 }]
        }],
        "TaskGroups": [golden_group()],
        "Update": {
            "Stagger": 30_000_000_000_i64, "MaxParallel": 1, "HealthCheck": "", "MinHealthyTime": 0,
            "HealthyDeadline": 0, "ProgressDeadline": 0, "Canary": 0, "AutoRevert": false,
            "AutoPromote": false
        },
        "Multiregion": null, "Periodic": null, "ParameterizedJob": null, "Dispatched": false,
        "DispatchIdempotencyToken": "", "Payload": null, "Meta": { "owner": "me" }, "ConsulToken": "",
        "ConsulNamespace": "", "VaultToken": "", "VaultNamespace": "", "NomadTokenID": "",
        "Status": "running", "StatusDescription": "", "Stable": true, "Version": 3,
        "SubmitTime": 1_700_000_000_000_000_000_i64, "CreateIndex": 5, "ModifyIndex": 9,
        "JobModifyIndex": 8, "UI": null, "VersionTag": null
    })
}

#[test]
fn a_job_has_every_member() {
    golden(&JobShape::new(&job()), &golden_job());
}

fn metric() -> AllocMetric {
    AllocMetric {
        nodes_evaluated: 3,
        nodes_in_pool: 4,
        nodes_available: BTreeMap::from([("dc1".into(), 4)]).into(),
        dimension_exhausted: BTreeMap::from([("memory".into(), 2)]).into(),
        scores: vec![NodeScore {
            node_id: node_id(1),
            scores: Scores { binpack: 0.5, spread: Some(-1.0), ..Scores::default() },
            normalized: 0.5,
            preemption: 0.0,
        }],
        allocation_time: Span::millis(1),
        ..AllocMetric::default()
    }
}

fn golden_metric() -> Json {
    json!({
        "NodesEvaluated": 3, "NodesFiltered": 0, "NodesInPool": 4, "NodePool": "default",
        "NodesAvailable": { "dc1": 4 }, "ClassFiltered": null, "ConstraintFiltered": null,
        "NodesExhausted": 0, "ClassExhausted": null, "DimensionExhausted": { "memory": 2 },
        "QuotaExhausted": null, "ResourcesExhausted": null, "Scores": null,
        "ScoreMetaData": [{ "NodeID": node_id(1).to_string(), "Scores": {
            "binpack": 0.5, "job-anti-affinity": 0.0, "node-reschedule-penalty": 0.0, "node-affinity": 0.0,
            "allocation-spread": -1.0
        }, "NormScore": 0.5 }],
        "AllocationTime": 1_000_000, "CoalescedFailures": 0
    })
}

fn allocation(job: &Job) -> Allocation {
    let ended = TaskEvent {
        kind: "Terminated".into(),
        at: AT,
        message: "Exit Code: 1".into(),
        details: map(&[("exit_code", "1"), ("kill_timeout", "5s"), ("fails_task", "true")]),
    };
    let state = TaskState {
        phase: TaskPhase::Running,
        restarts: 1,
        started_at: AT,
        events: vec![ended],
        ..TaskState::default()
    };
    let mut a = alloc(1, job, node_id(1), eval_id(1));
    a.client = ClientStatus::Running;
    a.client_description = "Tasks are running".into();
    a.task_states = BTreeMap::from([("t".into(), state)]);
    a.next = Some(alloc_id(2));
    a.metrics = metric();
    (a.create_index, a.modify_index, a.alloc_modify_index) = (6, 7, 6);
    a
}

fn golden_states() -> Json {
    json!({ "t": {
        "State": "running", "Failed": false, "Restarts": 1, "LastRestart": null,
        "StartedAt": "2023-11-14T22:13:20Z", "FinishedAt": null, "TaskHandle": null,
        "Events": [{
            "Type": "Terminated", "Time": 1_700_000_000_000_000_000_i64, "Message": "",
            "DisplayMessage": "Exit Code: 1",
            "Details": { "exit_code": "1", "kill_timeout": "5s", "fails_task": "true" },
            "FailsTask": true, "RestartReason": "", "SetupError": "", "DriverError": "", "ExitCode": 1,
            "Signal": 0, "KillTimeout": 5_000_000_000_i64, "KillError": "", "KillReason": "",
            "StartDelay": 0, "DownloadError": "", "ValidationError": "", "DiskLimit": 0,
            "FailedSibling": "", "VaultError": "", "TaskSignalReason": "", "TaskSignal": "",
            "DriverMessage": "", "GenericSource": ""
        }]
    } })
}

fn golden_allocated() -> Json {
    json!({
        "Tasks": { "t": {
            "Cpu": { "CpuShares": 100, "ReservedCores": null },
            "Memory": { "MemoryMB": 64, "MemoryMaxMB": 0 }, "Networks": null, "Devices": null
        } },
        "TaskLifecycles": { "t": { "Hook": "prestart", "Sidecar": true } },
        "Shared": { "Networks": null, "DiskMB": 300, "Ports": null }
    })
}

fn transition() -> Json {
    json!({ "Migrate": null, "Reschedule": null, "ForceReschedule": null, "NoShutdownDelay": null,
        "MigrateDisablePlacement": null })
}

#[test]
fn an_allocation_leaves_zero_values_out() {
    let job = job();
    let expected = json!({
        "ID": alloc_id(1).to_string(), "Namespace": "default", "EvalID": eval_id(1).to_string(),
        "Name": "web.g[0]", "NodeID": node_id(1).to_string(), "NodeName": "node", "JobID": "web",
        "Job": golden_job(), "TaskGroup": "g", "Resources": resources(100, 64, 300),
        "SharedResources": resources(0, 0, 300), "TaskResources": { "t": resources(100, 64, 0) },
        "AllocatedResources": golden_allocated(), "Metrics": golden_metric(), "DesiredStatus": "run",
        "DesiredTransition": transition(), "ClientStatus": "running",
        "ClientDescription": "Tasks are running", "TaskStates": golden_states(),
        "NextAllocation": alloc_id(2).to_string(), "CreateIndex": 6, "ModifyIndex": 7,
        "AllocModifyIndex": 6, "CreateTime": 1_700_000_000_000_000_000_i64,
        "ModifyTime": 1_700_000_000_000_000_000_i64
    });
    golden(&AllocShape::new(&allocation(&job), Some(&job)), &expected);
}

#[test]
fn an_allocation_in_a_list_has_every_member() {
    let job = job();
    let a = allocation(&job);
    let mut expected = json!({
        "ID": alloc_id(1).to_string(), "EvalID": eval_id(1).to_string(), "Name": "web.g[0]",
        "Namespace": "default", "NodeID": node_id(1).to_string(), "NodeName": "node", "JobID": "web",
        "JobType": "service", "JobVersion": 3, "TaskGroup": "g", "AllocatedResources": null,
        "DesiredStatus": "run", "DesiredDescription": "", "ClientStatus": "running",
        "ClientDescription": "Tasks are running", "DesiredTransition": transition(),
        "TaskStates": golden_states(), "DeploymentStatus": null, "FollowupEvalID": "",
        "NextAllocation": alloc_id(2).to_string(), "RescheduleTracker": null, "PreemptedAllocations": null,
        "PreemptedByAllocation": "", "CreateIndex": 6, "ModifyIndex": 7,
        "CreateTime": 1_700_000_000_000_000_000_i64, "ModifyTime": 1_700_000_000_000_000_000_i64
    });
    golden(&AllocStub::new(&a, Some(&job), StubOptions::default()), &expected);
    expected["AllocatedResources"] = golden_allocated();
    expected["TaskStates"] = Json::Null;
    expected["JobType"] = "".into();
    golden(&AllocStub::new(&a, None, StubOptions { resources: true, task_states: false }), &expected);
}

#[test]
fn an_evaluation_leaves_zero_values_out() {
    let new =
        Evaluation { create_time: Default::default(), modify_time: Default::default(), ..eval(1, "web") };
    let mut expected = json!({
        "ID": eval_id(1).to_string(), "Namespace": "default", "Priority": 50, "Type": "service",
        "TriggeredBy": "job-register", "JobID": "web", "Status": "pending"
    });
    golden(&EvalShape::new(&new, ""), &expected);
    let blocked = Evaluation {
        status: EvalStatus::Blocked,
        status_description: "created to place remaining allocations".into(),
        previous_eval: Some(eval_id(2)),
        failed_groups: BTreeMap::from([("g".into(), metric())]),
        class_eligibility: BTreeMap::from([("v1:1".into(), false)]),
        escaped_class: true,
        queued: BTreeMap::from([("g".into(), 2)]),
        wait: Span::seconds(1),
        snapshot_index: 4,
        create_index: 5,
        modify_index: 6,
        job_modify_index: 3,
        ..new
    };
    let more = json!({
        "Status": "blocked", "StatusDescription": "created to place remaining allocations",
        "PreviousEval": eval_id(2).to_string(), "FailedTGAllocs": { "g": golden_metric() },
        "ClassEligibility": { "v1:1": false }, "EscapedComputedClass": true,
        "QueuedAllocations": { "g": 2 }, "Wait": 1_000_000_000, "SnapshotIndex": 4, "CreateIndex": 5,
        "ModifyIndex": 6, "JobModifyIndex": 3
    });
    for (name, value) in more.as_object().unwrap() {
        expected[name] = value.clone();
    }
    golden(&EvalShape::new(&blocked, "default"), &expected);
}

fn node() -> Node {
    let mut info = info(1);
    info.http_addr = "https://[fd00::5]:4646".into();
    info.attributes = map(&[("nomad.version", "2.0.5"), ("os.name", "debian")]);
    info.reserved = Amount { cpu_mhz: 100, memory_mb: 32, ..Amount::ZERO };
    info.cpu_cores = 2;
    info.networks = vec![NodeNetwork {
        device: "eth0".into(),
        mac: "00:00:00:00:00:01".into(),
        speed_mbit: 1000,
        addresses: vec!["10.0.0.5".into(), "fd00::5".into()],
    }];
    let driver = DriverInfo {
        detected: true,
        healthy: true,
        description: "Healthy".into(),
        attributes: map(&[("driver.raw_exec", "true")]),
        updated: AT,
    };
    info.drivers = BTreeMap::from([("raw_exec".into(), driver)]);
    let address = |address: &str| NodeAddress {
        alias: "default".into(),
        device: "eth0".into(),
        address: address.into(),
        reserved_ports: String::new(),
    };
    info.offers.addresses = vec![address("10.0.0.5"), address("fd00::5")];
    info.offers.cores = vec![0, 1];
    info.not_enforced = vec!["memory: mount cgroups".into()];
    let event = NodeEvent {
        subsystem: "Cluster".into(),
        message: "Node registered".into(),
        details: BTreeMap::new(),
        at: AT,
        create_index: 2,
    };
    Node {
        info,
        computed_class: "v1:0".into(),
        status: NodeStatus::Ready,
        status_description: String::new(),
        status_updated: AT,
        eligible: true,
        events: vec![event],
        last_missed_heartbeat_index: 0,
        last_alloc_update_index: 4,
        create_index: 2,
        modify_index: 3,
        drain: None,
        last_drain: None,
    }
}

fn golden_drivers() -> Json {
    json!({ "raw_exec": {
        "Attributes": { "driver.raw_exec": "true" }, "Detected": true, "Healthy": true,
        "HealthDescription": "Healthy", "UpdateTime": "2023-11-14T22:13:20Z"
    } })
}

fn golden_node_resources() -> Json {
    json!({
        "Cpu": { "CpuShares": 4000, "TotalCpuCores": 2, "ReservableCpuCores": [0, 1] },
        "Memory": { "MemoryMB": 1024 }, "Disk": { "DiskMB": 10_000 }, "Devices": null,
        "NodeNetworks": [{
            "Mode": "host", "Device": "eth0", "MacAddress": "00:00:00:00:00:01", "Speed": 1000,
            "Addresses": [
                { "Family": "ipv4", "Alias": "default", "Address": "10.0.0.5", "ReservedPorts": "", "Gateway": "" },
                { "Family": "ipv6", "Alias": "default", "Address": "fd00::5", "ReservedPorts": "", "Gateway": "" }
            ]
        }],
        "Networks": [{
            "Mode": "host", "Device": "eth0", "CIDR": "10.0.0.5/32", "IP": "10.0.0.5", "MBits": 1000,
            "DNS": null, "ReservedPorts": null, "DynamicPorts": null
        }],
        "MinDynamicPort": 20_000, "MaxDynamicPort": 32_000
    })
}

fn golden_reserved() -> Json {
    json!({
        "Cpu": { "CpuShares": 100, "ReservedCpuCores": null }, "Memory": { "MemoryMB": 32 },
        "Disk": { "DiskMB": 0 }, "Networks": { "ReservedHostPorts": "" }
    })
}

#[test]
fn a_node_has_every_member_and_no_secret() {
    let node = node();
    let expected = json!({
        "ID": node_id(1).to_string(), "SecretID": "", "Datacenter": "dc1", "Name": "node-1",
        "CgroupParent": "", "HTTPAddr": "[fd00::5]:4646", "TLSEnabled": true,
        "Attributes": { "nomad.version": "2.0.5", "os.name": "debian" },
        "NodeResources": golden_node_resources(), "ReservedResources": golden_reserved(), "Links": {},
        "Meta": {}, "NodeClass": "", "NodePool": "default", "ComputedClass": "v1:0",
        "DrainStrategy": null, "Drain": false, "SchedulingEligibility": "eligible", "Status": "ready",
        "StatusDescription": "", "StatusUpdatedAt": 1_700_000_000,
        "Events": [{
            "Message": "Node registered", "Subsystem": "Cluster", "Details": null,
            "Timestamp": "2023-11-14T22:13:20Z", "CreateIndex": 2
        }],
        "Drivers": golden_drivers(), "CSIControllerPlugins": {}, "CSINodePlugins": {},
        "NodeMaxAllocs": 0, "GCVolumesOnNodeGC": false,
        "HostVolumes": null, "HostNetworks": null, "LastDrain": null, "LastMissedHeartbeatIndex": 0,
        "LastAllocUpdateIndex": 4, "CreateIndex": 2, "ModifyIndex": 3,
        "NotEnforced": ["memory: mount cgroups"]
    });
    golden(&NodeShape::new(&node), &expected);
    let secret = node.info.secret.to_string();
    assert!(!serde_json::to_string(&NodeShape::new(&node)).unwrap().contains(&secret));
}

#[test]
fn a_node_in_a_list_shows_more_when_asked() {
    let mut expected = json!({
        "Address": "fd00::5", "ID": node_id(1).to_string(), "Attributes": null, "Datacenter": "dc1",
        "Name": "node-1", "NodePool": "default", "NodeClass": "", "Version": "2.0.5", "Drain": false,
        "SchedulingEligibility": "eligible", "Status": "ready", "StatusDescription": "",
        "Drivers": golden_drivers(), "HostVolumes": null, "NodeResources": null,
        "ReservedResources": null, "LastDrain": null, "CreateIndex": 2, "ModifyIndex": 3
    });
    golden(&NodeStub::new(&node(), false, false), &expected);
    expected["Attributes"] = json!({ "os.name": "debian" });
    expected["NodeResources"] = golden_node_resources();
    expected["ReservedResources"] = golden_reserved();
    golden(&NodeStub::new(&node(), true, true), &expected);
}
