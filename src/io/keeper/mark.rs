//! Finding what carries this keeper's mark, and ending it.
//!
//! Refuses to know: which marks are strays'. Processes come and go while one looks: what is gone is no error. What this user
//! may not look into, and a program that wrote over its own environment, are not found.

use super::process;
use keeper::journal::Process;
use keeper::mark::{self, Marked};
use model::id::RunId;
use model::time::Wall;
use std::fs::File;
use std::io::Read;

/// What is read of one environment. Linux gives arguments and environment a quarter of the stack: 2 MiB, unless set.
const MAX_ENVIRON_BYTES: u64 = 2 << 20;

/// Every live process with a mark of `home`'s. `wall`: since when it is said to run, for nobody knows.
pub fn scan(home: &str, wall: Wall) -> Vec<Marked> {
    let own = std::process::id();
    let others = process::all().into_iter().filter(|p| p.pid != own && !p.zombie);
    others.filter_map(|p| marked(home, &p, wall)).collect()
}

fn marked(home: &str, seen: &process::ProcessStat, wall: Wall) -> Option<Marked> {
    let mut environ = Vec::new();
    let file = File::open(format!("/proc/{}/environ", seen.pid)).ok()?;
    file.take(MAX_ENVIRON_BYTES).read_to_end(&mut environ).ok()?;
    let (run, label) = mark::find(home, &environ)?;
    // the pid may have been reused while its environment was read
    let same = process::stat(seen.pid).is_some_and(|now| now.start_ticks == seen.start_ticks);
    let process = Process { pid: seen.pid, start_ticks: seen.start_ticks, since: wall };
    same.then_some(Marked { run, label, process })
}

/// Sends SIGKILL to `known`, to processes with the run's mark, and to their descendants. Whether there was nothing left.
pub fn end(home: &str, run: RunId, known: &[Process]) -> bool {
    let marked = scan(home, Wall::NEVER).into_iter().filter(|m| m.run == run).map(|m| m.process);
    let lives =
        |p: &Process| process::stat(p.pid).is_some_and(|now| now.start_ticks == p.start_ticks && !now.zombie);
    let left: Vec<Process> = known.iter().copied().chain(marked).filter(lives).collect();
    for main in &left {
        let own = std::process::id();
        let kin = process::descendants(main.pid).into_iter().filter(|p| p.pid != own && !p.zombie);
        kin.for_each(|p| process::pidfd_kill(&p));
    }
    left.is_empty()
}
