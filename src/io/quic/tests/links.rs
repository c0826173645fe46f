//! Two machines that get on well: who they are, what they carry, and how it ends.

use super::super::link::LinkEnd;
use super::machine::{Machine, awaited, linked, node, server};
use super::relay::{GOOD, Relay};
use model::id::NodeId;
use wire::credential::LinkRefusal;
use wire::frame::{MAX_SENT_BYTES, TrafficClass};
use wire::rpc::Peer;

#[test]
fn two_servers_know_each_other_and_talk_in_every_class() {
    let [(a, to_b), (b, to_a)] = linked();
    assert_eq!((to_b.peer(), to_a.peer()), (Peer::Server(2), Peer::Server(1)));
    assert_eq!((to_b.is_dialed(), to_a.is_dialed()), (true, false));
    assert_eq!((to_b.address(), to_a.address()), (b.address, a.address), "one port for both ways");
    for class in TrafficClass::ALL {
        for (link, from, to) in [(&to_b, 1, &b), (&to_a, 2, &a)] {
            assert!(link.send(class, vec![from; 100]));
            assert_eq!(to.frame(), (class, vec![from; 100]));
        }
    }
}

#[test]
fn large_messages_arrive_whole_and_in_order() {
    let [(_a, to_b), (b, _)] = linked();
    let sizes = [MAX_SENT_BYTES, 0, 1, 4 << 20, 7];
    for (n, size) in (0..).zip(sizes) {
        let class = if size > 100 { TrafficClass::Appends } else { TrafficClass::Requests };
        assert!(to_b.send(class, vec![n; size]) || class == TrafficClass::Appends);
    }
    let mut appends = vec![];
    let mut requests = vec![];
    while appends.len() < 2 || requests.len() < 3 {
        let (class, bytes) = b.frame();
        let of_class = if class == TrafficClass::Appends { &mut appends } else { &mut requests };
        of_class.push((bytes.first().copied(), bytes.len()));
    }
    assert_eq!(appends, [(Some(0), MAX_SENT_BYTES), (Some(3), 4 << 20)]);
    assert_eq!(requests, [(None, 0), (Some(2), 1), (Some(4), 7)]);
}

#[test]
fn a_node_is_known_as_the_node_that_it_is() {
    let (a, b) = (Machine::new(node()), Machine::new(server(2)));
    assert_eq!(a.dial(b.address), Ok(Peer::Server(2)));
    let (to_b, to_a) = (a.up(), b.up());
    assert_eq!(to_a.peer(), Peer::Node(NodeId::default()));
    for class in [TrafficClass::Requests, TrafficClass::Forwarded] {
        assert!(to_b.send(class, vec![1]) && to_a.send(class, vec![2]));
        assert_eq!((b.frame(), a.frame()), ((class, vec![1]), (class, vec![2])));
    }
}

#[test]
fn whoever_stops_says_so() {
    let [(a, to_b), (b, _)] = linked();
    awaited(a.endpoint.close());
    assert_eq!(b.down(), LinkEnd::ClosedByPeer(Some(LinkRefusal::Stopping)));
    assert!(matches!(a.down(), LinkEnd::Failed(_)), "the endpoint is closed");
    assert!(!to_b.send(TrafficClass::Requests, vec![1]), "nothing can be sent on a link that has ended");
}

#[test]
fn a_side_that_closes_a_link_tells_why() {
    let [(a, to_b), (b, _)] = linked();
    to_b.close(LinkRefusal::AlreadyLinked);
    assert_eq!(a.down(), LinkEnd::Closed(LinkRefusal::AlreadyLinked));
    assert_eq!(b.down(), LinkEnd::ClosedByPeer(Some(LinkRefusal::AlreadyLinked)));
}

/// What the old process has promised under its keys, the new one takes back at once.
#[test]
fn a_link_to_a_process_that_was_restarted_ends_at_once() {
    let (a, old) = (Machine::new(server(1)), Machine::new(server(2)));
    let line = Relay::to(old.address, GOOD);
    assert_eq!(a.dial(line.address), Ok(Peer::Server(2)));
    let to_old = a.up();
    let new = Machine::new(server(2));
    line.lead_to(new.address);
    assert!(to_old.send(TrafficClass::Consensus, vec![1]));
    assert_eq!(a.down(), LinkEnd::Reset);
    assert_eq!(a.dial(line.address), Ok(Peer::Server(2)));
    assert_eq!(new.up().peer(), Peer::Server(1));
}

#[test]
fn a_link_outlives_a_change_of_address() {
    let (a, b) = (Machine::new(server(1)), Machine::new(server(2)));
    let line = Relay::to(b.address, GOOD);
    assert_eq!(a.dial(line.address), Ok(Peer::Server(2)));
    let (to_b, to_a) = (a.up(), b.up());
    let before = to_a.address();
    line.move_source();
    for n in 0..10 {
        assert!(to_b.send(TrafficClass::Consensus, vec![n]));
        assert_eq!(b.frame(), (TrafficClass::Consensus, vec![n]));
        assert!(to_a.send(TrafficClass::Consensus, vec![n]));
        assert_eq!(a.frame(), (TrafficClass::Consensus, vec![n]));
    }
    assert_ne!(to_a.address(), before);
}
