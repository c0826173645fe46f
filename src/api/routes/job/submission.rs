//! The texts that jobs were made from: which are kept, and what is told of them.
//!
//! Refuses to know: what the texts say.

use crate::response::Response;
use crate::shape::job_answers::SubmissionShape;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, blocking};
use model::id::JobKey;
use model::submission::Submission;
use state::view::Table;

/// What of a registration's text is kept: nothing, with a warning, when it is too long.
pub fn kept(call: &Call<'_>, given: Option<Submission>, warnings: &mut Vec<String>) -> Option<Submission> {
    let given = given.filter(|s| !s.source.is_empty())?;
    let (bytes, most) = (given.bytes(), call.ctx.agent.job_max_source_bytes);
    if bytes <= most {
        return Some(given);
    }
    warnings.push(format!(
        "the source of the job has {bytes} bytes, more than the {most} that job_max_source_size allows: it is not kept"
    ));
    None
}

pub fn one(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let version = call.query.text("version").and_then(|v| v.parse::<u64>().ok());
    let version =
        version.ok_or_else(|| Response::text(400, "Unable to parse job submission version parameter"))?;
    let key = JobKey::new(call.namespace(), id);
    let view = call.view()?;
    let job = view.job_versions(&key)?.into_iter().find(|job| job.version == version);
    let submission = job.as_ref().map(|job| view.submission(job)).transpose()?.flatten();
    // once kept it never changes
    let index = job.as_ref().map_or_else(|| view.table_index(Table::Jobs), |j| j.job_modify_index);
    blocking::answer(call, index, vec![WatchKey::Job(key)], view.index(), || match (&job, &submission) {
        (Some(job), Some(s)) => Ok(Response::json(&SubmissionShape::new(job, s), call.query.pretty)),
        _ => Err(Response::text(404, "job source not found")),
    })
}
