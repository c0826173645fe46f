//! The head of a request: bytes in, what it asks for out.
//!
//! Refuses to know: sockets, routes. Invariant: where two readers could differ on where a request ends, it is refused.

use super::encoding;
use super::websocket::Offer;
use api::cors;
use api::request::{Method, Request};
use api::response::Response;
use httparse::Status;

/// How long a head may be: request line and headers together.
pub const MAX_HEAD_BYTES: usize = 32 << 10;
pub const MAX_HEADERS: usize = 64;

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunks,
}

pub struct Head {
    /// Its body is still to come.
    pub request: Request,
    pub framing: Framing,
    /// The caller waits for a word before it sends the body.
    pub expects: bool,
    /// The connection may go on after the answer.
    pub keeps: bool,
    /// HTTP/1.0, which knows no chunks.
    pub old: bool,
    pub gzip: bool,
    /// Headers that a browser has to see.
    pub browser: Vec<(&'static str, String)>,
    /// The whole answer to a browser that only asks whether it may ask.
    pub preflight: Option<Response>,
    pub offer: Option<Offer>,
}

/// The headers of a request, by name.
#[derive(Clone, Copy)]
pub struct Headers<'a>(&'a [httparse::Header<'a>]);

impl<'a> Headers<'a> {
    pub fn new(headers: &'a [httparse::Header<'a>]) -> Headers<'a> {
        Headers(headers)
    }

    pub fn all(self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value)
    }

    /// The first of that name, if it is text.
    pub fn get(self, name: &'a str) -> Option<&'a str> {
        self.all(name).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Whether one of the words of this header, which lists words, is `word`.
    pub fn lists(self, name: &'a str, word: &str) -> bool {
        let texts = self.all(name).filter_map(|value| std::str::from_utf8(value).ok());
        texts.flat_map(|text| text.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    }
}

/// Where the head ends that these bytes begin with. The first `looked` bytes were looked through before.
pub fn end(bytes: &[u8], looked: usize) -> Option<usize> {
    let from = looked.saturating_sub(3);
    let ends = |n: &usize| {
        let next = &bytes[n + 1..];
        bytes[*n] == b'\n' && (next.starts_with(b"\n") || next.starts_with(b"\r\n"))
    };
    (from..bytes.len()).find(ends).map(|n| if bytes[n + 1] == b'\n' { n + 2 } else { n + 3 })
}

/// `bytes`: a whole head and nothing behind it. Refused: what to answer before the connection is closed.
pub fn parse(bytes: &[u8]) -> Result<Head, Response> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return Err(malformed("its head is not whole")),
        Err(httparse::Error::TooManyHeaders) => return Err(too_long()),
        Err(error) => return Err(malformed(&error.to_string())),
    }
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(malformed("its head is not whole"));
    };
    let headers = Headers::new(parsed.headers);
    let (path, query) = split(target).ok_or_else(|| malformed("its target is no path"))?;
    let old = version == 0;
    let framing = framing(headers, old).map_err(malformed)?;
    let asked = cors::Asked {
        path,
        method,
        origin: headers.get("Origin"),
        wanted_method: headers.get("Access-Control-Request-Method"),
        wanted_headers: headers.get("Access-Control-Request-Headers"),
    };
    let (browser, preflight) = cors::answer(&asked);
    let offer = Offer::read(headers).filter(|_| method == "GET" && !old);
    let request = Request {
        method: named(method),
        path: path.to_string(),
        query: query.to_string(),
        body: vec![],
        websocket: offer.is_some(),
    };
    Ok(Head {
        request,
        framing,
        expects: !old && headers.lists("Expect", "100-continue"),
        keeps: match old {
            true => headers.lists("Connection", "keep-alive"),
            false => !headers.lists("Connection", "close"),
        },
        old,
        gzip: encoding::takes_gzip(headers),
        browser,
        preflight,
        offer,
    })
}

pub fn too_long() -> Response {
    let limit = MAX_HEAD_BYTES >> 10;
    Response::text(431, format!("the request's head is longer than {limit} KiB or {MAX_HEADERS} headers"))
}

pub fn malformed(why: &str) -> Response {
    Response::text(400, format!("the request cannot be read: {why}"))
}

fn named(method: &str) -> Method {
    match method {
        "GET" => Method::Get,
        "PUT" => Method::Put,
        "POST" => Method::Post,
        "DELETE" => Method::Delete,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        _ => Method::Other,
    }
}

/// Path and query of a target, which may be a whole URL (RFC 9112 section 3.2).
fn split(target: &str) -> Option<(&str, &str)> {
    let target = target.split('#').next()?;
    let local = match target.split_once("://") {
        _ if target.starts_with('/') || target == "*" => target,
        Some((_, rest)) => rest.find(['/', '?']).map_or("/", |at| &rest[at..]),
        None => return None,
    };
    Some(match local.split_once('?') {
        Some(("", query)) => ("/", query),
        Some(parts) => parts,
        None => (local, ""),
    })
}

