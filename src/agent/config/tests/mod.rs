//! Tables for loading: merging, refusals with their places, defaults and the banner.

mod https;
mod key_effects;
mod keys;
mod region;
mod secrets;

use super::*;

fn machine() -> HostDefaults {
    HostDefaults { hostname: "board".to_string(), cpus: 4, address: Some([192, 0, 2, 7].into()) }
}

fn sources(dev: bool, files: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Sources {
    let file = |(name, text): &(&str, &str)| SourceFile { name: name.to_string(), text: text.to_string() };
    let flag =
        |(key, value): &(&'static str, &str)| FlagSetting { key, value: value.to_string(), flag: "-flag" };
    Sources { dev, files: files.iter().map(file).collect(), flags: flags.iter().map(flag).collect() }
}

fn load(sources: &Sources) -> Result<Loaded, Vec<String>> {
    Config::load(sources, &machine()).map_err(|all| all.iter().map(Diagnostic::to_string).collect())
}

const BASE: &str = "data_dir = \"/d\"\naddresses { http = \"127.0.0.1\" }\n\
    server {\n enabled = true\n bootstrap_expect = 1\n}\nclient { enabled = true }\n";

/// What a server of several needs to be told.
const SHARED_KEY: &str = "server { encrypt = \"cg8StVXbQJ0gPvMd9o7yrg==\" }\n";

/// `BASE`, and then `more`.
fn with(more: &str) -> Config {
    load(&sources(false, &[("base.hcl", BASE), ("more.hcl", more)], &[])).unwrap().config
}

fn refusals(more: &str) -> Vec<String> {
    match load(&sources(false, &[("base.hcl", BASE), ("more.hcl", more)], &[])) {
        Ok(_) => Vec::new(),
        Err(all) => all,
    }
}

#[test]
fn unset_keys_have_their_defaults() {
    let config = with("");
    assert_eq!(
        (config.region.as_str(), config.datacenter.as_str(), config.name.as_str()),
        ("global", "dc1", "board")
    );
    assert_eq!(config.bind_addr, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    assert_eq!(config.rpc.addresses, [config.bind_addr]);
    assert!(!config.http.https.enabled && !config.http.insecure);
    assert_eq!(config.http.https.handshake_timeout, Span::seconds(10));
    assert_eq!((config.http.port, config.http.max_conns_per_client), (4646, 100));
    assert_eq!((config.log.level, config.log.json), (LogLevel::Info, false));
    assert_eq!(config.server.num_schedulers, 4);
    assert_eq!(config.server.heartbeat_grace, Span::seconds(10));
    assert_eq!(config.client.max_kill_timeout, Span::seconds(30));
    assert!(!config.client.raw_exec_enabled && config.client.network_interface.is_none());
}

#[test]
fn dev_mode_needs_nothing_else() {
    let config = load(&sources(true, &[], &[])).unwrap().config;
    assert!(config.dev && config.server.enabled && config.client.enabled && config.client.raw_exec_enabled);
    assert_eq!(config.http.addresses, [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    assert_eq!((config.log.level, config.data_dir), (LogLevel::Debug, None));
    assert_eq!(config.client.network_interface.as_deref(), Some("lo"));
    let told = &config.telemetry;
    assert!(config.enable_debug && told.prometheus && told.publish_node && told.publish_allocations);
}

#[test]
fn every_kind_of_value_reaches_its_place() {
    let config = with(
        r#"
        # remarks of all kinds
        region = "eu" // like this
        /* or this */
        log_level = "warn"
        log_json = true
        bind_addr = "127.0.0.1"
        ports { http = 14646 }
        addresses { http = "127.0.0.1 ::1" }
        http_api_response_headers { "X-A" = "b" }
        limits { http_max_conns_per_client = 0 }
        server {
          num_schedulers = 0
          heartbeat_grace = "1m30s"
          max_heartbeats_per_second = 12.5
          job_tracked_versions = 9
          job_max_source_size = "512 KiB"
          search { fuzzy_enabled = false limit_query = 200 limit_results = 1000 min_term_length = 5 }
          job_max_priority = 200
          job_default_priority = "60"
        }
        client {
          meta { "rack" = "r1" room = "2" "a.b" = "c" }
          options = { "driver.raw_exec.enable" = "1" }
          reserved { cpu = 100 memory = 64 disk = 5 }
          max_kill_timeout = "45s"
          state_dir = "/s"
          node_pool = "edge"
          network_interface = "eth0"
        }
        "#,
    );
    assert_eq!((config.region.as_str(), config.log.level, config.log.json), ("eu", LogLevel::Warn, true));
    assert_eq!(config.http.port, 14646);
    let shown: Vec<String> = config.http.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["127.0.0.1", "::1"]);
    assert_eq!(config.http.response_headers, [("X-A".to_string(), "b".to_string())].into());
    assert_eq!((config.http.max_conns_per_client, config.server.num_schedulers), (0, 0));
    assert_eq!(config.server.heartbeat_grace, Span::seconds(90));
    assert_eq!(config.server.max_heartbeats_per_second, 12.5);
    assert_eq!((config.server.job_max_priority, config.server.job_default_priority), (200, 60));
    assert_eq!((config.server.job_tracked_versions, config.server.job_max_source_bytes), (9, 512 << 10));
    let search =
        SearchRules { fuzzy_enabled: false, limit_query: 200, limit_results: 1000, min_term_length: 5 };
    assert_eq!(config.server.search, search);
    let meta: Vec<(&str, &str)> = config.client.meta.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(meta, [("a.b", "c"), ("rack", "r1"), ("room", "2")]);
    assert!(config.client.raw_exec_enabled);
    assert_eq!(
        config.client.reserved,
        Reserved { cpu_mhz: 100, memory_mb: 64, disk_mb: 5, ..Reserved::default() }
    );
    assert_eq!(config.client.state_dir, Some(PathBuf::from("/s")));
    assert_eq!(
        (config.client.node_pool.as_str(), config.client.network_interface.as_deref()),
        ("edge", Some("eth0"))
    );
}

#[test]
fn json_says_the_same_as_hcl() {
    let json = r#"{"data_dir": "/d", "bind_addr": "127.0.0.1", "server": [{"enabled": true, "bootstrap_expect": 1}],
        "client": {"enabled": true, "meta": [{"a": "b"}], "reserved": {"cpu": 7}},
        "plugin": [{"raw_exec": [{"config": [{"enabled": true}]}]}], "//": "a remark"}"#;
    let hcl = r#"data_dir = "/d" bind_addr = "127.0.0.1" server { enabled = true bootstrap_expect = 1 }
        client { enabled = true meta { a = "b" } reserved { cpu = 7 } }
        plugin "raw_exec" { config { enabled = true } }"#;
    let one = load(&sources(false, &[("a.json", json)], &[])).unwrap();
    assert_eq!(one, load(&sources(false, &[("a.hcl", hcl)], &[])).unwrap());
    assert!(one.config.client.raw_exec_enabled);
}

#[test]
fn later_sources_win_and_zeros_say_nothing() {
    let first = r#"region = "a" log_json = true client { meta { x = "1" y = "1" } cpu_total_compute = 7 }"#;
    let second = r#"region = "" log_json = false client { meta { y = "2" } cpu_total_compute = 0 }"#;
    let files = [("base.hcl", BASE), ("1.hcl", first), ("2.hcl", second)];
    let config = load(&sources(false, &files, &[])).unwrap().config;
    assert_eq!(
        (config.region.as_str(), config.log.json, config.client.cpu_total_compute_mhz),
        ("a", true, 7)
    );
    assert_eq!(config.client.meta, [("x".into(), "1".into()), ("y".into(), "2".into())].into());
    let flags =
        [("region", "f"), ("client.meta", "x=3=4"), ("client.node_class", "big"), ("log_level", "TRACE")];
    let config = load(&sources(false, &files, &flags)).unwrap().config;
    assert_eq!((config.region.as_str(), config.client.node_class.as_str()), ("f", "big"));
    assert_eq!((config.client.meta["x"].as_str(), config.log.level), ("3=4", LogLevel::Trace));
}

#[test]
fn configuration_errors_name_their_place() {
    for (text, expected) in [
        ("regoin = \"x\"", "more.hcl:1,1-7: Unknown configuration key \"regoin\"; did you mean \"region\"?"),
        (
            "server {\n  heartbeat_gracee = \"1s\"\n}",
            "more.hcl:2,3-19: Unknown configuration key \"server.heartbeat_gracee\"; did you mean \"server.heartbeat_grace\"?",
        ),
        ("acl { enabled = true }", "more.hcl:1,7-14: not supported yet: acl.enabled"),
        ("client { drain_on_shutdown { } }", "not supported yet: client.drain_on_shutdown"),
        (
            "plugin \"raw_exec\" { config { denied_envvars = [\"A\"] } }",
            "not supported yet: plugin.raw_exec.config.denied_envvars",
        ),
        ("client { host_volume \"v\" {} }", "client.host_volume \"v\" has no path"),
        ("client { host_volume \"v\" { path = \"v\" } }", "must be an absolute path"),
        ("client { host_network \"a b\" {} }", "may only have letters"),
        ("client { host_network \"a\" { cidr = \"10.0.0.1\" } }", "no range of addresses"),
        ("client { reserved { reserved_ports = \"9-8\" } }", "no range of ports"),
        ("client { min_dynamic_port = 40000 }", "is above client.max_dynamic_port 32000"),
        ("keyring \"awskms\" { }", "more.hcl:1,9-17: not supported yet: keyring \"awskms\""),
        ("enable_syslog = true", "not supported yet: enable_syslog"),
        ("log_level = \"loud\"", "more.hcl:1,13-19: Invalid value of log_level; \"loud\" is no log level"),
        ("data_dir = \"relative\"", "must be an absolute path"),
        ("bind_addr = \"{{ GetPrivateIP }}\"", "not supported yet: address templates"),
        ("bind_addr = \"host\"", "\"host\" is not an IP address"),
        ("ports { http = 70000 }", "it must be from 1 to 65535"),
        ("ports { http = -1 }", "\"-1\" is not a whole number"),
        ("server { heartbeat_grace = \"soon\" }", "is not a duration"),
        ("server { heartbeat_grace = \"-1s\" }", "it may not be negative"),
        ("server { job_max_source_size = \"5M\" }", "is more than a request may hold"),
        ("server { job_max_source_size = \"1T\" }", "write it like 1M, 512KiB or 1000000"),
        ("server { job_max_source_size = \"M\" }", "is no size"),
        ("server { job_tracked_versions = 101 }", "100"),
        ("server { search { limit_query = 10001 } }", "10000"),
        ("client { cgroup_parent = \"x\" }", "not supported yet: client.cgroup_parent"),
        ("client { gc_max_allocs = 10001 }", "it must be from 1 to 10000"),
        ("log_file = \"here.log\"", "must be an absolute path"),
        ("log_rotate_max_files = -2", "it must be -1 or more"),
        ("log_rotate_max_files = \"few\"", "is not a whole number"),
        ("telemetry { prefix_filter = [\"raft\"] }", "begins neither with"),
        ("telemetry { prefix_filter = \"+raft\" }", "telemetry.prefix_filter must be a list"),
        ("telemetry { prefix_filter = [1] }", "it must be a text"),
        ("advertise { http = \"10.0.0.1:0\" }", "\"0\" is no port"),
        ("advertise { http = \"a b\" }", "neither an address nor a host's name"),
        ("advertise { http = \"http://a\" }", "no port"),
        ("advertise { http = \"{{ GetPrivateIP }}\" }", "not supported yet: address templates"),
        ("server { enabled = \"maybe\" }", "neither true nor false"),
        ("server = 3", "server must be a block"),
        ("region = [\"a\"]", "it must be a single value"),
        ("client { meta { \"a b\" = \"c\" } }", "is no metadata key"),
        ("client { meta { a = [1] } }", "client.meta.a must be a text"),
        ("region = \"x", "more.hcl:1,10-12: Syntax error; a closing quote is missing"),
        ("region \"x\"", "either \"=\" and a value or a block"),
        ("server {", "a closing brace is missing"),
        ("region = eu", "put text in double quotes"),
        ("server { bootstrap_expect = 17 }", "it must be from 1 to 16"),
        ("server { job_max_priority = 50 }", "must be from 100 to 32766"),
        ("server { job_default_priority = 100 }", "must be from 50 to 99"),
        ("client { node_pool = \"all\" }", "may not be \"all\""),
    ] {
        let found = refusals(text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:#?}");
    }
}

#[test]
fn all_configuration_errors_are_reported_together() {
    let found = refusals("regoin = \"x\"\nlog_level = \"loud\"\nserver { oidc_issuer = \"k\" }\n");
    assert_eq!(found.len(), 3, "{found:#?}");
}

#[test]
fn harmless_values_of_unbuilt_features_are_accepted() {
    let text = r#"
        tls { http = false ca_file = "" rpc = false }
        acl { enabled = false }
        leave_on_interrupt = false
        client { no_host_uuid = true servers = [] gc_disk_usage_threshold = 80 }
        server { retry_join = [] job_max_count = 50000 }
    "#;
    let loaded = load(&sources(false, &[("base.hcl", BASE), ("more.hcl", text)], &[])).unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn a_configuration_written_for_nomad_is_accepted() {
    let text = r#"
        leave_on_interrupt = true
        advertise { http = "10.0.0.1" rpc = "10.0.0.1" serf = "10.0.0.1" }
        addresses { rpc = "0.0.0.0" serf = "0.0.0.0" }
        ports { http = 4646 rpc = 4647 serf = 4648 }
        autopilot { cleanup_dead_servers = true }
        ui { enabled = true label { text = "lab" } }
        consul { address = "127.0.0.1:8500" }
        plugin "docker" { config { volumes { enabled = true } } }
        server { encrypt = "cg8StVXbQJ0gPvMd9o7yrg==" server_join { retry_join = ["10.0.0.1:4648"] retry_max = 3 } }
        client { servers = ["127.0.0.1:4647"] options { "docker.cleanup.image" = "false" } template { max_stale = "1h" } }
    "#;
    let loaded = load(&sources(false, &[("base.hcl", BASE), ("more.hcl", text)], &[])).unwrap();
    assert_eq!(loaded.config.client.options["docker.cleanup.image"], "false");
    for warning in [
        "more.hcl: advertise.serf has no effect: servers do not gossip: one UDP port, `ports.rpc`, is for all that they say",
        "more.hcl: plugin \"docker\" has no effect: drover has no such driver: jobs that ask for it find no node",
        "client.options.docker.cleanup.image has no effect: it is kept and shown",
    ] {
        assert!(loaded.warnings.iter().any(|w| w == warning), "{warning}: {:#?}", loaded.warnings);
    }
    assert_eq!(loaded.warnings.len(), 10, "{:#?}", loaded.warnings);
}

#[test]
fn an_agent_needs_a_role_and_a_place_for_its_data() {
    let server = "server { enabled = true bootstrap_expect = 1 }";
    for (text, expected) in [
        ("", "Neither server nor client is enabled"),
        (server, "data_dir is missing"),
        ("client { enabled = true }", "data_dir is missing"),
        (
            "data_dir = \"/d\" client { enabled = true } server { enabled = true }",
            "bootstrap_expect is missing",
        ),
        ("client { enabled = true } server { enabled = true bootstrap_expect = 1 }", "data_dir is missing"),
    ] {
        let text = format!("bind_addr = \"127.0.0.1\" {text}");
        let found = load(&sources(false, &[("a.hcl", &text)], &[])).unwrap_err();
        assert!(found[0].contains(expected), "{text}: {found:?}");
    }
}

#[test]
fn hostile_texts_are_refused_and_change_nothing() {
    for text in ["[", "{", "a {", "a = [", "\"a\" \"b\" ", "a = {b = ", "/*", "a = <<", "-", "a = \"\\u12"] {
        for repeat in [1, 3, 100_000] {
            let long = text.repeat(repeat);
            assert!(!refusals(&long).is_empty(), "{text:?} x {repeat}");
        }
    }
    let long = format!("region = \"{}\"", "x".repeat(1 << 20));
    assert!(refusals(&long)[0].contains("longer than 1048576 bytes"));
}

#[test]
fn the_banner_is_aligned_to_the_right() {
    let config = load(&sources(true, &[], &[])).unwrap().config;
    let expected = "\
==> drover agent configuration:

   Advertise Addrs: HTTP: 127.0.0.1:4646
        Bind Addrs: HTTP: 127.0.0.1:4646
            Client: true
         Log Level: DEBUG
           Node Id: 1234
            Region: global (DC: dc1)
            Server: true
           Version: v0.1.0

==> drover agent started! Log data will stream in below:
";
    assert_eq!(banner(&config, "v0.1.0", Some("1234")), expected);
}
