//! Opens what the brains keep on disk, and tells each brain what the configuration means for it.

use super::config::Config;
use super::data_dir::DataDir;
use super::disk_space::DiskSpaceMonitor;
use super::enrolment;
use super::failure::AgentFailure;
use super::identity;
use super::server_loop::OpenedServer;
use super::supervisor;
use ::io::{entropy, zones};
use model::job::JobType;
use server::heartbeat::HeartbeatRules;
use state::client_store::{ClientStore, RecoveredAlloc};
use std::path::{Path, PathBuf};
use std::thread;

/// Up to this many ready evaluations for each worker are scheduled sooner here than another server could hand in plans for them.
const READY_PER_WORKER: usize = 2;
/// Told to tasks as NOMAD_PARENT_CGROUP.
const PARENT_CGROUP: &str = "drover";

pub fn server_config(config: &Config) -> server::Config {
    server::Config {
        bootstrap_expect: if config.server.founds { 1 } else { config.server.bootstrap_expect },
        knows_others: !config.server.founds && config.server.join.addresses().next().is_some(),
        info: identity::server_info(config),
        heartbeats: HeartbeatRules {
            min_ttl: config.server.min_heartbeat_ttl,
            max_per_second: config.server.max_heartbeats_per_second,
            grace: config.server.heartbeat_grace,
            failover_ttl: config.server.failover_heartbeat_ttl,
        },
        workers: config.server.num_schedulers as usize,
        enabled_schedulers: enabled_schedulers(config),
        ready_per_worker: READY_PER_WORKER,
        rows_per_turn: server::ROWS_PER_TURN,
        tracked_versions: config.server.job_tracked_versions,
        scheduler: config.server.default_scheduler_config,
        garbage: config.server.garbage,
        zones: zones::zone,
    }
}

pub fn open_data_dir(config: &Config) -> Result<DataDir, AgentFailure> {
    match &config.data_dir {
        Some(path) => DataDir::open(path, false),
        None => {
            let name = format!("drover-dev-{:016x}", entropy::u64().map_err(|e| e.to_string())?);
            DataDir::open(&std::env::temp_dir().join(name), true)
        }
    }
}

/// The types that scheduler workers take: all of them without a list.
fn enabled_schedulers(config: &Config) -> Vec<JobType> {
    let named = &config.server.enabled_schedulers;
    if named.is_empty() { JobType::ALL.into() } else { named.iter().flatten().copied().collect() }
}

/// What the roles of this agent have on disk.
pub struct OpenedStores {
    pub server: Option<OpenedServer>,
    pub node: Option<OpenedNode>,
}

pub struct OpenedNode {
    pub credentials: identity::NodeCredentials,
    pub store: ClientStore,
    pub recovered: Vec<RecoveredAlloc>,
    pub space: DiskSpaceMonitor,
}

/// Opens both at the same time: a first start mostly waits for the disk.
pub fn open_stores(config: &Config, dir: &DataDir) -> Result<OpenedStores, AgentFailure> {
    thread::scope(|scope| {
        let open = || OpenedServer::open(&dir.server_store(), server_config(config), !config.dev);
        let opening = config.server.enabled.then(|| scope.spawn(open));
        let node = if config.client.enabled { Some(open_node(config, dir)?) } else { None };
        let server = match opening {
            Some(opening) => Some(opening.join().map_err(|_| "opening the server's store panicked")??),
            None => None,
        };
        if let Some(opened) = server.as_ref().filter(|_| config.server.founds)
            && opened.has_region()?
        {
            enrolment::region_has_begun(dir)?;
        }
        Ok(OpenedStores { server, node })
    })
}

fn open_node(config: &Config, dir: &DataDir) -> Result<OpenedNode, String> {
    let credentials = dir.identity()?;
    let path = client_store(config, dir.root());
    let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let disk = ::io::disk::Disk::open(&path, !config.dev).map_err(|e| named(&e))?;
    let (space, pending_create) = (DiskSpaceMonitor::new(disk.reserve()), disk.pending_create());
    let second = disk.sibling("log.1").map_err(|e| named(&e))?;
    let (store, recovered) = ClientStore::open([Box::new(disk), Box::new(second)]).map_err(|e| named(&e))?;
    pending_create.complete().map_err(|e| named(&e))?;
    Ok(OpenedNode { credentials, store, recovered, space })
}

/// Where the client's own state lies: the first of its two files.
pub fn client_store(config: &Config, data_dir: &Path) -> PathBuf {
    let dir = config.client.state_dir.clone().unwrap_or_else(|| data_dir.join("client"));
    dir.join("log.0")
}

pub fn client_config(
    config: &Config,
    node: identity::NodeCredentials,
    own_server: Option<u64>,
    alloc_dir: &Path,
) -> client::config::Config {
    let mut settings = client::config::Config::new(node.0, node.1, alloc_dir.display().to_string());
    settings.region.clone_from(&config.region);
    settings.asks_listed = own_server.is_none();
    settings.servers.extend(own_server);
    settings.max_kill_timeout = config.client.max_kill_timeout;
    settings.max_ended = config.client.gc_max_allocs as usize;
    settings.remote_exec = config.client.remote_exec;
    if let Some(names) = &config.client.env_denylist {
        settings.env_denylist.clone_from(names);
    }
    settings.dev = config.dev;
    settings.host_env = supervisor::environment_for_tasks(std::env::vars_os());
    settings.parent_cgroup = PARENT_CGROUP.to_string();
    settings
}
