//! Nodes: the list, one, and requests that change one.
//!
//! Refuses to know: how a node is drained. A request becomes a `NodeUpdateRequest`; the servers decide.

use crate::filter::OmitEmpty;
use crate::page::{self, Page};
use crate::query::object;
use crate::response::Response;
use crate::routes::namespace;
use crate::routes::node_pool;
use crate::shape::node::{NodeEvaluateShape, NodeShape, NodeStub, NodeUpdateShape};
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking, json};
use jobspec::duration::parse as parse_duration;
use model::id::{EvalId, NodeId};
use model::node::Node;
use model::pool::ALL_POOLS;
use model::time::Span;
use serde_json::{Map, Value};
use state::view::{Table, View};
use std::sync::Arc;
use wire::command::NodeUpdateRequest;
use wire::request::{WriteReply, WriteRequest};

/// `pool`: `None` for every node.
pub fn list(call: &Call<'_>, pool: Option<&str>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let pool = pool.map_or(Ok(ALL_POOLS), |pool| node_pool::known(call, &view, pool))?;
    let q = &call.query;
    let fields = |name| {
        q.flag(name, false).map_err(|r| {
            let why = String::from_utf8_lossy(&r.body).into_owned();
            Response::text(400, format!("Failed to parse node list fields: {why}"))
        })
    };
    let (resources, os) = (fields("resources")?, fields("os")?);
    let index = view.table_index(Table::Nodes);
    blocking::answer(call, index, vec![WatchKey::Nodes], view.index(), || {
        let page = page_of(call, &view, pool)?;
        let stubs: Vec<_> = page.items.iter().map(|n| NodeStub::new(n, resources, os)).collect();
        Ok(page.mark(Response::json(&stubs, q.pretty)))
    })
}

fn page_of(call: &Call<'_>, view: &View, pool: &str) -> Result<Page<Arc<Node>>, Response> {
    let q = &call.query;
    let mut nodes = match q.prefix.as_str() {
        "" => view.nodes()?,
        prefix => by_prefix(view, &page::id_prefix("node", prefix)?)?,
    };
    nodes.retain(|n| pool == ALL_POOLS || n.info.pool == pool);
    let from = page::place_token::<NodeId>(&q.next_token)?.map(|(_, id)| id);
    let (key, name) = (|n: &Arc<Node>| n.info.id, |n: &Arc<Node>| n.info.id.to_string());
    let matches = |n: &Arc<Node>| q.matches(&OmitEmpty::NOTHING, |_| object(&NodeShape::new(n)));
    page::paginate(nodes.into_iter().map(Ok), q, from.as_ref(), key, name, matches)
}

fn by_prefix(view: &View, prefix: &str) -> Result<Vec<Arc<Node>>, Response> {
    let ids = view.node_ids(prefix, usize::MAX)?;
    let found = ids.into_iter().map(|id| view.node(id)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().collect())
}

pub fn one(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let id: NodeId = page::full_id("node", id)?;
    let view = call.view()?;
    let node = view.node(id)?;
    let index = node.as_ref().map_or_else(|| view.table_index(Table::Nodes), |n| n.modify_index);
    blocking::answer(call, index, vec![WatchKey::Node(id)], view.index(), || match &node {
        Some(node) => Ok(Response::json(&NodeShape::new(node), call.query.pretty)),
        None => Err(Response::text(404, "node not found")),
    })
}

pub fn evaluate(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let node: NodeId = page::full_id("node", id)?;
    let answer = WriteResponder { kind: WriteKind::NodeEvaluated, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::EvaluateNode { node }, answer))
}

pub fn purge(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let node = page::full_id("node", id)?;
    Ok(change(call, node, NodeUpdateRequest::Purge, WriteKind::NodeEvaluated))
}

pub fn eligibility(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let node = page::full_id("node", id)?;
    let body = json::object(call.body()?)?;
    let request = match json::text(&body, "Eligibility")?.unwrap_or_default() {
        "eligible" => NodeUpdateRequest::Eligible(true),
        "ineligible" => NodeUpdateRequest::Eligible(false),
        other => {
            let why = format!("invalid scheduling eligibility {other:?}: say \"eligible\" or \"ineligible\"");
            return Err(Response::text(500, why));
        }
    };
    Ok(change(call, node, request, WriteKind::NodeChanged))
}

/// Without a `DrainSpec` the drain ends.
pub fn drain(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let node = page::full_id("node", id)?;
    let body = json::object(call.body()?)?;
    let meta = namespace::meta(&body)?;
    let request = match json::member(&body, "DrainSpec") {
        None => NodeUpdateRequest::EndDrain { mark_eligible: json::flag(&body, "MarkEligible")?, meta },
        Some(Value::Object(spec)) => NodeUpdateRequest::Drain {
            deadline: duration(spec, "Deadline")?,
            ignore_system: json::flag(spec, "IgnoreSystemJobs")?,
            meta,
        },
        Some(_) => return Err(Response::text(400, "member DrainSpec must be an object or null")),
    };
    Ok(change(call, node, request, WriteKind::NodeChanged))
}

/// Nanoseconds, or a text as in job files. Absent: zero.
fn duration(object: &Map<String, Value>, name: &str) -> Result<Span, Response> {
    let given = match json::member(object, name) {
        None => Some(Span::ZERO),
        Some(Value::String(text)) => parse_duration(text).ok(),
        Some(value) => value.as_i64().map(Span::nanos),
    };
    let why = || format!("member {name} must be nanoseconds or a duration such as \"1h30m\"");
    given.ok_or_else(|| Response::text(400, why()))
}

fn change(call: &Call<'_>, node: NodeId, request: NodeUpdateRequest, kind: WriteKind) -> RouteOutcome {
    let answer = WriteResponder { kind, pretty: call.query.pretty };
    RouteOutcome::Write(WriteRequest::UpdateNode { node, request }, answer)
}

pub fn changed(done: &WriteReply, pretty: bool) -> Response {
    let (evals, node_modify_index) = evals_of(done);
    let shape = NodeUpdateShape::new(evals, node_modify_index, done.index());
    Response::json(&shape, pretty).with("X-Nomad-Index", done.index().max(1))
}

fn evals_of(done: &WriteReply) -> (&[EvalId], u64) {
    match done {
        WriteReply::Evals { evals, modify_index, .. } => (evals.as_slice(), *modify_index),
        _ => (&[][..], 0),
    }
}

pub fn evaluated(done: &WriteReply, pretty: bool) -> Response {
    let (evals, node_modify_index) = evals_of(done);
    let shape = NodeEvaluateShape::new(evals, node_modify_index, done.index());
    Response::json(&shape, pretty).with("X-Nomad-Index", done.index().max(1))
}
