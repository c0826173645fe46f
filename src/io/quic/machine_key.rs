//! A machine's own key for its links: Ed25519, as it is kept and as the handshake proves it.
//!
//! Refuses to know: whose key it is. That is the credential's to say.

use ring::signature::{Ed25519KeyPair, KeyPair};
use ring::{hkdf, rand};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::io;
use std::sync::Arc;
use wire::stored_identity::{HiddenBytes, StoredKey};

/// How an Ed25519 public key begins as a SubjectPublicKeyInfo (RFC 8410): the 32 bytes of the key follow.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

pub fn spki(key: &[u8; 32]) -> CertificateDer<'static> {
    CertificateDer::from([SPKI_PREFIX.as_slice(), key].concat())
}

/// `None`: no Ed25519 key.
pub fn key_of_spki(spki: &[u8]) -> Option<[u8; 32]> {
    spki.strip_prefix(&SPKI_PREFIX)?.try_into().ok()
}

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
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|_| io::Error::other("its key is damaged"))?;
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
