//! Join tokens: made, listed and revoked by operators, and redeemed by servers for the machines that show them (http-api.md 9.7 to 9.9).
//!
//! Refuses to know: how a machine proves who it is. Invariant: a token's secret is in the answer to its creation alone.

use crate::response::Response;
use crate::shape::join_token::{JoinTokenShape, NewJoinTokenShape};
use crate::{Call, RouteOutcome, WriteKind, WriteResponder, json};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jobspec::duration;
use model::id::{NodeId, Uuid};
use model::join_token::{DEFAULT_TTL, JoinRole, JoinTokenSpec, JoiningMachine, MAX_USES};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use wire::bearer_token::{BearerToken, TokenSecret};
use wire::request::{WriteReply, WriteRequest};

pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let mut found = view.join_tokens()?;
    found.retain(|token| token.spec.id.to_string().starts_with(&call.query.prefix));
    let shapes = call.query.chosen(found.iter().map(JoinTokenShape::new))?;
    Ok(RouteOutcome::Respond(
        Response::json(&shapes, call.query.pretty).with("X-Nomad-Index", view.index().max(1)),
    ))
}

pub fn create(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let Some(region_key_digest) = call.ctx.agent.region_key_digest else {
        let why = "this region has no key that machines could know it by: stop its server, make one with \
                   `drover server init`, and start it again; or say server { encrypt = \"...\" } on all of its servers";
        return Err(Response::text(400, why));
    };
    let no_random = || Response::text(500, "the kernel gives no random numbers: try again");
    let random = (call.ctx.random)().ok_or_else(no_random)?;
    let (id, secret) = random.split_at(16);
    let id = u128::from_be_bytes(id.try_into().map_err(|_| no_random())?);
    let secret = TokenSecret(secret.try_into().map_err(|_| no_random())?);
    let (role, uses, ttl) = wanted(&json::object(call.body()?)?)?;
    let (id, secret_digest) = (Uuid::from_random(id), digest(&secret));
    let spec = JoinTokenSpec { id, secret_digest, role, uses, ttl };
    if let Some(problem) = spec.problem() {
        return Err(Response::text(400, problem));
    }
    let token = BearerToken { region: call.ctx.agent.region.clone(), region_key_digest, role, id, secret };
    let action = WriteRequest::CreateJoinToken { token: Box::new(spec) };
    Ok(act(call, action, WriteKind::JoinTokenCreated { token: Box::new(token) }))
}

fn wanted(body: &Map<String, Value>) -> Result<(JoinRole, u32, model::time::Span), Response> {
    let role = json::text(body, "Role")?.unwrap_or_default();
    let wrong = || Response::text(400, format!("Role is {role:?}: say \"client\" or \"server\""));
    let role = JoinRole::parse(role).ok_or_else(wrong)?;
    let too_many = |_| Response::text(400, format!("a join token has 1 to {MAX_USES} uses"));
    let uses = u32::try_from(json::number(body, "Uses")?.unwrap_or(1)).map_err(too_many)?;
    let ttl = match json::text(body, "TTL")? {
        None | Some("") => DEFAULT_TTL,
        Some(text) => duration::parse(text)
            .map_err(|_| Response::text(400, format!("TTL {text:?} is no duration like \"1h\"")))?,
    };
    Ok((role, uses, ttl))
}

pub fn revoke(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    Ok(act(call, WriteRequest::RevokeJoinToken { id: parsed_id(id)? }, WriteKind::Written))
}

/// By a server, for a machine that has proved the key.
pub fn redeem(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let body = json::object(call.body()?)?;
    let secret = TokenSecret(key(&body, "Secret")?);
    let wrong = || Response::text(400, "exactly one of the members Node and Server names the machine");
    let machine = match (json::text(&body, "Node")?, json::number(&body, "Server")?) {
        (Some(node), None) => JoiningMachine::Node(NodeId(parsed_id(node)?)),
        (None, Some(server)) => JoiningMachine::Server(server),
        _ => return Err(wrong()),
    };
    let (secret_digest, key) = (digest(&secret), key(&body, "Key")?);
    let action = WriteRequest::RedeemJoinToken { id: parsed_id(id)?, secret_digest, machine, key };
    Ok(act(call, action, WriteKind::JoinTokenRedeemed))
}

fn key(body: &Map<String, Value>, name: &str) -> Result<[u8; 32], Response> {
    let wrong = || Response::text(400, format!("member {name} must be 32 bytes in base64url"));
    let text = json::text(body, name)?.unwrap_or_default();
    URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)
}

fn parsed_id(text: &str) -> Result<Uuid, Response> {
    text.parse().map_err(|why: model::id::NotAUuid| Response::text(400, why.to_string()))
}

fn digest(secret: &TokenSecret) -> [u8; 32] {
    Sha256::digest(secret.0).into()
}

fn act(call: &Call<'_>, action: WriteRequest, kind: WriteKind) -> RouteOutcome {
    RouteOutcome::Write(action, WriteResponder { kind, pretty: call.query.pretty })
}

pub fn created(done: &WriteReply, made: &BearerToken, pretty: bool) -> Response {
    match done {
        WriteReply::JoinToken { token, index } => {
            Response::json(&NewJoinTokenShape::new(token, &made.text()), pretty)
                .with("X-Nomad-Index", index.max(&1))
        }
        _ => unexpected(),
    }
}

pub fn redeemed(done: &WriteReply, pretty: bool) -> Response {
    match done {
        WriteReply::JoinToken { token, .. } => Response::json(&JoinTokenShape::new(token), pretty),
        _ => unexpected(),
    }
}

fn unexpected() -> Response {
    Response::text(500, "the servers gave an answer of another kind")
}
