//! Regions of several agents, each with its own UDP port on the loopback interface.

use crate::node::{Node, path, shell_job, text};
use crate::{wait, web};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Elections, handshakes and syncs of several agents share a machine with all other tests.
const PATIENCE: Duration = Duration::from_secs(60);
pub const KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
const OTHER_KEY: &str = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";

struct Server {
    node: Node,
    rpc: u16,
}

impl Server {
    /// Nothing runs yet.
    fn new() -> Server {
        Server { node: Node::new(), rpc: free_udp_port() }
    }

    /// Without a key the server has joined, or joins.
    fn start(&mut self, expect: u32, key: &str, others: &[u16], more: &str) {
        let encrypt = if key.is_empty() { String::new() } else { format!("encrypt = \"{key}\"") };
        let others: Vec<String> = others.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let config = format!(
            "name = \"server-{rpc}\"\ndata_dir = \"{dir}\"\nbind_addr = \"127.0.0.1\"\n\
             ports {{\n http = {http}\n rpc = {rpc}\n}}\n\
             server {{\n enabled = true\n bootstrap_expect = {expect}\n {encrypt}\n\
             server_join {{\n retry_join = [{others}]\n retry_interval = \"1s\"\n {more}\n}}\n}}\n\
             client {{ enabled = true }}\nplugin \"raw_exec\" {{\n config {{ enabled = true }}\n}}\n",
            rpc = self.rpc,
            dir = self.node.data_dir().display(),
            http = self.node.port,
            others = others.join(", "),
        );
        self.node.write("agent.hcl", &config);
        self.start_again();
    }

    fn start_again(&mut self) {
        let config = self.node.write("start", "").with_file_name("agent.hcl");
        self.node.spawn(&["agent", "-config", path(&config)]);
    }

    /// `None`: it does not answer, or not with a success.
    fn get(&self, target: &str) -> Option<Value> {
        let answer = web::try_send(self.node.port, "GET", target, "").ok()?;
        (answer.status == 200).then(|| answer.json())
    }

    fn voters(&self) -> usize {
        let config = self.get("/v1/operator/raft/configuration").unwrap_or_default();
        let servers = config["Servers"].as_array().cloned().unwrap_or_default();
        servers.iter().filter(|server| server["Voter"] == true).count()
    }

    fn leader(&self) -> Option<u16> {
        let leader = self.get("/v1/status/leader")?;
        leader.as_str()?.rsplit_once(':')?.1.parse().ok()
    }

    /// A write that is repeated until it is taken.
    #[track_caller]
    fn registers(&self, id: &str) {
        let body = json!({"Job": shell_job(id, "exec sleep 1000")}).to_string();
        within(&format!("{id} is registered"), || {
            let answer = web::try_send(self.node.port, "PUT", "/v1/jobs", &body).ok()?;
            (answer.status == 200).then_some(())
        });
    }

    #[track_caller]
    fn runs(&self, id: &str) {
        within(&format!("{id} runs, as {} shows it", self.rpc), || {
            let allocs = self.get(&format!("/v1/job/{id}/allocations"))?;
            allocs.as_array()?.iter().any(|a| text(&a["ClientStatus"]) == "running").then_some(())
        });
    }
}

pub fn free_udp_port() -> u16 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = u64::from(std::process::id() % 160) * 100;
    wait::until("a free port", || {
        let port = (12_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 16_000) as u16;
        UdpSocket::bind(("127.0.0.1", port)).ok().map(|_| port)
    })
}

#[track_caller]
pub fn within<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait::within(PATIENCE, look).unwrap_or_else(|| panic!("waited {PATIENCE:?} in vain: {what}"))
}

#[track_caller]
fn await_voters(servers: &[Server]) {
    for server in servers {
        within(&format!("{} sees {} voters", server.rpc, servers.len()), || {
            (server.voters() == servers.len() && server.leader().is_some()).then_some(())
        });
    }
}

/// A region of three that has begun with empty disks.
fn three() -> [Server; 3] {
    let mut servers = [Server::new(), Server::new(), Server::new()];
    let ports = servers.each_ref().map(|server| server.rpc);
    servers.iter_mut().for_each(|server| server.start(3, KEY, &ports, ""));
    await_voters(&servers);
    servers
}

#[test]
fn three_empty_servers_begin_a_region_and_any_takes_a_write() {
    let servers = three();
    for (n, server) in servers.iter().enumerate() {
        server.registers(&format!("job-{n}"));
    }
    for server in &servers {
        (0..3).for_each(|n| server.runs(&format!("job-{n}")));
        let members = server.node.drover(&["server", "members"]);
        let listed = members.exits(0);
        assert!(servers.iter().all(|other| listed.contains(&format!("server-{}", other.rpc))), "{listed}");
    }
}

