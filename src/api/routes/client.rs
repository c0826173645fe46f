//! Requests to a node about one of its allocations: parsed, checked against the state, then handed to the node, or relayed to the agent
//! of another one.
//!
//! Refuses to know: how a node answers. Whether a task runs is the node's to say: only malformed requests are refused here.

use crate::presentation::{Form, Presentation};
use crate::response::Response;
use crate::{Call, RelayTarget, RouteOutcome, json};
use model::alloc::Allocation;
use model::id::{AllocId, NodeId};
use serde_json::Value;
use wire::client_rpc::{ClientRequest, LogStream, ReadOffset, RestartScope};
use wire::http::Method;

/// Ways to look at an allocation's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesRequest {
    List,
    Stat,
    Cat,
    ReadAt,
    Stream,
}

pub fn logs(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let alloc = alloc_id(id)?;
    let q = &call.query;
    let task = q.text("task").filter(|t| !t.is_empty()).ok_or_else(|| bad("must provide task name"))?;
    let stream = match q.text("type") {
        Some("stdout") => LogStream::Stdout,
        Some("stderr") => LogStream::Stderr,
        _ => return Err(bad("must provide log type (stdout/stderr)")),
    };
    let (from, follow) = (position(call)?, q.flag("follow", false)?);
    let form = if q.flag("plain", false)? { Form::Text } else { Form::Frames };
    if call.ctx.reader.is_some() {
        started(&known(call, alloc)?, task)?;
    }
    let ask = ClientRequest::Logs { alloc, task: task.to_string(), stream, from, follow };
    ask_node_of(call, alloc, ask, form)
}

pub fn files(call: &Call<'_>, how: FilesRequest, id: &str) -> Result<RouteOutcome, Response> {
    let alloc = alloc_id(id)?;
    let q = &call.query;
    let path = match (q.text("path").filter(|p| !p.is_empty()), how) {
        (Some(path), _) => path.to_string(),
        (None, FilesRequest::List) => "/".to_string(),
        (None, _) => return Err(bad("must provide a file name")),
    };
    let whole = ReadOffset::FromStart(0);
    let (ask, form) = match how {
        FilesRequest::List => (ClientRequest::List { alloc, path }, Form::Json),
        FilesRequest::Stat => (ClientRequest::Stat { alloc, path }, Form::Json),
        FilesRequest::Cat => {
            (ClientRequest::File { alloc, path, from: whole, limit: None, follow: false }, Form::Text)
        }
        FilesRequest::ReadAt => {
            // to the end, unless it is above zero
            let limit = q.integer("limit")?.and_then(|l| u64::try_from(l).ok()).filter(|l| *l > 0);
            (ClientRequest::File { alloc, path, from: position(call)?, limit, follow: false }, Form::Text)
        }
        FilesRequest::Stream => {
            let (from, follow) = (position(call)?, q.flag("follow", true)?);
            (ClientRequest::File { alloc, path, from, limit: None, follow }, Form::Frames)
        }
    };
    ask_node_of(call, alloc, ask, form)
}

/// `{TaskName, AllTasks}`; an empty body is every running task.
pub fn restart(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let alloc = alloc_id(id)?;
    let body = match call.request.body.as_slice() {
        [] => serde_json::Map::new(),
        body => json::object(body)?,
    };
    let task = json::text(&body, "TaskName")?.filter(|t| !t.is_empty());
    let scope = match (task, json::flag(&body, "AllTasks")?) {
        (Some(_), true) => return Err(bad("task name cannot be set when restarting all tasks")),
        (Some(task), false) => RestartScope::Task(task.to_string()),
        (None, true) => RestartScope::All,
        (None, false) => RestartScope::Running,
    };
    ask_node_of(call, alloc, ClientRequest::Restart { alloc, scope }, Form::Json)
}

/// `{Task, Signal}`; without a task every one that runs.
pub fn signal(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let alloc = alloc_id(id)?;
    let body = json::object(call.body()?)?;
    let task = json::text(&body, "Task")?.filter(|t| !t.is_empty()).map(str::to_string);
    let signal = json::text(&body, "Signal")?.unwrap_or_default().to_string();
    ask_node_of(call, alloc, ClientRequest::Signal { alloc, task, signal }, Form::Json)
}

