//! Scaling: groups get other counts, and autoscalers read the limits of a count (http-api.md 1.1.21, 1.1.22, 7.4;
//! server.md 13).
//!
//! Refuses to know: whether a count is within its limits: the servers decide on the state they have by then.

use crate::page::{full_id, id_prefix};
use crate::response::Response;
use crate::shape::scaling::{EventShape, GroupScaleShape, PolicyShape, PolicyStub, ScaleStatusShape};
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking, json};
use jobspec::free_form;
use model::alloc::{Allocation, ClientStatus};
use model::id::{JobKey, ScalingPolicyId};
use model::job::Job;
use model::scaling::ScalingPolicy;
use serde_json::{Map, Value};
use state::view::{Table, View};
use std::collections::BTreeMap;
use wire::request::{ScaleRequest, WriteRequest};

/// Message and meta of an event may be so long together: the newest of them are kept.
const MAX_EVENT_BYTES: usize = 16 << 10;

pub fn scale(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    if id.is_empty() {
        return Err(bad("missing job ID for scaling action"));
    }
    let body = json::object(call.body()?)?;
    let said = json::text(&body, "Namespace")?.filter(|n| !n.is_empty());
    let namespace = call.query.namespace.as_deref().or(said).unwrap_or("default").to_string();
    let group = group_of(&body, &namespace, id)?;
    let (count, error) = (count_of(&body)?, json::flag(&body, "Error")?);
    if count.is_some() && error {
        return Err(bad("scaling action should not contain count if error is true"));
    }
    let meta = json::member(&body, "Meta");
    let message = json::text(&body, "Message")?.unwrap_or_default().to_string();
    if meta.is_some_and(|meta| !meta.is_object()) {
        return Err(bad("member Meta must be an object"));
    }
    if message.len() + meta.map_or(0, |meta| meta.to_string().len()) > MAX_EVENT_BYTES {
        return Err(bad(format!(
            "Message and Meta must not have more than {MAX_EVENT_BYTES} bytes together"
        )));
    }
    let request = ScaleRequest {
        job: JobKey::new(namespace, id),
        group,
        count,
        message,
        error,
        meta: free_form(meta),
        enforce_index: json::number(&body, "JobModifyIndex")?.filter(|index| *index > 0),
    };
    let kind = WriteKind::Registered { warnings: String::new() };
    Ok(RouteOutcome::Write(
        WriteRequest::ScaleJob(Box::new(request)),
        WriteResponder { kind, pretty: call.query.pretty },
    ))
}

/// What else the body names is what the request is for.
fn group_of(body: &Map<String, Value>, namespace: &str, job: &str) -> Result<String, Response> {
    let none = Map::new();
    let target = match json::member(body, "Target") {
        None => &none,
        Some(Value::Object(target)) => target,
        Some(_) => return Err(bad("member Target must be an object")),
    };
    let named = |name| Ok::<_, Response>(json::text(target, name)?.filter(|text| !text.is_empty()));
    if named("Job")?.is_some_and(|named| named != job) {
        return Err(bad("job ID in payload did not match URL"));
    }
    if named("Namespace")?.is_some_and(|named| named != namespace) {
        return Err(bad("namespace in payload did not match header"));
    }
    named("Group")?.map(str::to_string).ok_or_else(|| bad("missing task group name for scaling action"))
}

fn count_of(body: &Map<String, Value>) -> Result<Option<i64>, Response> {
    let Some(count) = json::member(body, "Count") else { return Ok(None) };
    let count = count.as_i64().ok_or_else(|| bad("member Count must be a whole number"))?;
    if count < 0 {
        return Err(bad("scaling action count can't be negative"));
    }
    Ok(Some(count))
}

fn bad(sentence: impl Into<String>) -> Response {
    Response::text(400, sentence)
}

