//! `agent/self`, `agent/members` and `agent/health` as JSON.

use crate::agent::{AgentInfo, ClientReport};
use crate::shape::operator::full_name;
use model::member::{ServerInfo, ServerMember, Suffrage};
use model::time::Mono;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use wire::feature_level::FEATURE_LEVEL;
use wire::status::ServerStatus;

/// Top-level members are lower case here (http-api.md 0.2.1).
#[derive(Serialize)]
pub struct SelfShape {
    config: Map<String, Value>,
    member: MemberShape,
    stats: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
}

impl SelfShape {
    /// `threads`: how many the process has, if that is known.
    pub fn new(
        agent: &AgentInfo,
        status: &ServerStatus,
        client: Option<&ClientReport>,
        threads: Option<u64>,
        now: Mono,
    ) -> Self {
        SelfShape {
            config: config(agent),
            member: MemberShape::new(agent, (status.id, true), &own_info(agent)),
            stats: stats(agent, status, client, threads, now),
        }
    }
}

/// All settings, and over them what programs read and what no key says.
fn config(agent: &AgentInfo) -> Map<String, Value> {
    let mut shown = agent.config.clone();
    let known = serde_json::to_value(ConfigShape::new(agent)).expect("text and numbers always become JSON");
    let Value::Object(known) = known else { unreachable!("a struct becomes an object") };
    for (name, value) in known {
        match (shown.get_mut(&name), value) {
            (Some(Value::Object(block)), Value::Object(members)) => block.extend(members),
            (_, value) => drop(shown.insert(name, value)),
        }
    }
    shown
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigShape<'a> {
    region: &'a str,
    datacenter: &'a str,
    node_name: &'a str,
    data_dir: &'a str,
    log_level: &'a str,
    bind_addr: &'a str,
    dev_mode: bool,
    enable_debug: bool,
    advertise_addrs: AddressesShape<'a>,
    telemetry: TelemetryShape,
    #[serde(rename = "ACL")]
    acl: EnabledShape,
    #[serde(rename = "TLSConfig")]
    tls: TlsShape,
    ports: PortsShape,
    server: EnabledShape,
    client: EnabledShape,
    version: VersionShape<'a>,
    #[serde(rename = "UI")]
    ui: UiShape,
}

impl<'a> ConfigShape<'a> {
    fn new(a: &'a AgentInfo) -> Self {
        ConfigShape {
            region: &a.region,
            datacenter: &a.datacenter,
            node_name: &a.name,
            data_dir: &a.data_dir,
            log_level: &a.log_level,
            bind_addr: &a.bind_addr,
            dev_mode: a.dev,
            enable_debug: a.enable_debug,
            advertise_addrs: AddressesShape { http: &a.http_addr, rpc: &a.rpc_addr, serf: "" },
            telemetry: TelemetryShape {
                prometheus_metrics: a.telemetry.prometheus,
                publish_node_metrics: a.telemetry.publish_node,
                publish_allocation_metrics: a.telemetry.publish_allocations,
                disable_dispatched_job_summary_metrics: a.telemetry.hide_dispatched,
                disable_hostname: a.telemetry.host.is_none(),
                filter_default: a.telemetry.filter.default,
            },
            acl: EnabledShape { enabled: false },
            tls: TlsShape { enable_http: a.https, enable_rpc: false },
            ports: PortsShape { http: port_of(&a.http_addr), rpc: port_of(&a.rpc_addr), serf: 0 },
            server: EnabledShape { enabled: a.server },
            client: EnabledShape { enabled: a.client },
            version: VersionShape {
                version: &a.compatible_version,
                version_prerelease: "",
                version_metadata: "",
                revision: &a.version,
            },
            ui: UiShape { enabled: false, show_cli_hints: false },
        }
    }
}

fn port_of(address: &str) -> u16 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
}

#[derive(Serialize)]
struct AddressesShape<'a> {
    #[serde(rename = "HTTP")]
    http: &'a str,
    #[serde(rename = "RPC")]
    rpc: &'a str,
    #[serde(rename = "Serf")]
    serf: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TelemetryShape {
    prometheus_metrics: bool,
    publish_node_metrics: bool,
    publish_allocation_metrics: bool,
    disable_dispatched_job_summary_metrics: bool,
    disable_hostname: bool,
    filter_default: bool,
}

