//! What a server is told of its region: addresses, the key, how many begin it; and what is refused of that.

use super::*;
use crate::config::region::missing_key;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use joining::JoinAddress;

fn loaded(more: &str) -> Loaded {
    load(&sources(false, &[("base.hcl", BASE), ("key.hcl", SHARED_KEY), ("more.hcl", more)], &[])).unwrap()
}

fn joined(config: &Config) -> Vec<String> {
    config.server.join.addresses().map(JoinAddress::to_string).collect()
}

#[test]
fn an_address_is_a_host_with_or_without_a_port() {
    for (text, expected) in [
        ("board-1", "board-1:4647"),
        ("Board-1.Local:5000", "board-1.local:5000"),
        ("10.0.0.1", "10.0.0.1:4647"),
        ("10.0.0.1:5000", "10.0.0.1:5000"),
        (" 10.0.0.1 ", "10.0.0.1:4647"),
        ("fd00::1", "[fd00::1]:4647"),
        ("[fd00::1]", "[fd00::1]:4647"),
        ("[fd00:0:0::1]:5000", "[fd00::1]:5000"),
        ("::ffff:10.0.0.1", "10.0.0.1:4647"),
    ] {
        assert_eq!(JoinAddress::parse(text).unwrap().to_string(), expected, "{text}");
    }
}

#[test]
fn what_is_no_servers_address_is_refused_with_a_sentence() {
    let long = "a".repeat(254);
    for (text, expected) in [
        ("0.0.0.0", "no server's address"),
        ("0.0.0.0:4647", "no server's address"),
        ("[::]:4647", "no server's address"),
        ("224.0.0.1", "no server's address"),
        ("ff02::1", "no server's address"),
        ("255.255.255.255", "no server's address"),
        ("::ffff:0.0.0.0", "no server's address"),
        ("10.0.0", "neither an IP address nor a host's name"),
        ("300.0.0.1", "neither an IP address nor a host's name"),
        ("10.0.0.1:0", "\"0\" is no port"),
        ("10.0.0.1:70000", "\"70000\" is no port"),
        ("http://a", "is no port"),
        ("a b", "neither an address nor a host's name"),
        ("", "neither an address nor a host's name"),
        ("{{ GetPrivateIP }}", "not supported yet: address templates"),
        ("provider=aws tag_key=a", "not supported yet: cloud auto-join"),
        ("exec=/bin/servers", "not supported yet: cloud auto-join"),
        (&long, "at most 253 bytes"),
    ] {
        let found = JoinAddress::parse(text).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
        let refused = refusals(&format!("{SHARED_KEY} server {{ retry_join = [{text:?}] }}"));
        assert!(refused.len() == 1 && refused[0].contains(expected), "{text}: {refused:?}");
    }
}

#[test]
fn both_names_of_a_key_fill_one_list_without_repetition() {
    let config = loaded(
        "server { retry_join = [\"10.0.0.2\", \"b\"] server_join { retry_join = [\"10.0.0.2:4647\", \"c\"] start_join = [\"B\"] } }",
    )
    .config;
    assert_eq!(joined(&config), ["10.0.0.2:4647", "b:4647", "c:4647", "b:4647"]);
    assert_eq!((config.server.join.retry_max, config.server.join.retry_interval), (0, Span::seconds(30)));
}

#[test]
fn at_most_32_addresses_are_taken() {
    let listed = |count: usize| {
        let all: Vec<String> = (0..count).map(|n| format!("\"s{n}\"")).collect();
        format!("{SHARED_KEY} server {{ retry_join = [{}] start_join = [\"other\"] }}", all.join(","))
    };
    assert_eq!(refusals(&listed(31)), Vec::<String>::new());
    let found = refusals(&listed(32));
    assert!(found.len() == 1 && found[0].contains("at most 32 addresses"), "{found:?}");
}

