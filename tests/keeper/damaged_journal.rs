//! Journals that lost what they held: tasks that live are found by their mark, and none ever lives twice.

use super::*;

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

/// Flips bits all over the journal while nobody has it.
fn spoil(node: &Node) {
    let journal = node.dir.join("keeper/journal");
    let mut bytes = fs::read(&journal).expect("a journal");
    bytes.iter_mut().for_each(|b| *b ^= 0x55);
    fs::write(&journal, bytes).expect("written");
}

/// Writes its own and its descendants' process IDs.
const FAMILY: &str = "echo $$ >> pids; sleep 1000 & echo $! >> pids; setsid sleep 1000 & echo $! >> pids; \
                      (sleep 1000 & echo $! >> pids); wait";

fn family(node: &Node) -> Vec<u32> {
    let pids = || lines_of(&node.dir.join("pids"));
    until("the family", || (pids().len() == 4).then(pids))
}

#[test]
fn a_task_without_journal_entry_ends_and_never_runs_twice() {
    let mut node = Node::new();
    let mut agent = node.connect();
    let mut spec = node.sh(FAMILY);
    // what a job sets under the mark's name is not what its processes get
    spec.env.push(("DROVER_RUN".into(), "forged".into()));
    let pid = agent.start(run(1), spec.clone());
    let pids = family(&node);
    let environ = fs::read(format!("/proc/{pid}/environ")).expect("an environment");
    let environ = String::from_utf8_lossy(&environ);
    assert!(environ.starts_with("DROVER_RUN=") && !environ.contains("forged"), "{environ}");
    node.end_keeper(SIGKILL);
    spoil(&node);
    assert!(pids.iter().all(|pid| alive(*pid)), "tasks outlive their keeper");
    node.start();
    let mut agent = node.connect();
    agent.send(&Command::Start { run: run(1), spec });
    // told that it runs for as long as it does
    let told = until("its end", || match agent.next() {
        Event::Started { pid: p, .. } => {
            assert_eq!(p, pid);
            None
        }
        Event::Exited { run: of, exit, .. } => Some((of, exit)),
        other => panic!("{other:?}"),
    });
    assert_eq!(told, (run(1), ended(Status::Unknown)));
    assert!(pids.iter().all(|pid| !alive(*pid)), "its end is told once nothing of it is left");
    assert_eq!(lines_of(&node.dir.join("pids")), pids, "nothing was started again");
    // what was told is kept
    node.end_keeper(SIGKILL);
    node.start();
    let agent = node.connect();
    assert!(matches!(&agent.runs[..], [Report { state: State::Exited { exit, .. }, .. }]
        if *exit == ended(Status::Unknown)));
}

#[test]
fn runs_in_the_journal_and_of_other_keepers_live_on() {
    let (mut node, other) = (Node::new(), Node::new());
    let known = node.connect().start(run(1), node.sh("exec sleep 1000"));
    let anothers = other.connect().start(run(2), other.sh("exec sleep 1000"));
    node.end_keeper(SIGKILL);
    let journal = node.dir.join("keeper/journal");
    let mut bytes = fs::read(&journal).expect("a journal");
    bytes.extend([0x55; 100]);
    fs::write(&journal, bytes).expect("written");
    node.start();
    let mut agent = node.connect();
    assert!(matches!(agent.runs[..], [Report { state: State::Running { pid, .. }, .. }] if pid == known));
    agent.send(&Command::Stop { run: run(1), signal: SIGTERM, timeout: SECOND });
    assert!(alive(anothers));
    assert_eq!(agent.exit(run(1)), ended(Status::Unknown));
}
