//! Every key that is built reaches whoever obeys it: a brain, the look at the machine, the API, the log.

use super::keys::{EXAMPLE_TOKEN, REQUIRED, said_besides, schema, written};
use super::*;
use crate::listeners::{limits, response_headers};
use crate::{alloc_dir, event_buffer_entries, identity, startup};
use ::io::fingerprint::{self, Fingerprint};
use ::io::http::HttpLimits;
use model::id::{NodeId, NodeSecret};
use model::job::JobType;
use model::node::NodeInfo;
use model::resources::Amount;
use model::scheduling::Algorithm;
use std::collections::BTreeSet;
use std::path::Path;

/// All that an agent makes of its configuration and hands to others.
#[derive(Debug)]
struct HandedOn {
    server: server::Config,
    client: client::config::Config,
    client_store: PathBuf,
    machine: fingerprint::FingerprintConfig,
    node: NodeInfo,
    agent: api::agent::AgentInfo,
    limits: HttpLimits,
    response_headers: Vec<(String, String)>,
    event_buffer_entries: usize,
    listened_on: Vec<SocketAddr>,
    https: HttpsConfig,
    insecure_http: bool,
    data_dir: Option<PathBuf>,
    log: AgentLogConfig,
    /// For whoever dials: the servers of the region, of the server and of the client.
    join: ServerJoin,
    client_join: ServerJoin,
    key: Option<Secret>,
    servers_listened_on: Vec<IpAddr>,
}

fn handed_on(more: &str) -> HandedOn {
    let loaded = load(&sources(false, &[("base.hcl", BASE), ("more.hcl", more)], &[])).unwrap();
    let Loaded { config, settings, .. } = loaded;
    let data_dir = Path::new("/data");
    let node = (NodeId::from_random(1), NodeSecret::from_random(2));
    let found = Fingerprint {
        hostname: String::new(),
        attributes: BTreeMap::new(),
        capacity: Amount::ZERO,
        cpu_cores: 1,
        networks: Vec::new(),
        drivers: BTreeMap::new(),
        not_enforced: Vec::new(),
        offers: Default::default(),
    };
    // what is only shown is not obeyed
    let agent = api::agent::AgentInfo {
        config: Default::default(),
        ..identity::agent_info(&config, &settings, data_dir)
    };
    let mut client = startup::client_config(&config, node, Some(1), &alloc_dir(&config, data_dir));
    client.host_env.clear();
    HandedOn {
        server: startup::server_config(&config),
        client,
        client_store: startup::client_store(&config, data_dir),
        machine: identity::fingerprint_config(&config, &alloc_dir(&config, data_dir)),
        node: identity::node_info_from(&config, node, found),
        agent,
        limits: limits(&config),
        response_headers: response_headers(&config),
        event_buffer_entries: event_buffer_entries(&config),
        listened_on: config.http.addresses.iter().map(|ip| SocketAddr::new(*ip, config.http.port)).collect(),
        https: config.http.https,
        insecure_http: config.http.insecure,
        join: config.server.join,
        client_join: config.client.join,
        key: config.server.encrypt,
        servers_listened_on: config.rpc.addresses,
        data_dir: config.data_dir,
        log: config.log,
    }
}

type Arrived = (&'static str, &'static str, fn(&HandedOn) -> bool);

