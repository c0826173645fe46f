//! Operator routes: the Raft configuration, autopilot health, garbage collection (http-api.md 9.4, 9.5).
//!
//! Refuses to know: what a server does; it is told as the published status has it.

use crate::response::Response;
use crate::shape::operator::{AutopilotShape, RaftShape};
use crate::{Call, RouteOutcome, WriteKind, WriteResponder};
use wire::request::WriteRequest;

pub fn raft_configuration(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let shape = RaftShape::new(call.ctx.agent, call.ctx.status);
    Ok(RouteOutcome::Respond(Response::json(&shape, call.query.pretty)))
}

/// 429 with the same JSON when the servers are not well.
pub fn autopilot_health(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let shape = AutopilotShape::new(call.ctx.agent, call.ctx.status);
    let status = if shape.healthy { 200 } else { 429 };
    Ok(RouteOutcome::Respond(Response::json(&shape, call.query.pretty).status(status)))
}

/// Answered as soon as the collection is queued.
pub fn collect_garbage(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let answer = WriteResponder { kind: WriteKind::Written, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::CollectGarbage, answer))
}

/// Does nothing: every log entry keeps the summaries of jobs exact.
pub fn reconcile_summaries(_: &Call<'_>) -> Result<RouteOutcome, Response> {
    Ok(RouteOutcome::Respond(Response::text(200, "")))
}
