//! Jobs: the list, one with its summary, registration, deregistration, and the parsing of job files. What else there is of a
//! job stands in the files below: versions and their differences, plans, children, the text it was made from, actions.
//!
//! Refuses to know: how a job file is read (`jobspec`), what makes a job valid (`model`), and what the servers make of it.

pub mod actions;
pub mod dispatch;
pub mod history;
pub mod plan;
pub mod statuses;
pub mod submission;
pub mod versions;

use crate::filter::OmitEmpty;
use crate::page::{self, CHUNK, Page};
use crate::query::object;
use crate::response::Response;
use crate::routes::node_pool;
use crate::shape::MetaShape;
use crate::shape::job::JobShape;
use crate::shape::job_answers::{
    JobDeregisterShape, JobRegisterShape, JobStub, JobValidateShape, SummaryShape,
};
use crate::shape::stub;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, blocking, json};
use jobspec::{self, Flaws, RefusedJob, Register, Vars};
use model::canonical::{self, DEFAULT_NODE_POOL, Defaults};
use model::id::JobKey;
use model::job::{Job, JobSpec};
use model::validate::{Limits, Validation, multi_error, scaling, validate};
use serde_json::Value;
use state::job_headers::JobHeader;
use state::view::{Table, View};
use wire::request::{WriteReply, WriteRequest};

/// `pool`: only those of this node pool.
pub fn list(call: &Call<'_>, pool: Option<&str>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let pool = pool.map(|pool| node_pool::known(call, &view, pool)).transpose()?;
    let with_meta = call.query.flag("meta", false)?;
    let index = view.table_index(Table::Jobs);
    blocking::answer(call, index, vec![watched(call)], view.index(), || {
        let page = page_of(call, &view, pool)?;
        let whole = |head: &JobHeader| if with_meta { view.job(&head.key) } else { Ok(None) };
        let jobs = page.items.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let rows = page.items.iter().zip(&jobs).map(|(head, job)| (head, job.as_deref()));
        if call.query.pretty {
            let stubs: Vec<_> = rows.map(|(head, job)| JobStub::new(head, job)).collect();
            return Ok(page.mark(Response::json(&stubs, true)));
        }
        Ok(page.mark(Response::json_list(rows, |out, (head, job)| stub::job(out, head, job))))
    })
}

/// A list by prefix waits for the jobs that it may show.
fn watched(call: &Call<'_>) -> WatchKey {
    match call.query.prefix.as_str() {
        "" => WatchKey::Jobs,
        prefix => WatchKey::JobPrefix {
            namespace: call.namespaces().map(str::to_string),
            prefix: prefix.to_string(),
        },
    }
}

fn page_of(call: &Call<'_>, view: &View, pool: Option<&str>) -> Result<Page<JobHeader>, Response> {
    let q = &call.query;
    let from = match q.next_token.split_once('.') {
        Some((namespace, id)) => Some(JobKey::new(namespace, id)),
        None if q.next_token.is_empty() => None,
        None => return Err(Response::text(400, "next_token is not one that this list gives out")),
    };
    let rows = page::rows(|last: Option<&JobHeader>| {
        Ok(view.job_headers(call.namespaces(), &q.prefix, last.map(|head| &head.key), CHUNK)?)
    });
    let name = |head: &JobHeader| format!("{}.{}", head.key.namespace, head.key.id);
    // a filter sees the whole job
    let chosen = |head: &JobHeader| match q.filter {
        None => Ok(true),
        Some(_) => view.job(&head.key)?.map_or(Ok(false), |job| matches(call, &job)),
    };
    let in_pool = |head: &JobHeader| pool.is_none_or(|pool| head.node_pool == pool);
    let rows = rows.filter(|row| row.as_ref().map_or(true, in_pool));
    page::paginate(rows, q, from.as_ref(), |head| head.key.clone(), name, chosen)
}

pub fn matches(call: &Call<'_>, job: &Job) -> Result<bool, Response> {
    call.query.matches(&OmitEmpty::NOTHING, |_| object(&JobShape::new(job)))
}

pub fn one(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let view = call.view()?;
    let job = view.job(&key)?;
    let index = job.as_ref().map_or_else(|| view.table_index(Table::Jobs), |j| j.modify_index);
    blocking::answer(call, index, vec![WatchKey::Job(key)], view.index(), || match &job {
        Some(job) => Ok(Response::json(&JobShape::new(job), call.query.pretty)),
        None => Err(not_found()),
    })
}

pub fn not_found() -> Response {
    Response::text(404, "job not found")
}

pub fn summary(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let view = call.view()?;
    let summary = view.job_summary(&key)?;
    let index = summary.as_ref().map_or_else(|| view.table_index(Table::Jobs), |s| s.modify_index);
    blocking::answer(call, index, vec![WatchKey::Job(key.clone())], view.index(), || match &summary {
        Some(summary) => Ok(Response::json(&SummaryShape::new(&key, summary), call.query.pretty)),
        None => Err(not_found()),
    })
}

