//! Lines that are slow, long or lossy, and one that is cut.

use super::super::link::{Link, LinkEnd};
use super::machine::{Machine, server};
use super::relay::{GOOD, Line, Relay};
use std::time::Duration;
use wire::frame::TrafficClass;
use wire::rpc::Peer;

fn over(line: Line) -> (Relay, [(Machine, Link); 2]) {
    let (a, b) = (Machine::new(server(1)), Machine::new(server(2)));
    let relay = Relay::to(b.address, line);
    // on a line that loses, a handshake may take more than one attempt
    let dialed = (0..3).map(|_| a.dial(relay.address)).find(Result::is_ok);
    assert_eq!(dialed, Some(Ok(Peer::Server(2))));
    let (to_b, to_a) = (a.up(), b.up());
    (relay, [(a, to_b), (b, to_a)])
}

#[test]
fn raft_passes_an_append_that_is_under_way_on_a_slow_line() {
    let line = Line { delay: Duration::from_millis(20), bytes_per_second: 1 << 20, ..GOOD };
    let (_relay, [(a, to_b), (b, to_a)]) = over(line);
    assert!(to_b.send(TrafficClass::Appends, vec![5; 2 << 20]));
    for n in 0..5 {
        assert!(to_b.send(TrafficClass::Consensus, vec![n]));
        assert_eq!(b.frame(), (TrafficClass::Consensus, vec![n]), "the append is not there yet");
        assert!(to_a.send(TrafficClass::Consensus, vec![n]));
        assert_eq!(a.frame(), (TrafficClass::Consensus, vec![n]));
    }
    assert!(to_b.send(TrafficClass::Requests, vec![6; 64 << 10]));
    assert_eq!([b.frame().0, b.frame().0], [TrafficClass::Requests, TrafficClass::Appends]);
}

#[test]
fn a_link_works_at_1200_ms_and_a_fifth_of_loss() {
    let line = Line { delay: Duration::from_millis(600), loss_percent: 20, ..GOOD };
    let (_relay, [(a, to_b), (b, to_a)]) = over(line);
    for n in 0..20 {
        assert!(to_b.send(TrafficClass::Consensus, vec![n]) && to_a.send(TrafficClass::Consensus, vec![n]));
    }
    for machine in [&a, &b] {
        let came: Vec<_> = (0..20).map(|_| machine.frame()).collect();
        let sent: Vec<_> = (0..20).map(|n| (TrafficClass::Consensus, vec![n])).collect();
        assert_eq!(came, sent);
    }
}

#[test]
fn a_link_to_a_machine_that_is_cut_off_ends_on_both_sides() {
    let (relay, [(a, _), (b, _)]) = over(GOOD);
    relay.set_line(Line { loss_percent: 100, ..GOOD });
    assert_eq!((a.down(), b.down()), (LinkEnd::TimedOut, LinkEnd::TimedOut));
}
