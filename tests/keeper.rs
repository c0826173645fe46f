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

use serde::{Deserialize, Serialize};
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
                keeper.kill().unwrap_or_default();
            }
            keeper.wait().expect("the keeper's end");
        }
        fs::remove_dir_all(&self.dir).unwrap_or_default();
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

#[test]
fn exits_are_told_exactly_and_output_is_complete_by_then() {
    let node = Node::new();
    let mut agent = node.connect();
    let pid = agent.start(run(1), node.sh("echo out; echo err >&2; pwd; env | sort; exit 7"));
    assert!(pid > 1);
    assert_eq!(agent.exit(run(1)), ended(Status::Code(7)));
    let out = node.output("stdout");
    assert!(out.starts_with(&format!("out\n{}\n", node.dir.display())), "{out}");
    // A shell adds PWD and the like itself; nothing of ours leaks.
    assert!(out.contains("ONLY=this") && !out.contains("CARGO") && !out.contains("HOME="), "{out}");
    assert_eq!(node.output("stderr"), "err\n");

    agent.start(run(2), node.sh("kill -9 $$"));
    assert_eq!(agent.exit(run(2)), ended(Status::Signal(SIGKILL)));
    agent.start(run(3), node.sh("exit 0"));
    assert_eq!(agent.exit(run(3)), ended(Status::Code(0)));
    assert!(!node.dir.join("logs/.task.stdout.fifo").exists());
}

#[test]
fn a_run_is_started_once_and_its_end_is_kept_until_forgotten() {
    let node = Node::new();
    let mut agent = node.connect();
    let pid = agent.start(run(1), node.sh("echo started; read line < /dev/zero; sleep 1000"));
    assert_eq!(agent.start(run(1), node.sh("echo again")), pid);
    agent.send(&Command::Forget { run: run(1) });
    assert!(agent.refusal().contains("not ended"));
    agent.send(&Command::Signal { run: run(1), signal: SIGUSR1 });
    assert_eq!(agent.exit(run(1)), ended(Status::Signal(SIGUSR1)));
    agent.send(&Command::Start { run: run(1), spec: node.sh("echo again") });
    assert_eq!(agent.exit(run(1)), ended(Status::Signal(SIGUSR1)));
    assert_eq!(node.connect().runs.len(), 1);
    agent.send(&Command::Forget { run: run(1) });
    agent.send(&Command::List);
    assert!(matches!(agent.next(), Event::Welcome { runs, .. } if runs.is_empty()));
    agent.send(&Command::Signal { run: run(1), signal: SIGUSR1 });
    assert!(agent.refusal().contains("not known"));
    assert_eq!(node.output("stdout").matches("again").count(), 0);
}

#[test]
fn what_cannot_be_started_says_why() {
    let node = Node::new();
    let mut agent = node.connect();
    fs::write(node.dir.join("text"), "no program").expect("a file");
    type Spoil = fn(&mut Spec);
    let cases: [(Spoil, &str); 6] = [
        (|s| s.command = "no-such-command".into(), "was not found"),
        (|s| s.command = "/no/such/command".into(), "No such file"),
        (|s| s.cwd = "/no/such/dir".into(), "working directory"),
        (|s| s.user = "no-such-user".into(), "not known to this system"),
        (|s| s.command = "./text".into(), "Exec format error"),
        (|s| s.label = "../../x".into(), "label"),
    ];
    for (n, (spoil, says)) in cases.into_iter().enumerate() {
        let mut spec = node.sh("true");
        spoil(&mut spec);
        agent.send(&Command::Start { run: run(n as u8 + 1), spec });
        match agent.next() {
            Event::StartFailed { message, retryable: false, .. } => {
                assert!(message.contains(says), "{message}")
            }
            other => panic!("{says}: {other:?}"),
        }
    }
}

