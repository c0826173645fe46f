//! What a task writes: numbered lines through a FIFO that outlives its keeper, into files that the keeper's rotation fills.
//! Only positions are kept; the bytes at each position are always the same.
//!
//! Refuses to know: processes and who pumps. Invariant checked: whatever dies, no byte that the FIFO took is lost or
//! doubled on its way into the files.

use keeper::logs::{LogFileStep, Rotation};
use std::collections::BTreeMap;

const LINE_BYTES: u64 = 4000;
/// What a FIFO holds before its writer has to wait.
const FIFO_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub struct Output {
    /// Offsets in the stream: what the FIFO took, and what the files took.
    written: u64,
    pumped: u64,
    /// The keeper's, while it holds the FIFO.
    rotation: Option<Rotation>,
    /// By index: where in the stream a file begins, and how many bytes it has.
    files: BTreeMap<u64, (u64, u64)>,
    max_files: u32,
    max_file_bytes: u64,
}

impl Output {
    pub fn new(max_files: u32, max_file_bytes: u64) -> Self {
        Output { written: 0, pumped: 0, rotation: None, files: BTreeMap::new(), max_files, max_file_bytes }
    }

    /// The task writes as many lines as the FIFO takes; the rest of them has to wait.
    pub fn write(&mut self, lines: u64) {
        let room = (FIFO_BYTES - (self.written - self.pumped)) / LINE_BYTES;
        self.written += lines.min(room) * LINE_BYTES;
    }

    /// A keeper opens FIFO and files, and goes on where the files end.
    pub fn open(&mut self) {
        let existing: Vec<(u64, u64)> =
            self.files.iter().map(|(index, (_, bytes))| (*index, *bytes)).collect();
        self.rotation = Some(Rotation::new(&existing, self.max_files, self.max_file_bytes));
    }

    /// The keeper is gone. The FIFO keeps what it holds, because the task has it open.
    pub fn abandon(&mut self) {
        self.rotation = None;
    }

    /// Takes everything out of the FIFO.
    pub fn pump(&mut self) -> Result<(), String> {
        let Some(rotation) = &mut self.rotation else { return Ok(()) };
        let line_end = |at: u64| if (at + 1).is_multiple_of(LINE_BYTES) { b'\n' } else { b'x' };
        let chunk: Vec<u8> = (self.pumped..self.written).map(line_end).collect();
        for step in rotation.take(&chunk) {
            match step {
                LogFileStep::Write { index, from, to } => {
                    let start = self.pumped + from as u64;
                    let (begins, bytes) = self.files.entry(index).or_insert((start, 0));
                    if *begins + *bytes != start {
                        return Err(format!("file {index} ends at {}, goes on at {start}", *begins + *bytes));
                    }
                    *bytes += (to - from) as u64;
                }
                LogFileStep::Delete { index } => drop(self.files.remove(&index)),
            }
        }
        self.pumped = self.written;
        self.whole()
    }

    /// The files that there are hold the newest bytes, each once, and no file is larger than it may be.
    fn whole(&self) -> Result<(), String> {
        let mut next = None;
        for (index, (begins, bytes)) in &self.files {
            if next.is_some_and(|next| next != *begins) {
                return Err(format!("file {index} begins at byte {begins}, the one before ends at {next:?}"));
            }
            if *bytes > self.max_file_bytes {
                return Err(format!("file {index} has {bytes} bytes, more than it may"));
            }
            next = Some(begins + bytes);
        }
        let files = self.files.len() as u32;
        if files > self.max_files || next.unwrap_or(0) != self.pumped {
            return Err(format!("{files} files end at {next:?}, but {} bytes were taken in", self.pumped));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_byte_is_found() {
        let mut output = Output::new(2, 1 << 20);
        output.open();
        output.write(10);
        assert_eq!(output.pump(), Ok(()));
        output.abandon();
        output.write(3);
        assert_eq!(output.pump(), Ok(()), "nobody reads");
        output.open();
        assert_eq!(output.pump(), Ok(()));
        (output.pumped, output.written) = (output.pumped + 1, output.written + 1);
        output.write(1);
        assert!(output.pump().is_err());
    }
}