/// How many of each group there are, and what was said of its scaling.
pub fn status(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let view = call.view()?;
    let Some(job) = view.job(&key)? else {
        let index = view.table_index(Table::Jobs);
        let gone = || Err(Response::text(404, "job not found"));
        return blocking::answer(call, index, vec![WatchKey::Job(key)], view.index(), gone);
    };
    let allocs = view.allocs_of_job(&key)?;
    let mut groups = BTreeMap::new();
    let mut index = job.modify_index.max(allocs.iter().map(|a| a.modify_index).max().unwrap_or(0));
    for group in &job.spec.groups {
        let events = view.scaling_events(&key, &group.name)?.0;
        index = index.max(events.first().map_or(0, |newest| newest.create_index));
        let events: Vec<_> = events.into_iter().map(EventShape::new).collect();
        let shape = GroupScaleShape {
            desired: group.count,
            events: (!events.is_empty()).then_some(events),
            ..GroupScaleShape::default()
        };
        groups.insert(group.name.as_str(), shape);
    }
    for alloc in allocs.iter().filter(|a| !a.terminal()) {
        if let Some(group) = groups.get_mut(alloc.group.as_str()) {
            count(group, alloc);
        }
    }
    let keys = vec![WatchKey::Job(key.clone()), WatchKey::JobAllocs(key.clone())];
    blocking::answer(call, index, keys, view.index(), || Ok(answer(call, &job, groups)))
}

/// Canaries come on top of what is desired.
fn count(group: &mut GroupScaleShape, alloc: &Allocation) {
    if alloc.health.is_some_and(|h| h.canary) {
        return;
    }
    group.placed += 1;
    group.running += u64::from(alloc.client == ClientStatus::Running);
    match alloc.health.and_then(|h| h.healthy) {
        Some(true) => group.healthy += 1,
        Some(false) => group.unhealthy += 1,
        None => {}
    }
}

fn answer(call: &Call<'_>, job: &Job, task_groups: BTreeMap<&str, GroupScaleShape>) -> Response {
    let shape = ScaleStatusShape {
        job_id: &job.spec.id,
        namespace: &job.spec.namespace,
        job_create_index: job.create_index,
        job_modify_index: job.modify_index,
        job_stopped: job.spec.stop,
        task_groups,
    };
    Response::json(&shape, call.query.pretty)
}

/// Ordered by id.
pub fn policies(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let index = view.table_index(Table::ScalingPolicies);
    // a policy changes with its job only
    blocking::answer(call, index, vec![WatchKey::Jobs], view.index(), || {
        let policies = chosen(call, &view)?;
        let stubs: Vec<_> = policies.iter().map(PolicyStub::new).collect();
        Ok(Response::json(&stubs, call.query.pretty))
    })
}

fn chosen(call: &Call<'_>, view: &View) -> Result<Vec<ScalingPolicy>, Response> {
    let q = &call.query;
    let kind = q.text("type").unwrap_or_default();
    let job = q.text("job").filter(|job| !job.is_empty());
    let mut found = Vec::new();
    for id in view.scaling_policy_ids(&id_prefix("policy", &q.prefix)?, usize::MAX)? {
        let asked = |p: &ScalingPolicy| {
            p.kind.as_str().starts_with(kind)
                && call.namespaces().is_none_or(|n| p.job.namespace == n)
                && job.is_none_or(|job| p.job.id == job)
        };
        found.extend(view.scaling_policy(id)?.filter(asked));
    }
    Ok(found)
}

pub fn policy(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    if id.is_empty() {
        return Err(Response::text(404, "policy not found"));
    }
    let id: ScalingPolicyId = full_id("policy", id)?;
    let view = call.view()?;
    let policy = view.scaling_policy(id)?;
    let index = policy
        .as_ref()
        .map_or_else(|| view.table_index(Table::ScalingPolicies), |policy| policy.modify_index);
    blocking::answer(call, index, vec![WatchKey::Jobs], view.index(), || match &policy {
        Some(policy) => Ok(Response::json(&PolicyShape::new(policy), call.query.pretty)),
        None => Err(Response::text(404, "policy not found")),
    })
}
