//! One request over a socket of its own, and its answer: what the command line needs of HTTP/1.1.
//!
//! Refuses to know: paths and shapes. There are no redirects, no proxies and no TLS. Invariant: every wait has an end.

use ::io::http::{AnswerHead, Framing, Incoming, MAX_HEAD_BYTES, end_of_head};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const CHUNK_BYTES: usize = 16 << 10;

pub struct Ask {
    pub method: String,
    /// With scheme and host.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub patience: Patience,
}

#[derive(Clone, Copy)]
pub enum Patience {
    /// For the whole answer.
    Whole(Duration),
    /// For each piece of it.
    Piece(Duration),
}

pub struct Answer {
    pub head: AnswerHead,
    pub body: Body,
}

/// What is still to come of an answer.
pub struct Body {
    wire: Wire,
    incoming: Incoming,
    /// It ends with the connection.
    open: bool,
}

/// A socket, and what has come of it beyond what was wanted.
pub struct Wire {
    pub socket: TcpStream,
    pub came: Vec<u8>,
    deadline: Deadline,
}

#[derive(Clone, Copy)]
enum Deadline {
    At(Instant),
    Each(Duration),
}

#[derive(Debug)]
pub enum Fault {
    /// It cannot be written as a request.
    Unaskable(&'static str),
    UnknownHost,
    Late(&'static str),
    Io(io::Error),
    Malformed(&'static str),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Fault::Late("the answer"),
            _ => Fault::Io(error),
        }
    }
}

/// Host with port, and what is asked of it.
fn split(url: &str) -> Result<(&str, &str), Fault> {
    let rest = url.strip_prefix("http://").ok_or(Fault::Unaskable("it is no http:// address"))?;
    let (host, target) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let target = target.split('#').next().unwrap_or_default();
    if host.is_empty() || url.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return Err(Fault::Unaskable("a host is missing, or a blank is not escaped"));
    }
    Ok((host, target))
}

impl Ask {
    pub fn send(&self) -> Result<Answer, Fault> {
        let (host, target) = split(&self.url)?;
        let head = self.head(host, target)?;
        let deadline = match self.patience {
            Patience::Whole(whole) => Deadline::At(Instant::now() + whole),
            Patience::Piece(each) => Deadline::Each(each),
        };
        let mut wire = Wire { socket: connect(host)?, came: vec![], deadline };
        let (Patience::Whole(writing) | Patience::Piece(writing)) = self.patience;
        wire.socket.set_write_timeout(Some(writing))?;
        wire.socket.write_all(&[head.as_bytes(), self.body.as_deref().unwrap_or_default()].concat())?;
        loop {
            let head = wire.head(self.method == "HEAD")?;
            if !(100..200).contains(&head.status) || head.status == 101 {
                let framing = head.framing.unwrap_or(Framing::Length(u64::MAX));
                let body =
                    Body { wire, incoming: Incoming::new(framing, usize::MAX), open: head.framing.is_none() };
                return Ok(Answer { head, body });
            }
        }
    }

    fn head(&self, host: &str, target: &str) -> Result<String, Fault> {
        let slash = if target.starts_with('/') { "" } else { "/" };
        let mut head = format!("{} {slash}{target} HTTP/1.1\r\n", self.method);
        let said = |name: &str| self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let length = self.body.as_ref().map(|body| body.len().to_string());
        let agent = concat!("drover/", env!("CARGO_PKG_VERSION"));
        let own = [("Host", Some(host)), ("User-Agent", Some(agent)), ("Accept", Some("*/*"))];
        let ends = [("Connection", Some("close")), ("Content-Length", length.as_deref())];
        let own = own.into_iter().chain(ends).filter(|(name, _)| !said(name));
        let own = own.filter_map(|(name, value)| Some((name, value?)));
        let given = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(given) {
            let is_name = |b: u8| b.is_ascii_graphic() && b != b':';
            let is_value = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
            if name.is_empty() || !name.bytes().all(is_name) || !value.bytes().all(is_value) {
                return Err(Fault::Unaskable("a header has a character that cannot be sent"));
            }
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.method.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(Fault::Unaskable("that is no method"));
        }
        Ok(head + "\r\n")
    }
}

/// The addresses of a host are tried one after the other.
fn connect(host: &str) -> Result<TcpStream, Fault> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let named = if has_port { host.to_string() } else { format!("{host}:80") };
    let mut last = Fault::UnknownHost;
    for address in named.to_socket_addrs().map_err(|_| Fault::UnknownHost)? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(e) if e.kind() == ErrorKind::TimedOut => last = Fault::Late("connecting"),
            Err(e) => last = Fault::Io(e),
        }
    }
    Err(last)
}

