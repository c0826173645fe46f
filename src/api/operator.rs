//! What an operator asks of the servers as a group: their list and their health (http-api.md 9.4, 9.5).

use super::query::Query;
use super::response::Response;
use super::shape::operator::{AutopilotShape, RaftShape};
use super::{Answer, AnswerKind, Context, Outcome};
use wire::request::Action;

pub fn raft_configuration(ctx: &Context<'_>, q: &Query) -> Response {
    Response::json(&RaftShape::new(ctx.agent, ctx.status), q.pretty)
}

/// 429 with the same JSON when the servers are not well.
pub fn autopilot_health(ctx: &Context<'_>, q: &Query) -> Response {
    let shape = AutopilotShape::new(ctx.agent, ctx.status);
    Response::json(&shape, q.pretty).status(if shape.healthy { 200 } else { 429 })
}

/// Answered as soon as the collector is on its way.
pub fn collect_garbage(q: &Query) -> Outcome {
    Outcome::Act(Action::CollectGarbage, Answer { kind: AnswerKind::Written, pretty: q.pretty })
}
