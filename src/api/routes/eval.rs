//! Evaluations: the list, one, those of a job, and their deletion.
//!
//! Refuses to know: what an evaluation comes to, and which may be deleted: the servers decide.

use crate::page::{self, CHUNK, Page};
use crate::query::{Query, object};
use crate::response::Response;
use crate::shape::MetaShape;
use crate::shape::eval::{EvalCountShape, EvalDeleteShape, EvalShape, OMIT_EMPTY};
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking, json};
use model::eval::Evaluation;
use model::id::{EvalId, JobKey};
use serde_json::{Map, Value};
use state::view::{Table, View};
use std::collections::BTreeMap;
use wire::request::{WriteReply, WriteRequest};

pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    one_filter(call)?;
    let view = call.view()?;
    let index = view.table_index(Table::Evals);
    blocking::answer(call, index, vec![WatchKey::Evals], view.index(), || {
        let page = page_of(call, &call.query, &view)?;
        Ok(page.mark(shapes(call, &view, &page.items)?))
    })
}

fn one_filter(call: &Call<'_>) -> Result<(), Response> {
    let given = |name| call.query.text(name).is_some_and(|value| !value.is_empty());
    if call.query.filter.is_some() && (given("job") || given("status")) {
        return Err(Response::text(400, "Filter expression cannot be used with other filter parameters"));
    }
    Ok(())
}

/// How many the list has with the same parameters, all pages together.
pub fn count(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    one_filter(call)?;
    let mut whole = call.query.clone();
    whole.per_page = 0;
    whole.next_token.clear();
    let view = call.view()?;
    let index = view.table_index(Table::Evals);
    blocking::answer(call, index, vec![WatchKey::Evals], view.index(), || {
        let shape = EvalCountShape {
            count: page_of(call, &whole, &view)?.items.len(),
            meta: MetaShape::new(index.max(1), call.ctx.status.leader.is_some()),
        };
        Ok(Response::json(&shape, call.query.pretty))
    })
}

fn page_of(call: &Call<'_>, q: &Query, view: &View) -> Result<Page<Evaluation>, Response> {
    let matches = |e: &Evaluation| matches(call, view, e);
    let from = page::place_token::<EvalId>(&q.next_token)?;
    let wanted = |e: &Evaluation| {
        call.namespaces().is_none_or(|n| e.job.namespace == n)
            && q.text("job").is_none_or(|job| job.is_empty() || e.job.id == job)
            && q.text("status").is_none_or(|status| status.is_empty() || e.status.as_str() == status)
    };
    let keep = |row: &Result<Evaluation, Response>| row.as_ref().map_or(true, wanted);
    if !q.prefix.is_empty() {
        let found = by_prefix(view, &page::id_prefix("eval", &q.prefix)?)?;
        let from = from.map(|(_, id)| id);
        return page::paginate(
            found.into_iter().map(Ok).filter(keep),
            q,
            from.as_ref(),
            |e| e.id,
            |e| e.id.to_string(),
            matches,
        );
    }
    let rows =
        page::rows(|last: Option<&Evaluation>| Ok(view.evals(last.map(|e| (e.create_index, e.id)), CHUNK)?));
    let name = |e: &Evaluation| format!("{}.{}", e.create_index, e.id);
    page::paginate(rows.filter(keep), q, from.as_ref(), |e| (e.create_index, e.id), name, matches)
}

