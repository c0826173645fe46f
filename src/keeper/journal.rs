//! The journal's bytes: what a keeper must still know after its own death, and how damage is survived.
//!
//! Refuses to know: files. Each entry is a mark (1 byte), the body's length (4 bytes, little endian), its CRC-32 and the
//! body, a versioned record. A torn tail ends the journal; damage in the middle costs the damaged entries only, because
//! reading goes on at the next mark that starts an entry with a right checksum.

use model::id::{RunId, Uuid};
use model::task::Exit;
use model::time::Wall;
use serde::{Deserialize, Serialize};
use wire::keeper::RunLogs;
use wire::record;

/// Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JournalEntry {
    /// The run has a process that was let go, in this boot of the machine: `Waiting` and `Released` in one.
    Started { run: RunId, boot_id: Uuid, label: String, process: Process, logs: Option<RunLogs> },
    /// The run's main process ended.
    Ended { run: RunId, label: String, exit: Exit, at: Wall },
    /// The run could not be started.
    Failed { run: RunId, label: String, message: String, retryable: bool },
    /// The agent has stored the end of the run.
    Forgotten { run: RunId },
    /// The run has a process that waits to be let go. It executes nothing before this entry is written.
    Waiting { run: RunId, boot_id: Uuid, label: String, process: Process, logs: Option<RunLogs> },
    /// The process is let go once this entry is written. That the entry outlives the keeper is enough: no process outlives the boot.
    Released { run: RunId },
}

/// A process that cannot be mistaken for another of the same boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks since boot: `/proc/<pid>/stat`, field 22.
    pub start_ticks: u64,
    pub since: Wall,
}

impl JournalEntry {
    pub fn run(&self) -> RunId {
        match self {
            JournalEntry::Started { run, .. }
            | JournalEntry::Ended { run, .. }
            | JournalEntry::Failed { run, .. }
            | JournalEntry::Forgotten { run }
            | JournalEntry::Waiting { run, .. }
            | JournalEntry::Released { run } => *run,
        }
    }
}

impl JournalEntry {
    /// What ended, and how, has to be known after a power cut. That something was started need not be: nothing of it outlives the boot, and an
    /// agent asks for no run of an earlier one, because it has stored each of them with its boot before it asks.
    pub fn must_outlive_the_boot(&self) -> bool {
        match self {
            JournalEntry::Ended { .. } | JournalEntry::Failed { .. } => true,
            JournalEntry::Started { .. }
            | JournalEntry::Waiting { .. }
            | JournalEntry::Released { .. }
            | JournalEntry::Forgotten { .. } => false,
        }
    }
}

impl Process {
    pub fn is(&self, other: &Process) -> bool {
        (self.pid, self.start_ticks) == (other.pid, other.start_ticks)
    }
}

wire::records! {
    JournalEntry = "keeper journal entry" 1;
}

const ENTRY_MAGIC: u8 = 0xd7;
const HEADER_BYTES: usize = 9;
/// The largest body: labels, log paths and messages are bounded well below.
pub const MAX_ENTRY_BYTES: usize = 16 << 10;
/// More than this is not read: no keeper lets its journal grow so far.
pub const MAX_JOURNAL_BYTES: usize = 16 << 20;

pub fn append(journal: &mut Vec<u8>, entry: &JournalEntry) {
    let body = record::encode(entry);
    assert!(body.len() <= MAX_ENTRY_BYTES, "what is written can be read");
    journal.push(ENTRY_MAGIC);
    journal.extend_from_slice(&(body.len() as u32).to_le_bytes());
    journal.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    journal.extend_from_slice(&body);
}

/// What could be read of a journal.
#[derive(Debug, Default, PartialEq)]
pub struct JournalContents {
    pub entries: Vec<JournalEntry>,
    /// Bytes that belong to no readable entry: a torn tail, or damage.
    pub lost_bytes: usize,
}

