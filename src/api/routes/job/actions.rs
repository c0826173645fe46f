//! Actions that a job's author lets operators run beside tasks: listed, and begun as a session (http-api.md 1.1.24, 1.1.25).
//!
//! Refuses to know: what is run. Which task is meant is found here; the command is the node's to say, from the version that
//! it runs.

use crate::presentation::Form;
use crate::response::Response;
use crate::routes::client::{alloc_id, ask_client, bad, elsewhere, known, needs_websocket};
use crate::routes::job;
use crate::shape::action::ActionShape;
use crate::watch::WatchKey;
use crate::{Call, RelayTarget, RouteOutcome, blocking};
use model::alloc::Allocation;
use model::id::JobKey;
use model::job::{Task, TaskGroup, no_action};
use state::view::Table;
use wire::client_rpc::ClientRequest;
use wire::http::Request;

pub fn list(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let view = call.view()?;
    let job = view.job(&key)?;
    let index = job.as_ref().map_or_else(|| view.table_index(Table::Jobs), |j| j.modify_index);
    blocking::answer(call, index, vec![WatchKey::Job(key)], view.index(), || match &job {
        Some(job) => Ok(Response::json(&ActionShape::of_job(&job.spec), call.query.pretty)),
        None => Err(job::not_found()),
    })
}

pub fn run(call: &Call<'_>, job: &str) -> Result<RouteOutcome, Response> {
    let q = &call.query;
    let action = given(call, "action").ok_or_else(|| bad("action name is required"))?;
    let id = alloc_id(q.text("allocID").unwrap_or_default())?;
    let tty = q.flag("tty", false)?;
    let ask = |task: &str| ClientRequest::Action {
        alloc: id,
        task: task.to_string(),
        action: action.to_string(),
        tty,
    };
    if call.ctx.reader.is_none() {
        // a server that relays the request names the task
        let task =
            given(call, "task").ok_or_else(|| bad("task name is required at an agent without a server"))?;
        needs_websocket(call)?;
        return Ok(ask_client(call, ask(task), Form::Session));
    }
    let alloc = known(call, id)?;
    belongs(call, job, &alloc)?;
    let spec = call.view()?.job_spec(&alloc.job, alloc.job_create_index, alloc.job_version)?;
    let group = spec.as_ref().and_then(|spec| spec.group(&alloc.group));
    let group = group.ok_or_else(|| bad(format!("allocation \"{id}\" is of a version that is gone")))?;
    let task = &task_meant(group, given(call, "task"), action)?.name;
    needs_websocket(call)?;
    Ok(match elsewhere(call, &alloc) {
        Some(node) => RouteOutcome::Relay(RelayTarget::Node(node), Box::new(with_task(call, task))),
        None => ask_client(call, ask(task), Form::Session),
    })
}

/// The request with the task that is meant, for a node that has no state.
fn with_task(call: &Call<'_>, task: &str) -> Request {
    let mut request = call.request.clone();
    if given(call, "task").is_none() {
        let escaped: String = task.bytes().map(|byte| format!("%{byte:02X}")).collect();
        request.query.push_str(&format!("&task={escaped}"));
    }
    request
}

fn given<'a>(call: &'a Call<'_>, name: &str) -> Option<&'a str> {
    call.query.text(name).filter(|text| !text.is_empty())
}

/// Refuses an allocation that is not one of the job, or of the group if one is named.
fn belongs(call: &Call<'_>, job: &str, alloc: &Allocation) -> Result<(), Response> {
    if alloc.job.id != job || call.namespaces().is_some_and(|namespace| alloc.job.namespace != namespace) {
        let (id, JobKey { namespace, id: own }) = (alloc.id, &alloc.job);
        return Err(bad(format!(
            "allocation \"{id}\" is not one of job {job:?}: it belongs to {own:?} in namespace {namespace:?}"
        )));
    }
    match given(call, "group") {
        Some(group) if group != alloc.group => {
            let (id, own) = (alloc.id, &alloc.group);
            Err(bad(format!("allocation \"{id}\" is of group {own:?}, not of {group:?}")))
        }
        _ => Ok(()),
    }
}

/// The named task, or the only one that has the action.
fn task_meant<'a>(group: &'a TaskGroup, task: Option<&str>, action: &str) -> Result<&'a Task, Response> {
    let tasks: Vec<&Task> = match task {
        Some(name) => {
            vec![group.task(name).ok_or_else(|| bad(format!("unknown task name \"{name}\"")))?]
        }
        None => group.tasks.iter().collect(),
    };
    let having: Vec<&Task> = tasks.iter().copied().filter(|t| t.action(action).is_some()).collect();
    match having[..] {
        [task] => Ok(task),
        [] => Err(Response::text(404, no_action(action, &tasks))),
        _ => {
            let names = having.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ");
            Err(bad(format!("several tasks have action {action:?}, name one: {names}")))
        }
    }
}
