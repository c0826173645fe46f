//! Certificates and keys in their text form (RFC 7468).
//!
//! Refuses to know: what is in them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// All certificates of a file, in their order. `Err`: a sentence, for whoever names the file.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, Error> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err("it has no certificate: a line BEGIN CERTIFICATE is missing".into())
        }
        Ok(found) => Ok(found),
        Err(e) => Err(format!("it is no certificate in PEM: {}", words(&e))),
    }
}

/// The first key of a file: PKCS #8, PKCS #1 (RSA) or SEC 1 (EC).
pub fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|e| match e {
        Error::NoItemsFound => {
            "it has no private key that is not encrypted: a line such as BEGIN PRIVATE KEY is missing".into()
        }
        other => format!("it is no private key in PEM: {}", words(&other)),
    })
}

/// Without what the file says, which may be a key.
fn words(error: &Error) -> &'static str {
    match error {
        Error::MissingSectionEnd { .. } => "an END line is missing",
        Error::IllegalSectionStart { .. } => "a BEGIN line is malformed",
        Error::Base64Decode(_) => "what stands between BEGIN and END is no base64",
        _ => "it cannot be read",
    }
}

/// `label`: as it stands after `BEGIN`.
pub fn text(label: &str, der: &[u8]) -> String {
    const LINE_CHARS: usize = 64;
    let encoded = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in encoded.as_bytes().chunks(LINE_CHARS) {
        out.extend(line.iter().map(|byte| char::from(*byte)));
        out.push('\n');
    }
    out + &format!("-----END {label}-----\n")
}
