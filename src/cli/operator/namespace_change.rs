//! `drover namespace apply` and `namespace delete`.

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::job::file::read_text;
use crate::operator;
use crate::operator::object_file::ObjectKind;
use crate::session::{Session, argument, path};
use argh::{ArgsInfo, FromArgs};
use serde_json::{Value, json};
use std::process::ExitCode;

/// create a namespace or change one: a file replaces all that is known of it, a name leaves everything but the description
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover namespace apply -description \"our team\" team",
    example = "drover namespace apply team.hcl"
)]
pub struct NamespaceApplyCommand {
    /// what the namespace is for; only with a name
    #[argh(option)]
    description: Option<String>,
    /// a quota to be held to (not supported yet)
    #[argh(option)]
    quota: Option<String>,
    /// the file is the API's JSON
    #[argh(switch)]
    json: bool,
    /// a name, or the path of a file; - is standard input
    #[argh(positional)]
    input: Option<String>,
}

/// delete a namespace; refused while jobs in it are not dead
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover namespace delete team")]
pub struct NamespaceDeleteCommand {
    /// its name, in full
    #[argh(positional)]
    namespace: Option<String>,
}

impl CliCommand for NamespaceApplyCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let input = argument(&self.input, "name or path")?;
        if self.quota.as_ref().is_some_and(|quota| !quota.is_empty()) {
            return Err(CommandError::new("not supported yet: -quota"));
        }
        let body = match input == "-" || std::fs::metadata(input).is_ok_and(|m| m.is_file()) {
            true => self.read_file(input)?,
            false => self.changed(session, input)?,
        };
        let name = body.get("Name").and_then(Value::as_str).unwrap_or_default().to_string();
        let _empty: Value = session.client.put("/v1/namespace", &[], &body)?;
        session.out.line(&format!("Successfully applied namespace {name:?}!"))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl NamespaceApplyCommand {
    fn read_file(&self, input: &str) -> CommandResult<Value> {
        if self.description.is_some() {
            return Err(CommandError::usage("-description has no meaning with a file: say it there"));
        }
        operator::object_file::read(ObjectKind::Namespace, input, &read_text(input)?, self.json)
    }

    fn changed(&self, session: &Session, name: &str) -> CommandResult<Value> {
        let mut body = match session.client.get_value(&path("namespace", name), &[]) {
            Err(e) if e.is_not_found() => json!({ "Name": name }),
            known => known?,
        };
        if let Some(description) = &self.description {
            body["Description"] = json!(description);
        }
        Ok(body)
    }
}

impl CliCommand for NamespaceDeleteCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let name = argument(&self.namespace, "namespace")?;
        let _empty: Value = session.client.delete(&path("namespace", name), &[])?;
        session.out.line(&format!("Successfully deleted namespace {name:?}!"))?;
        Ok(ExitCode::SUCCESS)
    }
}