#[derive(Serialize)]
struct TlsShape {
    #[serde(rename = "EnableHTTP")]
    enable_http: bool,
    #[serde(rename = "EnableRPC")]
    enable_rpc: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "UPPERCASE")]
struct PortsShape {
    http: u16,
    #[serde(rename = "RPC")]
    rpc: u16,
    #[serde(rename = "Serf")]
    serf: u16,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EnabledShape {
    enabled: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct VersionShape<'a> {
    version: &'a str,
    version_prerelease: &'static str,
    version_metadata: &'static str,
    /// drover's own version: the member that names a build.
    revision: &'a str,
}

#[derive(Serialize)]
struct UiShape {
    #[serde(rename = "Enabled")]
    enabled: bool,
    #[serde(rename = "ShowCLIHints")]
    show_cli_hints: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MemberShape {
    name: String,
    addr: String,
    port: u16,
    tags: BTreeMap<&'static str, String>,
    status: &'static str,
    protocol_min: u8,
    protocol_max: u8,
    protocol_cur: u8,
    delegate_min: u8,
    delegate_max: u8,
    delegate_cur: u8,
}

/// As this agent would be listed.
fn own_info(agent: &AgentInfo) -> ServerInfo {
    ServerInfo {
        name: agent.name.clone(),
        region: agent.region.clone(),
        datacenter: agent.datacenter.clone(),
        http_addr: agent.http_addr.clone(),
        rpc_addr: agent.rpc_addr.clone(),
        version: agent.version.clone(),
        feature_level: FEATURE_LEVEL,
    }
}

impl MemberShape {
    fn new(a: &AgentInfo, (id, is_reached): (u64, bool), info: &ServerInfo) -> Self {
        let addr = info.rpc_addr.rsplit_once(':').map_or("", |(host, _)| host);
        let tags = [
            ("role", "nomad".to_string()),
            ("region", info.region.clone()),
            ("dc", info.datacenter.clone()),
            ("build", a.compatible_version.clone()),
            ("id", id.to_string()),
            ("raft_vsn", "3".to_string()),
            ("vsn", "1".to_string()),
            ("revision", info.version.clone()),
            ("feature_level", info.feature_level.to_string()),
            ("rpc_addr", addr.to_string()),
            ("port", port_of(&info.rpc_addr).to_string()),
        ];
        MemberShape {
            name: full_name(info),
            addr: addr.to_string(),
            port: port_of(&info.rpc_addr),
            tags: tags.into(),
            status: if is_reached { "alive" } else { "failed" },
            protocol_min: 1,
            protocol_max: 5,
            protocol_cur: 2,
            delegate_min: 2,
            delegate_max: 5,
            delegate_cur: 4,
        }
    }
}

/// `GET /v1/agent/members`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MembersShape<'a> {
    server_name: &'a str,
    server_region: &'a str,
    #[serde(rename = "ServerDC")]
    server_dc: &'a str,
    members: Vec<MemberShape>,
}

impl<'a> MembersShape<'a> {
    /// A server that this one has no connection to counts as failed.
    pub fn new(a: &'a AgentInfo, status: &ServerStatus) -> Self {
        MembersShape {
            server_name: &a.name,
            server_region: &a.region,
            server_dc: &a.datacenter,
            members: status
                .members
                .iter()
                .map(|member| MemberShape::new(a, (member.id, status.reaches(member.id)), &member.info))
                .collect(),
        }
    }
}

/// Every value is text.
fn stats(
    agent: &AgentInfo,
    status: &ServerStatus,
    client: Option<&ClientReport>,
    threads: Option<u64>,
    now: Mono,
) -> BTreeMap<&'static str, BTreeMap<&'static str, String>> {
    let leader = status.leader == Some(status.id);
    let mut stats = [(
        "runtime",
        [
            ("version", agent.version.clone()),
            ("arch", std::env::consts::ARCH.to_string()),
            ("kernel.name", std::env::consts::OS.to_string()),
            ("cpu_count", agent.cpus.to_string()),
            ("max_procs", agent.cpus.to_string()),
        ]
        .into_iter()
        .chain(threads.map(|n| ("goroutines", n.to_string())))
        .collect::<BTreeMap<_, _>>(),
    )]
    .into_iter()
    .collect::<BTreeMap<_, _>>();
    if agent.server {
        let leader_addr = status.leading_member().map(|m| m.info.rpc_addr.clone()).unwrap_or_default();
        stats.insert(
            "nomad",
            [
                ("server", "true".to_string()),
                ("leader", leader.to_string()),
                ("leader_addr", leader_addr),
                ("bootstrap", (status.voters.len() <= 1).to_string()),
                ("known_regions", "1".to_string()),
            ]
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        );
        stats.insert("raft", raft_stats(status, leader, now));
        stats.insert("serf", serf_stats());
        stats.insert("broker", broker_stats(status));
    }
    if let Some(c) = client {
        stats.insert("client", client_stats(c));
    }
    stats
}

/// `last_snapshot_*`: drover's state is durable by itself, and takes the place of a snapshot as soon as the log before it goes.
fn raft_stats(status: &ServerStatus, leader: bool, now: Mono) -> BTreeMap<&'static str, String> {
    let log = &status.log;
    let last_contact = match status.last_contact {
        _ if leader => "0".to_string(),
        None => "never".to_string(),
        Some(at) => now.since(at).to_string(),
    };
    let member = |member: &ServerMember| {
        let suffrage = if member.suffrage == Suffrage::Voter { "Voter" } else { "Nonvoter" };
        format!("{{Suffrage:{suffrage} ID:{} Address:{}}}", member.id, member.info.rpc_addr)
    };
    let members: Vec<String> = status.members.iter().map(member).collect();
    [
        ("fsm_pending", log.commit_index.saturating_sub(status.applied_index).to_string()),
        ("last_log_index", log.last_index.to_string()),
        ("last_log_term", log.last_term.to_string()),
        ("last_snapshot_index", log.compacted_index.to_string()),
        ("last_snapshot_term", log.compacted_term.to_string()),
        ("latest_configuration", format!("[{}]", members.join(" "))),
        ("latest_configuration_index", "0".to_string()),
        ("feature_level", status.feature_level.to_string()),
        ("protocol_version", "3".to_string()),
        ("protocol_version_max", "3".to_string()),
        ("protocol_version_min", "3".to_string()),
        ("snapshot_version_max", "1".to_string()),
        ("snapshot_version_min", "1".to_string()),
        ("state", if leader { "Leader" } else { "Follower" }.to_string()),
        ("term", status.term.to_string()),
        ("applied_index", status.applied_index.to_string()),
        ("commit_index", log.commit_index.to_string()),
        ("last_contact", last_contact),
        ("num_peers", status.voters.len().saturating_sub(1).to_string()),
    ]
    .into_iter()
    .collect::<BTreeMap<_, _>>()
}