#[test]
fn strangers_to_the_protocol_are_told_so() {
    let node = Node::new();
    let mut agent = node.connect();
    agent.send(&Command::Hello { protocol: 99 });
    assert!(agent.refusal().contains("protocol"));
    assert_eq!(agent.drain(), []);
    let mut rude = node.connect();
    rude.stream.write_all(&[5, 0, 0, 0, 1, 250, 250, 250, 250]).expect("sent");
    assert!(rude.refusal().contains("keeper command"));
    assert_eq!(rude.drain(), []);
    assert!(node.connect().runs.is_empty());
}

#[test]
fn three_megabytes_survive_the_keepers_death_by_kill_9() {
    let mut node = Node::new();
    let mut agent = node.connect();
    let pid = agent.start(run(1), node.sh("seq 1 450000; while ! test -e go; do :; done; exit 3"));
    until("the first file", || node.dir.join("logs/task.stdout.2").exists().then_some(()));
    node.end_keeper(SIGKILL);
    assert!(alive(pid), "the task outlives its keeper");
    node.start();
    let mut agent = node.connect();
    assert!(matches!(agent.runs[..], [Report { state: State::Running { pid: p, .. }, .. }] if p == pid));
    fs::write(node.dir.join("go"), "").expect("a file");
    // Nobody saw how it ended: never a success.
    assert_eq!(agent.exit(run(1)), ended(Status::Unknown));
    let out = node.output("stdout");
    assert!(out.lines().map(|l| l.parse::<u32>().expect("a number")).eq(1..=450_000), "{} bytes", out.len());
    assert!(out.len() > 3_000_000 - 2_000 && node.dir.join("logs/task.stdout.30").exists());
}

#[test]
fn old_files_go_and_the_newest_lines_stay() {
    let node = Node::new();
    let mut agent = node.connect();
    let mut spec = node.sh("seq 1 100000");
    spec.logs = spec.logs.map(|l| Logs { max_files: 3, max_file_bytes: 50_000, ..l });
    agent.start(run(1), spec);
    agent.exit(run(1));
    let files = fs::read_dir(node.dir.join("logs")).expect("logs").flatten();
    let mut files: Vec<PathBuf> =
        files.map(|f| f.path()).filter(|p| p.display().to_string().contains("stdout")).collect();
    files.sort_by_key(|p| p.extension().and_then(|e| e.to_str()?.parse::<u32>().ok()));
    assert_eq!(files.len(), 3);
    let lines: Vec<u32> = files.iter().flat_map(|f| lines_of(f)).collect();
    assert_eq!(lines.last(), Some(&100_000));
    assert!(lines.windows(2).all(|w| w[1] == w[0] + 1), "lines are whole and in order");
}

#[test]
fn everything_a_task_started_ends_with_it() {
    let node = Node::new();
    let mut agent = node.connect();
    let script = "sleep 1000 & echo $! >> pids; setsid sleep 1000 & echo $! >> pids; \
                  (sleep 1000 & echo $! >> pids) ; exit 5";
    agent.start(run(1), node.sh(script));
    assert_eq!(agent.exit(run(1)), ended(Status::Code(5)));
    let pids = lines_of(&node.dir.join("pids"));
    assert_eq!(pids.len(), 3);
    assert!(pids.into_iter().all(|pid| !alive(pid)));
}

#[test]
fn who_ignores_the_signal_is_killed_in_time() {
    let node = Node::new();
    let mut agent = node.connect();
    let script = "trap 'echo heard >> heard' TERM; echo ready > ready; while :; do sleep 0.05; done";
    agent.start(run(1), node.sh(script));
    until("the trap", || node.dir.join("ready").exists().then_some(()));
    let asked = Instant::now();
    agent.send(&Command::Stop { run: run(1), signal: SIGTERM, timeout: SECOND / 2 });
    assert_eq!(agent.exit(run(1)), ended(Status::Signal(SIGKILL)));
    let took = asked.elapsed();
    assert!((Duration::from_millis(500)..Duration::from_secs(5)).contains(&took), "{took:?}");
    assert!(node.dir.join("heard").exists());
    agent.start(run(2), node.sh("exec sleep 1000"));
    agent.send(&Command::Stop { run: run(2), signal: SIGTERM, timeout: 60 * SECOND });
    assert_eq!(agent.exit(run(2)), ended(Status::Signal(SIGTERM)));
}

