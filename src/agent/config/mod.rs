//! The agent's configuration: defaults, then files in the order given, then flags; the result is one plain `Config`.
//!
//! Refuses to know: where files lie (`files` reads them) and what the agent does with a value. Nothing is ignored in silence: a key
//! that nobody knows, a value that is out of range and a feature that is not built are each refused with their place, and a key that
//! changes nothing here is accepted with a warning. Keys are declared in `keys`, and only there.

mod check;
pub mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod joining;
pub mod keys;
mod masking;
mod offers;
pub mod region;
pub mod secret;
mod shown;
pub mod syntax;
mod tls;
pub mod values;
mod walk;

use api::agent::SearchRules;
use jobspec::diagnostic::Diagnostic;
use joining::ServerJoin;
use model::claims::{HostVolume, PortRange};
use model::garbage::GarbageRules;
use model::job::JobType;
use model::scheduling::SchedulerSettings;
use model::time::Span;
use secret::Secret;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

pub use shown::shown;

/// All that an agent is told. Every duration is a `Span`; sizes carry their unit in the name.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Dev mode: everything is in memory or in a directory of its own that goes with the process; tasks end with it.
    pub dev: bool,
    pub region: String,
    pub datacenter: String,
    /// The node's and the server's name: the host's, unless told otherwise.
    pub name: String,
    /// Absolute. `None` in dev mode only: a temporary directory.
    pub data_dir: Option<PathBuf>,
    pub bind_addr: IpAddr,
    pub log: AgentLogConfig,
    pub http: HttpConfig,
    pub rpc: RpcConfig,
    pub server: ServerConfig,
    pub client: ClientConfig,
    pub telemetry: TelemetryConfig,
    /// Opens endpoints that reveal more of the machine than everybody should see by default.
    pub enable_debug: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    pub prometheus: bool,
    pub publish_node: bool,
    pub publish_allocations: bool,
    pub hide_dispatched: bool,
    /// Gauges carry no label `host`.
    pub disable_hostname: bool,
    /// The label `host` is the node's name instead of the machine's.
    pub use_node_name: bool,
    pub hostname: String,
    /// Whether metrics are published that no prefix in `prefixes` fits.
    pub filter_default: bool,
    /// Beginnings of names, and whether such metrics are published. The longest decides.
    pub prefixes: BTreeMap<String, bool>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentLogConfig {
    pub level: LogLevel,
    /// One JSON object a line instead of text.
    pub json: bool,
    /// Each line names its place in the source.
    pub include_location: bool,
    /// Absolute: written besides stderr.
    pub file: Option<PathBuf>,
    /// 0: no limit.
    pub rotate_bytes: u64,
    pub rotate_duration: Span,
    /// Rotated files that are kept; `None`: all.
    pub rotate_max_files: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpConfig {
    pub port: u16,
    /// The addresses to listen on; never empty.
    pub addresses: Vec<IpAddr>,
    /// The address at which others reach the API; `None`: the first of `addresses`.
    pub advertise: Option<Advertised>,
    /// Added to every answer.
    pub response_headers: BTreeMap<String, String>,
    /// Open connections of one address; 0 is no limit.
    pub max_conns_per_client: u32,
    pub https: HttpsConfig,
    /// Plain HTTP may be spoken on addresses that other machines reach.
    pub insecure: bool,
}

/// What HTTPS is spoken with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpsConfig {
    pub enabled: bool,
    /// The authorities whose certificates callers show.
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// Callers have to show a certificate.
    pub verify_client: bool,
    /// As it was said: `tls12`.
    pub min_version: String,
    pub cipher_suites: Vec<String>,
    pub prefer_own_order: bool,
    pub handshake_timeout: Span,
}

/// Where the servers of a region meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcConfig {
    pub port: u16,
    /// The addresses to listen on; never empty.
    pub addresses: Vec<IpAddr>,
    /// The address that other servers are told; `None`: the first of `addresses`.
    pub advertise: Option<Advertised>,
}

/// A host as it stands before a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    pub host: String,
    /// `None`: the one that is listened on.
    pub port: Option<u16>,
}

impl HttpConfig {
    /// `host:port` that others reach the API at.
    pub fn advertised(&self) -> String {
        advertised(self.advertise.as_ref(), &self.addresses, self.port)
    }

    pub fn scheme(&self) -> &'static str {
        if self.https.enabled { "https" } else { "http" }
    }

    /// The first address that is listened on and that other machines may reach.
    fn beyond_loopback(&self) -> Option<SocketAddr> {
        let beyond = self.addresses.iter().find(|ip| !ip.to_canonical().is_loopback());
        beyond.map(|ip| SocketAddr::new(*ip, self.port))
    }
}