/// Ordered by id. `prefix`: hex digits, any number of them.
fn by_prefix(view: &View, prefix: &str) -> Result<Vec<Evaluation>, Response> {
    let ids = view.eval_ids(prefix, usize::MAX)?;
    let found = ids.into_iter().map(|id| view.eval(id)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// By their ids, all or none; or by a filter, as many as can go.
pub fn delete(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let body = json::object(call.body()?)?;
    let filter = json::text(&body, "Filter")?.unwrap_or_default();
    let some = json::member(&body, "EvalIDs").and_then(Value::as_array).is_some_and(|ids| !ids.is_empty());
    if some && !filter.is_empty() {
        return Err(Response::text(400, "evals cannot be deleted by both ID and filter"));
    }
    let named = ids(&body)?;
    let action = match (named.is_empty(), filter) {
        (false, _) => WriteRequest::DeleteEvals { ids: named, skip_needed: false },
        (true, "") => return Err(Response::text(400, "evals must be deleted by either ID or filter")),
        (true, filter) => WriteRequest::DeleteEvals { ids: matching(call, filter)?, skip_needed: true },
    };
    Ok(RouteOutcome::Write(
        action,
        WriteResponder { kind: WriteKind::EvalsDeleted, pretty: call.query.pretty },
    ))
}

/// This many ids take 256 KiB.
const MOST_IDS: usize = 7281;

fn ids(body: &Map<String, Value>) -> Result<Vec<EvalId>, Response> {
    let wrong = || Response::text(400, "member EvalIDs must be a list of strings");
    let Some(given) = json::member(body, "EvalIDs") else { return Ok(vec![]) };
    let given = given.as_array().ok_or_else(wrong)?;
    if given.len() > MOST_IDS {
        let why = format!("request includes {} evaluation IDs, must be {MOST_IDS} or fewer", given.len());
        return Err(Response::text(400, why));
    }
    given.iter().map(|id| page::full_id("eval", id.as_str().ok_or_else(wrong)?)).collect()
}

/// In every namespace.
fn matching(call: &Call<'_>, filter: &str) -> Result<Vec<EvalId>, Response> {
    let query = Query::new(vec![("filter".to_string(), filter.to_string())])?;
    let call = Call { query, ..*call };
    let view = call.view()?;
    let rows =
        page::rows(|last: Option<&Evaluation>| Ok(view.evals(last.map(|e| (e.create_index, e.id)), CHUNK)?));
    let mut ids = Vec::new();
    for eval in rows {
        let eval = eval?;
        if matches(&call, &view, &eval)? {
            ids.push(eval.id);
        }
    }
    Ok(ids)
}

pub fn deleted(done: &WriteReply, pretty: bool) -> Response {
    let index = done.index();
    let count = if let WriteReply::Deleted { count, .. } = done { *count } else { 0 };
    Response::json(&EvalDeleteShape { count, index }, pretty).with("X-Nomad-Index", index.max(1))
}

pub fn one(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let id: EvalId = page::full_id("eval", id)?;
    let related = call.query.flag("related", false)?;
    let view = call.view()?;
    let eval = view.eval(id)?;
    let index = eval.as_ref().map_or_else(|| view.table_index(Table::Evals), |e| e.modify_index);
    blocking::answer(call, index, vec![WatchKey::Eval(id)], view.index(), || {
        let Some(eval) = &eval else { return Err(Response::text(404, "eval not found")) };
        let pool = NodePoolCache::default().of(&view, &eval.job)?;
        let shape = EvalShape::new(eval, &pool);
        if !related {
            return Ok(Response::json(&shape, call.query.pretty));
        }
        let related = related_evals(&view, eval)?;
        Ok(Response::json(&shape.related(&related), call.query.pretty))
    })
}

/// The evaluations that this one names, and that they name, and so on, and those of its job that name any of these;
/// oldest first, without itself.
fn related_evals(view: &View, eval: &Evaluation) -> Result<Vec<Evaluation>, Response> {
    let of_job = view.evals_of_job(&eval.job)?;
    let links = |e: &Evaluation| [e.next_eval, e.previous_eval, e.blocked_eval];
    let mut members = vec![eval.id];
    let mut seen = 0;
    while seen < members.len() {
        let id = members[seen];
        seen += 1;
        for other in &of_job {
            let linked = (other.id == id).then(|| links(other)).into_iter().flatten().flatten();
            let names_it = links(other).contains(&Some(id)).then_some(other.id);
            for found in linked.chain(names_it) {
                if !members.contains(&found) {
                    members.push(found);
                }
            }
        }
    }
    Ok(of_job.into_iter().filter(|e| e.id != eval.id && members.contains(&e.id)).collect())
}

pub fn of_job(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let view = call.view()?;
    let index = view.table_index(Table::Evals);
    blocking::answer(call, index, vec![WatchKey::JobEvals(key.clone())], view.index(), || {
        let evals = page::filtered(view.evals_of_job(&key)?, |e| matches(call, &view, e))?;
        shapes(call, &view, &evals)
    })
}

fn matches(call: &Call<'_>, view: &View, eval: &Evaluation) -> Result<bool, Response> {
    call.query.matches(&OMIT_EMPTY, |filter| {
        let pool = match filter.names("FailedTGAllocs") {
            true => NodePoolCache::default().of(view, &eval.job)?,
            false => String::new(),
        };
        object(&EvalShape::new(eval, &pool))
    })
}

fn shapes(call: &Call<'_>, view: &View, evals: &[Evaluation]) -> Result<Response, Response> {
    let mut pools = NodePoolCache::default();
    for eval in evals.iter().filter(|e| !e.failed_groups.is_empty()) {
        pools.of(view, &eval.job)?;
    }
    let shapes: Vec<_> = evals.iter().map(|e| EvalShape::new(e, pools.known(&e.job))).collect();
    Ok(Response::json(&shapes, call.query.pretty))
}

/// The node pools of jobs, each looked up once.
#[derive(Default)]
struct NodePoolCache(BTreeMap<JobKey, String>);

impl NodePoolCache {
    fn of(&mut self, view: &View, job: &JobKey) -> Result<String, Response> {
        if let Some(pool) = self.0.get(job) {
            return Ok(pool.clone());
        }
        let pool = view.job(job)?.map(|j| j.spec.node_pool.clone()).unwrap_or_default();
        self.0.insert(job.clone(), pool.clone());
        Ok(pool)
    }

    fn known(&self, job: &JobKey) -> &str {
        self.0.get(job).map_or("", String::as_str)
    }
}
