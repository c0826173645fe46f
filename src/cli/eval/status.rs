//! `drover eval status` (cli.md 3.7): an evaluation, what it placed and what it could not.

use crate::CliCommand;
use crate::deployment::change::follow_both;
use crate::error::{CommandError, CommandResult};
use crate::eval::monitor;
use crate::http::decode;
use crate::output::{Objects, objects};
use crate::render::layout;
use crate::render::lists::alloc_table;
use crate::render::lists::{eval_table, failures};
use crate::render::template::with_omitted;
use crate::session::{Session, path};
use crate::shapes::{Alloc, Eval};
use api::shape::eval::OMIT_EMPTY;
use argh::{ArgsInfo, FromArgs};
use std::process::ExitCode;

/// show an evaluation: why it was made, what it placed and what it could not
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover eval status -monitor 1a2b3c4d")]
pub struct EvalStatusCommand {
    /// follow it and its deployment to their end; exit code 2: not everything could be placed
    #[argh(switch)]
    monitor: bool,
    /// print the API's object as JSON; without an id: all of them
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// show ids in full, and the evaluations before and after it
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    eval: Option<String>,
}

impl EvalStatusCommand {
    pub fn one(id: &str, verbose: bool) -> EvalStatusCommand {
        EvalStatusCommand { monitor: false, json: false, template: None, verbose, eval: Some(id.to_string()) }
    }
}

impl CliCommand for EvalStatusCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        let Some(prefix) = &self.eval else {
            if let Some(objects) = objects {
                session.out.objects(objects, &session.client.get_value("/v1/evaluations", &[])?)?;
                return Ok(ExitCode::SUCCESS);
            }
            let sentence =
                "This command takes one argument: <evaluation> (only with -json or -t it may be left out)";
            return Err(CommandError::usage(sentence));
        };
        let id = session.eval_id(prefix)?;
        if self.monitor {
            return Ok(follow_both(session, &id, self.verbose)?.into());
        }
        let target = path("evaluation", &id);
        let value = session.client.get_value(&target, &[("related", "true")]).map_err(|e| {
            match e.is_not_found() {
                true => CommandError::new(format!("No evaluation(s) with prefix or id {prefix:?} found")),
                false => e.into(),
            }
        })?;
        if let Some(objects) = objects {
            let value = match objects {
                Objects::Json => value,
                Objects::Template(_) => with_omitted(value, &OMIT_EMPTY),
            };
            session.out.objects(objects, &value)?;
            return Ok(ExitCode::SUCCESS);
        }
        let eval: Eval = decode(&value)?;
        session.out.text(&basics(&eval, session.now(), self.verbose))?;
        if !eval.related_evals.is_empty() {
            session.out.section("Related Evaluations")?;
            session.out.text(&eval_table(&eval.related_evals, self.verbose))?;
        }
        let allocs: Vec<Alloc> = session.client.get(&format!("{target}/allocations"), &[])?;
        if !allocs.is_empty() {
            session.out.section("Placed Allocations")?;
            session.out.text(&alloc_table(&allocs, session.now(), self.verbose))?;
        }
        if !eval.failed_tg_allocs.is_empty() {
            session.out.section("Failed Placements")?;
            for line in monitor::failed_groups(&eval.failed_tg_allocs) {
                session.out.line(&line)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn basics(eval: &Eval, now: i64, verbose: bool) -> String {
    let short = |full: &str| layout::id(full, verbose);
    let mut rows = vec![
        ("ID", short(&eval.id)),
        ("Create Time", layout::relative(eval.create_time, now)),
        ("Modify Time", layout::relative(eval.modify_time, now)),
        ("Status", eval.status.clone()),
        ("Status Description", eval.status_description.clone()),
        ("Type", eval.kind.clone()),
        ("TriggeredBy", eval.triggered_by.clone()),
        ("Job ID", eval.job_id.clone()),
        ("Namespace", eval.namespace.clone()),
    ];
    let given = |name, id: &str| (!id.is_empty()).then(|| (name, short(id)));
    rows.extend(given("Node ID", &eval.node_id));
    rows.extend(given("Deployment ID", &eval.deployment_id));
    rows.push(("Priority", eval.priority.to_string()));
    rows.push(("Placement Failures", failures(eval).to_string()));
    if verbose {
        rows.push(("Previous Eval", eval.previous_eval.clone()));
        rows.push(("Next Eval", eval.next_eval.clone()));
        rows.push(("Blocked Eval", eval.blocked_eval.clone()));
    }
    layout::key_values(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_is_laid_out_as_its_reference() {
        let second = 1_000_000_000;
        let eval = Eval {
            id: "0123456789".into(),
            kind: "service".into(),
            priority: 50,
            triggered_by: "node-update".into(),
            job_id: "cache".into(),
            namespace: "default".into(),
            node_id: "abcdefghij".into(),
            next_eval: "9876543210".into(),
            status: "complete".into(),
            create_time: 100 * second,
            modify_time: 110 * second,
            ..Eval::default()
        };
        let expected = "\
ID                 = 01234567
Create Time        = 20s ago
Modify Time        = 10s ago
Status             = complete
Status Description = <none>
Type               = service
TriggeredBy        = node-update
Job ID             = cache
Namespace          = default
Node ID            = abcdefgh
Priority           = 50
Placement Failures = false
";
        assert_eq!(basics(&eval, 120 * second, false), expected);
        let verbose = basics(&eval, 120 * second, true);
        assert!(
            verbose.ends_with("Next Eval          = 9876543210\nBlocked Eval       = <none>\n"),
            "{verbose}"
        );
        assert!(verbose.starts_with("ID                 = 0123456789\n"), "{verbose}");
    }
}
