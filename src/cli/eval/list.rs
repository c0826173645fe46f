//! `drover eval list`, and the table of evaluations.

use crate::Run;
use crate::http::decode;
use crate::output::{Outcome, objects};
use crate::render::layout;
use crate::session::Session;
use crate::shapes::Eval;
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// list evaluations, newest first
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover eval list -job cache -status blocked")]
pub struct EvalList {
    /// only those for which this expression is true
    #[argh(option)]
    filter: Option<String>,
    /// only those of this job
    #[argh(option)]
    job: Option<String>,
    /// only those of this status
    #[argh(option)]
    status: Option<String>,
    /// at most so many
    #[argh(option)]
    per_page: Option<u32>,
    /// go on where a page ended
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

impl Run for EvalList {
    fn run(self, session: &mut Session) -> Outcome<ExitCode> {
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
            session.out.text(&table(&evals, self.verbose))?;
        }
        if !next.is_empty() {
            session.out.line(&format!("\nThere are more: add -page-token {next}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

pub fn table(evals: &[Eval], verbose: bool) -> String {
    let row = |e: &Eval| {
        vec![
            layout::id(&e.id, verbose),
            e.priority.to_string(),
            e.triggered_by.clone(),
            e.job_id.clone(),
            e.namespace.clone(),
            layout::id(&e.node_id, verbose),
            e.status.clone(),
            failures(e).to_string(),
        ]
    };
    let header =
        ["ID", "Priority", "Triggered By", "Job ID", "Namespace", "Node ID", "Status", "Placement Failures"];
    layout::table(&header, &evals.iter().map(row).collect::<Vec<_>>())
}

/// What is told of an evaluation's placements in a column.
pub fn failures(eval: &Eval) -> &'static str {
    match eval.status.as_str() {
        "blocked" => "N/A - In Progress",
        _ if eval.failed_tg_allocs.is_empty() => "false",
        _ => "true",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_are_laid_out_as_their_reference() {
        let eval = Eval {
            id: "0123456789".into(),
            priority: 50,
            triggered_by: "job-register".into(),
            job_id: "cache".into(),
            namespace: "default".into(),
            status: "complete".into(),
            ..Eval::default()
        };
        let expected = "\
ID        Priority  Triggered By  Job ID  Namespace  Node ID  Status    Placement Failures
01234567  50        job-register  cache   default    <none>   complete  false
";
        assert_eq!(table(&[eval], false), expected);
    }

    #[test]
    fn failures_are_known_once_it_has_ended() {
        let eval = |status: &str, failed: bool| {
            let groups = failed.then(|| ("g".to_string(), Default::default()));
            Eval { status: status.into(), failed_tg_allocs: groups.into_iter().collect(), ..Eval::default() }
        };
        assert_eq!(failures(&eval("complete", false)), "false");
        assert_eq!(failures(&eval("complete", true)), "true");
        assert_eq!(failures(&eval("blocked", true)), "N/A - In Progress");
    }
}
