//! Which server may answer a request, and what must be confirmed first (server.md 5.2).
//!
//! Refuses to know: how a leader is reached, and how a read index is confirmed.

use crate::query::Query;
use crate::response::Response;
use crate::routes::LeaderRule;
use crate::{RequestContext, RouteOutcome, Wait, WaitState};
use model::time::Span;
use wire::request::{Refusal, RefusalKind};

/// How long a request waits for a leader (http-api.md 0.6.5, server.md 5), and how often it looks.
const LEADER_WAIT: Span = Span::seconds(5);
const LEADER_POLL_INTERVAL: Span = Span::millis(100);
/// The refusal when there is no leader.
pub const NO_LEADER: &str = "No cluster leader";

/// What comes before the answer. `None`: this server may give it.
pub fn before_answer(
    rule: LeaderRule,
    query: &Query,
    ctx: &RequestContext<'_>,
    state: WaitState,
) -> Result<Option<RouteOutcome>, Response> {
    let may_answer = match rule {
        LeaderRule::Any => true,
        LeaderRule::Leader => ctx.status.ready,
        LeaderRule::Read => query.stale || state.confirmed || ctx.status.is_sole_authority(),
    };
    if may_answer {
        return Ok(None);
    }
    let until = state.leader_until.unwrap_or(ctx.now.after(LEADER_WAIT));
    if ctx.now >= until {
        return Err(refusal(ctx).into());
    }
    let wake_at = ctx.now.after(LEADER_POLL_INTERVAL).min(until);
    let state = WaitState { leader_until: Some(until), ..state };
    let wait = Wait { keys: vec![], seen: 0, wake_at, state };
    let another_leads = ctx.status.leader.is_some_and(|leader| leader != ctx.status.id);
    Ok(Some(match rule {
        LeaderRule::Leader if another_leads => RouteOutcome::Forward(wait),
        LeaderRule::Read if ctx.status.has_peers && ctx.status.leader.is_some() => {
            RouteOutcome::ConfirmRead(wait)
        }
        _ => RouteOutcome::Wait(wait),
    }))
}

fn refusal(ctx: &RequestContext<'_>) -> Refusal {
    let why = match ctx.status.leader {
        Some(leader) if leader == ctx.status.id => "Not ready to serve consistent reads",
        _ => NO_LEADER,
    };
    Refusal::new(RefusalKind::Unavailable, why)
}
