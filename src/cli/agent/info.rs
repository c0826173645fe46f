//! `drover agent-info` and `drover monitor`: what the agent that is asked says of itself, and its log as it is written.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::frames::{self, Chunk};
use crate::output::{Objects, objects};
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// show status and statistics of the agent
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover agent-info")]
pub struct AgentInfoCommand {
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

type Sections = BTreeMap<String, BTreeMap<String, String>>;

impl CliCommand for AgentInfoCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let own = session.client.get_value("/v1/agent/self", &[])?;
        match objects {
            Some(Objects::Json) => session.out.json(&own)?,
            Some(template) => session.out.objects(template, &capitalised(own))?,
            None => {
                let stats: Sections = crate::http::decode(own.get("stats").unwrap_or(&Value::Null))?;
                session.out.text(&sections(&stats))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The one object whose members do not have the names of the Go client's fields: those begin with a capital.
fn capitalised(own: Value) -> Value {
    let Value::Object(members) = own else { return own };
    let capital = |name: String| name[..1].to_ascii_uppercase() + &name[1..];
    Value::Object(members.into_iter().map(|(name, value)| (capital(name), value)).collect())
}

fn sections(stats: &Sections) -> String {
    let mut out = String::new();
    for (name, values) in stats {
        out.push_str(&format!("{name}\n"));
        for (key, value) in values {
            out.push_str(&format!("  {key} = {value}\n"));
        }
    }
    out
}

/// follow the log of the agent that is asked
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover monitor -log-level DEBUG")]
pub struct MonitorCommand {
    /// the level to show: TRACE, DEBUG, INFO (the default), WARN or ERROR
    #[argh(option, default = "\"INFO\".to_string()")]
    log_level: String,
    /// one JSON object a line
    #[argh(switch)]
    json: bool,
    /// add the source location of each line (not supported yet)
    #[argh(switch)]
    log_include_location: bool,
    /// the id of the agent's node
    #[argh(option)]
    node_id: Option<String>,
    /// the agent's name as a server
    #[argh(option)]
    server_id: Option<String>,
}

impl CliCommand for MonitorCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let text = |on: bool| if on { "true" } else { "false" };
        let mut query = vec![
            ("log_level", self.log_level.as_str()),
            ("log_json", text(self.json)),
            ("log_include_location", text(self.log_include_location)),
        ];
        query.extend(self.node_id.as_deref().map(|id| ("node_id", id)));
        query.extend(self.server_id.as_deref().map(|id| ("server_id", id)));
        let stream = session.client.stream("/v1/agent/monitor", &query)?;
        for chunk in frames::chunks(stream) {
            match chunk.map_err(|e| CommandError::new(format!("The log stream broke off: {e}")))? {
                Chunk::Data(data) => session.out.bytes(&data)?,
                Chunk::Event(text) => session.out.stderr_line(&format!("drover: {text}")),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_indented_and_sorted() {
        let section = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<BTreeMap<_, _>>()
        };
        let stats = Sections::from([
            ("raft".to_string(), section(&[("term", "2"), ("state", "Leader")])),
            ("client".to_string(), section(&[("node_id", "x")])),
        ]);
        assert_eq!(sections(&stats), "client\n  node_id = x\nraft\n  state = Leader\n  term = 2\n");
    }
}
