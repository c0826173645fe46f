//! The rules of blocking queries, and the headers that tell a reader where it stands (http-api.md 0.6, server.md 5).
//!
//! Refuses to know: who waits; `watch` keeps that.

use crate::query::{MAX_WAIT, Query};
use crate::response::Response;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome, Wait, WaitState};
use model::random::Stream;
use model::time::{Mono, Span};
use wire::http::MAX_HOLD;

/// Answers a read of `index`, or waits until it is above the asked one. `render` runs only if there is an answer.
/// `keys` and `seen` say what was read and at which index of the state.
pub fn answer(
    call: &Call<'_>,
    index: u64,
    keys: Vec<WatchKey>,
    seen: u64,
    render: impl FnOnce() -> Result<Response, Response>,
) -> Result<RouteOutcome, Response> {
    if let Some(wait) = wait(call, index, keys, seen) {
        return Ok(RouteOutcome::Wait(wait));
    }
    let response = match render() {
        Ok(response) | Err(response) => response,
    };
    Ok(RouteOutcome::Respond(with_index(call, response, index)))
}

/// `None`: there is an answer.
pub fn wait(call: &Call<'_>, index: u64, keys: Vec<WatchKey>, seen: u64) -> Option<Wait> {
    let asked = call.query.index;
    if asked == 0 || index.max(1) > asked {
        return None;
    }
    let until = call.state.query_until.unwrap_or_else(|| deadline(call));
    let state = WaitState { query_until: Some(until), leader_until: None, ..call.state };
    (call.ctx.now < until).then_some(Wait { keys, seen, wake_at: until, state })
}

/// An empty list that never changes: a blocking query waits to its end.
pub fn empty_list(call: &Call<'_>, index: u64) -> Result<RouteOutcome, Response> {
    let none: [(); 0] = [];
    answer(call, index, vec![], index, || Ok(Response::json(&none, call.query.pretty)))
}

/// With the headers of a read of `index`. Clients want them on everything that is no write.
pub fn with_index(call: &Call<'_>, response: Response, index: u64) -> Response {
    IndexHeaders::new(call, index).on(response)
}

/// What the headers of a read say.
#[derive(Clone, Copy, Debug)]
pub struct IndexHeaders {
    pub index: u64,
    pub known_leader: bool,
    /// How long the server that answers has not heard of its leader.
    pub last_contact: Span,
}

impl IndexHeaders {
    pub fn new(call: &Call<'_>, index: u64) -> IndexHeaders {
        let status = call.ctx.status;
        // what was confirmed a moment ago is as new as the leader's
        let last_contact = if call.state.confirmed { Span::ZERO } else { status.silence(call.ctx.now) };
        IndexHeaders { index: index.max(1), known_leader: status.leader.is_some(), last_contact }
    }

    pub fn on(self, response: Response) -> Response {
        response
            .with("X-Nomad-Index", self.index)
            .with("X-Nomad-KnownLeader", self.known_leader)
            .with("X-Nomad-LastContact", self.last_contact.as_nanos() / 1_000_000)
    }
}

/// The asked wait, at most `MAX_WAIT`, and up to a sixteenth of it more, so that queries that began together do not end
/// together.
fn deadline(call: &Call<'_>) -> Mono {
    let wait = asked_wait(&call.query);
    let jitter = Stream::new(call.ctx.seed, 0).span_below(most_jitter(wait));
    call.ctx.now.after(wait + jitter)
}

/// The longest that the query has its answer held back.
pub fn hold(query: &Query) -> Span {
    const { assert!(MAX_WAIT.0 + most_jitter(MAX_WAIT).0 <= MAX_HOLD.0, "no forwarded query is held longer") };
    if query.index == 0 {
        return Span::ZERO;
    }
    let wait = asked_wait(query);
    wait + most_jitter(wait)
}

fn asked_wait(query: &Query) -> Span {
    query.wait.unwrap_or(MAX_WAIT).min(MAX_WAIT)
}

const fn most_jitter(wait: Span) -> Span {
    Span(wait.0 / 16)
}
