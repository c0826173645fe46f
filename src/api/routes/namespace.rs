//! Namespaces: the list, one, and writes.
//!
//! Refuses to know: which jobs lie in a namespace.

use crate::response::Response;
use crate::shape::namespace::NamespaceShape;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking, json};
use model::namespace::{Capabilities, NamespaceSpec};
use serde_json::{Map, Value};
use state::view::Table;
use std::collections::BTreeMap;
use wire::request::{WriteReply, WriteRequest};

pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let index = view.table_index(Table::Namespaces);
    blocking::answer(call, index, vec![WatchKey::Namespaces], view.index(), || {
        let found = view.namespaces(&call.query.prefix)?;
        let shapes = call.query.chosen(found.iter().map(NamespaceShape::new))?;
        Ok(Response::json(&shapes, call.query.pretty))
    })
}

pub fn one(call: &Call<'_>, name: &str) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let found = view.namespace(name)?;
    let index = found.as_ref().map_or_else(|| view.table_index(Table::Namespaces), |n| n.modify_index);
    blocking::answer(call, index, vec![WatchKey::Namespaces], view.index(), || match &found {
        Some(namespace) => Ok(Response::json(&NamespaceShape::new(namespace), call.query.pretty)),
        None => Err(Response::text(404, "Namespace not found")),
    })
}

/// `name`: from the path, when the request names a namespace there.
pub fn write(call: &Call<'_>, name: Option<&str>) -> Result<RouteOutcome, Response> {
    let namespace = decode(&json::object(call.body()?)?)?;
    if name.is_some_and(|name| name != namespace.name) {
        return Err(Response::text(400, "Namespace name does not match request path"));
    }
    let problems = namespace.problems();
    if !problems.is_empty() {
        let shown: String = namespace.name.chars().take(MAX_SHOWN_CHARS).collect();
        return Err(Response::text(500, format!("Invalid namespace {shown:?}: {problems}")));
    }
    Ok(act(call, WriteRequest::UpsertNamespace { namespace: Box::new(namespace) }))
}

/// How much of a refused name the refusal repeats.
const MAX_SHOWN_CHARS: usize = 128;

pub fn delete(call: &Call<'_>, name: &str) -> Result<RouteOutcome, Response> {
    Ok(act(call, WriteRequest::DeleteNamespace { name: name.to_string() }))
}

fn act(call: &Call<'_>, action: WriteRequest) -> RouteOutcome {
    RouteOutcome::Write(action, WriteResponder { kind: WriteKind::Written, pretty: call.query.pretty })
}

pub fn written(done: &WriteReply) -> Response {
    Response::text(200, "").with("X-Nomad-Index", done.index().max(1))
}

/// Members of Nomad Enterprise, and those that drover has not built.
const REFUSED: [&str; 4] = ["Quota", "NodePoolConfiguration", "VaultConfiguration", "ConsulConfiguration"];
const REFUSED_CAPABILITIES: [&str; 2] = ["EnabledNetworkModes", "DisabledNetworkModes"];

fn decode(body: &Map<String, Value>) -> Result<NamespaceSpec, Response> {
    refuse(body, &REFUSED)?;
    let text = |name| json::text(body, name).map(|t| t.unwrap_or_default().to_string());
    Ok(NamespaceSpec {
        name: text("Name")?,
        description: text("Description")?,
        meta: meta(body)?,
        capabilities: capabilities(body)?,
    })
}

/// Empty members are ignored.
fn refuse(object: &Map<String, Value>, names: &[&str]) -> Result<(), Response> {
    let asks = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.values().all(Value::is_null),
        _ => true,
    };
    match names.iter().find(|name| json::member(object, name).is_some_and(asks)) {
        Some(name) => Err(Response::not_supported(&format!("{name} of a namespace"))),
        None => Ok(()),
    }
}

pub fn meta(body: &Map<String, Value>) -> Result<BTreeMap<String, String>, Response> {
    let wrong = || Response::text(400, "member Meta must be an object of strings");
    let Some(given) = json::member(body, "Meta") else { return Ok(BTreeMap::new()) };
    let pair = |(key, value): (&String, &Value)| {
        value.as_str().map(|text| (key.clone(), text.to_string())).ok_or_else(wrong)
    };
    given.as_object().ok_or_else(wrong)?.iter().map(pair).collect::<Result<_, _>>()
}

fn capabilities(body: &Map<String, Value>) -> Result<Option<Capabilities>, Response> {
    let given = match json::member(body, "Capabilities") {
        None => return Ok(None),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(Response::text(400, "member Capabilities must be an object")),
    };
    refuse(given, &REFUSED_CAPABILITIES)?;
    let drivers = |name| -> Result<Vec<String>, Response> {
        Ok(json::texts(given, name)?.into_iter().map(str::to_string).collect())
    };
    Ok(Some(Capabilities {
        enabled_task_drivers: drivers("EnabledTaskDrivers")?,
        disabled_task_drivers: drivers("DisabledTaskDrivers")?,
    }))
}
