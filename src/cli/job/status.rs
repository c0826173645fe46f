//! `drover job status`: the list, and one job (cli.md 3.1, 3.2).

use crate::CliCommand;
use crate::deployment;
use crate::deployment::shapes::Deployment;
use crate::eval::watch::changed;
use crate::render::lists::alloc_table;
use crate::render::lists::failures;

use crate::error::{CommandError, CommandResult};
use crate::eval::monitor::{is_settled, placement_failures};
use crate::http::decode;
use crate::job::periodic;
use crate::output::{Objects, objects};
use crate::render::layout;
use crate::render::screen::{Screen, ScreenText, Size};
use crate::session::{Session, job_state, job_table, namespace_query, path};
use crate::shapes::{Alloc, Eval, Job, JobStub, JobSummary};
use argh::{ArgsInfo, FromArgs};
use serde_json::Value;
use std::process::ExitCode;

/// list all jobs, or show one: its groups, evaluations and allocations
#[derive(FromArgs, ArgsInfo)]
#[argh(example = "drover job status -evals cache")]
pub struct JobStatusCommand {
    /// show only what the job is
    #[argh(switch)]
    short: bool,
    /// list the evaluations
    #[argh(switch)]
    evals: bool,
    /// include allocations of an earlier job with the same id
    #[argh(switch)]
    all_allocs: bool,
    /// show ids in full, and more columns
    #[argh(switch)]
    verbose: bool,
    /// on a terminal: keep what is shown up to date, until the job is dead
    #[argh(switch)]
    monitor: bool,
    /// print the API's objects as JSON
    #[argh(switch)]
    json: bool,
    /// print the API's objects through this template in Go's syntax
    #[argh(option, long = "t", arg_name = "template")]
    template: Option<String>,
    /// an id or the beginning of one
    #[argh(positional)]
    job: Option<String>,
}

impl JobStatusCommand {
    pub fn list(verbose: bool) -> JobStatusCommand {
        JobStatusCommand {
            short: false,
            evals: false,
            all_allocs: false,
            monitor: false,
            verbose,
            json: false,
            template: None,
            job: None,
        }
    }

    pub fn one(id: &str, verbose: bool) -> JobStatusCommand {
        JobStatusCommand { job: Some(id.to_string()), ..JobStatusCommand::list(verbose) }
    }
}