#[test]
fn a_servers_own_addresses_are_not_joined() {
    for (text, expected) in [
        ("server { retry_join = [\"127.0.0.1\", \"localhost\", \"board\", \"[::1]:4647\"] }", &[][..]),
        ("server { retry_join = [\"192.0.2.7\", \"192.0.2.8\"] }", &["192.0.2.8:4647"]),
        (
            "bind_addr = \"127.0.0.1\" server { retry_join = [\"127.0.0.1\", \"127.0.0.2\"] }",
            &["127.0.0.2:4647"],
        ),
        ("server { retry_join = [\"127.0.0.1:5647\"] }", &["127.0.0.1:5647"]),
        ("ports { rpc = 5647 } server { retry_join = [\"127.0.0.1:5647\"] }", &[]),
        ("advertise { rpc = \"a:99\" } server { retry_join = [\"A:99\", \"a:98\"] }", &["a:98"]),
        ("advertise { rpc = \"[fd00::1]\" } server { retry_join = [\"fd00::1\"] }", &[]),
        ("server { retry_join = [\"127.0.0.1:4648\"] }", &[]),
    ] {
        assert_eq!(joined(&loaded(text).config), expected, "{text}");
    }
}

#[test]
fn others_are_refused_without_a_shared_key() {
    for (text, why) in [
        ("server { retry_join = [\"10.0.0.2\"] }", "another server is named, 10.0.0.2:4647"),
        ("server { server_join { start_join = [\"b\"] } }", "another server is named, b:4647"),
        ("server { bootstrap_expect = 3 }", "server.bootstrap_expect is 3"),
    ] {
        let found = missing_key(&with(text)).unwrap();
        let make = "`drover operator gossip keyring generate`";
        assert!(
            found.contains(why) && found.contains(make) && found.contains("`drover join`"),
            "{text}: {found}"
        );
        assert_eq!(missing_key(&loaded(text).config), None, "{text}");
    }
}

#[test]
fn a_key_has_16_24_or_32_bytes_in_base64() {
    for bytes in [0, 15, 16, 17, 24, 31, 32, 33, 64] {
        let key = STANDARD.encode(vec![1; bytes]);
        let found = refusals(&format!("server {{ encrypt = {key:?} }}"));
        assert_eq!(found.is_empty(), matches!(bytes, 0 | 16 | 24 | 32), "{bytes}: {found:?}");
        assert!(!found.iter().any(|why| why.contains(&key)), "{found:?}");
    }
    for text in ["not base64!", "a2V5", "cg8StVXbQJ0gPvMd9o7yrg"] {
        let found = refusals(&format!("server {{ encrypt = {text:?} }}"));
        assert!(found[0].contains("it must be a key of 32 bytes"), "{found:?}");
        assert!(!found[0].contains(text), "{found:?}");
    }
}

#[test]
fn others_are_told_an_address_that_they_can_reach() {
    for (text, expected) in [
        ("", "192.0.2.7:4647"),
        ("bind_addr = \"10.0.0.1\"", "10.0.0.1:4647"),
        ("addresses { rpc = \"10.0.0.1\" }", "10.0.0.1:4647"),
        ("advertise { rpc = \"a.local\" }", "a.local:4647"),
    ] {
        assert_eq!(loaded(text).config.advertised_rpc(), expected, "{text}");
    }
    assert_eq!(with("").advertised_rpc(), "0.0.0.0:4647", "a region of one is shown as it is bound");
    let alone = HostDefaults { address: None, ..machine() };
    let files = [("base.hcl", BASE), ("key.hcl", SHARED_KEY)];
    let found = Config::load(&sources(false, &files, &[]), &alone).unwrap_err();
    assert!(found[0].to_string().contains("advertise.rpc is missing"), "{found:?}");
    let text = format!("{SHARED_KEY} bind_addr = \"127.0.0.1\" server {{ retry_join = [\"10.0.0.2\"] }}");
    let found = refusals(&text);
    assert!(found[0].contains("cannot reach this server at 127.0.0.1:4647"), "{found:?}");
}

