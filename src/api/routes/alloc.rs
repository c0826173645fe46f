//! Allocations: the list, one, and those of a job, an evaluation and a node.
//!
//! Refuses to know: what a node says of its tasks at this moment; `client` asks that.

use crate::page::{self, CHUNK, Page};
use crate::query::object;
use crate::response::Response;
use crate::shape::alloc::{AllocShape, AllocStopShape, AllocStub, OMIT_EMPTY, StubOptions};
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking};
use model::alloc::{Allocation, Leave, Transition};
use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId};
use model::job::{Job, JobStatus};
use model::time::Wall;
use state::view::{Table, View};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use wire::request::{WriteReply, WriteRequest};

pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let wants = StubOptions {
        resources: call.query.flag("resources", false)?,
        task_states: call.query.flag("task_states", true)?,
    };
    let index = view.table_index(Table::Allocs);
    blocking::answer(call, index, vec![WatchKey::Allocs], view.index(), || {
        let page = page_of(call, &view)?;
        Ok(page.mark(stubs(call, &view, &page.items, wants)?))
    })
}

fn page_of(call: &Call<'_>, view: &View) -> Result<Page<Allocation>, Response> {
    let q = &call.query;
    let matches = |a: &Allocation| matches(call, view, a);
    let from = page::place_token::<AllocId>(&q.next_token)?;
    let wanted = |a: &Allocation| call.namespaces().is_none_or(|n| a.job.namespace == n);
    let keep = |row: &Result<Allocation, Response>| row.as_ref().map_or(true, wanted);
    if !q.prefix.is_empty() {
        let found = by_prefix(view, &page::id_prefix("alloc", &q.prefix)?)?;
        let from = from.map(|(_, id)| id);
        return page::paginate(
            found.into_iter().map(Ok).filter(keep),
            q,
            from.as_ref(),
            |a| a.id,
            |a| a.id.to_string(),
            matches,
        );
    }
    let rows =
        page::rows(|last: Option<&Allocation>| Ok(view.allocs(last.map(|a| (a.create_index, a.id)), CHUNK)?));
    let name = |a: &Allocation| format!("{}.{}", a.create_index, a.id);
    page::paginate(rows.filter(keep), q, from.as_ref(), |a| (a.create_index, a.id), name, matches)
}

/// Ordered by id. `prefix`: hex digits, any number of them.
fn by_prefix(view: &View, prefix: &str) -> Result<Vec<Allocation>, Response> {
    let ids = view.alloc_ids(prefix, usize::MAX)?;
    let found = ids.into_iter().map(|id| view.alloc(id)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().collect())
}

pub fn one(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let id: AllocId = page::full_id("alloc", id)?;
    let view = call.view()?;
    let alloc = view.alloc(id)?;
    let index = alloc.as_ref().map_or_else(|| view.table_index(Table::Allocs), |a| a.modify_index);
    blocking::answer(call, index, vec![WatchKey::Alloc(id)], view.index(), || {
        let Some(alloc) = &alloc else { return Err(Response::text(404, "alloc not found")) };
        let jobs = Jobs::of(&view, std::slice::from_ref(alloc))?;
        Ok(Response::json(&AllocShape::new(alloc, jobs.get(alloc)), call.query.pretty))
    })
}

/// With `all`, also those of an earlier job of the same id.
pub fn of_job(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let all = call.query.flag("all", false)?;
    let view = call.view()?;
    let index = view.table_index(Table::Allocs);
    blocking::answer(call, index, vec![WatchKey::JobAllocs(key.clone())], view.index(), || {
        let mut allocs = view.allocs_of_job(&key)?;
        if !all && let Some(job) = view.job(&key)? {
            allocs.retain(|a| a.job_create_index == job.create_index);
        }
        some_stubs(call, &view, allocs)
    })
}

pub fn of_eval(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let id: EvalId = page::full_id("eval", id)?;
    let view = call.view()?;
    let index = view.table_index(Table::Allocs);
    blocking::answer(call, index, vec![WatchKey::EvalAllocs(id)], view.index(), || {
        some_stubs(call, &view, view.allocs_of_eval(id)?)
    })
}

pub fn of_deployment(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let id: DeploymentId = page::full_id("deployment", id)?;
    let view = call.view()?;
    let index = view.table_index(Table::Allocs);
    let deployment = view.deployment(id)?;
    // of a job's allocations some join its deployments later
    let keys = deployment.as_ref().map(|d| WatchKey::JobAllocs(d.job.clone())).unwrap_or(WatchKey::Allocs);
    blocking::answer(call, index, vec![keys], view.index(), || {
        let allocs = match &deployment {
            Some(deployment) => view.allocs_of_deployment(deployment)?,
            None => vec![],
        };
        some_stubs(call, &view, allocs)
    })
}

