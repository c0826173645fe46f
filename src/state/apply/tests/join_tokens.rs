//! Join tokens: whom they let in, how often, and until when (server.md 22).

use super::*;
use crate::check;
use model::id::{NodeId, Uuid};
use model::join_token::{JoinRole, JoinTokenSpec, JoiningMachine, MAX_TOKENS};
use wire::command::{RedeemJoinTokenCommand, Redemption};
use wire::request::Refusal;

const SECRET: [u8; 32] = [1; 32];
const HOUR: Span = Span::hours(1);

fn id(n: u128) -> Uuid {
    Uuid::from_random(n)
}

fn node(n: u128) -> JoiningMachine {
    JoiningMachine::Node(NodeId(id(n)))
}

fn create(n: u128, role: JoinRole, uses: u32, at: Wall) -> Command {
    let spec = JoinTokenSpec { id: id(n), secret_digest: SECRET, role, uses, ttl: HOUR };
    Command::CreateJoinToken { token: Box::new(spec), at }
}

fn redeem(n: u128, secret_digest: [u8; 32], machine: JoiningMachine, key: u8, at: Wall) -> Command {
    let redemption = Redemption { machine, key: [key; 32], at };
    Command::RedeemJoinToken(Box::new(RedeemJoinTokenCommand { id: id(n), secret_digest, redemption }))
}

/// What is left of the token's uses, or why it was refused. A refusal changes nothing.
fn left(r: &mut Region, command: &Command) -> Result<u32, Refusal> {
    let before = r.view().digest();
    match r.run(command).reply {
        Ok(WriteReply::JoinToken { token, .. }) => Ok(token.uses_left),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => {
            assert_eq!(r.view().digest(), before, "{refusal}");
            Err(refusal)
        }
    }
}

fn refused(r: &mut Region, command: &Command) -> (RefusalKind, String) {
    let refusal = left(r, command).expect_err("it is refused");
    (refusal.kind, refusal.message)
}

#[test]
fn a_token_lets_in_as_many_machines_as_it_says() {
    let mut r = Region::default();
    assert_eq!(left(&mut r, &create(1, JoinRole::Client, 2, AT)), Ok(2));
    assert_eq!(left(&mut r, &redeem(1, SECRET, node(1), 1, AT)), Ok(1));
    assert_eq!(left(&mut r, &redeem(1, SECRET, node(2), 2, AT)), Ok(0));
    check::consistent(&r.view()).unwrap();
    let (kind, why) = refused(&mut r, &redeem(1, SECRET, node(3), 3, AT));
    assert_eq!(kind, RefusalKind::Invalid);
    assert!(why.contains("used up"), "{why}");
}

#[test]
fn a_machine_whose_answer_was_lost_uses_nothing_up_again() {
    let mut r = Region::default();
    r.run(&create(1, JoinRole::Client, 1, AT));
    for _ in 0..3 {
        assert_eq!(left(&mut r, &redeem(1, SECRET, node(1), 7, AT)), Ok(0));
    }
    // whoever has read the token off somewhere and takes that machine's name has another key
    assert_eq!(refused(&mut r, &redeem(1, SECRET, node(1), 8, AT)).0, RefusalKind::Invalid);
    assert!(left(&mut r, &redeem(1, SECRET, node(1), 7, AT + HOUR)).is_err(), "until it expires");
    check::consistent(&r.view()).unwrap();
}

#[test]
fn a_machine_with_another_key_uses_the_token_once_more() {
    let mut r = Region::default();
    r.run(&create(1, JoinRole::Client, 3, AT));
    assert_eq!(left(&mut r, &redeem(1, SECRET, node(1), 1, AT)), Ok(2));
    assert_eq!(left(&mut r, &redeem(1, SECRET, node(1), 2, AT)), Ok(1));
    check::consistent(&r.view()).unwrap();
}

