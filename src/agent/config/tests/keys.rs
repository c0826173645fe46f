//! Every declared key: what it changes, what it is refused or warned with, its place in docs/behaviour/cli.md and in the annotated example.

use super::super::keys::{ConfigKey, DefaultValue, KeyType, TOP};
use super::super::syntax::{self, ConfigValue, Item};
use super::*;
use joining::JoinAddress;
use model::job::JobType;
use model::scheduling::Algorithm;
use std::collections::BTreeSet;

/// A token of nobody's, as it stands in the annotated example.
pub const EXAMPLE_TOKEN: &str = "\"drover-join-AQZnbG9iYWwAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHwBfHCqQAABAAIAAAAAAAAAAZXhhbXBsZTogbWFrZSB5b3VyIG93biB0b2tlbiEhISGOMe0D\"";

/// Each key that is obeyed with a value that is not its default, and what then holds.
type KeyCase = (&'static str, &'static str, fn(&Config) -> bool);

static EFFECTIVE_KEYS: &[KeyCase] = &[
    ("region", "\"r\"", |c| c.region == "r"),
    ("datacenter", "\"d\"", |c| c.datacenter == "d"),
    ("name", "\"n\"", |c| c.name == "n"),
    ("data_dir", "\"/x\"", |c| c.data_dir == path("/x")),
    ("bind_addr", "\"10.0.0.1\"", |c| c.bind_addr.to_string() == "10.0.0.1"),
    ("log_level", "\"TRACE\"", |c| c.log.level == LogLevel::Trace),
    ("log_json", "true", |c| c.log.json),
    ("log_include_location", "true", |c| c.log.include_location),
    ("log_file", "\"/l/\"", |c| c.log.file == path("/l/drover.log")),
    ("log_rotate_bytes", "9", |c| c.log.rotate_bytes == 9),
    ("log_rotate_duration", "\"9s\"", |c| c.log.rotate_duration == Span::seconds(9)),
    ("log_rotate_max_files", "-1", |c| c.log.rotate_max_files == Some(0)),
    ("http_api_response_headers", "{ A = \"b\" }", |c| c.http.response_headers == map(&[("A", "b")])),
    ("enable_debug", "true", |c| c.enable_debug),
    ("insecure_http", "true", |c| c.http.insecure),
    ("ports.http", "9", |c| c.http.port == 9 && c.http.advertised() == "127.0.0.1:9"),
    ("addresses.http", "\"::1\"", |c| c.http.addresses.len() == 1 && c.http.addresses[0].is_ipv6()),
    ("advertise.http", "\"::1\"", |c| c.http.advertised() == "[::1]:4646"),
    ("ports.rpc", "9", |c| c.advertised_rpc() == "0.0.0.0:9"),
    ("addresses.rpc", "\"10.0.0.2 ::1\"", |c| {
        c.rpc.addresses.len() == 2 && c.advertised_rpc() == "10.0.0.2:4647" && c.http.addresses.len() == 1
    }),
    ("tls.http", "true", |c| c.http.https.enabled && c.http.scheme() == "https"),
    ("tls.ca_file", "\"/x\"", |c| c.http.https.ca_file == path("/x")),
    ("tls.cert_file", "\"/x\"", |c| c.http.https.cert_file == path("/x")),
    ("tls.key_file", "\"/x\"", |c| c.http.https.key_file == path("/x")),
    ("tls.verify_https_client", "true", |c| c.http.https.verify_client),
    ("tls.tls_min_version", "\"tls13\"", |c| c.http.https.min_version == "tls13"),
    ("tls.tls_cipher_suites", "\"TLS_AES_128_GCM_SHA256\"", |c| c.http.https.cipher_suites.len() == 1),
    ("tls.tls_prefer_server_cipher_suites", "true", |c| c.http.https.prefer_own_order),
    ("limits.https_handshake_timeout", "\"9s\"", |c| c.http.https.handshake_timeout == Span::seconds(9)),
    ("advertise.rpc", "\"10.0.0.1:24647\"", |c| c.advertised_rpc() == "10.0.0.1:24647"),
    ("limits.http_max_conns_per_client", "9", |c| c.http.max_conns_per_client == 9),
    ("telemetry.prometheus_metrics", "true", |c| c.telemetry.prometheus),
    ("telemetry.publish_node_metrics", "true", |c| c.telemetry.publish_node),
    ("telemetry.publish_allocation_metrics", "true", |c| c.telemetry.publish_allocations),
    ("telemetry.disable_dispatched_job_summary_metrics", "true", |c| c.telemetry.hide_dispatched),
    ("telemetry.disable_hostname", "true", |c| c.telemetry.disable_hostname),
    ("telemetry.use_node_name", "true", |c| c.telemetry.use_node_name),
    ("telemetry.filter_default", "false", |c| !c.telemetry.filter_default),
    ("telemetry.prefix_filter", "[\"+a.b\", \"-a\"]", |c| {
        c.telemetry.prefixes == [("a.b".to_string(), true), ("a".to_string(), false)].into()
    }),
    ("plugin.raw_exec.config.enabled", "true", |c| c.client.raw_exec_enabled),
    ("server.num_schedulers", "9", |c| c.server.num_schedulers == 9),
    ("server.enabled_schedulers", "[\"batch\", \"_core\", \"batch\"]", |c| {
        c.server.enabled_schedulers == [Some(JobType::Batch), None]
    }),
    ("server.heartbeat_grace", "\"9s\"", |c| c.server.heartbeat_grace == Span::seconds(9)),
    ("server.min_heartbeat_ttl", "\"9s\"", |c| c.server.min_heartbeat_ttl == Span::seconds(9)),
    ("server.max_heartbeats_per_second", "9", |c| c.server.max_heartbeats_per_second == 9.0),
    ("server.failover_heartbeat_ttl", "\"9s\"", |c| c.server.failover_heartbeat_ttl == Span::seconds(9)),
    ("server.job_tracked_versions", "9", |c| c.server.job_tracked_versions == 9),
    ("server.job_gc_interval", "\"7m\"", |c| c.server.garbage.interval == Span::minutes(7)),
    ("server.job_gc_threshold", "\"7m\"", |c| c.server.garbage.jobs == Span::minutes(7)),
    ("server.eval_gc_threshold", "\"7m\"", |c| c.server.garbage.evals == Span::minutes(7)),
    ("server.batch_eval_gc_threshold", "\"7m\"", |c| c.server.garbage.batch_evals == Span::minutes(7)),
    ("server.deployment_gc_threshold", "\"7m\"", |c| c.server.garbage.deployments == Span::minutes(7)),
    ("server.node_gc_threshold", "\"7m\"", |c| c.server.garbage.nodes == Span::minutes(7)),
    ("server.job_default_priority", "60", |c| c.server.job_default_priority == 60),
    ("server.job_max_priority", "900", |c| c.server.job_max_priority == 900),
    ("server.job_max_source_size", "\"9k\"", |c| c.server.job_max_source_bytes == 9000),
    ("server.enable_event_broker", "false", |c| !c.server.event_broker),
    ("server.event_buffer_size", "9", |c| c.server.event_buffer_entries == 9),
    ("server.search.fuzzy_enabled", "false", |c| !c.server.search.fuzzy_enabled),
    ("server.search.limit_query", "9", |c| c.server.search.limit_query == 9),
    ("server.search.limit_results", "9", |c| c.server.search.limit_results == 9),
    ("server.search.min_term_length", "9", |c| c.server.search.min_term_length == 9),
    ("server.default_scheduler_config.scheduler_algorithm", "\"spread\"", |c| {
        c.server.default_scheduler_config.algorithm == Algorithm::Spread
    }),
    ("server.default_scheduler_config.memory_oversubscription_enabled", "true", |c| {
        c.server.default_scheduler_config.memory_oversubscription
    }),
    ("server.default_scheduler_config.reject_job_registration", "true", |c| {
        c.server.default_scheduler_config.reject_job_registration
    }),
    ("server.default_scheduler_config.pause_eval_broker", "true", |c| {
        c.server.default_scheduler_config.pause_eval_broker
    }),
    ("server.default_scheduler_config.preemption_config.system_scheduler_enabled", "false", |c| {
        !c.server.default_scheduler_config.preemption.system
    }),
    ("server.default_scheduler_config.preemption_config.sysbatch_scheduler_enabled", "true", |c| {
        c.server.default_scheduler_config.preemption.sysbatch
    }),
    ("server.default_scheduler_config.preemption_config.batch_scheduler_enabled", "true", |c| {
        c.server.default_scheduler_config.preemption.batch
    }),
    ("server.default_scheduler_config.preemption_config.service_scheduler_enabled", "true", |c| {
        c.server.default_scheduler_config.preemption.service
    }),
    ("client.node_class", "\"k\"", |c| c.client.node_class == "k"),
    ("client.node_pool", "\"p\"", |c| c.client.node_pool == "p"),
    ("client.meta", "{ A = \"b\" }", |c| c.client.meta == map(&[("A", "b")])),
    ("client.options", "{ \"driver.raw_exec.enable\" = \"1\" }", |c| c.client.raw_exec_enabled),
    ("client.network_interface", "\"eth9\"", |c| c.client.network_interface.as_deref() == Some("eth9")),
    ("client.cpu_total_compute", "9", |c| c.client.cpu_total_compute_mhz == 9),
    ("client.memory_total_mb", "9", |c| c.client.memory_total_mb == 9),
    ("client.disk_total_mb", "9", |c| c.client.disk_total_mb == 9),
    ("client.disk_free_mb", "9", |c| c.client.disk_free_mb == 9),
    ("client.reserved.cpu", "9", |c| c.client.reserved.cpu_mhz == 9),
    ("client.reserved.memory", "9", |c| c.client.reserved.memory_mb == 9),
    ("client.reserved.disk", "9", |c| c.client.reserved.disk_mb == 9),
    ("client.reserved.reserved_ports", "\"22,80-90\"", |c| c.client.reserved.ports == "22,80-90"),
    ("client.min_dynamic_port", "9", |c| c.client.dynamic_ports.min == 9),
    ("client.max_dynamic_port", "32001", |c| c.client.dynamic_ports.max == 32_001),
    ("client.host_network.lan.cidr", "\"10.0.0.0/8\"", |c| network(c).cidr == "10.0.0.0/8"),
    ("client.host_network.lan.interface", "\"eth1\"", |c| network(c).interface == "eth1"),
    ("client.host_network.lan.reserved_ports", "\"22\"", |c| network(c).reserved_ports == "22"),
    ("client.host_volume.data.path", "\"/x\"", |c| {
        c.client.host_volumes.iter().any(|(name, v)| name == "data" && v.path == "/x")
    }),
    ("client.host_volume.data.read_only", "true\npath = \"/x\"", |c| {
        c.client.host_volumes.iter().any(|(_, v)| v.read_only)
    }),
    ("client.max_kill_timeout", "\"9s\"", |c| c.client.max_kill_timeout == Span::seconds(9)),
    ("client.state_dir", "\"/x\"", |c| c.client.state_dir == path("/x")),
    ("client.alloc_dir", "\"/x\"", |c| c.client.alloc_dir == path("/x")),
    ("client.gc_max_allocs", "9", |c| c.client.gc_max_allocs == 9),
    ("client.node_max_allocs", "9", |c| c.client.node_max_allocs == 9),
    ("client.disable_remote_exec", "true", |c| !c.client.remote_exec),
    ("client.servers", "[\"a\"]", |c| names(&c.client.join.retry_join) == ["a:4647"]),
    ("client.server_join.start_join", "[\"a\"]", |c| names(&c.client.join.start_join) == ["a:4647"]),
    ("client.server_join.retry_join", "[\"[::2]:9\"]", |c| names(&c.client.join.retry_join) == ["[::2]:9"]),
    ("client.server_join.retry_max", "9", |c| c.client.join.retry_max == 9),
    ("client.server_join.retry_interval", "\"9s\"", |c| c.client.join.retry_interval == Span::seconds(9)),
    ("server.encrypt", "\"cg8StVXbQJ0gPvMd9o7yrg==\"", |c| {
        c.server.encrypt.as_ref().is_some_and(|key| key.bytes()[..2] == [0x72, 0x0f])
    }),
    ("server.start_join", "[\"a\"]", |c| names(&c.server.join.start_join) == ["a:4647"]),
    ("server.retry_join", "[\"a\"]", |c| names(&c.server.join.retry_join) == ["a:4647"]),
    ("server.retry_max", "9", |c| c.server.join.retry_max == 9),
    ("server.retry_interval", "\"9s\"", |c| c.server.join.retry_interval == Span::seconds(9)),
    ("server.server_join.start_join", "[\"a\"]", |c| names(&c.server.join.start_join) == ["a:4647"]),
    ("server.server_join.retry_join", "[\"b:1\", \"B:1\"]", |c| names(&c.server.join.retry_join) == ["b:1"]),
    ("server.server_join.retry_max", "9", |c| c.server.join.retry_max == 9),
    ("server.server_join.retry_interval", "\"9s\"", |c| c.server.join.retry_interval == Span::seconds(9)),
    ("server.server_join.join_token", EXAMPLE_TOKEN, |c| c.server.join.token.is_some()),
    ("server.server_join.join_token_file", "\"/x\"", |c| c.server.join.token_file == path("/x")),
    ("client.server_join.join_token", EXAMPLE_TOKEN, |c| c.client.join.token.is_some()),
    ("client.server_join.join_token_file", "\"/x\"", |c| c.client.join.token_file == path("/x")),
];

