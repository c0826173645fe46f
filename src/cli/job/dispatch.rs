//! `drover job dispatch`: runs a parameterized job once more, with a payload and metadata (cli.md 2.1.1, 2.1.8).

use crate::CliCommand;
use crate::error::{CommandError, CommandResult};
use crate::eval::monitor;
use crate::eval::watch::changed;
use crate::http::decode;
use crate::numbers;
use crate::render::layout;
use crate::session::{Session, meta_pair, namespace_query, path, refuse_unsupported};
use crate::shapes::{Alloc, DispatchAnswer, Job};
use agent::config::files::os_error;
use argh::{ArgsInfo, FromArgs};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::dispatch::MAX_PAYLOAD_BYTES;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::process::ExitCode;

/// run a parameterized job once more, with a payload from a file or from standard input
#[derive(FromArgs, ArgsInfo)]
#[argh(
    example = "drover job dispatch -meta quality=high -idempotency-token 2026-11-23 video input.json",
    note = "Whoever repeats an idempotency token gets the job that was dispatched with it first."
)]
pub struct JobDispatchCommand {
    /// metadata for the job's tasks; repeatable
    #[argh(option, arg_name = "key=value")]
    meta: Vec<String>,
    /// dispatch at most once with this token
    #[argh(option, default = "String::new()")]
    idempotency_token: String,
    /// prefix of what the new job's id adds to this one's
    #[argh(option, default = "String::new()")]
    id_prefix_template: String,
    /// priority of the new job, instead of this one's
    #[argh(option, from_str_fn(numbers::integer))]
    priority: Option<i64>,
    /// do not wait for the evaluation
    #[argh(switch)]
    detach: bool,
    /// show ids in full
    #[argh(switch)]
    verbose: bool,
    /// open the web interface (not supported yet)
    #[argh(switch)]
    ui: bool,
    /// wait until the new job has ended; the exit code is 0 if it was successful
    #[argh(switch)]
    wait: bool,
    /// an id or the beginning of one, then the file with the payload; - is standard input
    #[argh(positional)]
    target: Vec<String>,
}

impl CliCommand for JobDispatchCommand {
    fn run(self, session: &mut Session) -> CommandResult<ExitCode> {
        refuse_unsupported(&[(self.ui, "-ui")])?;
        if self.wait && self.detach {
            return Err(CommandError::usage("-wait and -detach exclude each other"));
        }
        let (job, input) = match &self.target[..] {
            [job] => (job, None),
            [job, input] => (job, Some(input)),
            _ => {
                return Err(CommandError::usage(
                    "This command takes one or two arguments: <job> [input source]",
                ));
            }
        };
        let payload = input.map_or(Ok(Vec::new()), |input| read(input))?;
        let known = [("filter", "ParentID == \"\" and ParameterizedJob is not nil")];
        let stub = session.job_among(job, &known)?;
        let token = [("idempotency_token", self.idempotency_token.as_str())];
        let token = token.iter().filter(|(_, token)| !token.is_empty());
        let query: Vec<_> = namespace_query(&stub).into_iter().chain(token.copied()).collect();
        let target = format!("{}/dispatch", path("job", &stub.id));
        let answer: DispatchAnswer = session.client.put(&target, &query, &self.body(&stub.id, &payload)?)?;
        let mut rows = vec![("Dispatched Job ID", answer.dispatched_job_id.clone())];
        if !answer.eval_id.is_empty() {
            rows.push(("Evaluation ID", layout::id(&answer.eval_id, self.verbose)));
        }
        session.out.text(&layout::key_values(&rows))?;
        let mut code = 0;
        if !self.detach && !answer.eval_id.is_empty() {
            session.out.line("")?;
            code = monitor::follow(session, &answer.eval_id, self.verbose)?;
        }
        match self.wait {
            true => await_end(session, &answer.dispatched_job_id, &namespace_query(&stub)),
            false => Ok(code.into()),
        }
    }
}

/// Waits without a deadline: a blocked evaluation may still be placed.
fn await_end(session: &Session, id: &str, home: &[(&str, &str)]) -> CommandResult<ExitCode> {
    let (target, mut after) = (path("job", id), 0);
    let job: Job = loop {
        let (value, index) = changed(session, &target, home, after)?;
        let job: Job = decode(&value)?;
        if job.status == "dead" {
            break job;
        }
        after = index;
    };
    let mut allocs: Vec<Alloc> = session.client.get(&format!("{target}/allocations"), home)?;
    // the last allocation of each name counts: an earlier one may have failed and been replaced
    allocs.sort_by(|a, b| (&a.name, a.create_index).cmp(&(&b.name, b.create_index)));
    let is_last = |i: usize| allocs.get(i + 1).is_none_or(|next| next.name != allocs[i].name);
    let ends: Vec<&str> =
        (0..allocs.len()).filter(|i| is_last(*i)).map(|i| allocs[i].client_status.as_str()).collect();
    let mut told = Vec::new();
    for end in ["complete", "failed", "lost", "unknown"] {
        let count = ends.iter().filter(|e| **e == end).count();
        if count > 0 {
            told.push(format!("{count} {end}"));
        }
    }
    let stopped = if job.stop { ", as it was stopped" } else { "" };
    session.out.line(&format!("Job {id:?} has ended{stopped}: {}", told.join(", ")))?;
    let done = !job.stop && !ends.is_empty() && ends.iter().all(|end| *end == "complete");
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl JobDispatchCommand {
    fn body(&self, job: &str, payload: &[u8]) -> CommandResult<Value> {
        let mut meta = Map::new();
        for pair in &self.meta {
            let (key, value) = meta_pair(pair)?;
            meta.insert(key.to_string(), value.into());
        }
        Ok(json!({
            "JobID": job,
            "Payload": STANDARD.encode(payload),
            "Meta": meta,
            "IdPrefixTemplate": self.id_prefix_template,
            "Priority": self.priority.unwrap_or(0),
        }))
    }
}

/// A whole file, of bytes of any kind. What is too long is the servers' to refuse, but is not read to its end.
fn read(source: &str) -> CommandResult<Vec<u8>> {
    let fail =
        |e: std::io::Error| CommandError::new(format!("Error reading input data {source}: {}", os_error(&e)));
    let input: Box<dyn Read> = match source {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(std::fs::File::open(path).map_err(fail)?),
    };
    let (mut bytes, most) = (Vec::new(), MAX_PAYLOAD_BYTES as u64);
    input.take(most + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() > MAX_PAYLOAD_BYTES {
        return Err(CommandError::new(format!("{source} is too long for a payload: more than {most} bytes")));
    }
    Ok(bytes)
}