#[test]
fn a_wrong_secret_and_an_unknown_token_are_one_refusal() {
    let mut r = Region::default();
    r.run(&create(1, JoinRole::Client, 1, AT));
    let wrong = refused(&mut r, &redeem(1, [2; 32], node(1), 1, AT));
    assert_eq!(wrong, refused(&mut r, &redeem(2, SECRET, node(1), 1, AT)));
    assert_eq!(wrong.0, RefusalKind::Forbidden);
    assert!(!wrong.1.contains(&id(1).to_string()));
    assert_eq!(left(&mut r, &redeem(1, SECRET, node(1), 1, AT)), Ok(0), "no use was lost by it");
}

#[test]
fn a_token_is_for_one_role() {
    let mut r = Region::default();
    r.run(&create(1, JoinRole::Client, 1, AT));
    r.run(&create(2, JoinRole::Server, 1, AT));
    assert_eq!(refused(&mut r, &redeem(1, SECRET, JoiningMachine::Server(7), 1, AT)).0, RefusalKind::Invalid);
    assert_eq!(refused(&mut r, &redeem(2, SECRET, node(1), 1, AT)).0, RefusalKind::Invalid);
    assert_eq!(left(&mut r, &redeem(2, SECRET, JoiningMachine::Server(7), 1, AT)), Ok(0));
}

#[test]
fn a_token_expires_by_the_leaders_clock_alone() {
    let mut r = Region::default();
    r.run(&create(1, JoinRole::Client, 9, AT));
    let just_before = Wall(AT.0 + HOUR.0 - 1);
    assert!(left(&mut r, &redeem(1, SECRET, node(1), 1, just_before)).is_ok());
    let (kind, why) = refused(&mut r, &redeem(1, SECRET, node(2), 2, AT + HOUR));
    assert_eq!(kind, RefusalKind::Invalid);
    assert!(why.contains("expired"), "{why}");
    // a clock that ran ahead was set right: the token counts as old, and does not live for ten years
    assert!(left(&mut r, &redeem(1, SECRET, node(3), 3, Wall(AT.0 - Span::hours(24).0))).is_err());
    // and a leader that has no clock makes tokens that work
    r.run(&create(2, JoinRole::Client, 1, Wall::NEVER));
    assert_eq!(left(&mut r, &redeem(2, SECRET, node(1), 1, Wall::NEVER)), Ok(0));
}

#[test]
fn a_revoked_token_lets_nobody_in() {
    let mut r = Region::default();
    r.run(&create(1, JoinRole::Client, 2, AT));
    r.run(&redeem(1, SECRET, node(1), 1, AT));
    let revoke = Command::RevokeJoinToken { id: id(1) };
    assert!(matches!(r.run(&revoke).reply, Ok(WriteReply::Written { .. })));
    assert_eq!(r.view().join_tokens().unwrap(), []);
    check::consistent(&r.view()).unwrap();
    assert_eq!(refused(&mut r, &redeem(1, SECRET, node(1), 1, AT)).0, RefusalKind::Forbidden);
    assert_eq!(r.run(&revoke).reply.map_err(|e| e.kind), Err(RefusalKind::NotFound));
    assert_eq!(left(&mut r, &create(1, JoinRole::Client, 1, AT)), Ok(1), "nothing of it is left");
}

#[test]
fn tokens_are_bounded_and_old_ones_make_room() {
    let mut r = Region::default();
    for n in 0..MAX_TOKENS as u128 {
        assert_eq!(left(&mut r, &create(n, JoinRole::Client, 1, AT)), Ok(1));
    }
    r.run(&redeem(0, SECRET, node(1), 1, AT));
    assert_eq!(refused(&mut r, &create(300, JoinRole::Client, 1, AT)).0, RefusalKind::Conflict);
    assert_eq!(
        refused(&mut r, &create(3, JoinRole::Client, 1, AT)).0,
        RefusalKind::Conflict,
        "the id is taken"
    );
    let later = AT + HOUR + Span::hours(24);
    assert_eq!(left(&mut r, &create(300, JoinRole::Client, 1, later)), Ok(1));
    assert_eq!(r.view().join_tokens().unwrap().len(), MAX_TOKENS - 8 + 1, "a few at a time");
    check::consistent(&r.view()).unwrap();
}
