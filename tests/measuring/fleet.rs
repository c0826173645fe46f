//! A fleet on one machine: three servers and many nodes, each an agent of its own with its own process, data directory and port, none of it
//! simulated. All of them share this machine's processors.
//!
//! Refuses to know drover's inside, as the rest of `measure` does.

use crate::agent::{self, Agent};
use crate::kernel;
use crate::table::{Table, Target};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

/// A key that this fleet alone has.
const KEY: &str = "RkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkY=";
const SERVERS: usize = 3;
pub const NODES: usize = 100;
const TASKS_PER_NODE: usize = 10;
const PATIENCE: Duration = Duration::from_secs(180);
const KIB_PER_MIB: f64 = 1024.0;

/// `nodes`: how many; the fleet that the promises are about has a hundred.
pub fn measure(binary: &Path, nodes: usize) -> Result<Table, String> {
    let binary = binary.canonicalize().map_err(|e| format!("{}: {e}", binary.display()))?;
    let mut table = Table::default();
    table.note(kernel::machine());
    table.note(format!(
        "{SERVERS} servers and {nodes} nodes on these processors; {TASKS_PER_NODE} tasks for each node"
    ));
    let began = Instant::now();
    let (mut servers, nodes) = start(&binary, nodes)?;
    let ready = |list: &Value| {
        let all = list.as_array().map_or(&[][..], Vec::as_slice);
        all.iter().filter(|node| node["Status"] == "ready").count() == nodes.len()
    };
    await_answer(&servers[0], "/v1/nodes", ready)?;
    table.add("empty disks to all nodes ready", "s", Target::None, began.elapsed().as_secs_f64());
    let tasks = nodes.len() * TASKS_PER_NODE;
    table.add("tasks placed and running", "s", Target::AtMost(15.0), run_tasks(&servers[0], tasks)?);
    memory(&servers, &nodes, &mut table)?;
    let before = task_pids(&nodes);
    table.add("leader killed to next write", "s", Target::AtMost(0.8), replace_leader(&mut servers)?);
    let after = task_pids(&nodes);
    let lost = before.symmetric_difference(&after).count();
    table.add("tasks that noticed", "", Target::AtMost(0.0), lost as f64);
    Ok(table)
}

fn start(binary: &Path, nodes: usize) -> Result<(Vec<Agent>, Vec<Agent>), String> {
    let ports: Vec<u16> = (0..SERVERS).map(|_| free_udp_port()).collect::<Result<_, _>>()?;
    let join: Vec<String> = ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let join = format!("server_join {{ retry_join = [{}] }}", join.join(", "));
    let server = |(n, port): (usize, &u16)| {
        let roles = format!(
            "ports {{ rpc = {port} }}\nserver {{\n enabled = true\n bootstrap_expect = {SERVERS}\n encrypt = \"{KEY}\"\n {join}\n}}\n"
        );
        Agent::launch(binary, &format!("server-{n}"), &roles)
    };
    let mut servers: Vec<Agent> = ports.iter().enumerate().map(server).collect::<Result<_, _>>()?;
    let node = |n| {
        let roles = format!("server {{ encrypt = \"{KEY}\" }}\nclient {{\n enabled = true\n {join}\n}}\n");
        Agent::launch(binary, &format!("node-{n}"), &roles)
    };
    let mut nodes: Vec<Agent> = (0..nodes).map(node).collect::<Result<_, _>>()?;
    for agent in servers.iter_mut().chain(&mut nodes) {
        agent.wait_for_answer()?;
    }
    Ok((servers, nodes))
}

fn free_udp_port() -> Result<u16, String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
    socket.local_addr().map(|address| address.port()).map_err(|e| e.to_string())
}

/// One `job run` of so many tasks, until all of them run; in seconds.
fn run_tasks(server: &Agent, count: usize) -> Result<f64, String> {
    let body = agent::job("fleet", "service", count as u32, "/bin/sleep", &["100000"]);
    let began = Instant::now();
    server.http()?.put("/v1/jobs", &body)?.json()?;
    let running = |summary: &Value| summary["Summary"]["group"]["Running"].as_u64() == Some(count as u64);
    await_answer(server, "/v1/job/fleet/summary", running)?;
    Ok(began.elapsed().as_secs_f64())
}

fn await_answer(server: &Agent, path: &str, wanted: impl Fn(&Value) -> bool) -> Result<(), String> {
    agent::until_within(PATIENCE, &mut server.http()?, path, wanted)
}

fn memory(servers: &[Agent], nodes: &[Agent], table: &mut Table) -> Result<(), String> {
    let mut all = 0.0;
    for server in servers {
        let pss = kernel::pss_kib(server.pid())? / KIB_PER_MIB;
        table.add("server's memory (PSS), with all that runs", "MiB", Target::None, pss);
        all += pss;
    }
    for node in nodes {
        let pss = kernel::pss_kib(node.pid())? / KIB_PER_MIB;
        table.add("node's memory (PSS)", "MiB", Target::AtMost(8.0), pss);
        let keeper = node.keeper().map_or(Ok(0.0), kernel::pss_kib)? / KIB_PER_MIB;
        table.add("its keeper's", "MiB", Target::None, keeper);
        all += pss + keeper;
    }
    table.add("all agents and keepers together", "MiB", Target::AtMost(1.2 * 1024.0), all);
    Ok(())
}

/// The processes that the nodes' keepers run.
fn task_pids(nodes: &[Agent]) -> BTreeSet<u32> {
    let keepers = nodes.iter().filter_map(Agent::keeper);
    keepers.flat_map(kernel::children).map(|(pid, _)| pid).collect()
}

/// Kills the leader, and writes through another server until that is acknowledged; in seconds.
fn replace_leader(servers: &mut [Agent]) -> Result<f64, String> {
    let leads = |agent: &Agent| {
        let own = agent.http().and_then(|mut http| http.get("/v1/agent/self")).and_then(|a| a.json());
        own.is_ok_and(|own| own["stats"]["nomad"]["leader"] == "true")
    };
    let at = servers.iter().position(leads).ok_or("no server leads")?;
    let body = agent::job("after", "service", 0, "/bin/true", &[]);
    servers[at].kill()?;
    let (began, other) = (Instant::now(), &servers[(at + 1) % servers.len()]);
    while began.elapsed() < PATIENCE {
        let written = other.http().and_then(|mut http| http.put("/v1/jobs", &body)).and_then(|a| a.json());
        if written.is_ok() {
            return Ok(began.elapsed().as_secs_f64());
        }
    }
    Err("no other server took a write".to_string())
}
