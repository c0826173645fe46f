//! Requests of users that are passed on whole: by the server that they came to, to the leader, which carries them out; and by
//! a node, to the server that it is connected to, which serves them as its own users'. Each caller gets one of three
//! things: the answer, that nothing was done, or that the outcome is unknown.
//!
//! Refuses to know: what a request means, and what an answer says. Invariant: each request is answered once.

use super::Server;
use super::context::Context;
use super::effects::Effect;
use super::nodes::{NotAuthentic, OTHER_NODE, WRONG_SECRET, authenticate};
use super::relayed_requests::RelayedRequests;
use model::id::NodeId;
use model::time::{Mono, Span};
use state::fault::Fault;
use std::collections::{BTreeMap, VecDeque};
use wire::frame::{self, Body, Frame, MAX_FRAME_BYTES};
use wire::http::{
    ForwardFailure, ForwardedResponse, MAX_HOLD, Method, NodeHttpReply, NodeHttpRequest, Request,
};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;
use wire::server_rpc::{ServerReply, ServerRequest};

/// Requests that this server has passed on and that are not answered.
const MAX_FORWARDED: usize = 1024;
/// Requests of other servers that this one is carrying out, and as many of nodes.
const MAX_SERVED: usize = 1024;
/// Requests that are remembered, so that a copy is recognised: all that may be under way.
const MAX_TAKEN: usize = 2 * MAX_SERVED;
/// Bytes of their bodies together, and as many of nodes'.
const MAX_SERVED_BYTES: usize = 64 << 20;
/// How long an answer is waited for: as long as a caller of the API waits for its write.
const FORWARD_TIMEOUT: Span = Span::seconds(30);
/// How long a server that leads no more is waited for: one that lives answers within a turn or two, and tells what it knows.
const FORMER_LEADER_TIMEOUT: Span = Span::seconds(1);
/// What a node passes on may be a blocking query, which is held: the node knows for how long it waits.
const NODE_TIMEOUT: Span = Span(FORWARD_TIMEOUT.0 + MAX_HOLD.0);

impl Server {
    /// Calls `work` with the forwarding and a context of all the rest.
    pub(super) fn with_forwarding(
        &mut self,
        now: Mono,
        work: impl FnOnce(&mut Forwarding, &mut Context<'_>),
    ) {
        let (parts, mut cx) = self.parts(now);
        work(parts.forwarding, &mut cx);
    }

    /// A node's user is served by the server that the node is connected to, whether it leads or not.
    pub(super) fn handle_user_request(
        &mut self,
        from: NodeId,
        number: u64,
        asked: NodeHttpRequest,
        now: Mono,
    ) -> Result<(), Fault> {
        let (_, mut cx) = self.split(now);
        let refused = |why| NodeHttpReply::Refused(Refusal::new(RefusalKind::Forbidden, why));
        let said = match authenticate(asked.node, asked.secret, &cx.view()?)? {
            _ if asked.node != from => refused(OTHER_NODE),
            Ok(_) => {
                let request = Box::new(asked.request);
                self.with_forwarding(now, |all, cx| all.serve(Peer::Node(from), number, request, false, cx));
                return Ok(());
            }
            // the node may have registered with the leader, and this server has not applied that yet
            Err(NotAuthentic::Unknown) => NodeHttpReply::NotDone,
            Err(NotAuthentic::WrongSecret) => refused(WRONG_SECRET),
        };
        reply(Peer::Node(from), number, said, &mut cx);
        Ok(())
    }
}

#[derive(Default)]
pub struct Forwarding {
    /// By the number in the frame.
    forwarded: BTreeMap<u64, Forwarded>,
    served: BTreeMap<u64, Served>,
    /// Requests that were taken to be served, the newest last, answered ones, too: none is carried out twice.
    taken: VecDeque<(Peer, u64)>,
    pub of_nodes: RelayedRequests,
    numbers: u64,
}

struct Forwarded {
    token: u64,
    to: u64,
    deadline: Mono,
}

struct Served {
    from: Peer,
    request: u64,
    is_read: bool,
    bytes: usize,
    deadline: Mono,
}

impl Served {
    fn is_of_node(&self) -> bool {
        matches!(self.from, Peer::Node(_))
    }
}

impl Forwarding {
    /// `first`: where its numbers begin, so that an answer to an earlier run of this server is not taken for one to this.
    pub fn new(first: u64) -> Forwarding {
        Forwarding { numbers: first, ..Forwarding::default() }
    }

