//! What the HTTP API is encrypted with, and the rule that it is, wherever other machines reach it (cli.md 4.10).
//!
//! Refuses to know: what is in the files that are named.

use super::{Config, HttpConfig};
use ::io::tls::is_cipher_suite;
use std::path::PathBuf;

/// Nomad's words. The first two are older than anything that is spoken here.
const VERSIONS: [&str; 4] = ["tls10", "tls11", "tls12", "tls13"];

pub fn file(value: &str, into: &mut Option<PathBuf>) -> Result<(), String> {
    *into = Some(PathBuf::from(value));
    Ok(())
}

pub fn min_version(config: &mut Config, value: &str) -> Result<(), String> {
    if !VERSIONS.contains(&value) {
        return Err(format!("{value:?} is no version of TLS: use tls12 or tls13"));
    }
    config.http.https.min_version = value.to_string();
    Ok(())
}

/// Names with commas between them.
pub fn cipher_suites(config: &mut Config, value: &str) -> Result<(), String> {
    let names: Vec<String> =
        value.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = names.iter().find(|name| !is_cipher_suite(name)) {
        return Err(format!(
            "{unknown:?} is not offered: there are suites with AES-GCM and ChaCha20 and ephemeral keys, such as TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
        ));
    }
    config.http.https.cipher_suites = names;
    Ok(())
}

/// Why the API cannot be served so.
pub fn problem(http: &HttpConfig) -> Option<String> {
    let https = &http.https;
    if !https.enabled {
        let address = http.beyond_loopback().filter(|_| !http.insecure)?;
        return Some(format!(
            "The HTTP API would not be encrypted at {address}, which other machines reach. Say tls {{ http = true cert_file = \"...\" key_file = \"...\" }} (`drover tls ca create` and `drover tls cert create -server` make such files), or addresses {{ http = \"127.0.0.1\" }} to keep it on this machine, or insecure_http = true if everybody in that network may read and change what is said"
        ));
    }
    if https.cert_file.is_none() || https.key_file.is_none() {
        return Some(
            "tls.http needs tls.cert_file and tls.key_file: `drover tls ca create` and then `drover tls cert create -server` make both".to_string(),
        );
    }
    let missing = https.verify_client && https.ca_file.is_none();
    missing.then(|| {
        "tls.verify_https_client needs tls.ca_file: the authority whose certificates callers show".to_string()
    })
}

/// What a user should know of settings that are accepted.
pub fn warnings(http: &HttpConfig) -> Vec<String> {
    let https = &http.https;
    let mut found = Vec::new();
    match http.beyond_loopback().filter(|_| !https.enabled) {
        Some(address) if http.insecure => found.push(format!(
            "insecure_http: the HTTP API is not encrypted at {address}: whoever is in that network can read and change what is said. tls {{ http = true }} encrypts it"
        )),
        None if http.insecure => {
            found.push("insecure_http has no effect: nothing is said in plain beyond this machine".to_string());
        }
        _ => {}
    }
    if https.verify_client && !https.enabled {
        found.push("tls.verify_https_client has no effect without tls { http = true }".to_string());
    }
    if ["tls10", "tls11"].contains(&https.min_version.as_str()) {
        found.push(format!(
            "tls.tls_min_version is {:?}: the oldest that is spoken is TLS 1.2",
            https.min_version
        ));
    }
    found
}
