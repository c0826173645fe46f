//! Readers of events: each at its own pace, and not too many.

use super::*;

/// A reader that takes nothing while the ring moves on is ended with a sentence; one that reads is not.
#[test]
fn a_slow_event_stream_ends_with_an_error() {
    let mut server = Server::start("slow-events", HttpLimits::default());
    let subscription =
        "GET /v1/event/stream?topic=Evaluation HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut slow = server.send(subscription);
    let mut first = [0; 1];
    slow.read_exact(&mut first).unwrap();
    // far more than sockets and queues hold
    let long = "x".repeat(1 << 20);
    for n in 1..40 {
        let mut evaluation = eval(n, "web");
        evaluation.status_description.clone_from(&long);
        server.run(&Command::UpdateEvals { evals: vec![evaluation], at: AT });
    }
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("\"Error\":\"this reader was too slow"), "{} bytes", rest.len());
}

/// Lines are made once for those who follow the same; who follows something else gets its own.
#[test]
fn readers_of_events_get_what_they_follow() {
    let mut server = Server::start("topics", HttpLimits::default());
    let follow = |topic: &str| {
        let mut reader =
            server.send(&format!("GET /v1/event/stream?topic={topic} HTTP/1.1\r\nHost: a\r\n\r\n"));
        move |part: &str| {
            let mut text = Vec::new();
            while !String::from_utf8_lossy(&text).contains(part) {
                let mut byte = [0; 1];
                reader.read_exact(&mut byte).unwrap();
                text.push(byte[0]);
            }
            String::from_utf8_lossy(&text).into_owned()
        }
    };
    let mut readers = ["Job", "Evaluation", "Job", "Job:other"].map(follow);
    readers.iter_mut().for_each(|line| drop(line("{}\n")));
    server.run(&Command::UpdateEvals { evals: vec![eval(1, "web")], at: AT });
    server.run(&register(spec("web", 1), None));
    server.run(&register(spec("other", 1), None));
    for (reader, begins, without) in
        [(0, "\"Key\":\"web\"", "Evaluation"), (2, "\"Key\":\"web\"", "Evaluation")]
    {
        assert!(!readers[reader](begins).contains(without));
    }
    readers[1]("\"Topic\":\"Evaluation\"");
    assert!(!readers[3]("\"Key\":\"other\"").contains("\"Key\":\"web\""));
}

#[test]
fn readers_of_events_are_bounded() {
    let server = Server::start("many-events", HttpLimits::default());
    let subscription = "GET /v1/event/stream HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut readers: Vec<Socket> = (0..events::MAX_READERS).map(|_| server.send(subscription)).collect();
    for reader in &mut readers {
        let mut head = [0; 15];
        reader.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
    }
    let refused = server.get("/v1/event/stream");
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("are open already"), "{refused}");
}
