//! `drover config validate`: would an agent start with these files? Nothing is started, opened or written.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::Session;
use agent::config::{Config, Sources, files};
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// check configuration files as an agent would; exit code 1: it would not start with them
#[derive(FromArgs, ArgsInfo)]
#[argh(name = "validate", example = "drover config validate /etc/drover")]
pub struct ConfigValidateCommand {
    /// configuration files, or folders with *.hcl and *.json, merged in this order
    #[argh(positional)]
    path: Vec<String>,
}

impl CliCommand for ConfigValidateCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        if self.path.is_empty() {
            return Err(CommandError::usage("This command takes at least one argument: <path>"));
        }
        let mut sources = Sources { dev: false, files: Vec::new(), flags: Vec::new() };
        for path in &self.path {
            let read = files::read(path).map_err(|problem| CommandError::new(problem.to_string()))?;
            sources.files.extend(read);
        }
        let loaded = Config::load(&sources, &files::machine()).map_err(|problems| {
            CommandError::new(format!("Configuration is invalid:\n{}", jobspec::render(&problems).trim_end()))
        })?;
        if let Some(why) = agent::lacks_identity(&loaded.config) {
            return Err(CommandError::new(format!("Configuration is invalid:\n{why}")));
        }
        loaded.warnings.iter().for_each(|warning| session.out.warning(warning));
        session.out.line("Configuration is valid!")?;
        Ok(ExitCode::SUCCESS)
    }
}
