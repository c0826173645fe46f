//! One run of one networked command: its client, its output, its time zone; and the resolution of id prefixes.

use crate::answer::ResponseBody;
use crate::error::{CommandError, CommandResult};
use crate::http::{HttpClient, encode};
use crate::node::shapes::NodeStub;
use crate::output::Printer;
use crate::render::layout;
use crate::render::lists::NodeColumns;
use crate::render::lists::alloc_table;
use crate::render::lists::{eval_table, node_table};
use crate::settings::CliSettings;
use crate::shapes::{Alloc, Eval, JobStub};
use jiff::tz::TimeZone;
use std::cell::OnceCell;

pub struct Session {
    pub client: HttpClient,
    pub out: Printer,
    /// Looked up when the first time is shown: that reads files, and an agent or a keeper shows none.
    zone: OnceCell<TimeZone>,
}

impl Session {
    pub fn new(settings: &CliSettings) -> Session {
        Session { client: HttpClient::new(settings), out: Printer::new(settings), zone: OnceCell::new() }
    }

    /// Nanoseconds since 1970.
    pub fn now(&self) -> i64 {
        i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
    }

    pub fn time(&self, unix_nanos: i64) -> String {
        layout::time(unix_nanos, self.zone())
    }

    pub fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(TimeZone::system)
    }

    /// The job with this id, or the only one whose id begins so.
    pub fn job(&self, prefix: &str) -> CommandResult<JobStub> {
        self.job_among(prefix, &[])
    }

    /// The same among those that the query leaves.
    pub fn job_among(&self, prefix: &str, query: &[(&str, &str)]) -> CommandResult<JobStub> {
        let query = [&[("prefix", prefix)], query].concat();
        let jobs: Vec<JobStub> = self.client.get("/v1/jobs", &query)?;
        let exact: Vec<&JobStub> = jobs.iter().filter(|j| j.id == prefix).collect();
        if let [only] = exact[..] {
            return Ok(only.clone());
        }
        match &jobs[..] {
            [] => Err(CommandError::new(format!("No job(s) with prefix or ID {prefix:?} found"))),
            [only] => Ok(only.clone()),
            many => Err(ambiguous(prefix, "jobs", &job_table(many, self))),
        }
    }

    /// The allocation with this id, or the only one whose id begins so.
    pub fn alloc_id(&self, prefix: &str) -> CommandResult<String> {
        let table = |many: &[Alloc]| alloc_table(many, self.now(), false);
        self.only(prefix, "/v1/allocations", "allocation", |a: &Alloc| &a.id, table)
    }

    /// The allocation that is meant: itself, or one of a job.
    pub fn alloc_or_of_job(&self, prefix: &str, is_job: bool) -> CommandResult<String> {
        if is_job { self.alloc_of_job(prefix) } else { self.alloc_id(prefix) }
    }

    /// A running one if there is one, or else the newest.
    fn alloc_of_job(&self, prefix: &str) -> CommandResult<String> {
        let job = self.job(prefix)?;
        let mut allocs: Vec<Alloc> =
            self.client.get(&format!("{}/allocations", path("job", &job.id)), &[])?;
        allocs.sort_by_key(|a| (a.client_status != "running", std::cmp::Reverse(a.create_index)));
        let first = allocs
            .first()
            .ok_or_else(|| CommandError::new(format!("Job {:?} has no allocations", job.id)))?;
        Ok(first.id.clone())
    }

    /// The node with this id, or the only one whose id begins so.
    pub fn node_id(&self, prefix: &str) -> CommandResult<String> {
        let table = |many: &[NodeStub]| node_table(many, None, NodeColumns::default());
        self.only(prefix, "/v1/nodes", "node", |n: &NodeStub| &n.id, table)
    }

    /// The evaluation with this id, or the only one whose id begins so.
    pub fn eval_id(&self, prefix: &str) -> CommandResult<String> {
        let table = |many: &[Eval]| eval_table(many, false);
        self.only(prefix, "/v1/evaluations", "evaluation", |e: &Eval| &e.id, table)
    }

    /// Several are shown in a table.
    pub fn only<T: ResponseBody>(
        &self,
        prefix: &str,
        list: &str,
        noun: &str,
        id_of: impl Fn(&T) -> &String,
        table: impl Fn(&[T]) -> String,
    ) -> CommandResult<String> {
        if is_full_id(prefix) {
            return Ok(prefix.to_string());
        }
        check_id_prefix(prefix)?;
        let found: Vec<T> = self.client.get(list, &[("prefix", prefix)])?;
        match &found[..] {
            [] => Err(CommandError::new(format!("No {noun}(s) with prefix or id {prefix:?} found"))),
            [only] => Ok(id_of(only).clone()),
            many => Err(ambiguous(prefix, &format!("{noun}s"), &table(many))),
        }
    }
}