/// Said in `BASE` already, and what it would be without them is another test's.
pub const REQUIRED: [&str; 3] = ["server.enabled", "server.bootstrap_expect", "client.enabled"];

/// What a key needs besides itself: whoever names other servers has a key for them.
pub fn said_besides(name: &str) -> &'static str {
    match name {
        "telemetry.use_node_name" => "name = \"n\"\n",
        "tls.http" => "tls { cert_file = \"/c\" key_file = \"/k\" }\n",
        name if name.starts_with("server.") && name.ends_with("_join") => SHARED_KEY,
        _ => "",
    }
}

fn names(addresses: &[JoinAddress]) -> Vec<String> {
    addresses.iter().map(JoinAddress::to_string).collect()
}

fn network(c: &Config) -> HostNetwork {
    c.client.host_networks.iter().find(|(name, _)| name == "lan").map(|(_, n)| n.clone()).unwrap_or_default()
}

fn path(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(text))
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

/// The label that this page and the example give to such a block.
fn sample_label(name: &str) -> &'static str {
    if name == "host_network" { "lan" } else { "data" }
}

/// Full names of the keys that are built, of those that are not, and of those that a warning speaks of.
#[derive(Default, Debug, PartialEq)]
pub struct Names {
    pub built: BTreeSet<String>,
    not_built: BTreeSet<String>,
    no_effect: BTreeSet<String>,
}

