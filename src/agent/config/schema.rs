//! Every key that a configuration may name: its kind, where its value goes, and whether drover has built what it asks for.
//!
//! Refuses to know: syntax and positions. To build a feature, its entry changes from `NotYet` to a setter.

use super::Config;
use super::offers::{
    cidrs, host_network, host_volume, last_network, last_volume, ports, u16_of, volume_path,
};
use super::values::{
    address, advertise, algorithm, directory, header, http_addresses, i64_of, interface, log_file, log_level,
    log_rotate_max_files, meta, name, option, prefix_filter, size, u32_of,
};
use model::node::MAX_ALLOCS;
use model::time::Span;

/// One key and what it means.
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
}

/// What a key holds. A setter's `Err` is a sentence on why the value is refused.
pub enum Kind {
    Text(fn(&mut Config, &str) -> Result<(), String>),
    /// Upstream's rule: a later file can only switch it on.
    Bool(fn(&mut Config)),
    /// Both ways, whatever was said before.
    Switch(fn(&mut Config, bool)),
    /// A whole number in this range; a zero outside it means "the default" and is passed over.
    Int(std::ops::RangeInclusive<u64>, fn(&mut Config, u64)),
    Float(fn(&mut Config, f64)),
    Duration(fn(&mut Config, Span)),
    /// Entries are added; an entry said again is replaced.
    Map(fn(&mut Config, &str, &str) -> Result<(), String>),
    /// Texts; each is added to what was said before.
    List(fn(&mut Config, &str) -> Result<(), String>),
    Block(&'static [Key]),
    /// A block with one label, of which only these are built.
    Labelled(&'static str, &'static [Key]),
    /// A block with one label of the user's own, which the first function takes note of; its keys' setters find it there.
    Named(fn(&mut Config, &str) -> Result<(), String>, &'static [Key]),
    /// Known, not built: refused, unless the value asks for nothing (empty, zero, false) or is one of these.
    NotYet(&'static [&'static str]),
    /// A whole block that is known and not built: as `NotYet` for each of its values.
    NotYetBlock,
    /// Accepted, and the user is told that it has no effect.
    Absent,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind }
}

const fn not_yet(name: &'static str) -> Key {
    key(name, Kind::NotYet(&[]))
}

const PORT: std::ops::RangeInclusive<u64> = 1..=65_535;
const COUNT: std::ops::RangeInclusive<u64> = 1..=u32::MAX as u64;
const COUNT_OR_ZERO: std::ops::RangeInclusive<u64> = 0..=u32::MAX as u64;
/// A job's row names each of them, and is written whenever the job moves.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=100;
/// Directories on a node: each is watched over until it goes.
const HELD: std::ops::RangeInclusive<u64> = 0..=MAX_ALLOCS as u64;
const KEPT: std::ops::RangeInclusive<u64> = 1..=10_000;
/// Of a search: what one request may make a server look at or send.
const FOUND: std::ops::RangeInclusive<u64> = 1..=10_000;
const AMOUNT: std::ops::RangeInclusive<u64> = 1..=i64::MAX as u64;

