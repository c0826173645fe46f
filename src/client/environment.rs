//! A task's environment variables and the directories they name (client.md 13, client.md 15).

use super::config::Config;
use super::interpolate::{NameValues, lenient};
use model::alloc::name_index;
use model::claims::HeldPort;
use model::environment::{cleaned, meta_variables};
use model::id::AllocId;
use model::job::Task;
use model::node::NodeInfo;
use model::resources::TaskResources;
use std::collections::BTreeMap;
use wire::rpc::Assignment;

/// Host paths of an allocation.
pub struct TaskDirs {
    pub shared: String,
    pub logs: String,
    pub task: String,
    pub local: String,
    pub secrets: String,
}

pub fn dirs(config: &Config, alloc: AllocId, task: &str) -> TaskDirs {
    let root = format!("{}/{alloc}", config.alloc_dir.trim_end_matches('/'));
    TaskDirs {
        shared: format!("{root}/alloc"),
        logs: format!("{root}/alloc/logs"),
        task: format!("{root}/{task}"),
        local: format!("{root}/{task}/local"),
        secrets: format!("{root}/{task}/secrets"),
    }
}

/// What a task's `${...}` can name.
pub struct Environment {
    pub env: BTreeMap<String, String>,
    pub node: BTreeMap<String, String>,
}

impl Environment {
    pub fn names(&self) -> NameValues<'_> {
        NameValues { env: &self.env, node: &self.node }
    }
}

/// The resources that a task holds: the allocation's own numbers where it has them.
pub fn resources_of(assignment: &Assignment, task: &Task) -> TaskResources {
    assignment.resources.tasks.get(&task.name).cloned().unwrap_or_else(|| task.task_resources())
}

