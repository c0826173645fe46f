//! What a keeper's end, and its replacement, leave of tasks and of starts.

use super::*;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

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

/// How much more of the journal can be written before a start gets no further.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// Nothing says that there is a process.
    Forked,
    /// What says that its process waits can be written, what says that it is let go cannot.
    Waiting,
}

/// A keeper that was killed while a start waited, the waiting child, and what the start would have written.
fn killed_in_a_start(node: &mut Node, run: Run, until: Until) -> (u32, PathBuf) {
    // A refused write is an error of the write, not the end of the writer.
    node.end_keeper(SIGTERM);
    let mut keeper = Process::new("sh");
    keeper.args(["-c", "trap '' XFSZ; exec \"$0\" keeper run -data-dir \"$1\""]);
    keeper.arg(env!("CARGO_BIN_EXE_drover")).arg(&node.dir).stdin(Stdio::null());
    node.keeper = Some(keeper.spawn().expect("the keeper starts"));
    let mut agent = node.connect();
    let journal = node.dir.join("keeper/journal");
    let written = || fs::metadata(&journal).expect("a journal").len();
    let spec = || {
        let mut spec = node.sh("echo executed >> executed; exec sleep 1000");
        spec.logs = None;
        spec
    };
    // A start of the same size tells how much each of its entries takes.
    let before = written();
    let pid = agent.start(self::run(200), spec());
    let (whole, released) = (written() - before, 9 + 2 + 16);
    let executed = node.dir.join("executed");
    self::until("its execution", || executed.exists().then_some(()));
    kill(pid, SIGKILL);
    agent.exit(self::run(200));
    fs::remove_file(&executed).expect("removed");
    let room = if until == Until::Waiting { whole - released } else { 0 };
    let limit = written() + room;
    let keeper = Pid::from_raw(node.pid() as i32);
    prlimit(keeper, Resource::Fsize, Rlimit { current: Some(limit), maximum: Some(limit) }).expect("a limit");
    agent.send(&Command::Start { run, spec: spec() });
    // Refused as soon as the first start cannot be written: by then its child waits.
    let mut other = self::run(201);
    let said = self::until("the start that waits", || {
        other[8] = other[8].wrapping_add(1);
        agent.send(&Command::Start { run: other, spec: Spec { label: "../x".into(), ..spec() } });
        match agent.next() {
            Event::StartFailed { message, retryable: true, .. } => Some(message),
            Event::StartFailed { .. } => None,
            event => panic!("{event:?}"),
        }
    });
    assert!(said.contains("cannot write its journal"), "{said}");
    assert_eq!(written(), limit, "the start got exactly so far");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", node.pid())).expect("children");
    let child: u32 = children.trim().parse().expect("one child waits");
    let held = || fs::read_dir(format!("/proc/{child}/fd")).expect("descriptors").count();
    self::until("nothing but input, output and its ends of two pipes", || (held() == 5).then_some(()));
    node.end_keeper(SIGKILL);
    (child, executed)
}

#[test]
fn a_start_cut_by_the_keepers_death_can_be_repeated() {
    for until in [Until::Forked, Until::Waiting] {
        let mut node = Node::new();
        let (child, executed) = killed_in_a_start(&mut node, run(1), until);
        self::until("the waiting child's end", || (!alive(child)).then_some(()));
        node.start();
        let mut agent = node.connect();
        assert!(agent.runs.iter().all(|r| r.run != run(1)), "it never was: {:?}", agent.runs);
        assert!(!executed.exists());
        let pid = agent.start(run(1), node.sh("echo executed >> executed; exec sleep 1000"));
        let said = || fs::read_to_string(&executed).is_ok_and(|said| !said.is_empty());
        self::until("its only execution", || said().then_some(()));
        assert_eq!(agent.start(run(1), node.sh("echo again >> executed")), pid);
        assert_eq!(fs::read_to_string(&executed).expect("a file"), "executed\n");
    }
}

#[test]
fn a_run_that_was_let_go_is_not_made_again() {
    let mut node = Node::new();
    let mut agent = node.connect();
    let pid = agent.start(run(1), node.sh("echo executed >> executed; exec sleep 1000"));
    node.end_keeper(SIGKILL);
    kill(pid, SIGKILL);
    node.start();
    let mut agent = node.connect();
    until("its end", || {
        agent.send(&Command::List);
        // its end may be told by itself, before the answer
        let runs = loop {
            if let Event::Welcome { runs, .. } = agent.next() {
                break runs;
            }
        };
        matches!(runs[..], [Report { state: State::Exited { .. }, .. }]).then_some(())
    });
    agent.send(&Command::Start { run: run(1), spec: node.sh("echo again >> executed") });
    assert_eq!(agent.exit(run(1)), ended(Status::Unknown));
}
