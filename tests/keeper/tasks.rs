//! What a keeper does for tasks while it lives: starts, exits, output, stops, refusals.

use super::*;

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
fn a_run_that_cannot_be_started_says_why() {
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
fn a_task_that_ignores_its_signal_is_killed_in_time() {
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