/// Whole allocations, each with its job. A node that nobody knows has none, whatever its id.
pub fn of_node(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let Ok(id) = id.parse::<NodeId>() else {
        return blocking::empty_list(call, view.table_index(Table::Allocs));
    };
    let index = view.table_index(Table::Allocs);
    blocking::answer(call, index, vec![WatchKey::NodeAllocs(id)], view.index(), || {
        let mut allocs = view.allocs_of_node(id)?;
        allocs.retain(|a| call.namespaces().is_none_or(|n| a.job.namespace == n));
        let allocs = page::filtered(allocs, |a| matches(call, &view, a))?;
        let jobs = Jobs::of(&view, &allocs)?;
        let shapes: Vec<_> = allocs.iter().map(|a| AllocShape::new(a, jobs.get(a))).collect();
        Ok(Response::json(&shapes, call.query.pretty))
    })
}

fn matches(call: &Call<'_>, view: &View, a: &Allocation) -> Result<bool, Response> {
    call.query.matches(&OMIT_EMPTY, |filter| {
        // Looked up only where it is asked for: the job's node pool stands in the metrics.
        let with_job = filter.names("Job") || filter.names("Metrics");
        let job = if with_job { version_of(view, a)? } else { None };
        object(&AllocShape::new(a, job.as_ref()))
    })
}

/// Those of a list without pages that the query's filter matches.
fn some_stubs(call: &Call<'_>, view: &View, allocs: Vec<Allocation>) -> Result<Response, Response> {
    let chosen = page::filtered(allocs, |a| matches(call, view, a))?;
    stubs(call, view, &chosen, StubOptions::default())
}

fn stubs(
    call: &Call<'_>,
    view: &View,
    allocs: &[Allocation],
    wants: StubOptions,
) -> Result<Response, Response> {
    let jobs = Jobs::of(view, allocs)?;
    let stubs: Vec<_> = allocs.iter().map(|a| AllocStub::new(a, jobs.get(a), wants)).collect();
    Ok(Response::json(&stubs, call.query.pretty))
}

/// The versions of jobs that some allocations name, each looked up once.
struct Jobs(BTreeMap<(JobKey, u64, u64), Option<Job>>);

impl Jobs {
    fn of(view: &View, allocs: &[Allocation]) -> Result<Jobs, Response> {
        let mut jobs = BTreeMap::new();
        for a in allocs {
            if let Entry::Vacant(vacant) = jobs.entry(version_key(a)) {
                vacant.insert(version_of(view, a)?);
            }
        }
        Ok(Jobs(jobs))
    }

    fn get(&self, a: &Allocation) -> Option<&Job> {
        self.0.get(&version_key(a))?.as_ref()
    }
}

/// The job at the version that an allocation names. Of a version that is no longer tracked only the spec is known.
fn version_of(view: &View, a: &Allocation) -> Result<Option<Job>, Response> {
    let named = |job: &Job| job.create_index == a.job_create_index && job.version == a.job_version;
    let newest = view.job(&a.job)?.filter(|job| named(job));
    if let Some(job) = newest {
        return Ok(Some(Arc::unwrap_or_clone(job)));
    }
    if let Some(job) = view.job_versions(&a.job)?.into_iter().find(named) {
        return Ok(Some(job));
    }
    let spec = view.job_spec(&a.job, a.job_create_index, a.job_version)?;
    Ok(spec.map(|spec| Job {
        spec: Arc::unwrap_or_clone(spec),
        version: a.job_version,
        stable: false,
        status: JobStatus::Dead,
        status_description: String::new(),
        submit_time: Wall::NEVER,
        create_index: a.job_create_index,
        modify_index: a.job_modify_index,
        job_modify_index: a.job_modify_index,
        tag: None,
    }))
}

fn version_key(a: &Allocation) -> (JobKey, u64, u64) {
    (a.job.clone(), a.job_create_index, a.job_version)
}

/// `reschedule`: batch jobs place it anew, too, which they do here in any case.
pub fn stop(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let alloc: AllocId = page::full_id("allocation", id)?;
    let flag = |name| call.query.flag(name, false);
    let no_shutdown_delay = flag("no_shutdown_delay")?.then_some(true);
    let reschedule = flag("reschedule")?.then_some(true);
    let migrate = Some(Leave::AtOnce);
    let transition = Transition { migrate, reschedule, no_shutdown_delay, ..Transition::default() };
    let answer = WriteResponder { kind: WriteKind::AllocStopped, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::StopAlloc { alloc, transition }, answer))
}

pub fn stopped(done: &WriteReply, pretty: bool) -> Response {
    let eval = match done {
        WriteReply::Evals { evals, .. } => evals.first().map(ToString::to_string),
        _ => None,
    };
    let shape = AllocStopShape { eval_id: eval.unwrap_or_default(), index: done.index() };
    Response::json(&shape, pretty).with("X-Nomad-Index", done.index().max(1))
}
