//! `drover status [id]`: finds what has this id and shows it.

use crate::Run;
use crate::alloc;
use crate::alloc::status::AllocStatus;
use crate::error::{CommandError, CommandResult};
use crate::eval;
use crate::eval::status::EvalStatus;
use crate::job;
use crate::job::scaling::ScalingPolicyInfo;
use crate::job::status::JobStatus;
use crate::node;
use crate::node::status::NodeStatus;
use crate::render::layout;
use crate::session::Session;
use crate::shapes::SearchAnswer;
use argh::{ArgsInfo, FromArgs};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// show the job, allocation, evaluation or node with this id; without an id: all jobs
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover status 1a2b3c4d")]
pub struct Status {
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    id: Option<String>,
}

impl Run for Status {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let Some(id) = self.id else {
            return JobStatus::list(self.verbose).run(session);
        };
        let body = serde_json::json!({"Prefix": id, "Context": "all"});
        let answer: SearchAnswer = session.client.put("/v1/search", &[], &body)?;
        match pick(&answer.matches, &id)? {
            ("jobs", found) => job::status::show(session, &JobStatus::one(found, self.verbose)),
            ("allocs", found) => alloc::status::show(session, &AllocStatus::one(found, self.verbose)),
            ("nodes", found) => node::status::show(session, &NodeStatus::one(found, self.verbose)),
            ("evals", found) => eval::status::show(session, &EvalStatus::one(found, self.verbose)),
            ("scaling_policy", found) => ScalingPolicyInfo::one(found, self.verbose).run(session),
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