/// `id`: from the path, when the request names a job there.
pub fn register(call: &Call<'_>, id: Option<&str>) -> Result<RouteOutcome, Response> {
    let mut wanted = jobspec::decode_register(call.body()?).map_err(refused)?;
    if id.is_some_and(|id| id != wanted.spec.id) {
        return Err(Response::text(400, "Job ID does not match name"));
    }
    let submission = wanted.submission.take();
    let validation = prepare(call, &mut wanted)?;
    if scaling::of_system_job(&wanted.spec) {
        return Err(scaled_system_job(wanted.flaws, validation));
    }
    let mut validation = checked(&mut wanted, validation)?;
    validation.warnings.append(&mut wanted.warnings);
    let submission = submission::kept(call, submission, &mut validation.warnings);
    let action = WriteRequest::RegisterJob {
        spec: Box::new(wanted.spec),
        enforce_index: wanted.enforce_index,
        eval_priority: wanted.eval_priority,
        preserve_counts: wanted.preserve_counts,
        submission: submission.map(Box::new),
    };
    let kind = WriteKind::Registered { warnings: validation.warning_text() };
    Ok(RouteOutcome::Write(action, WriteResponder { kind, pretty: call.query.pretty }))
}

/// Makes the job complete, and refuses it when anything is wrong with it.
pub fn accepted(call: &Call<'_>, wanted: &mut Register) -> Result<Validation, Response> {
    let validation = prepare(call, wanted)?;
    checked(wanted, validation)
}

/// A status and, where nothing else is wrong, a text of its own, as in Nomad, which looks for this before it validates.
fn scaled_system_job(flaws: Flaws, validation: Validation) -> Response {
    match &flaws.with(validation.errors)[..] {
        [only] => Response::text(400, only.as_str()),
        all => Response::text(400, multi_error(all)),
    }
}

fn checked(wanted: &mut Register, validation: Validation) -> Result<Validation, Response> {
    match std::mem::take(&mut wanted.flaws).refusal(validation.errors.clone()) {
        Some(why) => Err(refused(why)),
        None if validation.is_ok() => Ok(validation),
        None => Err(Response::text(500, validation.error_text())),
    }
}

/// Makes the job complete, for the place that the request wants it in, and says what is wrong with it.
fn prepare(call: &Call<'_>, wanted: &mut Register) -> Result<Validation, Response> {
    let spec = &mut wanted.spec;
    if let Some(namespace) = call.query.namespace.clone().or(wanted.namespace.take()) {
        spec.namespace = namespace;
    }
    let region = wanted.region.take().or_else(|| call.query.region.clone());
    spec.region = own_region(call, region.unwrap_or_else(|| spec.region.clone()))?;
    complete(call, spec);
    let scheduling = call.view()?.scheduling_in(&spec.node_pool)?;
    let limits = Limits {
        max_priority: call.ctx.agent.job_max_priority,
        memory_oversubscription: scheduling.memory_oversubscription,
        zones: call.ctx.zones,
        ..Limits::default()
    };
    Ok(validate(spec, &limits))
}

/// A job that is only looked at. What is wrong with it is an answer, not an error.
pub fn validated(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let validation = match jobspec::decode_validate(call.body()?) {
        Ok(mut wanted) => {
            let Validation { errors, warnings } = prepare(call, &mut wanted)?;
            Validation { errors: wanted.flaws.with(errors), warnings }
        }
        Err(why @ RefusedJob::Malformed(_)) => return Err(refused(why)),
        Err(RefusedJob::Invalid(errors) | RefusedJob::NotSupported(errors)) => {
            Validation { errors, warnings: vec![] }
        }
    };
    Ok(RouteOutcome::Respond(Response::json(&JobValidateShape::new(&validation), call.query.pretty)))
}

pub fn refused(why: RefusedJob) -> Response {
    match &why {
        RefusedJob::NotSupported(_) => Response::text(501, why.to_string()),
        RefusedJob::Malformed(_) | RefusedJob::Invalid(_) => Response::text(400, why.to_string()),
    }
}

/// `global` is another name for the agent's own region.
fn own_region(call: &Call<'_>, region: String) -> Result<String, Response> {
    let own = &call.ctx.agent.region;
    match region.as_str() {
        "" | "global" => Ok(own.clone()),
        named if named == own => Ok(region),
        _ => Err(Response::text(500, "No path to region")),
    }
}

fn complete(call: &Call<'_>, spec: &mut JobSpec) {
    let priority = call.ctx.agent.job_default_priority;
    canonical::complete(spec, &Defaults { priority, node_pool: DEFAULT_NODE_POOL.into() });
}

