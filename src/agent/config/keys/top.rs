//! The keys outside `server`, `client` and `telemetry`.

use super::super::tls;
use super::super::values::{
    address, addresses, advertise, directory, header, log_file, log_level, log_rotate_max_files, name, u32_of,
};
use super::client::CLIENT;
use super::server::SERVER;
use super::telemetry::TELEMETRY;
use super::{AMOUNT, COUNT_OR_ZERO, ConfigKey, KeyType, PORT, key, no_effect, not_built};

/// Why keys for gossip have no effect.
const NO_GOSSIP: &str = "servers do not gossip: one UDP port, `ports.rpc`, is for all that they say";
const RPC: &str = "how machines talk to each other is fixed, and always encrypted with the region's own keys";
const NO_LEAVING: &str = "a server that stops stays in its region: `operator raft remove-peer` removes it";
const HASHICORP: &str = "drover does not work with it";

pub static TOP: &[ConfigKey] = &[
    key("region", KeyType::Text(|c, v| name(v, &mut c.region, &['\0'])))
        .or("global")
        .takes("text, 128 bytes at most, no NUL")
        .about("the region's name"),
    key("datacenter", KeyType::Text(|c, v| name(v, &mut c.datacenter, &['\0', '*'])))
        .or("dc1")
        .takes("the same, no `*`")
        .about("where the machine is; jobs choose by it"),
    key("name", KeyType::Text(|c, v| name(v, &mut c.name, &['\0'])))
        .or_words("host name")
        .takes("as `region`")
        .about("the name of the node and of the server"),
    key("data_dir", KeyType::Text(|c, v| directory(v, &mut c.data_dir)))
        .or_words("required but for `-dev`")
        .takes("absolute path")
        .about("everything that outlives a process"),
    key("bind_addr", KeyType::Text(|c, v| address(v).map(|ip| c.bind_addr = ip)))
        .or("0.0.0.0")
        .dev("127.0.0.1")
        .takes("IP address")
        .about("what is listened on"),
    key("log_level", KeyType::Text(log_level))
        .or("INFO")
        .dev("DEBUG")
        .live()
        .takes("`TRACE DEBUG INFO WARN ERROR OFF`")
        .about("how much is logged"),
    key("log_json", KeyType::Bool(|c| c.log.json = true)).about("one JSON object a line"),
    key("log_include_location", KeyType::Bool(|c| c.log.include_location = true))
        .about("each line names its place in the source"),
    key("log_file", KeyType::Text(log_file))
        .takes("absolute path")
        .about("a log besides stderr; a path that ends in `/` is a folder for `drover.log`"),
    key("log_rotate_bytes", KeyType::Int(AMOUNT, |c, v| c.log.rotate_bytes = v))
        .about("the size at which the log file is rotated; 0 is none"),
    key("log_rotate_duration", KeyType::Duration(|c, v| c.log.rotate_duration = v))
        .or("24h")
        .about("the age at which it is rotated"),
    key("log_rotate_max_files", KeyType::Text(log_rotate_max_files))
        .or("0")
        .takes("int from -1")
        .about("rotated files that are kept: 0 keeps all, -1 none"),
    key("http_api_response_headers", KeyType::Map(header)).live().about("added to every answer of the API"),
    key("insecure_http", KeyType::Bool(|c| c.http.insecure = true))
        .about("the API may speak plain HTTP on addresses that other machines reach"),
    key("enable_debug", KeyType::Bool(|c| c.enable_debug = true)).dev("true").about("opens `agent/host`"),
    key("ports", KeyType::Block(PORTS)),
    key("addresses", KeyType::Block(ADDRESSES)),
    key("advertise", KeyType::Block(ADVERTISE)),
    key("limits", KeyType::Block(LIMITS)),
    key(
        "plugin",
        KeyType::Labelled {
            label: "raw_exec",
            keys: PLUGIN,
            others: Some("drover has no such driver: jobs that ask for it find no node"),
        },
    ),
    key("server", KeyType::Block(SERVER)),
    key("client", KeyType::Block(CLIENT)),
    key("telemetry", KeyType::Block(TELEMETRY)),
    key("acl", KeyType::Block(ACL)),
    key("tls", KeyType::Block(TLS)),
    key("keyring", KeyType::Labelled { label: "aead", keys: KEYRING, others: None }),
    not_built("enable_syslog"),
    no_effect("syslog_facility", "without `enable_syslog` nothing is written there"),
    no_effect("leave_on_interrupt", NO_LEAVING),
    no_effect("leave_on_terminate", NO_LEAVING),
    no_effect("plugin_dir", "drivers are part of drover"),
    no_effect("disable_update_check", "nobody is called home"),
    no_effect("disable_anonymous_signature", "nobody is called home"),
    no_effect("autopilot", "`operator raft remove-peer` alone removes a server"),
    no_effect("rpc", RPC),
    no_effect("ui", "there is no web interface yet"),
    no_effect("reporting", "nothing is reported to anybody"),
    no_effect("eventlog", "it is for Windows"),
    no_effect("consul", HASHICORP).secret(),
    no_effect("vault", HASHICORP).secret(),
    no_effect("sentinel", HASHICORP),
    no_effect("audit", HASHICORP),
];