impl Wire {
    /// Adds to what has come; false at the end.
    fn more(&mut self) -> Result<bool, Fault> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            let left = match self.deadline {
                Deadline::At(at) => at.saturating_duration_since(Instant::now()),
                Deadline::Each(each) => each,
            };
            if left.is_zero() {
                return Err(Fault::Late("the answer"));
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.read(&mut chunk) {
                // a wait with an end is interrupted when a stopped process goes on
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                read => {
                    let read = read?;
                    self.came.extend_from_slice(&chunk[..read]);
                    return Ok(read > 0);
                }
            }
        }
    }

    fn head(&mut self, bodiless: bool) -> Result<AnswerHead, Fault> {
        loop {
            if let Some(end) = end_of_head(&self.came, 0) {
                let rest = self.came.split_off(end);
                let head = std::mem::replace(&mut self.came, rest);
                return AnswerHead::parse(&head, bodiless).map_err(Fault::Malformed);
            }
            if self.came.len() > MAX_HEAD_BYTES {
                return Err(Fault::Malformed("its head is too long"));
            }
            if !self.more()? {
                return Err(Fault::Io(ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

impl Body {
    /// All of it, unless it is longer than that.
    pub fn read_whole(&mut self, limit: u64) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![];
        self.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit { Err(Fault::Malformed("it is too long")) } else { Ok(bytes) }
    }

    /// The connection goes on as something else.
    pub fn into_wire(self) -> Wire {
        self.wire
    }
}

impl Read for Body {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.incoming.bytes.is_empty() && !self.incoming.is_whole() {
            self.incoming.take(&mut self.wire.came).map_err(io::Error::other)?;
            if self.incoming.bytes.is_empty() && !self.incoming.is_whole() {
                match self.wire.more() {
                    Ok(true) => {}
                    Ok(false) if self.open => return Ok(0),
                    Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                    Err(Fault::Io(error)) => return Err(error),
                    Err(_) => return Err(ErrorKind::TimedOut.into()),
                }
            }
        }
        let length = out.len().min(self.incoming.bytes.len());
        out[..length].copy_from_slice(&self.incoming.bytes[..length]);
        self.incoming.bytes.drain(..length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    fn ask(url: String) -> Ask {
        let patience = Patience::Whole(Duration::from_secs(20));
        Ask { method: "GET".into(), url, headers: vec![], body: Some(b"hello".to_vec()), patience }
    }

    /// What it said, and what came of this answer to it.
    fn exchange(answer: &'static str, target: &str) -> (String, Result<(u16, Vec<u8>), Fault>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}{target}", listener.local_addr().unwrap());
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
        let came = ask(url).send().and_then(|mut answer| {
            let body = answer.body.read_whole(10)?;
            Ok((answer.head.status, body))
        });
        (server.join().unwrap(), came)
    }

    #[test]
    fn answers_end_where_they_say() {
        for (answer, status, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", 200, &b"abc"[..]),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
                404,
                b"ab",
            ),
            ("HTTP/1.0 200 OK\r\n\r\nabcde", 200, b"abcde"),
        ] {
            let (said, came) = exchange(answer, "/v1/jobs?a=b#c");
            assert!(said.starts_with("GET /v1/jobs?a=b HTTP/1.1\r\nHost: 127.0.0.1:"), "{said}");
            assert!(said.contains("\r\nContent-Length: 5\r\n"), "{said}");
            let (code, bytes) = came.unwrap();
            assert_eq!((code, bytes.as_slice()), (status, body));
        }
    }

    #[test]
    fn what_breaks_off_or_is_no_answer_is_told() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nabcdefghijk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "SSH-2.0-x\r\n\r\n",
            "",
        ] {
            assert!(exchange(answer, "").1.is_err(), "{answer}");
        }
    }

    #[test]
    fn what_would_become_two_requests_is_not_sent() {
        for url in ["http://127.0.0.1:1/a b", "http://127.0.0.1:1/a\r\nb", "https://a", "http:///a"] {
            assert!(matches!(ask(url.into()).send(), Err(Fault::Unaskable(_))), "{url}");
        }
        let mut split = ask("http://127.0.0.1:1/".into());
        split.headers = vec![("X-A".into(), "b\r\nX-C: d".into())];
        assert!(matches!(split.send(), Err(Fault::Unaskable(_))));
    }
}
