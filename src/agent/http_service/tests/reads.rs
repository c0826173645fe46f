//! Reads over a socket: who is woken by which change, HEAD, and what is worked out beside the thread that serves.

use super::*;

#[test]
fn a_query_by_prefix_is_woken_by_jobs_that_begin_so() {
    let mut server = Server::start("prefix", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let mut socket = server.send(&get("/v1/jobs?prefix=we&index=1&wait=60s"));
    while server.service.blocking_queries.blocked() == 0 {
        std::thread::yield_now();
    }
    server.run(&register(spec("other", 1), None));
    assert_eq!(server.service.blocking_queries.blocked(), 1);
    server.run(&register(spec("web-2", 1), None));
    let answer = read_until(&mut socket, |_| false);
    assert_eq!(status(&answer), "200");
    assert!(answer.contains("\"web-2\"") && !answer.contains("\"other\""), "{answer}");
}

#[test]
fn head_answers_as_get_without_a_body() {
    let mut server = Server::start("head", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let whole = server.get("/v1/jobs");
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    assert!(body.starts_with("[{"), "{whole}");
    let told = server.ask(&get("/v1/jobs").replacen("GET", "HEAD", 1));
    assert_eq!(told, format!("{head}\r\n\r\n"));
}

#[test]
fn differences_of_versions_come_over_http() {
    let mut server = Server::start("differences", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let mut changed = spec("web", 1);
    changed.priority = 60;
    server.run(&register(changed, None));
    let answer = server.get("/v1/job/web/versions?diffs=true");
    assert_eq!(status(&answer), "200");
    assert!(answer.contains(r#""Name":"Priority","Old":"50","New":"60""#), "{answer}");
}

#[test]
fn differences_take_one_of_the_places_for_computations() {
    let mut server = Server::start("places", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let places: Vec<_> = std::iter::from_fn(|| server.service.computations.try_acquire_arc()).collect();
    assert_eq!(places.len(), MAX_COMPUTATIONS);
    for query in ["diffs=true", "diff_version=0"] {
        let refused = server.get(&format!("/v1/job/web/versions?{query}"));
        assert!(status(&refused) == "429" && refused.contains("Retry-After: 1"), "{refused}");
    }
    assert_eq!(status(&server.get("/v1/job/web/versions")), "200");
    drop(places);
    assert_eq!(status(&server.get("/v1/job/web/versions?diffs=true")), "200");
}

#[test]
fn requests_are_answered_while_something_is_computed() {
    let server = Server::start("beside", HttpLimits::default());
    let (release, released) = async_channel::bounded::<()>(1);
    let (begin, begun) = async_channel::bounded::<()>(1);
    let service = server.service.clone();
    let computing = server.service.executor.spawn(async move {
        let work = move |_: &Reader| {
            begin.close();
            // until the other request is answered
            Ok(released.recv_blocking().is_err())
        };
        service.compute(work).await
    });
    let _closed = smol::block_on(begun.recv());
    assert!(server.get("/v1/regions").ends_with("[\"global\"]"));
    assert!(!computing.is_finished());
    drop(release);
    assert!(matches!(smol::block_on(computing), Ok(true)));
}

#[test]
fn filtered_lists_do_not_block_other_requests() {
    let mut server = Server::start("filtered", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let service = server.service.clone();
    let at_work: Vec<_> = std::iter::from_fn(|| service.searches.try_acquire_arc()).collect();
    assert_eq!(at_work.len(), MAX_SEARCHES);
    let mut waiting: Vec<_> = std::iter::from_fn(|| service.waiting_searches.try_acquire_arc()).collect();
    assert_eq!(waiting.len(), MAX_WAITING_SEARCHES);
    let filtered = "/v1/jobs?%66ilter=ID+==+web";
    let refused = server.get(filtered);
    assert!(status(&refused) == "429" && refused.contains("Retry-After: 1"), "{refused}");
    assert_eq!(status(&server.get("/v1/jobs")), "200", "what filters nothing needs no place");
    waiting.pop();
    let mut socket = server.send(&get(filtered));
    while service.waiting_searches.try_acquire_arc().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(status(&server.get("/v1/jobs")), "200", "it waits beside the thread that answers");
    drop(at_work);
    let answer = read_until(&mut socket, |_| false);
    assert!(status(&answer) == "200" && answer.contains(r#""ID":"web""#), "{answer}");
    drop(waiting);
    let none = server.get("/v1/jobs?filter=ID+==+other");
    assert!(status(&none) == "200" && none.ends_with("[]"), "{none}");
}
