//! What holds of any journal, and of the rotation of logs over whatever files a task has left.

use super::journal::{append, read};
use super::logs::{LogFileStep, MAX_INDEX, Rotation};
use std::collections::BTreeSet;

/// No byte is counted twice, and what was read is read again.
pub fn journal(bytes: &[u8]) {
    let found = read(bytes);
    assert!(found.lost_bytes <= bytes.len());
    let mut written = vec![];
    found.entries.iter().for_each(|entry| append(&mut written, entry));
    let again = read(&written);
    assert_eq!((again.entries, again.lost_bytes), (found.entries, 0));
}

/// Three bytes of limits, a count, so many files, and output in chunks. Every byte is written, in order, and to a file that exists; no
/// file grows beyond its limit and none beyond their number stays.
pub fn rotation(bytes: &[u8]) {
    let [max_files, max_bytes, chunk_bytes, count, rest @ ..] = bytes else { return };
    let files = usize::from(count % 8).min(rest.len() / 9);
    let (files, output) = rest.split_at(files * 9);
    let existing: Vec<(u64, u64)> = files
        .chunks_exact(9)
        .map(|file| {
            let index = file[..8].iter().fold(0, |n, b| n << 8 | u64::from(*b));
            (index, u64::from(file[8]))
        })
        .collect();
    let (max_files, max_bytes) = (u32::from(*max_files), u64::from(*max_bytes));
    let mut rotation = Rotation::new(&existing, max_files, max_bytes);
    let mut there: BTreeSet<u64> =
        existing.iter().map(|(index, _)| *index).filter(|i| *i <= MAX_INDEX).collect();
    let mut newest = None;
    for chunk in output.chunks(usize::from(*chunk_bytes).max(1)) {
        let mut next = 0;
        for step in rotation.take(chunk) {
            match step {
                LogFileStep::Write { index, from, to } => {
                    assert!(from == next && to > from && to <= chunk.len());
                    assert!(newest.is_none_or(|newest| index >= newest), "indexes only grow");
                    assert!(to - from <= usize::try_from(max_bytes.max(1)).unwrap_or(usize::MAX));
                    (next, newest) = (to, Some(index));
                    there.insert(index);
                }
                LogFileStep::Delete { index } => {
                    assert!(there.remove(&index), "only what is there is removed");
                }
            }
        }
        assert_eq!(next, chunk.len(), "every byte is written");
    }
    assert!(newest.is_none() || there.len() <= (max_files.max(1) as usize).max(existing.len()) + 1);
}