/// RFC 9112 section 6.3, without what it leaves to taste: a length beside chunks, or two lengths, are a request that hides another.
fn framing(headers: Headers<'_>, old: bool) -> Result<Framing, &'static str> {
    let mut codings = headers.all("Transfer-Encoding");
    let coding = codings.next();
    let mut lengths = headers.all("Content-Length");
    let first = lengths.next();
    if coding.is_some() && (first.is_some() || codings.next().is_some() || old) {
        return Err("its body has two lengths");
    }
    match (coding, first) {
        (None, None) => Ok(Framing::Length(0)),
        (Some(coding), _) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunks),
        (Some(_), _) => Err("its transfer encoding is not known"),
        (None, Some(first)) => {
            if lengths.any(|other| other != first) {
                return Err("its body has two lengths");
            }
            let digits = std::str::from_utf8(first).ok().filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            let length = digits.and_then(|digits| digits.parse().ok());
            length.map(Framing::Length).ok_or("its Content-Length is no number")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &str) -> Result<Head, Response> {
        let bytes = format!("{}\r\n\r\n", lines.replace('\n', "\r\n")).into_bytes();
        assert_eq!(end(&bytes, 0), Some(bytes.len()));
        parse(&bytes)
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_was_cut() {
        for bytes in [&b"GET / HTTP/1.1\r\nA: b\r\n\r\nrest"[..], b"GET / HTTP/1.1\nA: b\n\nrest"] {
            let whole = bytes.len() - 4;
            for cut in 0..whole {
                assert_eq!(end(&bytes[..cut], 0), None, "{cut}");
                assert_eq!(end(bytes, cut), Some(whole), "{cut}");
            }
        }
    }

    #[test]
    fn targets_are_paths_or_whole_urls() {
        for (target, parts) in [
            ("/v1/jobs?a=b?c", Some(("/v1/jobs", "a=b?c"))),
            ("/v1/jobs#part", Some(("/v1/jobs", ""))),
            ("/a://b", Some(("/a://b", ""))),
            ("http://host:1/v1/jobs?a", Some(("/v1/jobs", "a"))),
            ("http://host", Some(("/", ""))),
            ("http://host?a=/b", Some(("/", "a=/b"))),
            ("*", Some(("*", ""))),
            ("host:1", None),
        ] {
            assert_eq!(split(target), parts, "{target}");
        }
    }

    #[test]
    fn the_end_of_a_body_is_told_once() {
        for (lines, framing) in [
            ("A: b", Some(Framing::Length(0))),
            ("Content-Length: 12", Some(Framing::Length(12))),
            ("Content-Length: 12\ncontent-length: 12", Some(Framing::Length(12))),
            ("transfer-encoding: Chunked", Some(Framing::Chunks)),
            ("Content-Length: 12\nContent-Length: 13", None),
            ("Content-Length: +1", None),
            ("Content-Length: ", None),
            ("Content-Length: 1, 1", None),
            ("Content-Length: 99999999999999999999", None),
            ("Content-Length: 5\nTransfer-Encoding: chunked", None),
            ("Transfer-Encoding: chunked\nTransfer-Encoding: chunked", None),
            ("Transfer-Encoding: gzip, chunked", None),
            ("Transfer-Encoding: identity", None),
        ] {
            let read = head(&format!("PUT / HTTP/1.1\n{lines}"));
            assert_eq!(read.as_ref().ok().map(|h| h.framing), framing, "{lines}");
            assert!(read.err().is_none_or(|refused| refused.status == 400));
        }
        assert!(head("PUT / HTTP/1.0\nTransfer-Encoding: chunked").is_err());
    }

    #[test]
    fn connections_go_on_as_their_version_has_it() {
        for (lines, keeps) in [
            ("GET / HTTP/1.1\nHost: a", true),
            ("GET / HTTP/1.1\nConnection: x, Close", false),
            ("GET / HTTP/1.0\nHost: a", false),
            ("GET / HTTP/1.0\nConnection: Keep-Alive", true),
        ] {
            assert_eq!(head(lines).ok().map(|h| h.keeps), Some(keeps), "{lines}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let many: String = (0..=MAX_HEADERS).map(|n| format!("\nX-{n}: a")).collect();
        for (lines, status) in [
            ("GET", 400),
            ("GET / HTTP/2.0", 400),
            ("GET host:80 HTTP/1.1", 400),
            ("GET / HTTP/1.1\nno colon", 400),
            ("GET / HTTP/1.1\nA : b", 400),
            (&format!("GET / HTTP/1.1{many}"), 431),
        ] {
            assert_eq!(head(lines).err().map(|refused| refused.status), Some(status), "{lines}");
        }
    }
}
