//! `drover status [id]`: finds what has this id and shows it.

use crate::CliCommand;
use crate::alloc::status::AllocStatusCommand;
use crate::error::{CommandError, CommandResult};
use crate::eval::status::EvalStatusCommand;
use crate::job::scaling::ScalingPolicyInfoCommand;
use crate::job::status::JobStatusCommand;
use crate::node::status::NodeStatusCommand;
use crate::render::layout;
use crate::session::Session;
use crate::shapes::SearchAnswer;
use argh::{ArgsInfo, FromArgs};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// show the job, allocation, evaluation or node with this id; without an id: all jobs
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover status 1a2b3c4d")]
pub struct StatusCommand {
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    id: Option<String>,
}

impl CliCommand for StatusCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let Some(id) = self.id else {
            return JobStatusCommand::list(self.verbose).run(session);
        };
        let body = serde_json::json!({"Prefix": id, "Context": "all"});
        let answer: SearchAnswer = session.client.put("/v1/search", &[], &body)?;
        match pick(&answer.matches, &id)? {
            ("jobs", found) => JobStatusCommand::one(found, self.verbose).run(session),
            ("allocs", found) => AllocStatusCommand::one(found, self.verbose).run(session),
            ("nodes", found) => NodeStatusCommand::one(found, self.verbose).run(session),
            ("evals", found) => EvalStatusCommand::one(found, self.verbose).run(session),
            ("scaling_policy", found) => ScalingPolicyInfoCommand::one(found, self.verbose).run(session),
            (context, _) => Err(CommandError::new(format!("not supported yet: showing {context}"))),
        }
    }
}

/// The only context whose first match is exactly `id`, or else the only match of all (cli.md 2.3.4).
fn pick<'a>(matches: &'a BTreeMap<String, Vec<String>>, id: &str) -> CommandResult<(&'a str, &'a str)> {
    let all: Vec<(&str, &str)> =
        matches.iter().flat_map(|(c, ids)| ids.iter().map(move |i| (c.as_str(), i.as_str()))).collect();
    let exact: Vec<_> = all.iter().filter(|(_, found)| *found == id).collect();
    match (&all[..], &exact[..]) {
        ([], _) => Err(CommandError::new(format!("No matches found for id {id:?}"))),
        ([only], _) => Ok(*only),
        (_, [only]) => Ok(**only),
        (many, _) => {
            let rows: Vec<_> = many.iter().map(|(c, i)| vec![c.to_string(), i.to_string()]).collect();
            let table = layout::table(&["Kind", "ID"], &rows);
            Err(CommandError::new(format!("Multiple matches found for id {id:?}\n\n{}", table.trim_end())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_match_or_one_exact_match_is_picked() {
        let matches = |all: &[(&str, &[&str])]| -> BTreeMap<String, Vec<String>> {
            all.iter()
                .map(|(c, ids)| (c.to_string(), ids.iter().map(ToString::to_string).collect()))
                .collect()
        };
        let one = matches(&[("jobs", &["web"]), ("nodes", &[])]);
        assert_eq!(pick(&one, "w").ok(), Some(("jobs", "web")));
        let exact = matches(&[("jobs", &["web", "web2"])]);
        assert_eq!(pick(&exact, "web").ok(), Some(("jobs", "web")));
        assert!(pick(&exact, "we").is_err());
        assert!(pick(&matches(&[]), "x").is_err());
    }
}