fn collect(keys: &[ConfigKey], above: &str, names: &mut Names) {
    for key in keys {
        let name = format!("{above}{}", key.name);
        match &key.kind {
            KeyType::Block(inner) => collect(inner, &format!("{name}."), names),
            KeyType::Named(_, inner) => collect(inner, &format!("{name}.{}.", sample_label(key.name)), names),
            KeyType::Labelled { label, keys, .. } => collect(keys, &format!("{name}.{label}."), names),
            KeyType::NotBuilt(_) => drop(names.not_built.insert(name)),
            KeyType::NoEffect => drop(names.no_effect.insert(name)),
            _ => drop(names.built.insert(name)),
        }
    }
}

pub fn schema() -> Names {
    let mut names = Names::default();
    collect(TOP, "", &mut names);
    names
}

/// `a.b.c` and a value, as blocks.
pub fn written(name: &str, value: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let (last, blocks) = parts.split_last().expect("a name");
    let open: String = blocks.iter().map(|block| format!("{block} {{ ")).collect();
    format!("{open}{last} = {value}{}", " }".repeat(blocks.len()))
}

#[test]
fn every_key_that_is_built_changes_what_it_is_for() {
    let before = with("");
    for (name, value, holds) in EFFECTIVE_KEYS {
        assert!(!holds(&before), "{name} says its default");
        let text = format!("{}{}", said_besides(name), written(name, value));
        assert!(holds(&with(&text)), "{name} is not obeyed");
    }
    let tried = EFFECTIVE_KEYS.iter().map(|(name, ..)| *name).chain(REQUIRED);
    assert_eq!(tried.map(str::to_string).collect::<BTreeSet<_>>(), schema().built);
}

