//! Small jobs and machines for tests.

use crate::config::Config;
use model::alloc::{DesiredStatus, alloc_name};
use model::claims::NodeOffers;
use model::id::{AllocId, JobKey, NodeId, NodeSecret, Uuid};
use model::job::{JobType, RestartMode, RestartPolicy, Task};
use model::member::Generation;
use model::node::{DriverInfo, NodeInfo};
use model::resources::Amount;
use model::samples;
use model::time::{Span, Wall};
use model::value::Value;
use std::collections::BTreeMap;
use wire::rpc::Assignment;

pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

pub fn alloc_id(n: u8) -> AllocId {
    AllocId(Uuid::from_bytes([n; 16]))
}

pub fn generation(region: u8) -> Generation {
    Generation { region_id: Uuid::from_bytes([region; 16]), restores: 0 }
}

pub fn config() -> Config {
    let mut config = Config::new(NodeId::default(), NodeSecret::default(), "/allocs/");
    config.servers = vec![1];
    config.dev = true;
    config
}

pub fn info() -> NodeInfo {
    let raw_exec = DriverInfo {
        detected: true,
        healthy: true,
        description: String::new(),
        attributes: BTreeMap::new(),
        updated: Wall::NEVER,
    };
    NodeInfo {
        id: NodeId::default(),
        secret: NodeSecret::default(),
        name: "n1".into(),
        datacenter: "dc1".into(),
        pool: "default".into(),
        class: String::new(),
        http_addr: String::new(),
        attributes: map(&[("kernel.name", "linux")]),
        meta: BTreeMap::new(),
        capacity: Amount::ZERO,
        reserved: Amount::ZERO,
        cpu_cores: 1,
        networks: vec![],
        drivers: [("raw_exec".to_string(), raw_exec)].into(),
        not_enforced: vec![],
        offers: NodeOffers::default(),
        max_allocs: 0,
    }
}

pub fn restart(attempts: i64, mode: RestartMode) -> RestartPolicy {
    RestartPolicy {
        attempts,
        interval: Span::minutes(30),
        delay: Span::seconds(15),
        mode,
        render_templates: false,
    }
}

pub fn task(name: &str) -> Task {
    let config = [("command".to_string(), Value::Text("/bin/serve".into()))].into();
    Task { config, ..samples::task(name) }
}

pub fn assignment(n: u8, tasks: &[Task]) -> Assignment {
    let group = samples::group("g", 1, tasks.to_vec());
    Assignment {
        id: alloc_id(n),
        name: alloc_name("job", "g", 3),
        job: JobKey::new("default", "job"),
        job_name: "job".into(),
        job_type: JobType::Service,
        job_version: 0,
        job_meta: BTreeMap::new(),
        region: "global".into(),
        resources: group.resources(),
        group,
        desired: DesiredStatus::Run,
        previous: None,
        alloc_modify_index: 10,
        deployment: None,
        job_parent: String::new(),
        payload: Vec::new(),
        preempted: vec![],
        no_shutdown_delay: false,
    }
}
