//! Jobs that make others: launching a periodic one now (reference: http-api 1.1).

use super::response::Response;
use super::shape::family::LaunchedShape;
use super::{Answer, AnswerKind, Call, Outcome, jobs};
use crate::model::id::JobKey;
use crate::model::job::Job;
use crate::state::view::View;
use crate::wire::request::{Action, Done};

pub fn force(call: &Call<'_>, id: String) -> Outcome {
    let job = JobKey::new(call.namespace(), id);
    let answer = Answer { kind: AnswerKind::JobLaunched, pretty: call.query.pretty };
    Outcome::Act(Action::ForceLaunch { job }, answer)
}

pub fn launched(done: &Done, pretty: bool) -> Response {
    let (eval_id, eval_create_index, _) = jobs::of_job(done);
    let shape = LaunchedShape { eval_id, eval_create_index, index: done.index() };
    Response::json(&shape, pretty).with("X-Nomad-Index", done.index().max(1))
}

/// `None`: it is no job that makes others.
pub fn states_of_children(view: &View, parent: &Job) -> Result<Option<Vec<&'static str>>, Response> {
    if parent.spec.periodic.is_none() {
        return Ok(None);
    }
    let (namespace, id) = (parent.spec.namespace.as_str(), parent.spec.id.as_str());
    let mut heads = view.job_heads(Some(namespace), &format!("{id}/"), None, usize::MAX)?;
    heads.retain(|head| head.kinship.parent() == id);
    Ok(Some(heads.iter().map(|head| head.version.status.as_str()).collect()))
}
