//! A machine's own key for its links: Ed25519, as it is kept and as the handshake proves it.
//!
//! Refuses to know: whose key it is. That is the credential's to say.

use super::identity::spki;
use ring::signature::{Ed25519KeyPair, KeyPair};
use ring::{hkdf, rand};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;
use std::io;
use std::sync::Arc;
use wire::stored_identity::{HiddenBytes, StoredKey};

pub struct MachineKey {
    stored: StoredKey,
    public: [u8; 32],
    tls: Arc<CertifiedKey>,
}

impl MachineKey {
    pub fn generate() -> io::Result<MachineKey> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&rand::SystemRandom::new())
            .map_err(|_| io::Error::other("the kernel gave no randomness for a key"))?;
        MachineKey::from_stored(&StoredKey { private: HiddenBytes(pkcs8.as_ref().to_vec()) })
    }

    pub fn from_stored(stored: &StoredKey) -> io::Result<MachineKey> {
        let pkcs8 = &stored.private.0;
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|e| io::Error::other(e.to_string()))?;
        let public: [u8; 32] = pair.public_key().as_ref().try_into().map_err(io::Error::other)?;
        let private = PrivatePkcs8KeyDer::from(pkcs8.clone());
        let signing = rustls::crypto::ring::sign::any_eddsa_type(&private).map_err(io::Error::other)?;
        let tls = Arc::new(CertifiedKey::new(vec![spki(&public)], signing));
        Ok(MachineKey { stored: stored.clone(), public, tls })
    }

    pub fn stored(&self) -> &StoredKey {
        &self.stored
    }

    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    pub fn tls(&self) -> &Arc<CertifiedKey> {
        &self.tls
    }

    /// What further keys of the machine follow from.
    pub fn derived(&self) -> hkdf::Prk {
        hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&self.stored.private.0)
    }
}
