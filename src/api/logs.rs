//! Requests for a task's output: checked against the state, then described for whoever has the files.

use super::Call;
use super::response::Response;
use crate::model::alloc::Allocation;
use crate::model::id::AllocId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    Stdout,
    Stderr,
}

impl LogStream {
    pub fn as_str(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        }
    }
}

/// Where an offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Start,
    End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    pub alloc: AllocId,
    pub task: String,
    pub stream: LogStream,
    /// Go on at the end of what there is, until the allocation has ended.
    pub follow: bool,
    /// Bytes as they are instead of frames.
    pub plain: bool,
    pub origin: Origin,
    /// Bytes from the origin, over all files of the stream; never negative.
    pub offset: u64,
}

pub fn request(call: &Call<'_>, id: &str) -> Result<LogRequest, Response> {
    let bad = |sentence: String| Response::text(400, sentence);
    if id.is_empty() {
        return Err(bad("must provide a valid alloc id".into()));
    }
    let alloc: AllocId = id.parse().map_err(|_| bad("must provide a valid alloc id".into()))?;
    let q = &call.query;
    let task = q.text("task").unwrap_or_default().to_string();
    if task.is_empty() {
        return Err(bad("must provide task name".into()));
    }
    let stream = match q.text("type") {
        Some("stdout") => LogStream::Stdout,
        Some("stderr") => LogStream::Stderr,
        _ => return Err(bad("must provide log type (stdout/stderr)".into())),
    };
    let origin = match q.text("origin") {
        None | Some("" | "start") => Origin::Start,
        Some("end") => Origin::End,
        Some(_) => return Err(bad("origin must be start or end".into())),
    };
    let offset = q.integer("offset")?.unwrap_or(0);
    let offset = u64::try_from(offset).map_err(|_| bad("offset must not be negative".into()))?;
    let request = LogRequest {
        alloc,
        task,
        stream,
        follow: q.flag("follow", false)?,
        plain: q.flag("plain", false)?,
        origin,
        offset,
    };
    check(call, &request)?;
    Ok(request)
}

/// The allocation is one of this node's, has that task, and the task has begun.
fn check(call: &Call<'_>, request: &LogRequest) -> Result<(), Response> {
    let unknown = || Response::text(404, format!("Unknown allocation \"{}\"", request.alloc));
    let alloc = call.view()?.alloc(request.alloc)?.ok_or_else(unknown)?;
    if call.ctx.client.is_none_or(|client| client.node_id != alloc.node_id) {
        return Err(Response::text(404, "No path to node"));
    }
    started(&alloc, &request.task)
}

fn started(alloc: &Allocation, task: &str) -> Result<(), Response> {
    if !alloc.resources.tasks.contains_key(task) {
        return Err(Response::text(400, format!("unknown task name \"{task}\"")));
    }
    if alloc.task_states.get(task).is_none_or(|state| state.started_at.is_never()) {
        return Err(Response::text(404, format!("task \"{task}\" not started yet. No logs available")));
    }
    Ok(())
}
