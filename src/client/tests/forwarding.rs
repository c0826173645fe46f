//! What users of a node's agent ask of the servers: passed on, and answered once, with the truth.

use super::fixtures::{assignment, task};
use super::world::World;
use crate::effects::Input;
use model::time::Span;
use wire::frame::{self, Body, Frame, MAX_FRAME_BYTES};
use wire::http::{ForwardFailure, ForwardedResponse, MAX_HOLD, Method, NodeHttpReply, Request};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;

fn s(seconds: i64) -> Span {
    Span::seconds(seconds)
}

fn request(bytes: usize) -> Box<Request> {
    let (path, query, body) = ("/v1/jobs".to_string(), String::new(), vec![0; bytes]);
    Box::new(Request { method: Method::Put, path, query, body, websocket: false })
}

fn ask_with(w: &mut World, token: u64, hold: Span, bytes: usize) {
    w.inbox.push_back(Input::Forward { token, hold, request: request(bytes) });
    w.settle();
}

fn ask(w: &mut World, token: u64) {
    ask_with(w, token, Span::ZERO, 2);
}

fn response() -> ForwardedResponse {
    ForwardedResponse { status: 200, headers: vec![], body: vec![7] }
}

fn reply(w: &mut World, from: u64, number: u64, reply: NodeHttpReply) {
    let bytes = frame::encode(&Frame { request: number, body: Body::HttpReply(reply) });
    w.inbox.push_back(Input::Frame { from: Peer::Server(from), bytes });
    w.settle();
}

/// A node that is registered with the first of two servers.
fn node() -> World {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.config.servers = vec![1, 2];
    w.crash_agent();
    w.pass(s(2));
    w
}

#[test]
fn a_nodes_users_are_answered_once_by_the_server_asked() {
    let mut w = node();
    ask(&mut w, 5);
    let [(Peer::Server(1), number, sent)] = &w.passed_on[..] else { panic!("{:?}", w.passed_on) };
    let (number, own) = (*number, (w.config.node, w.config.secret));
    assert_eq!(((sent.node, sent.secret), &sent.request), (own, &*request(2)));
    let answered = || NodeHttpReply::Answered(response());
    reply(&mut w, 2, number, answered());
    reply(&mut w, 1, number + 1, answered());
    assert_eq!(w.user_answers, [], "it was not asked, or not that");
    reply(&mut w, 1, number, answered());
    reply(&mut w, 1, number, answered());
    assert_eq!(w.user_answers, [(5, Ok(response()))]);
}

#[test]
fn forwarded_requests_not_done_or_refused_say_so() {
    let mut w = node();
    let busy = Refusal::new(RefusalKind::Busy, "no");
    for (token, said, told) in [
        (1, NodeHttpReply::NotDone, ForwardFailure::NotDone),
        (2, NodeHttpReply::Refused(busy.clone()), ForwardFailure::Refused(busy)),
    ] {
        ask(&mut w, token);
        let number = w.passed_on.last().expect("it was sent").1;
        reply(&mut w, 1, number, said);
        assert_eq!(w.user_answers.pop(), Some((token, Err(told))));
    }
    w.crash_agent();
    w.unknown_node = true;
    w.server_up = false;
    w.passed_on.clear();
    ask(&mut w, 3);
    assert_eq!((w.passed_on.len(), w.user_answers.pop()), (0, Some((3, Err(ForwardFailure::NotDone)))));
}

#[test]
fn a_forwarded_request_ends_soon_after_its_own_wait() {
    for (hold, wait) in [(Span::ZERO, s(30)), (s(300), s(330)), (Span::hours(9), MAX_HOLD + s(30))] {
        let mut w = node();
        ask_with(&mut w, 1, hold, 2);
        w.pass(Span(wait.0 / 2));
        // as servers do when nothing has changed for long
        w.index += 1;
        w.answer_watch();
        w.pass(Span(wait.0 / 2 - s(1).0));
        assert_eq!(w.user_answers, [], "{hold}");
        w.pass(s(1));
        assert_eq!(w.user_answers, [(1, Err(ForwardFailure::Unknown))], "{hold}");
        let number = w.passed_on[0].1;
        reply(&mut w, 1, number, NodeHttpReply::Answered(response()));
        assert_eq!(w.user_answers.len(), 1, "once");
    }
}

