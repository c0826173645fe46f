//! Who a machine is on its links: the region's key, which follows from the secret that all servers share, a key of the machine or of this
//! process, and the credential that joins the two. A machine that has enrolled has a credential, and not the secret.
//!
//! Refuses to know: sockets, and where the secret is kept. Invariant: a credential is taken from nobody who has not proved the key
//! that it names.

use super::machine_key::MachineKey;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ring::{digest, hkdf, hmac};
use rustls::sign::CertifiedKey;
use std::io;
use std::sync::Arc;
use wire::credential::{Credential, LinkRefusal, SignedCredential};
use wire::record;
use wire::rpc::Peer;
use wire::stored_identity::StoredIdentity;

/// The secret's purposes, each with a key of its own. A changed text is another region.
const ROOT_KEY: &[u8] = b"drover region root key 1";
const RESET_KEY: &[u8] = b"drover stateless reset key 1";
const CONNECTION_IDS: &[u8] = b"drover connection id key 1";

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

    /// The half that may be known to everybody.
    pub fn public(&self) -> [u8; 32] {
        self.root.public_key().as_ref().try_into().expect("an Ed25519 key has 32 bytes")
    }

    /// The region's word, as it is shown, that `key` is `peer`'s.
    pub fn credential_for(&self, region: &str, peer: Peer, key: [u8; 32]) -> Vec<u8> {
        let credential = Credential { region: region.to_string(), peer, key };
        let sign = |bytes: &[u8]| {
            self.root.sign(bytes).as_ref().try_into().expect("an Ed25519 signature has 64 bytes")
        };
        record::encode(&credential.signed(sign))
    }

    /// A new key for `peer`, and the region's word that it is `peer`'s.
    pub fn identity(&self, region: &str, peer: Peer) -> io::Result<LinkIdentity> {
        let key = MachineKey::generate()?;
        let shown = self.credential_for(region, peer, key.public());
        LinkIdentity::new(&key, shown, self.public(), &self.secret)
    }
}

/// What was shown, if the region's key has signed it.
pub fn opened(shown: &[u8], region_key: &[u8; 32]) -> Result<Credential, LinkRefusal> {
    let root = UnparsedPublicKey::new(&ED25519, region_key);
    SignedCredential::open(shown, |bytes, signature| root.verify(bytes, signature).is_ok())
}

fn expand(secret: &hkdf::Prk, purpose: &[&[u8]]) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    let failed = |_| io::Error::other("a key could not be derived");
    let okm = secret.expand(purpose, hkdf::HKDF_SHA256).map_err(failed)?;
    okm.fill(&mut key).map_err(failed)?;
    Ok(key)
}

/// The digest by which a join token names a region's public key.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A machine of a region, in this process.
pub struct LinkIdentity {
    credential: Credential,
    /// The credential, signed, as it is sent.
    shown: Vec<u8>,
    /// The region's public key.
    region_key: [u8; 32],
    tls: Arc<CertifiedKey>,
    /// The same after a restart, so that what is left of the last process's links ends with the next packet.
    reset_key: [u8; 32],
    connection_id_key: u64,
}

impl LinkIdentity {
    /// `secret`: what the machine alone, or its region's servers alone, know.
    fn new(
        key: &MachineKey,
        shown: Vec<u8>,
        region_key: [u8; 32],
        secret: &hkdf::Prk,
    ) -> io::Result<LinkIdentity> {
        let credential = opened(&shown, &region_key).map_err(|why| io::Error::other(why.to_string()))?;
        if credential.key != key.public() {
            return Err(io::Error::other("the credential is of another key"));
        }
        let own = record::encode_part("peer", &credential.peer);
        let [a, b, c, d, e, f, g, h, ..] = expand(secret, &[CONNECTION_IDS, &own])?;
        Ok(LinkIdentity {
            credential,
            shown,
            region_key,
            tls: key.tls().clone(),
            reset_key: expand(secret, &[RESET_KEY, &own])?,
            connection_id_key: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        })
    }

    /// The identity that a machine was given when it enrolled, without the region's secret.
    pub fn from_stored(stored: &StoredIdentity) -> io::Result<LinkIdentity> {
        let key = MachineKey::from_stored(&stored.key)?;
        LinkIdentity::new(&key, stored.credential.clone(), stored.region_key, &key.derived())
    }

    pub fn region(&self) -> &str {
        &self.credential.region
    }

    pub fn region_key(&self) -> [u8; 32] {
        self.region_key
    }

    pub fn tls(&self) -> &Arc<CertifiedKey> {
        &self.tls
    }

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
        let Credential { region, peer, key } = opened(shown, &self.region_key)?;
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
