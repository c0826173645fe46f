//! What a machine that has enrolled keeps of it: its key, the region's word that the key is its own, and the key by which it knows others.
//!
//! Refuses to know: files, and how signatures are made.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes that no log line, error or `Debug` shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenBytes(pub Vec<u8>);

impl fmt::Debug for HiddenBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

/// A machine's own key, before and after a region knows it: kept before it is shown to anybody, so that a machine whose answer was lost
/// asks again as the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKey {
    /// Ed25519 as PKCS#8 (RFC 8410).
    pub private: HiddenBytes,
}

/// A machine's place in its region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredIdentity {
    pub key: StoredKey,
    /// A `SignedCredential` as it is shown.
    pub credential: Vec<u8>,
    /// The region's public key, by which the credentials of others are known.
    pub region_key: [u8; 32],
    /// What `server.encrypt` says elsewhere: servers alone have it.
    pub region_secret: Option<HiddenBytes>,
}

crate::records! {
    StoredKey = "stored key" 1;
    StoredIdentity = "stored identity" 1;
}