/// `host:port`: what is told, or else the first address.
fn advertised(told: Option<&Advertised>, addresses: &[IpAddr], port: u16) -> String {
    match told {
        Some(told) => format!("{}:{}", told.host, told.port.unwrap_or(port)),
        None => addresses.first().map(|ip| SocketAddr::new(*ip, port).to_string()).unwrap_or_default(),
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerConfig {
    pub enabled: bool,
    /// How many servers a new region begins with; 0: this one begins none, and waits for one.
    pub bootstrap_expect: u32,
    /// This machine has made the key of its region, and begins it alone, whoever else is named.
    pub founds: bool,
    /// The key that all servers of the region share, decoded: 32 bytes, or Nomad's 16 or 24.
    pub encrypt: Option<Secret>,
    /// The other servers: this one's own addresses are not among them.
    pub join: ServerJoin,
    /// Scheduler threads; 0 runs none, so that nothing is placed.
    pub num_schedulers: u32,
    /// As they were named; `None`: `_core`, which is no type of jobs. Empty: all.
    pub enabled_schedulers: Vec<Option<JobType>>,
    pub heartbeat_grace: Span,
    pub min_heartbeat_ttl: Span,
    pub max_heartbeats_per_second: f64,
    /// The time to live that nodes get from a new leader.
    pub failover_heartbeat_ttl: Span,
    pub job_default_priority: i64,
    pub job_max_priority: i64,
    /// Versions of a job that stay listed.
    pub job_tracked_versions: u32,
    /// The longest source of a job that is kept.
    pub job_max_source_bytes: usize,
    pub search: SearchRules,
    /// The settings that a new region's scheduler begins with.
    pub default_scheduler_config: SchedulerSettings,
    /// How long what has ended is kept.
    pub garbage: GarbageRules,
    /// Events are kept and streamed.
    pub event_broker: bool,
    /// How many entries' events are kept for those who stream them.
    pub event_buffer_entries: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientConfig {
    pub enabled: bool,
    /// The servers to ask, where the agent has none of its own.
    pub join: ServerJoin,
    pub node_class: String,
    pub node_pool: String,
    pub meta: BTreeMap<String, String>,
    pub options: BTreeMap<String, String>,
    /// `None`: the default route's.
    pub network_interface: Option<String>,
    /// By name.
    pub host_networks: Vec<(String, HostNetwork)>,
    /// By name.
    pub host_volumes: Vec<(String, HostVolume)>,
    /// Where ports that jobs do not name are taken from.
    pub dynamic_ports: PortRange,
    /// MHz of all cores. 0: detect.
    pub cpu_total_compute_mhz: u64,
    /// 0: detect.
    pub memory_total_mb: u64,
    /// 0: detect.
    pub disk_total_mb: u64,
    /// 0: detect.
    pub disk_free_mb: u64,
    pub reserved: Reserved,
    /// A task's own `kill_timeout` is held to this.
    pub max_kill_timeout: Span,
    /// Ended allocations that keep their directories.
    pub gc_max_allocs: u32,
    /// Allocations that have not ended. 0: as many as a node can take.
    pub node_max_allocs: u16,
    /// `alloc exec` is answered.
    pub remote_exec: bool,
    /// Absolute. `None`: `client` in the data directory.
    pub state_dir: Option<PathBuf>,
    /// Absolute. `None`: `alloc` in the data directory.
    pub alloc_dir: Option<PathBuf>,
    /// Tasks may run as plain processes of the agent's user.
    pub raw_exec_enabled: bool,
    /// Variables of the agent's environment that no task is given; `None`: those with credentials.
    pub env_denylist: Option<Vec<String>>,
}

/// Resources that tasks never get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    pub cpu_mhz: u64,
    pub memory_mb: u64,
    pub disk_mb: u64,
    /// `22,8000-8100`
    pub ports: String,
}

/// A name for some of the machine's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNetwork {
    /// Empty: all of the interface's.
    pub cidr: String,
    /// Empty: of any interface.
    pub interface: String,
    pub reserved_ports: String,
}

/// Properties of the machine from which some defaults follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDefaults {
    pub hostname: String,
    /// Usable processors, at least 1.
    pub cpus: u32,
    /// At which others reach the machine; `None`: it has a loopback alone.
    pub address: Option<IpAddr>,
}

/// A configuration file's name and text.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceFile {
    pub name: String,
    pub text: String,
}

