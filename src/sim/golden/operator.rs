//! Samples of what operators want: of versions, of the scheduler, of evaluations and of node pools.

use super::Samples;
use model::garbage::{Cutoffs, Garbage};
use model::id::DeploymentId;
use model::job::{Job, VersionTag};
use model::pool::{NodePool, NodePoolSpec};
use model::scheduling::{Algorithm, PoolScheduling, PreemptionConfig, SchedulerConfig, SchedulerSettings};
use state::samples::{AT, Region, alloc_id, eval, eval_id, key, node_id};
use std::collections::BTreeMap;
use wire::command::{CollectGarbageCommand, Command, RevertJobCommand, TagVersionCommand};

fn config() -> SchedulerConfig {
    let settings = SchedulerSettings {
        algorithm: Algorithm::Spread,
        memory_oversubscription: true,
        reject_job_registration: true,
        pause_eval_broker: true,
        preemption: PreemptionConfig { system: false, sysbatch: true, batch: true, service: true },
    };
    SchedulerConfig { settings, create_index: 3, modify_index: 300 }
}

/// With every member said.
fn pool() -> NodePool {
    let scheduling =
        PoolScheduling { algorithm: Some(Algorithm::Binpack), memory_oversubscription: Some(false) };
    let spec = NodePoolSpec {
        name: "boards".into(),
        description: "ours".into(),
        meta: BTreeMap::from([("owner".to_string(), "ops".to_string())]),
        scheduling: Some(scheduling),
    };
    NodePool { spec, create_index: 3, modify_index: 4 }
}

pub fn operator_samples(s: &mut Samples) {
    let order = RevertJobCommand {
        job: key("web"),
        version: 3,
        enforce_prior_version: Some(4),
        eval: Some(eval(1, "web")),
        tracked_versions: 6,
        at: AT,
    };
    s.add("revert job", &Command::RevertJob(Box::new(order)));
    for (what, description) in [("tag version", Some("ours".to_string())), ("untag version", None)] {
        let order = TagVersionCommand {
            job: key("web"),
            name: "good".into(),
            version: Some(300),
            description,
            at: AT,
        };
        s.add(what, &Command::TagVersion(Box::new(order)));
    }
    let tag = VersionTag { name: "good".into(), description: "ours".into(), at: AT };
    s.add("named", &Job { tag: Some(tag), ..super::job() });
    let (config, pool) = (config(), pool());
    s.add("spread", &config);
    s.add("boards", &pool);
    for (what, cas) in [("configure scheduler", None), ("configure scheduler that was seen", Some(300))] {
        s.add(what, &Command::ConfigureScheduler { settings: config.settings, cas });
    }
    s.add("delete evals", &Command::DeleteEvals { ids: vec![eval(1, "web").id], skip_needed: true });
    s.add("upsert node pool", &Command::UpsertNodePool { pool: Box::new(pool.spec) });
    s.add("delete node pool", &Command::DeleteNodePool { name: "boards".into() });
    for (what, garbage) in [
        ("collect jobs", Garbage::Jobs(vec![key("web")])),
        ("collect by stopping", Garbage::Stop(key("web"))),
        ("collect allocs", Garbage::Allocs(vec![alloc_id(1)])),
        ("collect evals", Garbage::Evals(vec![eval_id(1)])),
        ("collect deployments", Garbage::Deployments(vec![DeploymentId::from_random(4)])),
        ("collect nodes", Garbage::Nodes(vec![node_id(1)])),
    ] {
        let before = Cutoffs { jobs: AT, ..Cutoffs::FORCED };
        s.add(
            what,
            &Command::CollectGarbage(Box::new(CollectGarbageCommand {
                garbage,
                before,
                tracked_versions: 6,
                at: AT,
            })),
        );
    }
    s.add("set stability", &Command::SetStability { job: key("web"), version: 300, stable: true });
}

/// The rows that these lie in.
pub fn operator_rows(region: &mut Region) {
    region.run(&Command::UpsertNodePool { pool: Box::new(pool().spec) });
    region.run(&Command::ConfigureScheduler { settings: config().settings, cas: Some(0) });
}
