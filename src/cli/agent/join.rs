//! `drover server init` and `drover join`: make this machine the first of a region, or one more of it, while its agent does not run.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use model::canonical::GLOBAL_REGION;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Longer than any token.
const MAX_TOKEN_BYTES: u64 = 4096;
const DEFAULT_DATA_DIR: &str = "/var/lib/drover";

/// make this machine one of a region, with a token of `drover token create`; its agent must not be running
#[derive(FromArgs, ArgsInfo)]
#[argh(
    name = "join",
    example = "drover join drover-join-AQZnbG9iYWz... 10.0.0.1",
    example = "drover join -data-dir /var/lib/drover - 10.0.0.1:4647 < token"
)]
pub struct JoinCommand {
    /// where the agent will keep its data (default /var/lib/drover)
    #[argh(option)]
    data_dir: Option<String>,
    /// the token (- reads it from standard input), and where a server of the region is: a host, with or without a port
    #[argh(positional)]
    token_and_address: Vec<String>,
}

impl CliCommand for JoinCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let [token, address] = &self.token_and_address[..] else {
            return Err(CommandError::usage("This command takes two arguments: <token> <address>"));
        };
        let token = match token.as_str() {
            "-" => read_token(std::io::stdin().lock())?,
            given => given.to_string(),
        };
        let data_dir = absolute(self.data_dir.as_deref())?;
        let joined = agent::join(Path::new(data_dir), &token, address).map_err(CommandError::new)?;
        session
            .out
            .line(&format!("This machine has joined region {:?} as a {}.", joined.region, joined.role))?;
        session.out.line(&format!(
            "Start its agent with data_dir = {data_dir:?} and region = {:?}.",
            joined.region
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// make a region's key and keep it here: this machine is its first server, and lets others in with tokens; its agent must not be running
#[derive(FromArgs, ArgsInfo)]
#[argh(
    name = "init",
    example = "drover server init",
    example = "drover server init -data-dir /var/lib/drover -region europe"
)]
pub struct ServerInitCommand {
    /// where the agent keeps its data (default /var/lib/drover)
    #[argh(option)]
    data_dir: Option<String>,
    /// the region's name, as the agent's configuration says it (default global)
    #[argh(option)]
    region: Option<String>,
}

impl CliCommand for ServerInitCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let data_dir = absolute(self.data_dir.as_deref())?;
        let region = self.region.as_deref().unwrap_or(GLOBAL_REGION);
        agent::init_region(Path::new(data_dir), region).map_err(CommandError::new)?;
        session
            .out
            .line(&format!("This machine has the key of region {region:?}, and is a server of it."))?;
        session.out.line(&format!(
            "Start its agent with data_dir = {data_dir:?} and region = {region:?}, then let others in: drover token create"
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn absolute(data_dir: Option<&str>) -> CommandResult<&str> {
    let data_dir = data_dir.unwrap_or(DEFAULT_DATA_DIR);
    match Path::new(data_dir).is_absolute() {
        true => Ok(data_dir),
        false => Err(CommandError::usage("-data-dir must be an absolute path, as data_dir of the agent is")),
    }
}

fn read_token(from: impl Read) -> CommandResult<String> {
    let mut text = String::new();
    from.take(MAX_TOKEN_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_a_pipe_and_no_more_than_one() {
        assert_eq!(read_token(&b"drover-join-a\n"[..]).expect("it is text"), "drover-join-a\n");
        let endless = std::io::repeat(b'a');
        assert_eq!(read_token(endless).expect("it is text").len() as u64, MAX_TOKEN_BYTES);
    }
}