static ARRIVED: &[Arrived] = &[
    ("datacenter", "\"d\"", |h| h.node.datacenter == "d" && h.agent.datacenter == "d"),
    ("name", "\"n\"", |h| h.node.name == "n" && h.agent.name == "n"),
    ("bind_addr", "\"10.0.0.1\"", |h| {
        h.agent.bind_addr == "10.0.0.1" && h.servers_listened_on == [IpAddr::from([10, 0, 0, 1])]
    }),
    ("insecure_http", "true", |h| h.insecure_http),
    ("tls.http", "true", |h| {
        h.https.enabled && h.agent.https && h.node.http() == (h.agent.http_addr.as_str(), true)
    }),
    ("tls.ca_file", "\"/x\"", |h| h.https.ca_file.as_deref() == Some(Path::new("/x"))),
    ("tls.cert_file", "\"/x\"", |h| h.https.cert_file.as_deref() == Some(Path::new("/x"))),
    ("tls.key_file", "\"/x\"", |h| h.https.key_file.as_deref() == Some(Path::new("/x"))),
    ("tls.verify_https_client", "true", |h| h.https.verify_client),
    ("tls.tls_min_version", "\"tls13\"", |h| h.https.min_version == "tls13"),
    ("tls.tls_cipher_suites", "\"TLS_AES_128_GCM_SHA256\"", |h| h.https.cipher_suites.len() == 1),
    ("tls.tls_prefer_server_cipher_suites", "true", |h| h.https.prefer_own_order),
    ("limits.https_handshake_timeout", "\"9s\"", |h| h.https.handshake_timeout == Span::seconds(9)),
    ("enable_debug", "true", |h| h.agent.enable_debug),
    ("addresses.http", "\"::1\"", |h| h.listened_on.iter().all(SocketAddr::is_ipv6)),
    ("advertise.http", "\"::1\"", |h| h.agent.http_addr == "[::1]:4646" && h.node.http_addr == "[::1]:4646"),
    ("telemetry.prometheus_metrics", "true", |h| h.agent.telemetry.prometheus),
    ("telemetry.publish_node_metrics", "true", |h| h.agent.telemetry.publish_node),
    ("telemetry.publish_allocation_metrics", "true", |h| h.agent.telemetry.publish_allocations),
    ("telemetry.disable_dispatched_job_summary_metrics", "true", |h| h.agent.telemetry.hide_dispatched),
    ("telemetry.disable_hostname", "true", |h| h.agent.telemetry.host.is_none()),
    ("telemetry.use_node_name", "true", |h| h.agent.telemetry.host.as_deref() == Some("n")),
    ("telemetry.filter_default", "false", |h| !h.agent.telemetry.filter.default),
    ("telemetry.prefix_filter", "[\"+a.b\", \"-a\"]", |h| {
        h.agent.telemetry.filter.prefixes == [("a.b".to_string(), true), ("a".to_string(), false)].into()
    }),
    ("plugin.raw_exec.config.enabled", "true", |h| h.machine.raw_exec),
    ("server.num_schedulers", "9", |h| h.server.workers == 9),
    ("server.enabled_schedulers", "[\"batch\", \"_core\"]", |h| {
        h.server.enabled_schedulers == [JobType::Batch]
    }),
    ("server.heartbeat_grace", "\"9s\"", |h| h.server.heartbeats.grace == Span::seconds(9)),
    ("server.min_heartbeat_ttl", "\"9s\"", |h| h.server.heartbeats.min_ttl == Span::seconds(9)),
    ("server.max_heartbeats_per_second", "9", |h| h.server.heartbeats.max_per_second == 9.0),
    ("server.failover_heartbeat_ttl", "\"9s\"", |h| h.server.heartbeats.failover_ttl == Span::seconds(9)),
    ("server.job_tracked_versions", "9", |h| h.server.tracked_versions == 9),
    ("server.job_gc_interval", "\"7m\"", |h| h.server.garbage.interval == Span::minutes(7)),
    ("server.job_gc_threshold", "\"7m\"", |h| h.server.garbage.jobs == Span::minutes(7)),
    ("server.eval_gc_threshold", "\"7m\"", |h| h.server.garbage.evals == Span::minutes(7)),
    ("server.batch_eval_gc_threshold", "\"7m\"", |h| h.server.garbage.batch_evals == Span::minutes(7)),
    ("server.deployment_gc_threshold", "\"7m\"", |h| h.server.garbage.deployments == Span::minutes(7)),
    ("server.node_gc_threshold", "\"7m\"", |h| h.server.garbage.nodes == Span::minutes(7)),
    ("server.default_scheduler_config.scheduler_algorithm", "\"spread\"", |h| {
        h.server.scheduler.algorithm == Algorithm::Spread
    }),
    ("server.default_scheduler_config.memory_oversubscription_enabled", "true", |h| {
        h.server.scheduler.memory_oversubscription
    }),
    ("server.default_scheduler_config.reject_job_registration", "true", |h| {
        h.server.scheduler.reject_job_registration
    }),
    ("server.default_scheduler_config.pause_eval_broker", "true", |h| h.server.scheduler.pause_eval_broker),
    ("server.default_scheduler_config.preemption_config.system_scheduler_enabled", "false", |h| {
        !h.server.scheduler.preemption.system
    }),
    ("server.default_scheduler_config.preemption_config.sysbatch_scheduler_enabled", "true", |h| {
        h.server.scheduler.preemption.sysbatch
    }),
    ("server.default_scheduler_config.preemption_config.service_scheduler_enabled", "true", |h| {
        h.server.scheduler.preemption.service
    }),
    ("server.default_scheduler_config.preemption_config.batch_scheduler_enabled", "true", |h| {
        h.server.scheduler.preemption.batch
    }),
    ("server.job_default_priority", "60", |h| h.agent.job_default_priority == 60),
    ("server.job_max_priority", "900", |h| h.agent.job_max_priority == 900),
    ("server.job_max_source_size", "\"9k\"", |h| h.agent.job_max_source_bytes == 9000),
    ("server.enable_event_broker", "false", |h| h.event_buffer_entries == 0 && h.agent.no_events),
    ("server.event_buffer_size", "9", |h| h.event_buffer_entries == 9),
    ("server.search.fuzzy_enabled", "false", |h| !h.agent.search.fuzzy_enabled),
    ("server.search.limit_query", "9", |h| h.agent.search.limit_query == 9),
    ("server.search.limit_results", "9", |h| h.agent.search.limit_results == 9),
    ("server.search.min_term_length", "9", |h| h.agent.search.min_term_length == 9),
    ("region", "\"r\"", |h| h.client.region == "r" && h.agent.region == "r"),
    ("client.node_class", "\"k\"", |h| h.node.class == "k"),
    ("client.node_pool", "\"p\"", |h| h.node.pool == "p"),
    ("client.meta", "{ A = \"b\" }", |h| h.node.meta.get("A").is_some_and(|value| value == "b")),
    ("client.network_interface", "\"eth9\"", |h| h.machine.network_interface.as_deref() == Some("eth9")),
    ("client.memory_total_mb", "9", |h| h.machine.memory_total_mb == Some(9)),
    ("client.disk_total_mb", "9", |h| h.machine.disk_total_mb == Some(9)),
    ("client.disk_free_mb", "9", |h| h.machine.disk_free_mb == Some(9)),
    ("client.max_kill_timeout", "\"9s\"", |h| h.client.max_kill_timeout == Span::seconds(9)),
    ("client.gc_max_allocs", "9", |h| h.client.max_ended == 9),
    ("client.disable_remote_exec", "true", |h| !h.client.remote_exec),
    ("client.options", "{ \"env.denylist\" = \"A, B\" }", |h| h.client.env_denylist == ["A", "B"]),
    ("client.state_dir", "\"/x\"", |h| h.client_store == Path::new("/x/log.0")),
    ("client.alloc_dir", "\"/x\"", |h| h.client.alloc_dir == "/x" && h.machine.alloc_dir == Path::new("/x")),
    ("client.node_max_allocs", "9", |h| h.node.max_allocs == 9),
    ("client.reserved.cpu", "9", |h| h.node.reserved.cpu_mhz == 9),
    ("client.reserved.memory", "9", |h| h.node.reserved.memory_mb == 9),
    ("client.reserved.disk", "9", |h| h.node.reserved.disk_mb == 9),
    ("client.cpu_total_compute", "9", |h| h.machine.cpu_total_compute_mhz == Some(9)),
    ("client.min_dynamic_port", "9", |h| h.machine.offers.dynamic_ports.min == 9),
    ("client.max_dynamic_port", "32001", |h| h.machine.offers.dynamic_ports.max == 32_001),
    ("client.reserved.reserved_ports", "\"22,80-90\"", |h| h.machine.offers.reserved_ports == "22,80-90"),
    ("client.host_network.lan.cidr", "\"10.0.0.0/8\"", |h| {
        h.machine.host_networks.iter().any(|n| n.name == "lan" && n.cidrs == [([10, 0, 0, 0].into(), 8)])
    }),
    ("client.host_network.lan.interface", "\"eth1\"", |h| {
        h.machine.host_networks.iter().any(|n| n.name == "lan" && n.interface == "eth1")
    }),
    ("client.host_network.lan.reserved_ports", "\"22\"", |h| {
        h.machine.host_networks.iter().any(|n| n.name == "lan" && n.reserved_ports == "22")
    }),
    ("client.host_volume.data.path", "\"/x\"", |h| {
        h.machine.offers.volumes.get("data").is_some_and(|v| v.path == "/x" && !v.read_only)
    }),
    ("client.host_volume.data.read_only", "true\npath = \"/x\"", |h| {
        h.machine.offers.volumes.get("data").is_some_and(|v| v.path == "/x" && v.read_only)
    }),
    ("limits.http_max_conns_per_client", "9", |h| h.limits.per_address == 9),
    ("http_api_response_headers", "{ A = \"b\" }", |h| h.response_headers == [("A".into(), "b".into())]),
    ("ports.http", "9", |h| h.listened_on.iter().all(|address| address.port() == 9)),
    ("ports.rpc", "9", |h| h.agent.rpc_addr.ends_with(":9")),
    ("advertise.rpc", "\"10.0.0.1:9\"", |h| h.agent.rpc_addr == "10.0.0.1:9"),
    ("addresses.rpc", "\"10.0.0.9\"", |h| {
        h.servers_listened_on == [IpAddr::from([10, 0, 0, 9])] && h.agent.rpc_addr == "10.0.0.9:4647"
    }),
    ("server.encrypt", "\"cg8StVXbQJ0gPvMd9o7yrg==\"", |h| {
        h.key.as_ref().is_some_and(|key| key.bytes().len() == 16)
    }),
    ("server.start_join", "[\"a\"]", |h| h.server.knows_others && h.join.start_join.len() == 1),
    ("server.retry_join", "[\"a\"]", |h| h.server.knows_others && h.join.retry_join.len() == 1),
    ("server.server_join.start_join", "[\"a\"]", |h| h.server.knows_others && h.join.start_join.len() == 1),
    ("server.server_join.retry_join", "[\"a\"]", |h| h.server.knows_others && h.join.retry_join.len() == 1),
    ("server.retry_max", "9", |h| h.join.retry_max == 9),
    ("server.retry_interval", "\"9s\"", |h| h.join.retry_interval == Span::seconds(9)),
    ("server.server_join.retry_max", "9", |h| h.join.retry_max == 9),
    ("server.server_join.retry_interval", "\"9s\"", |h| h.join.retry_interval == Span::seconds(9)),
    ("client.servers", "[\"a\"]", |h| h.client_join.retry_join.len() == 1),
    ("client.server_join.start_join", "[\"a\"]", |h| h.client_join.start_join.len() == 1),
    ("client.server_join.retry_join", "[\"a\"]", |h| h.client_join.retry_join.len() == 1),
    ("client.server_join.retry_max", "9", |h| h.client_join.retry_max == 9),
    ("client.server_join.retry_interval", "\"9s\"", |h| h.client_join.retry_interval == Span::seconds(9)),
    ("data_dir", "\"/x\"", |h| h.data_dir.as_deref() == Some(Path::new("/x"))),
    ("log_level", "\"TRACE\"", |h| h.log.level == LogLevel::Trace),
    ("log_json", "true", |h| h.log.json),
    ("log_include_location", "true", |h| h.log.include_location),
    ("log_file", "\"/l/\"", |h| h.log.file.as_deref() == Some(Path::new("/l/drover.log"))),
    ("log_rotate_bytes", "9", |h| h.log.rotate_bytes == 9),
    ("log_rotate_duration", "\"9s\"", |h| h.log.rotate_duration == Span::seconds(9)),
    ("log_rotate_max_files", "-1", |h| h.log.rotate_max_files == Some(0)),
    ("server.server_join.join_token", EXAMPLE_TOKEN, |h| h.join.token.is_some()),
    ("server.server_join.join_token_file", "\"/x\"", |h| {
        h.join.token_file.as_deref() == Some(Path::new("/x"))
    }),
    ("client.server_join.join_token", EXAMPLE_TOKEN, |h| h.client_join.token.is_some()),
    ("client.server_join.join_token_file", "\"/x\"", |h| {
        h.client_join.token_file.as_deref() == Some(Path::new("/x"))
    }),
];

#[test]
fn every_key_that_is_built_arrives_in_its_own_place() {
    for (name, value, arrived) in ARRIVED {
        let besides = said_besides(name);
        assert!(!arrived(&handed_on(besides)), "{name} says its default");
        let text = format!("{besides}{}", written(name, value));
        assert!(arrived(&handed_on(&text)), "{name} does not arrive");
    }
    let tried = ARRIVED.iter().map(|(name, ..)| *name).chain(REQUIRED);
    assert_eq!(tried.map(str::to_string).collect::<BTreeSet<_>>(), schema().built);
}
