//! Requests that are relayed over links: who takes them, how much waits for a reader, and what each side hears of the other's end.

use super::super::link::Link;
use super::super::relay_stream::{RelayAsked, RelayBroken, RelayNotOpened, RelayStream};
use super::machine::{Machine, awaited, linked, node, server};
use hyper::body::Bytes;
use model::id::NodeId;
use smol::Task;
use smol::future::{or, zip};
use std::time::{Duration, Instant};
use wire::frame::TrafficClass;
use wire::http::{Method, Request};
use wire::relay::{RelayHeader, RelayRefusal, RelayedAnswer, RelayedRequest};
use wire::rpc::Peer;

const TO: RelayHeader = RelayHeader { to: Peer::Server(2), hops: 1 };

/// A stream from one end to the other, which has taken it.
fn opened(from: &Link, to: &Machine) -> (RelayStream, RelayStream) {
    let taken = async { to.relayed().await.take().await.expect("it is still there") };
    let (asking, answering) = awaited(zip(from.relay(TO), taken));
    (asking.expect("it is taken"), answering)
}

fn asked() -> RelayedRequest {
    RelayedRequest(Request {
        method: Method::Get,
        path: "/v1/client/stats".into(),
        query: String::new(),
        body: vec![7; 1 << 20],
        websocket: false,
    })
}

#[test]
fn a_request_and_its_endless_answer_pass_in_both_directions() {
    let (a, b) = (Machine::new(node()), Machine::new(server(2)));
    assert_eq!(a.dial(b.address), Ok(Peer::Server(2)));
    let (to_b, to_a) = (a.up(), b.up());
    for (link, machine, from) in [(&to_b, &b, Peer::Node(NodeId::default())), (&to_a, &a, Peer::Server(2))] {
        let (mut asking, mut answering) = {
            let hear = async {
                let came: RelayAsked = machine.relayed().await;
                assert_eq!((came.from, came.header), (from, TO));
                came.take().await.expect("it is still there")
            };
            let (asking, answering) = awaited(zip(link.relay(TO), hear));
            (asking.expect("it is taken"), answering)
        };
        let request = asked();
        let sent = asking.sender.send(&request);
        let (sent, heard) = awaited(zip(sent, answering.receiver.receive::<RelayedRequest>(2 << 20)));
        assert_eq!((sent, heard), (Ok(()), Ok(request)));
        awaited(async {
            answering.sender.send(&RelayedAnswer::Stream { content_type: "a/b".into() }).await.expect("sent");
            answering.sender.send_piece(Bytes::from_static(b"piece")).await.expect("sent");
            answering.sender.finish();
            let head: RelayedAnswer = asking.receiver.receive(1000).await.expect("a head");
            assert_eq!(head, RelayedAnswer::Stream { content_type: "a/b".into() });
            assert_eq!(asking.receiver.piece().await, Ok(Some(Bytes::from_static(b"piece"))));
            assert_eq!(asking.receiver.piece().await, Ok(None), "its proper end");
        });
    }
}

#[test]
fn a_refusal_names_its_reason_and_the_link_stays() {
    let [(_a, to_b), (b, _)] = linked();
    for refusal in
        [RelayRefusal::NotHere, RelayRefusal::Busy, RelayRefusal::WrongRole, RelayRefusal::Malformed]
    {
        let refuse = async { b.relayed().await.refuse(refusal).await };
        let (opened, ()) = awaited(zip(to_b.relay(TO), refuse));
        assert_eq!(opened.err(), Some(RelayNotOpened::Refused(refusal)));
    }
    assert!(to_b.send(TrafficClass::Requests, vec![1]));
    assert_eq!(b.frame(), (TrafficClass::Requests, vec![1]));
}

#[test]
fn a_stream_that_is_dropped_is_not_taken_for_a_whole_one() {
    let [(_a, to_b), (b, _)] = linked();
    let (mut asking, mut answering) = opened(&to_b, &b);
    awaited(answering.sender.send_piece(Bytes::from_static(b"half"))).expect("sent");
    assert_eq!(awaited(asking.receiver.piece()), Ok(Some(Bytes::from_static(b"half"))));
    drop(answering);
    assert_eq!(awaited(asking.receiver.piece()), Err(RelayBroken));
}

