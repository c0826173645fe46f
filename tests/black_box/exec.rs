//! Commands that a user runs beside a task.

use crate::node::{Node, is_alive, shell_job, text};
use crate::wait;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};

fn running(node: &Node) -> String {
    let mut job = shell_job("job", "echo pid $$; echo mine > local/f; while :; do sleep 0.05; done");
    job["TaskGroups"][0]["Tasks"][0]["Env"] = json!({"GREETING": "hello"});
    node.register(&job);
    let id = text(&node.await_alloc("job", "running")["ID"]).to_string();
    node.await_pid("job");
    id
}

#[test]
fn a_command_runs_beside_the_task_with_its_world_and_its_code() {
    let node = Node::dev();
    let id = running(&node);
    let exec = |words: &[&str]| node.drover(&[&["alloc", "exec"], words].concat());
    assert_eq!(exec(&[&id, "/bin/sh", "-c", "echo $GREETING $NOMAD_TASK_NAME"]).exits(0), "hello t\n");
    assert_eq!(exec(&["-task", "t", &id[..8], "cat", "local/f"]).exits(0), "mine\n");
    assert_eq!(exec(&["-job", "job", "true"]).exits(0), "");
    let failed = exec(&[&id, "sh", "-c", "echo bad >&2; exit 42"]);
    assert_eq!((failed.code, failed.err.as_str()), (42, "bad\n"));
    assert_eq!(exec(&[&id, "sh", "-c", "kill -9 $$"]).code, 137);
    let much = exec(&[&id, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]);
    assert_eq!((much.code, much.out.len()), (0, 3_000_000), "no byte is lost");
    exec(&[&id, "no-such-command"]).fails(1, "no-such-command");
    exec(&["-task", "nope", &id, "true"]).fails(1, "no task \"nope\"");
    node.drover(&["job", "stop", "-detach", "job"]).exits(0);
    node.await_alloc("job", "complete");
    exec(&[&id, "true"]).fails(1, "is not running");
}

/// Types lines into a session of `cat; echo end`, each once the one before has come back. Returns how it ended.
pub fn types_into(mut cat: Command) -> ExitStatus {
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut typed = cat.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(cat.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    for line in ["one", "two"] {
        writeln!(typed, "{line}").expect("typed");
        assert_eq!(next(), line);
    }
    drop(typed);
    assert_eq!(next(), "end");
    cat.wait().expect("its end")
}

#[test]
fn exec_passes_input_and_its_end_on() {
    let node = Node::dev();
    let id = running(&node);
    let cat = node.drover_command(&["alloc", "exec", &id, "sh", "-c", "cat; echo end"]);
    assert!(types_into(cat).success());
}

#[test]
fn a_terminal_is_one_to_the_command() {
    let node = Node::dev();
    let id = running(&node);
    let script = "test -t 0 && test -t 1 && echo a terminal; stty -echo; read line; echo got $line";
    let mut shell = node.drover_command(&["alloc", "exec", "-t=true", &id, "sh", "-c", script]);
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut typed = shell.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(shell.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("text").trim(), "a terminal");
    typed.write_all(b"word\r").expect("typed");
    let rest: Vec<String> = lines.map(|l| l.expect("text")).collect();
    assert!(rest.iter().any(|l| l.trim() == "got word"), "{rest:?}");
    assert!(shell.wait().expect("its end").success());
}

/// Nobody is left behind when a user goes away, nor when the task ends.
#[test]
fn a_session_ends_with_its_user_and_with_its_task() {
    let node = Node::dev();
    let id = running(&node);
    let begin = || {
        let script = "echo $$; exec sleep 1000";
        let mut session = node.drover_spawn(&["alloc", "exec", "-i=false", &id, "sh", "-c", script]);
        let mut line = String::new();
        BufReader::new(session.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        (session, line.trim().parse::<i32>().expect("a pid"))
    };
    let (mut user, pid) = begin();
    user.kill().expect("killed");
    user.wait().expect("its end");
    wait::until("the command ends with its user", || (!is_alive(pid)).then_some(()));
    let (mut user, pid) = begin();
    node.drover(&["job", "stop", "-detach", "job"]).exits(0);
    wait::until("the command ends with its task", || (!is_alive(pid)).then_some(()));
    assert!(!user.wait().expect("its end").success());
}
