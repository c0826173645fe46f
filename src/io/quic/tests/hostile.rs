//! Machines that do not keep to the protocol, with and without a credential.

use super::super::admission::MAX_HALF_OPEN_OF_SOURCE;
use super::super::link::LinkEnd;
use super::machine::{ANY, Machine, Stranger, awaited, linked, node, say, server};
use std::net::UdpSocket;
use wire::credential::LinkRefusal;
use wire::frame::{MAX_SENT_BYTES, TrafficClass};
use wire::record;
use wire::relay::{RelayRefusal, RelayWelcome};
use wire::rpc::Peer;

/// What becomes of a link on which these streams begin.
fn ended_by(stranger: Stranger, streams: &[&[u8]]) -> LinkEnd {
    let machine = Machine::new(server(9));
    let connection = stranger.connect(machine.address);
    machine.up();
    let open: Vec<quinn::SendStream> = streams.iter().map(|bytes| say(&connection, bytes)).collect();
    let told = Stranger::closed(&connection);
    drop(open);
    let why = machine.down();
    assert_eq!(why.refusal(), told.refusal(), "both know");
    why
}

fn stream(class: TrafficClass, rest: &[u8]) -> Vec<u8> {
    [&[class as u8], rest].concat()
}

#[test]
fn a_message_longer_than_any_may_be_ends_the_link() {
    for length in [MAX_SENT_BYTES as u32 + 1, u32::MAX] {
        let announced = stream(TrafficClass::Requests, &length.to_le_bytes());
        let why = ended_by(Stranger::new(server(1)), &[&announced]);
        assert_eq!(why, LinkEnd::Closed(LinkRefusal::TooLong), "{length}");
    }
}

#[test]
fn an_unknown_class_or_a_second_stream_of_one_ends_the_link() {
    let first = stream(TrafficClass::Appends, &[]);
    for streams in [vec![&[5u8][..]], vec![&[255u8][..]], vec![&first, &first]] {
        let why = ended_by(Stranger::new(server(1)), &streams);
        assert_eq!(why, LinkEnd::Closed(LinkRefusal::Malformed), "{streams:?}");
    }
}

#[test]
fn a_node_that_speaks_raft_loses_its_link() {
    for class in [TrafficClass::Consensus, TrafficClass::Appends, TrafficClass::Snapshots] {
        let why = ended_by(Stranger::new(node()), &[&stream(class, &[])]);
        assert_eq!(why, LinkEnd::Closed(LinkRefusal::WrongRole), "{class:?}");
    }
}

#[test]
fn a_message_that_never_ends_holds_up_nothing_else() {
    let machine = Machine::new(server(9));
    let stranger = Stranger::new(server(1));
    let connection = stranger.connect(machine.address);
    machine.up();
    let announced = stream(TrafficClass::Appends, &(MAX_SENT_BYTES as u32).to_le_bytes());
    let whole = stream(TrafficClass::Requests, &[1, 0, 0, 0, 77]);
    let _open = (say(&connection, &announced), say(&connection, &whole));
    assert_eq!(machine.frame(), (TrafficClass::Requests, vec![77]));
}

/// It is refused, and the link stays: nothing of the region's own is spoken there.
#[test]
fn a_two_way_stream_of_garbage_is_refused() {
    let refused = record::encode(&RelayWelcome::Refused(RelayRefusal::Malformed));
    let header = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    for said in [header(&[9; 40]), u32::MAX.to_le_bytes().to_vec(), header(&[1, 1]), header(&[])] {
        for identity in [server(1), node()] {
            let machine = Machine::new(server(9));
            let stranger = Stranger::new(identity);
            let connection = stranger.connect(machine.address);
            machine.up();
            let heard = awaited(async {
                let (mut to, mut from) = connection.open_bi().await.expect("there is room for a stream");
                to.write_all(&said).await.expect("it is sent");
                from.read_to_end(100).await.expect("it is answered")
            });
            assert_eq!(heard, header(&refused), "{said:?}");
            let _open = say(&connection, &stream(TrafficClass::Requests, &[1, 0, 0, 0, 77]));
            assert_eq!(machine.frame(), (TrafficClass::Requests, vec![77]));
        }
    }
}

#[test]
fn datagrams_of_garbage_change_nothing() {
    let [(_a, to_b), (b, _)] = linked();
    let socket = UdpSocket::bind(ANY).expect("a socket");
    for n in 0..2000u32 {
        let length = n as usize % 1400 + 1;
        let byte = (n.wrapping_mul(2_654_435_761) >> 24) as u8;
        socket.send_to(&vec![byte; length], b.address).expect("it is sent");
    }
    assert!(to_b.send(TrafficClass::Consensus, vec![1]));
    assert_eq!(b.frame(), (TrafficClass::Consensus, vec![1]));
}

/// Strangers who begin and go no further have their bound; others are let in meanwhile.
#[test]
fn half_open_connections_are_bounded_for_each_source() {
    let machine = Machine::at("0.0.0.0:0", server(9));
    let at = |ip: [u8; 4]| (ip, machine.address.port()).into();
    let stranger = Stranger::new(server(1));
    let mut held = vec![];
    let mut refused = 0;
    for _ in 0..MAX_HALF_OPEN_OF_SOURCE + 20 {
        match awaited(stranger.connecting(at([127, 0, 0, 1]))) {
            Ok(connection) => held.push(connection),
            Err(error) => {
                assert_eq!(LinkEnd::from(error), LinkEnd::ClosedByPeer(Some(LinkRefusal::Busy)));
                refused += 1;
            }
        }
    }
    assert_eq!((held.len(), refused), (MAX_HALF_OPEN_OF_SOURCE, 20));
    let elsewhere = Machine::at("127.0.0.2:0", server(2));
    assert_eq!(elsewhere.dial(at([127, 0, 0, 1])), Ok(Peer::Server(9)));
    held.clear();
    let mut last = Err(LinkEnd::TimedOut);
    let again = Machine::new(server(3));
    while last.is_err() {
        last = again.dial(at([127, 0, 0, 1]));
    }
    assert_eq!(last, Ok(Peer::Server(9)), "there is room again");
}
