//! `drover node pool list`, `node pool info`, `node pool nodes` and `node pool jobs`.

use crate::CliCommand;
use crate::error::CommandResult;
use crate::http::decode;
use crate::node::shapes::NodeStub;
use crate::numbers;
use crate::operator;
use crate::operator::named_objects::NamedObject;
use crate::output::objects;
use crate::render::layout;
use crate::render::lists::{NodeColumns, node_table};
use crate::render::pages;
use crate::render::pages::ListPage;
use crate::session::{Session, argument, job_table, path};
use crate::shapes::JobStub;
use argh::{ArgsInfo, FromArgs};
use serde_json::Value;
use std::process::ExitCode;

const LIST: &str = "/v1/node/pools";

/// list all node pools
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node pool list")]
pub struct NodePoolListCommand {
    /// only those for which this expression is true
    #[argh(option)]
    filter: Option<String>,
    /// rows per page
    #[argh(option, from_str_fn(numbers::per_page))]
    per_page: Option<u32>,
    /// token of the page to show, as the last page printed it
    #[argh(option)]
    page_token: Option<String>,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
}

/// show a node pool: what it is for, and how its jobs are scheduled
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node pool info boards")]
pub struct NodePoolInfoCommand {
    /// print the API's object as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's object through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// a name or the beginning of one
    #[argh(positional)]
    pool: Option<String>,
}

/// list the nodes of a node pool
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node pool nodes boards")]
pub struct NodePoolNodesCommand {
    /// only those for which this expression is true
    #[argh(option)]
    filter: Option<String>,
    /// rows per page
    #[argh(option, from_str_fn(numbers::per_page))]
    per_page: Option<u32>,
    /// token of the page to show, as the last page printed it
    #[argh(option)]
    page_token: Option<String>,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full, addresses and versions
    #[argh(switch)]
    verbose: bool,
    /// a name or the beginning of one
    #[argh(positional)]
    pool: Option<String>,
}

/// list the jobs that choose a node pool
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover node pool jobs -namespace '*' boards")]
pub struct NodePoolJobsCommand {
    /// only those for which this expression is true
    #[argh(option)]
    filter: Option<String>,
    /// rows per page
    #[argh(option, from_str_fn(numbers::per_page))]
    per_page: Option<u32>,
    /// token of the page to show, as the last page printed it
    #[argh(option)]
    page_token: Option<String>,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// a name or the beginning of one
    #[argh(positional)]
    pool: Option<String>,
}

fn page<'a>(filter: &'a Option<String>, per_page: Option<u32>, token: &'a Option<String>) -> ListPage<'a> {
    ListPage { filter: filter.as_deref(), per_page, token: token.as_deref() }
}

/// The list of what is in the pool.
fn of_pool(session: &Session, given: &Option<String>, what: &str) -> CommandResult<String> {
    let found = operator::named_objects::find(session, LIST, "node pool", argument(given, "node-pool")?)?;
    let name = found["Name"].as_str().unwrap_or_default();
    Ok(format!("{}/{what}", path("node/pool", name)))
}

impl CliCommand for NodePoolListCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let page = page(&self.filter, self.per_page, &self.page_token);
        pages::show(session, LIST, page, objects, |value| {
            session.out.text(&operator::named_objects::table(&decode::<Vec<NamedObject>>(value)?))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for NodePoolNodesCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let list = of_pool(session, &self.pool, "nodes")?;
        let page = page(&self.filter, self.per_page, &self.page_token);
        pages::show(session, &list, page, objects, |value| {
            let nodes: Vec<NodeStub> = decode(value)?;
            let columns = NodeColumns { os: false, verbose: self.verbose };
            match nodes.is_empty() {
                true => session.out.line("No nodes"),
                false => session.out.text(&node_table(&nodes, None, columns)),
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for NodePoolJobsCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let list = of_pool(session, &self.pool, "jobs")?;
        let page = page(&self.filter, self.per_page, &self.page_token);
        pages::show(session, &list, page, objects, |value| {
            let jobs: Vec<JobStub> = decode(value)?;
            match jobs.is_empty() {
                true => session.out.line("No jobs"),
                false => session.out.text(&job_table(&jobs, session)),
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl CliCommand for NodePoolInfoCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let value =
            operator::named_objects::find(session, LIST, "node pool", argument(&self.pool, "node-pool")?)?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let pool: NamedObject = decode(&value)?;
        let rows = [("Name", pool.name), ("Description", pool.description)];
        session.out.text(&layout::key_values(&rows))?;
        session.out.section("Metadata")?;
        session.out.text(&metadata(&value))?;
        session.out.section("Scheduler Configuration")?;
        session.out.text(&scheduling(&value["SchedulerConfiguration"]))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn metadata(pool: &Value) -> String {
    let pairs = pool["Meta"].as_object().into_iter().flatten();
    let rows: Vec<_> =
        pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default().to_string())).collect();
    if rows.is_empty() { "No metadata\n".to_string() } else { layout::key_values(&rows) }
}

fn scheduling(said: &Value) -> String {
    if said.is_null() {
        return "No scheduler configuration\n".to_string();
    }
    let algorithm = said["SchedulerAlgorithm"].as_str().unwrap_or_default().to_string();
    let mut rows = vec![("Scheduler Algorithm", algorithm)];
    let oversubscription = said["MemoryOversubscriptionEnabled"].as_bool();
    rows.extend(oversubscription.map(|on| ("Memory Oversubscription Enabled", on.to_string())));
    layout::key_values(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pool_is_laid_out_as_its_reference() {
        assert_eq!(metadata(&json!({"Meta": {"b": "2", "a": "1"}})), "a = 1\nb = 2\n");
        assert_eq!(metadata(&json!({"Meta": null})), "No metadata\n");
        assert_eq!(scheduling(&Value::Null), "No scheduler configuration\n");
        let said = json!({"SchedulerAlgorithm": "spread", "MemoryOversubscriptionEnabled": false});
        let expected = "Scheduler Algorithm             = spread\nMemory Oversubscription Enabled = false\n";
        assert_eq!(scheduling(&said), expected);
        let said = json!({"SchedulerAlgorithm": "", "MemoryOversubscriptionEnabled": null});
        assert_eq!(scheduling(&said), "Scheduler Algorithm = <none>\n");
    }
}
