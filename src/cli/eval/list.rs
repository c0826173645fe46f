//! `drover eval list`, and the table of evaluations.

use crate::CliCommand;
use crate::error::CommandResult;
use crate::http::decode;
use crate::numbers;
use crate::output::objects;
use crate::render::lists::eval_table;
use crate::session::Session;
use crate::shapes::Eval;
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// list evaluations, newest first
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover eval list -job cache -status blocked")]
pub struct EvalListCommand {
    /// only those for which this expression is true
    #[argh(option)]
    filter: Option<String>,
    /// only those of this job
    #[argh(option)]
    job: Option<String>,
    /// only those of this status
    #[argh(option)]
    status: Option<String>,
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
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
}

impl CliCommand for EvalListCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let per_page = self.per_page.map(|n| n.to_string());
        let given = [
            ("filter", self.filter.as_deref()),
            ("job", self.job.as_deref()),
            ("status", self.status.as_deref()),
            ("per_page", per_page.as_deref()),
            ("next_token", self.page_token.as_deref()),
        ];
        let mut query: Vec<_> = given.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        query.push(("reverse", "true"));
        let (value, next) = session.client.get_page("/v1/evaluations", &query)?;
        if let Some(objects) = objects {
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let evals: Vec<Eval> = decode(&value)?;
        if evals.is_empty() {
            session.out.line("No evals found")?;
        } else {
            session.out.text(&eval_table(&evals, self.verbose))?;
        }
        if !next.is_empty() {
            session.out.line(&format!("\nThere are more: add -page-token {next}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
