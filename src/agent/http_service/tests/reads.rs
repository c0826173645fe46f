//! Reads over a socket: who is woken by which change, HEAD, and what is worked out beside the thread that serves.

use super::*;

#[test]
fn a_query_by_prefix_is_woken_by_jobs_that_begin_so() {
    let mut server = Server::start("prefix", Limits::default());
    server.run(&register(spec("web", 1), None));
    let mut socket = server.send(&get("/v1/jobs?prefix=we&index=1&wait=60s"));
    while server.service.blocking_queries.sleeping() == 0 {
        std::thread::yield_now();
    }
    server.run(&register(spec("other", 1), None));
    assert_eq!(server.service.blocking_queries.sleeping(), 1);
    server.run(&register(spec("web-2", 1), None));
    let answer = read_until(&mut socket, |_| false);
    assert_eq!(status(&answer), "200");
    assert!(answer.contains("\"web-2\"") && !answer.contains("\"other\""), "{answer}");
}

#[test]
fn head_answers_as_get_without_a_body() {
    let mut server = Server::start("head", Limits::default());
    server.run(&register(spec("web", 1), None));
    let whole = server.get("/v1/jobs");
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    assert!(body.starts_with("[{"), "{whole}");
    let told = server.ask(&get("/v1/jobs").replacen("GET", "HEAD", 1));
    assert_eq!(told, format!("{head}\r\n\r\n"));
}

#[test]
fn differences_of_versions_come_over_http() {
    let mut server = Server::start("differences", Limits::default());
    server.run(&register(spec("web", 1), None));
    let mut changed = spec("web", 1);
    changed.priority = 60;
    server.run(&register(changed, None));
    let answer = server.get("/v1/job/web/versions?diffs=true");
    assert_eq!(status(&answer), "200");
    assert!(answer.contains(r#""Name":"Priority","Old":"50","New":"60""#), "{answer}");
}
