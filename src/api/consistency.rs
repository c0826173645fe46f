//! Which agent may answer a request, and what must be confirmed first (server.md 5.2, http-api.md 0.10).
//!
//! Refuses to know: how a leader or a server is reached, and how a read index is confirmed.

use crate::query::Query;
use crate::response::Response;
use crate::routes::{AnsweredBy, MatchedRoute, client};
use crate::{Call, RelayTarget, RequestContext, RouteOutcome, Wait, WaitState, blocking};
use model::time::Span;
use wire::request::{Refusal, RefusalKind};

/// How long a request waits for a leader (http-api.md 0.6.5, server.md 5).
const LEADER_WAIT: Span = Span::seconds(5);
/// A waiting request looks for a leader again after as long as it has waited: soon, because one that just started leads within
/// milliseconds, and never more often than many held requests are worth.
const MIN_LEADER_POLL: Span = Span::millis(5);
const MAX_LEADER_POLL: Span = Span::millis(100);
/// The refusal when there is no leader.
pub const NO_LEADER: &str = "No cluster leader";
/// The refusal when nobody was reached who could have done anything.
const NO_SERVER: &str = "No server is in reach of this agent's node";

/// The refusal of a read at a follower that takes no entries: its index is not applied before there is room.
const LAGS_FULL: &str = "this server's disk is full, and it lacks what was written since: ask another server, or with `stale` \
                         for what this one has";

/// What comes before the answer. `None`: this agent may give it.
pub fn before_answer(call: &Call<'_>, found: &MatchedRoute) -> Result<Option<RouteOutcome>, Response> {
    match call.ctx.reader {
        Some(_) => at_server(found.route.answered_by, &call.query, call.ctx, call.state),
        None => without_server(call, found),
    }
}

/// What this agent does not answer itself it forwards.
fn without_server(call: &Call<'_>, found: &MatchedRoute) -> Result<Option<RouteOutcome>, Response> {
    let route = found.route;
    let is_answered_here = match route.answered_by {
        AnsweredBy::Own => true,
        AnsweredBy::OfAlloc => client::holds_alloc(call, found.name()),
        AnsweredBy::OfNamedAlloc => client::holds_alloc(call, call.query.text("allocID").unwrap_or_default()),
        AnsweredBy::OfNode => client::is_this_node(call),
        AnsweredBy::OfAgent => client::is_this_agent(call),
        AnsweredBy::Leader | AnsweredBy::Read | AnsweredBy::Any => false,
    };
    if is_answered_here {
        return Ok(None);
    }
    if route.answered_by.is_one_agent() {
        return Ok(Some(call.relayed_to(RelayTarget::OwnServer)));
    }
    if !route.kind.is_whole() {
        let what = format!("{} at an agent without a server: ask a server", route.pattern);
        return Err(Response::not_supported(&what));
    }
    let otherwise = wait_for_leader(call.ctx, call.state)?;
    Ok(Some(RouteOutcome::ForwardToServer { hold: blocking::hold(&call.query), otherwise }))
}

fn at_server(
    rule: AnsweredBy,
    query: &Query,
    ctx: &RequestContext<'_>,
    state: WaitState,
) -> Result<Option<RouteOutcome>, Response> {
    let may_answer = match rule {
        AnsweredBy::Any | AnsweredBy::Own => true,
        AnsweredBy::OfAlloc | AnsweredBy::OfNamedAlloc | AnsweredBy::OfNode | AnsweredBy::OfAgent => true,
        AnsweredBy::Leader => ctx.status.ready,
        AnsweredBy::Read => query.stale || state.confirmed || ctx.status.is_sole_authority(),
    };
    if may_answer {
        return Ok(None);
    }
    let another_leads = ctx.status.leader.is_some_and(|leader| leader != ctx.status.id);
    let wait = match wait_for_leader(ctx, state) {
        Err(_) if rule == AnsweredBy::Read && another_leads && ctx.status.storage_fault.is_some() => {
            return Err(Refusal::new(RefusalKind::Unavailable, LAGS_FULL).into());
        }
        wait => wait?,
    };
    Ok(Some(match rule {
        AnsweredBy::Leader if another_leads => RouteOutcome::Forward(wait),
        AnsweredBy::Read if ctx.status.has_peers && ctx.status.leader.is_some() => {
            RouteOutcome::ConfirmRead(wait)
        }
        _ => RouteOutcome::Wait(wait),
    }))
}

fn wait_for_leader(ctx: &RequestContext<'_>, state: WaitState) -> Result<Wait, Response> {
    let until = state.leader_until.unwrap_or(ctx.now.after(LEADER_WAIT));
    if ctx.now >= until {
        return Err(refusal(ctx).into());
    }
    let waited = Span(LEADER_WAIT.0 - until.since(ctx.now).0);
    let wake_at = ctx.now.after(waited.clamp(MIN_LEADER_POLL, MAX_LEADER_POLL)).min(until);
    let state = WaitState { leader_until: Some(until), ..state };
    Ok(Wait { keys: vec![], seen: 0, wake_at, state })
}

fn refusal(ctx: &RequestContext<'_>) -> Refusal {
    let why = match ctx.status.leader {
        _ if ctx.reader.is_none() => NO_SERVER,
        Some(leader) if leader == ctx.status.id => "Not ready to serve consistent reads",
        _ => NO_LEADER,
    };
    Refusal::new(RefusalKind::Unavailable, why)
}