pub static TOP: &[Key] = &[
    key("region", Kind::Text(|c, v| name(v, &mut c.region, &['\0']))),
    key("datacenter", Kind::Text(|c, v| name(v, &mut c.datacenter, &['\0', '*']))),
    key("name", Kind::Text(|c, v| name(v, &mut c.name, &['\0']))),
    key("data_dir", Kind::Text(|c, v| directory(v, &mut c.data_dir))),
    key("bind_addr", Kind::Text(|c, v| address(v).map(|ip| c.bind_addr = ip))),
    key("log_level", Kind::Text(log_level)),
    key("log_json", Kind::Bool(|c| c.log.json = true)),
    key("http_api_response_headers", Kind::Map(header)),
    not_yet("leave_on_interrupt"),
    not_yet("leave_on_terminate"),
    // nobody is called home
    key("disable_update_check", Kind::Bool(|_| {})),
    key("disable_anonymous_signature", Kind::Bool(|_| {})),
    key("ports", Kind::Block(PORTS)),
    key("addresses", Kind::Block(ADDRESSES)),
    key("advertise", Kind::Block(ADVERTISE)),
    key("server", Kind::Block(SERVER)),
    key("client", Kind::Block(CLIENT)),
    key("plugin", Kind::Labelled("raw_exec", PLUGIN)),
    key("limits", Kind::Block(LIMITS)),
    key("acl", Kind::NotYetBlock),
    key("tls", Kind::NotYetBlock),
    key("telemetry", Kind::Block(TELEMETRY)),
    key("autopilot", Kind::NotYetBlock),
    key("ui", Kind::NotYetBlock),
    key("rpc", Kind::NotYetBlock),
    key("keyring", Kind::NotYetBlock),
    key("reporting", Kind::NotYetBlock),
    key("eventlog", Kind::NotYetBlock),
    key("consul", Kind::Absent),
    key("vault", Kind::Absent),
    key("sentinel", Kind::Absent),
    key("audit", Kind::Absent),
    not_yet("plugin_dir"),
    key("log_include_location", Kind::Bool(|c| c.log.include_location = true)),
    key("log_file", Kind::Text(log_file)),
    key("log_rotate_bytes", Kind::Int(AMOUNT, |c, v| c.log.rotate_bytes = v)),
    key("log_rotate_duration", Kind::Duration(|c, v| c.log.rotate_duration = v)),
    key("log_rotate_max_files", Kind::Text(log_rotate_max_files)),
    key("enable_debug", Kind::Bool(|c| c.enable_debug = true)),
    not_yet("enable_syslog"),
    key("syslog_facility", Kind::NotYet(&["LOCAL0"])),
];

static PORTS: &[Key] = &[
    key("http", Kind::Int(PORT, |c, v| c.http.port = u16::try_from(v).unwrap_or(c.http.port))),
    key("rpc", Kind::NotYet(&["4647"])),
    key("serf", Kind::NotYet(&["4648"])),
];

static ADDRESSES: &[Key] = &[key("http", Kind::Text(http_addresses)), not_yet("rpc"), not_yet("serf")];

static ADVERTISE: &[Key] = &[key("http", Kind::Text(advertise)), not_yet("rpc"), not_yet("serf")];

static LIMITS: &[Key] = &[
    key(
        "http_max_conns_per_client",
        Kind::Int(COUNT_OR_ZERO, |c, v| c.http.max_conns_per_client = u32_of(v)),
    ),
    key("https_handshake_timeout", Kind::NotYet(&["5s"])),
    key("rpc_handshake_timeout", Kind::NotYet(&["5s"])),
    key("rpc_max_conns_per_client", Kind::NotYet(&["100"])),
];

static TELEMETRY: &[Key] = &[
    key("prometheus_metrics", Kind::Bool(|c| c.telemetry.prometheus = true)),
    key("publish_node_metrics", Kind::Bool(|c| c.telemetry.publish_node = true)),
    key("publish_allocation_metrics", Kind::Bool(|c| c.telemetry.publish_allocations = true)),
    key("disable_dispatched_job_summary_metrics", Kind::Bool(|c| c.telemetry.hide_dispatched = true)),
    key("disable_hostname", Kind::Bool(|c| c.telemetry.disable_hostname = true)),
    key("use_node_name", Kind::Bool(|c| c.telemetry.use_node_name = true)),
    // gauges are read when they are asked for
    key("collection_interval", Kind::Duration(|_, _| {})),
    key("in_memory_collection_interval", Kind::NotYet(&["10s"])),
    key("in_memory_retention_period", Kind::NotYet(&["1m"])),
    // there are no such metrics
    key("disable_allocation_hook_metrics", Kind::Bool(|_| {})),
    key("disable_quota_utilization_metrics", Kind::Bool(|_| {})),
    key("disable_rpc_rate_metrics_labels", Kind::Bool(|_| {})),
    key("filter_default", Kind::Switch(|c, v| c.telemetry.filter_default = v)),
    key("prefix_filter", Kind::List(prefix_filter)),
    not_yet("include_alloc_metadata_in_metrics"),
    not_yet("allowed_metadata_keys_in_metrics"),
    not_yet("statsite_address"),
    not_yet("statsd_address"),
    not_yet("datadog_address"),
    not_yet("datadog_tags"),
    not_yet("circonus_api_token"),
    not_yet("circonus_api_app"),
    not_yet("circonus_api_url"),
    not_yet("circonus_submission_interval"),
    not_yet("circonus_submission_url"),
    not_yet("circonus_check_id"),
    not_yet("circonus_check_force_metric_activation"),
    not_yet("circonus_check_instance_id"),
    not_yet("circonus_check_search_tag"),
    not_yet("circonus_check_tags"),
    not_yet("circonus_check_display_name"),
    not_yet("circonus_broker_id"),
    not_yet("circonus_broker_select_tag"),
];

