//! The region's signing keys, as far as they are shown: the public halves for whoever checks signatures, and a list for
//! operators (http-api.md 8.10, 9.6).
//!
//! Invariant: no private half is named here.

use crate::blocking;
use crate::response::Response;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome};
use base64::Engine;
use model::key::SigningKey;
use serde::Serialize;

/// RFC 7517 and RFC 8037.
#[derive(Serialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}

#[derive(Serialize)]
struct Jwk {
    #[serde(rename = "use")]
    purpose: &'static str,
    kty: &'static str,
    kid: String,
    crv: &'static str,
    alg: &'static str,
    x: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct KeyMeta {
    #[serde(rename = "KeyID")]
    key_id: String,
    algorithm: &'static str,
    /// Nanoseconds since 1970.
    create_time: i64,
    create_index: u64,
    modify_index: u64,
    state: &'static str,
}

pub fn jwks(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let jwk = |key: &SigningKey| Jwk {
        purpose: "sig",
        kty: "OKP",
        kid: key.id.to_string(),
        crv: "Ed25519",
        alg: "EdDSA",
        x: base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(key.public),
    };
    let keys = call.view()?.signing_keys()?.iter().map(jwk).collect();
    Ok(RouteOutcome::Respond(Response::json(&JwkSet { keys }, call.query.pretty)))
}

/// Keys never change: a blocking query waits to its end.
pub fn list(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    let view = call.view()?;
    let keys = view.signing_keys()?;
    let index = keys.iter().map(|k| k.create_index).max().unwrap_or(0);
    blocking::answer(call, index, Vec::<WatchKey>::new(), view.index(), || {
        let shapes = call.query.chosen(keys.iter().map(meta))?;
        Ok(Response::json(&shapes, call.query.pretty))
    })
}

fn meta(key: &SigningKey) -> KeyMeta {
    KeyMeta {
        key_id: key.id.to_string(),
        algorithm: "ed25519",
        create_time: key.created.0,
        create_index: key.create_index,
        modify_index: key.create_index,
        state: "active",
    }
}
