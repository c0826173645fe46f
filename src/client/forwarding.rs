//! Requests of users that a server has to answer: passed on whole to the server that this node is connected to. Each caller
//! gets the answer, or that nothing was done, or that the outcome is unknown.
//!
//! Refuses to know: what a request means, and which server is asked. Invariants: each request is answered once; no request waits
//! for a server that this node has left; the node's own requests have numbers and deadlines of their own, and are not delayed by
//! these.

use super::effects::{Effect, PendingEffects};
use model::time::{Mono, Span};
use std::collections::BTreeMap;
use wire::frame::{self, Body, Frame, MAX_FRAME_BYTES};
use wire::http::{ForwardFailure, ForwardedResponse, MAX_HOLD, NodeHttpReply, NodeHttpRequest};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;

/// Requests that are passed on and not answered: a server takes some nodes' share.
const MAX_IN_FLIGHT: usize = 256;
/// Bytes of those requests together: three of the largest.
const MAX_BYTES_IN_FLIGHT: usize = 3 * MAX_FRAME_BYTES;
/// How long an answer is waited for beyond the wait of the request itself.
const FORWARD_TIMEOUT: Span = Span::seconds(30);

#[derive(Debug, Default)]
pub struct UserRequests {
    /// By the number in the frame.
    in_flight: BTreeMap<u64, ForwardedRequest>,
}

#[derive(Debug)]
struct ForwardedRequest {
    token: u64,
    to: u64,
    bytes: usize,
    deadline: Mono,
}

/// The user who asks, and for how long the request has its answer held back.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub token: u64,
    pub hold: Span,
}

impl UserRequests {
    /// `to`: the server that this node is connected to. `number`: of no other frame.
    pub fn forward(
        &mut self,
        caller: Caller,
        asked: NodeHttpRequest,
        to: Option<u64>,
        number: u64,
        now: Mono,
        effects: &mut PendingEffects,
    ) {
        let Caller { token, hold } = caller;
        let Some(to) = to else { return fail(token, ForwardFailure::NotDone, effects) };
        let bytes = frame::encode(&Frame { request: number, body: Body::HttpRequest(asked) });
        if let Err(refusal) = self.has_room(bytes.len()) {
            return fail(token, ForwardFailure::Refused(refusal), effects);
        }
        let deadline = now.after(FORWARD_TIMEOUT + hold.min(MAX_HOLD));
        self.in_flight.insert(number, ForwardedRequest { token, to, bytes: bytes.len(), deadline });
        effects.push(Effect::Send { to: Peer::Server(to), bytes });
    }

    fn has_room(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > MAX_FRAME_BYTES {
            let why = format!("the request has {bytes} bytes, servers take {MAX_FRAME_BYTES}");
            return Err(Refusal::new(RefusalKind::Invalid, why));
        }
        let held: usize = self.in_flight.values().map(|request| request.bytes).sum();
        if self.in_flight.len() >= MAX_IN_FLIGHT || held + bytes > MAX_BYTES_IN_FLIGHT {
            let why = "too many requests wait for the servers: try again shortly";
            return Err(Refusal::new(RefusalKind::Busy, why));
        }
        Ok(())
    }

    /// The answer of the server that was asked; an answer of another one, and a second one, is dropped.
    pub fn answered(&mut self, from: Peer, number: u64, reply: NodeHttpReply, effects: &mut PendingEffects) {
        if self.in_flight.get(&number).is_none_or(|request| Peer::Server(request.to) != from) {
            return;
        }
        let result = match reply {
            NodeHttpReply::Answered(response) => Ok(response),
            NodeHttpReply::NotDone => Err(ForwardFailure::NotDone),
            NodeHttpReply::Refused(refusal) => Err(ForwardFailure::Refused(refusal)),
        };
        if let Some(ForwardedRequest { token, .. }) = self.in_flight.remove(&number) {
            answer(token, result, effects);
        }
    }

    /// The connection to that server is gone, and what was under way on it with it.
    pub fn link_down(&mut self, server: u64, effects: &mut PendingEffects) {
        self.fail_where(|request| request.to == server, effects);
    }

    /// Gives up requests to a server that this node is not connected to any more, and those that have waited for long enough.
    pub fn advance(&mut self, connected_to: Option<u64>, now: Mono, effects: &mut PendingEffects) {
        self.fail_where(|request| Some(request.to) != connected_to || request.deadline <= now, effects);
    }

    fn fail_where(&mut self, is_lost: impl Fn(&ForwardedRequest) -> bool, effects: &mut PendingEffects) {
        for (_, ForwardedRequest { token, .. }) in
            self.in_flight.extract_if(.., |_, request| is_lost(request))
        {
            fail(token, ForwardFailure::Unknown, effects);
        }
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.in_flight.values().map(|request| request.deadline).min()
    }
}

fn fail(token: u64, why: ForwardFailure, effects: &mut PendingEffects) {
    answer(token, Err(why), effects);
}

fn answer(token: u64, result: Result<ForwardedResponse, ForwardFailure>, effects: &mut PendingEffects) {
    effects.push(Effect::Forwarded { token, result });
}
