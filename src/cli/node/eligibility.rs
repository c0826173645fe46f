//! `drover node eligibility`: whether new work may be placed on a node.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::node::status::own_node;
use crate::session::{Session, argument, path};
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// set whether new work may be placed on a node; what runs there is left alone
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node eligibility -disable 1a2b3c4d")]
pub struct NodeEligibilityCommand {
    /// new work may be placed there
    #[argh(switch)]
    enable: bool,
    /// new work may not be placed there
    #[argh(switch)]
    disable: bool,
    /// the node of the agent that is asked
    #[argh(switch, long = "self")]
    this: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    node: Option<String>,
}

impl CliCommand for NodeEligibilityCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        if self.enable == self.disable {
            return Err(CommandError::usage("Either -enable or -disable must be given"));
        }
        let id = node(session, self.this, &self.node)?;
        let (word, sentence) = match self.enable {
            true => ("eligible", "eligible for scheduling"),
            false => ("ineligible", "ineligible for scheduling"),
        };
        let body = json!({ "NodeID": id, "Eligibility": word });
        session.client.put::<Value>(&format!("{}/eligibility", path("node", &id)), &[], &body)?;
        session.out.line(&format!("Node {id:?} scheduling eligibility set: {sentence}"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The node that is meant.
pub fn node(session: &Session, this: bool, given: &Option<String>) -> CommandResult<String> {
    match given {
        Some(_) if this => Err(CommandError::usage("-self takes no node id")),
        None if this => own_node(session),
        given => session.node_id(argument(given, "node")?),
    }
}
