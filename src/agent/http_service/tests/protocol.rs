//! What HTTP/1 says of connections: how long they go on, in which order answers come, how bodies arrive.

use super::*;
use std::io::ErrorKind;
use std::net::Shutdown;

/// An empty list, whole.
fn is_answered(answer: &str) -> bool {
    answer.ends_with("\r\n\r\n[]")
}

#[test]
fn one_connection_takes_many_requests_that_may_come_at_once() {
    let server = Server::start("keepalive", HttpLimits::default());
    let thrice = format!(
        "\r\nGET /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\nPUT /v1/search HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}{}",
        get("/v1/regions")
    );
    let answer = server.ask(&thrice);
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{answer}");
    assert_eq!(answer.matches("\r\nDate: ").count(), 3, "{answer}");
    let (jobs, regions) = (answer.find("[]").unwrap(), answer.find("[\"global\"]").unwrap());
    assert!(jobs < regions, "in their order: {answer}");
    assert_eq!(answer.matches("Connection: close").count(), 1, "{answer}");
}

#[test]
fn a_connection_that_was_used_outlives_the_time_for_a_head() {
    let server = Server::start("idle", HttpLimits::default());
    let ask = "GET /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n";
    let (mut used, mut silent) = (server.send(ask), server.send(""));
    read_until(&mut used, is_answered);
    assert_eq!(silent.read(&mut [0]).unwrap(), 0, "one that says nothing is closed");
    used.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!(used.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    used.set_read_timeout(None).unwrap();
    used.write_all(ask.as_bytes()).unwrap();
    assert_eq!(status(&read_until(&mut used, is_answered)), "200");
}

#[test]
fn old_callers_are_answered_in_their_version() {
    let server = Server::start("old", HttpLimits::default());
    let answer = server.ask("GET /v1/jobs HTTP/1.0\r\n\r\n");
    assert!(is_answered(&answer) && !answer.contains("Connection: keep-alive"), "{answer}");
    let twice = "GET /v1/jobs HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /v1/jobs HTTP/1.0\r\n\r\n";
    let answer = server.ask(twice);
    assert_eq!(answer.matches("HTTP/1.0 200 OK").count(), 2, "{answer}");
    assert_eq!(answer.matches("Connection: keep-alive\r\n").count(), 1, "{answer}");
    let mut stream = server.send("GET /v1/event/stream HTTP/1.0\r\n\r\n");
    let begun = read_until(&mut stream, |a| a.ends_with("{}\n"));
    assert!(!begun.contains("Transfer-Encoding") && begun.ends_with("\r\n\r\n{}\n"), "{begun}");
}

#[test]
fn chunked_bodies_and_expect_continue_are_read() {
    let server = Server::start("bodies", HttpLimits::default());
    let ask = "PUT /v1/jobs/parse HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let mut chunked = server.send(&format!("{ask}Transfer-Encoding: chunked\r\n\r\n6\r\n{{\"JobH"));
    chunked.write_all(b"\r\n1a;x=y\r\nCL\":\"job \\\"a\\\" { x = 1 }\"}\r\n0\r\nA: b\r\n\r\n").unwrap();
    let answer = read_until(&mut chunked, |_| false);
    assert!(status(&answer) == "400" && answer.contains("job has no"), "the file was read: {answer}");
    let mut asks_first = server.send(&format!("{ask}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
    let leave = read_until(&mut asks_first, |a| a.ends_with("\r\n\r\n"));
    assert_eq!(leave, "HTTP/1.1 100 Continue\r\n\r\n");
    asks_first.write_all(b"{}").unwrap();
    assert_eq!(status(&read_until(&mut asks_first, |_| false)), "400");
}

#[test]
fn a_write_is_answered_after_its_caller_half_closed() {
    let server = Server::start("half", HttpLimits::default());
    let mut socket = server.send(&put("/v1/jobs", JOB));
    socket.shutdown(Shutdown::Write).unwrap();
    let ServerCall::Write(_, reply) = smol::block_on(server.asks.recv()).unwrap() else { panic!("no write") };
    reply.send(Ok(WriteReply::Job { eval: Some(EvalId::default()), job_modify_index: 3, index: 4 }));
    assert_eq!(status(&read_until(&mut socket, |_| false)), "200");
}

/// Sent ahead of its turn, it is answered after what came before, and is no leaving.
#[test]
fn a_pipelined_request_is_answered_after_a_waiting_query() {
    let mut server = Server::start("ahead", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let ask = "GET /v1/job/web?index=1&wait=60s HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut socket = server.send(&format!("{ask}{}", get("/v1/regions")));
    while server.service.blocking_queries.blocked() == 0 {
        std::thread::yield_now();
    }
    let mut changed = spec("web", 1);
    changed.priority = 60;
    server.run(&register(changed, None));
    let answer = read_until(&mut socket, |_| false);
    let (job, regions) = (answer.find("\"Priority\":60").unwrap(), answer.find("[\"global\"]").unwrap());
    assert!(job < regions, "{answer}");
}
