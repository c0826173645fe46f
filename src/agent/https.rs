//! What the HTTP API is encrypted with: reads the files that the configuration names, at the start and again on SIGHUP.
//!
//! Refuses to know: connections. What is wrong is told with the file's name and with what to do.

use super::config::files::os_error;
use super::config::{Config, HttpsConfig};
use ::io::clock;
use ::io::http::Https;
use ::io::tls::{TlsProblem, TlsServer, TlsServerOptions};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// A file with all authorities of a distribution has some 200 KiB.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// `None`: HTTPS is not spoken.
pub fn https(config: &Config) -> Result<Option<Https>, String> {
    let https = &config.http.https;
    if !https.enabled {
        return Ok(None);
    }
    let options = TlsServerOptions {
        certificate: read("tls.cert_file", &https.cert_file)?,
        key: read("tls.key_file", &https.key_file)?,
        client_authorities: match https.verify_client {
            true => Some(read("tls.ca_file", &https.ca_file)?),
            false => None,
        },
        only_tls13: https.min_version == "tls13",
        cipher_suites: https.cipher_suites.clone(),
        prefer_own_order: https.prefer_own_order,
    };
    let server = TlsServer::new(&options).map_err(|problem| sentence(https, problem))?;
    Ok(Some(Https { server, handshake_timeout: clock::duration(https.handshake_timeout) }))
}

fn read(key: &str, file: &Option<PathBuf>) -> Result<Vec<u8>, String> {
    let file = file.as_ref().ok_or_else(|| format!("{key} is missing"))?;
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|open| open.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
    let readable = read.map_err(|e| {
        format!("{key} {}: {}: the agent's user must be able to read it", file.display(), os_error(&e))
    });
    readable.map(|_| bytes)
}

fn sentence(https: &HttpsConfig, problem: TlsProblem) -> String {
    let shown = |file: &Option<PathBuf>| file.as_ref().map(|f| f.display().to_string()).unwrap_or_default();
    let (cert, key, ca) = (shown(&https.cert_file), shown(&https.key_file), shown(&https.ca_file));
    match problem {
        TlsProblem::Certificate(why) => format!("tls.cert_file {cert}: {why}"),
        TlsProblem::Key(why) => format!("tls.key_file {key}: {why}"),
        TlsProblem::NoPair => format!(
            "tls.key_file {key} is not the key of tls.cert_file {cert}: name two files that were made together"
        ),
        TlsProblem::ClientAuthorities(why) => format!("tls.ca_file {ca}: {why}"),
        TlsProblem::Settings(why) => format!("tls: {why}"),
    }
}
