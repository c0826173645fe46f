//! `drover node meta read` and `drover node meta apply`.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::output::objects;
use crate::render::layout;
use crate::session::Session;
use argh::{ArgsInfo, FromArgs};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

const PATH: &str = "/v1/client/metadata";

/// show a node's metadata: all of it, what was set while it ran, and what its configuration says
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node meta read -node-id 1a2b3c4d")]
pub struct NodeMetaReadCommand {
    /// a node's id or the beginning of one (the node of the agent that is asked)
    #[argh(option, default = "String::new()")]
    node_id: String,
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

/// set and unset a node's metadata while it runs; the node keeps it
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node meta apply -unset old,older rack=r1")]
pub struct NodeMetaApplyCommand {
    /// a node's id or the beginning of one (the node of the agent that is asked)
    #[argh(option, default = "String::new()")]
    node_id: String,
    /// keys to unset, with commas between them
    #[argh(option, default = "String::new()")]
    unset: String,
    /// key=value
    #[argh(positional)]
    pairs: Vec<String>,
}

impl CliCommand for NodeMetaReadCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let id = node(session, &self.node_id)?;
        let query = [("node_id", id.as_str())];
        let query = if id.is_empty() { &query[..0] } else { &query[..] };
        let value = session.client.get_value(PATH, query)?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        for (n, (title, member)) in
            [("All Meta", "Meta"), ("Dynamic Meta", "Dynamic"), ("Static Meta", "Static")].iter().enumerate()
        {
            if n > 0 {
                session.out.line("")?;
            }
            session.out.title(title)?;
            session.out.text(&rows(&value[member]))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn rows(map: &Value) -> String {
    let Some(map) = map.as_object() else { return String::new() };
    let text = |value: &Value| value.as_str().map_or("<unset>".to_string(), str::to_string);
    layout::key_values(&map.iter().map(|(k, v)| (k.as_str(), text(v))).collect::<Vec<_>>())
}

impl CliCommand for NodeMetaApplyCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let unset = self.unset.split(',').filter(|k| !k.is_empty());
        let mut meta: Map<String, Value> = unset.map(|k| (k.to_string(), Value::Null)).collect();
        for pair in &self.pairs {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(CommandError::usage(format!("{pair:?} is not of the form key=value")));
            };
            meta.insert(key.to_string(), value.into());
        }
        if meta.is_empty() {
            return Err(CommandError::usage("name at least one key: key=value, or -unset key"));
        }
        let body = json!({"NodeID": node(session, &self.node_id)?, "Meta": meta});
        let _now: Value = session.client.post(PATH, &[], &body)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Empty: the node of the agent that is asked.
fn node(session: &Session, prefix: &str) -> CommandResult<String> {
    if prefix.is_empty() { Ok(String::new()) } else { session.node_id(prefix) }
}
