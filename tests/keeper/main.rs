//! The keeper process from outside: the built binary, its socket, real tasks, `kill -9`.
//!
//! The protocol's types are written down here once more: if they drift from what the binary speaks, these tests fail.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::large_enum_variant
)]

mod as_root;
mod damaged_journal;
mod death;
mod tasks;

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Run = [u8; 16];

#[derive(Serialize)]
enum Command {
    Hello { protocol: u32 },
    Start { run: Run, spec: Spec },
    Signal { run: Run, signal: i32 },
    Stop { run: Run, signal: i32, timeout: i64 },
    Forget { run: Run },
    Shutdown { signal: i32, timeout: i64 },
    List,
}

#[derive(Clone, Serialize)]
struct Spec {
    label: String,
    command: String,
    args: Vec<String>,
    search: Vec<String>,
    env: Vec<(String, String)>,
    cwd: String,
    user: String,
    logs: Option<Logs>,
    cpu_mhz: u64,
    memory_bytes: u64,
    memory_low_bytes: u64,
}

#[derive(Clone, Serialize)]
struct Logs {
    dir: String,
    name: String,
    max_files: u32,
    max_file_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
enum Event {
    Welcome { protocol: u32, boot_id: [u8; 16], keeper_pid: u32, runs: Vec<Report> },
    Started { run: Run, pid: u32, at: i64 },
    StartFailed { run: Run, message: String, retryable: bool },
    Exited { run: Run, exit: Exit, at: i64 },
    Refused { run: Option<Run>, message: String },
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Report {
    run: Run,
    label: String,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
enum State {
    Running { pid: u32, since: i64 },
    Exited { exit: Exit, at: i64 },
    StartFailed { message: String, retryable: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct Exit {
    status: Status,
    oom_killed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
enum Status {
    Code(i32),
    Signal(i32),
    Unknown,
}

const SECOND: i64 = 1_000_000_000;
const PATIENCE: Duration = Duration::from_secs(20);
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
const SIGUSR1: i32 = 10;
const SIGUSR2: i32 = 12;

/// A data directory with at most one keeper; ends everything when dropped.
struct Node {
    dir: PathBuf,
    keeper: Option<Child>,
}

impl Node {
    fn new() -> Node {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("drover-keeper-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(dir.join("logs")).expect("a directory");
        let mut node = Node { dir, keeper: None };
        node.start();
        node
    }

    /// A keeper that may do nothing special: user nobody, no cgroups.
    fn unprivileged() -> Node {
        let mut node = Node::new();
        node.end_keeper(SIGTERM);
        let own = ["-R", "65534:65534"];
        assert!(Process::new("chown").args(own).arg(&node.dir).status().expect("chown").success());
        // The build directory may be closed to others.
        let binary = node.dir.join("drover");
        fs::copy(env!("CARGO_BIN_EXE_drover"), &binary).expect("a copy");
        let mut keeper = Process::new("setpriv");
        keeper.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary);
        keeper.args(["keeper", "run", "-data-dir"]).arg(&node.dir).stdin(Stdio::null());
        node.keeper = Some(keeper.spawn().expect("the keeper starts"));
        node
    }

    /// A keeper that is a member of more groups than root is by itself.
    fn with_groups(groups: &str) -> Node {
        let mut node = Node::new();
        node.end_keeper(SIGTERM);
        let mut keeper = Process::new("setpriv");
        keeper.arg(format!("--groups={groups}")).arg(env!("CARGO_BIN_EXE_drover"));
        keeper.args(["keeper", "run", "-data-dir"]).arg(&node.dir).stdin(Stdio::null());
        node.keeper = Some(keeper.spawn().expect("the keeper starts"));
        node
    }

    fn binary(&self) -> Process {
        Process::new(env!("CARGO_BIN_EXE_drover"))
    }

    fn start(&mut self) {
        let mut keeper = self.binary();
        keeper.args(["keeper", "run", "-data-dir"]).arg(&self.dir).stdin(Stdio::null());
        self.keeper = Some(keeper.spawn().expect("the keeper starts"));
    }

    fn pid(&self) -> u32 {
        self.keeper.as_ref().expect("a keeper").id()
    }

    /// Ends the keeper by a signal and waits for its end.
    fn end_keeper(&mut self, signal: i32) {
        kill(self.pid(), signal);
        self.keeper.take().expect("a keeper").wait().expect("its end");
    }

    fn connect(&self) -> Agent {
        let socket = self.dir.join("keeper/socket");
        let stream = until("the keeper's socket", || UnixStream::connect(&socket).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut agent = Agent { stream, runs: vec![], keeper_pid: 0 };
        agent.send(&Command::Hello { protocol: 1 });
        match agent.next() {
            Event::Welcome { protocol: 1, keeper_pid, runs, boot_id } => {
                assert_ne!(boot_id, [0; 16]);
                agent.keeper_pid = keeper_pid;
                agent.runs = runs;
            }
            other => panic!("{other:?}"),
        }
        agent
    }

    fn sh(&self, script: &str) -> Spec {
        Spec {
            label: "alloc.task".into(),
            command: "sh".into(),
            args: vec!["-c".into(), script.into()],
            search: vec![],
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("ONLY".into(), "this".into())],
            cwd: self.dir.display().to_string(),
            user: String::new(),
            logs: Some(Logs {
                dir: self.dir.join("logs").display().to_string(),
                name: "task".into(),
                max_files: 1000,
                max_file_bytes: 100_000,
            }),
            cpu_mhz: 100,
            memory_bytes: 0,
            memory_low_bytes: 0,
        }
    }

    /// All that a stream's files hold, in order.
    fn output(&self, kind: &str) -> String {
        let file = |n: usize| fs::read(self.dir.join(format!("logs/task.{kind}.{n}"))).ok();
        let all: Vec<u8> = (0..).map_while(file).flatten().collect();
        String::from_utf8(all).expect("text")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            let stopped = self.binary().args(["keeper", "stop", "-data-dir"]).arg(&self.dir).output();
            if !stopped.is_ok_and(|o| o.status.success()) {
                let _ = keeper.kill();
            }
            keeper.wait().expect("the keeper's end");
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

struct Agent {
    stream: UnixStream,
    runs: Vec<Report>,
    keeper_pid: u32,
}

impl Agent {
    fn send(&mut self, command: &Command) {
        let body = postcard::to_extend(command, vec![1u8]).expect("encoded");
        self.stream.write_all(&(body.len() as u32).to_le_bytes()).expect("sent");
        self.stream.write_all(&body).expect("sent");
    }

    fn next(&mut self) -> Event {
        self.try_next().expect("an event")
    }

    fn try_next(&mut self) -> Option<Event> {
        let mut length = [0u8; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut body = vec![0u8; u32::from_le_bytes(length) as usize];
        self.stream.read_exact(&mut body).ok()?;
        assert_eq!(body[0], 1, "the record's version");
        Some(postcard::from_bytes(&body[1..]).expect("an event"))
    }

    /// Starts and gives the pid.
    fn start(&mut self, run: Run, spec: Spec) -> u32 {
        self.send(&Command::Start { run, spec });
        match self.next() {
            Event::Started { run: of, pid, at } if of == run && at > 0 => pid,
            other => panic!("{other:?}"),
        }
    }

    fn exit(&mut self, run: Run) -> Exit {
        match self.next() {
            Event::Exited { run: of, exit, at } if of == run && at > 0 => exit,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&mut self) -> String {
        match self.next() {
            Event::Refused { message, .. } => message,
            other => panic!("{other:?}"),
        }
    }

    /// Until the keeper closes the connection.
    fn drain(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.try_next()).collect()
    }
}

/// Run ids are unique on a machine, so each test, which is a thread, has its own.
fn run(n: u8) -> Run {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! { static TEST: u8 = NEXT.fetch_add(1, Ordering::Relaxed) as u8; }
    let pid = (std::process::id() as u16).to_le_bytes();
    let mut id = [n; 16];
    id[..4].copy_from_slice(&[pid[0], pid[1], TEST.with(|t| *t), n]);
    id
}

fn ended(status: Status) -> Exit {
    Exit { status, oom_killed: false }
}

fn kill(pid: u32, signal: i32) {
    let sent = Process::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status();
    assert!(sent.expect("kill runs").success());
}

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Asks until there is an answer; gives up after `PATIENCE`.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::yield_now();
    }
}

fn lines_of(path: &Path) -> Vec<u32> {
    fs::read_to_string(path).unwrap_or_default().lines().filter_map(|l| l.parse().ok()).collect()
}