    /// A request of this server's own user. `leader`: another server that leads.
    pub fn forward(&mut self, token: u64, request: Box<Request>, leader: Option<u64>, cx: &mut Context<'_>) {
        let Some(to) = leader else { return fail(token, ForwardFailure::NotDone, cx) };
        if self.forwarded.len() >= MAX_FORWARDED {
            let why = "too many requests wait for the leader: try again shortly";
            return fail(token, ForwardFailure::Refused(Refusal::new(RefusalKind::Busy, why)), cx);
        }
        self.numbers = self.numbers.wrapping_add(1);
        let body = Body::ServerRequest(ServerRequest::Http(request));
        let bytes = frame::encode(&Frame { request: self.numbers, body });
        if bytes.len() > MAX_FRAME_BYTES {
            let why = format!("the request has {} bytes, the leader takes {MAX_FRAME_BYTES}", bytes.len());
            return fail(token, ForwardFailure::Refused(Refusal::new(RefusalKind::Invalid, why)), cx);
        }
        let deadline = cx.now.after(FORWARD_TIMEOUT);
        self.forwarded.insert(self.numbers, Forwarded { token, to, deadline });
        cx.send(Peer::Server(to), bytes);
    }

    /// The answer of the server that was asked; an answer of another one, and a second one, is dropped.
    pub fn answered(&mut self, from: u64, number: u64, reply: ServerReply, cx: &mut Context<'_>) {
        if self.forwarded.get(&number).is_none_or(|f| f.to != from) {
            return;
        }
        let result = match reply {
            ServerReply::Http(response) => Ok(response),
            ServerReply::NotLeader => Err(ForwardFailure::NotDone),
            ServerReply::Refused(refusal) => Err(ForwardFailure::Refused(refusal)),
            // no answer to a forwarded request
            ServerReply::Node { .. }
            | ServerReply::Deliver { .. }
            | ServerReply::Removed
            | ServerReply::TooOld { .. } => return,
        };
        if let Some(Forwarded { token, .. }) = self.forwarded.remove(&number) {
            cx.outbox.effect(Effect::Forwarded { token, result });
        }
    }

    /// A request that was passed on: by another server, for a leader alone, or by a node, for any server. `leads`: this one has
    /// applied what came before its term.
    pub fn serve(
        &mut self,
        from: Peer,
        number: u64,
        request: Box<Request>,
        leads: bool,
        cx: &mut Context<'_>,
    ) {
        // the request came twice, perhaps long after its answer: "not done" would be untrue if this server led at first
        if self.taken.contains(&(from, number)) {
            return;
        }
        let is_of_node = matches!(from, Peer::Node(_));
        if !is_of_node && !leads {
            return reply(from, number, NodeHttpReply::NotDone, cx);
        }
        let bytes = request.body.len();
        let alike = || self.served.values().filter(|served| served.is_of_node() == is_of_node);
        let held: usize = alike().map(|served| served.bytes).sum();
        if alike().count() >= MAX_SERVED || held + bytes > MAX_SERVED_BYTES {
            let whose = if is_of_node { "nodes' users" } else { "other servers" };
            let why = format!("too many requests of {whose} are under way: try again shortly");
            let refused = NodeHttpReply::Refused(Refusal::new(RefusalKind::Busy, why));
            return reply(from, number, refused, cx);
        }
        self.numbers = self.numbers.wrapping_add(1);
        let deadline = cx.now.after(if is_of_node { NODE_TIMEOUT } else { FORWARD_TIMEOUT });
        let is_read = matches!(request.method, Method::Get | Method::Head);
        self.served.insert(self.numbers, Served { from, request: number, is_read, bytes, deadline });
        self.taken.push_back((from, number));
        if self.taken.len() > MAX_TAKEN {
            self.taken.pop_front();
        }
        cx.outbox.effect(Effect::Serve { serving: self.numbers, request, leader_only: !is_of_node });
    }

