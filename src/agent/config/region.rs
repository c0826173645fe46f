//! Checks of what a server is told of its region: the others, the key that all of them share, and where they find it (cli.md 4.4.1 to
//! cli.md 4.4.4).
//!
//! Refuses to know: syntax, and who answers at an address.

use super::joining::JoinAddress;
use super::{Advertised, Config, HostDefaults};
use std::net::IpAddr;

/// Where Nomad's servers gossip. Files that were written for it name servers by this port.
const SERF_PORT: u16 = 4648;

/// Fills in what follows from other values: where others find this server, and which of the addresses are not its own.
pub fn complete(config: &mut Config, machine: &HostDefaults) {
    if config.rpc.addresses.is_empty() {
        config.rpc.addresses = vec![config.bind_addr];
    }
    leave_out_own_addresses(config);
    let reachable = config.rpc.addresses.iter().any(|ip| !ip.is_unspecified());
    if has_links(config) && config.rpc.advertise.is_none() && !reachable {
        config.rpc.advertise = machine.address.map(|ip| Advertised { host: in_brackets(ip), port: None });
        leave_out_own_addresses(config);
    }
}

fn leave_out_own_addresses(config: &mut Config) {
    let own = own_addresses(config);
    config.server.join.retain(|address| !own.is(address));
}

/// The server has a key of its region, or is given one when it joins, and so is linked to others.
pub fn has_links(config: &Config) -> bool {
    let server = &config.server;
    server.enabled && (server.encrypt.is_some() || server.join.has_token() || missing_key(config).is_some())
}

/// Why this agent has to have a key, if the configuration has none: unless it has joined its region, and keeps one in its data directory.
pub fn missing_key(config: &Config) -> Option<String> {
    let server = &config.server;
    if server.encrypt.is_some() {
        return None;
    }
    if !server.enabled {
        return config.client.enabled.then(|| NODE_WITHOUT_KEY.to_string());
    }
    match (server.join.addresses().next(), server.bootstrap_expect) {
        (Some(other), _) => Some(no_key(&format!("another server is named, {other}"))),
        (None, n) if n > 1 => Some(no_key(&format!("server.bootstrap_expect is {n}"))),
        _ => None,
    }
}

fn in_brackets(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

/// Where this agent's own server is.
struct OwnAddresses {
    ips: Vec<IpAddr>,
    names: Vec<String>,
    ports: Vec<u16>,
}

impl OwnAddresses {
    fn is(&self, address: &JoinAddress) -> bool {
        let host = match address.ip() {
            Some(ip) => self.ips.contains(&ip) || self.hears_loopback() && ip.is_loopback(),
            None => self.names.contains(&address.host),
        };
        host && self.ports.contains(&address.port)
    }

    /// On which of a machine's loopback addresses somebody dials is all one to who listens on every address.
    fn hears_loopback(&self) -> bool {
        self.ips.iter().any(IpAddr::is_unspecified)
    }
}

fn own_addresses(config: &Config) -> OwnAddresses {
    let mut ips = config.rpc.addresses.clone();
    let mut names = vec![config.name.to_ascii_lowercase()];
    let mut ports = vec![config.rpc.port];
    if ips.iter().any(|ip| ip.is_unspecified() || ip.is_loopback()) {
        names.push("localhost".to_string());
    }
    for told in [&config.rpc.advertise, &config.http.advertise].into_iter().flatten() {
        let host = told.host.trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(ip) => ips.push(ip),
            Err(_) => names.push(host.to_ascii_lowercase()),
        }
    }
    ports.extend(config.rpc.advertise.as_ref().and_then(|told| told.port));
    // Nomad's servers name themselves by the port of their gossip
    ports.push(SERF_PORT);
    OwnAddresses { ips, names, ports }
}

/// Why a server with these settings cannot be part of a region.
pub fn problem(config: &Config) -> Option<String> {
    let server = &config.server;
    if !server.enabled {
        return None;
    }
    let other = server.join.addresses().next();
    match (server.bootstrap_expect, other, &server.encrypt) {
        (0, None, None) => Some(
            "server.bootstrap_expect is missing: say bootstrap_expect = 1 for a region of one server, or name the servers to join: server_join { retry_join = [\"...\"] }"
                .to_string(),
        ),
        _ if has_links(config) => unreachable_address(config),
        _ => None,
    }
}

/// What is said of a node that has nothing by which servers know it.
pub const NODE_WITHOUT_KEY: &str = "this node has joined no region: make a token with `drover token create -role client` at a server, and show \
     it once with `drover join`, or as client { server_join { join_token = \"...\" } }";

fn no_key(why: &str) -> String {
    format!(
        "server.encrypt is missing, but {why}: servers know each other by a key that they share. Make one with `drover operator gossip keyring generate`, and say encrypt = \"...\" on each of them; or join a region that has one: `drover join`"
    )
}

/// Others are told an address that is none for them.
fn unreachable_address(config: &Config) -> Option<String> {
    let told = config.advertised_rpc();
    let Ok(own) = JoinAddress::parse(&told) else {
        return Some(format!(
            "advertise.rpc is missing: other servers cannot reach this one at {told}. Say advertise {{ rpc = \"10.0.0.1\" }} with an address of this machine"
        ));
    };
    let is_loopback = |address: &JoinAddress| address.ip().is_some_and(|ip| ip.is_loopback());
    let elsewhere =
        config.server.join.addresses().find(|other| other.ip().is_some_and(|ip| !ip.is_loopback()))?;
    is_loopback(&own).then(|| {
        format!(
            "{elsewhere} is on another machine, and cannot reach this server at {told}. Say addresses {{ rpc = \"10.0.0.1\" }} with an address of this machine, or bind_addr for all of it"
        )
    })
}

/// What a user should know of settings that are accepted.
pub fn warnings(config: &Config) -> Vec<String> {
    let server = &config.server;
    let mut found = Vec::new();
    let expect = server.bootstrap_expect;
    let alone = server.join.addresses().next().is_none();
    if server.enabled && expect != 1 && alone {
        found.push(format!(
            "server.bootstrap_expect is {expect}, and no other server is named: this one waits until others join it"
        ));
    }
    if expect > 1 && expect.is_multiple_of(2) {
        found.push(format!(
            "server.bootstrap_expect is {expect}: an even number of servers survives no more failures than one server less; 3 or 5 do"
        ));
    }
    if let Some(other) =
        server.join.addresses().find(|other| other.port == SERF_PORT && config.rpc.port != SERF_PORT)
    {
        found.push(format!(
            "{other} has the port at which Nomad's servers gossip: drover's listen at ports.rpc, which is {} here",
            config.rpc.port
        ));
    }
    let own = own_addresses(config);
    if !server.enabled && config.client.join.addresses().next().is_none() {
        found.push(
            "no server is named: say client { server_join { retry_join = [\"...\"] } }, unless this node has been part of its region before"
                .to_string(),
        );
    }
    if server.enabled
        && let Some(other) = config.client.join.addresses().find(|other| !own.is(other))
    {
        found.push(format!("client.servers and client.server_join have no effect: the agent's own server is asked, not {other}"));
    }
    found
}