#[test]
fn a_new_binary_takes_over_with_every_pid_and_every_exit() {
    let node = Node::new();
    let mut agent = node.connect();
    let first = agent.start(run(1), node.sh("while ! test -e go; do sleep 0.01; done; echo late; exit 9"));
    let mut other = node.sh("sleep 1000");
    other.logs = other.logs.map(|l| Logs { name: "other".into(), ..l });
    let second = agent.start(run(2), other);
    let keeper = agent.keeper_pid;
    kill(keeper, SIGUSR2);
    assert_eq!(agent.drain(), []);
    let mut agent = node.connect();
    assert_eq!(agent.keeper_pid, keeper);
    let pid = |n: usize| match agent.runs[n].state {
        State::Running { pid, .. } => pid,
        _ => 0,
    };
    assert_eq!([pid(0), pid(1)], [first, second]);
    fs::write(node.dir.join("go"), "").expect("a file");
    assert_eq!(agent.exit(run(1)), ended(Status::Code(9)));
    assert_eq!(node.output("stdout"), "late\n");
    agent.send(&Command::Stop { run: run(2), signal: SIGTERM, timeout: SECOND });
    assert_eq!(agent.exit(run(2)), ended(Status::Signal(SIGTERM)));
}

#[test]
fn sigterm_ends_the_keeper_and_shutdown_ends_the_tasks() {
    let mut node = Node::new();
    let mut agent = node.connect();
    let pid = agent.start(run(1), node.sh("exec sleep 1000"));
    let mut other = node.sh("exit 4");
    other.logs = None;
    agent.start(run(2), other);
    assert_eq!(agent.exit(run(2)), ended(Status::Code(4)));
    node.end_keeper(SIGTERM);
    assert!(alive(pid));
    node.start();
    let mut agent = node.connect();
    let states: Vec<&State> = agent.runs.iter().map(|r| &r.state).collect();
    assert!(matches!(states[0], State::Running { pid: p, .. } if *p == pid));
    assert!(matches!(states[1], State::Exited { exit, .. } if *exit == ended(Status::Code(4))));
    agent.send(&Command::Shutdown { signal: SIGTERM, timeout: SECOND });
    let told = agent.drain();
    assert!(matches!(told[..], [Event::Exited { .. }]), "{told:?}");
    assert!(!alive(pid) && !node.dir.join("keeper/socket").exists());
}

#[test]
fn a_damaged_journal_stops_nobody() {
    let mut node = Node::new();
    let mut agent = node.connect();
    let pid = agent.start(run(1), node.sh("exec sleep 1000"));
    node.end_keeper(SIGKILL);
    let journal = node.dir.join("keeper/journal");
    let mut bytes = b"\xd7\x05\x00\x00\x00noise\xff".to_vec();
    bytes.extend(fs::read(&journal).expect("a journal"));
    bytes.extend_from_slice(b"\xd7\x05\x00\x00\x00torn");
    fs::write(&journal, bytes).expect("written");
    node.start();
    let agent = node.connect();
    assert!(matches!(agent.runs[..], [Report { state: State::Running { pid: p, .. }, .. }] if p == pid));
}

