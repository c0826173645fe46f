//! What a journal comes to: the runs, and those of this boot that are to be looked for.

use super::brain::Adopted;
use super::journal::Entry;
use super::run::{Phase, Run};
use crate::model::id::{RunId, Uuid};
use crate::model::task::{Exit, ExitStatus};
use crate::model::time::Wall;
use std::collections::BTreeMap;

/// The runs, and whether any ended because its boot did: nobody saw how, when the machine went down.
pub fn replay(entries: &[Entry], boot_id: Uuid, wall: Wall) -> (BTreeMap<RunId, Run>, bool) {
    let mut runs = BTreeMap::new();
    for entry in entries {
        match entry.clone() {
            Entry::Started { run, boot_id: of, label, process, logs } if of == boot_id => {
                runs.insert(run, Run { label, phase: Phase::Running { logs, process, kill_at: None } });
            }
            Entry::Started { run, label, .. } => {
                let exit = Exit { status: ExitStatus::Unknown, oom_killed: false };
                runs.insert(run, Run { label, phase: Phase::Ended { exit, at: wall } });
            }
            Entry::Ended { run, label, exit, at } => {
                runs.insert(run, Run { label, phase: Phase::Ended { exit, at } });
            }
            Entry::Failed { run, label, message, retryable } => {
                runs.insert(run, Run { label, phase: Phase::Failed { message, retryable } });
            }
            Entry::Forgotten { run } => {
                runs.remove(&run);
            }
        }
    }
    let unseen = |r: &Run| matches!(&r.phase, Phase::Ended { exit, at } if *at == wall && exit.status == ExitStatus::Unknown);
    let of_another_boot = runs.values().any(unseen);
    (runs, of_another_boot)
}

pub fn adopted(runs: &BTreeMap<RunId, Run>) -> Vec<Adopted> {
    let adopt = |(run, r): (&RunId, &Run)| match &r.phase {
        Phase::Running { logs, process, .. } => {
            Some(Adopted { run: *run, label: r.label.clone(), process: *process, logs: logs.clone() })
        }
        _ => None,
    };
    runs.iter().filter_map(adopt).collect()
}