#[test]
fn whoever_answers_hears_that_the_asker_has_left() {
    let [(_a, to_b), (b, _)] = linked();
    let (asking, answering) = opened(&to_b, &b);
    let left = answering.sender.left();
    drop(asking);
    awaited(left);
}

/// Nothing but what the stream's own window holds is sent, and the rest of the link goes on.
#[test]
fn a_reader_that_does_not_read_holds_up_its_own_stream_alone() {
    let [(_a, to_b), (b, _)] = linked();
    let piece = Bytes::from(vec![5; 64 << 10]);
    let mut held = vec![];
    for _ in 0..8 {
        let (asking, mut answering) = opened(&to_b, &b);
        let mut sent = 0;
        let fill = async {
            while answering.sender.send_piece(piece.clone()).await.is_ok() {
                sent += piece.len();
            }
        };
        let until = Instant::now() + Duration::from_millis(300);
        awaited(or(fill, async {
            smol::Timer::at(until).await;
        }));
        assert!(sent <= 256 << 10, "{sent} bytes that nobody reads");
        held.push((asking, answering));
    }
    assert!(to_b.send(TrafficClass::Appends, vec![1; 1 << 20]));
    assert_eq!(b.frame(), (TrafficClass::Appends, vec![1; 1 << 20]));
    let (mut asking, mut answering) = opened(&to_b, &b);
    awaited(answering.sender.send_piece(piece.clone())).expect("sent");
    assert!(awaited(asking.receiver.piece()).is_ok_and(|came| came.is_some()), "others are read");
}

#[test]
fn a_node_may_have_sixteen_requests_under_way() {
    let (a, b) = (Machine::new(node()), Machine::new(server(2)));
    assert_eq!(a.dial(b.address), Ok(Peer::Server(2)));
    let (to_b, _to_a) = (a.up(), b.up());
    let mut held: Vec<_> = (0..16).map(|_| opened(&to_b, &b)).collect();
    let more = async {
        loop {
            let taken = async { b.relayed().await.take().await.expect("it is still there") };
            let (asking, answering) = zip(to_b.relay(TO), taken).await;
            held.push((asking.expect("it is taken"), answering));
        }
    };
    let soon = Instant::now() + Duration::from_millis(500);
    awaited(or(more, async {
        smol::Timer::at(soon).await;
    }));
    assert!((16..=20).contains(&held.len()), "{} at once", held.len());
    assert!(b.is_quiet(), "the next one waits");
}

/// A stream of one link that is joined with one of another: the asker's end, and the answerer's.
fn passed_on(first: (&Link, &Machine), second: (&Link, &Machine)) -> (RelayStream, RelayStream, Task<()>) {
    let (asking, passing) = opened(first.0, first.1);
    let (other, answering) = opened(second.0, second.1);
    (asking, answering, smol::spawn(passing.join(other)))
}

#[test]
fn what_is_passed_on_ends_with_either_side() {
    let [(_a, to_b), (b, _)] = linked();
    let [(_c, to_d), (d, _)] = linked();
    let (mut asking, mut answering, joined) = passed_on((&to_b, &b), (&to_d, &d));
    awaited(async {
        let (sent, heard) = zip(asking.sender.send(&asked()), answering.receiver.receive(2 << 20)).await;
        assert_eq!((sent, heard), (Ok(()), Ok(asked())));
        asking.sender.finish();
        answering.sender.send_piece(Bytes::from_static(b"a")).await.expect("sent");
        assert_eq!(asking.receiver.piece().await, Ok(Some(Bytes::from_static(b"a"))));
        answering.sender.finish();
        assert_eq!(asking.receiver.piece().await, Ok(None), "its proper end");
        joined.await;
    });
    let (asking, answering, joined) = passed_on((&to_b, &b), (&to_d, &d));
    let left = answering.sender.left();
    drop(asking);
    awaited(async {
        left.await;
        joined.await;
    });
    let (mut asking, answering, joined) = passed_on((&to_b, &b), (&to_d, &d));
    drop(answering);
    assert_eq!(awaited(asking.receiver.piece()), Err(RelayBroken));
    awaited(joined);
}
