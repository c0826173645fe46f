//! What an operator asks of the servers: `server members`, `operator raft list-peers`, `operator metrics`,
//! `system reconcile summaries`, `system gc`, `ui`.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::http::decode;
use crate::output::{Objects, objects};
use crate::render::layout;
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::ExitCode;

/// list the servers
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover server members")]
pub struct ServerMembersCommand {
    /// show protocol and tags, too
    #[argh(switch)]
    detailed: bool,
    /// the same as -detailed
    #[argh(switch)]
    verbose: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

impl CliCommand for ServerMembersCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let value = session.client.get_value("/v1/agent/members", &[])?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value["Members"])?;
            return Ok(ExitCode::SUCCESS);
        }
        let members: Members = decode(&value)?;
        let leader: String = session.client.get("/v1/status/leader", &[])?;
        session.out.text(&member_table(&members.members, &leader, self.detailed || self.verbose))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn member_table(members: &[Member], leader: &str, detailed: bool) -> String {
    let mut header = vec!["Name", "Address", "Port", "Status", "Leader"];
    header.extend(detailed.then_some("Protocol"));
    header.extend(["Raft Version", "Build", "Datacenter", "Region"]);
    header.extend(detailed.then_some("Tags"));
    let row = |m: &Member| {
        let tag = |name: &str| m.tags.get(name).cloned().unwrap_or_default();
        let leads = format!("{}:{}", m.addr, tag("port")) == leader;
        let mut row =
            vec![m.name.clone(), m.addr.clone(), m.port.to_string(), m.status.clone(), leads.to_string()];
        row.extend(detailed.then(|| m.protocol_cur.to_string()));
        row.extend([tag("raft_vsn"), tag("build"), tag("dc"), tag("region")]);
        let tags = || m.tags.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",");
        row.extend(detailed.then(tags));
        row
    };
    layout::table(&header, &members.iter().map(row).collect::<Vec<_>>())
}

/// list the servers as they take part in consensus
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover operator raft list-peers")]
pub struct RaftListPeersCommand {
    /// accept the answer of a server that knows no leader
    #[argh(switch)]
    stale: bool,
}

impl CliCommand for RaftListPeersCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let query: &[(&str, &str)] = if self.stale { &[("stale", "true")] } else { &[] };
        let found: RaftConfiguration = session.client.get("/v1/operator/raft/configuration", query)?;
        let row = |s: &RaftServer| {
            let state = if s.leader { "leader" } else { "follower" };
            vec![
                s.node.clone(),
                s.id.clone(),
                s.address.clone(),
                state.to_string(),
                s.voter.to_string(),
                s.raft_protocol.clone(),
            ]
        };
        let header = ["Node", "ID", "Address", "State", "Voter", "RaftProtocol"];
        session.out.text(&layout::table(&header, &found.servers.iter().map(row).collect::<Vec<_>>()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// print the metrics of the agent that is asked
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover operator metrics -format prometheus")]
pub struct OperatorMetricsCommand {
    /// prometheus: its text instead of JSON
    #[argh(option)]
    format: Option<String>,
    /// indent the JSON
    #[argh(switch)]
    pretty: bool,
    /// print JSON: what is printed anyway
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

impl CliCommand for OperatorMetricsCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        if objects.is_some() && self.format.is_some() {
            return Err(CommandError::usage("-format excludes -json and -t"));
        }
        if let Some(how @ Objects::Template(_)) = objects {
            session.out.objects(how, &session.client.get_value("/v1/metrics", &[])?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut query: Vec<(&str, &str)> =
            self.format.as_deref().map(|f| ("format", f)).into_iter().collect();
        query.extend(self.pretty.then_some(("pretty", "true")));
        let mut text = String::new();
        session.client.stream("/v1/metrics", &query)?.read_to_string(&mut text)?;
        session.out.line(text.trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// reconcile the summaries of all jobs
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover system reconcile summaries")]
pub struct ReconcileSummariesCommand {}

impl CliCommand for ReconcileSummariesCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let nothing = serde_json::json!({});
        let _no_body: serde_json::Value =
            session.client.put("/v1/system/reconcile/summaries", &[], &nothing)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// run the garbage collector now, whatever the age of what has ended
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover system gc")]
pub struct SystemGcCommand {
    /// taken and ignored
    #[argh(positional, hidden_help)]
    _rest: Vec<String>,
}

impl CliCommand for SystemGcCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let nothing = serde_json::json!({});
        let _no_body: serde_json::Value = session.client.put("/v1/system/gc", &[], &nothing)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// print where the web interface is
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover ui")]
pub struct UiCommand {
    /// print the address and nothing else
    #[argh(switch)]
    show_url: bool,
    /// log in with the token (not supported yet)
    #[argh(switch)]
    authenticate: bool,
    /// page to open (not supported yet)
    #[argh(positional)]
    id: Option<String>,
}

impl CliCommand for UiCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        for (asked, what) in [(self.authenticate, "-authenticate"), (self.id.is_some(), "ui with an id")] {
            if asked {
                return Err(CommandError::new(format!("not supported yet: {what}")));
            }
        }
        session.out.line(&format!("URL for web UI: {}/ui/", session.client.address()))?;
        if !self.show_url {
            session.out.warning("not supported yet: the web interface; the address is where it will be");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `agent/members`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Members {
    members: Vec<Member>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Member {
    name: String,
    addr: String,
    port: u16,
    status: String,
    tags: BTreeMap<String, String>,
    protocol_cur: u8,
}

/// `operator/raft/configuration`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RaftConfiguration {
    servers: Vec<RaftServer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RaftServer {
    #[serde(rename = "ID")]
    id: String,
    node: String,
    address: String,
    leader: bool,
    voter: bool,
    raft_protocol: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_among_the_members_is_marked() {
        let tags = [("port", "4647"), ("build", "2.0.5"), ("dc", "dc1"), ("region", "eu"), ("raft_vsn", "3")];
        let member = Member {
            name: "a.eu".into(),
            addr: "10.0.0.1".into(),
            port: 4648,
            status: "alive".into(),
            tags: tags.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            protocol_cur: 2,
        };
        let expected = "\
Name  Address   Port  Status  Leader  Raft Version  Build  Datacenter  Region
a.eu  10.0.0.1  4648  alive   true    3             2.0.5  dc1         eu
";
        let members = [member];
        assert_eq!(member_table(&members, "10.0.0.1:4647", false), expected);
        assert!(member_table(&members, "10.0.0.2:4647", true).contains("build=2.0.5,dc=dc1"));
        assert!(member_table(&members, "10.0.0.2:4647", false).contains("false"));
    }
}
