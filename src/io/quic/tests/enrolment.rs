//! Machines that join by a token, over real sockets: what they are given, and what they tell nobody but a server of their region.

use super::super::enrolment::{EnrolFailure, enrol};
use super::super::enrolment_request::Enrolment;
use super::super::identity::{LinkIdentity, RegionKey, digest};
use super::super::link::LinkEnd;
use super::super::machine_key::MachineKey;
use super::super::transport::enrolling;
use super::super::wrong_tokens::MAX_WRONG;
use super::machine::{Machine, Running, Stranger, awaited, node, region, server};
use model::id::{NodeId, Uuid};
use model::join_token::JoinRole;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;
use wire::bearer_token::{BearerToken, TokenSecret};
use wire::credential::LinkRefusal;
use wire::enrolment::{EnrolAnswer, EnrolHello, EnrolWelcome};
use wire::record;
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;
use wire::stored_identity::{HiddenBytes, StoredIdentity};

const SECRET: [u8; 32] = [0x5e; 32];
const NODE: Peer = Peer::Node(NodeId(Uuid::from_bytes([6; 16])));

fn token(of: &RegionKey) -> BearerToken {
    BearerToken {
        region: "global".into(),
        region_key_digest: digest(&of.public()),
        role: JoinRole::Client,
        id: Uuid::from_random(3),
        secret: TokenSecret(SECRET),
    }
}

fn key() -> MachineKey {
    MachineKey::generate().expect("a key")
}

fn other_region() -> RegionKey {
    RegionKey::from_secret(&[8; 32]).expect("a key")
}

/// What a machine hears that shows the token at an address.
fn asked(at: SocketAddr, token: &BearerToken, key: &MachineKey) -> Result<StoredIdentity, EnrolFailure> {
    let running = Running::new();
    awaited(enrol(&running.executor, at, token, NODE, key))
}

/// The same, while the server gives these answers, one to each that comes.
fn answered(
    machine: &Machine,
    answer: impl FnOnce(&Enrolment) -> EnrolAnswer,
    token: &BearerToken,
    key: &MachineKey,
) -> Result<StoredIdentity, EnrolFailure> {
    thread::scope(|scope| {
        let asking = scope.spawn(|| asked(machine.address, token, key));
        let came = machine.enrolment();
        let answer = answer(&came);
        came.answer(answer);
        asking.join().expect("it does not panic")
    })
}

fn let_in(came: &Enrolment) -> EnrolAnswer {
    let credential = region().credential_for("global", came.request.machine, came.key);
    EnrolAnswer::Enrolled { credential, region_secret: None }
}

fn refused(kind: RefusalKind) -> EnrolAnswer {
    EnrolAnswer::Refused(Refusal::new(kind, "no"))
}

#[test]
fn a_machine_with_a_token_becomes_one_of_the_region() {
    let (a, key, token) = (Machine::new(server(1)), key(), token(&region()));
    let check = |came: &Enrolment| {
        assert_eq!(
            (came.request.token, came.request.secret, came.request.machine),
            (token.id, token.secret, NODE)
        );
        assert_eq!(came.key, key.public(), "the key that it has proved");
        let_in(came)
    };
    let stored = answered(&a, check, &token, &key).expect("it is let in");
    assert_eq!((&stored.key, stored.region_secret.as_ref()), (key.stored(), None));
    let joined = Machine::new(LinkIdentity::from_stored(&stored).expect("an identity"));
    assert_eq!(joined.dial(a.address), Ok(Peer::Server(1)));
    assert_eq!(a.up().peer(), NODE);
}