static PORTS: &[ConfigKey] = &[
    key("http", KeyType::Int(PORT, |c, v| c.http.port = u16::try_from(v).unwrap_or(c.http.port)))
        .or("4646")
        .about("the port of the API"),
    key("rpc", KeyType::Int(PORT, |c, v| c.rpc.port = u16::try_from(v).unwrap_or(c.rpc.port)))
        .or("4647")
        .about("the UDP port of servers"),
    no_effect("serf", NO_GOSSIP),
];

static ADDRESSES: &[ConfigKey] = &[
    key("http", KeyType::Text(|c, v| addresses(v, &mut c.http.addresses)))
        .or_words("`bind_addr`")
        .takes("IP addresses with blanks between them")
        .about("what the API listens on"),
    key("rpc", KeyType::Text(|c, v| addresses(v, &mut c.rpc.addresses)))
        .or_words("`bind_addr`")
        .takes("IP addresses with blanks between them")
        .about("where this server listens for others"),
    no_effect("serf", NO_GOSSIP),
];

static ADVERTISE: &[ConfigKey] = &[
    key("http", KeyType::Text(|c, v| advertise(v).map(|told| c.http.advertise = Some(told))))
        .or_words("the first address")
        .takes("host or address, with or without a port")
        .about("what others are told to reach the API at"),
    key("rpc", KeyType::Text(|c, v| advertise(v).map(|told| c.rpc.advertise = Some(told))))
        .or_words(
            "the first address of `addresses.rpc`; with `encrypt`, that of the default route for `0.0.0.0`",
        )
        .takes("host or address, with or without a port")
        .about("where other servers find this one; members, the leader and the Raft configuration show it"),
    no_effect("serf", NO_GOSSIP),
];

static LIMITS: &[ConfigKey] = &[
    key(
        "http_max_conns_per_client",
        KeyType::Int(COUNT_OR_ZERO, |c, v| c.http.max_conns_per_client = u32_of(v)),
    )
    .or("100")
    .live()
    .about("open connections of one address; 0 is no limit; loopback is exempt"),
    key("https_handshake_timeout", KeyType::Duration(|c, v| c.http.https.handshake_timeout = v))
        .or("10s")
        .live()
        .about("the time that a TLS handshake may take"),
    no_effect("rpc_handshake_timeout", RPC),
    no_effect("rpc_max_conns_per_client", RPC),
];

static PLUGIN: &[ConfigKey] =
    &[key("config", KeyType::Block(RAW_EXEC)), no_effect("args", "drivers are no processes of their own")];

static RAW_EXEC: &[ConfigKey] = &[
    key("enabled", KeyType::Switch(|c, v| c.client.raw_exec_enabled = v))
        .or("false")
        .dev("true")
        .about("tasks may run as plain processes of the agent's user"),
    no_effect("no_cgroups", "tasks are placed into cgroups wherever the machine lets the agent do so"),
    not_built("denied_host_uids"),
    not_built("denied_host_gids"),
    not_built("denied_envvars"),
];

/// Tokens, policies and what they need are refused by the one key that switches them on.
const NO_ACL: &str = "there are no tokens yet";

static ACL: &[ConfigKey] = &[
    not_built("enabled"),
    no_effect("token_ttl", NO_ACL),
    no_effect("policy_ttl", NO_ACL),
    no_effect("role_ttl", NO_ACL),
    no_effect("token_min_expiration_ttl", NO_ACL),
    no_effect("token_max_expiration_ttl", NO_ACL),
    no_effect("replication_token", NO_ACL).secret(),
];

/// A running agent reads the files again.
static TLS: &[ConfigKey] = &[
    key("http", KeyType::Bool(|c| c.http.https.enabled = true)).about("the API speaks HTTPS"),
    key("ca_file", KeyType::Text(|c, v| tls::file(v, &mut c.http.https.ca_file)))
        .live()
        .takes("path")
        .about("the authorities (PEM) whose certificates callers show"),
    key("cert_file", KeyType::Text(|c, v| tls::file(v, &mut c.http.https.cert_file)))
        .live()
        .takes("path")
        .about("the agent's certificate (PEM), followed by those that lead to its authority"),
    key("key_file", KeyType::Text(|c, v| tls::file(v, &mut c.http.https.key_file)))
        .live()
        .takes("path")
        .about("its key (PEM)"),
    key("verify_https_client", KeyType::Bool(|c| c.http.https.verify_client = true))
        .live()
        .about("callers have to show a certificate of `ca_file`"),
    key("tls_min_version", KeyType::Text(tls::min_version))
        .or("tls12")
        .live()
        .takes("`tls12` or `tls13`; `tls10` and `tls11` are `tls12`")
        .about("the oldest version that is spoken"),
    key("tls_cipher_suites", KeyType::Text(tls::cipher_suites))
        .or_words("all that are safe")
        .live()
        .takes("names with commas between them")
        .about("the suites that are offered; a version of which none is named has all"),
    key("tls_prefer_server_cipher_suites", KeyType::Bool(|c| c.http.https.prefer_own_order = true))
        .live()
        .about("the agent's order of suites decides, not the caller's"),
    no_effect("rpc", RPC),
    no_effect("verify_server_hostname", RPC),
    no_effect("rpc_upgrade_mode", RPC),
];

static KEYRING: &[ConfigKey] = &[
    no_effect("active", "it is the only one"),
    no_effect("name", "it is the only one"),
    no_effect("config", "it is the only one"),
];
