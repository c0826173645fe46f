//! A stored job as the API answers it, every default written out, comes back as itself (http-api.md 1).

use super::accepted::{changed, decode};
use super::samples::SAMPLES;
use super::*;
use model::constraint::Constraint;
use model::job::{DelayFunction, HealthCheck, JobSpec, RestartMode, RestartPolicy, Task, TaskGroup};
use model::preference::{Affinity, Spread, SpreadTarget};
use model::resources::Hook;
use model::time::Span;
use model::value::Value as Plain;
use serde_json::json;

fn written(spec: &JobSpec) -> Value {
    let update = spec.update;
    json!({
        "ID": spec.id, "Name": spec.name, "Namespace": spec.namespace, "Region": spec.region,
        "Type": spec.job_type.as_str(), "Priority": spec.priority, "AllAtOnce": spec.all_at_once,
        "Datacenters": spec.datacenters, "NodePool": spec.node_pool, "Meta": spec.meta, "Stop": spec.stop,
        "Status": "running", "Version": 3, "Payload": null, "Affinities": affinities(&spec.affinities),
        "Constraints": constraints(&spec.constraints), "Spreads": spreads(&spec.spreads),
        "Update": {
            "Stagger": update.map_or(0, |u| u.stagger.as_nanos()), "MaxParallel": update.map_or(0, |u| u.max_parallel),
            "HealthCheck": "", "MinHealthyTime": 0, "HealthyDeadline": 0, "ProgressDeadline": 0, "AutoRevert": false,
            "AutoPromote": false, "Canary": 0
        },
        "TaskGroups": spec.groups.iter().map(group).collect::<Vec<_>>()
    })
}

fn constraints(all: &[Constraint]) -> Value {
    all.iter().map(|c| json!({"LTarget": c.left, "Operand": c.operand, "RTarget": c.right})).collect()
}

fn affinities(all: &[Affinity]) -> Value {
    let one = |a: &Affinity| {
        let c = &a.condition;
        json!({"LTarget": c.left, "Operand": c.operand, "RTarget": c.right, "Weight": a.weight})
    };
    all.iter().map(one).collect()
}

fn spreads(all: &[Spread]) -> Value {
    let target = |t: &SpreadTarget| json!({"Value": t.value, "Percent": t.percent});
    let targets = |s: &Spread| s.targets.iter().map(target).collect::<Value>();
    all.iter()
        .map(|s| json!({"Attribute": s.attribute, "Weight": s.weight, "SpreadTarget": targets(s)}))
        .collect()
}

fn restart(r: &RestartPolicy) -> Value {
    json!({
        "Attempts": r.attempts, "Interval": r.interval.as_nanos(), "Delay": r.delay.as_nanos(),
        "Mode": if r.mode == RestartMode::Fail { "fail" } else { "delay" }, "RenderTemplates": r.render_templates
    })
}

fn function(f: DelayFunction) -> &'static str {
    match f {
        DelayFunction::Constant => "constant",
        DelayFunction::Exponential => "exponential",
        DelayFunction::Fibonacci => "fibonacci",
    }
}

fn health(h: HealthCheck) -> &'static str {
    match h {
        HealthCheck::Checks => "checks",
        HealthCheck::TaskStates => "task_states",
        HealthCheck::Manual => "manual",
    }
}

fn group(g: &TaskGroup) -> Value {
    json!({
        "Name": g.name, "Count": g.count, "Constraints": constraints(&g.constraints),
        "Affinities": affinities(&g.affinities), "Spreads": spreads(&g.spreads),
        "RestartPolicy": restart(&g.restart),
        "ReschedulePolicy": g.reschedule.map(|r| json!({
            "Attempts": r.attempts, "Interval": r.interval.as_nanos(), "Delay": r.delay.as_nanos(),
            "DelayFunction": function(r.delay_function), "MaxDelay": r.max_delay.as_nanos(),
            "Unlimited": r.unlimited
        })),
        "Update": g.update.map(|u| json!({
            "Stagger": u.stagger.as_nanos(), "MaxParallel": u.max_parallel, "HealthCheck": health(u.health_check),
            "MinHealthyTime": u.min_healthy_time.as_nanos(), "HealthyDeadline": u.healthy_deadline.as_nanos(),
            "ProgressDeadline": u.progress_deadline.as_nanos(), "AutoRevert": u.auto_revert,
            "AutoPromote": u.auto_promote, "Canary": u.canary
        })),
        "Migrate": g.migrate.map(|m| json!({
            "MaxParallel": m.max_parallel, "HealthCheck": health(m.health_check),
            "MinHealthyTime": m.min_healthy_time.as_nanos(), "HealthyDeadline": m.healthy_deadline.as_nanos()
        })),
        "EphemeralDisk": {"SizeMB": g.ephemeral_disk.size_mb, "Sticky": false, "Migrate": false},
        "ShutdownDelay": g.shutdown_delay.map(Span::as_nanos), "Meta": g.meta, "Consul": {"Namespace": ""},
        "Tasks": g.tasks.iter().map(task).collect::<Vec<_>>()
    })
}

fn task(t: &Task) -> Value {
    json!({
        "Name": t.name, "Driver": t.driver, "User": t.user, "Env": t.env, "Meta": t.meta, "Leader": t.leader,
        "Config": t.config.iter().map(|(k, v)| (k.clone(), free(v))).collect::<serde_json::Map<_, _>>(),
        "Constraints": constraints(&t.constraints), "Affinities": affinities(&t.affinities), "KillSignal": t.kill_signal,
        "KillTimeout": t.kill_timeout.as_nanos(), "ShutdownDelay": t.shutdown_delay.as_nanos(),
        "RestartPolicy": restart(&t.restart),
        "Resources": {"CPU": t.resources.cpu_mhz, "Cores": 0, "MemoryMB": t.resources.memory_mb, "MemoryMaxMB": 0, "DiskMB": 0, "IOPS": 0},
        "LogConfig": {
            "MaxFiles": t.logs.max_files, "MaxFileSizeMB": t.logs.max_file_size_mb, "Disabled": t.logs.disabled
        },
        "Lifecycle": t.lifecycle.map(|l| json!({
            "Hook": match l.hook {
                Hook::Prestart => "prestart",
                Hook::Poststart => "poststart",
                Hook::Poststop => "poststop",
            },
            "Sidecar": l.sidecar
        }))
    })
}

fn free(v: &Plain) -> Value {
    match v {
        Plain::Null => Value::Null,
        Plain::Bool(b) => json!(b),
        Plain::Int(i) => json!(i),
        Plain::Float(f) => json!(f),
        Plain::Text(t) => json!(t),
        Plain::List(l) => l.iter().map(free).collect(),
        Plain::Map(m) => Value::Object(m.iter().map(|(k, v)| (k.clone(), free(v))).collect()),
    }
}

#[test]
fn a_stored_job_comes_back_as_itself() {
    let mut specs: Vec<JobSpec> = SAMPLES.iter().map(|s| decode(&job(s))).collect();
    let mut without_update = changed("/Update", json!({"MaxParallel": 0}));
    without_update["TaskGroups"][0]["Update"] = json!({"MaxParallel": 0});
    specs.push(decode(&without_update));
    for spec in specs {
        assert_eq!(decode(&written(&spec)), spec);
    }
}
