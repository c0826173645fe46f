//! `PUT /v1/job/:id/plan`: what registering a job would do (http-api.md 1.1.10, 1.2.4).
//!
//! Refuses to know: how that is found out. It is asked for, and the answer is shown.

use crate::response::Response;
use crate::routes::job;
use crate::shape::plan::PlanShape;
use crate::{Call, RouteOutcome, json};
use model::diff::JobDiff;
use model::job::JobSpec;
use std::sync::Arc;
use wire::job_plan::{JobPlanReply, JobPlanRequest};
use wire::request::Refusal;

/// How what was found out becomes a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    spec: Arc<JobSpec>,
    with_diff: bool,
    warnings: String,
    pretty: bool,
}

pub fn plan(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let body = call.body()?;
    let mut wanted = jobspec::decode_register(body).map_err(job::refused)?;
    let with_diff = json::flag(&json::object(body)?, "Diff")?;
    if wanted.spec.id.is_empty() {
        return Err(Response::text(400, "Job must have a valid ID"));
    }
    if wanted.spec.id != id {
        return Err(Response::text(400, "Job ID does not match"));
    }
    let validation = job::accepted(call, &mut wanted)?;
    let spec = Arc::new(wanted.spec);
    let schedule = spec.periodic.as_ref().and_then(|p| p.schedule(call.ctx.zones));
    let asked = JobPlanRequest { spec: spec.clone(), schedule, seed: call.ctx.seed };
    let warnings = validation.warning_text();
    Ok(RouteOutcome::PlanJob(asked, Planned { spec, with_diff, warnings, pretty: call.query.pretty }))
}

impl Planned {
    pub fn response(self, result: Result<JobPlanReply, Refusal>) -> Response {
        let rehearsal = match result {
            Ok(rehearsal) => rehearsal,
            Err(refusal) => return refusal.into(),
        };
        let diff = self.with_diff.then(|| {
            let mut diff = JobDiff::between(rehearsal.before.as_ref().map(|job| &job.spec), &self.spec);
            diff.annotate(&rehearsal.desired);
            diff
        });
        let shape = PlanShape::new(&rehearsal, diff.as_ref(), &self.spec.node_pool, &self.warnings);
        Response::json(&shape, self.pretty).with("X-Nomad-Index", rehearsal.index.max(1))
    }
}