#[test]
fn a_dev_keeper_ends_with_its_agent() {
    let mut node = Node::new();
    node.end_keeper(SIGTERM);
    // The shell stands for the agent: it alone has the pipe's write end.
    let script = format!(
        "exec 3<> pipe; {} keeper run -data-dir . -dev-fd 4 4< pipe 3>&- & exec cat >/dev/null",
        env!("CARGO_BIN_EXE_drover")
    );
    assert!(Process::new("mkfifo").arg(node.dir.join("pipe")).status().expect("mkfifo").success());
    let mut shell = Process::new("sh");
    shell.arg("-c").arg(script).current_dir(&node.dir).stdin(Stdio::piped());
    let mut shell = shell.spawn().expect("a shell");
    let mut agent = node.connect();
    let pid = agent.start(run(1), node.sh("trap '' TERM; echo $$; while :; do sleep 0.05; done"));
    shell.kill().expect("killed");
    shell.wait().expect("its end");
    assert!(matches!(agent.drain()[..], [Event::Exited { .. }]));
    assert!(!alive(pid));
    until("the keeper's end", || (!alive(agent.keeper_pid)).then_some(()));
    assert!(!node.dir.join("keeper/socket").exists());
}

#[test]
fn fifty_starts_are_quick_and_an_idle_keeper_is_small() {
    let node = Node::new();
    let mut agent = node.connect();
    let asked = Instant::now();
    for n in 1..=50 {
        let mut spec = node.sh("exec sleep 1000");
        spec.logs = spec.logs.map(|l| Logs { name: format!("task{n}"), ..l });
        agent.send(&Command::Start { run: run(n), spec });
    }
    let started = (0..50).filter(|_| matches!(agent.next(), Event::Started { .. })).count();
    println!("50 starts took {:?}", asked.elapsed());
    assert_eq!(started, 50);
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", agent.keeper_pid)).expect("smaps");
    // its own memory: the share of the binary's pages depends on how the binary was built
    let own = rollup
        .lines()
        .find_map(|l| l.strip_prefix("Pss_Anon:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .expect("a share of anonymous memory");
    assert!(own < 2_000, "the keeper of 50 tasks holds {own} KiB of its own");
    assert!(asked.elapsed() < Duration::from_secs(10));
    let writes = || fs::metadata(node.dir.join("keeper/journal")).expect("a journal").len();
    let before = writes();
    assert_eq!(node.connect().runs.len(), 50);
    assert_eq!(writes(), before, "asking writes nothing");
}

/// These need root, and say so where they cannot run.
mod as_root {
    use super::*;

    fn is_root() -> bool {
        let id = Process::new("id").arg("-u").output().expect("id");
        let root = id.stdout == b"0\n";
        if !root {
            println!("not root: not tested here");
        }
        root
    }

    #[test]
    fn a_task_runs_as_its_user() {
        if !is_root() {
            return;
        }
        let node = Node::new();
        let mut agent = node.connect();
        let mut spec = node.sh("id -un; id -Gn; umask; ulimit -n; echo direct > /dev/stdout");
        spec.user = "nobody".into();
        spec.cwd = "/".into();
        agent.start(run(1), spec);
        assert_eq!(agent.exit(run(1)), ended(Status::Code(0)), "{}", node.output("stderr"));
        let out = node.output("stdout");
        assert!(out.starts_with("nobody\nnogroup\n0022\n") && out.ends_with("direct\n"), "{out}");
    }

    #[test]
    fn without_privileges_and_cgroups_tasks_still_end_whole() {
        if !is_root() {
            return;
        }
        let node = Node::unprivileged();
        let mut agent = node.connect();
        let script = "sleep 1000 & echo $! >> pids; setsid sleep 1000 & echo $! >> pids; exit 5";
        agent.start(run(1), node.sh(script));
        assert_eq!(agent.exit(run(1)), ended(Status::Code(5)));
        let mut spec = node.sh("setsid sh -c 'echo $$ >> pids; exec sleep 1000' & wait");
        spec.user = "nobody".into();
        agent.start(run(2), spec.clone());
        until("the third pid", || (lines_of(&node.dir.join("pids")).len() == 3).then_some(()));
        agent.send(&Command::Stop { run: run(2), signal: SIGTERM, timeout: 0 });
        assert!(matches!(agent.exit(run(2)).status, Status::Signal(_)));
        assert!(lines_of(&node.dir.join("pids")).into_iter().all(|pid| !alive(pid)));
        spec.user = "root".into();
        agent.send(&Command::Start { run: run(3), spec });
        let failed = agent.next();
        assert!(
            matches!(&failed, Event::StartFailed { message, .. } if message.contains("user")),
            "{failed:?}"
        );
    }

    /// A file system of 2 MiB over a directory, gone when dropped.
    struct Small(PathBuf);

    impl Small {
        fn over(dir: &Path) -> Option<Small> {
            let mut mount = Process::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(dir);
            mount.status().is_ok_and(|s| s.success()).then(|| Small(dir.to_path_buf()))
        }
    }

    impl Drop for Small {
        fn drop(&mut self) {
            Process::new("umount").arg("-l").arg(&self.0).status().expect("umount");
        }
    }

    #[test]
    fn a_full_disk_costs_output_and_in_the_end_starts_but_no_exit() {
        if !is_root() {
            return;
        }
        let mut node = Node::new();
        node.end_keeper(SIGTERM);
        let Some(_small) = Small::over(&node.dir) else { return println!("no mount: not tested here") };
        fs::create_dir(node.dir.join("logs")).expect("logs");
        node.start();
        let mut agent = node.connect();
        let fill = node.dir.join("fill");
        let mut file = fs::File::create(&fill).expect("a file");
        while file.write_all(&[0; 4096]).is_ok() {}
        agent.start(run(1), node.sh("echo lost; exit 3"));
        assert_eq!(agent.exit(run(1)), ended(Status::Code(3)));
        // More than the journal has in reserve.
        let mut spec = node.sh("true");
        spec.command = "no-such-command".into();
        let mut n = 0u32;
        let told = loop {
            n += 1;
            assert!(n < 3000, "the reserve never ends");
            let mut id = run(2);
            id[8..12].copy_from_slice(&n.to_le_bytes());
            agent.send(&Command::Start { run: id, spec: spec.clone() });
            if n == 1 {
                agent.stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
            }
            match agent.try_next() {
                Some(Event::StartFailed { message, retryable: true, .. }) => break message,
                // Held back until it is durable; the next start is refused at once.
                Some(Event::StartFailed { .. }) | None => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(told.contains("cannot write its journal") && n > 100, "{n}: {told}");
        drop(file);
        fs::remove_file(&fill).expect("removed");
        agent.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert!(matches!(agent.next(), Event::StartFailed { retryable: false, .. }), "the one held back");
        agent.start(run(3), node.sh("echo back"));
        assert_eq!(agent.exit(run(3)), ended(Status::Code(0)));
        assert!(node.output("stdout").ends_with("back\n"));
        agent.send(&Command::Shutdown { signal: SIGTERM, timeout: SECOND });
        assert_eq!(agent.drain(), []);
    }

    #[test]
    fn memory_limits_hold_and_are_told() {
        let memory = |group: &str| format!("/sys/fs/cgroup/{group}");
        let can = [memory("memory/memory.limit_in_bytes"), memory("memory/cgroup.procs")];
        if !is_root() || !can.iter().any(|p| Path::new(p).exists()) {
            return println!("no memory controller: not tested here");
        }
        let node = Node::new();
        let mut agent = node.connect();
        let mut spec = node.sh("x=0123456789abcdef; while :; do x=$x$x; done");
        spec.memory_bytes = 16 << 20;
        let pid = agent.start(run(1), spec);
        let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        assert_eq!(agent.exit(run(1)), Exit { status: Status::Signal(SIGKILL), oom_killed: true });
        let ours: String = run(1)[..4].iter().map(|b| format!("{b:02x}")).collect();
        assert!(group.contains(&format!("/alloc.task.{ours}")), "{group}");
        for parent in ["memory/drover", "cpu/drover", "freezer/drover", "drover.slice"] {
            let left = fs::read_dir(format!("/sys/fs/cgroup/{parent}")).into_iter().flatten().flatten();
            assert_eq!(left.filter(|d| d.file_name().to_string_lossy().contains(&ours)).count(), 0);
        }
    }
}
