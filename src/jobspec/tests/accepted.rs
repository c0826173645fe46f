//! API jobs: what is taken, with which defaults, and what is refused by which name.

use super::samples::SAMPLES;
use super::*;
use crate::{RefusedJob, decode_job, decode_register};
use model::job::{DelayFunction, HealthCheck, JobSpec, JobType, RestartMode};
use model::resources::Hook;
use model::time::Span;
use model::value::Value as Plain;
use serde_json::json;

pub fn decode(job: &Value) -> JobSpec {
    decode_job(job).unwrap_or_else(|e| panic!("{e}"))
}

fn small() -> Value {
    json!({"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec"}]}]})
}

/// The small job with one member set, by its path.
pub fn changed(path: &str, value: Value) -> Value {
    let mut job = small();
    let (parent, name) = path.rsplit_once('/').unwrap_or_default();
    job.pointer_mut(parent).and_then(Value::as_object_mut).unwrap().insert(name.into(), value);
    job
}

#[test]
fn defaults_follow_the_type() {
    let service = decode(&small());
    let group = &service.groups[0];
    assert_eq!((service.job_type, service.priority, service.name.as_str()), (JobType::Service, 50, "a"));
    assert_eq!(
        (service.datacenters.as_slice(), service.node_pool.as_str()),
        (["*".to_string()].as_slice(), "default")
    );
    assert_eq!((group.count, group.ephemeral_disk.size_mb), (1, 300));
    assert_eq!((group.restart.attempts, group.restart.interval), (2, Span::minutes(30)));
    assert_eq!(group.reschedule.unwrap().delay_function, DelayFunction::Exponential);
    assert_eq!(group.update.unwrap().health_check, HealthCheck::Checks);
    assert!(group.migrate.is_some() && service.update.is_some());
    let task = &group.tasks[0];
    assert_eq!(
        (task.resources.cpu_mhz, task.resources.memory_mb, task.kill_timeout),
        (100, 300, Span::seconds(5))
    );
    assert_eq!(task.restart, group.restart);

    let batch = decode(&changed("/Type", json!("batch")));
    let group = &batch.groups[0];
    assert_eq!((group.restart.attempts, group.restart.interval), (3, Span::hours(24)));
    assert_eq!(group.reschedule.unwrap().attempts, 1);
    assert_eq!((group.update, group.migrate, batch.update), (None, None, None));
}

#[test]
fn policies_merge_from_the_outside_in() {
    let job = json!({
        "id": "a", "Update": {"MaxParallel": 3, "Canary": 1}, "Reschedule": {"Delay": 60_000_000_000_i64},
        "Migrate": {"MaxParallel": 2},
        "taskgroups": [{
            "Name": "g", "RestartPolicy": {"Attempts": 9, "Mode": "delay"}, "Update": {"Canary": 2},
            "ReschedulePolicy": {"MaxDelay": "2h"}, "Migrate": {"HealthCheck": "task_states"},
            "Tasks": [{"Name": "t", "Driver": "d", "RestartPolicy": {"Delay": "1s"}}]
        }]
    });
    let spec = decode(&job);
    let group = &spec.groups[0];
    let update = group.update.unwrap();
    assert_eq!((update.max_parallel, update.canary, update.stagger), (3, 2, Span::seconds(30)));
    assert_eq!(spec.update.unwrap().max_parallel, 3);
    let reschedule = group.reschedule.unwrap();
    assert_eq!((reschedule.delay, reschedule.max_delay), (Span::minutes(1), Span::hours(2)));
    let migrate = group.migrate.unwrap();
    assert_eq!((migrate.max_parallel, migrate.health_check), (2, HealthCheck::TaskStates));
    let restart = group.tasks[0].restart;
    assert_eq!((restart.attempts, restart.mode, restart.delay), (9, RestartMode::Delay, Span::seconds(1)));
    assert_eq!(group.restart.delay, Span::seconds(15));
}

#[test]
fn a_batch_job_with_update_is_kept_for_validation_to_refuse() {
    let mut job = changed("/Type", json!("batch"));
    job["Update"] = json!({"MaxParallel": 1});
    assert!(decode(&job).groups[0].update.is_some());
    job["Update"] = json!({
        "Stagger": 0, "MaxParallel": 0, "HealthCheck": "", "MinHealthyTime": 0, "HealthyDeadline": 0,
        "ProgressDeadline": 0, "AutoRevert": false, "AutoPromote": false, "Canary": 0
    });
    assert_eq!(decode(&job).groups[0].update, None);
}