/// The query that asks for what belongs to this job where the job is.
pub fn namespace_query(job: &JobStub) -> Vec<(&'static str, &str)> {
    let namespace = job.job_summary.namespace.as_str();
    [("namespace", namespace)].into_iter().filter(|(_, n)| !n.is_empty()).collect()
}

/// The one argument of a command. `what`: how its help names it.
pub fn argument<'a>(given: &'a Option<String>, what: &str) -> CommandResult<&'a str> {
    let missing = || CommandError::usage(format!("This command takes one argument: <{what}>"));
    given.as_deref().ok_or_else(missing)
}

/// The key and the value of a `-meta`.
pub fn meta_pair(given: &str) -> CommandResult<(&str, &str)> {
    let pair = given.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.ok_or_else(|| CommandError::usage(format!("-meta wants key=value, not {given:?}")))
}

/// Refuses the first flag that was given. `flags`: whether it was, and its name.
pub fn refuse_unsupported(flags: &[(bool, &str)]) -> CommandResult<()> {
    match flags.iter().find(|(given, _)| *given) {
        Some((_, flag)) => Err(CommandError::new(format!("not supported yet: {flag}"))),
        None => Ok(()),
    }
}

/// `/v1/<kind>/<id>` with the id encoded.
pub fn path(kind: &str, id: &str) -> String {
    format!("/v1/{kind}/{}", encode(id))
}

/// The list of jobs that `job status` shows (cli.md 3.1), with namespaces when several may be in it.
pub fn job_table(jobs: &[JobStub], session: &Session) -> String {
    let with_namespace = session.client.namespace() == "*";
    let mut header = vec!["ID", "Type", "Priority", "Status", "Submit Date"];
    if with_namespace {
        header.insert(1, "Namespace");
    }
    let row = |job: &JobStub| {
        let mut row = vec![
            job.id.clone(),
            job_type(&job.kind, job.periodic, job.parameterized_job),
            job.priority.to_string(),
            job_state(&job.status, job.stop),
            session.time(job.submit_time),
        ];
        if with_namespace {
            row.insert(1, job.job_summary.namespace.clone());
        }
        row
    };
    layout::table(&header, &jobs.iter().map(row).collect::<Vec<_>>())
}

pub fn job_type(kind: &str, periodic: bool, parameterized: bool) -> String {
    let suffix = match (periodic, parameterized) {
        (true, true) => "/periodic/parameterized",
        (true, false) => "/periodic",
        (false, true) => "/parameterized",
        (false, false) => "",
    };
    format!("{kind}{suffix}")
}

pub fn job_state(status: &str, stop: bool) -> String {
    if stop { format!("{status} (stopped)") } else { status.to_string() }
}

fn is_full_id(id: &str) -> bool {
    id.parse::<model::id::Uuid>().is_ok()
}

/// Lists look at the digits alone, and take any number of them: of fewer than two, too much begins so.
fn check_id_prefix(prefix: &str) -> CommandResult<()> {
    let valid = |c: char| c.is_ascii_hexdigit() || c == '-';
    if !prefix.chars().all(valid) || prefix.len() > 36 {
        return Err(CommandError::new(format!(
            "{prefix:?} is no id and no beginning of one: hex digits and dashes only"
        )));
    }
    if prefix.bytes().filter(u8::is_ascii_hexdigit).count() < 2 {
        return Err(CommandError::new("Identifier must contain at least two characters."));
    }
    Ok(())
}

pub fn ambiguous(prefix: &str, what: &str, table: &str) -> CommandError {
    CommandError::new(format!("Prefix {prefix:?} matched multiple {what}\n\n{}", table.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_ids_have_two_digits_or_more() {
        for (prefix, refused) in [
            ("ab", None),
            ("abc", None),
            ("ABCDE", None),
            ("01234567-", None),
            ("01234567-8", None),
            ("a", Some("at least two")),
            ("a-", Some("at least two")),
            ("", Some("at least two")),
            ("xyz", Some("no id and no beginning of one")),
            ("x", Some("no id and no beginning of one")),
        ] {
            let told = check_id_prefix(prefix).err().map(|e| e.to_string());
            assert_eq!(told.is_some(), refused.is_some(), "{prefix}: {told:?}");
            assert!(told.unwrap_or_default().contains(refused.unwrap_or_default()), "{prefix}");
        }
    }

    #[test]
    fn types_and_states_carry_their_suffix() {
        assert_eq!(job_type("batch", true, false), "batch/periodic");
        assert_eq!(job_type("batch", false, true), "batch/parameterized");
        assert_eq!(job_state("dead", true), "dead (stopped)");
    }
}
