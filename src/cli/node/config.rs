//! `drover node config`: which servers the node of the agent that is asked talks to.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::{Session, refuse_unsupported};
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// list the servers that the node of the agent talks to
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node config -servers")]
pub struct NodeConfigCommand {
    /// list the servers, one a line
    #[argh(switch)]
    servers: bool,
    /// replace the servers by those in the arguments (not supported yet)
    #[argh(switch)]
    update_servers: bool,
    /// addresses of servers
    #[argh(positional)]
    addresses: Vec<String>,
}

impl CliCommand for NodeConfigCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        refuse_unsupported(&[(self.update_servers, "-update-servers")])?;
        if !self.servers {
            return Err(CommandError::usage("say what is wanted: -servers"));
        }
        if !self.addresses.is_empty() {
            return Err(CommandError::usage("-servers takes no arguments"));
        }
        let servers: Vec<String> = session.client.get("/v1/agent/servers", &[])?;
        for server in servers {
            session.out.line(&server)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
