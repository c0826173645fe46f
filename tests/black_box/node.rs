//! A machine with drover on it: a directory, a port, an agent that a test starts, kills and starts again, and the
//! commands of its user. Whatever was started ends with it.

use crate::held_thread::HeldThread;
use crate::wait;
use crate::web::{self, Answer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const BINARY: &str = env!("CARGO_BIN_EXE_drover");

pub struct Node {
    dir: PathBuf,
    pub port: u16,
    agent: Option<Child>,
    starts: u32,
}

/// What a command said, and its exit code.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Node {
    /// Nothing runs yet.
    pub fn new() -> Node {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("drover-bb-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(dir.join("tmp")).expect("a directory");
        let node = Node { port: free_port(), dir, agent: None, starts: 0 };
        node.configure("");
        node
    }

    /// A durable agent, ready for jobs.
    pub fn durable() -> Node {
        let mut node = Node::new();
        node.start();
        node
    }

    /// A `-dev` agent, ready for jobs.
    pub fn dev() -> Node {
        let mut node = Node::new();
        node.start_dev(&[]);
        node.await_ready();
        node
    }

    /// Writes the configuration, with more lines at its end.
    pub fn configure(&self, more: &str) {
        let text = format!(
            "data_dir = \"{}\"\nbind_addr = \"127.0.0.1\"\nports {{ http = {} }}\n\
             server {{\n enabled = true\n bootstrap_expect = 1\n min_heartbeat_ttl = \"1s\"\n}}\n\
             client {{ enabled = true }}\nplugin \"raw_exec\" {{\n config {{ enabled = true }}\n}}\n{more}\n",
            self.data_dir().display(),
            self.port
        );
        self.write("agent.hcl", &text);
        self.write("dev.hcl", &format!("ports {{ http = {} }}\n", self.port));
    }

    /// A file beside the data directory.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.join(name);
        fs::write(&path, text).expect("written");
        path
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Where `-dev` agents put their throw-away directories.
    pub fn throw_away(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.join("tmp")).expect("a directory");
        entries.map(|e| e.expect("an entry").path()).collect()
    }

    /// The durable agent, ready for jobs.
    pub fn start(&mut self) {
        let config = self.dir.join("agent.hcl");
        self.spawn(&["agent", "-config", path(&config)]);
        self.await_ready();
    }

    /// The durable agent under strace, ready for jobs, with the file in which its calls and its keeper's are written down.
    pub fn start_traced(&mut self, calls: &str) -> PathBuf {
        let trace = self.dir.join("trace");
        self.start_under_strace(&["-y", "-s", "512", "-e", calls, "-o", path(&trace)]);
        trace
    }

    /// The durable agent, ready for jobs. Each of its threads is told from the n-th time on that this file of its data directory
    /// could not be synced. strace ends with the agent only if the agent's keeper lives already.
    pub fn start_with_failing_syncs(&mut self, file: &str, nth: u32) {
        let (file, trace) = (self.data_dir().join(file), self.dir.join("trace"));
        let fails = format!("inject=fdatasync:error=EIO:when={nth}+");
        self.start_under_strace(&["-P", path(&file), "-e", &fails, "-o", path(&trace)]);
    }

    fn start_under_strace(&mut self, args: &[&str]) {
        let config = self.dir.join("agent.hcl");
        let mut command = Command::new("strace");
        command.args(["-f", "-e", "signal=none"]).args(args).arg(BINARY);
        let agent = self.binary(&["agent", "-config", path(&config)]);
        command.args(agent.get_args()).current_dir(env!("CARGO_MANIFEST_DIR"));
        for (name, value) in agent.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        self.run_agent(command);
        self.await_ready();
    }

    /// One thread of the agent stands still, until what is returned is dropped.
    pub fn hold_thread(&self, name: &str) -> HeldThread {
        let trace = self.dir.join("held");
        if trace.exists() {
            fs::remove_file(&trace).expect("an earlier trace is removed");
        }
        HeldThread::hold(self.agent_pid(), name, &trace)
    }

    pub fn start_dev(&mut self, more: &[&str]) {
        let config = self.dir.join("dev.hcl");
        let args = [&["agent", "-dev", "-config", path(&config)], more].concat();
        self.spawn(&args);
    }

    pub fn spawn(&mut self, args: &[&str]) {
        self.run_agent(self.binary(args));
    }

    fn run_agent(&mut self, mut command: Command) {
        assert!(self.agent.is_none(), "one agent at a time");
        self.starts += 1;
        let out = File::create(self.out_path()).expect("a file");
        command.stdin(Stdio::null()).stderr(out.try_clone().expect("a file")).stdout(out);
        let started = command.spawn();
        self.agent = Some(started.unwrap_or_else(|e| panic!("{:?}: {e}", command.get_program())));
    }

    fn out_path(&self) -> PathBuf {
        self.dir.join(format!("agent-{}.out", self.starts))
    }

    /// What the agent has printed since it was started last.
    pub fn printed(&self) -> String {
        fs::read_to_string(self.out_path()).unwrap_or_default()
    }

    #[track_caller]
    pub fn await_ready(&mut self) {
        wait::until("the node is ready", || {
            let ended = self.agent.as_mut().and_then(|a| a.try_wait().ok().flatten());
            assert!(ended.is_none(), "the agent ended: {ended:?}: {}", self.printed());
            let nodes = web::try_send(self.port, "GET", "/v1/nodes", "").ok().filter(|a| a.status == 200)?;
            (nodes.json()[0]["Status"] == "ready").then_some(())
        });
    }

    pub fn agent_pid(&self) -> i32 {
        self.agent.as_ref().expect("an agent").id() as i32
    }

    pub fn signal(&self, signal: Signal) {
        signal_process(self.agent_pid(), signal);
    }

    /// The agent's end, and what it printed.
    #[track_caller]
    pub fn await_end(&mut self) -> (ExitStatus, String) {
        let mut agent = self.agent.take().expect("an agent");
        let status = wait::within(std::time::Duration::from_secs(60), || agent.try_wait().expect("a status"));
        let Some(status) = status else {
            self.agent = Some(agent);
            panic!("the agent does not end: {}", self.printed());
        };
        (status, self.printed())
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.await_end();
    }

    pub fn restart(&mut self) {
        self.kill();
        self.start();
    }

    fn binary(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
        command.env("TMPDIR", self.dir.join("tmp")).env("TZ", "UTC");
        for name in ["DROVER_ADDR", "NOMAD_NAMESPACE", "NOMAD_REGION", "NOMAD_TOKEN", "NOMAD_CACERT"] {
            command.env_remove(name);
        }
        command.env("NOMAD_ADDR", format!("http://127.0.0.1:{}", self.port));
        command
    }

    /// Runs a command to its end.
    pub fn drover(&self, args: &[&str]) -> Said {
        self.drover_with(args, &[])
    }

    pub fn drover_with(&self, args: &[&str], env: &[(&str, &str)]) -> Said {
        let mut command = self.binary(args);
        let output = command.envs(env.iter().copied()).stdin(Stdio::null()).output().expect("it runs");
        Said::from(output)
    }

    /// A command to be started.
    pub fn drover_command(&self, args: &[&str]) -> Command {
        self.binary(args)
    }

    /// A command that is still running.
    pub fn drover_spawn(&self, args: &[&str]) -> Child {
        let mut command = self.binary(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs")
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Answer {
        web::send(self.port, "GET", target, "")
    }

    #[track_caller]
    pub fn put(&self, target: &str, body: &Value) -> Answer {
        web::send(self.port, "PUT", target, &body.to_string())
    }

    /// Registers a job of one raw_exec task that runs this script; gives the answer.
    #[track_caller]
    pub fn run(&self, id: &str, script: &str) -> Value {
        self.register(&shell_job(id, script))
    }

    #[track_caller]
    pub fn register(&self, job: &Value) -> Value {
        self.put("/v1/jobs", &json!({"Job": job})).json()
    }

    /// The job's allocations, newest first.
    #[track_caller]
    pub fn allocs(&self, job: &str) -> Vec<Value> {
        let list = self.get(&format!("/v1/job/{job}/allocations")).json();
        let mut list = list.as_array().expect("a list").clone();
        list.sort_by_key(|a| std::cmp::Reverse(a["CreateIndex"].as_u64()));
        list
    }

    /// The job's newest allocation, once it has this client status.
    #[track_caller]
    pub fn await_alloc(&self, job: &str, status: &str) -> Value {
        let mut last = Value::Null;
        let found = wait::within(std::time::Duration::from_secs(30), || {
            last = self.allocs(job).first()?.clone();
            (last["ClientStatus"] == status).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("{job} is not {status}: {last:#}\n{}", self.printed()))
    }

    /// What the only task of the job's newest allocation has written to stdout.
    pub fn stdout(&self, job: &str) -> String {
        let Some(alloc) = self.allocs(job).first().cloned() else { return String::new() };
        let (id, task) = (text(&alloc["ID"]), task_name(&alloc));
        let target = format!("/v1/client/fs/logs/{id}?task={task}&type=stdout&plain=true");
        let answer = self.get(&target);
        if answer.status == 200 { answer.text() } else { String::new() }
    }

    /// Makes the file `go` in the allocation's directory, which its task waits for.
    pub fn allow(&self, alloc: &str) {
        let dirs = [self.data_dir()].into_iter().chain(self.throw_away());
        let dir = dirs.map(|d| d.join("alloc").join(alloc)).find(|d| d.exists()).expect("the directory");
        fs::write(dir.join("go"), "").expect("written");
    }

    /// The number that the task's script wrote with `echo pid $$` at first.
    pub fn await_pid(&self, job: &str) -> i32 {
        wait::until("the task tells its pid", || {
            let out = self.stdout(job);
            let line = out.lines().find_map(|l| l.strip_prefix("pid "))?;
            line.parse().ok()
        })
    }

    pub fn keeper_status(&self) -> Said {
        self.drover(&["keeper", "status", "-data-dir", path(&self.data_dir())])
    }

    pub fn keeper_pid(&self) -> i32 {
        let said = self.keeper_status();
        let pid = said.out.strip_prefix("keeper ").and_then(|rest| rest.split(',').next());
        pid.and_then(|p| p.parse().ok()).unwrap_or_else(|| panic!("no keeper: {said:?}"))
    }

    /// Processes that have to do with this node: by command line or environment.
    pub fn processes(&self) -> Vec<i32> {
        let needle = format!("{}/", self.dir.display()).into_bytes();
        let needle = needle.as_slice();
        let entries = fs::read_dir("/proc").expect("proc");
        let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let mine = |pid: &i32| {
            let has = |file: &str| {
                let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                bytes.windows(needle.len()).any(|w| w == needle)
            };
            *pid != std::process::id() as i32 && is_alive(*pid) && (has("cmdline") || has("environ"))
        };
        pids.filter(mine).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the agent said:\n{}", self.printed());
        }
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait().map(|_| ());
        }
        // a keeper that is killed may leave its tasks: look again until nothing is left
        wait::within(std::time::Duration::from_secs(5), || {
            let left = self.processes();
            left.iter().for_each(|pid| signal_process(*pid, Signal::KILL));
            left.is_empty().then_some(())
        });
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Said {
    pub fn from(output: Output) -> Said {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts the exit code; gives stdout.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        &self.out
    }

    /// Asserts that it failed with this code and this part of a sentence on stderr.
    #[track_caller]
    pub fn fails(&self, code: i32, sentence: &str) {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        assert!(self.err.contains(sentence), "no {sentence:?} in: {}\nstdout: {}", self.err, self.out);
    }
}

pub fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn task_name(alloc: &Value) -> String {
    let states = alloc["TaskStates"].as_object();
    states.and_then(|s| s.keys().next()).cloned().unwrap_or_else(|| "t".into())
}

/// A service of one group `g` and one task `t`, as the API takes it.
pub fn shell_job(id: &str, script: &str) -> Value {
    json!({
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "g", "Count": 1,
            "RestartPolicy": {"Attempts": 0, "Interval": 3_600_000_000_000_u64, "Delay": 0, "Mode": "fail"},
            "Tasks": [{
                "Name": "t", "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", script]},
                "Resources": {"CPU": 10, "MemoryMB": 32}
            }]
        }]
    })
}

pub fn signal_process(pid: i32, signal: Signal) {
    // it may be gone already
    let _ = kill_process(Pid::from_raw(pid).expect("a pid"), signal);
}

/// A zombie is dead.
pub fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).is_some_and(|state| !"ZX".contains(state))
}

/// Below the range from which the kernel gives ports to callers.
fn free_port() -> u16 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = u64::from(std::process::id() % 160) * 100;
    wait::until("a free port", || {
        let port = (12_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 16_000) as u16;
        TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
    })
}