/// `command` is a JSON list of texts.
pub fn exec(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let alloc = alloc_id(id)?;
    let q = &call.query;
    let task = q.text("task").filter(|t| !t.is_empty()).ok_or_else(|| bad("task name is required"))?;
    let command = q.text("command").unwrap_or_default();
    let parsed: Result<Vec<String>, _> = serde_json::from_str(command);
    let command = match parsed {
        _ if command.is_empty() => return Err(bad("command is not present")),
        Ok(words) if words.first().is_none_or(String::is_empty) => {
            return Err(bad("command is not present"));
        }
        Ok(words) => words,
        Err(why) => return Err(bad(format!("command must be a JSON list of texts: {why}"))),
    };
    let tty = q.flag("tty", false)?;
    let node = node_of(call, alloc)?;
    needs_websocket(call)?;
    let ask = ClientRequest::Exec { alloc, task: task.to_string(), command, tty };
    Ok(ask_node(call, node, ask, Form::Session))
}

/// A session in both directions.
pub fn needs_websocket(call: &Call<'_>) -> Result<(), Response> {
    if call.request.websocket {
        return Ok(());
    }
    Err(bad("a session needs a websocket (RFC 6455), and from a browser a page of this agent's own"))
}

pub fn alloc_stats(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let alloc = alloc_id(id)?;
    let task = call.query.text("task").filter(|t| !t.is_empty()).map(str::to_string);
    ask_node_of(call, alloc, ClientRequest::AllocResourceUsage { alloc, task }, Form::Json)
}

/// There are no checks, so no allocation has any.
pub fn checks(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    Ok(match node_of(call, alloc_id(id)?)? {
        Some(node) => call.relayed_to(RelayTarget::Node(node)),
        None => RouteOutcome::Respond(Response::json(&(), call.query.pretty)),
    })
}

/// `id`: `None` is every allocation that has ended.
pub fn collect(call: &Call<'_>, id: Option<&str>) -> Result<RouteOutcome, Response> {
    let alloc = id.map(alloc_id).transpose()?;
    let node = match alloc {
        Some(alloc) => node_of(call, alloc)?,
        None => node_meant(call)?,
    };
    Ok(ask_node(call, node, ClientRequest::GarbageCollect { alloc }, Form::Nothing))
}

pub fn host_stats(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    Ok(ask_node(call, node_meant(call)?, ClientRequest::HostStats, Form::Json))
}

pub fn metadata(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    Ok(ask_node(call, node_meant(call)?, ClientRequest::Metadata, Form::Json))
}

/// `{NodeID, Meta}`; a key whose value is null is unset.
pub fn set_metadata(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let body = json::object(call.body()?)?;
    let node = node_meant(call)?;
    let Some(Value::Object(given)) =
        json::member(&body, "Meta").filter(|m| m.as_object().is_some_and(|m| !m.is_empty()))
    else {
        return Err(bad("member Meta must be an object with at least one key"));
    };
    let change = |(key, value): (&String, &Value)| match value {
        Value::Null => Ok((key.clone(), None)),
        Value::String(text) => Ok((key.clone(), Some(text.clone()))),
        _ => Err(bad(format!("the value of Meta key {key:?} must be a string, or null to unset it"))),
    };
    let changes = given.iter().map(change).collect::<Result<_, _>>()?;
    Ok(ask_node(call, node, ClientRequest::SetMetadata { changes }, Form::Json))
}

/// The node that is named, in the body or in the query.
fn named_node(call: &Call<'_>) -> Result<Option<String>, Response> {
    let in_body = match (call.request.method, call.request.body.as_slice()) {
        (Method::Get | Method::Head, _) | (_, []) => None,
        (_, body) => json::text(&json::object(body)?, "NodeID")?.map(str::to_string),
    };
    let named = in_body.or_else(|| call.query.text("node_id").map(str::to_string));
    Ok(named.filter(|id| !id.is_empty()))
}

/// The request names this agent's node, or none.
pub fn is_this_node(call: &Call<'_>) -> bool {
    let own = call.ctx.client.map(|client| client.node_id);
    named_node(call).is_ok_and(|id| id.is_none_or(|id| id.parse().is_ok_and(|id| own == Some(id))))
}