    /// `response`: `None` if this server could not serve it, and nothing was done.
    pub fn served(&mut self, serving: u64, response: Option<ForwardedResponse>, cx: &mut Context<'_>) {
        let Some(Served { from, request, is_read, .. }) = self.served.remove(&serving) else { return };
        let said = response.map_or(NodeHttpReply::NotDone, |response| fitting(response, is_read));
        reply(from, request, said, cx);
    }

    /// The connection to that server or node is gone, and what was under way on it with it.
    pub fn link_down(&mut self, peer: Peer, cx: &mut Context<'_>) {
        for (_, Forwarded { token, .. }) in self.forwarded.extract_if(.., |_, f| Peer::Server(f.to) == peer) {
            fail(token, ForwardFailure::Unknown, cx);
        }
        self.served.retain(|_, served| served.from != peer);
        self.taken.retain(|(from, _)| *from != peer);
        self.of_nodes.link_down(peer);
    }

    /// That server leads. One that led before may be dead: it gets a moment more for its answers.
    pub fn leader_known(&mut self, leader: u64, now: Mono) {
        let latest = now.after(FORMER_LEADER_TIMEOUT);
        for forwarded in self.forwarded.values_mut().filter(|f| f.to != leader) {
            forwarded.deadline = forwarded.deadline.min(latest);
        }
    }

    /// Gives up what was waited for too long.
    pub fn expire(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        for (_, Forwarded { token, .. }) in self.forwarded.extract_if(.., |_, f| f.deadline <= now) {
            fail(token, ForwardFailure::Unknown, cx);
        }
        self.served.retain(|_, served| served.deadline > now);
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.forwarded.values().map(|f| f.deadline).chain(self.served.values().map(|s| s.deadline)).min()
    }
}

fn fail(token: u64, why: ForwardFailure, cx: &mut Context<'_>) {
    cx.outbox.effect(Effect::Forwarded { token, result: Err(why) });
}

/// Sends a reply: to a node as it is, to a server as a `ServerReply`.
fn reply(to: Peer, number: u64, said: NodeHttpReply, cx: &mut Context<'_>) {
    let body = match (to, said) {
        (Peer::Node(_), said) => Body::HttpReply(said),
        (Peer::Server(_), NodeHttpReply::Answered(response)) => {
            Body::ServerReply(ServerReply::Http(response))
        }
        (Peer::Server(_), NodeHttpReply::NotDone) => Body::ServerReply(ServerReply::NotLeader),
        (Peer::Server(_), NodeHttpReply::Refused(refusal)) => {
            Body::ServerReply(ServerReply::Refused(refusal))
        }
    };
    cx.send(to, frame::encode(&Frame { request: number, body }));
}

/// An answer that is too long for a frame is replaced by a sentence that says so: the request was carried out all the same.
fn fitting(response: ForwardedResponse, is_read: bool) -> NodeHttpReply {
    const ROOM_BYTES: usize = 16 << 10;
    if response.body.len() + ROOM_BYTES <= MAX_FRAME_BYTES {
        return NodeHttpReply::Answered(response);
    }
    let bytes = response.body.len();
    let why = match is_read {
        true => format!(
            "the answer has {bytes} bytes, and {MAX_FRAME_BYTES} can be passed on: ask for less with per_page, a prefix or a \
             filter, or ask a server itself"
        ),
        false => format!(
            "it was done, but the answer of {bytes} bytes is too long to be passed on: ask the server that gave it"
        ),
    };
    NodeHttpReply::Refused(Refusal::new(RefusalKind::Unavailable, why))
}

#[cfg(test)]
mod tests;
