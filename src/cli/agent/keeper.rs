//! `drover keeper run|status|stop`: thin calls into the keeper's driver.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::Session;
use ::io::keeper::{self, KeeperOptions};
use ::io::keeper_cli;
use argh::{ArgsInfo, FromArgs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// run the keeper: the parent of all tasks, which outlives the agent
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover keeper run -data-dir /var/lib/drover")]
pub struct KeeperRunCommand {
    /// the agent's data directory
    #[argh(option)]
    data_dir: String,
    /// end with all tasks when this file descriptor closes
    #[argh(option)]
    dev_fd: Option<i32>,
    /// the listening socket, given by a keeper that replaced its own binary
    #[argh(option)]
    listen_fd: Option<i32>,
}

/// list the processes that the keeper runs
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover keeper status -data-dir /var/lib/drover")]
pub struct KeeperStatusCommand {
    /// the agent's data directory
    #[argh(option)]
    data_dir: String,
}

/// stop the keeper and all tasks that it runs
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover keeper stop -data-dir /var/lib/drover")]
pub struct KeeperStopCommand {
    /// the agent's data directory
    #[argh(option)]
    data_dir: String,
}

impl CliCommand for KeeperRunCommand {
    fn run(self, _session: &mut Session) -> CommandResult<ExitCode> {
        let data_dir = PathBuf::from(self.data_dir);
        exit_code(keeper::run(KeeperOptions { data_dir, dev_fd: self.dev_fd, listen_fd: self.listen_fd }))
    }
}

impl CliCommand for KeeperStatusCommand {
    fn run(self, _session: &mut Session) -> CommandResult<ExitCode> {
        exit_code(keeper_cli::status(Path::new(&self.data_dir)))
    }
}

impl CliCommand for KeeperStopCommand {
    fn run(self, _session: &mut Session) -> CommandResult<ExitCode> {
        exit_code(keeper_cli::stop(Path::new(&self.data_dir)))
    }
}

fn exit_code(result: Result<(), String>) -> CommandResult<ExitCode> {
    result.map(|()| ExitCode::SUCCESS).map_err(CommandError::new)
}