#[test]
fn a_server_is_given_the_regions_secret() {
    let (a, key) = (Machine::new(server(1)), key());
    let give = |came: &Enrolment| match let_in(came) {
        EnrolAnswer::Enrolled { credential, .. } => {
            EnrolAnswer::Enrolled { credential, region_secret: Some(HiddenBytes(vec![7; 32])) }
        }
        refused => refused,
    };
    let stored = answered(&a, give, &token(&region()), &key).expect("it is let in");
    let secret = stored.region_secret.expect("a secret");
    assert_eq!(RegionKey::from_secret(&secret.0).expect("a key").public(), region().public());
}

#[test]
fn a_refused_token_is_told_whether_to_come_again() {
    let (a, token) = (Machine::new(server(1)), token(&region()));
    for (kind, is_final) in [
        (RefusalKind::Forbidden, true),
        (RefusalKind::Invalid, true),
        (RefusalKind::Unavailable, false),
        (RefusalKind::Busy, false),
    ] {
        let why = answered(&a, |_| refused(kind), &token, &key()).expect_err("it is refused");
        assert_eq!((&why, why.is_final()), (&EnrolFailure::Refused(Refusal::new(kind, "no")), is_final));
    }
    let long = EnrolAnswer::Refused(Refusal::new(RefusalKind::Invalid, "é".repeat(5000)));
    let why = answered(&a, |_| long, &token, &key()).expect_err("it is refused");
    assert_eq!(why.to_string().chars().count(), 400, "no sentence is longer than a message");
}

#[test]
fn a_server_of_another_region_is_shown_no_token() {
    let b = Machine::new(other_region().identity("global", Peer::Server(2)).expect("an identity"));
    let why = asked(b.address, &token(&region()), &key()).expect_err("it is another region");
    assert_eq!(why, EnrolFailure::Link(LinkEnd::ClosedByPeer(Some(LinkRefusal::TokenOfOtherRegion))));
    assert!(b.is_quiet(), "nobody has asked it for anything");
}

#[test]
fn a_node_lets_nobody_in() {
    let a = Machine::new(node());
    let why = asked(a.address, &token(&region()), &key()).expect_err("it is no server");
    assert_eq!(why, EnrolFailure::Link(LinkEnd::ClosedByPeer(Some(LinkRefusal::LetsNobodyIn))));
}

/// What a machine says to somebody who answers its hello with this. It has to be the hello alone.
fn says_to(posing: &Stranger, welcome: Vec<u8>) -> (Vec<u8>, EnrolFailure) {
    let token = token(&region());
    thread::scope(|scope| {
        let asking = scope.spawn(|| asked(posing.address(), &token, &key()));
        let heard = awaited(async {
            let connection = posing.take().await;
            let (mut to, mut from) = connection.accept_bi().await.expect("it opens a stream");
            let hello = record::encode(&EnrolHello { region_key_digest: token.region_key_digest });
            let mut heard = vec![0; 2 + hello.len()];
            from.read_exact(&mut heard).await.expect("it says hello");
            assert_eq!(heard[2..], hello);
            to.write_all(&framed(&welcome)).await.expect("it listens");
            // all that follows, until it hangs up
            let mut rest = vec![0; 4096];
            let mut after = vec![];
            while let Ok(Some(read)) = from.read(&mut rest).await {
                after.extend_from_slice(&rest[..read]);
            }
            after
        });
        (heard, asking.join().expect("it does not panic").expect_err("it is not let in"))
    })
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).expect("it is short").to_le_bytes(), bytes].concat()
}

