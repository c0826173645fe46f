//! What a machine that has joined, or is to join, takes and refuses, before any server is asked.

use super::*;
use crate::config::{FlagSetting, HostDefaults, SourceFile, Sources};
use ::io::quic::RegionKey;
use std::path::PathBuf;
use wire::bearer_token::TokenSecret;
use wire::stored_identity::HiddenBytes;

/// A data directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("drover-enrolment-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Scratch(path)
    }

    fn files(&self) -> IdentityFiles {
        IdentityFiles::in_data_dir(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // a test that has failed says why itself
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn config(dir: &Scratch, flags: &[(&'static str, &str)]) -> Config {
    let text = format!(
        "data_dir = {:?}\naddresses {{ http = \"127.0.0.1\" }}\nclient {{ enabled = true }}\nserver {{ enabled = true\n server_join {{ retry_join = [\"192.0.2.1\"] }} }}",
        dir.0
    );
    let files = vec![SourceFile { name: "a.hcl".into(), text }];
    let machine = HostDefaults { hostname: "board".into(), cpus: 4, address: Some([192, 0, 2, 7].into()) };
    let flags = flags.iter().map(|(key, value)| FlagSetting { key, value: value.to_string(), flag: "-flag" });
    let sources = Sources { dev: false, files, flags: flags.collect() };
    Config::load(&sources, &machine).expect("it can be run").config
}

fn identity(region: &str, peer: Peer, secret: Option<[u8; 32]>) -> StoredIdentity {
    let (region_key, key) =
        (RegionKey::from_secret(&[7; 32]).expect("a key"), MachineKey::generate().expect("a key"));
    StoredIdentity {
        credential: region_key.credential_for(region, peer, key.public()),
        key: key.stored().clone(),
        region_key: region_key.public(),
        region_secret: secret.map(|secret| HiddenBytes(secret.to_vec())),
    }
}

fn token(region: &str, role: JoinRole) -> BearerToken {
    let (id, secret) = (model::id::Uuid::from_random(1), TokenSecret([5; 32]));
    BearerToken { region: region.into(), region_key_digest: [1; 32], role, id, secret }
}

fn completed(config: &mut Config) -> Result<(), String> {
    let mut signals = Signals::new().expect("signals");
    complete(config, &mut signals).map_err(|why| why.to_string())
}

#[test]
fn a_server_that_has_joined_has_the_regions_key() {
    let dir = Scratch::new("server");
    let mut config = config(&dir, &[]);
    assert!(lacks_identity(&config).is_some_and(|why| why.contains("server.encrypt is missing")));
    let why = completed(&mut config).expect_err("it has no key");
    assert!(why.contains("server.encrypt is missing") && why.contains("drover join"), "{why}");
    dir.files().store(&identity("global", Peer::Server(7), Some([7; 32]))).expect("it is written");
    assert_eq!(lacks_identity(&config), None);
    assert_eq!(completed(&mut config), Ok(()));
    assert_eq!(config.server.encrypt, Some(Secret::new([7; 32])));
}

/// A server that names nobody, at every address of the machine.
fn lone_server(dir: &Scratch, region: &str) -> Config {
    let text = format!(
        "region = {region:?}\ndata_dir = {:?}\naddresses {{ http = \"127.0.0.1\" }}\nserver {{ enabled = true\n bootstrap_expect = 1 }}",
        dir.0
    );
    let files = vec![SourceFile { name: "a.hcl".into(), text }];
    let machine = HostDefaults { hostname: "board".into(), cpus: 4, address: Some([192, 0, 2, 7].into()) };
    Config::load(&Sources { dev: false, files, flags: vec![] }, &machine).expect("it can be run").config
}

#[test]
fn a_lone_server_that_makes_a_key_can_be_found() {
    let dir = Scratch::new("init");
    let mut config = lone_server(&dir, "europe");
    assert_eq!(completed(&mut config), Ok(()));
    assert!(config.server.encrypt.is_none() && config.rpc.advertise.is_none(), "it is alone");
    assert!(!config.server.founds);
    assert_eq!(init_region(&dir.0, "europe"), Ok(()));
    assert_eq!(completed(&mut config), Ok(()));
    assert!(config.server.founds, "no server has begun the region yet");
    let secret = config.server.encrypt.as_ref().expect("it has a key").bytes().to_vec();
    let machine = files::machine().address;
    assert_eq!(config.rpc.advertise.as_ref().map(|told| told.host.parse().ok()), machine.map(Some));
    let stored = dir.files().load().expect("it can be read").expect("it is written");
    let region = RegionKey::from_secret(&secret).expect("a key");
    assert_eq!((stored.region_key, secret.len()), (region.public(), REGION_SECRET_BYTES));
    let opened = DataDir::open(&dir.0, false).expect("it is free");
    assert_eq!([(); 2].map(|()| region_has_begun(&opened)), [Ok(()), Ok(())]);
    let mut config = lone_server(&dir, "europe");
    assert_eq!(completed(&mut config), Ok(()));
    assert!(!config.server.founds, "a copy of the directory begins no second one");
    let why = completed(&mut lone_server(&dir, "global")).expect_err("it is of another region");
    assert!(why.contains("has joined region \"europe\""), "{why}");
}

/// As after `server init` on the wrong machine, whose identity was removed as the refusal says.
#[test]
fn a_server_that_joins_after_all_founds_nothing() {
    let dir = Scratch::new("after-all");
    assert_eq!(init_region(&dir.0, "global"), Ok(()));
    fs::remove_file(dir.files().path()).expect("it was written");
    dir.files().store(&identity("global", Peer::Server(7), Some([7; 32]))).expect("it is written");
    let mut config = config(&dir, &[]);
    assert_eq!(completed(&mut config), Ok(()));
    assert!(config.server.encrypt.is_some() && !config.server.founds);
}

#[test]
fn the_key_of_a_region_is_made_once_and_never_twice_the_same() {
    let (one, other) = (Scratch::new("first-key"), Scratch::new("second-key"));
    for dir in [&one, &other] {
        assert_eq!(init_region(&dir.0, "global"), Ok(()));
    }
    let key = |dir: &Scratch| dir.files().load().expect("it can be read").map(|stored| stored.region_key);
    let made = key(&one);
    assert!(made.is_some() && made != key(&other));
    let why = init_region(&one.0, "global").expect_err("it has one");
    assert!(
        why.contains("has joined region \"global\" already") && why.contains("identity/identity"),
        "{why}"
    );
    assert_eq!(key(&one), made);
    let running = DataDir::open(&other.0, false).expect("it is free");
    assert!(
        init_region(&other.0, "global").is_err_and(|why| why.contains("another drover agent is using it"))
    );
    drop(running);
    let empty = Scratch::new("name");
    assert!(init_region(&empty.0, &"a".repeat(129)).is_err_and(|why| why.contains("at most 128 bytes")));
    assert_eq!(empty.files().load(), Ok(None));
}

#[test]
fn an_identity_of_another_region_or_role_is_refused() {
    let dir = Scratch::new("other");
    for (stored, expected) in [
        (identity("europe", Peer::Server(7), Some([7; 32])), "has joined region \"europe\""),
        (
            identity("global", Peer::Node(NodeId::default()), None),
            "has joined as a client, and the agent is a server",
        ),
        (identity("global", Peer::Server(7), None), "has joined as a server"),
    ] {
        dir.files().store(&stored).expect("it is written");
        let why = completed(&mut config(&dir, &[])).expect_err("it does not fit");
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_token_for_another_region_or_role_is_refused_unused() {
    let dir = Scratch::new("token");
    for (token, expected) in [
        (token("europe", JoinRole::Server), "the join token is of region \"europe\""),
        (token("global", JoinRole::Client), "the join token is for a client, and this agent is a server"),
    ] {
        let text = token.text();
        let mut config = config(&dir, &[("server.server_join.join_token", &text)]);
        let why = completed(&mut config).expect_err("it does not fit");
        assert!(why.contains(expected) && !why.contains(&text), "{why}");
    }
    let file = dir.0.join("no-token");
    let mut config = config(&dir, &[("server.server_join.join_token_file", file.to_str().expect("text"))]);
    assert!(completed(&mut config).is_err_and(|why| why.contains("join_token_file")));
    fs::write(&file, "drover-join-x").expect("it is written");
    assert!(completed(&mut config).is_err_and(|why| why.contains("is damaged")));
}

#[test]
fn a_machine_joins_once() {
    let dir = Scratch::new("once");
    dir.files().store(&identity("global", Peer::Node(NodeId::default()), None)).expect("it is written");
    let text = token("global", JoinRole::Client).text();
    let why = join(&dir.0, &text, "192.0.2.1").expect_err("it has joined");
    assert!(
        why.contains("has joined region \"global\" already") && why.contains("identity/identity"),
        "{why}"
    );
    assert!(join(&dir.0, "drover-join-x", "192.0.2.1").is_err_and(|why| why.contains("is damaged")));
    assert!(join(&dir.0, &text, "0.0.0.0").is_err_and(|why| why.contains("no server's address")));
}

#[test]
fn a_node_does_not_take_another_nodes_identity() {
    let scratch = Scratch::new("node");
    let dir = DataDir::open(&scratch.0, false).expect("it is free");
    let node = dir.identity().expect("an id").0;
    assert!(node_identity(&dir, node).is_ok_and(|found| found.is_none()), "it has not joined");
    scratch.files().store(&identity("global", Peer::Node(node), None)).expect("it is written");
    let found = node_identity(&dir, node).expect("it is its own").expect("it has joined");
    assert_eq!(found.peer(), Peer::Node(node));
    let other = identity("global", Peer::Node(NodeId::default()), None);
    scratch.files().store(&other).expect("it is written");
    let why = node_identity(&dir, node).err().expect("it is another one's");
    assert!(why.contains("it is the identity of node 0000"), "{why}");
}
