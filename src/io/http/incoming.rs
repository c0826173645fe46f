//! The body of a message as it comes in, by its length or in chunks.
//!
//! Refuses to know: sockets. Invariants: nothing behind the body is taken; what is kept is bounded, as is each line between chunks.

use super::head::Framing;

/// The longest line between chunks, and all trailers together.
const MAX_LINE_BYTES: usize = 4 << 10;

#[derive(Debug)]
pub struct Incoming {
    left: Left,
    /// How much has come, kept or not.
    pub total: u64,
    /// What has come, up to the limit; beyond it nothing.
    pub bytes: Vec<u8>,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Length(u64),
    /// A chunk's size is next.
    Size,
    /// Of this chunk.
    Chunk(u64),
    /// The end of a chunk's line is next.
    Line,
    /// How much of them has come.
    Trailers(usize),
    Nothing,
}

impl Incoming {
    pub fn new(framing: Framing, limit: usize) -> Incoming {
        let left = match framing {
            Framing::Length(length) => Left::Length(length),
            Framing::Chunks => Left::Size,
        };
        Incoming { left, total: 0, bytes: vec![], limit }
    }

    pub fn is_whole(&self) -> bool {
        matches!(self.left, Left::Length(0) | Left::Nothing)
    }

    pub fn is_too_long(&self) -> bool {
        self.total > self.limit as u64
    }

    /// Takes what belongs to the body from the front of what has come.
    pub fn take(&mut self, from: &mut Vec<u8>) -> Result<(), &'static str> {
        let mut used = 0;
        while !self.is_whole() {
            let came = &from[used..];
            let step = match self.left {
                Left::Length(left) | Left::Chunk(left) => self.data(came, left),
                Left::Size | Left::Line | Left::Trailers(_) => self.line(came)?,
                Left::Nothing => 0,
            };
            if step == 0 {
                break;
            }
            used += step;
        }
        from.drain(..used);
        Ok(())
    }

    fn data(&mut self, came: &[u8], left: u64) -> usize {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(came.len());
        self.total += taken as u64;
        if self.is_too_long() {
            self.bytes = vec![];
        } else {
            self.bytes.extend_from_slice(&came[..taken]);
        }
        let left = left - taken as u64;
        self.left = match self.left {
            Left::Length(_) => Left::Length(left),
            _ if left == 0 => Left::Line,
            _ => Left::Chunk(left),
        };
        taken
    }

    /// How long the line is, or 0 when it is not whole yet.
    fn line(&mut self, came: &[u8]) -> Result<usize, &'static str> {
        let Some(end) = came.iter().take(MAX_LINE_BYTES).position(|b| *b == b'\n') else {
            return if came.len() < MAX_LINE_BYTES {
                Ok(0)
            } else {
                Err("a line between chunks is too long")
            };
        };
        let line = came[..end].strip_suffix(b"\r").ok_or("a line between chunks has no proper end")?;
        self.left = match self.left {
            Left::Size => match size(line).ok_or("a chunk has no size")? {
                0 => Left::Trailers(0),
                size => Left::Chunk(size),
            },
            Left::Line if line.is_empty() => Left::Size,
            Left::Trailers(_) if line.is_empty() => Left::Nothing,
            Left::Trailers(so_far) if so_far + end < MAX_LINE_BYTES => Left::Trailers(so_far + end),
            Left::Trailers(_) => return Err("its trailers are too long"),
            _ => return Err("a chunk is longer than its size"),
        };
        Ok(end + 1)
    }
}

/// Hexadecimal digits, and extensions behind a semicolon, which nobody needs to understand.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|b| *b == b';').next()?.trim_ascii_end();
    let hex = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
    u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 20;

    /// Given in pieces of `step` bytes: the body, and what is left behind it.
    fn read(framing: Framing, bytes: &[u8], step: usize) -> Result<(Incoming, Vec<u8>), &'static str> {
        let (mut incoming, mut buffer) = (Incoming::new(framing, LIMIT), vec![]);
        for piece in bytes.chunks(step) {
            buffer.extend_from_slice(piece);
            incoming.take(&mut buffer)?;
        }
        Ok((incoming, buffer))
    }

    #[test]
    fn bodies_end_where_they_say_however_they_are_cut() {
        for (framing, bytes, body) in [
            (Framing::Length(3), "abcNEXT", "abc"),
            (Framing::Length(0), "NEXT", ""),
            (Framing::Chunks, "3\r\nabc\r\n00A;x=y\r\n0123456789\r\n0\r\n\r\nNEXT", "abc0123456789"),
            (Framing::Chunks, "1 ; a\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\nNEXT", "a"),
        ] {
            for step in 1..=bytes.len() {
                let (incoming, rest) = read(framing, bytes.as_bytes(), step).unwrap();
                assert!(incoming.is_whole() && !incoming.is_too_long());
                assert_eq!((incoming.bytes.as_slice(), rest.as_slice()), (body.as_bytes(), &b"NEXT"[..]));
            }
        }
    }

    #[test]
    fn what_is_too_long_is_counted_and_not_kept() {
        let (incoming, _) = read(Framing::Length(100), &[b'a'; 100], 7).unwrap();
        assert!(incoming.is_whole() && incoming.is_too_long());
        assert_eq!((incoming.total, incoming.bytes.len()), (100, 0));
        let (incoming, _) = read(Framing::Chunks, &b"b\r\naaaaaaaaaaa\r\n".repeat(2), 100).unwrap();
        assert!(!incoming.is_whole() && incoming.is_too_long());
    }

    #[test]
    fn malformed_chunks_are_refused() {
        let long = format!("1;{}", "x".repeat(MAX_LINE_BYTES));
        let trailers = format!("0\r\n{}", "A: bbbbbbbbbb\r\n".repeat(MAX_LINE_BYTES / 10));
        for bytes in [
            "zz\r\n",
            "\r\n",
            "+1\r\na",
            "-1\r\n",
            "11111111111111111\r\n",
            "1\na",
            "1\r\nabc\r\n",
            &long,
            &trailers,
        ] {
            assert!(read(Framing::Chunks, bytes.as_bytes(), bytes.len()).is_err(), "{bytes:.20}");
        }
    }
}
