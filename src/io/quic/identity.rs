//! Who a machine is on its links: the region's key, which follows from the secret that all servers share, a key of the process, and the
//! credential that joins the two.
//!
//! Refuses to know: sockets, and where the secret is kept. Invariant: a credential is taken from nobody who has not proved the key
//! that it names.

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ring::{hkdf, hmac, rand};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::io;
use std::sync::Arc;
use wire::credential::{Credential, LinkRefusal, SignedCredential};
use wire::record;
use wire::rpc::Peer;

/// The secret's purposes, each with a key of its own. A changed text is another region.
const ROOT_KEY: &[u8] = b"drover region root key 1";
const RESET_KEY: &[u8] = b"drover stateless reset key 1";
const CONNECTION_IDS: &[u8] = b"drover connection id key 1";

/// How an Ed25519 public key begins as a SubjectPublicKeyInfo (RFC 8410): the 32 bytes of the key follow.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

pub fn spki(key: &[u8; 32]) -> CertificateDer<'static> {
    CertificateDer::from([SPKI_PREFIX.as_slice(), key].concat())
}

/// `None`: no Ed25519 key.
pub fn key_of_spki(spki: &[u8]) -> Option<[u8; 32]> {
    spki.strip_prefix(&SPKI_PREFIX)?.try_into().ok()
}

/// What the servers of a region share.
pub struct RegionKey {
    root: Ed25519KeyPair,
    secret: hkdf::Prk,
}

impl RegionKey {
    /// `secret`: 16 random bytes at least. Whoever has them can be any machine of the region.
    pub fn from_secret(secret: &[u8]) -> io::Result<RegionKey> {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret);
        let root = Ed25519KeyPair::from_seed_unchecked(&expand(&secret, &[ROOT_KEY])?)
            .map_err(|e| io::Error::other(e.to_string()))?;
        Ok(RegionKey { root, secret })
    }

    /// A new key for `peer`, and the region's word that it is `peer`'s.
    pub fn identity(&self, region: &str, peer: Peer) -> io::Result<LinkIdentity> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&rand::SystemRandom::new())
            .map_err(|_| io::Error::other("the kernel gave no randomness for a key"))?;
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).map_err(|e| io::Error::other(e.to_string()))?;
        let key: [u8; 32] = pair.public_key().as_ref().try_into().map_err(io::Error::other)?;
        let credential = Credential { region: region.to_string(), peer, key };
        let sign = |bytes: &[u8]| {
            self.root.sign(bytes).as_ref().try_into().expect("an Ed25519 signature has 64 bytes")
        };
        let shown = record::encode(&credential.signed(sign));
        let private = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
        let signing = rustls::crypto::ring::sign::any_eddsa_type(&private).map_err(io::Error::other)?;
        let own = record::encode_part("peer", &peer);
        let [a, b, c, d, e, f, g, h, ..] = expand(&self.secret, &[CONNECTION_IDS, &own])?;
        Ok(LinkIdentity {
            credential,
            shown,
            root: self.root.public_key().as_ref().to_vec(),
            tls: Arc::new(CertifiedKey::new(vec![spki(&key)], signing)),
            reset_key: expand(&self.secret, &[RESET_KEY, &own])?,
            connection_id_key: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        })
    }
}

fn expand(secret: &hkdf::Prk, purpose: &[&[u8]]) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    let failed = |_| io::Error::other("a key could not be derived");
    let okm = secret.expand(purpose, hkdf::HKDF_SHA256).map_err(failed)?;
    okm.fill(&mut key).map_err(failed)?;
    Ok(key)
}

/// A machine of a region, in this process.
pub struct LinkIdentity {
    credential: Credential,
    /// The credential, signed, as it is sent.
    shown: Vec<u8>,
    /// The region's public key.
    root: Vec<u8>,
    pub tls: Arc<CertifiedKey>,
    /// The same after a restart, so that what is left of the last process's links ends with the next packet.
    reset_key: [u8; 32],
    connection_id_key: u64,
}

impl LinkIdentity {
    pub fn peer(&self) -> Peer {
        self.credential.peer
    }

    pub fn shown(&self) -> &[u8] {
        &self.shown
    }

    pub fn reset_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.reset_key)
    }

    pub fn connection_id_key(&self) -> u64 {
        self.connection_id_key
    }

    /// Who shows these bytes, having proved `proved` in the handshake.
    pub fn verify(&self, shown: &[u8], proved: &[u8; 32]) -> Result<Peer, LinkRefusal> {
        let root = UnparsedPublicKey::new(&ED25519, &self.root);
        let is_signed = |bytes: &[u8], signature: &[u8]| root.verify(bytes, signature).is_ok();
        let Credential { region, peer, key } = SignedCredential::open(shown, is_signed)?;
        if key != *proved {
            return Err(LinkRefusal::StolenCredential);
        }
        if region != self.credential.region {
            return Err(LinkRefusal::OtherRegion);
        }
        if peer == self.credential.peer {
            let is_own = key == self.credential.key;
            return Err(if is_own { LinkRefusal::SameProcess } else { LinkRefusal::SameId });
        }
        Ok(peer)
    }

    /// A machine that shows another one's credential.
    #[cfg(test)]
    pub fn showing(mut self, stolen: &LinkIdentity) -> LinkIdentity {
        self.shown = stolen.shown.clone();
        self
    }
}
