//! Functions that encode, decode and hash.

use super::arguments::{Arguments, Outcome};
use super::{Error, World};
use crate::operators;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::Digest;

pub fn call(name: &str, args: &Arguments<'_>, world: &World<'_>) -> Option<Outcome> {
    Some(match name {
        "base64decode" => base64_decode(args),
        "base64encode" => one(args, |s| STANDARD.encode(s)),
        "bcrypt" => bcrypt(args, world),
        "csvdecode" => csv_decode(args),
        "jsondecode" => json_decode(args),
        "jsonencode" => args.exactly(1).map(|()| Value::String(args.get(0).to_string())),
        "md5" => one(args, |s| hex(&md5::Md5::digest(s))),
        "sha1" => one(args, |s| hex(&sha1::Sha1::digest(s))),
        "sha256" => one(args, |s| hex(&sha2::Sha256::digest(s))),
        "sha512" => one(args, |s| hex(&sha2::Sha512::digest(s))),
        "urlencode" => one(args, url_encode),
        "uuidv4" => args.exactly(0).map(|()| Value::String(uuid_v4(world))),
        "uuidv5" => uuid_v5(args),
        "yamldecode" => yaml_decode(args),
        "yamlencode" => yaml_encode(args),
        "rsadecrypt" => {
            Err(Error::Failed("not supported yet: rsadecrypt; decrypt the value outside the job file".into()))
        }
        _ => return None,
    })
}

fn one(args: &Arguments<'_>, f: impl Fn(&str) -> String) -> Outcome {
    args.exactly(1)?;
    Ok(Value::String(f(&args.text(0)?)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn base64_decode(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let bytes =
        STANDARD.decode(args.text(0)?).map_err(|e| Error::Failed(format!("this is not base64: {e}")))?;
    let text =
        String::from_utf8(bytes).map_err(|_| Error::Failed("the decoded bytes are not UTF-8 text".into()))?;
    Ok(Value::String(text))
}

/// Each step of the cost doubles the time: it is bounded, and paid from the budget.
fn bcrypt(args: &Arguments<'_>, world: &World<'_>) -> Outcome {
    args.between(1, 2)?;
    let cost = if args.len() == 2 { args.int(1)? } else { 10 };
    let cost = u32::try_from(cost).ok().filter(|c| (4..=12).contains(c)).ok_or("the cost is from 4 to 12")?;
    args.budget.take(2048 << cost)?;
    let mut salt = [0; 16];
    salt.copy_from_slice(&random(world)[..16]);
    let hashed =
        ::bcrypt::hash_with_salt(args.text(0)?, cost, salt).map_err(|e| Error::Failed(e.to_string()))?;
    Ok(Value::String(hashed.format_for_version(::bcrypt::Version::TwoA)))
}

/// Differs with the seed and with every use, since every use takes from the budget.
fn random(world: &World<'_>) -> [u8; 32] {
    let mut hash = sha2::Sha256::new();
    hash.update(world.seed.to_le_bytes());
    hash.update(world.budget.left().to_le_bytes());
    hash.finalize().into()
}

fn uuid_v4(world: &World<'_>) -> String {
    let mut bits = [0; 16];
    bits.copy_from_slice(&random(world)[..16]);
    model::id::Uuid::from_random(u128::from_be_bytes(bits)).to_string()
}

fn uuid_v5(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let (namespace, name) = (args.text(0)?, args.text(1)?);
    let namespace = match namespace.as_str() {
        "dns" => uuid::Uuid::NAMESPACE_DNS,
        "url" => uuid::Uuid::NAMESPACE_URL,
        "oid" => uuid::Uuid::NAMESPACE_OID,
        "x500" => uuid::Uuid::NAMESPACE_X500,
        other => other
            .parse()
            .map_err(|_| Error::Failed(format!("{other:?} is neither a UUID nor dns, url, oid or x500")))?,
    };
    Ok(Value::String(uuid::Uuid::new_v5(&namespace, name.as_bytes()).to_string()))
}

fn url_encode(s: &str) -> String {
    let mut out = String::new();
    for b in s.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(b)),
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

fn json_decode(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let value =
        serde_json::from_str(&args.text(0)?).map_err(|e| Error::Failed(format!("this is not JSON: {e}")))?;
    Ok(operators::whole(value))
}

fn yaml_decode(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let text = args.text(0)?;
    // An alias repeats what its anchor holds; the library stops at a hundred times the text.
    if text.contains('*') {
        args.budget.take((text.len() as u64).saturating_mul(400))?;
    }
    let value = serde_norway::from_str(&text).map_err(|e| Error::Failed(format!("this is not YAML: {e}")))?;
    Ok(operators::whole(value))
}

fn yaml_encode(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let text = serde_norway::to_string(args.get(0)).map_err(|e| Error::Failed(e.to_string()))?;
    Ok(Value::String(text))
}

/// The first line names the columns; every row becomes an object.
fn csv_decode(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let text = args.text(0)?;
    let broken = |e: csv::Error| Error::Failed(format!("this is not CSV: {e}"));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().map_err(broken)?.clone();
    let names: Vec<&str> = head.iter().collect();
    let width: usize = names.iter().map(|n| n.len() + 48).sum();
    let mut rows = Vec::new();
    for record in reader.records() {
        args.budget.take(width as u64)?;
        let record = record.map_err(broken)?;
        let row =
            names.iter().zip(record.iter()).map(|(n, v)| ((*n).to_string(), Value::String(v.to_string())));
        rows.push(Value::Object(row.collect()));
    }
    Ok(Value::Array(rows))
}