impl CliCommand for JobStatusCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        let objects = objects(self.json, self.template.as_deref())?;
        if self.monitor {
            if objects.is_some() || self.job.is_none() {
                return Err(CommandError::usage("-monitor is for one job, and excludes -json and -t"));
            }
            if !session.out.is_terminal() {
                return Err(CommandError::usage(
                    "-monitor needs a terminal: a program can read /v1/event/stream",
                ));
            }
        }
        match &self.job {
            None => list(session, &self, objects)?,
            Some(prefix) => one(session, &self, objects, prefix)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list(session: &Session, command: &JobStatusCommand, objects: Option<Objects<'_>>) -> CommandResult<()> {
    let value = session.client.get_value("/v1/jobs", &[])?;
    let jobs: Vec<JobStub> = decode(&value)?;
    if let Some(objects) = objects {
        let all: CommandResult<Vec<Value>> = jobs.iter().map(|job| report(session, command, job)).collect();
        return session.out.objects(objects, &Value::Array(all?));
    }
    if jobs.is_empty() {
        return session.out.line("No running jobs");
    }
    session.out.text(&job_table(&jobs, session))
}

/// One job as `-json` gives it.
fn report(session: &Session, command: &JobStatusCommand, job: &JobStub) -> CommandResult<Value> {
    let parts = fetch(session, command, &job.id, &job.job_summary.namespace)?;
    Ok(serde_json::json!({
        "Allocations": parts.allocs,
        "Evaluations": parts.evals,
        "LatestDeployment": parts.deployment,
        "Summary": parts.summary,
    }))
}

/// All that is shown of one job.
struct Parts {
    allocs: Value,
    evals: Value,
    deployment: Value,
    summary: Value,
}

fn fetch(session: &Session, command: &JobStatusCommand, id: &str, namespace: &str) -> CommandResult<Parts> {
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

fn one(
    session: &Session,
    command: &JobStatusCommand,
    objects: Option<Objects<'_>>,
    prefix: &str,
) -> CommandResult<()> {
    let stub = session.job(prefix)?;
    if let Some(objects) = objects {
        return session.out.objects(objects, &Value::Array(vec![report(session, command, &stub)?]));
    }
    if command.monitor {
        return watch(session, command, &stub);
    }
    let job: Job = session.client.get(&path("job", &stub.id), &namespace_query(&stub))?;
    let mut page = ScreenText::default();
    let next = job.periodic.as_ref().filter(|_| !is_parameterized(&job)).map(|periodic| match job.stop {
        true => "none (job stopped)".to_string(),
        false => periodic::next_launch(session, periodic).unwrap_or_else(|| "none".to_string()),
    });
    page.text(&basics(&job, &session.time(job.submit_time), next));
    if !command.short {
        periodic::rules(&job, &mut page);
        sections(session, command, &stub, &mut page)?;
    }
    page.print(&session.out)
}

/// Redraws what changes, until the job is dead and its tasks have ended, or the user interrupts.
fn watch(session: &Session, command: &JobStatusCommand, stub: &JobStub) -> CommandResult<()> {
    let target = format!("{}/allocations", path("job", &stub.id));
    let (mut screen, mut index) = (Screen::default(), 0);
    loop {
        let job: Job = session.client.get(&path("job", &stub.id), &namespace_query(stub))?;
        let mut page = ScreenText::default();
        page.title(format!("Job {:?} ({}) is {}", job.id, job.kind, job_state(&job.status, job.stop)));
        let allocs = if command.short { Vec::new() } else { sections(session, command, stub, &mut page)? };
        screen.draw(&session.out, &page, Size::now())?;
        if job.status == "dead" && allocs.iter().all(is_settled) {
            return Ok(());
        }
        index = changed(session, &target, &namespace_query(stub), index)?.1;
    }
}

/// The sections after the job's own. Returns its allocations.
fn sections(
    session: &Session,
    command: &JobStatusCommand,
    stub: &JobStub,
    page: &mut ScreenText,
) -> CommandResult<Vec<Alloc>> {
    let parts = fetch(session, command, &stub.id, &stub.job_summary.namespace)?;
    let summary: JobSummary = decode(&parts.summary)?;
    if stub.periodic || stub.parameterized_job {
        periodic::children(session, stub, &summary, page)?;
        return Ok(Vec::new());
    }
    page.section("Summary");
    page.text(&summary_table(&summary));
    let evals: Vec<Eval> = decode(&parts.evals)?;
    if command.evals || command.verbose {
        page.section("Evaluations");
        page.text(&eval_table(&evals, command.verbose));
    }
    if let Some(blocked) = evals.iter().filter(|e| e.status == "blocked").max_by_key(|e| e.create_index) {
        placement_failure(page, blocked);
    }
    let allocs: Vec<Alloc> = decode(&parts.allocs)?;
    let attempts = future_attempts(&evals, &allocs, session.now(), command.verbose);
    if !attempts.is_empty() {
        page.section("Future Rescheduling Attempts");
        page.text(&layout::table(&["Task Group", "Eval ID", "Eval Time"], &attempts));
    }
    if let Some(deployment) = decode::<Option<Deployment>>(&parts.deployment)? {
        deployment::progress::latest(page, &deployment, session.zone(), command.verbose);
    }
    page.section("Allocations");
    if allocs.is_empty() {
        page.line("No allocations placed");
    } else {
        page.text(&alloc_table(&allocs, session.now(), command.verbose));
    }
    Ok(allocs)
}

fn basics(job: &Job, submitted: &str, next_launch: Option<String>) -> String {
    let mut rows = vec![
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
        ("Parameterized", is_parameterized(job).to_string()),
    ];
    if !job.dispatch_idempotency_token.is_empty() {
        rows.push(("Idempotency Token", job.dispatch_idempotency_token.clone()));
    }
    rows.extend(next_launch.map(|next| ("Next Periodic Launch", next)));
    layout::key_values(&rows)
}

/// A dispatched job also shows its parent.
fn is_parameterized(job: &Job) -> bool {
    job.parameterized_job.is_some() && !job.dispatched
}

fn summary_table(summary: &JobSummary) -> String {
    let header = ["Task Group", "Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown"];
    let row = |(group, s): (&String, &crate::shapes::GroupSummary)| {
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

/// For each group the evaluation that places its failed allocations again, and when.
fn future_attempts(evals: &[Eval], allocs: &[Alloc], now: i64, verbose: bool) -> Vec<Vec<String>> {
    let waits = |e: &&Eval| e.status == "pending" && !e.wait_until.is_empty();
    let mut due: Vec<_> =
        evals.iter().filter(waits).map(|e| (layout::unix_nanos(&e.wait_until), e)).collect();
    due.sort_by_key(|(at, e)| (*at, &e.id));
    let mut rows = Vec::new();
    for (at, eval) in due {
        let waiting = allocs.iter().filter(|a| a.followup_eval_id == eval.id);
        let mut groups: Vec<&str> = waiting.map(|a| a.task_group.as_str()).collect();
        groups.sort();
        groups.dedup();
        let row = |g: &&str| vec![g.to_string(), layout::id(&eval.id, verbose), layout::relative(at, now)];
        rows.extend(groups.iter().map(row));
    }
    rows
}

fn placement_failure(page: &mut ScreenText, blocked: &Eval) {
    if blocked.failed_tg_allocs.is_empty() {
        return;
    }
    page.section("Placement Failure");
    for (group, metric) in &blocked.failed_tg_allocs {
        page.line(format!("Task Group {group:?}:"));
        for reason in placement_failures(metric) {
            page.line(format!("  * {reason}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::GroupSummary;

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
        assert_eq!(basics(&job, "2024-05-01T10:20:30+02:00", None), expected);
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

    #[test]
    fn future_reschedules_are_listed_by_time_and_group() {
        let eval = |id: &str, status: &str, wait_until: &str| Eval {
            id: id.to_string(),
            status: status.to_string(),
            wait_until: wait_until.to_string(),
            ..Eval::default()
        };
        let evals = [
            eval("e2", "pending", "1970-01-01T00:01:10Z"),
            eval("e1", "pending", "1970-01-01T00:01:05Z"),
            eval("e3", "complete", "1970-01-01T00:00:05Z"),
            eval("e4", "pending", ""),
        ];
        let waits = |group: &str, eval: &str| Alloc {
            task_group: group.to_string(),
            followup_eval_id: eval.to_string(),
            ..Alloc::default()
        };
        let allocs =
            [waits("h", "e1"), waits("g", "e1"), waits("g", "e1"), waits("g", "e2"), waits("g", "e3")];
        let rows = future_attempts(&evals, &allocs, 60_000_000_000, false);
        let rows: Vec<String> = rows.iter().map(|r| r.join(" ")).collect();
        assert_eq!(rows, ["g e1 5s from now", "h e1 5s from now", "g e2 10s from now"]);
    }
}
