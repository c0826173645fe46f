//! The states of jobs with their allocations in one answer: what a jobs page shows, newest change first or last.
//!
//! Refuses to know: how a status comes about.

use crate::filter::OmitEmpty;
use crate::page;
use crate::query::object;
use crate::response::Response;
use crate::routes::job::dispatch;
use crate::shape::job::JobShape;
use crate::shape::job_answers::JobStatusShape;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, blocking, json};
use model::id::JobKey;
use model::job::Job;
use serde_json::Value;
use state::view::{Table, View};
use std::sync::Arc;

pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let wanted = wanted(call)?;
    let with_children = call.query.flag("include_children", false)? || !wanted.is_empty();
    let view = call.view()?;
    let index = view.table_index(Table::Jobs).max(view.table_index(Table::Allocs));
    blocking::answer(call, index, vec![WatchKey::Jobs, WatchKey::Allocs], view.index(), || {
        let from = token(&call.query.next_token)?;
        let (key, name) = (|job: &Arc<Job>| place(job), |job: &Arc<Job>| name(job));
        let matches =
            |job: &Arc<Job>| call.query.matches(&OmitEmpty::NOTHING, |_| object(&JobShape::new(job)));
        let mut jobs = jobs(call, &view, &wanted)?;
        jobs.retain(|job| with_children || job.spec.parent.is_empty());
        let rows = jobs.into_iter().map(Ok);
        let page = page::cut(rows, &call.query, from.as_ref(), key, name, matches)?;
        let of = |job: &Arc<Job>| {
            let key = job.spec.key();
            let (allocs, latest) = (view.allocs_of_job(&key)?, view.latest_deployment(&key)?);
            Ok((job.clone(), allocs, latest, dispatch::states_of_children(&view, job)?))
        };
        let told = page.items.iter().map(of).collect::<Result<Vec<_>, Response>>()?;
        let shapes: Vec<_> = told
            .iter()
            .map(|(job, allocs, d, children)| JobStatusShape::new(job, allocs, d.as_ref(), children))
            .collect();
        Ok(page.mark(Response::json(&shapes, call.query.pretty)))
    })
}

/// The jobs that the body names; none: all.
fn wanted(call: &Call<'_>) -> Result<Vec<JobKey>, Response> {
    if call.request.body.is_empty() {
        return Ok(vec![]);
    }
    let bad = || Response::text(400, "member Jobs must be a list of objects with ID and Namespace");
    let body = json::object(&call.request.body)?;
    let listed = match json::member(&body, "Jobs") {
        None => return Ok(vec![]),
        Some(Value::Array(listed)) => listed,
        Some(_) => return Err(bad()),
    };
    let key = |job: &Value| {
        let job = job.as_object().ok_or_else(bad)?;
        let id = json::text(job, "ID")?.ok_or_else(bad)?;
        let namespace = json::text(job, "Namespace")?.filter(|n| !n.is_empty());
        Ok(JobKey::new(namespace.unwrap_or_else(|| call.namespace()), id))
    };
    listed.iter().map(key).collect()
}

/// In the order of their last change. Those that are named and not there are left out.
fn jobs(call: &Call<'_>, view: &View, wanted: &[JobKey]) -> Result<Vec<Arc<Job>>, Response> {
    let mut jobs = if wanted.is_empty() {
        view.jobs(call.namespaces(), &call.query.prefix, None, usize::MAX)?
    } else {
        let found = wanted.iter().map(|key| view.job(key)).collect::<Result<Vec<_>, _>>()?;
        found.into_iter().flatten().collect()
    };
    jobs.sort_by_key(place);
    jobs.dedup_by_key(|job| job.spec.key());
    Ok(jobs)
}

fn place(job: &Arc<Job>) -> (u64, JobKey) {
    (job.modify_index, job.spec.key())
}

/// `<modify index>.<namespace>.<id>`
fn name(job: &Arc<Job>) -> String {
    format!("{}.{}.{}", job.modify_index, job.spec.namespace, job.spec.id)
}

fn token(text: &str) -> Result<Option<(u64, JobKey)>, Response> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut parts = text.splitn(3, '.');
    let index = parts.next().and_then(|index| index.parse().ok());
    match (index, parts.next(), parts.next()) {
        (Some(index), Some(namespace), Some(id)) => Ok(Some((index, JobKey::new(namespace, id)))),
        _ => Err(Response::text(400, format!("next_token {text:?} is not one that this list gives out"))),
    }
}
