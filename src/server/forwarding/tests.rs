//! Requests on their way between a user and the server that answers.

use super::super::effects::Input;
use super::super::testing::Alone;
use super::*;
use state::samples::{info, node_id};

const LEADER: u64 = 8;

fn request() -> Box<Request> {
    let path = "/v1/jobs".to_string();
    Box::new(Request { method: Method::Put, path, query: String::new(), body: vec![1, 2], websocket: false })
}

fn response(status: u16) -> ForwardedResponse {
    ForwardedResponse { status, headers: vec![], body: vec![] }
}
type Answers = Vec<(u64, Result<ForwardedResponse, ForwardFailure>)>;

/// What leaves: frames, and answers to users.
fn effects(alone: &mut Alone, work: impl FnOnce(&mut Forwarding, &mut Context<'_>)) -> (Vec<Frame>, Answers) {
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
    let Some(Effect::Serve { serving, .. }) = alone.server.outbox.take_effects().0.pop() else { panic!() };
    let large = ForwardedResponse { body: vec![0; MAX_FRAME_BYTES], ..large };
    let (frames, _) = effects(&mut alone, |f, cx| f.served(serving, Some(large), cx));
    let [Frame { body: Body::HttpReply(NodeHttpReply::Refused(why)), .. }] = &frames[..] else { panic!() };
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
    let mut ask_over = |link: u128, node: u128, secret: u128| {
        let asked = NodeHttpRequest {
            node: node_id(node),
            secret: info(secret).secret,
            request: Request::clone(&request()),
        };
        let bytes = frame::encode(&Frame { request: 40, body: Body::HttpRequest(asked) });
        let from = Peer::Node(node_id(link));
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
    let mut ask = |node, secret| ask_over(node, node, secret);
    assert_eq!(ask(9, 9), Some(Body::HttpReply(NodeHttpReply::NotDone)));
    let wrong = Refusal::new(RefusalKind::Forbidden, WRONG_SECRET);
    assert_eq!(ask(1, 2), Some(Body::HttpReply(NodeHttpReply::Refused(wrong))));
    assert_eq!(ask(1, 1), Some(Body::Raft(vec![])), "it is served");
    let other = Refusal::new(RefusalKind::Forbidden, OTHER_NODE);
    let said = Some(Body::HttpReply(NodeHttpReply::Refused(other)));
    assert_eq!(ask_over(2, 1, 1), said, "over another node's link");
}

#[test]
fn requests_under_way_are_bounded() {
    let mut alone = Alone::with(|_| {});
    for token in 0..MAX_FORWARDED as u64 {
        effects(&mut alone, |f, cx| f.forward(token, request(), Some(LEADER), cx));
    }
    let (frames, refused) = effects(&mut alone, |f, cx| f.forward(9_999, request(), Some(LEADER), cx));
    assert_eq!(frames, []);
    let busy = |f: &ForwardFailure| matches!(f, ForwardFailure::Refused(r) if r.kind == RefusalKind::Busy);
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