static PLUGIN: &[Key] = &[
    key("config", Kind::Block(&[key("enabled", Kind::Switch(|c, v| c.client.raw_exec_enabled = v))])),
    not_yet("args"),
];

static SERVER: &[Key] = &[
    key("enabled", Kind::Bool(|c| c.server.enabled = true)),
    key("bootstrap_expect", Kind::Int(COUNT, |c, v| c.server.bootstrap_expect = u32_of(v))),
    key("num_schedulers", Kind::Int(0..=1024, |c, v| c.server.num_schedulers = u32_of(v))),
    key("heartbeat_grace", Kind::Duration(|c, v| c.server.heartbeat_grace = v)),
    key("min_heartbeat_ttl", Kind::Duration(|c, v| c.server.min_heartbeat_ttl = v)),
    key("max_heartbeats_per_second", Kind::Float(|c, v| c.server.max_heartbeats_per_second = v)),
    key("failover_heartbeat_ttl", Kind::Duration(|c, v| c.server.failover_heartbeat_ttl = v)),
    key("job_tracked_versions", Kind::Int(VERSIONS, |c, v| c.server.job_tracked_versions = u32_of(v))),
    key("job_default_priority", Kind::Int(AMOUNT, |c, v| c.server.job_default_priority = i64_of(v))),
    key("job_max_priority", Kind::Int(AMOUNT, |c, v| c.server.job_max_priority = i64_of(v))),
    key("job_max_source_size", Kind::Text(|c, v| size(v).map(|n| c.server.job_max_source_bytes = n))),
    // there is one protocol, and no license
    key("raft_protocol", Kind::Int(COUNT_OR_ZERO, |_, _| {})),
    key("protocol_version", Kind::Int(COUNT_OR_ZERO, |_, _| {})),
    key("license_path", Kind::Text(|_, _| Ok(()))),
    not_yet("authoritative_region"),
    not_yet("data_dir"),
    key("raft_multiplier", Kind::NotYet(&["1"])),
    not_yet("raft_snapshot_threshold"),
    not_yet("raft_snapshot_interval"),
    not_yet("raft_trailing_logs"),
    key("raft_boltdb", Kind::NotYetBlock),
    key("raft_logstore", Kind::NotYetBlock),
    not_yet("enabled_schedulers"),
    key("node_gc_threshold", Kind::Duration(|c, v| c.server.garbage.nodes = v)),
    key("job_gc_interval", Kind::Duration(|c, v| c.server.garbage.interval = v)),
    key("job_gc_threshold", Kind::Duration(|c, v| c.server.garbage.jobs = v)),
    key("eval_gc_threshold", Kind::Duration(|c, v| c.server.garbage.evals = v)),
    key("batch_eval_gc_threshold", Kind::Duration(|c, v| c.server.garbage.batch_evals = v)),
    key("deployment_gc_threshold", Kind::Duration(|c, v| c.server.garbage.deployments = v)),
    not_yet("csi_volume_claim_gc_interval"),
    not_yet("csi_volume_claim_gc_threshold"),
    not_yet("csi_plugin_gc_threshold"),
    not_yet("acl_token_gc_threshold"),
    not_yet("root_key_gc_interval"),
    not_yet("root_key_gc_threshold"),
    not_yet("root_key_rotation_threshold"),
    not_yet("start_join"),
    not_yet("retry_join"),
    not_yet("retry_max"),
    key("retry_interval", Kind::NotYet(&["30s"])),
    key("server_join", Kind::NotYetBlock),
    not_yet("rejoin_after_leave"),
    not_yet("encrypt"),
    key("default_scheduler_config", Kind::Block(SCHEDULER)),
    key("plan_rejection_tracker", Kind::NotYetBlock),
    key("search", Kind::Block(SEARCH)),
    key("enable_event_broker", Kind::Switch(|c, v| c.server.event_broker = v)),
    key("event_buffer_size", Kind::Int(1..=10_000, |c, v| c.server.event_buffer_entries = u32_of(v))),
    not_yet("deploy_query_rate_limit"),
    not_yet("non_voting_server"),
    not_yet("redundancy_zone"),
    not_yet("upgrade_version"),
    not_yet("job_max_count"),
    not_yet("plan_apply_pipeline"),
    not_yet("oidc_issuer"),
    not_yet("start_timeout"),
    key("client_introduction", Kind::NotYetBlock),
    not_yet("log_file"),
    not_yet("non_production"),
];

