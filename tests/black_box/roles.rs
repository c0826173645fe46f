//! Agents that are only servers, and agents that only run a node, as separate processes that are linked over UDP.

use crate::node::{Node, is_alive, path, shell_job, signal_process, text};
use crate::region::{KEY, free_udp_port, within};
use crate::web;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;

/// Says its process id, and goes on.
const SLEEPS: &str = "echo pid $$; exec sleep 1000";

pub struct Machine {
    pub node: Node,
    pub rpc: u16,
}

impl Machine {
    pub fn new() -> Machine {
        Machine { node: Node::new(), rpc: free_udp_port() }
    }

    fn start(&mut self, roles: &str) {
        let config = format!(
            "name = \"machine-{rpc}\"\ndata_dir = \"{dir}\"\nbind_addr = \"127.0.0.1\"\n\
             ports {{\n http = {http}\n rpc = {rpc}\n}}\n{roles}\nplugin \"raw_exec\" {{\n config {{ enabled = true }}\n}}\n",
            rpc = self.rpc,
            dir = self.node.data_dir().display(),
            http = self.node.port,
        );
        self.node.write("agent.hcl", &config);
        self.start_again();
    }

    fn start_again(&mut self) {
        let config = self.node.write("start", "").with_file_name("agent.hcl");
        self.node.spawn(&["agent", "-config", path(&config)]);
    }

    fn start_server(&mut self, expect: usize, others: &[u16]) {
        let join = addresses(others);
        self.start(&format!(
            "server {{\n enabled = true\n bootstrap_expect = {expect}\n encrypt = \"{KEY}\"\n \
             server_join {{\n retry_join = [{join}]\n retry_interval = \"1s\"\n}}\n}}"
        ));
    }

    pub fn start_node(&mut self, servers: &[u16], more: &str) {
        let join = addresses(servers);
        self.start(&format!(
            "server {{ encrypt = \"{KEY}\" }}\nclient {{\n enabled = true\n server_join {{\n retry_join = [{join}]\n {more}\n}}\n}}"
        ));
    }

    /// `None`: it does not answer, or not with a success.
    pub fn get(&self, target: &str) -> Option<Value> {
        let answer = web::try_send(self.node.port, "GET", target, "").ok()?;
        (answer.status == 200).then(|| answer.json())
    }

    /// A write that is repeated until it is taken.
    #[track_caller]
    pub fn registers(&self, id: &str, script: &str) {
        let mut job = shell_job(id, script);
        job["TaskGroups"][0]["RestartPolicy"]["Attempts"] = json!(3);
        let body = json!({"Job": job}).to_string();
        within(&format!("{id} is registered"), || {
            let answer = web::try_send(self.node.port, "PUT", "/v1/jobs", &body).ok()?;
            (answer.status == 200).then_some(())
        });
    }

    /// What the tasks on this machine's disk have said of their process ids, without asking any agent.
    pub fn told_pids(&self) -> Vec<i32> {
        let dirs = fs::read_dir(self.node.data_dir().join("alloc")).into_iter().flatten().flatten();
        let logs = dirs.filter_map(|dir| fs::read_to_string(dir.path().join("alloc/logs/t.stdout.0")).ok());
        let told = |log: String| {
            log.lines().filter_map(|l| l.strip_prefix("pid ")?.parse().ok()).collect::<Vec<i32>>()
        };
        logs.flat_map(told).collect()
    }

    /// The running allocation of the job, as this machine shows it.
    #[track_caller]
    pub fn runs(&self, id: &str) -> Value {
        within(&format!("{id} runs, as {} shows it", self.rpc), || {
            let allocs = self.get(&format!("/v1/job/{id}/allocations"))?;
            allocs.as_array()?.iter().find(|a| text(&a["ClientStatus"]) == "running").cloned()
        })
    }
}

fn addresses(ports: &[u16]) -> String {
    ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect::<Vec<_>>().join(", ")
}

/// A server that runs no node, and a machine that runs nothing but a node.
pub fn server_and_node() -> (Machine, Machine) {
    let (mut server, mut node) = (Machine::new(), Machine::new());
    server.start_server(1, &[]);
    node.start_node(&[server.rpc], "");
    (server, node)
}

/// Three servers that run no node, and a node.
pub fn three_servers_and_node() -> ([Machine; 3], Machine) {
    let mut servers = [Machine::new(), Machine::new(), Machine::new()];
    let ports = servers.each_ref().map(|server| server.rpc);
    servers.iter_mut().for_each(|server| server.start_server(3, &ports));
    let mut node = Machine::new();
    node.start_node(&ports, "");
    (servers, node)
}

