//! Deployments: the list, one, those of a job, and requests that change one.
//!
//! Refuses to know: when a deployment goes on. A request becomes a `DeploymentRequest`; the servers decide.

use crate::page::{self, CHUNK, Page};
use crate::query::object;
use crate::response::Response;
use crate::shape::deployment::{DeploymentShape, DeploymentUpdateShape, OMIT_EMPTY};
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking, json};
use model::deployment::Deployment;
use model::id::{AllocId, DeploymentId, JobKey};
use serde_json::{Map, Value};
use state::view::{Table, View};
use wire::request::{DeploymentRequest, WriteReply, WriteRequest};

/// A request that changes a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeploymentAction {
    Fail,
    Pause,
    Promote,
    Unblock,
    AllocationHealth,
}

pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let index = view.table_index(Table::Deployments);
    blocking::answer(call, index, vec![WatchKey::Deployments], view.index(), || {
        let page = page_of(call, &view)?;
        Ok(page.mark(shapes(call, &page.items)))
    })
}

fn page_of(call: &Call<'_>, view: &View) -> Result<Page<Deployment>, Response> {
    let q = &call.query;
    let from = page::place_token::<DeploymentId>(&q.next_token)?;
    let wanted = |d: &Deployment| call.namespaces().is_none_or(|n| d.job.namespace == n);
    let keep = |row: &Result<Deployment, Response>| row.as_ref().map_or(true, wanted);
    let matches = |d: &Deployment| matches(call, d);
    if !q.prefix.is_empty() {
        let ids = view.deployment_ids(&page::id_prefix("deployment", &q.prefix)?, usize::MAX)?;
        let found = ids.into_iter().map(|id| view.deployment(id)).collect::<Result<Vec<_>, _>>()?;
        let from = from.map(|(_, id)| id);
        return page::paginate(
            found.into_iter().flatten().map(Ok).filter(keep),
            q,
            from.as_ref(),
            |d| d.id,
            |d| d.id.to_string(),
            matches,
        );
    }
    let rows = page::rows(|last: Option<&Deployment>| {
        Ok(view.deployments(last.map(|d| (d.create_index, d.id)), CHUNK)?)
    });
    let name = |d: &Deployment| format!("{}.{}", d.create_index, d.id);
    page::paginate(rows.filter(keep), q, from.as_ref(), |d| (d.create_index, d.id), name, matches)
}

fn matches(call: &Call<'_>, deployment: &Deployment) -> Result<bool, Response> {
    call.query.matches(&OMIT_EMPTY, |_| object(&DeploymentShape::new(deployment)))
}

fn shapes(call: &Call<'_>, deployments: &[Deployment]) -> Response {
    let shapes: Vec<_> = deployments.iter().map(DeploymentShape::new).collect();
    Response::json(&shapes, call.query.pretty)
}

pub fn one(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let id: DeploymentId = page::full_id("deployment", id)?;
    let view = call.view()?;
    let deployment = view.deployment(id)?;
    let index = deployment.as_ref().map_or_else(|| view.table_index(Table::Deployments), |d| d.modify_index);
    blocking::answer(call, index, vec![WatchKey::Deployment(id)], view.index(), || {
        let Some(deployment) = &deployment else {
            return Err(Response::text(404, "deployment not found"));
        };
        Ok(Response::json(&DeploymentShape::new(deployment), call.query.pretty))
    })
}

/// Without `all` only those of the job that there is now, not of an earlier one of the same id.
pub fn of_job(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let all = call.query.flag("all", false)?;
    let view = call.view()?;
    let index = view.table_index(Table::Deployments);
    blocking::answer(call, index, vec![WatchKey::JobDeployments(key.clone())], view.index(), || {
        let mut found = view.deployments_of_job(&key)?;
        if !all && let Some(job) = view.job(&key)? {
            found.retain(|d| d.job_create_index == job.create_index);
        }
        Ok(shapes(call, &page::filtered(found, |d| matches(call, d))?))
    })
}

