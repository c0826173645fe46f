//! `GET /v1/job/:id/why`, `/v1/allocation/:id/why`, `/v1/evaluation/:id/why`: drover's own; no other API has them.
//!
//! Refuses to know: how the answer is found out. It is asked for, and shown.

use crate::response::Response;
use crate::shape::why::shown;
use crate::{Call, RouteOutcome, page};
use model::id::{AllocId, EvalId, JobKey};
use wire::request::Refusal;
use wire::why::{Subject, Why};

/// How what was found out becomes a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explained {
    pretty: bool,
}

pub fn job(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    Ok(explain(call, Subject::Job(JobKey::new(call.namespace(), id))))
}

pub fn alloc(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    Ok(explain(call, Subject::Alloc(page::full_id::<AllocId>("alloc", id)?)))
}

pub fn eval(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    Ok(explain(call, Subject::Eval(page::full_id::<EvalId>("eval", id)?)))
}

fn explain(call: &Call<'_>, subject: Subject) -> RouteOutcome {
    RouteOutcome::Explain(subject, Explained { pretty: call.query.pretty })
}

impl Explained {
    pub fn response(self, result: Result<Why, Refusal>) -> Response {
        match result {
            Ok(why) => Response::json(&shown(&why), self.pretty).with("X-Nomad-Index", why.index.max(1)),
            Err(refusal) => refusal.into(),
        }
    }
}