/// A server alone gossips with nobody: the clocks of its gossip stand where they begin.
fn serf_stats() -> BTreeMap<&'static str, String> {
    let zero = ["event_queue", "failed", "health_score", "intent_queue", "left", "query_queue"];
    let mut stats: BTreeMap<&'static str, String> = zero.into_iter().map(|key| (key, "0".into())).collect();
    for clock in ["member_time", "event_time", "query_time"] {
        stats.insert(clock, "1".into());
    }
    stats.insert("members", "1".into());
    stats.insert("encrypted", "false".into());
    stats
}

fn broker_stats(status: &ServerStatus) -> BTreeMap<&'static str, String> {
    let b = &status.broker;
    [
        ("total_ready", b.ready.to_string()),
        ("total_unacked", b.unacked.to_string()),
        ("total_pending", b.pending.to_string()),
        ("total_waiting", b.waiting.to_string()),
        ("total_blocked", b.blocked.to_string()),
        ("total_failed", b.failed.to_string()),
    ]
    .into_iter()
    .collect::<BTreeMap<_, _>>()
}

fn client_stats(c: &ClientReport) -> BTreeMap<&'static str, String> {
    let since = c.since_heartbeat.map_or_else(|| "never".to_string(), |s| s.to_string());
    [
        ("node_id", c.node_id.to_string()),
        ("known_servers", c.known_servers.join(",")),
        ("num_allocations", c.allocs.len().to_string()),
        ("last_heartbeat", since),
        ("heartbeat_ttl", c.heartbeat_ttl.to_string()),
    ]
    .into_iter()
    .collect::<BTreeMap<_, _>>()
}

/// `GET /v1/agent/health`: a part that was not asked for, or that this agent is not, is absent.
#[derive(Serialize)]
pub struct AgentHealthShape {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<RoleHealth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<RoleHealth>,
}

#[derive(Serialize)]
pub struct RoleHealth {
    pub ok: bool,
    pub message: String,
}
