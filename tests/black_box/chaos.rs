//! Many things at once, and death at bad moments: what is wanted is what runs, once, and nothing else does.

use crate::node::{Node, shell_job, signal_process, text};
use crate::{wait, web};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// Processes with this word among their arguments, other than those of this test.
fn with_word(node: &Node, word: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|arg| arg == word.as_bytes())
    };
    node.processes().into_iter().filter(has).collect()
}

fn running(node: &Node, job: &str) -> Vec<String> {
    let allocs = node
        .allocs(job)
        .into_iter()
        .filter(|a| a["ClientStatus"] == "running" && a["DesiredStatus"] == "run");
    allocs.map(|a| text(&a["ID"]).to_string()).collect()
}

#[test]
fn kills_while_tasks_start_neither_lose_nor_double_them() {
    let mut node = Node::durable();
    let marker = "a-word-of-its-own";
    for round in 0..6 {
        let mut job = shell_job(&format!("burst-{round}"), "exec sleep 1000");
        // sh's $0: what the process list is searched for
        job["TaskGroups"][0]["Tasks"][0]["Config"]["args"] =
            json!(["-c", "while :; do sleep 1000; done", marker]);
        job["TaskGroups"][0]["Count"] = json!(3);
        node.register(&job);
        // from "nothing has begun" to "some of them run", by round
        wait::until("so many run", || {
            (with_word(&node, marker).len() >= round * 3 + round / 2).then_some(())
        });
        let keeper = node.keeper_status();
        if round % 2 == 1
            && let Some(pid) =
                keeper.out.strip_prefix("keeper ").and_then(|s| s.split(',').next()?.parse().ok())
        {
            signal_process(pid, Signal::KILL);
        }
        node.restart();
    }
    for round in 0..6 {
        let job = format!("burst-{round}");
        wait::until_eq("three run", &3, || running(&node, &job).len());
    }
    wait::until_eq("as many processes as allocations", &18, || with_word(&node, marker).len());
    for round in 0..6 {
        node.drover(&["job", "stop", "-purge", &format!("burst-{round}")]).exits(0);
    }
    wait::until("every task is gone", || with_word(&node, marker).is_empty().then_some(()));
    wait::until("the keeper forgets", || node.keeper_status().out.contains("0 runs").then_some(()));
}

#[test]
fn a_hundred_registrations_at_once_are_all_kept() {
    let node = Node::dev();
    let port = node.port;
    let writers: Vec<_> = (0..20)
        .map(|writer| {
            std::thread::spawn(move || {
                for n in 0..5 {
                    let mut job = shell_job(&format!("j-{writer}-{n}"), "sleep 1000");
                    job["TaskGroups"][0]["Count"] = json!(0);
                    let answer = web::send(port, "PUT", "/v1/jobs", &json!({"Job": job}).to_string());
                    assert_eq!(answer.status, 200, "{}", answer.text());
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("every registration is acknowledged");
    }
    let jobs = node.get("/v1/jobs").json();
    assert_eq!(jobs.as_array().map(Vec::len), Some(100));
    let indexes: BTreeSet<u64> =
        jobs.as_array().expect("a list").iter().filter_map(|j| j["CreateIndex"].as_u64()).collect();
    assert_eq!(indexes.len(), 100, "each has an index of its own");
}

#[test]
fn stop_and_run_again_in_quick_succession_ends_in_one_running() {
    let node = Node::dev();
    let job = shell_job("flip", "sleep 1000");
    for _ in 0..10 {
        node.register(&job);
        web::send(node.port, "DELETE", "/v1/job/flip", "").json();
    }
    node.register(&job);
    wait::until_eq("one runs", &1, || running(&node, "flip").len());
    wait::until("the others are over", || {
        let allocs = node.allocs("flip");
        let over = |a: &&Value| a["ClientStatus"] != "pending" && a["ClientStatus"] != "running";
        (allocs.iter().filter(over).count() + 1 == allocs.len()).then_some(())
    });
}

#[test]
fn a_task_that_closes_its_output_or_floods_it_harms_nobody() {
    let node = Node::dev();
    node.run("closed", "echo pid $$; exec >&- 2>&-; while :; do sleep 1; done");
    node.run("flood", "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo end; sleep 1000");
    let pid = node.await_pid("closed");
    let id = text(&node.await_alloc("flood", "running")["ID"]).to_string();
    wait::until("the flood is over", || {
        let target = format!("/v1/client/fs/logs/{id}?task=t&type=stdout&plain=true&origin=end&offset=5");
        let answer = node.get(&target);
        (answer.status == 200 && answer.text() == "\nend\n").then_some(())
    });
    assert!(crate::node::is_alive(pid));
    assert_eq!(node.await_alloc("closed", "running")["TaskStates"]["t"]["Restarts"], 0);
}

#[test]
fn half_a_request_holds_up_nobody() {
    use std::io::Write;
    use std::net::TcpStream;
    let node = Node::dev();
    let mut idle = vec![];
    for begin in [
        "",
        "GET",
        "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n",
        "PUT /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    ] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(("127.0.0.1", node.port)).expect("a connection");
            stream.write_all(begin.as_bytes()).expect("written");
            idle.push(stream);
        }
    }
    assert_eq!(node.get("/v1/jobs").json(), json!([]));
    node.run("still", "sleep 1000");
    node.await_alloc("still", "running");
    for garbage in ["\u{0}\u{1}\u{2}\r\n\r\n", "GET /v1/jobs\r\n\r\n", "GET http://[ HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(("127.0.0.1", node.port)).expect("a connection");
        stream.write_all(garbage.as_bytes()).expect("written");
        idle.push(stream);
    }
    assert_eq!(node.get("/v1/jobs").json().as_array().map(Vec::len), Some(1));
    drop(idle);
}
