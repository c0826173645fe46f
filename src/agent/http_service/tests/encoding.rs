//! What a caller may ask of the form of an answer: compression, and leave for pages of other origins.

use super::*;
use flate2::read::GzDecoder;

fn with(target: &str, method: &str, headers: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n")
}

/// The head as text, the body as bytes.
fn answer(server: &Server, request: &str) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    server.send(request).read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    (String::from_utf8_lossy(&bytes[..end]).to_string(), bytes[end..].to_vec())
}

fn inflated(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

/// Takes the chunks of a chunked body apart.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|w| w == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 4 + length..];
    }
    body
}

#[test]
fn answers_are_compressed_for_those_who_ask() {
    let mut server = Server::start("gzip", HttpLimits::default());
    server.run(&register(spec("web", 1), None));
    let (head, plain) = answer(&server, &with("/v1/job/web", "GET", ""));
    assert!(!head.contains("Content-Encoding") && plain.len() > 1024, "{head}");
    let (head, small) = answer(&server, &with("/v1/job/web", "GET", "Accept-Encoding: gzip\r\n"));
    assert!(head.contains("Content-Encoding: gzip") && head.contains("Vary: Accept-Encoding"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", small.len())), "{head}");
    assert_eq!(inflated(&small).as_bytes(), plain);
    let (head, body) = answer(&server, &with("/v1/regions", "GET", "Accept-Encoding: gzip\r\n"));
    assert!(!head.contains("Content-Encoding") && body == b"[\"global\"]", "not worth it: {head}");
}

#[test]
fn a_compressed_stream_is_readable_as_it_comes() {
    let mut server = Server::start("gzip-stream", HttpLimits::default());
    server.place_web();
    fs::write(server.logs().join("t.stdout.0"), "one\n").unwrap();
    let target = format!("/v1/client/fs/logs/{}?task=t&type=stdout&plain=true", alloc_id(1));
    let asked = with(&target, "GET", "Accept-Encoding: gzip\r\n");
    let (head, body) = server.granting(&AtomicBool::new(true), || answer(&server, &asked));
    assert!(head.contains("Content-Encoding: gzip"), "{head}");
    assert_eq!(inflated(&unchunked(&body)), "one\n");
}

#[test]
fn cors_headers_answer_pages_of_other_origins() {
    let server = Server::start("cors", HttpLimits::default());
    let page = "Origin: http://a.example\r\n";
    let asked = with("/v1/client/stats", "GET", page);
    let (head, _) = server.granting(&AtomicBool::new(true), || answer(&server, &asked));
    assert!(head.contains("Access-Control-Allow-Origin: *") && head.contains("Vary: Origin"), "{head}");
    let asks = format!("{page}Access-Control-Request-Method: GET\r\n");
    let (head, body) = answer(&server, &with("/v1/client/fs/logs/x", "OPTIONS", &asks));
    assert!(head.starts_with("HTTP/1.1 204") && head.contains("Access-Control-Allow-Methods: GET"), "{head}");
    assert!(body.is_empty() && head.contains("X-Extra: yes"), "the agent's own headers come too: {head}");
    let (head, _) = answer(&server, &with("/v1/jobs", "OPTIONS", &asks));
    assert!(head.starts_with("HTTP/1.1 405") && !head.contains("Access-Control"), "{head}");
    let (head, _) = answer(&server, &with("/v1/jobs", "DELETE", ""));
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");
}