#[test]
fn members_that_servers_fill_in_are_accepted() {
    for (path, value) in [
        ("/Version", json!(7)),
        ("/Status", json!("running")),
        ("/JobModifyIndex", json!(12)),
        ("/SubmitTime", json!(1_700_000_000_000_000_000_i64)),
        ("/Dispatched", json!(true)),
        ("/Payload", json!("")),
        ("/ParentID", json!("")),
        ("/ConsulToken", json!("")),
        ("/Periodic", json!(null)),
        ("/VersionTag", json!({"Name": "x"})),
        ("/Unheard", json!({"of": 1})),
        ("/Affinities", json!([])),
        ("/TaskGroups/0/Networks", json!([])),
        ("/TaskGroups/0/Consul", json!({"Namespace": "", "Cluster": "default", "Partition": ""})),
        ("/TaskGroups/0/EphemeralDisk", json!({"Sticky": false, "Migrate": false, "SizeMB": 300})),
        ("/TaskGroups/0/PreventRescheduleOnLost", json!(false)),
        (
            "/TaskGroups/0/Tasks/0/Identity",
            json!({"Name": "default", "Audience": ["nomadproject.io"], "Env": false, "File": false, "TTL": 0}),
        ),
        (
            "/TaskGroups/0/Tasks/0/Resources",
            json!({"CPU": 100, "Cores": 0, "MemoryMB": 300, "MemoryMaxMB": 0, "DiskMB": 0, "IOPS": 0, "Networks": null,
                   "Devices": null, "NUMA": null}),
        ),
        (
            "/TaskGroups/0/Tasks/0/LogConfig",
            json!({"MaxFiles": 10, "MaxFileSizeMB": 10, "Disabled": false, "Enabled": null}),
        ),
        ("/TaskGroups/0/Tasks/0/Lifecycle", json!({"Hook": "", "Sidecar": false})),
        ("/TaskGroups/0/Tasks/0/Kind", json!("")),
        ("/TaskGroups/0/Tasks/0/Config", json!({})),
        ("/TaskGroups/0/Tasks/0/Constraints", json!(null)),
    ] {
        assert_eq!(decode(&changed(path, value)), decode(&small()), "{path}");
    }
}