/// Later steps win: `NOMAD_*`, meta, then the agent's variables where nothing is set yet, then the task's `env`.
pub fn build(config: &Config, info: &NodeInfo, assignment: &Assignment, task: &Task) -> Environment {
    let mut env = identity(config, info, assignment, task);
    ports(assignment, task, &mut env);
    let node = node_names(info, &config.region);
    let meta = meta(assignment, task, NameValues { env: &env, node: &node });
    env.extend(meta);
    for (key, value) in &config.host_env {
        if !config.env_denylist.contains(key) {
            env.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    let names = NameValues { env: &env, node: &node };
    let own: Vec<_> = task.env.iter().map(|(k, v)| (k.clone(), lenient(v, names))).collect();
    env.extend(own);
    Environment { env, node }
}

fn identity(config: &Config, info: &NodeInfo, a: &Assignment, task: &Task) -> BTreeMap<String, String> {
    let dirs = dirs(config, a.id, &task.name);
    let held = resources_of(a, task);
    let mut env = BTreeMap::new();
    let mut set = |key: &str, value: String| drop(env.insert(key.to_string(), value));
    set("NOMAD_ALLOC_DIR", dirs.shared);
    set("NOMAD_TASK_DIR", dirs.local);
    set("NOMAD_SECRETS_DIR", dirs.secrets);
    if held.memory_mb > 0 {
        set("NOMAD_MEMORY_LIMIT", held.memory_mb.to_string());
    }
    if held.cpu_mhz > 0 {
        set("NOMAD_CPU_LIMIT", held.cpu_mhz.to_string());
    }
    set("NOMAD_CPU_CORES", core_list(&held.held.cores));
    if held.held.memory_max_mb > 0 {
        set("NOMAD_MEMORY_MAX_LIMIT", held.held.memory_max_mb.to_string());
    }
    set("NOMAD_ALLOC_ID", a.id.to_string());
    set("NOMAD_SHORT_ALLOC_ID", a.id.0.short());
    set("NOMAD_ALLOC_NAME", a.name.clone());
    set("NOMAD_ALLOC_INDEX", name_index(&a.name).to_string());
    set("NOMAD_TASK_NAME", task.name.clone());
    set("NOMAD_GROUP_NAME", a.group.name.clone());
    set("NOMAD_JOB_ID", a.job.id.clone());
    set("NOMAD_JOB_NAME", a.job_name.clone());
    if !a.job_parent.is_empty() {
        set("NOMAD_JOB_PARENT_ID", a.job_parent.clone());
    }
    set("NOMAD_NAMESPACE", a.job.namespace.clone());
    set("NOMAD_DC", info.datacenter.clone());
    set("NOMAD_REGION", config.region.clone());
    if !config.parent_cgroup.is_empty() {
        set("NOMAD_PARENT_CGROUP", config.parent_cgroup.clone());
    }
    env
}

/// Ports of the group and of the task itself by their labels; ports of other tasks with the task's name before that
/// (client.md 15.3).
fn ports(a: &Assignment, task: &Task, env: &mut BTreeMap<String, String>) {
    let mut set = |prefix: &str, label: &str, value: String| {
        let label = if CLEANED.contains(&prefix) { cleaned(label) } else { label.to_string() };
        env.insert(format!("NOMAD_{prefix}_{label}"), value);
    };
    let own = a.resources.tasks.get(&task.name).into_iter().flat_map(|t| &t.held.networks);
    for port in a.resources.networks.iter().chain(own).flat_map(|n| &n.ports) {
        let inside = if port.to > 0 { port.to } else { port.value.into() };
        let (label, address) = (&port.label, address(port));
        for prefix in ["IP", "HOST_IP"] {
            set(prefix, label, port.host_ip.clone());
        }
        for prefix in ["ADDR", "HOST_ADDR"] {
            set(prefix, label, address.clone());
        }
        for prefix in ["PORT", "ALLOC_PORT"] {
            set(prefix, label, inside.to_string());
        }
        set("HOST_PORT", label, port.value.to_string());
    }
    for (name, of_task) in a.resources.tasks.iter().filter(|(name, _)| **name != task.name) {
        for port in of_task.held.networks.iter().flat_map(|n| &n.ports) {
            let label = format!("{name}_{}", port.label);
            set("IP", &label, port.host_ip.clone());
            set("PORT", &label, port.value.to_string());
            set("ADDR", &label, address(port));
        }
    }
}

const CLEANED: [&str; 4] = ["ADDR", "IP", "PORT", "HOST_PORT"];

fn address(port: &HeldPort) -> String {
    let ip = &port.host_ip;
    if ip.contains(':') { format!("[{ip}]:{}", port.value) } else { format!("{ip}:{}", port.value) }
}

/// Core numbers as the kernel lists them: `0-2,5`.
pub fn core_list(cores: &[u16]) -> String {
    let mut spans: Vec<(u16, u16)> = Vec::new();
    for core in cores {
        match spans.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*core) => *last = *core,
            _ => spans.push((*core, *core)),
        }
    }
    let text = |(from, to): &(u16, u16)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    spans.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Job, then group, then task; each key as written and in capitals.
fn meta(assignment: &Assignment, task: &Task, names: NameValues<'_>) -> BTreeMap<String, String> {
    let mut merged = BTreeMap::new();
    for level in [&assignment.job_meta, &assignment.group.meta, &task.meta] {
        merged.extend(level);
    }
    let mut env = BTreeMap::new();
    for (key, value) in merged {
        let value = lenient(value, names);
        env.extend(meta_variables(key).map(|name| (name, value.clone())));
    }
    env
}

fn node_names(info: &NodeInfo, region: &str) -> BTreeMap<String, String> {
    let mut node = BTreeMap::new();
    for (key, value) in &info.attributes {
        node.insert(format!("attr.{key}"), value.clone());
    }
    for (key, value) in &info.meta {
        node.insert(format!("meta.{key}"), value.clone());
    }
    for (key, value) in [
        ("node.unique.id", info.id.to_string()),
        ("node.unique.name", info.name.clone()),
        ("node.datacenter", info.datacenter.clone()),
        ("node.region", region.to_string()),
        ("node.class", info.class.clone()),
        ("node.pool", info.pool.clone()),
    ] {
        node.insert(key.to_string(), value);
    }
    node
}

#[cfg(test)]
mod tests {
    use super::super::tests::fixtures;
    use super::*;
    use model::claims::{HeldNetwork, TaskHoldings};

    #[test]
    fn a_task_sees_its_ports_and_those_of_its_neighbours() {
        let port = |label: &str, value, to, ip: &str| HeldPort {
            label: label.into(),
            value,
            to,
            host_ip: ip.into(),
            ..HeldPort::default()
        };
        let network = |ports| HeldNetwork { ports, ..HeldNetwork::default() };
        let mut assignment = fixtures::assignment(1, &[fixtures::task("web"), fixtures::task("db")]);
        let resources = &mut assignment.resources;
        resources.networks =
            vec![network(vec![port("http", 8080, 80, "10.0.0.5"), port("my-rpc", 21_000, -1, "::1")])];
        for (task, value) in [("web", 1), ("db", 2)] {
            let held = TaskHoldings {
                networks: vec![network(vec![port("own", value, 0, "10.0.0.5")])],
                ..TaskHoldings::default()
            };
            resources.tasks.insert(task.into(), TaskResources { held, ..TaskResources::default() });
        }
        assignment.group.tasks[0].env = fixtures::map(&[("AT", "${NOMAD_ADDR_http}/${NOMAD_PORT_own}")]);
        let task = assignment.group.tasks[0].clone();
        let env = build(&fixtures::config(), &fixtures::info(), &assignment, &task).env;
        for (key, value) in [
            ("NOMAD_IP_http", "10.0.0.5"),
            ("NOMAD_HOST_IP_http", "10.0.0.5"),
            ("NOMAD_PORT_http", "80"),
            ("NOMAD_ALLOC_PORT_http", "80"),
            ("NOMAD_HOST_PORT_http", "8080"),
            ("NOMAD_ADDR_http", "10.0.0.5:8080"),
            ("NOMAD_HOST_ADDR_http", "10.0.0.5:8080"),
            ("NOMAD_PORT_my_rpc", "21000"),
            ("NOMAD_ADDR_my_rpc", "[::1]:21000"),
            ("NOMAD_HOST_ADDR_my-rpc", "[::1]:21000"),
            ("NOMAD_PORT_own", "1"),
            ("NOMAD_PORT_db_own", "2"),
            ("NOMAD_ADDR_db_own", "10.0.0.5:2"),
            ("AT", "10.0.0.5:8080/1"),
        ] {
            assert_eq!(env.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(env.get("NOMAD_PORT_web_own"), None);
    }

    #[test]
    fn cores_are_listed_as_the_kernel_does() {
        for (cores, text) in [(&[][..], ""), (&[3], "3"), (&[0, 1, 2, 5, 7, 8], "0-2,5,7-8")] {
            assert_eq!(core_list(cores), text);
        }
    }

    #[test]
    fn a_task_sees_where_it_is() {
        let mut assignment = fixtures::assignment(1, &[fixtures::task("web")]);
        assignment.job_meta = fixtures::map(&[("a.b-c", "job"), ("who", "${NOMAD_TASK_NAME}")]);
        assignment.group.meta = fixtures::map(&[("a.b-c", "group")]);
        let task = &mut assignment.group.tasks[0];
        task.env = fixtures::map(&[
            ("PATH", "/own"),
            ("WHERE", "${node.datacenter}/${NOMAD_META_who}"),
            ("odd-key", "${nosuch}"),
        ]);
        let mut config = fixtures::config();
        config.host_env = vec![
            ("PATH".into(), "/bin".into()),
            ("HOME".into(), "/root".into()),
            ("VAULT_TOKEN".into(), "secret".into()),
            ("NOMAD_TASK_NAME".into(), "wrong".into()),
        ];
        let task = assignment.group.tasks[0].clone();
        let env = build(&config, &fixtures::info(), &assignment, &task).env;
        let root = format!("/allocs/{}", assignment.id);
        for (key, value) in [
            ("NOMAD_ALLOC_DIR", format!("{root}/alloc")),
            ("NOMAD_TASK_DIR", format!("{root}/web/local")),
            ("NOMAD_SECRETS_DIR", format!("{root}/web/secrets")),
            ("NOMAD_MEMORY_LIMIT", "64".into()),
            ("NOMAD_CPU_LIMIT", "100".into()),
            ("NOMAD_CPU_CORES", String::new()),
            ("NOMAD_ALLOC_NAME", "job.g[3]".into()),
            ("NOMAD_ALLOC_INDEX", "3".into()),
            ("NOMAD_SHORT_ALLOC_ID", assignment.id.0.short()),
            ("NOMAD_TASK_NAME", "web".into()),
            ("NOMAD_GROUP_NAME", "g".into()),
            ("NOMAD_JOB_ID", "job".into()),
            ("NOMAD_DC", "dc1".into()),
            ("NOMAD_REGION", "global".into()),
            ("NOMAD_NAMESPACE", "default".into()),
            ("NOMAD_META_a.b_c", "group".into()),
            ("NOMAD_META_A.B_C", "group".into()),
            ("NOMAD_META_who", "web".into()),
            ("PATH", "/own".into()),
            ("HOME", "/root".into()),
            ("WHERE", "dc1/web".into()),
            ("odd-key", "${nosuch}".into()),
        ] {
            assert_eq!(env.get(key), Some(&value), "{key}");
        }
        for absent in ["VAULT_TOKEN", "NOMAD_PARENT_CGROUP", "NOMAD_UNIX_ADDR", "NOMAD_JOB_PARENT_ID"] {
            assert_eq!(env.get(absent), None, "{absent}");
        }
    }
}
