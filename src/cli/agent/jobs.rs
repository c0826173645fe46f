//! `drover agent -job`: registers each job file once the agent is up, and tells how it comes to run.
//!
//! `PrintedStatuses` is pure: what was seen last and what is seen now become lines.

use crate::error::{CommandError, CommandResult};
use crate::eval::monitor;
use crate::http::{QueryPairs, RequestError};
use crate::job::file::JobFile;
use crate::node::shapes::NodeStub;
use crate::render::layout;
use crate::session::{Session, path};
use crate::settings::{CliSettings, TlsFlags};
use crate::shapes::{Alloc, RegisterAnswer};
use agent::Started;
use agent::config::HttpsConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long the node may take to come up.
const NODE_PATIENCE: Duration = Duration::from_secs(60);
/// How long a job may take to run before it is left to itself.
const JOB_PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Registers the jobs and follows them. A job that is refused ends the agent.
pub fn run(started: &Started, jobs: &[JobFile]) {
    if let Err(failure) = follow_all(started, jobs) {
        started.stop(Err(failure.to_string()));
    }
}

fn follow_all(started: &Started, jobs: &[JobFile]) -> CommandResult<()> {
    let scheme = if started.https.enabled { "https" } else { "http" };
    let address = format!("{scheme}://{}", started.http);
    let session = Session::new(&CliSettings {
        address: address.clone(),
        tls: own_certificate(&started.https),
        ..CliSettings::default()
    });
    session.out.line(&session.out.bold(&format!("==> HTTP API: {address}")))?;
    if jobs.is_empty() {
        return Ok(());
    }
    await_node(&session)?;
    for job in jobs {
        follow(&session, job)?;
    }
    let ends = "Ctrl-C stops the agent and its tasks";
    session.out.line(&session.out.bold(&format!("==> HTTP API: {address}; {ends}")))
}

/// This process itself answers, at a socket of its own: there is nobody else whom it could be taken for.
fn own_certificate(https: &HttpsConfig) -> TlsFlags {
    let shown = |file: &Option<PathBuf>| file.as_ref().map(|f| f.display().to_string()).unwrap_or_default();
    TlsFlags {
        client_cert: shown(&https.cert_file),
        client_key: shown(&https.key_file),
        skip_verify: true,
        ..TlsFlags::default()
    }
}

/// A job that comes before its node would wait for it in the queue of blocked evaluations.
fn await_node(session: &Session) -> CommandResult<()> {
    let since = Instant::now();
    loop {
        let nodes: Vec<NodeStub> = session.client.get("/v1/nodes", NONE)?;
        if nodes.iter().any(|n| n.status == "ready") {
            return Ok(());
        }
        if since.elapsed() > NODE_PATIENCE {
            return Err(CommandError::new("the node did not become ready; see the log above"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

const NONE: QueryPairs<'static> = &[];

fn follow(session: &Session, file: &JobFile) -> CommandResult<()> {
    let text = |member: &str| file.job.get(member).and_then(Value::as_str).unwrap_or("");
    let id = text("ID").to_string();
    let request = json!({"Job": file.job, "Submission": file.submission});
    let answer: RegisterAnswer = session.client.put("/v1/jobs", &[], &request).map_err(|e| match e {
        RequestError::Status { text, .. } => CommandError::new(format!("job {id:?} is refused: {text}")),
        other => other.into(),
    })?;
    if !answer.warnings.is_empty() {
        session.out.line(&format!("Job Warnings:\n{}\n", answer.warnings.trim_end()))?;
    }
    if answer.eval_id.is_empty() {
        return Ok(());
    }
    monitor::follow(session, &answer.eval_id, false)?;
    until_settled(session, &id, &answer.eval_id)
}

/// Follows the evaluation's allocations until none of them is on its way any more.
fn until_settled(session: &Session, job: &str, eval_id: &str) -> CommandResult<()> {
    let since = Instant::now();
    let mut progress = PrintedStatuses::default();
    loop {
        let at = format!("{}/allocations", path("evaluation", eval_id));
        let allocs: Vec<Alloc> = session.client.get(&at, NONE)?;
        let now = session.time(session.now());
        for line in progress.update(job, &allocs) {
            session.out.line(&format!("    {now}: {line}"))?;
        }
        if PrintedStatuses::is_settled(&allocs) {
            return Ok(());
        }
        if since.elapsed() > JOB_PATIENCE {
            return session
                .out
                .line(&format!("    {now}: {job} is still on its way: drover job status {job}"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[derive(Default)]
struct PrintedStatuses {
    /// By allocation.
    last: BTreeMap<String, String>,
}

impl PrintedStatuses {
    /// A line for each allocation whose status moved, and, once, for how the job came out.
    fn update(&mut self, job: &str, allocs: &[Alloc]) -> Vec<String> {
        let mut lines = vec![];
        for alloc in allocs {
            let printed = self.last.insert(alloc.id.clone(), alloc.client_status.clone());
            if printed.as_deref() != Some(&alloc.client_status) && alloc.client_status != "pending" {
                let (id, why) = (layout::id(&alloc.id, false), last_event(alloc));
                lines.push(format!("Allocation {id:?} of {job:?} is {}{why}", alloc.client_status));
            }
        }
        if Self::is_settled(allocs) {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for alloc in allocs {
                *counts.entry(alloc.client_status.as_str()).or_default() += 1;
            }
            let counts: Vec<String> = counts.iter().map(|(status, n)| format!("{n} {status}")).collect();
            let counts = if counts.is_empty() { "nothing placed".into() } else { counts.join(", ") };
            lines.push(format!("Job {job:?}: {counts}"));
        }
        lines
    }

    fn is_settled(allocs: &[Alloc]) -> bool {
        allocs.iter().all(|a| a.client_status != "pending")
    }
}

/// What last happened to a task of an allocation that failed, for the reader who asks why.
fn last_event(alloc: &Alloc) -> String {
    if alloc.client_status != "failed" {
        return String::new();
    }
    let failed = alloc.task_states.iter().filter(|(_, state)| state.failed);
    let failed = failed.filter_map(|(name, state)| Some((name, state.events.last()?)));
    failed.map(|(name, event)| format!("; task {name:?}: {}", event.display_message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(id: &str, status: &str) -> Alloc {
        Alloc { id: id.repeat(36), client_status: status.into(), ..Alloc::default() }
    }

    #[test]
    fn each_move_is_told_once_and_the_outcome_at_the_end() {
        let mut progress = PrintedStatuses::default();
        assert_eq!(progress.update("web", &[alloc("a", "pending"), alloc("b", "pending")]), [""; 0]);
        let lines = progress.update("web", &[alloc("a", "running"), alloc("b", "pending")]);
        assert_eq!(lines, [r#"Allocation "aaaaaaaa" of "web" is running"#]);
        let lines = progress.update("web", &[alloc("a", "running"), alloc("b", "failed")]);
        assert_eq!(
            lines,
            [r#"Allocation "bbbbbbbb" of "web" is failed"#, r#"Job "web": 1 failed, 1 running"#]
        );
        assert_eq!(progress.update("idle", &[]), [r#"Job "idle": nothing placed"#]);
    }
}
