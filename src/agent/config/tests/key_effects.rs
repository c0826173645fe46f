//! Every key that is built reaches whoever obeys it: a brain, the look at the machine, the API, the log.

use super::keys::{OBEYED, schema, written};
use super::*;
use crate::{alloc_dir, event_buffer_entries, identity, limits, response_headers, startup};
use ::io::fingerprint::{self, Fingerprint};
use ::io::http::Limits;
use model::id::{NodeId, NodeSecret};
use model::node::NodeInfo;
use model::resources::Amount;
use std::path::Path;

/// All that an agent makes of its configuration and hands to others.
#[derive(Debug)]
struct HandedOn {
    server: server::Config,
    client: client::config::Config,
    client_store: PathBuf,
    machine: fingerprint::Config,
    node: NodeInfo,
    agent: api::agent::AgentInfo,
    limits: Limits,
    response_headers: Vec<(String, String)>,
    event_buffer_entries: usize,
    listened_on: Vec<SocketAddr>,
    data_dir: Option<PathBuf>,
    log: LogConfig,
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
    let mut client = startup::client_config(&config, node, &alloc_dir(&config, data_dir));
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
        data_dir: config.data_dir,
        log: config.log,
    }
}

/// Only `check` looks at them: a server of another machine is refused.
const CHECKED: &str = "_join";

#[test]
fn every_key_that_is_built_is_handed_on() {
    let before = format!("{:?}", handed_on(""));
    for (name, value, _) in OBEYED {
        if name.ends_with(CHECKED) || *name == "client.servers" {
            continue;
        }
        // without them there is no label to be named otherwise, and no path
        let more = match *name {
            "telemetry.use_node_name" => "name = \"n\"\n",
            "client.host_volume.data.read_only" => "client { host_volume \"data\" { path = \"/x\" } }\n",
            _ => "",
        };
        let base = if more.is_empty() { before.clone() } else { format!("{:?}", handed_on(more)) };
        let after = format!("{:?}", handed_on(&format!("{more}{}", written(name, value))));
        assert_ne!(base, after, "{name} reaches nobody");
    }
}

type Arrived = (&'static str, &'static str, fn(&HandedOn) -> bool);

static ARRIVED: &[Arrived] = &[
    ("server.num_schedulers", "9", |h| h.server.workers == 9),
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
    ("server.default_scheduler_config.pause_eval_broker", "true", |h| h.server.scheduler.pause_eval_broker),
    ("server.default_scheduler_config.preemption_config.batch_scheduler_enabled", "true", |h| {
        h.server.scheduler.preemption.batch
    }),
    ("server.job_default_priority", "60", |h| h.agent.job_default_priority == 60),
    ("server.job_max_priority", "900", |h| h.agent.job_max_priority == 900),
    ("server.job_max_source_size", "\"9k\"", |h| h.agent.job_max_source_bytes == 9000),
    ("server.enable_event_broker", "false", |h| h.event_buffer_entries == 0 && h.agent.no_events),
    ("server.event_buffer_size", "9", |h| h.event_buffer_entries == 9),
    ("server.search.limit_query", "9", |h| h.agent.search.limit_query == 9),
    ("region", "\"r\"", |h| h.client.region == "r" && h.agent.region == "r"),
    ("client.max_kill_timeout", "\"9s\"", |h| h.client.max_kill_timeout == Span::seconds(9)),
    ("client.gc_max_allocs", "9", |h| h.client.max_ended == 9),
    ("client.disable_remote_exec", "true", |h| !h.client.remote_exec),
    ("client.options", "{ \"env.denylist\" = \"A, B\" }", |h| h.client.env_denylist == ["A", "B"]),
    ("client.state_dir", "\"/x\"", |h| h.client_store == Path::new("/x/state.redb")),
    ("client.alloc_dir", "\"/x\"", |h| h.client.alloc_dir == "/x" && h.machine.alloc_dir == Path::new("/x")),
    ("client.node_max_allocs", "9", |h| h.node.max_allocs == 9),
    ("client.reserved.cpu", "9", |h| h.node.reserved.cpu_mhz == 9),
    ("client.reserved.memory", "9", |h| h.node.reserved.memory_mb == 9),
    ("client.reserved.disk", "9", |h| h.node.reserved.disk_mb == 9),
    ("client.cpu_total_compute", "9", |h| h.machine.cpu_total_compute_mhz == Some(9)),
    ("client.min_dynamic_port", "9", |h| h.machine.offers.dynamic_ports.min == 9),
    ("limits.http_max_conns_per_client", "9", |h| h.limits.per_address == 9),
    ("http_api_response_headers", "{ A = \"b\" }", |h| h.response_headers == [("A".into(), "b".into())]),
    ("ports.http", "9", |h| h.listened_on.iter().all(|address| address.port() == 9)),
    ("data_dir", "\"/x\"", |h| h.data_dir.as_deref() == Some(Path::new("/x"))),
    ("log_level", "\"TRACE\"", |h| h.log.level == LogLevel::Trace),
];

#[test]
fn what_is_handed_on_arrives_in_its_own_place() {
    let (before, built) = (handed_on(""), schema().built);
    for (name, value, arrived) in ARRIVED {
        assert!(built.contains(*name), "{name} is a key");
        assert!(!arrived(&before), "{name} says its default");
        assert!(arrived(&handed_on(&written(name, value))), "{name} does not arrive");
    }
}
