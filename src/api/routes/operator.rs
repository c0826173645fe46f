//! Operator routes: the Raft configuration, autopilot health, garbage collection (http-api.md 9.4, 9.5).
//!
//! Refuses to know: what a server does; it is told as the published status has it.

use crate::response::Response;
use crate::shape::operator::{AutopilotShape, RaftShape, TransferShape};
use crate::{Call, RouteOutcome, WriteKind, WriteResponder};
use model::member::{ServerMember, Suffrage};
use wire::request::{WriteReply, WriteRequest};

pub fn raft_configuration(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let shape = RaftShape::new(call.ctx.status);
    Ok(RouteOutcome::Respond(Response::json(&shape, call.query.pretty)))
}

/// The server of the region that a query names. `None`: it names none.
fn named_server(call: &Call<'_>) -> Result<Option<u64>, Response> {
    let said = |key: &str| call.query.text(key).filter(|text| !text.is_empty());
    let members = &call.ctx.status.members;
    match (said("id"), said("address")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Response::text(400, "Must specify only one of ?id or ?address")),
        (Some(id), None) => {
            let found = members.iter().find(|member| member.id.to_string() == id);
            let absent = || Response::text(500, format!("id {id:?} was not found in the Raft configuration"));
            Ok(Some(found.ok_or_else(absent)?.id))
        }
        (None, Some(address)) => {
            let mut found = members.iter().filter(|member| member.info.rpc_addr == address);
            match (found.next(), found.next()) {
                (Some(member), None) => Ok(Some(member.id)),
                (None, _) => {
                    let why = format!("address {address:?} was not found in the Raft configuration");
                    Err(Response::text(500, why))
                }
                (Some(_), Some(_)) => {
                    let why = format!("several servers have address {address:?}: name one by its ?id");
                    Err(Response::text(400, why))
                }
            }
        }
    }
}

/// Removes a server. A user who asks again, because an answer was lost, is told the same of one that is removed already.
pub fn remove_server(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let named = match removed_server(call)? {
        Some(id) => Some(id),
        None => named_server(call)?,
    };
    let Some(id) = named else {
        let why = "Must specify either ?id with the server's ID or ?address with IP:port of peer to remove";
        return Err(Response::text(400, why));
    };
    let answer = WriteResponder { kind: WriteKind::Written, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::RemoveServer { id }, answer))
}

/// The server that is named by its id, if it is removed.
fn removed_server(call: &Call<'_>) -> Result<Option<u64>, Response> {
    let Some(id) = call.query.text("id").filter(|_| call.query.text("address").is_none()) else {
        return Ok(None);
    };
    let members = call.view()?.members()?;
    let is_named =
        |member: &&ServerMember| member.suffrage == Suffrage::Removed && member.id.to_string() == id;
    Ok(members.iter().find(is_named).map(|member| member.id))
}

/// To the server that is named, or to whichever is fit.
pub fn transfer_leadership(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let (to, status) = (named_server(call)?, call.ctx.status);
    if to.is_some() && to == status.leader {
        let shape = TransferShape::new(&status.members, (status.leader, to));
        return Ok(RouteOutcome::Respond(Response::json(&shape, call.query.pretty)));
    }
    let kind = WriteKind::LeadershipTransferred { from: status.leader, servers: status.members.clone() };
    let answer = WriteResponder { kind, pretty: call.query.pretty };
    Ok(RouteOutcome::Write(WriteRequest::TransferLeadership { to }, answer))
}

/// What became of it.
pub fn transferred(
    reply: &WriteReply,
    from: Option<u64>,
    servers: &[ServerMember],
    pretty: bool,
) -> Response {
    let to = match reply {
        WriteReply::Transferred { to, .. } => Some(*to),
        _ => None,
    };
    Response::json(&TransferShape::new(servers, (from, to)), pretty)
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