#[test]
fn no_key_that_is_not_built_is_ignored() {
    for name in schema().not_built {
        let found = refusals(&written(&name, "\"-7x\""));
        assert!(
            found.len() == 1 && found[0].contains(&format!("not supported yet: {name}")),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn keys_without_effect_are_accepted_with_a_warning() {
    for name in schema().no_effect {
        let text = written(&name, "\"x\"");
        let loaded = load(&sources(false, &[("base.hcl", BASE), ("more.hcl", &text)], &[])).unwrap();
        let start = format!("more.hcl: {name} has no effect: ");
        let warned = loaded.warnings.iter().any(|w| w.starts_with(&start) && w.len() > start.len());
        assert!(warned && loaded.warnings.len() == 1, "{name}: {:?}", loaded.warnings);
        assert!(!loaded.settings.contains_key(&name));
    }
}

#[test]
fn every_key_says_what_it_is_for() {
    fn each(keys: &[ConfigKey]) {
        for key in keys {
            match &key.kind {
                KeyType::Block(inner) | KeyType::Named(_, inner) | KeyType::Labelled { keys: inner, .. } => {
                    each(inner)
                }
                KeyType::NotBuilt(_) => assert!(key.about.is_empty(), "{}", key.name),
                _ => assert!(!key.about.is_empty(), "{}", key.name),
            }
        }
    }
    each(TOP);
}

#[test]
fn defaults_are_those_of_the_rooms_that_apply_them() {
    let config = with("");
    assert_eq!(config.server.garbage, GarbageRules::default());
    assert_eq!(config.server.default_scheduler_config, SchedulerSettings::default());
    assert_eq!(config.server.search, SearchRules::default());
    assert_eq!(config.client.dynamic_ports, PortRange::default());
    assert_eq!(config.client.max_kill_timeout, model::task::DEFAULT_MAX_KILL_TIMEOUT);
    assert_eq!(config.rpc.port, joining::DEFAULT_PORT);
    assert_eq!(config.client.gc_max_allocs as usize, client::config::DEFAULT_MAX_ENDED);
}

const REFERENCE: &str = include_str!("../../../../docs/behaviour/cli.md");

/// The specification's table for these keys. Names begin with `above`; blocks in `elsewhere` have tables of their own.
fn table(keys: &[ConfigKey], elsewhere: &[&str]) -> String {
    let mut rows = String::from("| key | type | default | what it is for |\n|---|---|---|---|\n");
    let mut others: Vec<(&str, Vec<String>)> = vec![];
    rows_of(keys, "", elsewhere, &mut rows, &mut others);
    for (why, names) in others {
        let (kind, why) = if why.is_empty() { ("refused: not built", "") } else { ("no effect", why) };
        rows.push_str(&format!("| {} | {kind} | | {why} |\n", names.join(", ")));
    }
    rows
}

fn rows_of<'a>(
    keys: &'a [ConfigKey],
    above: &str,
    elsewhere: &[&str],
    rows: &mut String,
    others: &mut Vec<(&'a str, Vec<String>)>,
) {
    for key in keys.iter().filter(|key| !elsewhere.contains(&key.name)) {
        let name = format!("{above}{}", key.name);
        match &key.kind {
            KeyType::Block(inner) => rows_of(inner, &format!("{name}."), elsewhere, rows, others),
            KeyType::Named(_, inner) => rows_of(inner, &format!("{name} \"n\" "), elsewhere, rows, others),
            KeyType::Labelled { label, keys, others: why } => {
                rows_of(keys, &format!("{name} {label:?} "), elsewhere, rows, others);
                let any_other = format!("`{name}` of another name");
                match others.iter_mut().find(|(w, _)| *w == why.unwrap_or("")) {
                    Some((_, names)) => names.push(any_other),
                    None => others.push((why.unwrap_or(""), vec![any_other])),
                }
            }
            KeyType::NotBuilt(_) | KeyType::NoEffect => {
                let shown = match &key.kind {
                    KeyType::NotBuilt([value]) => format!("`{name}` other than `{value}`"),
                    _ => format!("`{name}`"),
                };
                match others.iter_mut().find(|(why, _)| *why == key.about) {
                    Some((_, names)) => names.push(shown),
                    None => others.push((key.about, vec![shown])),
                }
            }
            _ => {
                let live = if key.live { "; SIGHUP changes it" } else { "" };
                let secret = if key.secret { "; shown nowhere" } else { "" };
                let (kind, default) = (type_of(key), default_of(key));
                rows.push_str(&format!("| `{name}` | {kind} | {default} | {}{live}{secret} |\n", key.about));
            }
        }
    }
}

fn type_of(key: &ConfigKey) -> String {
    let whole = u64::from(u32::MAX);
    match &key.kind {
        _ if !key.takes.is_empty() => key.takes.to_string(),
        KeyType::Int(range, _) if *range.end() < whole => format!("{} to {}", range.start(), range.end()),
        KeyType::Int(..) => "int".into(),
        KeyType::Bool(_) => "bool".into(),
        KeyType::Switch(_) => "switch".into(),
        KeyType::Float(_) => "number".into(),
        KeyType::Duration(_) => "duration".into(),
        KeyType::Map(_) => "map".into(),
        KeyType::List(_) => "list".into(),
        _ => "text".into(),
    }
}

fn default_of(key: &ConfigKey) -> String {
    let default = match (&key.default, &key.kind) {
        (DefaultValue::Value(value), _) => format!("`{value}`"),
        (DefaultValue::Words(words), _) => words.to_string(),
        (DefaultValue::Nothing, KeyType::Bool(_) | KeyType::Switch(_)) => "`false`".into(),
        (DefaultValue::Nothing, KeyType::Int(..)) => "`0`".into(),
        (DefaultValue::Nothing, _) => "none".into(),
    };
    match key.dev_default {
        Some(value) => format!("{default}; `-dev`: `{value}`"),
        None => default,
    }
}

#[test]
fn the_specification_has_the_declared_tables() {
    let block = |name: &str| match TOP.iter().find(|key| key.name == name).map(|key| &key.kind) {
        Some(KeyType::Block(keys)) => *keys,
        _ => &[],
    };
    let blocks = ["server", "client", "telemetry"];
    let mut missing = String::new();
    for expected in [table(TOP, &blocks)].into_iter().chain(blocks.map(|b| table(block(b), &[]))) {
        if !REFERENCE.contains(&format!("\n\n{expected}\n")) {
            missing.push_str(&expected);
            missing.push('\n');
        }
    }
    assert!(missing.is_empty(), "docs/behaviour/cli.md 4.3 to 4.6 do not have\n\n{missing}");
}

#[test]
fn older_lists_of_drivers_take_effect() {
    for (option, drivers, expected) in [
        ("driver.allowlist", "raw_exec, docker", true),
        ("driver.allowlist", "docker", false),
        ("driver.whitelist", "docker", false),
        ("driver.allowlist", "", true),
        ("driver.denylist", "docker,raw_exec", false),
        ("driver.blacklist", "raw_exec", false),
        ("driver.denylist", "docker", true),
    ] {
        let options = written("client.options", &format!("{{ \"{option}\" = \"{drivers}\" }}"));
        let config = with(&format!("{}\n{options}", written("plugin.raw_exec.config.enabled", "true")));
        assert_eq!(config.client.raw_exec_enabled, expected, "{option} = {drivers}");
    }
}

#[test]
fn an_advertised_address_may_be_a_host() {
    for (told, expected) in [
        ("10.0.0.1", "10.0.0.1:4646"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("board-1.local", "board-1.local:4646"),
        ("board-1.local:80", "board-1.local:80"),
        ("fe80::1", "[fe80::1]:4646"),
        ("[fe80::1]", "[fe80::1]:4646"),
        ("[fe80::1]:80", "[fe80::1]:80"),
    ] {
        assert_eq!(with(&written("advertise.http", &format!("\"{told}\""))).http.advertised(), expected);
    }
}

const EXAMPLE: &str = include_str!("../../../../config/agent.hcl");

/// With all its remarks switched on.
fn example_in_full() -> String {
    let key =
        |line: &str| line.split('=').next().is_some_and(|k| line.contains('=') && !k.trim().contains(' '));
    let on = |line: &str| match line.trim_start().strip_prefix("# ") {
        Some(rest) if key(rest) || rest.ends_with('{') || rest.trim() == "}" => rest.to_string(),
        _ => line.to_string(),
    };
    EXAMPLE.lines().map(|line| on(line) + "\n").collect()
}

fn names_in(items: &[Item], above: &str, built: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    for item in items {
        let name = format!("{above}{}", item.key);
        match &item.node.value {
            ConfigValue::Object(inner) if !built.contains(&name) => {
                names_in(inner, &format!("{name}."), built, found);
            }
            _ => drop(found.insert(name)),
        }
    }
}

/// Names in the remarks below a line that begins so.
fn listed(after: &str) -> BTreeSet<String> {
    let lines = EXAMPLE.lines().skip_while(|line| !line.starts_with(after)).skip(1);
    let lists = lines.map_while(|line| line.strip_prefix("#   "));
    lists.flat_map(|list| list.split(", ")).map(|name| name.trim_end_matches(',').to_string()).collect()
}

#[test]
fn the_annotated_example_is_accepted_with_its_remarks_on() {
    for text in [EXAMPLE, &example_in_full()] {
        let loaded = load(&sources(false, &[("agent.hcl", text)], &[])).unwrap();
        assert!(loaded.config.client.raw_exec_enabled && loaded.warnings.is_empty());
    }
}

#[test]
fn the_annotated_example_has_the_keys_of_the_schema() {
    let schema = schema();
    let mut built = BTreeSet::new();
    names_in(&syntax::parse(&example_in_full()).unwrap(), "", &schema.built, &mut built);
    let (not_built, no_effect) = (listed("# Known, and refused"), listed("# Known, and without effect"));
    assert_eq!(Names { built, not_built, no_effect }, schema);
}