#[test]
fn a_node_alone_runs_what_servers_place_and_asks_them() {
    let (server, node) = server_and_node();
    node.registers("web", &format!("echo written by it; {SLEEPS}"));
    let alloc = server.runs("web");
    assert_eq!(node.runs("web")["ID"], alloc["ID"], "a node's agent asks its server");
    let nodes = server.get("/v1/nodes").expect("nodes are listed");
    assert_eq!(nodes.as_array().map(Vec::len), Some(1), "the server runs none: {nodes}");
    let id = text(&alloc["ID"]);
    for machine in [&server, &node] {
        within("its words are shown", || {
            let said = machine.node.drover(&["alloc", "logs", id]);
            said.exits(0).contains("written by it").then_some(())
        });
    }
    let asked = server.get("/v1/agent/self").expect("it is an agent");
    assert_eq!(
        (&asked["config"]["Server"]["Enabled"], &asked["config"]["Client"]["Enabled"]),
        (&json!(true), &json!(false))
    );
    let stats = web::try_send(server.node.port, "GET", "/v1/client/stats", "").expect("an answer");
    assert!(stats.status >= 400 && !stats.text().is_empty(), "a server has no node");
    node.node.drover(&["job", "stop", "-detach", "web"]).exits(0);
    within("it is stopped", || (server.get("/v1/job/web")?["Status"] == "dead").then_some(()));
}

#[test]
fn a_nodes_task_goes_on_when_its_server_dies() {
    let (mut servers, node) = three_servers_and_node();
    node.registers("web", SLEEPS);
    node.runs("web");
    let pid = node.node.await_pid("web");
    let at = servers
        .iter()
        .position(|server| node.node.printed().contains(&format!("address=127.0.0.1:{}", server.rpc)))
        .expect("the node tells its server");
    servers[at].node.kill();
    node.registers("after", SLEEPS);
    node.runs("after");
    assert!(is_alive(pid), "nothing was restarted");
    servers[at].start_again();
    servers[at].runs("after");
}

/// As after a power cut, but for the boot: nothing of the node's processes is left.
#[test]
fn a_node_starts_its_tasks_without_any_server() {
    let (mut server, mut node) = server_and_node();
    node.registers("web", SLEEPS);
    node.runs("web");
    let pid = node.node.await_pid("web");
    server.node.kill();
    let keeper = node.node.keeper_pid();
    node.node.kill();
    signal_process(keeper, Signal::KILL);
    signal_process(pid, Signal::KILL);
    node.start_again();
    let again = within("the task runs again", || {
        node.told_pids().into_iter().find(|told| *told != pid && is_alive(*told))
    });
    server.start_again();
    let alloc = server.runs("web");
    node.registers("after", SLEEPS);
    server.runs("after");
    assert_eq!(server.runs("web")["ID"], alloc["ID"], "it is the same allocation");
    assert!(is_alive(again), "a server that is back restarts nothing");
}

#[test]
fn a_node_that_no_server_knows_is_refused_and_gives_up() {
    let mut server = Machine::new();
    server.start_server(1, &[]);
    server.registers("web", SLEEPS);
    let mut node = Machine::new();
    let join = addresses(&[server.rpc]);
    let key = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";
    node.start(&format!(
        "server {{ encrypt = \"{key}\" }}\nclient {{\n enabled = true\n server_join {{\n retry_join = [{join}]\n retry_max = 1\n}}\n}}"
    ));
    let (status, printed) = node.node.await_end();
    assert_eq!(status.code(), Some(1), "{printed}");
    assert!(printed.contains("no server was reached") && printed.contains("server.encrypt"), "{printed}");
    let nodes = server.get("/v1/nodes").expect("nodes are listed");
    assert_eq!(nodes.as_array().map(Vec::len), Some(0), "{nodes}");
}

/// The node is told no secret of the region, and comes back by what it keeps.
#[test]
fn a_node_joins_with_a_token_and_comes_back_without() {
    let (mut server, mut node) = (Machine::new(), Machine::new());
    server.start_server(1, &[]);
    server.registers("web", SLEEPS);
    let create = ["token", "create", "-role", "client", "-t", "{{ .JoinToken }}"];
    let token = server.node.drover(&create).exits(0).trim().to_string();
    let (dir, address) = (node.node.data_dir(), format!("127.0.0.1:{}", server.rpc));
    let joined = node.node.drover(&["join", "-data-dir", path(&dir), &token, &address]);
    assert!(joined.exits(0).contains("has joined region \"global\" as a client"));
    let join = addresses(&[server.rpc]);
    node.start(&format!("client {{\n enabled = true\n server_join {{ retry_join = [{join}] }}\n}}"));
    node.runs("web");
    node.node.signal(Signal::TERM);
    node.node.await_end();
    node.start_again();
    within("it is ready again", || {
        let nodes = server.get("/v1/nodes")?;
        (nodes[0]["Status"] == "ready" && node.get("/v1/job/web").is_some()).then_some(())
    });
    let mut stranger = Machine::new();
    stranger.start(&format!("client {{\n enabled = true\n server_join {{ retry_join = [{join}] }}\n}}"));
    let (status, printed) = stranger.node.await_end();
    assert_eq!(status.code(), Some(1), "{printed}");
    assert!(printed.contains("drover token create -role client"), "{printed}");
}