static SCHEDULER: &[Key] = &[
    key(
        "scheduler_algorithm",
        Kind::Text(|c, v| algorithm(v, &mut c.server.default_scheduler_config.algorithm)),
    ),
    key(
        "memory_oversubscription_enabled",
        Kind::Switch(|c, v| c.server.default_scheduler_config.memory_oversubscription = v),
    ),
    key(
        "reject_job_registration",
        Kind::Switch(|c, v| c.server.default_scheduler_config.reject_job_registration = v),
    ),
    key("pause_eval_broker", Kind::Switch(|c, v| c.server.default_scheduler_config.pause_eval_broker = v)),
    key("preemption_config", Kind::Block(PREEMPTION)),
    key("node_limit_for_feasibility_checks", Kind::NotYet(&["100"])),
];

static PREEMPTION: &[Key] = &[
    key(
        "system_scheduler_enabled",
        Kind::Switch(|c, v| c.server.default_scheduler_config.preemption.system = v),
    ),
    key(
        "sysbatch_scheduler_enabled",
        Kind::Switch(|c, v| c.server.default_scheduler_config.preemption.sysbatch = v),
    ),
    key(
        "batch_scheduler_enabled",
        Kind::Switch(|c, v| c.server.default_scheduler_config.preemption.batch = v),
    ),
    key(
        "service_scheduler_enabled",
        Kind::Switch(|c, v| c.server.default_scheduler_config.preemption.service = v),
    ),
];

static SEARCH: &[Key] = &[
    key("fuzzy_enabled", Kind::Switch(|c, v| c.server.search.fuzzy_enabled = v)),
    key("limit_query", Kind::Int(FOUND, |c, v| c.server.search.limit_query = u32_of(v))),
    key("limit_results", Kind::Int(FOUND, |c, v| c.server.search.limit_results = u32_of(v))),
    key("min_term_length", Kind::Int(COUNT, |c, v| c.server.search.min_term_length = u32_of(v))),
];