/// The request names this agent, or none.
pub fn is_this_agent(call: &Call<'_>) -> bool {
    let named = |name: &str| call.query.text(name).filter(|id| !id.is_empty());
    let own_node = |id: &str| call.ctx.client.is_some_and(|c| c.node_id.to_string() == id);
    named("server_id").is_none() && named("node_id").is_none_or(own_node)
}

/// This agent's node has the allocation, as it knows itself.
pub fn holds_alloc(call: &Call<'_>, id: &str) -> bool {
    let held = call.ctx.client.map_or(&[][..], |client| &client.allocs);
    id.parse().is_ok_and(|id| held.binary_search(&id).is_ok())
}

/// The node that is meant. `None`: this agent's own, because the request names it, or none.
fn node_meant(call: &Call<'_>) -> Result<Option<NodeId>, Response> {
    let own = call.ctx.client.map(|client| client.node_id);
    match named_node(call)? {
        Some(id) => other_node(call, &id),
        None => own.map(|_| None).ok_or_else(|| bad("No local Node and node_id not provided")),
    }
}

/// `None`: the text names this agent's own node.
pub fn other_node(call: &Call<'_>, id: &str) -> Result<Option<NodeId>, Response> {
    let unknown = || Response::text(404, format!("Unknown node \"{id}\""));
    let node: NodeId = id.parse().map_err(|_| unknown())?;
    if call.ctx.client.is_some_and(|client| client.node_id == node) {
        return Ok(None);
    }
    call.view()?.node(node)?.ok_or_else(unknown)?;
    Ok(Some(node))
}

/// `node`: another machine's; `None` is this agent's own.
fn ask_node(call: &Call<'_>, node: Option<NodeId>, ask: ClientRequest, form: Form) -> RouteOutcome {
    match node {
        Some(node) => call.relayed_to(RelayTarget::Node(node)),
        None => ask_client(call, ask, form),
    }
}

fn ask_node_of(
    call: &Call<'_>,
    alloc: AllocId,
    ask: ClientRequest,
    form: Form,
) -> Result<RouteOutcome, Response> {
    Ok(ask_node(call, node_of(call, alloc)?, ask, form))
}

/// This agent's own node.
pub fn ask_client(call: &Call<'_>, ask: ClientRequest, form: Form) -> RouteOutcome {
    RouteOutcome::AskClient(ask, Presentation { form, pretty: call.query.pretty })
}

pub fn alloc_id(id: &str) -> Result<AllocId, Response> {
    id.parse().map_err(|_| bad("must provide a valid alloc id"))
}

/// `origin` and `offset`.
fn position(call: &Call<'_>) -> Result<ReadOffset, Response> {
    let offset = call.query.integer("offset")?.unwrap_or(0);
    let offset = u64::try_from(offset).map_err(|_| bad("offset must not be negative"))?;
    match call.query.text("origin") {
        None | Some("" | "start") => Ok(ReadOffset::FromStart(offset)),
        Some("end") => Ok(ReadOffset::FromEnd(offset)),
        Some(_) => Err(bad("origin must be start or end")),
    }
}

/// The node that has the allocation. `None`: this agent's own, which is asked only for what it has where no state says it.
fn node_of(call: &Call<'_>, id: AllocId) -> Result<Option<NodeId>, Response> {
    match call.ctx.reader {
        Some(_) => Ok(elsewhere(call, &known(call, id)?)),
        None => Ok(None),
    }
}

pub fn known(call: &Call<'_>, id: AllocId) -> Result<Allocation, Response> {
    call.view()?.alloc(id)?.ok_or_else(|| Response::text(404, format!("Unknown allocation \"{id}\"")))
}

/// The allocation's node, if it is not this agent's own.
pub fn elsewhere(call: &Call<'_>, alloc: &Allocation) -> Option<NodeId> {
    let is_own = call.ctx.client.is_some_and(|client| client.node_id == alloc.node_id);
    (!is_own).then_some(alloc.node_id)
}

fn started(alloc: &Allocation, task: &str) -> Result<(), Response> {
    if !alloc.resources.tasks.contains_key(task) {
        return Err(bad(format!("unknown task name \"{task}\"")));
    }
    if alloc.task_states.get(task).is_none_or(|state| state.started_at.is_never()) {
        return Err(Response::text(404, format!("task \"{task}\" not started yet. No logs available")));
    }
    Ok(())
}

pub fn bad(sentence: impl Into<String>) -> Response {
    Response::text(400, sentence)
}