/// Without the text, which may hold secrets.
impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where the configuration comes from. Later wins: dev or plain defaults, files, flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    pub dev: bool,
    pub files: Vec<SourceFile>,
    /// A key's full name (`client.node_class`), its value as text, and the flag's name for messages (`-node-class`). Of
    /// `client.meta` the value is `key=value`.
    pub flags: Vec<FlagSetting>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct FlagSetting {
    pub key: &'static str,
    pub value: String,
    pub flag: &'static str,
}

/// Without the value, which may be a secret.
impl fmt::Debug for FlagSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlagSetting").field("flag", &self.flag).finish_non_exhaustive()
    }
}

/// The value of one key, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    Shown(String),
    Hidden(Secret),
}

/// What holds, by full names of keys, as text: defaults, and the sources' last word on each. A key without either is not in it.
pub type Settings = BTreeMap<String, Setting>;

/// A configuration that was accepted, and what the user should know nevertheless.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub config: Config,
    pub settings: Settings,
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads all sources; all that is wrong is told at once.
    pub fn load(sources: &Sources, machine: &HostDefaults) -> Result<Loaded, Vec<Diagnostic>> {
        let mut loading = walk::ConfigLoader::new(Config::base(sources.dev, machine));
        loading.defaults(sources.dev);
        for file in &sources.files {
            loading.file(file);
        }
        for setting in &sources.flags {
            loading.flag(setting);
        }
        let walk::LoadedConfig { mut config, settings, mut warnings, mut errors } = loading.finish();
        if errors.is_empty() {
            errors = check::check(&mut config, machine);
            warnings.extend(check::warnings(&config));
        }
        if errors.is_empty() { Ok(Loaded { config, settings, warnings }) } else { Err(errors) }
    }

    /// `host:port` that other servers reach this one at.
    pub fn advertised_rpc(&self) -> String {
        advertised(self.rpc.advertise.as_ref(), &self.rpc.addresses, self.rpc.port)
    }

    /// What the machine says; everything else comes from the declarations of the keys.
    fn base(dev: bool, machine: &HostDefaults) -> Config {
        Config {
            dev,
            region: String::new(),
            datacenter: String::new(),
            name: machine.hostname.clone(),
            data_dir: None,
            bind_addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            log: AgentLogConfig::default(),
            http: HttpConfig::default(),
            rpc: RpcConfig::default(),
            server: ServerConfig { num_schedulers: machine.cpus.max(1), ..ServerConfig::default() },
            client: ClientConfig { remote_exec: true, ..ClientConfig::default() },
            telemetry: TelemetryConfig { hostname: machine.hostname.clone(), ..TelemetryConfig::default() },
            enable_debug: false,
        }
    }
}

impl LogLevel {
    const ALL: [(&'static str, LogLevel); 6] = [
        ("TRACE", LogLevel::Trace),
        ("DEBUG", LogLevel::Debug),
        ("INFO", LogLevel::Info),
        ("WARN", LogLevel::Warn),
        ("ERROR", LogLevel::Error),
        ("OFF", LogLevel::Off),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, level)| *level == self).map_or("INFO", |(name, _)| name)
    }

    fn parse(text: &str) -> Option<LogLevel> {
        Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, level)| *level)
    }
}

/// What an agent says of itself as it starts: right-aligned keys, sorted (cli.md 4.7.2). `version` as `v0.1.0`;
/// `node_id` once it is known.
pub fn banner(config: &Config, version: &str, node_id: Option<&str>) -> String {
    /// Keys end in this column.
    const KEY_WIDTH: usize = 18;
    let addresses: Vec<String> =
        config.http.addresses.iter().map(|ip| SocketAddr::new(*ip, config.http.port).to_string()).collect();
    let mut rows = vec![
        ("Advertise Addrs", format!("HTTP: {}", config.http.advertised())),
        ("Bind Addrs", format!("HTTP: {}", addresses.join(", "))),
        ("Client", config.client.enabled.to_string()),
        ("Log Level", config.log.level.name().to_string()),
    ];
    if let Some(id) = node_id {
        rows.push(("Node Id", id.to_string()));
    }
    rows.push(("Region", format!("{} (DC: {})", config.region, config.datacenter)));
    rows.push(("Server", config.server.enabled.to_string()));
    rows.push(("Version", version.to_string()));
    let lines: String = rows.iter().map(|(key, value)| format!("{key:>KEY_WIDTH$}: {value}\n")).collect();
    format!(
        "==> drover agent configuration:\n\n{lines}\n==> drover agent started! Log data will stream in below:\n"
    )
}

#[cfg(test)]
mod tests;
