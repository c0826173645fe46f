//! An agent of one's own: durable, server and client in one or in other roles, in a directory that goes with it.

use crate::http::Http;
use crate::kernel;
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Changes that are sat out before something is wrong.
const RESTLESS: usize = 20_000;

/// A directory on the disk that is measured: DROVER_MEASURE_DIR, or the directory for temporary files. What lies in it is
/// removed when all is measured, not before: ext4 searches long for an inode when many were freed in the last seconds.
pub fn scratch() -> PathBuf {
    let base = std::env::var_os("DROVER_MEASURE_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    base.join(format!("drover-measure-{}", std::process::id()))
}

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that is its region, and a node.
const BOTH: &str = "server {\n  enabled = true\n  bootstrap_expect = 1\n}\nclient { enabled = true }\n";

pub struct Agent {
    has_node: bool,
    binary: PathBuf,
    dir: PathBuf,
    address: SocketAddr,
    process: Child,
    pub started: Instant,
    /// From the process's start to the first answer.
    pub first_answer: Duration,
}

impl Agent {
    /// Starts with an empty data directory and waits for the first answer.
    pub fn start(binary: &Path, name: &str) -> Result<Agent, String> {
        let mut agent = Agent::launch(binary, name, BOTH)?;
        agent.wait_for_answer()?;
        Ok(agent)
    }

    /// Starts with an empty data directory; `roles`: its server and client blocks, and what they need. Whether it answers is to be waited for.
    pub fn launch(binary: &Path, name: &str, roles: &str) -> Result<Agent, String> {
        let address = free_address()?;
        let dir = scratch().join(format!("{name}-{}", address.port()));
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let config = format!(
            "name = \"{name}\"\ndata_dir = \"{0}/data\"\nbind_addr = \"127.0.0.1\"\nlog_level = \"WARN\"\nports {{ http = {1} }}\n{roles}\nplugin \"raw_exec\" {{ config {{ enabled = true }} }}\n",
            dir.display(),
            address.port()
        );
        fs::write(dir.join("agent.hcl"), config).map_err(|e| e.to_string())?;
        let started = Instant::now();
        let process = launch(binary, &dir)?;
        let binary = binary.to_path_buf();
        let has_node = roles.contains("client");
        Ok(Agent { has_node, binary, dir, address, process, started, first_answer: Duration::ZERO })
    }

    pub fn wait_for_answer(&mut self) -> Result<(), String> {
        while !self.answers() {
            if self.started.elapsed() > PATIENCE || self.process.try_wait().is_ok_and(|s| s.is_some()) {
                let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                return Err(format!("the agent does not answer; its log:\n{log}"));
            }
            std::thread::yield_now();
        }
        self.first_answer = self.started.elapsed();
        Ok(())
    }

    fn answers(&self) -> bool {
        let asked = self.http().and_then(|mut http| http.get("/v1/agent/self"));
        asked.is_ok_and(|answer| answer.status == 200)
    }

    pub fn http(&self) -> Result<Http, String> {
        Http::connect(self.address).map_err(|e| format!("{}: {e}", self.address))
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The agent's only child. None, once the agent was started again.
    pub fn keeper(&self) -> Option<u32> {
        kernel::children(self.pid()).first().map(|(pid, _)| *pid)
    }

    /// Since the process's start, until its node is ready.
    pub fn ready(&self) -> Result<Duration, String> {
        let ready = |nodes: &Value| nodes[0]["Status"] == "ready";
        until(&mut self.http()?, "/v1/nodes", ready)?;
        Ok(self.started.elapsed())
    }

    /// `kill -9`, and nothing more.
    pub fn kill(&mut self) -> Result<(), String> {
        self.process.kill().and_then(|()| self.process.wait()).map(|_| ()).map_err(|e| e.to_string())
    }

    /// `kill -9`, and the same again on the same data.
    pub fn crash_and_restart(&mut self) -> Result<(), String> {
        self.kill()?;
        self.started = Instant::now();
        self.process = launch(&self.binary, &self.dir)?;
        self.wait_for_answer()
    }
}

/// Ends agent, keeper and tasks, whatever became of the measurement.
impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait()).map(|_| ());
        if !self.has_node {
            return;
        }
        let data = self.dir.join("data");
        let stop = Command::new(&self.binary).args(["keeper", "stop", "-data-dir"]).arg(data).output();
        if !stop.is_ok_and(|stop| stop.status.success()) {
            eprintln!("measure: the keeper of {} could not be stopped", self.dir.display());
        }
    }
}

fn launch(binary: &Path, dir: &Path) -> Result<Child, String> {
    let log = fs::OpenOptions::new().create(true).append(true).open(dir.join("log"));
    let log = log.map_err(|e| e.to_string())?;
    let mut command = Command::new(binary);
    command.arg("agent").arg("-config").arg(dir.join("agent.hcl")).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(log).env_remove("NOTIFY_SOCKET");
    command.spawn().map_err(|e| format!("{}: {e}", binary.display()))
}

fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
    listener.local_addr().map_err(|e| e.to_string())
}

/// Asks again whenever the list has changed, until it is as wanted.
pub fn until(http: &mut Http, path: &str, wanted: impl Fn(&Value) -> bool) -> Result<(), String> {
    until_within(PATIENCE, http, path, wanted)
}

pub fn until_within(
    patience: Duration,
    http: &mut Http,
    path: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<(), String> {
    let mut index = 0;
    let start = Instant::now();
    while start.elapsed() < patience {
        let answer = http.get(&format!("{path}?index={index}&wait=5s"))?;
        let value = answer.json()?;
        if wanted(&value) {
            return Ok(());
        }
        index = answer.index;
    }
    Err(format!("{path} did not become what was wanted within {patience:?}"))
}

/// Lets a while pass in which nothing happens: a query that waits for a change that does not come.
pub fn rest(http: &mut Http, wait: &str) -> Result<(), String> {
    for _ in 0..RESTLESS {
        let index = http.get("/v1/jobs")?.index;
        if http.get(&format!("/v1/jobs?index={index}&wait={wait}"))?.index == index {
            return Ok(());
        }
    }
    Err("the jobs do not stop changing".into())
}

/// A job of one group with one small task.
pub fn job(id: &str, kind: &str, count: u32, command: &str, args: &[&str]) -> Vec<u8> {
    let task = json!({
        "Name": "task", "Driver": "raw_exec", "Config": {"command": command, "args": args},
        "Resources": {"CPU": 10, "MemoryMB": 10}, "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
    });
    let group = json!({"Name": "group", "Count": count, "EphemeralDisk": {"SizeMB": 10}, "Tasks": [task]});
    json!({"Job": {"ID": id, "Name": id, "Type": kind, "Datacenters": ["*"], "TaskGroups": [group]}})
        .to_string()
        .into_bytes()
}

/// Submits it and waits until all of its allocations have this status; how long both took.
pub fn submit(
    http: &mut Http,
    id: &str,
    body: &[u8],
    count: usize,
    status: &str,
) -> Result<Duration, String> {
    let start = Instant::now();
    http.put("/v1/jobs", body)?.json()?;
    let there = |allocs: &Value| {
        let all = allocs.as_array().map_or(&[][..], Vec::as_slice);
        all.iter().filter(|alloc| alloc["ClientStatus"] == status).count() == count
    };
    until(http, &format!("/v1/job/{id}/allocations"), there)?;
    Ok(start.elapsed())
}
