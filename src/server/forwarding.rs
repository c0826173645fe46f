//! Requests of users that are passed on whole: by the server that they came to, to the leader, which carries them out; and by
//! a node, to the server that it is connected to, which serves them as its own users'. Each caller gets one of three
//! things: the answer, that nothing was done, or that the outcome is unknown.
//!
//! Refuses to know: what a request means, and what an answer says. Invariant: each request is answered once.

use super::Server;
use super::context::Context;
use super::effects::Effect;
use super::nodes::{NotAuthentic, WRONG_SECRET, authenticate};
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
        let said = match authenticate(asked.node, asked.secret, &cx.view()?)? {
            Ok(_) => {
                let request = Box::new(asked.request);
                self.with_forwarding(now, |all, cx| all.serve(Peer::Node(from), number, request, false, cx));
                return Ok(());
            }
            // the node may have registered with the leader, and this server has not applied that yet
            Err(NotAuthentic::Unknown) => NodeHttpReply::NotDone,
            Err(NotAuthentic::WrongSecret) => {
                NodeHttpReply::Refused(Refusal::new(RefusalKind::Forbidden, WRONG_SECRET))
            }
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
mod tests {
    use super::super::effects::Input;
    use super::super::testing::Alone;
    use super::*;
    use state::samples::{info, node_id};

    const LEADER: u64 = 8;

    fn request() -> Box<Request> {
        let path = "/v1/jobs".to_string();
        Box::new(Request {
            method: Method::Put,
            path,
            query: String::new(),
            body: vec![1, 2],
            websocket: false,
        })
    }

    fn response(status: u16) -> ForwardedResponse {
        ForwardedResponse { status, headers: vec![], body: vec![] }
    }
    type Answers = Vec<(u64, Result<ForwardedResponse, ForwardFailure>)>;

    /// What leaves: frames, and answers to users.
    fn effects(
        alone: &mut Alone,
        work: impl FnOnce(&mut Forwarding, &mut Context<'_>),
    ) -> (Vec<Frame>, Answers) {
        let now = alone.now;
        alone.server.with_forwarding(now, work);
        let (mut frames, mut answers) = (vec![], vec![]);
        for effect in alone.server.outbox.take_effects().0 {
            match effect {
                Effect::Send { bytes, .. } => {
                    frames.push(frame::decode(&bytes).expect("is a frame"));
                }
                Effect::Forwarded { token, result } => answers.push((token, result)),
                Effect::Serve { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        (frames, answers)
    }

    #[test]
    fn a_request_is_answered_once_by_the_server_that_was_asked() {
        let mut alone = Alone::with(|_| {});
        let (frames, answers) = effects(&mut alone, |f, cx| f.forward(5, request(), Some(LEADER), cx));
        let [Frame { request: number, body: Body::ServerRequest(ServerRequest::Http(sent)) }] = &frames[..]
        else {
            panic!("{frames:?}");
        };
        assert_eq!((sent, answers), (&request(), vec![]));
        let reply = || ServerReply::Http(response(200));
        let (_, none) = effects(&mut alone, |f, cx| f.answered(9, *number, reply(), cx));
        assert_eq!(none, [], "another server was not asked");
        let (_, one) = effects(&mut alone, |f, cx| f.answered(LEADER, *number, reply(), cx));
        assert_eq!(one, [(5, Ok(response(200)))]);
        let (_, none) = effects(&mut alone, |f, cx| f.answered(LEADER, *number, reply(), cx));
        assert_eq!(none, [], "once");
    }

    #[test]
    fn a_lost_link_and_time_leave_a_request_unknown() {
        let mut alone = Alone::with(|_| {});
        let (_, refused) = effects(&mut alone, |f, cx| f.forward(1, request(), None, cx));
        assert_eq!(refused, [(1, Err(ForwardFailure::NotDone))], "nobody leads");
        effects(&mut alone, |f, cx| f.forward(2, request(), Some(LEADER), cx));
        let (_, none) = effects(&mut alone, |f, cx| f.link_down(Peer::Server(9), cx));
        assert_eq!(none, []);
        let (_, lost) = effects(&mut alone, |f, cx| f.link_down(Peer::Server(LEADER), cx));
        assert_eq!(lost, [(2, Err(ForwardFailure::Unknown))]);
        effects(&mut alone, |f, cx| f.forward(3, request(), Some(LEADER), cx));
        let due = alone.server.forwarding.next_deadline().expect("nobody waits for ever");
        alone.now = due;
        let (_, late) = effects(&mut alone, Forwarding::expire);
        assert_eq!(late, [(3, Err(ForwardFailure::Unknown))]);
        assert_eq!(alone.server.forwarding.next_deadline(), None);
    }

    #[test]
    fn requests_of_other_servers_are_served_by_a_leader_alone() {
        let mut alone = Alone::with(|_| {});
        let server = Peer::Server(8);
        let (frames, _) = effects(&mut alone, |f, cx| f.serve(server, 40, request(), false, cx));
        let told = |reply| Frame { request: 40, body: Body::ServerReply(reply) };
        assert_eq!(frames, [told(ServerReply::NotLeader)]);
        let (serving, leader_only) = served(&mut alone, server, true);
        assert!(leader_only);
        let now = alone.now;
        alone.server.with_forwarding(now, |f, cx| f.serve(server, 40, request(), true, cx));
        assert!(alone.server.outbox.take_effects().0.is_empty(), "it came twice, and is under way");
        let (frames, _) = effects(&mut alone, |f, cx| f.served(serving, Some(response(201)), cx));
        assert_eq!(frames, [told(ServerReply::Http(response(201)))]);
        let (frames, _) = effects(&mut alone, |f, cx| f.served(serving, Some(response(201)), cx));
        assert_eq!(frames, [], "once");
        alone.server.with_forwarding(now, |f, cx| f.serve(server, 40, request(), true, cx));
        assert!(alone.server.outbox.take_effects().0.is_empty(), "a copy that comes after the answer");
        let (frames, _) = effects(&mut alone, |f, cx| f.serve(server, 40, request(), false, cx));
        assert_eq!(frames, [], "nor is it \"not done\" once this server leads no more");
        effects(&mut alone, |f, cx| f.link_down(server, cx));
        served(&mut alone, server, true);
    }

    #[test]
    fn a_former_leader_keeps_no_user_waiting() {
        let mut alone = Alone::with(|_| {});
        effects(&mut alone, |f, cx| f.forward(1, request(), Some(LEADER), cx));
        let (now, due) = (alone.now, alone.server.forwarding.next_deadline());
        let mut known = |leader| {
            alone.server.with_forwarding(now, |f, cx| f.leader_known(leader, cx.now));
            alone.server.forwarding.next_deadline()
        };
        assert_eq!(known(LEADER), due);
        assert_eq!(known(LEADER + 1), Some(now.after(FORMER_LEADER_TIMEOUT)));
        alone.now = alone.now.after(FORMER_LEADER_TIMEOUT);
        let now = alone.now;
        alone.server.with_forwarding(now, |f, cx| f.leader_known(LEADER + 1, cx.now));
        let (_, late) = effects(&mut alone, Forwarding::expire);
        assert_eq!(late, [(1, Err(ForwardFailure::Unknown))], "the time is not begun anew");
    }

    /// What is to be served now, and whether by a leader alone.
    fn served(alone: &mut Alone, from: Peer, leads: bool) -> (u64, bool) {
        let now = alone.now;
        alone.server.with_forwarding(now, |f, cx| f.serve(from, 40, request(), leads, cx));
        match &alone.server.outbox.take_effects().0[..] {
            [Effect::Serve { serving, leader_only, .. }] => (*serving, *leader_only),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_of_a_nodes_users_are_served_by_any_server() {
        let mut alone = Alone::with(|_| {});
        let node = Peer::Node(node_id(1));
        let told = |reply| Frame { request: 40, body: Body::HttpReply(reply) };
        let long = ForwardedResponse { body: vec![0; MAX_FRAME_BYTES], ..response(200) };
        for (said, wanted) in [
            (Some(response(201)), Some(NodeHttpReply::Answered(response(201)))),
            (None, Some(NodeHttpReply::NotDone)),
            (Some(long), None),
        ] {
            let (serving, leader_only) = served(&mut alone, node, false);
            assert!(!leader_only, "it is as one of its own users");
            let (frames, _) = effects(&mut alone, |f, cx| f.served(serving, said, cx));
            match (&frames[..], wanted) {
                (frames, Some(wanted)) => assert_eq!(frames, [told(wanted)]),
                ([Frame { body: Body::HttpReply(NodeHttpReply::Refused(why)), .. }], None) => {
                    assert!(why.message.starts_with("it was done, but"), "{why:?}");
                }
                (frames, None) => panic!("{frames:?}"),
            }
            effects(&mut alone, |f, cx| f.link_down(node, cx));
        }
        let (large, now) = (response(200), alone.now);
        let read = Box::new(Request { method: Method::Get, ..*request() });
        alone.server.with_forwarding(now, |f, cx| f.serve(node, 40, read, false, cx));
        let Some(Effect::Serve { serving, .. }) = alone.server.outbox.take_effects().0.pop() else {
            panic!()
        };
        let large = ForwardedResponse { body: vec![0; MAX_FRAME_BYTES], ..large };
        let (frames, _) = effects(&mut alone, |f, cx| f.served(serving, Some(large), cx));
        let [Frame { body: Body::HttpReply(NodeHttpReply::Refused(why)), .. }] = &frames[..] else {
            panic!()
        };
        assert!(why.message.contains("ask for less with per_page"), "{why:?}");
        effects(&mut alone, |f, cx| f.link_down(node, cx));
        let (serving, _) = served(&mut alone, node, false);
        effects(&mut alone, |f, cx| f.link_down(Peer::Node(node_id(2)), cx));
        assert!(alone.server.forwarding.served.contains_key(&serving), "another node is gone");
        effects(&mut alone, |f, cx| f.link_down(node, cx));
        let (frames, _) = effects(&mut alone, |f, cx| f.served(serving, Some(response(200)), cx));
        assert_eq!(frames, [], "nobody waits for it");
        served(&mut alone, node, false);
        let due = alone.server.forwarding.next_deadline().expect("nobody waits for ever");
        assert_eq!(due, alone.now.after(MAX_HOLD + Span::seconds(30)), "as long as a query may be held");
    }

    #[test]
    fn only_a_node_that_is_known_has_users_served() {
        let mut alone = Alone::with(|_| {});
        let mut ask = |node: u128, secret: u128| {
            let asked = NodeHttpRequest {
                node: node_id(node),
                secret: info(secret).secret,
                request: Request::clone(&request()),
            };
            let bytes = frame::encode(&Frame { request: 40, body: Body::HttpRequest(asked) });
            let from = Peer::Node(node_id(node));
            let effects = alone.turn(vec![Input::Frame { from, bytes }]).effects;
            let said = effects.into_iter().find_map(|effect| match effect {
                Effect::Send { to: Peer::Node(_), bytes } => {
                    Some(frame::decode(&bytes).expect("is a frame").body)
                }
                Effect::Serve { .. } => Some(Body::Raft(vec![])),
                _ => None,
            });
            if node == 9 {
                alone.add_node(info(1));
            }
            said
        };
        assert_eq!(ask(9, 9), Some(Body::HttpReply(NodeHttpReply::NotDone)));
        let wrong = Refusal::new(RefusalKind::Forbidden, WRONG_SECRET);
        assert_eq!(ask(1, 2), Some(Body::HttpReply(NodeHttpReply::Refused(wrong))));
        assert_eq!(ask(1, 1), Some(Body::Raft(vec![])), "it is served");
    }

    #[test]
    fn requests_under_way_are_bounded() {
        let mut alone = Alone::with(|_| {});
        for token in 0..MAX_FORWARDED as u64 {
            effects(&mut alone, |f, cx| f.forward(token, request(), Some(LEADER), cx));
        }
        let (frames, refused) = effects(&mut alone, |f, cx| f.forward(9_999, request(), Some(LEADER), cx));
        assert_eq!(frames, []);
        let busy =
            |f: &ForwardFailure| matches!(f, ForwardFailure::Refused(r) if r.kind == RefusalKind::Busy);
        assert!(matches!(&refused[..], [(9_999, Err(why))] if busy(why)), "{refused:?}");
        let mut long = request();
        long.body = vec![0; MAX_FRAME_BYTES];
        let mut alone = Alone::with(|_| {});
        let (frames, refused) = effects(&mut alone, |f, cx| f.forward(1, long, Some(LEADER), cx));
        assert_eq!(frames, []);
        assert!(matches!(&refused[..], [(1, Err(ForwardFailure::Refused(_)))]), "{refused:?}");
    }

    #[test]
    fn forwarded_requests_are_bounded_for_nodes_and_servers() {
        for bytes in [2, 4 << 20] {
            let mut alone = Alone::with(|_| {});
            let mut body = request();
            body.body = vec![0; bytes];
            let mut serve = |from, number| {
                let (frames, _) = effects(&mut alone, |f, cx| f.serve(from, number, body.clone(), true, cx));
                frames.is_empty()
            };
            let node = Peer::Node(node_id(1));
            let served = (0..).take_while(|number| serve(node, *number)).count();
            assert_eq!(served, MAX_SERVED.min(MAX_SERVED_BYTES / bytes));
            assert!(serve(Peer::Server(8), 0), "servers have room of their own");
        }
    }

    #[test]
    fn a_read_of_a_server_alone_is_confirmed_at_once() {
        let mut alone = Alone::with(|_| {});
        let mut confirmed = vec![];
        let mut inputs = vec![Input::Read { token: 3 }];
        for _ in 0..3 {
            for effect in alone.turn(std::mem::take(&mut inputs)).effects {
                if let Effect::ReadConfirmed { token, confirmed: done } = effect {
                    confirmed.push((token, done));
                }
            }
        }
        assert_eq!(confirmed, [(3, true)]);
    }
}
