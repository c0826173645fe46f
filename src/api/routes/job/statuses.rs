//! The states of jobs with their allocations in one answer: what a jobs page shows, newest change first or last.
//!
//! Refuses to know: how a status comes about.

use crate::page;
use crate::response::Response;
use crate::routes::job::{self, dispatch};
use crate::shape::job_answers::JobStatusShape;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, blocking, json};
use model::id::JobKey;
use serde_json::Value;
use state::job_headers::JobHeader;
use state::view::{Table, View};

pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let wanted = wanted(call)?;
    let with_children = call.query.flag("include_children", false)? || !wanted.is_empty();
    let view = call.view()?;
    let index = view.table_index(Table::Jobs).max(view.table_index(Table::Allocs));
    blocking::answer(call, index, vec![WatchKey::Jobs, WatchKey::Allocs], view.index(), || {
        let from = token(&call.query.next_token)?;
        // a filter sees the whole job
        let matches = |(_, key): &Place| match call.query.filter {
            None => Ok(true),
            Some(_) => view.job(key)?.map_or(Ok(false), |job| job::matches(call, &job)),
        };
        let rows = places(call, &view, &wanted, with_children)?.into_iter().map(Ok);
        let page = page::paginate(rows, &call.query, from.as_ref(), Place::clone, name, matches)?;
        let read = |(_, key): &Place| {
            let Some(job) = view.job(key)? else { return Ok(None) };
            let (allocs, latest) = (view.allocs_of_job(key)?, view.latest_deployment(key)?);
            let children = dispatch::states_of_children(&view, &job)?;
            Ok(Some((job, allocs, latest, children)))
        };
        let read = page.items.iter().filter_map(|place| read(place).transpose());
        let told = read.collect::<Result<Vec<_>, Response>>()?;
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

/// Where a job stands in the list: the index of its last change, and its key.
type Place = (u64, JobKey);

/// In the order of their last change. Those that are named and not there are left out. The jobs themselves are read once it is
/// known which of them the page shows: a parent may have any number of children that it does not.
fn places(
    call: &Call<'_>,
    view: &View,
    wanted: &[JobKey],
    with_children: bool,
) -> Result<Vec<Place>, Response> {
    let mut places = Vec::new();
    for key in wanted {
        places.extend(view.job(key)?.map(|job| (job.modify_index, key.clone())));
    }
    if wanted.is_empty() {
        let read = |last: Option<&JobHeader>| {
            let after = last.map(|head| &head.key);
            Ok(view.job_headers(call.namespaces(), &call.query.prefix, after, page::CHUNK)?)
        };
        for head in page::rows(read) {
            let head = head?;
            if with_children || head.relation.parent().is_empty() {
                places.push((head.version.modify_index, head.key));
            }
        }
    }
    places.sort();
    places.dedup();
    Ok(places)
}

/// `<modify index>.<namespace>.<id>`
fn name((index, key): &Place) -> String {
    format!("{index}.{}.{}", key.namespace, key.id)
}

fn token(text: &str) -> Result<Option<Place>, Response> {
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
