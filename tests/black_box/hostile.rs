//! HTTP from those who mean no good, or cannot do better: slow, silent, many, half gone, malformed. Each is refused or let
//! go, and nobody else notices.

use crate::node::Node;
use crate::{wait, web};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

pub fn connect(node: &Node, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", node.port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let _ = stream.write_all(bytes);
    stream
}

/// What comes until the agent closes the connection.
pub fn rest(mut stream: TcpStream) -> String {
    let mut bytes = vec![];
    // a reset is an end too
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn malformed_requests_are_answered_with_a_4xx_or_closed() {
    let node = Node::dev();
    for (bytes, status) in [
        ("\r\n\r\n\0\0\0\0\r\n\r\n".to_string(), "400"),
        ("GET\r\n\r\n".into(), "400"),
        ("GET /v1/jobs HTTP/9.9\r\n\r\n".into(), "400"),
        ("GET /v1/jobs HTTP/1.1\r\nno colon\r\n\r\n".into(), "400"),
        ("PUT /v1/jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n".into(), "400"),
        ("PUT /v1/jobs HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345".into(), "400"),
        (
            "PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".into(),
            "400",
        ),
        (format!("GET /v1/jobs?{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "a".repeat(20_000)), "400"),
        (format!("GET /v1/jobs HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(1 << 20)), "431"),
    ] {
        let begin = Instant::now();
        let answer = rest(connect(&node, bytes.as_bytes()));
        let told = answer.split(' ').nth(1).unwrap_or_default();
        assert!(told == status || answer.is_empty(), "{bytes:.60}: {answer}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{bytes:.60}");
    }
    assert_eq!(node.get("/v1/jobs").json(), json!([]), "it still answers");
}

#[test]
fn slow_heads_are_cut_off_and_nobody_else_waits() {
    let node = Node::dev();
    let slow: Vec<_> = (0..50).map(|_| connect(&node, b"GET /v1/jobs HTTP/1.1\r\nHost: a\r\nX-S")).collect();
    let begin = Instant::now();
    assert_eq!(node.get("/v1/jobs").status, 200);
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    for stream in slow {
        let answer = rest(stream);
        assert!(answer.is_empty() || answer.contains(" 408 "), "{answer}");
    }
    assert!(begin.elapsed() < Duration::from_secs(15), "a head has 5 seconds: {:?}", begin.elapsed());
}

/// More connections than there may be: those beyond are told so or closed, and the silent ones give their places back.
#[test]
fn a_crowd_of_silent_connections_is_let_go() {
    let node = Node::dev();
    let before = resident_kib(&node);
    let silent: Vec<_> =
        (0..2000).filter_map(|_| TcpStream::connect(("127.0.0.1", node.port)).ok()).collect();
    assert!(silent.len() > 1024, "{}", silent.len());
    let grown = resident_kib(&node).saturating_sub(before);
    assert!(grown < 48 << 10, "{grown} KiB for 1024 connections");
    let ask = || web::try_send(node.port, "GET", "/v1/jobs", "").ok().filter(|answer| answer.status == 200);
    wait::until("silent connections go, and others are answered", ask);
    drop(silent);
}

fn resident_kib(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.agent_pid())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn half_closed_waits_and_streams_are_let_go() {
    let node = Node::dev();
    node.run("talks", "echo here; sleep 1000");
    let alloc = node.await_alloc("talks", "running");
    let id = alloc["ID"].as_str().expect("an id");
    let logs = format!("/v1/client/fs/logs/{id}?task=t&type=stdout&follow=true");
    for target in ["/v1/jobs?index=100000&wait=300s", logs.as_str()] {
        let stream = connect(&node, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        stream.shutdown(Shutdown::Write).expect("half a close");
        let begin = Instant::now();
        rest(stream);
        assert!(begin.elapsed() < PATIENCE, "{target}");
    }
    assert_eq!(node.get("/v1/jobs").status, 200);
}

#[test]
fn a_body_that_stops_half_way_holds_nobody_up() {
    let node = Node::dev();
    let head = b"PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{\"Job\":";
    let stuck: Vec<_> = (0..20).map(|_| connect(&node, head)).collect();
    assert_eq!(node.get("/v1/jobs").status, 200);
    for stream in &stuck {
        stream.shutdown(Shutdown::Write).expect("half a close");
    }
    for stream in stuck {
        let answer = rest(stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}
