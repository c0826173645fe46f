//! The keeper process: one thread, one epoll, a unix socket, the tasks as children.
//!
//! Refuses to know: when to start, stop, kill or tell; that is the brain's (`crate::keeper`). Its files, all in
//! `<data dir>/keeper`: `lock`, `journal`, `socket`, and `log` when an agent started it.

mod cgroup;
mod client;
mod driver;
mod epoll;
mod journal;
mod output;
mod process;
mod signals;
mod spawn;
mod tasks;
mod upgrade;
pub mod users;

pub use cgroup::Cgroups;
pub use driver::{Options, connect, run};

use std::path::{Path, PathBuf};

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
