//! The head of an answer.
//!
//! Refuses to know: bodies, sockets. Invariant: no header brings another one along, and only we say where a body ends.

use crate::clock;
use jiff::fmt::rfc2822::DateTimePrinter;

/// How the body of an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Bytes(usize),
    Chunks,
    /// With the connection.
    Open,
    /// There is none.
    Nothing,
}

/// Headers that say where an answer ends: nobody else sets them.
const OURS: &[&str] = &["Content-Length", "Transfer-Encoding", "Connection"];

pub struct ReplyHead(Vec<u8>);

impl ReplyHead {
    /// `extra`: what the operator wants to have on every answer; it replaces what would be there otherwise.
    pub fn new(status: u16, headers: &[(&'static str, String)], extra: &[(String, String)]) -> ReplyHead {
        let mut head = ReplyHead(format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes());
        let replaced = |name: &str| extra.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        for (name, value) in headers.iter().filter(|(name, _)| !replaced(name)) {
            head.add(name, value);
        }
        let ours = |name: &str| OURS.iter().any(|other| other.eq_ignore_ascii_case(name));
        for (name, value) in extra.iter().filter(|(name, _)| !ours(name)) {
            head.add(name, value);
        }
        if let Some(date) = date().filter(|_| !replaced("Date")) {
            head.add("Date", &date);
        }
        head
    }

    /// A header that cannot be written is left out.
    pub fn add(&mut self, name: &str, value: &str) {
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let is_value = |b: u8| b == b'\t' || (b' '..=b'~').contains(&b);
        if !name.is_empty() && name.bytes().all(is_name) && value.bytes().all(is_value) {
            for part in [name, ": ", value, "\r\n"] {
                self.0.extend_from_slice(part.as_bytes());
            }
        }
    }

    /// `connection`: what becomes of it, if that has to be said.
    pub fn end(mut self, length: Length, connection: Option<&str>) -> Vec<u8> {
        match length {
            Length::Bytes(length) => self.add("Content-Length", &length.to_string()),
            Length::Chunks => self.add("Transfer-Encoding", "chunked"),
            Length::Open | Length::Nothing => {}
        }
        if let Some(word) = connection {
            self.add("Connection", word);
        }
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}

fn date() -> Option<String> {
    let now = jiff::Timestamp::from_second(clock::wall()?.0 / 1_000_000_000).ok()?;
    DateTimePrinter::new().timestamp_to_rfc9110_string(&now).ok()
}

/// RFC 9110 section 15, as far as we use it; others need none.
fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(head: Vec<u8>) -> Vec<String> {
        let text = String::from_utf8(head).unwrap();
        assert!(text.ends_with("\r\n\r\n"));
        text.trim_end().split("\r\n").filter(|line| !line.starts_with("Date: ")).map(String::from).collect()
    }

    #[test]
    fn operators_headers_replace_others_and_none_splits_the_answer() {
        let own = [("X-A", "1".into()), ("X-B", "2".into()), ("X-C", "a\r\nX-Evil: yes".into())];
        let extra = [("x-b", "3"), ("content-length", "7"), ("Bad Name", "x"), ("", "x"), ("X-D", "ä")]
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let head = ReplyHead::new(200, &own, &extra);
        assert_eq!(
            lines(head.end(Length::Bytes(5), Some("close"))),
            ["HTTP/1.1 200 OK", "X-A: 1", "x-b: 3", "Content-Length: 5", "Connection: close"]
        );
        assert_eq!(lines(ReplyHead::new(299, &[], &[]).end(Length::Open, None)), ["HTTP/1.1 299 "]);
    }
}