static CLIENT: &[Key] = &[
    key("enabled", Kind::Bool(|c| c.client.enabled = true)),
    key("node_class", Kind::Text(|c, v| name(v, &mut c.client.node_class, &['\0']))),
    key("node_pool", Kind::Text(|c, v| name(v, &mut c.client.node_pool, &['\0']))),
    key("meta", Kind::Map(meta)),
    key("options", Kind::Map(option)),
    key("network_interface", Kind::Text(interface)),
    key("cpu_total_compute", Kind::Int(AMOUNT, |c, v| c.client.cpu_total_compute_mhz = v)),
    key("memory_total_mb", Kind::Int(AMOUNT, |c, v| c.client.memory_total_mb = v)),
    key("disk_total_mb", Kind::Int(AMOUNT, |c, v| c.client.disk_total_mb = v)),
    key("disk_free_mb", Kind::Int(AMOUNT, |c, v| c.client.disk_free_mb = v)),
    key("reserved", Kind::Block(RESERVED)),
    key("max_kill_timeout", Kind::Duration(|c, v| c.client.max_kill_timeout = v)),
    key("state_dir", Kind::Text(|c, v| directory(v, &mut c.client.state_dir))),
    key("alloc_dir", Kind::Text(|c, v| directory(v, &mut c.client.alloc_dir))),
    key("gc_max_allocs", Kind::Int(KEPT, |c, v| c.client.gc_max_allocs = u32_of(v))),
    key("node_max_allocs", Kind::Int(HELD, |c, v| c.client.node_max_allocs = u16_of(v))),
    key("no_host_uuid", Kind::NotYet(&["true"])),
    // drivers are no processes of their own
    key("client_min_port", Kind::Int(PORT, |_, _| {})),
    key("client_max_port", Kind::Int(PORT, |_, _| {})),
    not_yet("servers"),
    key("server_join", Kind::NotYetBlock),
    key("chroot_env", Kind::NotYetBlock),
    not_yet("network_speed"),
    not_yet("reservable_cores"),
    key("min_dynamic_port", Kind::Int(PORT, |c, v| c.client.dynamic_ports.min = u16_of(v))),
    key("max_dynamic_port", Kind::Int(PORT, |c, v| c.client.dynamic_ports.max = u16_of(v))),
    not_yet("gc_interval"),
    not_yet("gc_parallel_destroys"),
    not_yet("gc_disk_usage_threshold"),
    not_yet("gc_inode_usage_threshold"),
    not_yet("gc_volumes_on_node_gc"),
    key("disable_remote_exec", Kind::Bool(|c| c.client.remote_exec = false)),
    not_yet("cni_path"),
    not_yet("cni_config_dir"),
    not_yet("bridge_network_name"),
    not_yet("bridge_network_subnet"),
    not_yet("bridge_network_subnet_ipv6"),
    not_yet("bridge_network_hairpin_mode"),
    not_yet("bind_wildcard_default_host_network"),
    key("host_volume", Kind::Named(host_volume, HOST_VOLUME)),
    key("host_network", Kind::Named(host_network, HOST_NETWORK)),
    not_yet("cgroup_parent"),
    not_yet("nomad_service_discovery"),
    key("template", Kind::NotYetBlock),
    key("artifact", Kind::NotYetBlock),
    key("drain_on_shutdown", Kind::NotYetBlock),
    not_yet("alloc_mounts_dir"),
    not_yet("host_volumes_dir"),
    not_yet("host_volume_plugin_dir"),
    not_yet("common_plugin_dir"),
    not_yet("preferred_address_family"),
    not_yet("log_file"),
    not_yet("default_ineligible"),
    key("users", Kind::NotYetBlock),
    key("fingerprint", Kind::NotYetBlock),
    not_yet("cpu_disable_dmidecode"),
];

static RESERVED: &[Key] = &[
    key("cpu", Kind::Int(AMOUNT, |c, v| c.client.reserved.cpu_mhz = v)),
    key("memory", Kind::Int(AMOUNT, |c, v| c.client.reserved.memory_mb = v)),
    key("disk", Kind::Int(AMOUNT, |c, v| c.client.reserved.disk_mb = v)),
    not_yet("cores"),
    key("reserved_ports", Kind::Text(|c, v| ports(v, &mut c.client.reserved.ports))),
];

static HOST_NETWORK: &[Key] = &[
    key("cidr", Kind::Text(|c, v| cidrs(v, &mut last_network(c).cidr))),
    key("interface", Kind::Text(|c, v| name(v, &mut last_network(c).interface, &['\0', '{']))),
    key("reserved_ports", Kind::Text(|c, v| ports(v, &mut last_network(c).reserved_ports))),
];

static HOST_VOLUME: &[Key] = &[
    key("path", Kind::Text(|c, v| volume_path(v, &mut last_volume(c).path))),
    key("read_only", Kind::Switch(|c, v| last_volume(c).read_only = v)),
];
