//! The keys of the block `client`.

use super::super::offers::{
    cidrs, host_network, host_volume, last_network, last_volume, ports, u16_of, volume_path,
};
use super::super::values::{directory, interface, join_token, meta, name, option, u32_of};
use super::{AMOUNT, COUNT, ConfigKey, KeyType, PORT, key, no_effect, not_built, not_built_but};
use model::node::MAX_ALLOCS;
use std::ops::RangeInclusive;

/// How many allocations a node may keep: the client tracks each until its directory is removed.
const ALLOC_DIRS: RangeInclusive<u64> = 0..=MAX_ALLOCS as u64;
const KEPT: RangeInclusive<u64> = 1..=10_000;

const NO_BRIDGE: &str =
    "there are no bridges and no CNI networks yet: no node is fit for jobs that ask for one";
const NO_VOLUMES: &str = "there are no dynamic host volumes yet";
const ENDED_BY_COUNT: &str =
    "directories of what has ended go by `gc_max_allocs`, and when the servers forget them";

const ADDRESSES: &str = "list of hosts, with or without a port; 32 at most";
const SERVERS: &str = "the servers to ask; an agent that is a server asks itself, and says so";

pub static CLIENT: &[ConfigKey] = &[
    key("enabled", KeyType::Bool(|c| c.client.enabled = true)).dev("true").about("be a node"),
    key("node_class", KeyType::Text(|c, v| name(v, &mut c.client.node_class, &['\0'])))
        .about("what jobs ask for with `${node.class}`"),
    key("node_pool", KeyType::Text(|c, v| name(v, &mut c.client.node_pool, &['\0'])))
        .or("default")
        .about("the pool that the node is in"),
    key("meta", KeyType::Map(meta))
        .takes("map; keys are words with dots between them")
        .about("what jobs ask for with `${meta.x}`"),
    key("options", KeyType::Map(option)).takes("map").about("4.5.1"),
    key("state_dir", KeyType::Text(|c, v| directory(v, &mut c.client.state_dir)))
        .or_words("`client` in `data_dir`")
        .takes("absolute path")
        .about("where the client keeps its state"),
    key("alloc_dir", KeyType::Text(|c, v| directory(v, &mut c.client.alloc_dir)))
        .or_words("`alloc` in `data_dir`")
        .takes("absolute path")
        .about("where tasks have their directories"),
    key("network_interface", KeyType::Text(interface))
        .or_words("that of the default route")
        .dev("lo")
        .takes("name")
        .about("the interface whose address tasks are told"),
    key("cpu_total_compute", KeyType::Int(AMOUNT, |c, v| c.client.cpu_total_compute_mhz = v))
        .or_words("measured")
        .about("MHz of all cores"),
    key("memory_total_mb", KeyType::Int(AMOUNT, |c, v| c.client.memory_total_mb = v))
        .or_words("measured")
        .about("MiB"),
    key("disk_total_mb", KeyType::Int(AMOUNT, |c, v| c.client.disk_total_mb = v))
        .or_words("measured")
        .about("MiB"),
    key("disk_free_mb", KeyType::Int(AMOUNT, |c, v| c.client.disk_free_mb = v))
        .or_words("measured")
        .about("MiB"),
    key("reserved", KeyType::Block(RESERVED)),
    key("max_kill_timeout", KeyType::Duration(|c, v| c.client.max_kill_timeout = v))
        .or("30s")
        .about("a task's `kill_timeout` is held to this"),
    key("min_dynamic_port", KeyType::Int(PORT, |c, v| c.client.dynamic_ports.min = u16_of(v)))
        .or("20000")
        .about("where ports come from that jobs give no number"),
    key("max_dynamic_port", KeyType::Int(PORT, |c, v| c.client.dynamic_ports.max = u16_of(v)))
        .or("32000")
        .about("the last of them"),
    key("gc_max_allocs", KeyType::Int(KEPT, |c, v| c.client.gc_max_allocs = u32_of(v)))
        .or("50")
        .about("ended allocations that keep their directories"),
    key("node_max_allocs", KeyType::Int(ALLOC_DIRS, |c, v| c.client.node_max_allocs = u16_of(v)))
        .or("0")
        .about("allocations that have not ended; 0 is as many as a node can take"),
    key("disable_remote_exec", KeyType::Bool(|c| c.client.remote_exec = false))
        .about("no `alloc exec` and no `job action` on this node"),
    key("host_volume", KeyType::Named(host_volume, HOST_VOLUME)),
    key("host_network", KeyType::Named(host_network, HOST_NETWORK)),
    key("servers", KeyType::List(|c, v| c.client.join.add_retry_join(v))).takes(ADDRESSES).about(SERVERS),
    key("server_join", KeyType::Block(SERVER_JOIN)),
    not_built("reservable_cores"),
    not_built_but("gc_disk_usage_threshold", &["80"]),
    not_built_but("gc_inode_usage_threshold", &["70"]),
    not_built("cgroup_parent"),
    not_built("drain_on_shutdown"),
    not_built("preferred_address_family"),
    not_built("default_ineligible"),
    not_built("log_file"),
    not_built_but("no_host_uuid", &["true"]),
    no_effect("client_min_port", "drivers are no processes of their own"),
    no_effect("client_max_port", "drivers are no processes of their own"),
    no_effect("chroot_env", "there is no driver with a chroot yet"),
    no_effect("network_speed", "bandwidth is not placed"),
    no_effect("gc_interval", ENDED_BY_COUNT),
    no_effect("gc_parallel_destroys", ENDED_BY_COUNT),
    no_effect("gc_volumes_on_node_gc", NO_VOLUMES),
    no_effect("cni_path", NO_BRIDGE),
    no_effect("cni_config_dir", NO_BRIDGE),
    no_effect("bridge_network_name", NO_BRIDGE),
    no_effect("bridge_network_subnet", NO_BRIDGE),
    no_effect("bridge_network_subnet_ipv6", NO_BRIDGE),
    no_effect("bridge_network_hairpin_mode", NO_BRIDGE),
    no_effect("bind_wildcard_default_host_network", NO_BRIDGE),
    no_effect("nomad_service_discovery", "there are no services yet"),
    no_effect("template", "there are no templates yet"),
    no_effect("artifact", "there are no artifacts yet"),
    no_effect("alloc_mounts_dir", "no driver mounts there"),
    no_effect("host_volumes_dir", NO_VOLUMES),
    no_effect("host_volume_plugin_dir", NO_VOLUMES),
    no_effect("common_plugin_dir", "drivers are part of drover"),
    no_effect("users", "no driver makes users"),
    no_effect("fingerprint", "no cloud is asked"),
    no_effect("cpu_disable_dmidecode", "dmidecode is not asked"),
];

