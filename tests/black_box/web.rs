//! HTTP as the wire has it: requests written byte by byte, so that nothing mends them on the way.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(90);

pub struct Answer {
    pub status: u16,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body of a success.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    #[track_caller]
    pub fn index(&self) -> u64 {
        self.headers["x-nomad-index"].parse().expect("an index")
    }
}

/// A request on a connection of its own.
#[track_caller]
pub fn send(port: u16, method: &str, target: &str, body: &str) -> Answer {
    try_send(port, method, target, body).unwrap_or_else(|e| panic!("{method} {target}: {e}"))
}

pub fn try_send(port: u16, method: &str, target: &str, body: &str) -> std::io::Result<Answer> {
    let mut stream = open(port, method, target, body)?;
    read_answer(&mut stream)
}

/// Sends the request; the answer is still to come.
pub fn open(port: u16, method: &str, target: &str, body: &str) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // who refuses a body may close before it is all written
    (&stream).write_all(head.as_bytes())?;
    let _ = (&stream).write_all(body.as_bytes());
    Ok(BufReader::new(stream))
}

pub fn read_head(stream: &mut impl BufRead) -> std::io::Result<(u16, BTreeMap<String, String>)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no status line: {line:?}")))?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Ok((status, headers)) };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_string());
    }
}

pub fn read_answer(stream: &mut impl BufRead) -> std::io::Result<Answer> {
    let (status, headers) = read_head(stream)?;
    let body = match headers.get("transfer-encoding").map(String::as_str) {
        Some("chunked") => read_chunks(stream)?,
        _ => {
            let mut body = vec![];
            stream.read_to_end(&mut body)?;
            body
        }
    };
    Ok(Answer { status, headers, body })
}

fn read_chunks(stream: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = vec![];
    while let Some(chunk) = read_chunk(stream)? {
        body.extend(chunk);
    }
    Ok(body)
}

/// `None` at the end of the body.
pub fn read_chunk(stream: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
    let mut chunk = vec![0; length];
    stream.read_exact(&mut chunk)?;
    stream.read_line(&mut String::new())?;
    Ok((length > 0).then_some(chunk))
}
