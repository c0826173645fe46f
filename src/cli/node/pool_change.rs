//! `drover node pool apply`, `node pool delete` and `node pool init`.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::job::file::read_text;
use crate::operator;
use crate::operator::object_file::ObjectKind;
use crate::session::{Session, argument, path};
use argh::{ArgsInfo, FromArgs};
use serde_json::Value;
use std::io::Write as _;
use std::process::ExitCode;

/// create a node pool or change one: a file replaces all that is known of it
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node pool apply boards.hcl")]
pub struct NodePoolApplyCommand {
    /// the file is the API's JSON
    #[argh(switch)]
    json: bool,
    /// the path of a file; - is standard input
    #[argh(positional)]
    input: Option<String>,
}

/// delete a node pool; refused while nodes are in it, or jobs that are not dead
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node pool delete boards")]
pub struct NodePoolDeleteCommand {
    /// its name, in full
    #[argh(positional)]
    pool: Option<String>,
}

/// write an example of a node pool's file
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node pool init boards.hcl")]
pub struct NodePoolInitCommand {
    /// hcl or json (default hcl)
    #[argh(option, default = "String::from(\"hcl\")")]
    out: String,
    /// print nothing on success
    #[argh(switch)]
    quiet: bool,
    /// path of the file to write (default pool.nomad.hcl or pool.nomad.json)
    #[argh(positional)]
    path: Option<String>,
}

impl CliCommand for NodePoolApplyCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let input = argument(&self.input, "path")?;
        let body = operator::object_file::read(ObjectKind::NodePool, input, &read_text(input)?, self.json)?;
        let name = body.get("Name").and_then(Value::as_str).unwrap_or_default().to_string();
        let _empty: Value = session.client.put("/v1/node/pools", &[], &body)?;
        session.out.line(&format!("Successfully applied node pool {name:?}!"))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for NodePoolDeleteCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let name = argument(&self.pool, "node-pool")?;
        let _empty: Value = session.client.delete(&path("node/pool", name), &[])?;
        session.out.line(&format!("Successfully deleted node pool {name:?}!"))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for NodePoolInitCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let (name, text) = match self.out.as_str() {
            "hcl" => ("pool.nomad.hcl", HCL),
            "json" => ("pool.nomad.json", JSON),
            other => return Err(CommandError::usage(format!("-out is hcl or json, not {other:?}"))),
        };
        let path = self.path.as_deref().unwrap_or(name);
        let fail = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::AlreadyExists => CommandError::new(format!("File {path:?} already exists")),
            _ => CommandError::new(format!("File {path:?} cannot be written: {e}")),
        };
        let mut file = std::fs::File::create_new(path).map_err(fail)?;
        file.write_all(text.as_bytes()).map_err(fail)?;
        if !self.quiet {
            session.out.line(&format!("Example node pool specification written to {path}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

const HCL: &str = r#"# The nodes of a pool say so in their configuration: client { node_pool = "example" }.
# The jobs that are to run there say node_pool = "example".
node_pool "example" {
  description = "Example node pool"

  meta {
    owner = "ops"
  }

  # What of the scheduler's configuration is different for the jobs of this pool.
  scheduler_config {
    # "binpack": the fuller node first; "spread": the emptier one.
    scheduler_algorithm = "spread"

    # Whether tasks may be given more memory than is reserved for them.
    memory_oversubscription_enabled = false
  }
}
"#;

const JSON: &str = r#"{
  "Name": "example",
  "Description": "Example node pool",
  "Meta": {
    "owner": "ops"
  },
  "SchedulerConfiguration": {
    "SchedulerAlgorithm": "spread",
    "MemoryOversubscriptionEnabled": false
  }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_examples_say_the_same_and_can_be_read() {
        let hcl = operator::object_file::read(ObjectKind::NodePool, "a", HCL, false).unwrap();
        assert_eq!(hcl, operator::object_file::read(ObjectKind::NodePool, "b", JSON, true).unwrap());
        assert_eq!(hcl["SchedulerConfiguration"]["SchedulerAlgorithm"], "spread");
    }
}
