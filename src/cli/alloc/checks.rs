//! `drover alloc checks`: the last results of an allocation's service checks (cli.md 3.7).

use crate::CliCommand;
use crate::error::CommandResult;
use crate::http::decode;
use crate::output::objects;
use crate::render::layout;
use crate::session::{Session, argument, path};
use argh::{ArgsInfo, FromArgs};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// show the service checks of an allocation and how they went last
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover alloc checks 1a2b3c4d")]
pub struct AllocChecksCommand {
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// an id or the beginning of one
    #[argh(positional)]
    alloc: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Check {
    #[serde(rename = "ID")]
    id: String,
    /// The check's name.
    check: String,
    group: String,
    task: String,
    service: String,
    status: String,
    status_code: u64,
    mode: String,
    /// Seconds since 1970.
    timestamp: i64,
    output: String,
}

impl CliCommand for AllocChecksCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let id = session.alloc_id(argument(&self.alloc, "alloc-id")?)?;
        let value = session.client.get_value(&format!("{}/checks", path("client/allocation", &id)), &[])?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let found: Option<BTreeMap<String, Check>> = if value.is_null() { None } else { decode(&value)? };
        let checks: Vec<Check> = found.into_iter().flat_map(BTreeMap::into_values).collect();
        if checks.is_empty() {
            session.out.line("The allocation has no service checks")?;
            return Ok(ExitCode::SUCCESS);
        }
        session.out.title(&format!("Status of {} Nomad Service Checks", checks.len()))?;
        for check in &checks {
            session.out.line("")?;
            session.out.text(&block(check, session, self.verbose))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn block(check: &Check, session: &Session, verbose: bool) -> String {
    let code = if check.status_code == 0 { String::new() } else { check.status_code.to_string() };
    layout::key_values(&[
        ("ID", layout::id(&check.id, verbose)),
        ("Name", check.check.clone()),
        ("Group", check.group.clone()),
        ("Task", if check.task.is_empty() { "(group)".to_string() } else { check.task.clone() }),
        ("Service", check.service.clone()),
        ("Status", check.status.clone()),
        ("StatusCode", code),
        ("Mode", check.mode.clone()),
        ("Timestamp", session.time(check.timestamp.saturating_mul(1_000_000_000))),
        ("Output", check.output.clone()),
    ])
}