#[test]
fn the_secret_goes_to_nobody_who_cannot_prove_to_be_a_server() {
    let ours = region().public();
    let welcome = |identity: &LinkIdentity, region_key: [u8; 32]| {
        record::encode(&EnrolWelcome { credential: identity.shown().to_vec(), region_key })
    };
    let elsewhere = || other_region().identity("global", Peer::Server(2)).expect("an identity");
    let renamed = || region().identity("europe", Peer::Server(2)).expect("an identity");
    let cases: [(&str, LinkIdentity, Vec<u8>); 6] = [
        ("another region's server", elsewhere(), welcome(&elsewhere(), other_region().public())),
        ("one that only names the region's key", elsewhere(), welcome(&elsewhere(), ours)),
        ("a copied credential", elsewhere(), welcome(&server(1), ours)),
        ("a node", node(), welcome(&node(), ours)),
        ("a region of another name", renamed(), welcome(&renamed(), ours)),
        ("garbage", server(1), vec![9; 300]),
    ];
    for (what, identity, welcome) in cases {
        let (after, why) = says_to(&Stranger::new(identity), welcome);
        assert!(after.is_empty(), "{what} hears nothing more");
        let expected = [EnrolFailure::NotOfTokensRegion, EnrolFailure::Malformed];
        assert!(expected.contains(&why), "{what}: {why:?}");
    }
    let posing = server(1);
    let good = welcome(&posing, ours);
    let (after, _) = says_to(&Stranger::new(posing), good);
    assert!(after.windows(32).any(|part| part == SECRET), "a server of the region hears it");
}

#[test]
fn ten_wrong_tokens_of_an_address_are_heard_and_no_more() {
    let (a, token) = (Machine::new(server(1)), token(&region()));
    for _ in 0..MAX_WRONG {
        assert!(answered(&a, |_| refused(RefusalKind::Forbidden), &token, &key()).is_err());
    }
    let why = asked(a.address, &token, &key()).expect_err("it has a pause");
    assert_eq!(why, EnrolFailure::Link(LinkEnd::ClosedByPeer(Some(LinkRefusal::TooManyAttempts))));
    let other = Machine::new(server(2));
    assert_eq!(other.dial(a.address), Ok(Peer::Server(1)), "links are not held up by it");
}

/// Bytes that are no messages of the protocol, each on a connection of its own.
#[test]
fn what_is_no_enrolment_is_closed_with_a_reason() {
    let a = Machine::new(server(1));
    let hello = record::encode(&EnrolHello { region_key_digest: digest(&region().public()) });
    for said in
        [vec![255, 255], vec![4, 0, 1, 2, 3, 4], vec![0, 0], [framed(&hello), framed(&[1, 2, 3])].concat()]
    {
        let running = Stranger::new(server(7));
        let connecting = running.connecting_with(enrolling(&key()).expect("a configuration"), a.address);
        let closed = awaited(async {
            let connection = connecting.await.expect("keys were proved");
            let (mut to, _from) = connection.open_bi().await.expect("there is room for a stream");
            to.write_all(&said).await.expect("it is sent");
            let _ = to.finish();
            LinkEnd::from(connection.closed().await)
        });
        assert_eq!(closed, LinkEnd::ClosedByPeer(Some(LinkRefusal::Malformed)), "{said:?}");
    }
    assert!(a.is_quiet());
}

#[test]
fn an_answer_that_is_not_the_regions_is_not_kept() {
    let (a, token) = (Machine::new(server(1)), token(&region()));
    let other_key = |came: &Enrolment| EnrolAnswer::Enrolled {
        credential: region().credential_for("global", came.request.machine, [1; 32]),
        region_secret: None,
    };
    let other_machine = |came: &Enrolment| EnrolAnswer::Enrolled {
        credential: region().credential_for("global", Peer::Server(9), came.key),
        region_secret: None,
    };
    assert_eq!(answered(&a, other_key, &token, &key()), Err(EnrolFailure::Malformed));
    assert_eq!(answered(&a, other_machine, &token, &key()), Err(EnrolFailure::Malformed));
}

#[test]
fn an_address_where_nobody_is_gives_up_in_time() {
    let silent = std::net::UdpSocket::bind(super::machine::ANY).expect("a socket");
    let at = silent.local_addr().expect("it is bound");
    let begun = std::time::Instant::now();
    let why = asked(at, &token(&region()), &key()).expect_err("nobody is there");
    assert_eq!(why, EnrolFailure::Link(LinkEnd::TimedOut));
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
}
