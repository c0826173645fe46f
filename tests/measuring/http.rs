//! One kept-alive HTTP/1.1 connection, just enough for drover's answers.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any wait that is asked for.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct Http {
    stream: BufReader<TcpStream>,
}

pub struct Answer {
    pub status: u16,
    /// X-Nomad-Index.
    pub index: u64,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Result<Value, String> {
        let text = || String::from_utf8_lossy(&self.body).into_owned();
        if self.status != 200 {
            return Err(format!("HTTP status {}: {}", self.status, text()));
        }
        serde_json::from_slice(&self.body).map_err(|e| format!("{e}: {}", text()))
    }
}

impl Http {
    pub fn connect(to: SocketAddr) -> std::io::Result<Http> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Http { stream: BufReader::new(stream) })
    }

    pub fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.ask("GET", path, b"").map_err(|e| format!("GET {path}: {e}"))
    }

    pub fn put(&mut self, path: &str, body: &[u8]) -> Result<Answer, String> {
        self.ask("PUT", path, body).map_err(|e| format!("PUT {path}: {e}"))
    }

    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<Answer> {
        self.write(method, path, body)?;
        self.answer()
    }

    fn write(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<()> {
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        self.stream.get_mut().write_all(&[head.as_bytes(), body].concat())
    }

    /// Asks; the answer is taken later.
    pub fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Result<(), String> {
        self.write(method, path, body).map_err(|e| format!("{method} {path}: {e}"))
    }

    pub fn take_answer(&mut self) -> Result<Answer, String> {
        self.answer().map_err(|e| format!("an answer: {e}"))
    }

    /// Head of an answer that comes in pieces.
    pub fn take_head(&mut self) -> Result<(), String> {
        while !self.line().map_err(|e| format!("a head: {e}"))?.is_empty() {}
        Ok(())
    }

    /// The next piece of such an answer; `None` at its end.
    pub fn take_piece(&mut self) -> Result<Option<Vec<u8>>, String> {
        let wrong = |e: std::io::Error| format!("a piece: {e}");
        let length = self.line().map_err(wrong)?;
        let length = usize::from_str_radix(&length, 16).map_err(|e| format!("{length:?}: {e}"))?;
        let mut piece = vec![0; length + 2];
        self.stream.read_exact(&mut piece).map_err(wrong)?;
        piece.truncate(length);
        Ok((length > 0).then_some(piece))
    }

    /// Says that nothing more will be asked.
    pub fn shut(&self) -> std::io::Result<()> {
        self.socket().shutdown(Shutdown::Write)
    }

    /// Reads on until the agent has closed the connection.
    pub fn rest(mut self) -> std::io::Result<()> {
        std::io::copy(&mut self.stream, &mut std::io::sink()).map(|_| ())
    }

    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    fn answer(&mut self) -> std::io::Result<Answer> {
        let wrong = |what: &str| std::io::Error::other(format!("{what} in the answer"));
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|s| s.parse().ok());
        let (mut length, mut index, mut chunked) = (0, 0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            let Some((name, value)) = line.split_once(": ") else { break };
            match name {
                "content-length" => length = value.parse().map_err(|_| wrong("no length"))?,
                "x-nomad-index" => index = value.parse().map_err(|_| wrong("no index"))?,
                "transfer-encoding" => chunked = value == "chunked",
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if chunked {
            return Err(wrong("unexpected chunks"));
        }
        self.stream.read_exact(&mut body)?;
        Ok(Answer { status: status.ok_or_else(|| wrong("no status"))?, index, body })
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_string())
    }
}
