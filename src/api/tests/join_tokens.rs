//! Join tokens over HTTP: made by whoever asks, shown once, listed without their secret, and redeemed by servers (http-api.md 9.7 to 9.9).

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::id::{NodeId, Uuid};
use model::join_token::{JoinRole, JoinToken, JoiningMachine};
use model::time::Wall;
use sha2::{Digest, Sha256};
use wire::bearer_token::BearerToken;
use wire::request::{WriteReply, WriteRequest};

const TOKENS: &str = "/v1/operator/join-tokens";

fn with_key() -> World {
    let mut world = World::new();
    world.agent.region_key_digest = Some([9; 32]);
    world
}

fn asked(world: &World, method: Method, target: &str, body: &str) -> (WriteRequest, WriteResponder) {
    match world.step(&request(method, target, body), WaitState::default()) {
        RouteOutcome::Write(action, responder) => (action, responder),
        _ => panic!("{target} {body}: no write"),
    }
}

fn refused(world: &World, body: &str) -> (u16, String) {
    let response = world.respond(Method::Put, TOKENS, body);
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

#[test]
fn a_token_is_shown_once_and_the_region_keeps_its_digest() {
    let world = with_key();
    let (action, responder) = asked(&world, Method::Put, TOKENS, r#"{"Role":"client","TTL":"2h","Uses":5}"#);
    let WriteRequest::CreateJoinToken { token: spec } = action else { panic!("{action:?}") };
    assert_eq!((spec.role, spec.uses, spec.ttl), (JoinRole::Client, 5, Span::hours(2)));
    let token =
        JoinToken { spec: (*spec).clone(), uses_left: 5, created: Wall(7), create_index: 3, modify_index: 3 };
    let done = WriteReply::JoinToken { token: Box::new(token), index: 3 };
    let shown = format!("{responder:?}");
    let response = responder.response(Ok(done));
    let body: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    let text = body["JoinToken"].as_str().unwrap();
    let bearer = BearerToken::parse(text).unwrap();
    assert_eq!((bearer.id, bearer.region.as_str(), bearer.region_key_digest), (spec.id, "eu", [9; 32]));
    assert_eq!(spec.secret_digest, <[u8; 32]>::from(Sha256::digest(bearer.secret.0)));
    assert_eq!(body["ID"], spec.id.to_string());
    assert_eq!(body["ExpireTime"], 7 + 7_200_000_000_000_i64);
    let secret = URL_SAFE_NO_PAD.encode(bearer.secret.0);
    assert!(!shown.contains("[7, 7") && !shown.contains(&secret), "no log shows the secret: {shown}");
}

#[test]
fn what_is_no_token_is_refused_with_a_sentence() {
    for (body, expected) in [
        ("{}", "say \"client\" or \"server\""),
        (r#"{"Role":"admin"}"#, "say \"client\" or \"server\""),
        (r#"{"Role":"client","Uses":0}"#, "1 to 1000 uses"),
        (r#"{"Role":"client","Uses":5000000000}"#, "1 to 1000 uses"),
        (r#"{"Role":"client","TTL":"soon"}"#, "no duration"),
        (r#"{"Role":"client","TTL":"1s"}"#, "lives from 1m0s"),
        ("", "Request body is empty"),
    ] {
        let (status, why) = refused(&with_key(), body);
        assert!(status == 400 && why.contains(expected), "{body}: {status} {why}");
    }
    let (status, why) = refused(&World::new(), r#"{"Role":"client"}"#);
    assert!(status == 400 && why.contains("encrypt"), "a region without a key: {why}");
}

#[test]
fn tokens_are_listed_without_their_secret() {
    let mut world = with_key();
    let (action, _) = asked(&world, Method::Put, TOKENS, r#"{"Role":"server"}"#);
    let WriteRequest::CreateJoinToken { token } = action else { panic!("{action:?}") };
    let id = token.id.to_string();
    world.region.run(&Command::CreateJoinToken { token, at: AT });
    let list = |query: &str| world.respond(Method::Get, &format!("{TOKENS}{query}"), "");
    let found: serde_json::Value = serde_json::from_slice(&list("").body).unwrap();
    assert_eq!((found[0]["ID"].as_str(), found[0]["Role"].as_str()), (Some(id.as_str()), Some("server")));
    let mut names: Vec<&str> = found[0].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected =
        ["CreateIndex", "CreateTime", "ExpireTime", "ID", "ModifyIndex", "Role", "Uses", "UsesLeft"];
    assert_eq!(names, expected);
    assert_eq!(list(&format!("?prefix={}", &id[..8])).body, list("").body);
    assert_eq!(list("?prefix=ffffffff").body, b"[]");
    assert_eq!(list("?filter=Role==client").body, b"[]");
}

#[test]
fn a_token_is_revoked_by_its_id() {
    let id = Uuid::from_random(3);
    let (action, _) = asked(&with_key(), Method::Delete, &format!("/v1/operator/join-token/{id}"), "");
    assert_eq!(action, WriteRequest::RevokeJoinToken { id });
    assert_eq!(with_key().respond(Method::Delete, "/v1/operator/join-token/x", "").status, 400);
}

#[test]
fn a_server_redeems_a_token_for_a_machine() {
    let (id, key) = (Uuid::from_random(3), URL_SAFE_NO_PAD.encode([4; 32]));
    let target = format!("/v1/operator/join-token/{id}/redeem");
    let node = NodeId::from_random(5);
    for (named, machine) in [
        (format!("\"Node\":\"{node}\""), JoiningMachine::Node(node)),
        ("\"Server\":300".to_string(), JoiningMachine::Server(300)),
    ] {
        let body = format!("{{\"Secret\":\"{key}\",\"Key\":\"{key}\",{named}}}");
        let (action, _) = asked(&with_key(), Method::Put, &target, &body);
        let secret_digest = Sha256::digest([4; 32]).into();
        assert_eq!(action, WriteRequest::RedeemJoinToken { id, secret_digest, machine, key: [4; 32] });
    }
    for body in [
        format!("{{\"Secret\":\"{key}\",\"Key\":\"{key}\"}}"),
        format!("{{\"Secret\":\"{key}\",\"Key\":\"{key}\",\"Server\":1,\"Node\":\"{node}\"}}"),
        format!("{{\"Secret\":\"AAAA\",\"Key\":\"{key}\",\"Server\":1}}"),
        format!("{{\"Key\":\"{key}\",\"Server\":1}}"),
    ] {
        let response = with_key().respond(Method::Put, &target, &body);
        assert_eq!(response.status, 400, "{body}");
        assert!(!String::from_utf8_lossy(&response.body).contains(&key), "no refusal repeats a secret");
    }
}
