//! Requests of users that a server has to answer: passed on whole to the server that this node is connected to. Whoever asked is told
//! the truth: the answer, that nothing was done, or that nobody knows.
//!
//! Refuses to know: what a request means, and which server is asked. Invariants: each request is answered once; nothing waits for
//! a server that this node has turned away from; the node's own requests have numbers and deadlines of their own, and nothing
//! here holds them up.

use super::effects::{Effect, PendingEffects};
use model::time::{Mono, Span};
use std::collections::BTreeMap;
use wire::frame::{self, Body, Frame, MAX_FRAME_BYTES};
use wire::http::{ForwardFailure, ForwardedResponse, MAX_HOLD, NodeHttpReply, NodeHttpRequest};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;

/// Requests that are passed on and not answered: a server takes some nodes' share.
const MAX_UNDER_WAY: usize = 256;
/// Bytes of those requests together: three of the largest.
const MAX_BYTES_UNDER_WAY: usize = 3 * MAX_FRAME_BYTES;
/// How long an answer is waited for beyond what the request itself has it held back.
const FORWARD_TIMEOUT: Span = Span::seconds(30);

#[derive(Debug, Default)]
pub struct UserRequests {
    /// By the number in the frame.
    under_way: BTreeMap<u64, ForwardedRequest>,
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
        self.under_way.insert(number, ForwardedRequest { token, to, bytes: bytes.len(), deadline });
        effects.push(Effect::Send { to: Peer::Server(to), bytes });
    }

    fn has_room(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > MAX_FRAME_BYTES {
            let why = format!("the request has {bytes} bytes, servers take {MAX_FRAME_BYTES}");
            return Err(Refusal::new(RefusalKind::Invalid, why));
        }
        let held: usize = self.under_way.values().map(|request| request.bytes).sum();
        if self.under_way.len() >= MAX_UNDER_WAY || held + bytes > MAX_BYTES_UNDER_WAY {
            let why = "too many requests wait for the servers: try again shortly";
            return Err(Refusal::new(RefusalKind::Busy, why));
        }
        Ok(())
    }

    /// The answer of the server that was asked; an answer of another one, and a second one, is dropped.
    pub fn answered(&mut self, from: Peer, number: u64, reply: NodeHttpReply, effects: &mut PendingEffects) {
        if self.under_way.get(&number).is_none_or(|request| Peer::Server(request.to) != from) {
            return;
        }
        let result = match reply {
            NodeHttpReply::Answered(response) => Ok(response),
            NodeHttpReply::NotDone => Err(ForwardFailure::NotDone),
            NodeHttpReply::Refused(refusal) => Err(ForwardFailure::Refused(refusal)),
        };
        if let Some(ForwardedRequest { token, .. }) = self.under_way.remove(&number) {
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
            self.under_way.extract_if(.., |_, request| is_lost(request))
        {
            fail(token, ForwardFailure::Unknown, effects);
        }
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.under_way.values().map(|request| request.deadline).min()
    }
}

fn fail(token: u64, why: ForwardFailure, effects: &mut PendingEffects) {
    answer(token, Err(why), effects);
}

fn answer(token: u64, result: Result<ForwardedResponse, ForwardFailure>, effects: &mut PendingEffects) {
    effects.push(Effect::Forwarded { token, result });
}
