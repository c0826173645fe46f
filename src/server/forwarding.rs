//! Requests of users that only the leader may answer: passed on whole by the server that they came to, and carried out and
//! answered by the leader. Whoever asked is told the truth: the leader's answer, that nothing was done, or that nobody knows.
//!
//! Refuses to know: what a request means, and what an answer says. Invariant: each request is answered once.

use super::Server;
use super::context::Context;
use super::effects::{Effect, ForwardFailure};
use model::time::{Mono, Span};
use std::collections::BTreeMap;
use wire::frame::{self, Body, Frame, MAX_FRAME_BYTES};
use wire::http::{ForwardedResponse, Request};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;
use wire::server_rpc::{ServerReply, ServerRequest};

/// Requests that this server has passed on and that are not answered.
const MAX_FORWARDED: usize = 1024;
/// Requests of other servers that this one is carrying out.
const MAX_SERVED: usize = 1024;
/// How long an answer is waited for: as long as a caller of the API waits for its write.
const FORWARD_TIMEOUT: Span = Span::seconds(30);

impl Server {
    /// Apart, so that its parts may ask for what a context holds.
    pub(super) fn with_forwarding(
        &mut self,
        now: Mono,
        work: impl FnOnce(&mut Forwarding, &mut Context<'_>),
    ) {
        let mut forwarding = std::mem::take(&mut self.forwarding);
        let (_, mut cx) = self.split(now);
        work(&mut forwarding, &mut cx);
        self.forwarding = forwarding;
    }
}

#[derive(Default)]
pub struct Forwarding {
    /// By the number in the frame.
    forwarded: BTreeMap<u64, Forwarded>,
    served: BTreeMap<u64, Served>,
    numbers: u64,
}

struct Forwarded {
    token: u64,
    to: u64,
    deadline: Mono,
}

struct Served {
    from: u64,
    request: u64,
    deadline: Mono,
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

    /// A request that another server has passed on. `leads`: this one has applied what came before its term.
    pub fn serve(
        &mut self,
        from: u64,
        number: u64,
        request: Box<Request>,
        leads: bool,
        cx: &mut Context<'_>,
    ) {
        if !leads {
            return reply(from, number, ServerReply::NotLeader, cx);
        }
        if self.served.len() >= MAX_SERVED {
            let why = "too many requests of other servers are under way: try again shortly";
            return reply(from, number, ServerReply::Refused(Refusal::new(RefusalKind::Busy, why)), cx);
        }
        self.numbers = self.numbers.wrapping_add(1);
        let deadline = cx.now.after(FORWARD_TIMEOUT);
        self.served.insert(self.numbers, Served { from, request: number, deadline });
        cx.outbox.effect(Effect::Serve { serving: self.numbers, request });
    }

    /// `response`: `None` if this server ceased to lead before anything was done.
    pub fn served(&mut self, serving: u64, response: Option<ForwardedResponse>, cx: &mut Context<'_>) {
        let Some(Served { from, request, .. }) = self.served.remove(&serving) else { return };
        let said = match response {
            None => ServerReply::NotLeader,
            Some(response) => fitting(response),
        };
        reply(from, request, said, cx);
    }

    /// The connection to that server is gone, and what was under way on it with it.
    pub fn link_down(&mut self, peer: u64, cx: &mut Context<'_>) {
        for (_, Forwarded { token, .. }) in self.forwarded.extract_if(.., |_, f| f.to == peer) {
            fail(token, ForwardFailure::Unknown, cx);
        }
        self.served.retain(|_, served| served.from != peer);
    }

    /// Nobody waits for ever.
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

fn reply(to: u64, number: u64, said: ServerReply, cx: &mut Context<'_>) {
    let bytes = frame::encode(&Frame { request: number, body: Body::ServerReply(said) });
    cx.send(Peer::Server(to), bytes);
}

/// What was done is not undone because its answer is long.
fn fitting(response: ForwardedResponse) -> ServerReply {
    const ROOM_BYTES: usize = 16 << 10;
    if response.body.len() + ROOM_BYTES <= MAX_FRAME_BYTES {
        return ServerReply::Http(response);
    }
    let why = format!(
        "it was done, but the answer of {} bytes is too long to be passed on: ask the leader",
        response.body.len()
    );
    ServerReply::Refused(Refusal::new(RefusalKind::Unavailable, why))
}

#[cfg(test)]
mod tests {
    use super::super::effects::Input;
    use super::super::testing::Alone;
    use super::*;
    use wire::http::Method;

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

    /// What leaves: frames to servers, and answers to users.
    fn effects(
        alone: &mut Alone,
        work: impl FnOnce(&mut Forwarding, &mut Context<'_>),
    ) -> (Vec<Frame>, Answers) {
        let now = alone.now;
        alone.server.with_forwarding(now, work);
        let (mut frames, mut answers) = (vec![], vec![]);
        for effect in alone.server.outbox.take_effects().0 {
            match effect {
                Effect::Send { to: Peer::Server(_), bytes } => {
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
        let (_, none) = effects(&mut alone, |f, cx| f.link_down(9, cx));
        assert_eq!(none, []);
        let (_, lost) = effects(&mut alone, |f, cx| f.link_down(LEADER, cx));
        assert_eq!(lost, [(2, Err(ForwardFailure::Unknown))]);
        effects(&mut alone, |f, cx| f.forward(3, request(), Some(LEADER), cx));
        let due = alone.server.forwarding.next_deadline().expect("nobody waits for ever");
        alone.now = due;
        let (_, late) = effects(&mut alone, Forwarding::expire);
        assert_eq!(late, [(3, Err(ForwardFailure::Unknown))]);
        assert_eq!(alone.server.forwarding.next_deadline(), None);
    }

    #[test]
    fn what_others_pass_on_is_served_by_a_leader_alone() {
        let mut alone = Alone::with(|_| {});
        let (frames, _) = effects(&mut alone, |f, cx| f.serve(8, 40, request(), false, cx));
        let told = |reply| Frame { request: 40, body: Body::ServerReply(reply) };
        assert_eq!(frames, [told(ServerReply::NotLeader)]);
        let now = alone.now;
        alone.server.with_forwarding(now, |f, cx| f.serve(8, 40, request(), true, cx));
        let effects_now = alone.server.outbox.take_effects().0;
        let [Effect::Serve { serving, .. }] = &effects_now[..] else { panic!("{effects_now:?}") };
        let (frames, _) = effects(&mut alone, |f, cx| f.served(*serving, Some(response(201)), cx));
        assert_eq!(frames, [told(ServerReply::Http(response(201)))]);
        let (frames, _) = effects(&mut alone, |f, cx| f.served(*serving, Some(response(201)), cx));
        assert_eq!(frames, [], "once");
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