#[test]
fn a_forwarded_request_on_a_lost_connection_is_unknown() {
    let mut w = node();
    ask(&mut w, 1);
    w.inbox.push_back(Input::LinkDown { server: 2 });
    w.settle();
    assert_eq!(w.user_answers, [], "another connection");
    w.inbox.push_back(Input::LinkDown { server: 1 });
    w.settle();
    assert_eq!(w.user_answers, [(1, Err(ForwardFailure::Unknown))]);
    ask(&mut w, 2);
    let (to, number, _) = w.passed_on.last().expect("it was sent");
    assert_eq!(*to, Peer::Server(2), "the other server is there");
    let number = *number;
    reply(&mut w, 2, number, NodeHttpReply::Answered(response()));
    assert_eq!(w.user_answers.last(), Some(&(2, Ok(response()))));
}

/// A request that was lost with its connection is repeated on the next one, not only when it is overdue.
#[test]
fn a_new_connection_repeats_what_was_under_way() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.config.servers = vec![];
    w.crash_agent();
    w.pass(s(40));
    assert!(!w.client().status().registered, "no server is known");
    w.server_up = false;
    w.inbox.push_back(Input::LinkUp { server: 1 });
    w.settle();
    w.server_up = true;
    w.inbox.push_back(Input::LinkDown { server: 1 });
    w.settle();
    assert_eq!(w.client().status().servers, [], "nobody is left to ask");
    w.inbox.push_back(Input::LinkUp { server: 1 });
    w.settle();
    assert!(w.client().status().registered, "at once");
    // what waits for its next try does not wait for it any more
    for seconds in 40..60 {
        w.crash_agent();
        w.server_up = false;
        w.inbox.push_back(Input::LinkUp { server: 1 });
        w.pass(s(seconds));
        w.server_up = true;
        w.inbox.push_back(Input::LinkUp { server: 1 });
        w.settle();
        assert!(w.client().status().registered, "at once, too, after {seconds} s");
    }
}

/// There is no other server to turn to.
#[test]
fn a_lost_connection_to_the_only_server_leaves_nobody_waiting() {
    let mut w = World::new(&[assignment(1, &[task("web")])]);
    w.pass(s(2));
    ask(&mut w, 1);
    w.inbox.push_back(Input::LinkDown { server: 1 });
    w.settle();
    assert_eq!(w.user_answers, [(1, Err(ForwardFailure::Unknown))]);
}

/// The node's own requests have no answer any more, so that it turns to another server.
#[test]
fn requests_end_when_the_node_leaves_their_server() {
    let mut w = node();
    w.server_up = false;
    ask(&mut w, 1);
    w.pass(s(20));
    assert_eq!(w.user_answers, [(1, Err(ForwardFailure::Unknown))], "well before its deadline");
}

#[test]
fn forwarded_requests_of_a_node_are_bounded() {
    let refused = |w: &mut World| match w.user_answers.pop() {
        Some((_, Err(ForwardFailure::Refused(refusal)))) => refusal.kind,
        other => panic!("{other:?}"),
    };
    let mut w = node();
    (0..256).for_each(|token| ask(&mut w, token));
    assert_eq!((w.passed_on.len(), w.user_answers.len()), (256, 0));
    ask(&mut w, 256);
    assert_eq!((w.passed_on.len(), refused(&mut w)), (256, RefusalKind::Busy));
    let mut w = node();
    (0..3).for_each(|token| ask_with(&mut w, token, Span::ZERO, 4 << 20));
    ask_with(&mut w, 3, Span::ZERO, 1 << 20);
    assert_eq!((w.passed_on.len(), refused(&mut w)), (3, RefusalKind::Busy));
    ask_with(&mut w, 4, Span::ZERO, MAX_FRAME_BYTES);
    assert_eq!((w.passed_on.len(), refused(&mut w)), (3, RefusalKind::Invalid));
    let number = w.passed_on[0].1;
    reply(&mut w, 1, number, NodeHttpReply::NotDone);
    ask_with(&mut w, 5, Span::ZERO, 1 << 20);
    assert_eq!(w.passed_on.len(), 4, "there is room again");
}

/// While users wait, the node goes on as ever.
#[test]
fn forwarded_requests_delay_none_of_the_nodes_own() {
    let mut w = node();
    (0..300).for_each(|token| ask_with(&mut w, token, s(300), 2));
    let reports = w.reports;
    w.exit("web", 0);
    w.pass(s(60));
    assert!(w.reports > reports, "it reports");
    let heard = w.client().status().last_heartbeat.expect("it is registered");
    assert!(w.now.since(heard) <= s(10), "it is alive to the servers");
}
