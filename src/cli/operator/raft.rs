//! What an operator changes of the servers as a group: `operator raft remove-peer` and `transfer-leadership`.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// remove a server from the region for good
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover operator raft remove-peer -peer-id 4503599627370497")]
pub struct RaftRemovePeerCommand {
    /// the server's ID, as list-peers shows it
    #[argh(option, arg_name = "id")]
    peer_id: Option<String>,
    /// its address, if no other server has the same
    #[argh(option, arg_name = "address")]
    peer_address: Option<String>,
}

impl CliCommand for RaftRemovePeerCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let Some((kind, name)) = named(self.peer_id.as_deref(), self.peer_address.as_deref())? else {
            return Err(CommandError::usage("-peer-id or -peer-address says which server"));
        };
        let _empty: Value = session.client.delete("/v1/operator/raft/peer", &[(kind, name)])?;
        session.out.line(&format!("Removed peer with {kind} \"{name}\""))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// let another server lead
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover operator raft transfer-leadership -peer-id 4503599627370497")]
pub struct RaftTransferLeadershipCommand {
    /// the ID of the server that shall lead; without it, whichever is fit
    #[argh(option, arg_name = "id")]
    peer_id: Option<String>,
    /// its address, if no other server has the same
    #[argh(option, arg_name = "address")]
    peer_address: Option<String>,
}

impl CliCommand for RaftTransferLeadershipCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let query: Vec<_> =
            named(self.peer_id.as_deref(), self.peer_address.as_deref())?.into_iter().collect();
        let answer: Value =
            session.client.put("/v1/operator/raft/transfer-leadership", &query, &json!({}))?;
        let to = |key: &str| answer["To"][key].as_str().unwrap_or_default().to_string();
        session.out.line(&format!("Server {} ({}) leads", to("ID"), to("Address")))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The query that names a server. `None`: none is named.
fn named<'a>(
    id: Option<&'a str>,
    address: Option<&'a str>,
) -> CommandResult<Option<(&'static str, &'a str)>> {
    match (id, address) {
        (Some(_), Some(_)) => Err(CommandError::usage("-peer-id excludes -peer-address")),
        (Some(id), None) => Ok(Some(("id", id))),
        (None, address) => Ok(address.map(|address| ("address", address))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_id_or_address() {
        assert_eq!(named(Some("7"), None).ok(), Some(Some(("id", "7"))));
        assert_eq!(named(None, Some("10.0.0.1:4647")).ok(), Some(Some(("address", "10.0.0.1:4647"))));
        assert_eq!(named(None, None).ok(), Some(None));
        assert!(named(Some("7"), Some("10.0.0.1:4647")).is_err());
    }
}
