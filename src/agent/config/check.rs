//! Checks of a configuration as a whole, once all sources are read. Fills in what follows from other values.

use super::{ClientConfig, Config, HostDefaults, region, tls};
use jobspec::diagnostic::Diagnostic;
use model::pool::{ALL_POOLS, name_problem};
use model::time::Span;

/// All that is wrong; nothing when the configuration can be run.
pub fn check(config: &mut Config, machine: &HostDefaults) -> Vec<Diagnostic> {
    if config.http.addresses.is_empty() {
        config.http.addresses = vec![config.bind_addr];
    }
    region::complete(config, machine);
    let denied = DRIVER_OPTIONS.iter().any(|(key, listed)| forbids(config, key, *listed));
    config.client.raw_exec_enabled &= !denied;
    let found = [
        roles(config),
        region::problem(config),
        tls::problem(&config.http),
        server(config),
        directories(config),
        pool(config),
        offers(config),
    ];
    found.into_iter().flatten().map(|text| Diagnostic::nowhere("configuration", text, "")).collect()
}

/// Options with lists of drivers, and whether a driver must be in it, or must not.
const DRIVER_OPTIONS: [(&str, bool); 4] = [
    ("driver.allowlist", true),
    ("driver.whitelist", true),
    ("driver.denylist", false),
    ("driver.blacklist", false),
];

/// Options that are obeyed; any other is kept and shown.
const OPTIONS: [&str; 7] = [
    "driver.raw_exec.enable",
    "driver.allowlist",
    "driver.denylist",
    "driver.whitelist",
    "driver.blacklist",
    "env.denylist",
    "env.blacklist",
];

/// What a user should know of a configuration that can be run.
pub fn warnings(config: &Config) -> Vec<String> {
    let of_region = region::warnings(config).into_iter();
    of_region.chain(tls::warnings(&config.http)).chain(options_without_effect(&config.client)).collect()
}

fn options_without_effect(client: &ClientConfig) -> impl Iterator<Item = String> {
    let without = client.options.keys().filter(|key| !OPTIONS.contains(&key.as_str()));
    without.map(|key| format!("client.options.{key} has no effect: it is kept and shown"))
}

fn forbids(config: &Config, option: &str, listed: bool) -> bool {
    let Some(drivers) = config.client.options.get(option).filter(|drivers| !drivers.is_empty()) else {
        return false;
    };
    drivers.split(',').any(|name| name.trim() == "raw_exec") != listed
}

fn roles(config: &Config) -> Option<String> {
    let is_nothing = !config.server.enabled && !config.client.enabled;
    is_nothing.then(|| {
        "Neither server nor client is enabled: say server { enabled = true } or client { enabled = true }, or both, or -dev"
            .to_string()
    })
}

fn server(config: &Config) -> Option<String> {
    let s = &config.server;
    if s.garbage.interval < Span::seconds(1) {
        return Some("server.job_gc_interval must be at least 1s".to_string());
    }
    if !(100..=32_766).contains(&s.job_max_priority) {
        return Some(format!(
            "server.job_max_priority must be from 100 to 32766, not {}",
            s.job_max_priority
        ));
    }
    if !(50..s.job_max_priority).contains(&s.job_default_priority) {
        let (max, given) = (s.job_max_priority - 1, s.job_default_priority);
        return Some(format!("server.job_default_priority must be from 50 to {max}, not {given}"));
    }
    None
}

fn directories(config: &Config) -> Option<String> {
    let missing = !config.dev && config.data_dir.is_none();
    missing
        .then(|| "data_dir is missing: say data_dir = \"/var/lib/drover\", or -data-dir, or -dev".to_string())
}

fn offers(config: &Config) -> Option<String> {
    let client = &config.client;
    let range = client.dynamic_ports;
    if range.min > range.max {
        return Some(format!(
            "client.min_dynamic_port {} is above client.max_dynamic_port {}",
            range.min, range.max
        ));
    }
    let nowhere = client.host_volumes.iter().find(|(_, volume)| volume.path.is_empty());
    nowhere.map(|(name, _)| format!("client.host_volume {name:?} has no path: say path = \"/...\""))
}

/// Names of node pools: http-api.md 4.14.
fn pool(config: &Config) -> Option<String> {
    let pool = &config.client.node_pool;
    if pool == ALL_POOLS {
        return Some("client.node_pool may not be \"all\": every node is in it already".to_string());
    }
    name_problem(pool).map(|why| format!("client.node_pool {pool:?}: {why}"))
}