/// With no body, or one that names the job.
pub fn evaluate(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let bad = |sentence: &str| Response::text(400, sentence);
    let mut force_reschedule = false;
    if !call.request.body.is_empty() {
        let body = json::object(&call.request.body)?;
        match json::text(&body, "JobID")? {
            None | Some("") => return Err(bad("Job ID must be specified")),
            Some(named) if named != id => return Err(bad("JobID not same as job name")),
            Some(_) => {}
        }
        force_reschedule = match json::member(&body, "EvalOptions") {
            None => false,
            Some(Value::Object(options)) => json::flag(options, "ForceReschedule")?,
            Some(_) => return Err(bad("member EvalOptions must be an object")),
        };
    }
    let job = JobKey::new(call.namespace(), id);
    let answer = WriteResponder { kind: WriteKind::JobEvaluated, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::EvaluateJob { job, force_reschedule }, answer))
}

pub fn deregister(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let q = &call.query;
    // A value that cannot be read is a 500 on this route (http-api.md 0.4.2).
    let flag = |name| q.flag(name, false).map_err(|bad| bad.status(500));
    let purge = flag("purge")?;
    // In every region of the job: it has only this one.
    flag("global")?;
    let no_shutdown_delay = flag("no_shutdown_delay")?;
    if no_shutdown_delay && purge {
        return Err(Response::not_supported("job deregistration with both purge and no_shutdown_delay"));
    }
    let eval_priority = q.integer("eval_priority").map_err(|bad| bad.status(500))?.filter(|p| *p != 0);
    if eval_priority.is_some_and(|p| !(1..=100).contains(&p)) {
        return Err(Response::text(400, "Eval priority must be between 1 and 100 inclusively"));
    }
    let job = JobKey::new(call.namespace(), id);
    let action = WriteRequest::DeregisterJob { job, purge, eval_priority, no_shutdown_delay };
    Ok(RouteOutcome::Write(action, WriteResponder { kind: WriteKind::Deregistered, pretty: q.pretty }))
}

/// What a done action says of its job: evaluation, where that was created, and the job's modify index.
pub fn of_job(done: &WriteReply) -> (String, u64, u64) {
    match done {
        WriteReply::Job { eval: Some(eval), job_modify_index, index } => {
            (eval.to_string(), *index, *job_modify_index)
        }
        WriteReply::Job { eval: None, job_modify_index, .. } => (String::new(), 0, *job_modify_index),
        WriteReply::Evals { evals, modify_index, index } => {
            (evals.first().map(ToString::to_string).unwrap_or_default(), *index, *modify_index)
        }
        _ => (String::new(), 0, 0),
    }
}

pub fn registered(done: &WriteReply, warnings: String, pretty: bool) -> Response {
    let (eval_id, eval_create_index, job_modify_index) = of_job(done);
    let shape = JobRegisterShape {
        eval_id,
        eval_create_index,
        job_modify_index,
        warnings,
        meta: MetaShape::new(done.index(), false),
    };
    Response::json(&shape, pretty).with("X-Nomad-Index", done.index().max(1))
}

/// An unknown job is no error: nothing was done, and the index is 0 (http-api.md 1.1.9).
pub fn deregistered(done: &WriteReply, pretty: bool) -> Response {
    let (eval_id, eval_create_index, job_modify_index) = of_job(done);
    let index = match done {
        WriteReply::Job { index, .. } | WriteReply::Evals { index, .. } => *index,
        _ => 0,
    };
    let shape = JobDeregisterShape {
        eval_id,
        eval_create_index,
        job_modify_index,
        volume_eval_id: "",
        volume_eval_index: 0,
        meta: MetaShape::new(index, false),
    };
    Response::json(&shape, pretty).with("X-Nomad-Index", index.max(1))
}

/// A job file to the API's JSON job. What is not built yet is in the answer all the same: only registering it is refused.
pub fn parse(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let body = json::object(call.body()?)?;
    if json::flag(&body, "hclv1")? {
        return Err(Response::not_supported("jobs/parse with hclv1"));
    }
    let text = json::text(&body, "JobHCL")?.unwrap_or_default();
    if text.is_empty() {
        return Err(Response::text(400, "Job spec is empty"));
    }
    let variables = json::text(&body, "Variables")?.unwrap_or_default();
    let files = match variables {
        "" => vec![],
        variables => vec![("input.vars".to_string(), variables.to_string())],
    };
    let vars = Vars { files, seed: call.ctx.seed, ..Vars::default() };
    let parsed = jobspec::parse("input.hcl", text, &vars, None);
    let Some(job) = parsed.job.filter(|_| parsed.diagnostics.is_empty()) else {
        let why = jobspec::render(&parsed.diagnostics);
        return Err(Response::text(400, format!("Failed to parse job: {why}")));
    };
    if !json::flag(&body, "Canonicalize")? {
        return Ok(RouteOutcome::Respond(Response::json(&job, call.query.pretty)));
    }
    let mut spec = jobspec::decode_job(&job).map_err(refused)?;
    complete(call, &mut spec);
    Ok(RouteOutcome::Respond(Response::json(&JobShape::of_spec(&spec), call.query.pretty)))
}
