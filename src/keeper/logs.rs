//! Rotation of one output stream over numbered files: which bytes go into which file, and which files go.
//!
//! Refuses to know: files. See client.md 14. Indexes only grow; a restart goes on in the highest one.

use std::collections::BTreeSet;

/// This near to its limit a file is filled by whole lines (client.md 14.3).
const LINE_WINDOW_BYTES: u64 = 32 << 10;

/// A task can make files of any name in its directory. Above this index nobody writes, so that there always is a next one.
pub(super) const MAX_INDEX: u64 = 1 << 62;

/// One file operation; they are done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFileStep {
    /// Append `chunk[from..to]` to file `index`, which is made if it does not exist.
    Write { index: u64, from: usize, to: usize },
    /// Remove file `index`.
    Delete { index: u64 },
}

/// The state of one output stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes in the file that is being written.
    index: u64,
    bytes: u64,
    /// Every file of the stream that exists, the one being written included.
    files: BTreeSet<u64>,
    max_files: usize,
    max_bytes: u64,
}

impl Rotation {
    /// `existing`: index and size in bytes of each file that is there; those above `MAX_INDEX` are not the keeper's. Limits below 1
    /// count as 1.
    pub fn new(existing: &[(u64, u64)], max_files: u32, max_bytes: u64) -> Self {
        let own = || existing.iter().filter(|(index, _)| *index <= MAX_INDEX);
        let &(index, bytes) = own().max().unwrap_or(&(0, 0));
        let mut files: BTreeSet<u64> = own().map(|&(index, _)| index).collect();
        files.insert(index);
        Rotation { index, bytes, files, max_files: max_files.max(1) as usize, max_bytes: max_bytes.max(1) }
    }

    /// Adds a chunk of output. At most two steps for each file that the chunk fills, and two more.
    pub fn take(&mut self, chunk: &[u8]) -> Vec<LogFileStep> {
        let mut steps = Vec::new();
        let mut from = 0;
        while from < chunk.len() {
            if self.bytes >= self.max_bytes {
                self.rotate(&mut steps);
            }
            match self.bytes_that_fit(&chunk[from..]) {
                0 => self.rotate(&mut steps),
                n => {
                    steps.push(LogFileStep::Write { index: self.index, from, to: from + n });
                    self.bytes += n as u64;
                    from += n;
                }
            }
        }
        steps
    }

    /// How much of `rest` the present file takes; 0 when the next line belongs into the next file.
    fn bytes_that_fit(&self, rest: &[u8]) -> usize {
        assert!(self.bytes < self.max_bytes, "a full file is left for the next one");
        let free = self.max_bytes - self.bytes;
        let fits = usize::try_from(free).unwrap_or(usize::MAX);
        if rest.len() <= fits {
            return rest.len();
        }
        match rest[..fits].iter().rposition(|b| *b == b'\n') {
            Some(end) => end + 1,
            // One line longer than what is left: split only if it is longer than a file or than the window.
            None if self.bytes == 0 || free > LINE_WINDOW_BYTES => fits,
            None => 0,
        }
    }

    fn rotate(&mut self, steps: &mut Vec<LogFileStep>) {
        self.index += 1;
        self.bytes = 0;
        self.files.insert(self.index);
        while self.files.len() > self.max_files
            && let Some(index) = self.files.pop_first()
        {
            steps.push(LogFileStep::Delete { index });
        }
        assert_eq!(self.files.last(), Some(&self.index), "the newest file is the one that is written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn w(index: u64, from: usize, to: usize) -> LogFileStep {
        LogFileStep::Write { index, from, to }
    }

    fn d(index: u64) -> LogFileStep {
        LogFileStep::Delete { index }
    }

    #[test]
    fn log_rotation_follows_the_reference() {
        type Case<'a> = (&'a str, &'a [(u64, u64)], u32, u64, &'a [u8], Vec<LogFileStep>);
        let cases: Vec<Case> = vec![
            ("first bytes", &[], 3, 10, b"abc\n", vec![w(0, 0, 4)]),
            ("appends to the highest", &[(3, 2), (4, 5)], 3, 10, b"abc\n", vec![w(4, 0, 4)]),
            ("a full file is left alone", &[(0, 10)], 3, 10, b"abc\n", vec![w(1, 0, 4)]),
            ("an overfull one too", &[(0, 99)], 3, 10, b"a", vec![w(1, 0, 1)]),
            ("exactly full", &[(0, 6)], 3, 10, b"abc\n", vec![w(0, 0, 4)]),
            ("by lines near the limit", &[(0, 5)], 3, 10, b"ab\ncdef\n", vec![w(0, 0, 3), w(1, 3, 8)]),
            ("no line fits", &[(0, 8)], 3, 10, b"abc\nd\n", vec![w(1, 0, 6)]),
            ("longer than a file", &[], 9, 4, b"abcdefghij", vec![w(0, 0, 4), w(1, 4, 8), w(2, 8, 10)]),
            ("the oldest goes", &[(0, 10), (1, 10)], 2, 10, b"x\n", vec![d(0), w(2, 0, 2)]),
            ("names that are not the keeper's", &[(1, 10), (u64::MAX, 3)], 9, 10, b"x", vec![w(2, 0, 1)]),
            ("gaps count as nothing", &[(0, 10), (7, 10)], 2, 10, b"x\n", vec![d(0), w(8, 0, 2)]),
            ("limits shrank", &[(0, 1), (1, 1), (2, 9)], 1, 4, b"x", vec![d(0), d(1), d(2), w(3, 0, 1)]),
            ("one file only", &[(0, 4)], 1, 4, b"abcdef", vec![d(0), w(1, 0, 4), d(1), w(2, 4, 6)]),
            ("limits of 0", &[], 0, 0, b"ab", vec![w(0, 0, 1), d(0), w(1, 1, 2)]),
            ("nothing", &[(0, 10)], 2, 10, b"", vec![]),
        ];
        for (name, existing, max_files, max_bytes, chunk, steps) in cases {
            assert_eq!(Rotation::new(existing, max_files, max_bytes).take(chunk), steps, "{name}");
        }
    }

    #[test]
    fn far_from_the_limit_long_lines_are_not_held_back() {
        let mut rotation = Rotation::new(&[(0, 10)], 3, 100_000);
        let steps = rotation.take(&vec![b'x'; 150_000]);
        assert_eq!(steps, vec![w(0, 0, 99_990), w(1, 99_990, 150_000)]);
    }

    #[test]
    fn logs_keep_every_byte_in_order_and_files_their_bounds() {
        let mut rotation = Rotation::new(&[], 4, 1000);
        let (mut seen, mut present) = (0usize, BTreeSet::new());
        let mut sizes = std::collections::BTreeMap::<u64, usize>::new();
        for i in 0..500usize {
            let chunk: Vec<u8> =
                (0..(i * 37) % 411).map(|n| if n % 29 == 0 { b'\n' } else { b'a' }).collect();
            let mut next = 0;
            for step in rotation.take(&chunk) {
                match step {
                    LogFileStep::Write { index, from, to } => {
                        assert_eq!(from, next);
                        next = to;
                        present.insert(index);
                        *sizes.entry(index).or_default() += to - from;
                    }
                    LogFileStep::Delete { index } => assert!(present.remove(&index)),
                }
            }
            assert_eq!(next, chunk.len());
            seen += next;
        }
        assert_eq!(sizes.values().sum::<usize>(), seen);
        assert!(sizes.values().all(|s| *s <= 1000) && present.len() <= 4);
    }
}
