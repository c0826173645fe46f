//! The client against servers that say what they are told to.

use super::*;
use std::io::Write;
use std::net::TcpListener;
use std::thread;

#[test]
fn paths_and_queries_are_encoded() {
    assert_eq!(encode("app/periodic-17 ä*"), "app%2Fperiodic-17%20%C3%A4%2A");
    let settings = CliSettings {
        address: "http://a:1".to_string(),
        region: "r".to_string(),
        namespace: "n s".to_string(),
        ..CliSettings::default()
    };
    let client = HttpClient::new(&settings);
    let request = client.request("GET", "/v1/jobs", &[("prefix", "x&y"), ("namespace", "*")]);
    let uri = request.uri_ref().map(ToString::to_string);
    assert_eq!(uri.as_deref(), Some("http://a:1/v1/jobs?prefix=x%26y&namespace=%2A&region=r"));
}

#[test]
fn urls_take_region_and_namespace() {
    let settings = CliSettings {
        address: "http://a:1".to_string(),
        namespace: "n s".to_string(),
        ..CliSettings::default()
    };
    let client = HttpClient::new(&settings);
    for (target, url) in [
        ("/v1/jobs", "http://a:1/v1/jobs?namespace=n%20s"),
        ("v1/jobs?prefix=x", "http://a:1/v1/jobs?prefix=x&namespace=n%20s"),
        ("http://b:2/v1/x", "http://b:2/v1/x?namespace=n%20s"),
    ] {
        assert_eq!(client.url(target), url);
    }
}

/// The lines of a head, and a body.
type Came = (Vec<String>, Vec<u8>);

/// What it said, and what came of this answer to it.
fn exchange(answer: &'static str) -> (String, Result<Came, RequestError>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/jobs?a=b#c", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut said = vec![];
        while !said.ends_with(b"hello") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            said.push(byte[0]);
        }
        socket.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(said).unwrap()
    });
    let client = HttpClient::new(&CliSettings::default());
    let came = client.raw("BREW", &url, &[], Some(b"hello".to_vec())).and_then(|mut answer| {
        let mut body = vec![];
        answer.body.read_to_end(&mut body).map_err(|e| failed(e.to_string()))?;
        Ok((answer.head, body))
    });
    (server.join().unwrap(), came)
}

#[test]
fn answers_end_where_they_say() {
    for (answer, head, body) in [
        (
            "HTTP/1.1 200 OK\r\nx-nomad-index: 3\r\nContent-Length: 3\r\n\r\nabcd",
            &["200 OK", "X-Nomad-Index: 3"][..],
            &b"abc"[..],
        ),
        (
            "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            &["404 Not Found"],
            b"ab",
        ),
        ("HTTP/1.0 200 OK\r\n\r\nabcde", &["200 OK"], b"abcde"),
        ("HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", &["301 Moved Permanently"], b""),
    ] {
        let (said, came) = exchange(answer);
        assert!(said.starts_with("BREW /v1/jobs?a=b HTTP/1.1\r\n"), "{said}");
        assert!(said.to_lowercase().contains("\r\ncontent-length: 5\r\n"), "{said}");
        let (lines, bytes) = came.unwrap();
        assert!(head.iter().all(|line| lines.iter().any(|l| l == line)), "{lines:?}");
        assert_eq!(bytes, body);
    }
}

#[test]
fn broken_answers_are_errors() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "SSH-2.0-x\r\n\r\n",
        "",
    ] {
        assert!(exchange(answer).1.is_err(), "{answer}");
    }
}

#[test]
fn a_request_that_would_become_two_is_not_sent() {
    let client = HttpClient::new(&CliSettings::default());
    let sent = |url: &str, name: &str, value: &str| {
        let headers = [(name.to_string(), value.to_string())];
        match client.raw("GET", url, &headers, None) {
            Err(RequestError::Failed(failure)) => failure.to_string(),
            _ => panic!("{url} was sent"),
        }
    };
    for (url, name, value) in [
        ("http://127.0.0.1:1/a b", "X-A", "b"),
        ("http://127.0.0.1:1/a\r\nb", "X-A", "b"),
        ("ftp://127.0.0.1:1/", "X-A", "b"),
        ("http:///a", "X-A", "b"),
        ("http://127.0.0.1:1/", "X-A", "b\r\nX-C: d"),
        ("http://127.0.0.1:1/", "X A", "b"),
    ] {
        let told = sent(url, name, value);
        assert!(told.contains("cannot be asked"), "{url}: {told}");
    }
}