/// Never fails: what cannot be read is counted.
pub fn read(bytes: &[u8]) -> JournalContents {
    let mut out = JournalContents::default();
    let mut at = 0;
    while at < bytes.len() {
        match entry_at(&bytes[at..]) {
            Some((entry, length)) => {
                out.entries.push(entry);
                at += length;
            }
            None => {
                out.lost_bytes += 1;
                at += 1;
            }
        }
    }
    out
}

fn entry_at(bytes: &[u8]) -> Option<(JournalEntry, usize)> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let [mark, a, b, c, d, e, f, g, h] = *header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if mark != ENTRY_MAGIC || length > MAX_ENTRY_BYTES {
        return None;
    }
    let body = rest.get(..length)?;
    if crc32fast::hash(body) != u32::from_le_bytes([e, f, g, h]) {
        return None;
    }
    record::decode(body).ok().map(|entry| (entry, HEADER_BYTES + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::task::ExitStatus;

    fn entries() -> Vec<JournalEntry> {
        let run = |n: u128| RunId::from_random(n);
        let process = Process { pid: 7, start_ticks: 99, since: Wall(5) };
        let logs = RunLogs { dir: "/a".into(), name: "t".into(), max_files: 2, max_file_bytes: 9 };
        let exit = Exit { status: ExitStatus::Signal(9), oom_killed: true };
        let boot_id = Uuid::from_random(1);
        let mut all = vec![];
        for n in 0..20 {
            let label = format!("alloc.{n}");
            let (run, logs) = (run(n), Some(logs.clone()));
            all.push(JournalEntry::Waiting {
                run,
                boot_id,
                label: label.clone(),
                process,
                logs: logs.clone(),
            });
            all.push(JournalEntry::Released { run });
            all.push(JournalEntry::Started { run, boot_id, label: label.clone(), process, logs });
            all.push(JournalEntry::Ended { run, label: label.clone(), exit, at: Wall(6) });
            all.push(JournalEntry::Failed { run, label, message: "no".into(), retryable: false });
            all.push(JournalEntry::Forgotten { run });
        }
        all
    }

    fn written(entries: &[JournalEntry]) -> Vec<u8> {
        let mut bytes = Vec::new();
        entries.iter().for_each(|e| append(&mut bytes, e));
        bytes
    }

    /// A small generator with a seed, for tests only: xorshift64.
    fn next(seed: &mut u64) -> usize {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed as usize
    }

    #[test]
    fn the_checksum_is_crc32() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn journal_entries_round_trip() {
        assert_eq!(read(&written(&entries())), JournalContents { entries: entries(), lost_bytes: 0 });
        assert_eq!(read(&[]), JournalContents::default());
    }

    #[test]
    fn a_journal_cut_anywhere_gives_every_whole_entry() {
        let all = entries();
        let bytes = written(&all);
        for cut in 0..bytes.len() {
            let got = read(&bytes[..cut]);
            assert_eq!(got.entries, all[..got.entries.len()]);
            assert!(written(&all[..got.entries.len()]).len() + got.lost_bytes == cut);
            assert!(got.entries.len() == all.len() || written(&all[..=got.entries.len()]).len() > cut);
        }
    }

    #[test]
    fn flipped_bits_cost_only_the_entries_they_hit() {
        let all = entries();
        let clean = written(&all);
        let mut seed = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..2000 {
            let mut bytes = clean.clone();
            let flips = 1 + next(&mut seed) % 3;
            for _ in 0..flips {
                let at = next(&mut seed) % bytes.len();
                bytes[at] ^= 1 << (next(&mut seed) % 8);
            }
            let got = read(&bytes);
            assert!(got.entries.len() + flips >= all.len(), "{} of {}", got.entries.len(), all.len());
            assert!(got.entries.iter().all(|e| all.contains(e)));
        }
    }

    #[test]
    fn random_bytes_are_no_journal_entry() {
        let mut seed = 42;
        for length in [1, 8, 9, 10, 1000, 5000] {
            let noise: Vec<u8> = (0..length).map(|_| next(&mut seed) as u8).collect();
            assert_eq!(read(&noise), JournalContents { entries: vec![], lost_bytes: length });
            assert_eq!(read(&vec![ENTRY_MAGIC; length]).lost_bytes, length);
        }
    }
}
