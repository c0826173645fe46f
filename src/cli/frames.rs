//! Log streams: JSON objects one after the other, without separators (http-api.md 3.2.1). Pure over any reader.

use crate::answer::read;
use crate::error::CommandError;
use base64::Engine as _;
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, Read};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Frame {
    data: String,
    file_event: String,
}

/// What a frame carries; a heartbeat carries nothing and is passed over.
#[derive(Debug, PartialEq, Eq)]
pub enum Chunk {
    Data(Vec<u8>),
    /// `file deleted` or `file truncated`.
    Event(String),
}

/// The chunks of a stream, to its end.
pub fn chunks(stream: impl Read) -> impl Iterator<Item = io::Result<Chunk>> {
    let frames = serde_json::Deserializer::from_reader(io::BufReader::new(stream)).into_iter::<Value>();
    frames.filter_map(|frame| match frame {
        Ok(frame) => read(&frame).map_err(|unlike| io::Error::other(unlike.0)).and_then(chunk).transpose(),
        Err(e) => Some(Err(e.into())),
    })
}

fn chunk(frame: Frame) -> io::Result<Option<Chunk>> {
    if !frame.data.is_empty() {
        let data = base64::engine::general_purpose::STANDARD.decode(&frame.data);
        return data.map(|d| Some(Chunk::Data(d))).map_err(io::Error::other);
    }
    if frame.file_event.is_empty() { Ok(None) } else { Ok(Some(Chunk::Event(frame.file_event))) }
}

pub fn lost(e: io::Error) -> CommandError {
    CommandError::new(format!("The stream broke off: {e}"))
}

/// The last `n` lines of what was added.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: Vec<u8>,
    lines: usize,
}

impl Tail {
    pub fn new(lines: usize) -> Tail {
        Tail { bytes: Vec::new(), lines }
    }

    pub fn add(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
        let start = self.start();
        self.bytes.drain(..start);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn start(&self) -> usize {
        if self.lines == 0 {
            return self.bytes.len();
        }
        let body = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let newlines = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n');
        newlines.map(|(at, _)| at + 1).nth(self.lines - 1).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_need_no_separators() {
        let text = r#"{"Data":"aGk="}{}{"File":"x","FileEvent":"file deleted"}
            {"Offset":3,"Data":"IQ=="}"#;
        let all: io::Result<Vec<Chunk>> = chunks(text.as_bytes()).collect();
        let expected = vec![
            Chunk::Data(b"hi".to_vec()),
            Chunk::Event("file deleted".to_string()),
            Chunk::Data(b"!".to_vec()),
        ];
        assert_eq!(all.ok(), Some(expected));
    }

    #[test]
    fn a_broken_stream_is_an_error() {
        for text in [r#"{"Data":"aGk="}{"Da"#, r#"{"Data":"%%"}"#, "nonsense"] {
            assert!(chunks(text.as_bytes()).any(|c| c.is_err()), "{text}");
        }
    }

    #[test]
    fn the_tail_is_whole_lines() {
        for (lines, chunks, expected) in [
            (2, &["a\nb\n", "c\n"][..], "b\nc\n"),
            (2, &["a\nb\nc"], "b\nc"),
            (5, &["a\nb\n"], "a\nb\n"),
            (1, &["a", "b", "\n", "c"], "c"),
            (0, &["a\n"], ""),
        ] {
            let mut tail = Tail::new(lines);
            chunks.iter().for_each(|c| tail.add(c.as_bytes()));
            assert_eq!(tail.bytes(), expected.as_bytes());
        }
    }
}
