//! The keeper process: one thread, one epoll, a unix socket, the tasks as children.
//!
//! Refuses to know: when to start, stop, kill or tell; that is the brain's (`keeper`). Its files, all in
//! `<data dir>/keeper`: `lock`, `journal`, `socket`, and `log` when an agent started it.

mod cgroup;
mod cgroup_usage;
mod connection;
mod epoll;
mod event_loop;
mod journal;
mod keeper_dir;
mod mark;
mod output;
mod process;
mod sessions;
mod signals;
mod spawn;
mod tasks;
mod upgrade;
pub mod users;

pub use cgroup::{Cgroups, Group};
pub use connection::MAX_FDS;
pub use event_loop::run;
pub use keeper_dir::connect;

use model::id::RunId;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct KeeperOptions {
    pub data_dir: PathBuf,
    /// The read end of a pipe whose write end only the agent has: when it closes, everything ends.
    pub dev_fd: Option<RawFd>,
    /// Given by a keeper that replaced its own binary: the listening socket.
    pub listen_fd: Option<RawFd>,
}

/// Where the keeper of `data_dir` keeps its files.
pub fn dir(data_dir: &Path) -> PathBuf {
    data_dir.join("keeper")
}

pub fn socket_path(data_dir: &Path) -> PathBuf {
    dir(data_dir).join("socket")
}

pub fn log_path(data_dir: &Path) -> PathBuf {
    dir(data_dir).join("log")
}

/// The control group of a run, whether or not there is one.
pub fn group_of(cgroups: &Cgroups, run: RunId, label: &str) -> Group {
    cgroups.group(&format!("{label}.{}", run.0.short()))
}

/// The processes of a run, as they can be found without its keeper.
pub fn processes_of(cgroups: &Cgroups, run: RunId, label: &str, main: u32) -> Vec<u32> {
    match group_of(cgroups, run, label).members() {
        Ok(members) if !members.is_empty() => members,
        // no group, or none that can be read
        _ => process::descendants(main).into_iter().map(|p| p.pid).collect(),
    }
}

/// A file of this name in a data directory says that the directory goes with its agent.
pub const EPHEMERAL_MARKER: &str = "throw-away";

/// A throw-away directory whose agent died without removing it is removed by the last one who uses it.
fn remove_ephemeral_dir(options: &KeeperOptions, agent_lives: bool) {
    let orphaned = options.dev_fd.is_some() && !agent_lives;
    if orphaned
        && options.data_dir.join(EPHEMERAL_MARKER).exists()
        && let Err(error) = std::fs::remove_dir_all(&options.data_dir)
    {
        log(format_args!("{}: {error}", options.data_dir.display()));
    }
}

/// One line to standard error: the journal of systemd, or the keeper's log file.
pub fn log(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    // Nobody is left to tell when even this fails.
    let _ = writeln!(std::io::stderr(), "drover keeper: {line}");
}
