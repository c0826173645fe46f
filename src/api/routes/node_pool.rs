//! Node pools: the list, one with its nodes and jobs, and writes.
//!
//! Refuses to know: how a pool is placed on.

use crate::page::{self, Page};
use crate::query::object;
use crate::response::Response;
use crate::routes::namespace;
use crate::routes::scheduler_config;
use crate::shape::pool::NodePoolShape;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking, filter::OmitEmpty, json};
use model::pool::{NodePool, NodePoolSpec, is_built_in};
use model::scheduling::PoolScheduling;
use serde_json::{Map, Value};
use state::view::{Table, View};
use wire::request::WriteRequest;

pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let index = view.table_index(Table::NodePools);
    blocking::answer(call, index, vec![WatchKey::NodePools], view.index(), || {
        let page = page_of(call, &view)?;
        let shapes: Vec<_> = page.items.iter().map(NodePoolShape::new).collect();
        Ok(page.mark(Response::json(&shapes, call.query.pretty)))
    })
}

fn page_of(call: &Call<'_>, view: &View) -> Result<Page<NodePool>, Response> {
    let q = &call.query;
    let from = Some(q.next_token.clone()).filter(|token| !token.is_empty());
    let name = |pool: &NodePool| pool.spec.name.clone();
    let matches = |pool: &NodePool| q.matches(&OmitEmpty::NOTHING, |_| object(&NodePoolShape::new(pool)));
    let rows = view.node_pools(&q.prefix)?.into_iter().map(Ok);
    page::paginate(rows, q, from.as_ref(), name, name, matches)
}

pub fn one(call: &Call<'_>, name: &str) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let found = view.node_pool(name)?;
    let index = found.as_ref().map_or_else(|| view.table_index(Table::NodePools), |p| p.modify_index);
    blocking::answer(call, index, vec![WatchKey::NodePools], view.index(), || match &found {
        Some(pool) => Ok(Response::json(&NodePoolShape::new(pool), call.query.pretty)),
        None => Err(Response::text(404, "node pool not found")),
    })
}

/// The pool that a list of nodes or jobs is of. It has to be there, and the list takes no prefix.
pub fn known<'a>(call: &Call<'_>, view: &View, name: &'a str) -> Result<&'a str, Response> {
    if !call.query.prefix.is_empty() {
        return Err(Response::text(400, "prefix argument not allowed"));
    }
    match view.node_pool(name)? {
        Some(_) => Ok(name),
        None => Err(Response::text(404, "node pool not found")),
    }
}

/// `name`: from the path, when the request names a pool there.
pub fn write(call: &Call<'_>, name: Option<&str>) -> Result<RouteOutcome, Response> {
    let pool = decode(&json::object(call.body()?)?)?;
    if name.is_some_and(|name| name != pool.name) {
        return Err(Response::text(400, "Node pool name does not match request path"));
    }
    let problems = pool.problems();
    let shown: String = pool.name.chars().take(MAX_SHOWN_CHARS).collect();
    if !problems.is_empty() {
        return Err(Response::text(400, format!("invalid node pool {shown:?}: {problems}")));
    }
    if is_built_in(&pool.name) {
        return Err(Response::text(400, format!("modifying node pool {shown:?} is not allowed")));
    }
    Ok(act(call, WriteRequest::UpsertNodePool { pool: Box::new(pool) }))
}

/// How much of a refused name the refusal repeats.
const MAX_SHOWN_CHARS: usize = 128;

pub fn delete(call: &Call<'_>, name: &str) -> Result<RouteOutcome, Response> {
    Ok(act(call, WriteRequest::DeleteNodePool { name: name.to_string() }))
}

fn act(call: &Call<'_>, action: WriteRequest) -> RouteOutcome {
    RouteOutcome::Write(action, WriteResponder { kind: WriteKind::Written, pretty: call.query.pretty })
}

fn decode(body: &Map<String, Value>) -> Result<NodePoolSpec, Response> {
    let text = |name| json::text(body, name).map(|t| t.unwrap_or_default().to_string());
    let scheduling = match json::member(body, "SchedulerConfiguration") {
        None => None,
        Some(Value::Object(given)) => Some(PoolScheduling {
            algorithm: scheduler_config::algorithm(given)?,
            memory_oversubscription: json::choice(given, "MemoryOversubscriptionEnabled")?,
        }),
        Some(_) => return Err(Response::text(400, "member SchedulerConfiguration must be an object")),
    };
    let (name, description) = (text("Name")?, text("Description")?);
    Ok(NodePoolSpec { name, description, meta: namespace::meta(body)?, scheduling })
}
