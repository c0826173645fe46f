//! `drover version`.

use crate::CliCommand;
use crate::error::CommandResult;
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// print the version
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover version")]
pub struct VersionCommand {}

impl CliCommand for VersionCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        session.out.line(&format!("drover {}", text()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// As `v0.1.0`.
pub fn text() -> String {
    format!("v{}", env!("CARGO_PKG_VERSION"))
}
