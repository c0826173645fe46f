//! Who this agent is, in the words of others: to API callers, and as a node to the servers.

use super::config::{ClientConfig, Config, HostNetwork, Settings, shown};
use ::io::quic::{self, RegionKey};
use ::io::{clock, fingerprint, interfaces};
use api::agent::{AgentInfo, Telemetry};
use api::metrics::PrefixFilter;
use model::claims::NodeOffers;
use model::id::{NodeId, NodeSecret};
use model::member::ServerInfo;
use model::node::NodeInfo;
use model::resources::Amount;
use model::time::Wall;
use std::path::Path;
use wire::feature_level::FEATURE_LEVEL;

pub type NodeCredentials = (NodeId, NodeSecret);

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub fn agent_info(config: &Config, settings: &Settings, data_dir: &Path) -> AgentInfo {
    AgentInfo {
        name: config.name.clone(),
        region: config.region.clone(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        datacenter: config.datacenter.clone(),
        version: VERSION.to_string(),
        compatible_version: fingerprint::COMPATIBLE_VERSION.to_string(),
        bind_addr: config.bind_addr.to_string(),
        http_addr: config.http.advertised(),
        https: config.http.https.enabled,
        rpc_addr: config.advertised_rpc(),
        data_dir: data_dir.display().to_string(),
        config: shown(settings),
        log_level: config.log.level.name().to_string(),
        dev: config.dev,
        server: config.server.enabled,
        client: config.client.enabled,
        job_max_priority: config.server.job_max_priority,
        job_default_priority: config.server.job_default_priority,
        job_max_source_bytes: config.server.job_max_source_bytes,
        search: config.server.search,
        telemetry: telemetry(config),
        no_events: !config.server.event_broker,
        region_key_digest: region_key_digest(config),
        enable_debug: config.enable_debug,
    }
}

/// `None`: the region has no key.
fn region_key_digest(config: &Config) -> Option<[u8; 32]> {
    let secret = config.server.encrypt.as_ref()?;
    let key = RegionKey::from_secret(secret.bytes()).ok()?;
    Some(quic::digest(&key.public()))
}

/// What the other servers of the region are to know of this one.
pub fn server_info(config: &Config) -> ServerInfo {
    ServerInfo {
        name: config.name.clone(),
        region: config.region.clone(),
        datacenter: config.datacenter.clone(),
        http_addr: config.http.advertised(),
        rpc_addr: config.advertised_rpc(),
        version: VERSION.to_string(),
        feature_level: FEATURE_LEVEL,
    }
}

fn telemetry(config: &Config) -> Telemetry {
    let t = &config.telemetry;
    Telemetry {
        prometheus: t.prometheus,
        publish_node: t.publish_node,
        publish_allocations: t.publish_allocations,
        hide_dispatched: t.hide_dispatched,
        filter: PrefixFilter { default: t.filter_default, prefixes: t.prefixes.clone() },
        host: (!t.disable_hostname)
            .then(|| if t.use_node_name { config.name.clone() } else { t.hostname.clone() }),
    }
}

/// What the configuration offers, before the machine is looked at.
fn offers(client: &ClientConfig) -> NodeOffers {
    NodeOffers {
        dynamic_ports: client.dynamic_ports,
        reserved_ports: client.reserved.ports.clone(),
        volumes: client.host_volumes.iter().cloned().collect(),
        ..NodeOffers::default()
    }
}

fn host_network((name, network): &(String, HostNetwork)) -> interfaces::HostNetwork {
    interfaces::HostNetwork {
        name: name.clone(),
        cidrs: network.cidr.split(',').filter_map(|c| interfaces::parse_cidr(c.trim())).collect(),
        interface: network.interface.clone(),
        reserved_ports: network.reserved_ports.clone(),
    }
}

/// Looks at the machine: to be called off the main thread.
pub fn node_info(config: &Config, alloc_dir: &Path, node: NodeCredentials) -> NodeInfo {
    let settings = fingerprint_config(config, alloc_dir);
    node_info_from(config, node, fingerprint::fingerprint(&settings, clock::wall().unwrap_or(Wall::NEVER)))
}

/// `None` for 0, which means that nothing was configured.
fn given(n: u64) -> Option<i64> {
    i64::try_from(n).ok().filter(|n| *n > 0)
}

/// What the configuration says of the machine.
pub fn fingerprint_config(config: &Config, alloc_dir: &Path) -> fingerprint::FingerprintConfig {
    let client = &config.client;
    fingerprint::FingerprintConfig {
        alloc_dir: alloc_dir.to_path_buf(),
        network_interface: client.network_interface.clone(),
        cpu_total_compute_mhz: given(client.cpu_total_compute_mhz),
        memory_total_mb: given(client.memory_total_mb),
        disk_total_mb: given(client.disk_total_mb),
        disk_free_mb: given(client.disk_free_mb),
        raw_exec: client.raw_exec_enabled,
        host_networks: client.host_networks.iter().map(host_network).collect(),
        offers: offers(client),
    }
}

/// What was found and what the configuration adds.
pub fn node_info_from(config: &Config, node: NodeCredentials, found: fingerprint::Fingerprint) -> NodeInfo {
    let client = &config.client;
    let reserved = &client.reserved;
    NodeInfo {
        id: node.0,
        secret: node.1,
        name: config.name.clone(),
        datacenter: config.datacenter.clone(),
        pool: client.node_pool.clone(),
        class: client.node_class.clone(),
        http_addr: NodeInfo::http_place(&config.http.advertised(), config.http.https.enabled),
        attributes: found.attributes,
        meta: client.meta.clone(),
        capacity: found.capacity,
        reserved: Amount {
            cpu_mhz: given(reserved.cpu_mhz).unwrap_or(0),
            memory_mb: given(reserved.memory_mb).unwrap_or(0),
            disk_mb: given(reserved.disk_mb).unwrap_or(0),
            ..Amount::ZERO
        },
        cpu_cores: found.cpu_cores,
        networks: found.networks,
        drivers: found.drivers,
        not_enforced: found.not_enforced,
        offers: found.offers,
        max_allocs: client.node_max_allocs,
    }
}
