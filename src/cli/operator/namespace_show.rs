//! `drover namespace list`, `namespace status` and `namespace inspect`.

use crate::CliCommand;
use crate::error::CommandResult;
use crate::http::decode;
use crate::operator;
use crate::operator::named_objects::NamedObject;
use crate::output::{Objects, objects};
use crate::render::layout;
use crate::session::{Session, argument};
use crate::shapes::Namespace;
use argh::{ArgsInfo, FromArgs};
use serde_json::Value;
use std::process::ExitCode;

/// list all namespaces
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover namespace list")]
pub struct NamespaceListCommand {
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

/// show a namespace: what it is for and which drivers jobs may use in it
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover namespace status team")]
pub struct NamespaceStatusCommand {
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// a name or the beginning of one
    #[argh(positional)]
    namespace: Option<String>,
}

/// print a namespace as JSON
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover namespace inspect team")]
pub struct NamespaceInspectCommand {
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// a name or the beginning of one
    #[argh(positional)]
    namespace: Option<String>,
}

impl CliCommand for NamespaceListCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let value = session.client.get_value("/v1/namespaces", &[])?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
        } else {
            session.out.text(&operator::named_objects::table(&decode::<Vec<NamedObject>>(&value)?))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for NamespaceStatusCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let value = find(session, argument(&self.namespace, "namespace")?)?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let namespace: Namespace = decode(&value)?;
        session.out.text(&basics(&namespace))?;
        if !namespace.meta.is_empty() {
            session.out.section("Metadata")?;
            let rows: Vec<_> = namespace.meta.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
            session.out.text(&layout::key_values(&rows))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for NamespaceInspectCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let how = objects(false, self.template.as_deref())?.unwrap_or(Objects::Json);
        session.out.objects(how, &find(session, argument(&self.namespace, "namespace")?)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn find(session: &Session, prefix: &str) -> CommandResult<Value> {
    operator::named_objects::find(session, "/v1/namespaces", "namespace", prefix)
}

fn basics(namespace: &Namespace) -> String {
    let enabled = match namespace.capabilities.enabled_task_drivers.join(",") {
        none if none.is_empty() => "*".to_string(),
        some => some,
    };
    layout::key_values(&[
        ("Name", namespace.name.clone()),
        ("Description", namespace.description.clone()),
        ("Quota", namespace.quota.clone()),
        ("EnabledDrivers", enabled),
        ("DisabledDrivers", namespace.capabilities.disabled_task_drivers.join(",")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_laid_out_as_its_reference() {
        let mut namespace =
            Namespace { name: "team".into(), description: "ours".into(), ..Namespace::default() };
        let shown = |n: &Namespace, enabled: &str, disabled: &str| {
            let expected = format!(
                "Name            = team\nDescription     = ours\nQuota           = <none>\n\
                 EnabledDrivers  = {enabled}\nDisabledDrivers = {disabled}\n"
            );
            assert_eq!(basics(n), expected);
        };
        shown(&namespace, "*", "<none>");
        namespace.capabilities.enabled_task_drivers = vec!["exec".into(), "raw_exec".into()];
        namespace.capabilities.disabled_task_drivers = vec!["docker".into()];
        shown(&namespace, "exec,raw_exec", "docker");
    }
}