/// The newest, or `null`.
pub fn latest_of_job(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let view = call.view()?;
    let index = view.table_index(Table::Deployments);
    blocking::answer(call, index, vec![WatchKey::JobDeployments(key.clone())], view.index(), || {
        let latest = view.latest_deployment(&key)?;
        Ok(Response::json(&latest.as_ref().map(DeploymentShape::new), call.query.pretty))
    })
}

pub fn step(call: &Call<'_>, verb: DeploymentAction, id: &str) -> Result<RouteOutcome, Response> {
    let deployment: DeploymentId = page::full_id("deployment", id)?;
    let body = match call.request.body.as_slice() {
        [] if verb == DeploymentAction::Fail => Map::new(),
        _ => json::object(call.body()?)?,
    };
    match json::text(&body, "DeploymentID")?.unwrap_or_default() {
        "" if verb == DeploymentAction::Fail => {}
        "" => return Err(Response::text(400, "DeploymentID must be specified")),
        named if named != id => return Err(Response::text(400, "Deployment ID does not match")),
        _ => {}
    }
    let step = match verb {
        DeploymentAction::Fail => DeploymentRequest::Fail,
        DeploymentAction::Pause if json::flag(&body, "Pause")? => DeploymentRequest::Pause,
        DeploymentAction::Pause => DeploymentRequest::Resume,
        DeploymentAction::Promote => promotion(&body)?,
        DeploymentAction::AllocationHealth => health(&body)?,
        // a deployment waits for other regions only if its job is in several
        DeploymentAction::Unblock => return Err(unblocked(call, deployment)?),
    };
    let answer = WriteResponder { kind: WriteKind::DeploymentStepped, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::StepDeployment { deployment, step }, answer))
}

fn promotion(body: &Map<String, Value>) -> Result<DeploymentRequest, Response> {
    let groups: Vec<String> = json::texts(body, "Groups")?.into_iter().map(str::to_string).collect();
    match (json::flag(body, "All")?, groups.is_empty()) {
        (true, true) => Ok(DeploymentRequest::Promote { groups: None }),
        (false, false) => Ok(DeploymentRequest::Promote { groups: Some(groups) }),
        (true, false) => Err(Response::text(400, "name groups or all of them, not both")),
        (false, true) => Err(Response::text(400, "name the groups to promote, or say that all are meant")),
    }
}

fn health(body: &Map<String, Value>) -> Result<DeploymentRequest, Response> {
    let ids = |name| -> Result<Vec<AllocId>, Response> {
        json::texts(body, name)?.into_iter().map(|id| page::full_id("alloc", id)).collect()
    };
    let (healthy, unhealthy) = (ids("HealthyAllocationIDs")?, ids("UnhealthyAllocationIDs")?);
    if healthy.is_empty() && unhealthy.is_empty() {
        return Err(Response::text(500, "must specify at least one healthy/unhealthy allocation ID"));
    }
    if let Some(both) = healthy.iter().find(|id| unhealthy.contains(id)) {
        return Err(Response::text(400, format!("allocation {both} cannot be healthy and unhealthy")));
    }
    Ok(DeploymentRequest::SetHealth { healthy, unhealthy })
}

fn unblocked(call: &Call<'_>, id: DeploymentId) -> Result<Response, Response> {
    let why = match call.view()?.deployment(id)? {
        None => "deployment not found",
        Some(d) if !d.status.is_active() => "can't unblock terminal deployment",
        Some(_) => "can't unblock this deployment: it waits for no other region",
    };
    Ok(Response::text(500, why))
}

pub fn stepped(done: &WriteReply, pretty: bool) -> Response {
    let (eval, reverted) = match done {
        WriteReply::Deployment { eval, reverted, .. } => (*eval, *reverted),
        _ => (None, None),
    };
    let index = done.index();
    let shape = DeploymentUpdateShape {
        eval_id: eval.map(|id| id.to_string()).unwrap_or_default(),
        eval_create_index: if eval.is_some() { index } else { 0 },
        deployment_modify_index: index,
        reverted_job_version: reverted,
        index,
    };
    Response::json(&shape, pretty).with("X-Nomad-Index", index.max(1))
}