static RESERVED: &[ConfigKey] = &[
    key("cpu", KeyType::Int(AMOUNT, |c, v| c.client.reserved.cpu_mhz = v)).about("MHz that tasks never get"),
    key("memory", KeyType::Int(AMOUNT, |c, v| c.client.reserved.memory_mb = v)).about("MiB"),
    key("disk", KeyType::Int(AMOUNT, |c, v| c.client.reserved.disk_mb = v)).about("MiB"),
    key("reserved_ports", KeyType::Text(|c, v| ports(v, &mut c.client.reserved.ports)))
        .takes("`22,8000-8100`")
        .about("ports that tasks never get, on any address"),
    not_built("cores"),
];

static HOST_NETWORK: &[ConfigKey] = &[
    key("cidr", KeyType::Text(|c, v| cidrs(v, &mut last_network(c).cidr)))
        .takes("ranges with commas")
        .about("the network's addresses; none: all of the interface"),
    key("interface", KeyType::Text(|c, v| name(v, &mut last_network(c).interface, &['\0', '{'])))
        .takes("name")
        .about("the interface that has them; none: any"),
    key("reserved_ports", KeyType::Text(|c, v| ports(v, &mut last_network(c).reserved_ports)))
        .takes("`22,8000-8100`")
        .about("ports that tasks never get there"),
];

static HOST_VOLUME: &[ConfigKey] = &[
    key("path", KeyType::Text(|c, v| volume_path(v, &mut last_volume(c).path)))
        .or_words("required")
        .takes("absolute path")
        .about("what jobs mount by the volume's name"),
    key("read_only", KeyType::Switch(|c, v| last_volume(c).read_only = v)).about("nobody may write there"),
];

static SERVER_JOIN: &[ConfigKey] = &[
    key("start_join", KeyType::List(|c, v| c.client.join.add_start_join(v))).takes(ADDRESSES).about(SERVERS),
    key("retry_join", KeyType::List(|c, v| c.client.join.add_retry_join(v))).takes(ADDRESSES).about(SERVERS),
    key("retry_max", KeyType::Int(COUNT, |c, v| c.client.join.retry_max = u32_of(v)))
        .about("rounds without an answer after which a node gives up; 0: never"),
    key("retry_interval", KeyType::Duration(|c, v| c.client.join.retry_interval = v))
        .or("30s")
        .about("how long after one round the next begins"),
    key("join_token", KeyType::Text(|c, v| join_token(v, &mut c.client.join.token)))
        .secret()
        .takes("a token of `drover token create`")
        .about("lets a machine in that has no identity of its region yet"),
    key("join_token_file", KeyType::Text(|c, v| directory(v, &mut c.client.join.token_file)))
        .takes("absolute path")
        .about("a file with the token, where `join_token` says none"),
];
