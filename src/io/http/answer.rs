//! The head of an answer, as who asked reads it.

use super::head::{Framing, Headers, MAX_HEADERS};
use httparse::Status;

pub struct AnswerHead {
    pub status: u16,
    pub reason: String,
    pub headers: Vec<(String, String)>,
    /// `None`: the body ends with the connection.
    pub framing: Option<Framing>,
}

impl AnswerHead {
    /// `bytes`: a whole head and nothing behind it. `bodiless`: to a request whose answers have no body.
    pub fn parse(bytes: &[u8], bodiless: bool) -> Result<AnswerHead, &'static str> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut headers);
        let Ok(Status::Complete(_)) = parsed.parse(bytes) else { return Err("what came is no HTTP") };
        let status = parsed.code.unwrap_or(0);
        let headers = Headers::new(parsed.headers);
        let framing = match headers.get("Transfer-Encoding") {
            _ if bodiless || matches!(status, 100..200 | 204 | 304) => Some(Framing::Length(0)),
            Some(coding) if coding.eq_ignore_ascii_case("chunked") => Some(Framing::Chunks),
            Some(_) => return Err("its transfer encoding is not known"),
            None => match headers.get("Content-Length").map(str::parse) {
                Some(Ok(length)) => Some(Framing::Length(length)),
                Some(Err(_)) => return Err("its Content-Length is no number"),
                None => None,
            },
        };
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let reason = parsed.reason.unwrap_or_default().to_string();
        let headers = parsed.headers.iter().map(|h| (h.name.to_string(), text(h.value))).collect();
        Ok(AnswerHead { status, reason, headers, framing })
    }

    /// The first of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_body_ends_follows_from_the_head() {
        for (lines, bodiless, framing) in [
            ("200 OK\r\nContent-Length: 3", false, Some(Some(Framing::Length(3)))),
            ("200 OK\r\nContent-Length: 3", true, Some(Some(Framing::Length(0)))),
            ("200\r\ntransfer-encoding: Chunked", false, Some(Some(Framing::Chunks))),
            ("200 OK\r\nA: b", false, Some(None)),
            ("204 No Content\r\nContent-Length: 3", false, Some(Some(Framing::Length(0)))),
            ("100 Continue", false, Some(Some(Framing::Length(0)))),
            ("200 OK\r\nContent-Length: x", false, None),
            ("200 OK\r\nTransfer-Encoding: gzip", false, None),
            ("OK", false, None),
        ] {
            let read = AnswerHead::parse(format!("HTTP/1.1 {lines}\r\n\r\n").as_bytes(), bodiless);
            assert_eq!(read.ok().map(|head| head.framing), framing, "{lines}");
        }
        let read = AnswerHead::parse(b"HTTP/1.0 429 Too Many\r\nX-A: b\r\n\r\n", false).ok().unwrap();
        assert_eq!((read.status, read.reason.as_str(), read.header("x-a")), (429, "Too Many", Some("b")));
    }
}