#[test]
fn a_single_server_grows_to_three() {
    let mut first = Server::new();
    first.start(1, KEY, &[], "");
    first.registers("before");
    let rpc = first.rpc;
    let mut servers = [first, Server::new(), Server::new()];
    servers[1..].iter_mut().for_each(|server| server.start(0, KEY, &[rpc], ""));
    await_voters(&servers);
    servers[2].runs("before");
    servers[2].registers("after");
    servers[0].runs("after");
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back() {
    let mut servers = three();
    servers[0].registers("before");
    let leader = within("a leader is known", || servers[0].leader());
    let at = servers.iter().position(|server| server.rpc == leader).expect("one of the three leads");
    servers[at].node.kill();
    let others = [(at + 1) % 3, (at + 2) % 3];
    within("another one leads", || servers[others[0]].leader().filter(|now| *now != leader));
    servers[others[0]].registers("without");
    servers[others[1]].registers("without-2");
    servers[at].start_again();
    servers[at].runs("before");
    for id in ["without", "without-2"] {
        servers[at].runs(id);
    }
    servers[at].registers("again");
}

#[test]
fn logs_of_another_machines_task_are_shown() {
    let servers = three();
    let body = json!({"Job": shell_job("says", "echo written by it; exec sleep 1000")}).to_string();
    within("says is registered", || {
        let answer = web::try_send(servers[0].node.port, "PUT", "/v1/jobs", &body).ok()?;
        (answer.status == 200).then_some(())
    });
    servers[0].runs("says");
    let allocs = servers[0].get("/v1/job/says/allocations").expect("it runs");
    let alloc = text(&allocs[0]["ID"]).to_string();
    for server in &servers {
        within("its words are shown", || {
            let said = server.node.drover(&["alloc", "logs", &alloc]);
            said.exits(0).contains("written by it").then_some(())
        });
        let stats = server.node.drover(&["alloc", "exec", &alloc, "echo", "in a session"]);
        assert!(stats.exits(0).contains("in a session"));
    }
}

/// Far sooner than an election would have another one lead.
#[test]
fn a_leader_that_is_stopped_hands_leadership_over() {
    let mut servers = three();
    servers[0].registers("before");
    let leader = within("a leader is known", || servers[0].leader());
    let at = servers.iter().position(|server| server.rpc == leader).expect("one of the three leads");
    servers[at].node.signal(Signal::TERM);
    let (_, printed) = servers[at].node.await_end();
    assert!(printed.contains("another server leads now"), "{printed}");
    servers[(at + 1) % 3].registers("without");
}

#[test]
fn a_server_with_another_key_is_refused_and_both_say_why() {
    let mut first = Server::new();
    first.start(1, KEY, &[], "");
    first.registers("web");
    let mut other = Server::new();
    other.start(0, OTHER_KEY, &[first.rpc], "retry_max = 1");
    let (status, printed) = other.node.await_end();
    assert_eq!(status.code(), Some(1), "{printed}");
    let sentence = "give all servers of the region the same server.encrypt";
    assert!(printed.contains(sentence) && printed.contains("retry_join"), "{printed}");
    assert!(first.node.printed().contains(sentence), "{}", first.node.printed());
    assert_eq!(first.voters(), 1);
}

/// With the configuration of the others: it names them, and says nothing of how many there are to be.
#[test]
fn the_first_server_begins_without_the_others() {
    let mut first = Server::new();
    let dir = first.node.data_dir();
    let init = first.node.drover(&["server", "init", "-data-dir", path(&dir)]);
    assert!(init.exits(0).contains("has the key of region \"global\""));
    assert!(dir.join("identity/founder").exists());
    first.start(0, "", &[free_udp_port(), first.rpc], "");
    first.registers("web");
    first.node.signal(Signal::TERM);
    first.node.await_end();
    first.start_again();
    first.runs("web");
    assert!(!dir.join("identity/founder").exists(), "the region has begun");
}

/// The first one makes the region's key, one joins by the command, one by its configuration: nobody is told it, or writes it down.
#[test]
fn servers_join_a_region_with_a_token() {
    let mut first = Server::new();
    first.start(1, "", &[], "");
    first.registers("web");
    let no_key = first.node.drover(&["token", "create", "-role", "server"]);
    no_key.fails(1, "this region has no key that machines could know it by");
    let dir = first.node.data_dir();
    let init = ["server", "init", "-data-dir", path(&dir)];
    first.node.drover(&init).fails(1, "another drover agent is using it");
    first.node.signal(Signal::TERM);
    first.node.await_end();
    assert!(first.node.drover(&init).exits(0).contains("has the key of region \"global\""));
    first.node.drover(&init).fails(1, "has joined region \"global\" already");
    first.start_again();
    first.runs("web");
    let made = |uses: &str| {
        let create = ["token", "create", "-role", "server", "-uses", uses, "-t", "{{ .JoinToken }}"];
        first.node.drover(&create).exits(0).trim().to_string()
    };
    let (by_command, by_config) = (made("1"), made("1"));
    let address = format!("127.0.0.1:{}", first.rpc);
    let mut second = Server::new();
    let dir = second.node.data_dir();
    let joined = second.node.drover(&["join", "-data-dir", path(&dir), &by_command, &address]);
    assert!(joined.exits(0).contains("has joined region \"global\" as a server"));
    second.start(0, "", &[first.rpc], "");
    let mut third = Server::new();
    third.start(0, "", &[first.rpc], &format!("join_token = \"{by_config}\""));
    let mut servers = [first, second, third];
    await_voters(&servers);
    servers[2].runs("web");
    let late = Server::new();
    let refused =
        late.node.drover(&["join", "-data-dir", path(&late.node.data_dir()), &by_command, &address]);
    refused.fails(1, "the join token is used up");
    // what it was given is on its disk, and the token counts for nothing
    servers[1].node.signal(Signal::TERM);
    servers[1].node.await_end();
    servers[1].start_again();
    await_voters(&servers);
    for server in &servers {
        let printed = server.node.printed();
        assert!(!printed.contains(&by_config[40..]) && !printed.contains(&by_command[40..]), "{printed}");
    }
    let listed = servers[0].node.drover(&["token", "list"]);
    assert_eq!(listed.exits(0).matches("0/1").count(), 2);
}