#[test]
fn members_that_are_not_built_are_refused_by_name() {
    for (path, value, name) in [
        ("/Multiregion", json!({"Regions": [{"Name": "a"}]}), "multiregion"),
        (
            "/TaskGroups/0/Networks",
            json!([{"DNS": {"Servers": ["1.1.1.1"]}}]),
            "dns (TaskGroups[0].Networks[0].DNS)",
        ),
        ("/TaskGroups/0/Services", json!([{"Name": "s"}]), "service (TaskGroups[0].Services)"),
        ("/TaskGroups/0/Volumes", json!({"v": {"Type": "host", "PerAlloc": true}}), "per_alloc"),
        ("/TaskGroups/0/Volumes", json!({"v": {"Type": "csi", "Source": "x"}}), "volume type \"csi\""),
        (
            "/TaskGroups/0/EphemeralDisk",
            json!({"Sticky": true}),
            "sticky (TaskGroups[0].EphemeralDisk.Sticky)",
        ),
        (
            "/TaskGroups/0/Tasks/0/Templates",
            json!([{"EmbeddedTmpl": "x"}]),
            "template (TaskGroups[0].Tasks[0].Templates)",
        ),
        ("/TaskGroups/0/Tasks/0/Artifacts", json!([{"GetterSource": "x"}]), "artifact"),
        ("/TaskGroups/0/Tasks/0/Resources", json!({"SecretsMB": 5}), "secrets"),
        ("/TaskGroups/0/Tasks/0/Resources", json!({"NUMA": {"Affinity": "require"}}), "numa"),
        ("/TaskGroups/0/Tasks/0/Vault", json!({"Role": "r"}), "vault"),
        ("/TaskGroups/0/Tasks/0/Identity", json!({"Name": "default", "Env": true}), "Identity"),
        ("/TaskGroups/0/Tasks/0/Kind", json!("connect-proxy"), "kind"),
    ] {
        match decode_job(&changed(path, value)) {
            Err(RefusedJob::NotSupported(all)) => {
                assert!(
                    all.len() == 1 && all[0].starts_with("not supported yet: ") && all[0].contains(name),
                    "{all:?}"
                );
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn wrong_types_and_values_name_the_member() {
    for (path, value, sentence) in [
        ("/Priority", json!("high"), "Priority: a whole number is expected"),
        ("/Priority", json!(1.5), "Priority: a whole number is expected"),
        ("/Datacenters", json!("dc1"), "Datacenters: a list of strings is expected"),
        ("/TaskGroups", json!({}), "TaskGroups: a list is expected"),
        ("/Meta", json!({"a": 1}), "Meta: an object of strings is expected"),
        ("/Type", json!("cron"), "Invalid job type: \"cron\""),
        ("/Type", json!("core"), "job type cannot be core"),
        ("/Payload", json!("aGk="), "job can't be submitted with a payload, only dispatched"),
        ("/TaskGroups/0/Count", json!("3"), "TaskGroups[0].Count: a whole number is expected"),
        ("/TaskGroups/0/Tasks", json!([[]]), "TaskGroups[0].Tasks[0]: an object is expected"),
        (
            "/TaskGroups/0/Tasks/0/Leader",
            json!({}),
            "TaskGroups[0].Tasks[0].Leader: true or false is expected",
        ),
        (
            "/TaskGroups/0/Tasks/0/KillTimeout",
            json!("soon"),
            "TaskGroups[0].Tasks[0].KillTimeout: \"soon\" is not a duration",
        ),
        ("/TaskGroups/0/Tasks/0/Lifecycle", json!({"Hook": "x"}), "Lifecycle.Hook: invalid hook \"x\""),
        ("/TaskGroups/0/Tasks/0/Lifecycle", json!({"Sidecar": true}), "no lifecycle hook provided"),
        (
            "/TaskGroups/0/RestartPolicy",
            json!({"Mode": "x"}),
            "TaskGroups[0].RestartPolicy.Mode: \"x\" is unknown; it is one of fail, delay",
        ),
        ("/TaskGroups/0/Update", json!({"HealthCheck": "x"}), "HealthCheck: \"x\" is unknown"),
        (
            "/TaskGroups/0/ReschedulePolicy",
            json!({"DelayFunction": "x"}),
            "one of constant, exponential, fibonacci",
        ),
    ] {
        match decode_job(&changed(path, value)) {
            Err(RefusedJob::Invalid(all)) => assert!(all.len() == 1 && all[0].contains(sentence), "{all:?}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    assert!(decode_job(&json!([])).is_err());
    let two = decode_job(&json!({"ID": 1, "Name": 2})).unwrap_err().to_string();
    assert!(two.starts_with("2 errors occurred:\n\t* "), "{two}");
}

#[test]
fn tasks_are_read_whole() {
    let task = json!({
        "Name": "t", "Driver": "exec", "User": "u", "Leader": true, "KillSignal": "SIGTERM", "ShutdownDelay": 5,
        "Env": {"A": "b"}, "Meta": {"m": "n"}, "Lifecycle": {"Hook": "poststart", "Sidecar": true},
        "Config": {"n": 1, "f": 1.5, "l": [null, true, {"k": "v"}]},
        "Constraints": [{"LTarget": "${meta.a}", "Operand": "=", "RTarget": "1"}],
        "LogConfig": {"MaxFiles": 3, "Disabled": true}
    });
    let spec =
        decode(&json!({"ID": "a", "TaskGroups": [{"Name": "g", "ShutdownDelay": 7, "Tasks": [task]}]}));
    let task = &spec.groups[0].tasks[0];
    assert_eq!((task.user.as_str(), task.leader, task.kill_signal.as_str()), ("u", true, "SIGTERM"));
    assert_eq!(task.lifecycle.map(|l| (l.hook, l.sidecar)), Some((Hook::Poststart, true)));
    assert_eq!((task.logs.max_files, task.logs.max_file_size_mb, task.logs.disabled), (3, 10, true));
    assert_eq!(task.config["n"], Plain::Int(1));
    assert!(matches!(&task.config["l"], Plain::List(l) if l.len() == 3 && l[1] == Plain::Bool(true)));
    assert_eq!((task.shutdown_delay, spec.groups[0].shutdown_delay), (Span::nanos(5), Some(Span::nanos(7))));
    assert_eq!(spec.groups[0].constraints[0].right, "SIGTERM");
}

#[test]
fn requests_are_read() {
    let body = json!({
        "job": small(), "EnforceIndex": true, "JobModifyIndex": 0, "EvalPriority": 60, "PreserveCounts": true,
        "Region": "", "Namespace": "prod", "PolicyOverride": true,
        "Submission": {"Source": "job {}", "Format": "hcl2", "VariableFlags": {"a": "b"}, "Variables": "c = 1"}
    });
    let register = decode_register(body.to_string().as_bytes()).unwrap();
    assert_eq!(
        (register.enforce_index, register.eval_priority, register.preserve_counts),
        (Some(0), Some(60), true)
    );
    assert_eq!((register.region, register.namespace.as_deref()), (None, Some("prod")));
    let submission = register.submission.unwrap();
    assert_eq!((submission.format.as_str(), submission.variable_flags["a"].as_str()), ("hcl2", "b"));
    for (body, sentence) in [
        ("", "Request body is empty"),
        ("{", "EOF"),
        ("[]", "an object with the member Job"),
        ("{}", "Job must be specified"),
        (r#"{"Job": 5}"#, "Job: an object is expected"),
        (r#"{"Job": {}, "EvalPriority": 101}"#, "between 1 and 100"),
        (r#"{"Job": {}, "EnforceIndex": 1}"#, "EnforceIndex: true or false"),
        (r#"{"Job": {}, "JobModifyIndex": -1}"#, "JobModifyIndex: it is negative"),
        (r#"{"Job": {}, "PreserveResources": 1}"#, "PreserveResources: true or false is expected"),
        (r#"{"Job": {}}"#, "Job ID hasn't been provided"),
        (r#"{"Job": {"ID": 1}}"#, "ID: a string is expected"),
    ] {
        let refused = decode_register(body.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(sentence), "{body}: {refused}");
    }
}

#[test]
fn a_parsed_job_equals_its_own_json_text() {
    for sample in SAMPLES {
        let parsed = job(sample);
        let text = parsed.to_string();
        assert_eq!(decode(&serde_json::from_str(&text).unwrap()), decode(&parsed));
    }
}
