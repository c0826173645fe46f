//! The end of something long: which part `-tail`, `-n`, `-c` and `-f` ask for, and how it is shown.

use crate::error::{CommandError, CommandResult};
use crate::frames::{self, Chunk, Tail, lost};
use crate::output::Printer;
use std::io::Read;

/// Lines that `-tail` shows when nothing else is said.
const TAIL_LINES: i64 = 10;
/// The length of a line that the offset for `-n` reckons with.
const LINE_BYTES: i64 = 120;

pub struct TailOptions {
    pub tail: bool,
    pub follow: bool,
    /// Negative: not said.
    pub lines: i64,
    pub bytes: i64,
}

impl TailOptions {
    pub fn check(&self) -> CommandResult<()> {
        if self.lines >= 0 && self.bytes >= 0 {
            return Err(CommandError::usage("-n and -c exclude each other"));
        }
        if !self.tail && (self.lines >= 0 || self.bytes >= 0) {
            return Err(CommandError::usage("-n and -c are of use with -tail only"));
        }
        Ok(())
    }

    /// Lines to cut to, origin and offset of the first byte asked for.
    pub fn beginning(&self) -> (Option<usize>, &'static str, i64) {
        if !self.tail {
            return (None, "start", 0);
        }
        if self.bytes >= 0 {
            return (None, "end", self.bytes);
        }
        let lines = if self.lines >= 0 { self.lines } else { TAIL_LINES };
        (usize::try_from(lines).ok(), "end", lines.saturating_mul(LINE_BYTES))
    }

    /// The frames of `stream`, from where `beginning` says, to our own stdout or stderr.
    pub fn copy(&self, out: &Printer, to: &str, stream: impl Read) -> CommandResult<()> {
        // what is followed has no end to count lines from: there the offset must do
        let mut tail = self.beginning().0.filter(|_| !self.follow).map(Tail::new);
        for chunk in frames::chunks(stream) {
            match (chunk.map_err(lost)?, &mut tail) {
                (Chunk::Data(data), Some(tail)) => tail.add(&data),
                (Chunk::Data(data), None) => write_out(out, to, &data)?,
                (Chunk::Event(text), _) => out.stderr_line(&format!("drover: {text}")),
            }
        }
        match tail {
            Some(tail) => write_out(out, to, tail.bytes()),
            None => Ok(()),
        }
    }
}

pub fn write_out(out: &Printer, to: &str, data: &[u8]) -> CommandResult<()> {
    if to == "stderr" { out.stderr_bytes(data) } else { out.bytes(data) }
}
