//! A task's output over HTTP and on the command line: all of it, from an end, and as it grows.

use crate::node::{Node, text};
use crate::web;
use serde_json::Value;
use std::io::{BufRead, BufReader};

const TALK: &str = "for n in 1 2 3 4 5 6 7 8; do echo out $n; echo err $n >&2; done; \
                    until [ -e ../go ]; do sleep 0.05; done; echo more; sleep 1000";

/// A task that has said its first part; its allocation.
fn talking(node: &Node) -> String {
    node.run("talk", TALK);
    let id = text(&node.await_alloc("talk", "running")["ID"]).to_string();
    for (kind, last) in [("stdout", "out 8\n"), ("stderr", "err 8\n")] {
        let target = format!("/v1/client/fs/logs/{id}?task=t&type={kind}&plain=true");
        crate::wait::until("the task has talked", || node.get(&target).text().ends_with(last).then_some(()));
    }
    id
}

#[test]
fn the_command_prints_what_is_asked_for() {
    let node = Node::dev();
    let id = talking(&node);
    let all: String = (1..=8).map(|n| format!("out {n}\n")).collect();
    let short = &id[..8];
    assert_eq!(node.drover(&["alloc", "logs", &id]).exits(0), all);
    assert_eq!(node.drover(&["alloc", "logs", short]).exits(0), all);
    assert_eq!(node.drover(&["logs", short, "t"]).exits(0), all);
    assert_eq!(node.drover(&["alloc", "logs", "-task", "t", short]).exits(0), all);
    assert_eq!(node.drover(&["alloc", "logs", "-job", "talk"]).exits(0), all);
    assert_eq!(node.drover(&["alloc", "logs", "-stderr", short]).exits(0), all.replace("out", "err"));
    assert_eq!(node.drover(&["alloc", "logs", "-tail", "-n", "2", short]).exits(0), "out 7\nout 8\n");
    assert_eq!(node.drover(&["alloc", "logs", "-n=1", "-tail", short]).exits(0), "out 8\n");
    assert_eq!(node.drover(&["alloc", "logs", "-tail", "-c", "6", short]).exits(0), "out 8\n");
    node.drover(&["alloc", "logs", short, "nope"]).fails(1, "nope");
    node.drover(&["alloc", "logs", "ffffffff"])
        .fails(1, "No allocation(s) with prefix or id \"ffffffff\" found");
    node.drover(&["alloc", "logs", "-job", "nope"]).fails(1, "nope");
}

#[test]
fn following_ends_with_the_task_and_misses_nothing() {
    let node = Node::dev();
    let id = talking(&node);
    let mut follower = node.drover_spawn(&["alloc", "logs", "-f", "-stdout", "-tail", "-c", "6", &id]);
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "out 8");
    node.allow(&id);
    assert_eq!(next(), "more");
    node.drover(&["job", "stop", "-detach", "talk"]).exits(0);
    assert!(follower.wait().expect("its end").success());
}

#[test]
fn offsets_count_from_either_end() {
    let node = Node::dev();
    let id = talking(&node);
    let ask = |query: &str| {
        let answer = node.get(&format!("/v1/client/fs/logs/{id}?task=t&type=stdout&plain=true{query}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    };
    let all: String = (1..=8).map(|n| format!("out {n}\n")).collect();
    assert_eq!(ask(""), all);
    assert_eq!(ask("&offset=12"), all[12..]);
    assert_eq!(ask("&offset=6&origin=end"), "out 8\n");
    assert_eq!(ask("&offset=6000&origin=end"), all);
    // the beginning of the newest file, not its end
    assert_eq!(ask("&offset=0&origin=end"), all);
    assert_eq!(ask("&offset=100000"), "");
    for (query, status) in [
        ("task=t&type=stdin", 400),
        ("task=t", 400),
        ("type=stdout", 400),
        ("task=nope&type=stdout", 400),
        ("task=t&type=stdout&origin=middle", 400),
        ("task=t&type=stdout&offset=x", 400),
        ("task=t&type=stdout&follow=maybe", 400),
    ] {
        let answer = node.get(&format!("/v1/client/fs/logs/{id}?{query}"));
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }
    let unknown = node.get("/v1/client/fs/logs/00000000-0000-0000-0000-000000000000?task=t&type=stdout");
    assert_eq!(unknown.status, 404, "{}", unknown.text());
}

#[test]
fn a_stream_of_frames_shows_new_output() {
    let node = Node::dev();
    let id = talking(&node);
    let target = format!("/v1/client/fs/logs/{id}?task=t&type=stdout&follow=true");
    let mut stream = web::open(node.port, "GET", &target, "").expect("a connection");
    assert_eq!(web::read_head(&mut stream).expect("an answer").0, 200);
    let mut seen = String::new();
    let mut told = false;
    while !seen.ends_with("more\n") {
        let chunk = web::read_chunk(&mut stream).expect("a chunk").expect("more to come");
        for frame in serde_json::Deserializer::from_slice(&chunk).into_iter::<Value>() {
            let frame = frame.expect("a whole frame in each chunk");
            if let Some(data) = frame["Data"].as_str() {
                seen.push_str(&decoded(data));
            }
        }
        if seen.ends_with("out 8\n") && !told {
            told = true;
            node.allow(&id);
        }
    }
    assert!(seen.starts_with("out 1\n"), "{seen}");
}

fn decoded(base64: &str) -> String {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(base64).expect("base64");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn old_output_is_rotated_away() {
    let node = Node::dev();
    let mut job = crate::node::shell_job(
        "much",
        "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); echo line $i of much output that is thrown away; done; sleep 1000",
    );
    job["TaskGroups"][0]["Tasks"][0]["LogConfig"] = serde_json::json!({"MaxFiles": 2, "MaxFileSizeMB": 1});
    node.register(&job);
    let id = text(&node.await_alloc("much", "running")["ID"]).to_string();
    crate::wait::until("the last line", || node.stdout("much").contains("line 60000 of").then_some(()));
    let dir = node.throw_away()[0].join("alloc").join(&id).join("alloc/logs");
    let sizes: Vec<u64> = std::fs::read_dir(&dir)
        .expect("a directory")
        .map(|e| e.expect("an entry"))
        .filter(|e| e.file_name().to_string_lossy().starts_with("t.stdout."))
        .map(|e| e.metadata().expect("metadata").len())
        .collect();
    assert!(sizes.len() <= 2 && sizes.iter().all(|s| *s <= 1 << 20), "{sizes:?}");
}
