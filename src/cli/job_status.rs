//! `drover job status`: the list, and one job (reference: cli 3.1 and 3.2).

use crate::cli::Run;
use crate::cli::alloc_status::alloc_table;
use crate::cli::eval_list::failures;
use crate::cli::http::decode;
use crate::cli::layout;
use crate::cli::monitor::placement_failures;
use crate::cli::output::Outcome;
use crate::cli::session::{Session, at_home, job_state, job_table, path};
use crate::cli::shapes::{Alloc, Eval, Job, JobStub, JobSummary};
use argh::{ArgsInfo, FromArgs};
use serde_json::Value;
use std::process::ExitCode;

/// list all jobs, or show one: its groups, evaluations and allocations
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job status -evals cache")]
pub struct JobStatus {
    /// show only what the job is
    #[argh(switch)]
    short: bool,
    /// list the evaluations
    #[argh(switch)]
    evals: bool,
    /// allocations of an earlier job with the same id, too
    #[argh(switch)]
    all_allocs: bool,
    /// show ids in full, and more columns
    #[argh(switch)]
    verbose: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

impl JobStatus {
    pub fn list(verbose: bool) -> JobStatus {
        JobStatus { short: false, evals: false, all_allocs: false, verbose, json: false, job: None }
    }

    pub fn one(id: &str, verbose: bool) -> JobStatus {
        JobStatus { job: Some(id.to_string()), ..JobStatus::list(verbose) }
    }
}

impl Run for JobStatus {
    fn run(self, session: &mut Session) -> Outcome<ExitCode> {
        show(session, &self)
    }
}

pub fn show(session: &Session, command: &JobStatus) -> Outcome<ExitCode> {
    match &command.job {
        None => list(session, command)?,
        Some(prefix) => one(session, command, prefix)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(session: &Session, command: &JobStatus) -> Outcome<()> {
    let value = session.client.get_value("/v1/jobs", &[])?;
    let jobs: Vec<JobStub> = decode(&value)?;
    if command.json {
        let all: Outcome<Vec<Value>> = jobs.iter().map(|job| report(session, command, job)).collect();
        return session.out.json(&Value::Array(all?));
    }
    if jobs.is_empty() {
        return session.out.line("No running jobs");
    }
    session.out.text(&job_table(&jobs, session))
}

/// One job as `-json` gives it.
fn report(session: &Session, command: &JobStatus, job: &JobStub) -> Outcome<Value> {
    let parts = fetch(session, command, &job.id, &job.job_summary.namespace)?;
    Ok(serde_json::json!({
        "Allocations": parts.allocs,
        "Evaluations": parts.evals,
        "LatestDeployment": parts.deployment,
        "Summary": parts.summary,
    }))
}

/// What belongs to one job, as it came.
struct Parts {
    allocs: Value,
    evals: Value,
    deployment: Value,
    summary: Value,
}

fn fetch(session: &Session, command: &JobStatus, id: &str, namespace: &str) -> Outcome<Parts> {
    let namespace = if namespace.is_empty() { session.client.namespace() } else { namespace };
    let base = path("job", id);
    let get = |part: &str, query: &[(&str, &str)]| {
        let query: Vec<_> = query.iter().copied().chain([("namespace", namespace)]).collect();
        session.client.get_value(&format!("{base}/{part}"), &query)
    };
    let all = if command.all_allocs { "true" } else { "false" };
    Ok(Parts {
        allocs: get("allocations", &[("all", all)])?,
        evals: get("evaluations", &[])?,
        deployment: get("deployment", &[])?,
        summary: get("summary", &[])?,
    })
}

fn one(session: &Session, command: &JobStatus, prefix: &str) -> Outcome<()> {
    let stub = session.job(prefix)?;
    if command.json {
        return session.out.json(&Value::Array(vec![report(session, command, &stub)?]));
    }
    let namespace = &stub.job_summary.namespace;
    let job: Job = session.client.get(&path("job", &stub.id), &at_home(&stub))?;
    session.out.text(&basics(&job, &session.time(job.submit_time)))?;
    if command.short {
        return Ok(());
    }
    let parts = fetch(session, command, &job.id, namespace)?;
    let summary: JobSummary = decode(&parts.summary)?;
    session.out.section("Summary")?;
    session.out.text(&summary_table(&summary))?;
    let evals: Vec<Eval> = decode(&parts.evals)?;
    if command.evals || command.verbose {
        session.out.section("Evaluations")?;
        session.out.text(&eval_table(&evals, command.verbose))?;
    }
    if let Some(blocked) = evals.iter().filter(|e| e.status == "blocked").max_by_key(|e| e.create_index) {
        placement_failure(session, blocked)?;
    }
    let allocs: Vec<Alloc> = decode(&parts.allocs)?;
    session.out.section("Allocations")?;
    if allocs.is_empty() {
        return session.out.line("No allocations placed");
    }
    session.out.text(&alloc_table(&allocs, session.now(), command.verbose))
}

fn basics(job: &Job, submitted: &str) -> String {
    layout::key_values(&[
        ("ID", job.id.clone()),
        ("Name", job.name.clone()),
        ("Submit Date", submitted.to_string()),
        ("Type", job.kind.clone()),
        ("Priority", job.priority.to_string()),
        ("Datacenters", job.datacenters.join(",")),
        ("Namespace", job.namespace.clone()),
        ("Node Pool", job.node_pool.clone()),
        ("Status", job_state(&job.status, job.stop)),
        ("Periodic", job.periodic.is_some().to_string()),
        ("Parameterized", job.parameterized_job.is_some().to_string()),
    ])
}

fn summary_table(summary: &JobSummary) -> String {
    let header = ["Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"];
    let row = |(group, s): (&String, &crate::cli::shapes::GroupSummary)| {
        let counts = [s.queued, s.starting, s.running, s.failed, s.complete, s.lost, s.unknown];
        std::iter::once(group.clone()).chain(counts.iter().map(ToString::to_string)).collect()
    };
    layout::table(&header, &summary.summary.iter().map(row).collect::<Vec<Vec<String>>>())
}

fn eval_table(evals: &[Eval], verbose: bool) -> String {
    let row = |e: &Eval| {
        vec![
            layout::id(&e.id, verbose),
            e.priority.to_string(),
            e.triggered_by.clone(),
            e.status.clone(),
            failures(e).to_string(),
        ]
    };
    let mut sorted: Vec<&Eval> = evals.iter().collect();
    sorted.sort_by_key(|e| std::cmp::Reverse(e.create_index));
    let header = ["ID", "Priority", "Triggered By", "Status", "Placement Failures"];
    layout::table(&header, &sorted.into_iter().map(row).collect::<Vec<_>>())
}

fn placement_failure(session: &Session, blocked: &Eval) -> Outcome<()> {
    if blocked.failed_tg_allocs.is_empty() {
        return Ok(());
    }
    session.out.section("Placement Failure")?;
    for (group, metric) in &blocked.failed_tg_allocs {
        session.out.line(&format!("Task Group {group:?}:"))?;
        for reason in placement_failures(metric) {
            session.out.line(&format!("  * {reason}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::shapes::GroupSummary;

    #[test]
    fn a_job_is_laid_out_as_its_reference() {
        let job = Job {
            id: "cache".to_string(),
            name: "cache".to_string(),
            kind: "service".to_string(),
            priority: 50,
            datacenters: vec!["*".to_string()],
            namespace: "default".to_string(),
            node_pool: "default".to_string(),
            status: "running".to_string(),
            ..Job::default()
        };
        let expected = "\
ID            = cache
Name          = cache
Submit Date   = 2024-05-01T10:20:30+02:00
Type          = service
Priority      = 50
Datacenters   = *
Namespace     = default
Node Pool     = default
Status        = running
Periodic      = false
Parameterized = false
";
        assert_eq!(basics(&job, "2024-05-01T10:20:30+02:00"), expected);
    }

    #[test]
    fn groups_are_counted_by_state() {
        let group = GroupSummary { running: 2, ..GroupSummary::default() };
        let summary = JobSummary { summary: [("g".to_string(), group)].into(), ..JobSummary::default() };
        let expected = "\
Task Group  Queued  Starting  Running  Failed  Complete  Lost  Unknown
g           0       0         2        0       0         0     0
";
        assert_eq!(summary_table(&summary), expected);
    }
}
