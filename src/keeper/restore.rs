//! How a keeper starts: from the journal of the keeper before it, and the marks of live processes.
//!
//! Refuses to know: how processes are found, watched and ended. The journal decides; marks settle what it does not say.
//! A process whose run no entry names is a stray, and is ended: what was lost with the entry (its output, how to treat
//! its end) cannot be had again. A run that waited and was not let go has executed nothing, so it may be started again.

use super::journal::{JournalEntry, Process};
use super::mark::Marked;
use super::run::{Phase, Run};
use model::id::{RunId, Uuid};
use model::task::{Exit, ExitStatus};
use model::time::Wall;
use std::collections::{BTreeMap, BTreeSet};
use wire::keeper::{MAX_RUNS, RunLogs};

pub type Runs = BTreeMap<RunId, Run>;

pub const UNKNOWN_EXIT: Exit = Exit { status: ExitStatus::Unknown, oom_killed: false };

/// A run of this boot whose process the journal names.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    pub run: RunId,
    pub label: String,
    pub process: Process,
    pub logs: Option<RunLogs>,
}

/// Processes that no journal entry accounts for.
#[derive(Clone, Debug, PartialEq)]
pub struct Stray {
    pub run: RunId,
    pub label: String,
    pub processes: Vec<Process>,
}

/// What the journal says, completed by the marks.
pub struct RecoveredRuns {
    pub runs: Runs,
    pub strays: Vec<Stray>,
    /// Runs whose process waited and never executed anything: as if they had not been asked for.
    pub unreleased: Vec<(RunId, String)>,
    /// The journal does not say so yet.
    pub changed: bool,
}

/// `damaged`: entries may be missing from the journal. `wall`: when runs of another boot count as ended.
pub fn recover(
    entries: &[JournalEntry],
    damaged: bool,
    boot_id: Uuid,
    marked: &[Marked],
    wall: Wall,
) -> RecoveredRuns {
    let (runs, without_process) = replay(entries, boot_id, wall);
    let unseen = runs.values().any(|r| r.phase == Phase::Ended { exit: UNKNOWN_EXIT, at: wall });
    let mut found = RecoveredRuns { runs, strays: vec![], unreleased: vec![], changed: unseen };
    found.resolve_waiting(damaged, marked, wall);
    found.add_strays(marked, &without_process);
    found
}

impl RecoveredRuns {
    /// A mark says that a process has executed its command: before that, its environment is the keeper's.
    fn resolve_waiting(&mut self, damaged: bool, marked: &[Marked], wall: Wall) {
        let waiting = |(run, r): (&RunId, &Run)| match &r.phase {
            Phase::Waiting { logs, process, .. } => Some((*run, r.label.clone(), logs.clone(), *process)),
            _ => None,
        };
        for (run, label, logs, process) in self.runs.iter().filter_map(waiting).collect::<Vec<_>>() {
            self.changed = true;
            let executed = marked.iter().any(|m| m.run == run && m.process.is(&process));
            if executed {
                let phase = Phase::Running { logs, process, kill_at: None };
                self.runs.insert(run, Run { label, phase });
            } else if damaged {
                // that it was let go may be what was lost
                self.runs.remove(&run);
                self.strays.push(Stray { run, label, processes: vec![Process { since: wall, ..process }] });
            } else {
                self.runs.remove(&run);
                self.unreleased.push((run, label));
            }
        }
    }

    fn add_strays(&mut self, marked: &[Marked], without_process: &BTreeSet<RunId>) {
        let mut strays: BTreeMap<RunId, Stray> = self.strays.drain(..).map(|s| (s.run, s)).collect();
        let lost = |m: &&Marked| !self.runs.contains_key(&m.run) || without_process.contains(&m.run);
        for mark in marked.iter().filter(lost) {
            let (run, label) = (mark.run, mark.label.clone());
            let stray = strays.entry(run).or_insert(Stray { run, label, processes: vec![] });
            stray.processes.push(mark.process);
        }
        // no keeper has started more than `MAX_RUNS`: further marks are forged
        let room = MAX_RUNS.saturating_sub(self.runs.len());
        for stray in strays.into_values().take(room) {
            let Some(first) = stray.processes.iter().min_by_key(|p| (p.start_ticks, p.pid)) else { continue };
            self.runs.insert(stray.run, Run { label: stray.label.clone(), phase: Phase::stray(*first) });
            self.strays.push(stray);
        }
    }

    pub fn running(&self) -> Vec<Adopted> {
        let adopt = |(run, r): (&RunId, &Run)| match &r.phase {
            Phase::Running { logs, process, .. } => {
                Some(Adopted { run: *run, label: r.label.clone(), process: *process, logs: logs.clone() })
            }
            _ => None,
        };
        self.runs.iter().filter_map(adopt).collect()
    }

    /// Ended runs, and runs that never executed anything: their left-over processes are killed.
    pub fn ended(&self) -> Vec<(RunId, String)> {
        let ended = self.runs.iter().filter(|(_, r)| matches!(r.phase, Phase::Ended { .. }));
        ended.map(|(run, r)| (*run, r.label.clone())).chain(self.unreleased.iter().cloned()).collect()
    }
}

/// The runs, and those whose `Waiting` entry is lost while their `Released` entry is left: their process is not known.
fn replay(entries: &[JournalEntry], boot_id: Uuid, wall: Wall) -> (Runs, BTreeSet<RunId>) {
    let (mut runs, mut without_process) = (BTreeMap::new(), BTreeSet::new());
    let ended = |label| Run { label, phase: Phase::Ended { exit: UNKNOWN_EXIT, at: wall } };
    for entry in entries {
        without_process.remove(&entry.run());
        match entry.clone() {
            JournalEntry::Started { run, boot_id: of, label, process, logs } if of == boot_id => {
                runs.insert(run, Run { label, phase: Phase::Running { logs, process, kill_at: None } });
            }
            JournalEntry::Waiting { run, boot_id: of, label, process, logs } if of == boot_id => {
                runs.insert(run, Run { label, phase: Phase::Waiting { logs, process, stop: None } });
            }
            // The `Released` entry may not have reached the disk before the power cut: it may have executed, and nobody
            // saw how it ended.
            JournalEntry::Started { run, label, .. } | JournalEntry::Waiting { run, label, .. } => {
                runs.insert(run, ended(label));
            }
            JournalEntry::Released { run } => match runs.get_mut(&run) {
                Some(held) => held.release(),
                None => {
                    // its label went with its other entry
                    runs.insert(run, ended(run.0.short()));
                    without_process.insert(run);
                }
            },
            JournalEntry::Ended { run, label, exit, at } => {
                runs.insert(run, Run { label, phase: Phase::Ended { exit, at } });
            }
            JournalEntry::Failed { run, label, message, retryable } => {
                runs.insert(run, Run { label, phase: Phase::Failed { message, retryable } });
            }
            JournalEntry::Forgotten { run } => drop(runs.remove(&run)),
        }
    }
    (runs, without_process)
}
