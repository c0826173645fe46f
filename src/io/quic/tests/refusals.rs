//! Whom a machine does not take for one of its region, and what each side hears.

use super::super::identity::{LinkIdentity, RegionKey};
use super::super::link::LinkEnd;
use super::machine::{Machine, Stranger, node, region, server};
use std::time::Duration;
use wire::credential::LinkRefusal;
use wire::rpc::Peer;

/// What the dialing side hears, which is not let in.
fn refused(dialing: LinkIdentity, listening: LinkIdentity) -> LinkEnd {
    let (a, b) = (Machine::new(dialing), Machine::new(listening));
    let why = a.dial(b.address).expect_err("it is refused");
    assert!(a.is_quiet() && b.is_quiet(), "neither has a link");
    why
}

fn by_peer(refusal: LinkRefusal) -> LinkEnd {
    LinkEnd::ClosedByPeer(Some(refusal))
}

#[test]
fn a_server_with_another_key_is_refused() {
    let other = RegionKey::from_secret(&[8; 32]).expect("a key");
    let other = other.identity("global", Peer::Server(1)).expect("an identity");
    let why = refused(other, server(2));
    assert_eq!(why, by_peer(LinkRefusal::OtherKey));
    assert!(why.to_string().contains("server.encrypt"), "{why}");
}

#[test]
fn a_server_of_a_region_of_another_name_is_refused() {
    let other = region().identity("europe", Peer::Server(1)).expect("an identity");
    assert_eq!(refused(other, server(2)), by_peer(LinkRefusal::OtherRegion));
}

#[test]
fn a_stolen_credential_is_refused_with_another_key() {
    let (victim, thief) = (server(3), server(1));
    assert_eq!(refused(thief.showing(&victim), server(2)), by_peer(LinkRefusal::StolenCredential));
    let (a, posing) = (Machine::new(server(1)), Machine::new(server(2).showing(&victim)));
    assert_eq!(a.dial(posing.address), Err(LinkEnd::Closed(LinkRefusal::StolenCredential)));
    assert!(a.is_quiet());
    assert_eq!(posing.down(), by_peer(LinkRefusal::StolenCredential));
}

#[test]
fn a_node_is_not_taken_for_a_server_that_is_dialed() {
    let (a, b) = (Machine::new(server(1)), Machine::new(node()));
    assert_eq!(a.dial(b.address), Err(LinkEnd::Closed(LinkRefusal::WrongRole)));
    assert_eq!(b.down(), by_peer(LinkRefusal::WrongRole));
    assert!(a.is_quiet());
}

#[test]
fn an_agent_that_dials_itself_notices() {
    let a = Machine::new(server(1));
    assert_eq!(a.dial(a.address), Err(by_peer(LinkRefusal::SameProcess)));
    assert!(a.is_quiet());
}

#[test]
fn two_servers_with_one_id_notice() {
    let why = refused(server(1), server(1));
    assert_eq!(why, by_peer(LinkRefusal::SameId));
    assert!(why.to_string().contains("data directory was copied"), "{why}");
}

/// Who is dialed says nothing in time, or who dials shows nothing.
#[test]
fn a_handshake_that_never_ends_is_cut() {
    let (slow, strict) = (Stranger::new(server(1)), Stranger::new(server(2)));
    let connecting = slow.connecting(strict.address());
    let refused = strict.accept(Duration::from_millis(300));
    assert_eq!(refused, Err(LinkEnd::Closed(LinkRefusal::TooSlow)));
    let connection = super::machine::awaited(connecting).expect("keys were proved");
    assert_eq!(Stranger::closed(&connection), by_peer(LinkRefusal::TooSlow));
}