#[test]
fn a_server_that_waits_for_others_says_so() {
    let server = |more: &str| {
        format!(
            "data_dir = \"/d\" addresses {{ http = \"127.0.0.1\" }} client {{ enabled = true }} \
             server {{ enabled = true {more} }}"
        )
    };
    let key = "encrypt = \"cg8StVXbQJ0gPvMd9o7yrg==\"";
    for (more, expected) in [
        (format!("{key} retry_join = [\"a\"]"), ""),
        (format!("{key} retry_join = [\"a\"] bootstrap_expect = 3"), ""),
        (format!("{key} bootstrap_expect = 3"), "is 3, and no other server is named: this one waits"),
        (key.to_string(), "is 0, and no other server is named: this one waits"),
        (format!("{key} retry_join = [\"a\"] bootstrap_expect = 4"), "an even number of servers"),
        (format!("{key} retry_join = [\"a:4648\"]"), "the port at which Nomad's servers gossip"),
    ] {
        let text = server(&more);
        let warnings = load(&sources(false, &[("a.hcl", text.as_str())], &[])).unwrap().warnings;
        assert_eq!(warnings.len(), usize::from(!expected.is_empty()), "{more}: {warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains(expected)), "{more}: {warnings:?}");
    }
}

#[test]
fn a_client_with_a_server_of_its_own_asks_no_other() {
    let warned =
        |text: &str| load(&sources(false, &[("base.hcl", BASE), ("more.hcl", text)], &[])).unwrap().warnings;
    assert_eq!(warned("client { servers = [\"127.0.0.1:4647\"] }"), Vec::<String>::new());
    for text in
        ["client { servers = [\"10.0.0.2\"] }", "client { server_join { retry_join = [\"10.0.0.2\"] } }"]
    {
        let found = warned(text);
        assert!(found.len() == 1 && found[0].contains("the agent's own server is asked"), "{found:?}");
    }
}

#[test]
fn flags_add_to_what_files_name() {
    let flags = [
        ("server.server_join.retry_join", "10.0.0.3:4647"),
        ("server.server_join.retry_join", "b"),
        ("server.server_join.retry_interval", "7s"),
        ("server.encrypt", "cg8StVXbQJ0gPvMd9o7yrg=="),
    ];
    let file = "server { retry_join = [\"10.0.0.2\"] }";
    let config = load(&sources(false, &[("base.hcl", BASE), ("more.hcl", file)], &flags)).unwrap().config;
    assert_eq!(joined(&config), ["10.0.0.2:4647", "10.0.0.3:4647", "b:4647"]);
    assert_eq!(config.server.join.retry_interval, Span::seconds(7));
    let wrong = [("server.server_join.retry_join", "0.0.0.0")];
    let found = load(&sources(false, &[("base.hcl", BASE)], &wrong)).unwrap_err();
    assert!(found[0].contains("-flag") && found[0].contains("no server's address"), "{found:?}");
}

const EXAMPLE: &str = include_str!("../../../../config/server.hcl");

#[test]
fn the_example_of_a_server_lacks_its_key_alone() {
    let client = "client { enabled = true }";
    let alone =
        load(&sources(false, &[("server.hcl", EXAMPLE), ("client.hcl", client)], &[])).unwrap().config;
    assert!(missing_key(&alone).unwrap().contains("server.encrypt is missing"));
    let files = [("server.hcl", EXAMPLE), ("key.hcl", SHARED_KEY), ("client.hcl", client)];
    let Loaded { config, warnings, .. } = load(&sources(false, &files, &[])).unwrap();
    assert_eq!((config.server.bootstrap_expect, warnings), (3, Vec::new()));
    assert_eq!(joined(&config), ["10.0.0.2:4647", "10.0.0.3:4647"]);
}

const CLIENT_EXAMPLE: &str = include_str!("../../../../config/client.hcl");

#[test]
fn the_example_of_a_node_lacks_its_identity_alone() {
    let Loaded { config, warnings, .. } =
        load(&sources(false, &[("client.hcl", CLIENT_EXAMPLE)], &[])).unwrap();
    assert!(missing_key(&config).unwrap().contains("drover join"));
    assert_eq!((config.server.enabled, warnings), (false, Vec::new()));
    let named: Vec<String> = config.client.join.addresses().map(ToString::to_string).collect();
    assert_eq!(named, ["10.0.0.1:4647", "10.0.0.2:4647", "10.0.0.3:4647"]);
}

#[test]
fn a_node_that_names_no_server_is_told() {
    let text = "data_dir = \"/d\" bind_addr = \"127.0.0.1\" client { enabled = true }";
    let Loaded { warnings, .. } = load(&sources(false, &[("a.hcl", text)], &[])).unwrap();
    assert!(warnings.iter().any(|w| w.contains("no server is named")), "{warnings:?}");
}
