//! What a machine shows on a new link: who it is, under which key it speaks, and the region's signature of both. And why a link is
//! refused, as the number by which the other side hears of it.
//!
//! Refuses to know: keys, signatures and sockets.

use super::record::{self, DecodeError};
use super::rpc::Peer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest region name in a credential.
const MAX_REGION_BYTES: usize = 256;
/// The most that a signed credential takes.
pub const MAX_SIGNED_BYTES: usize = 512;
const SIGNATURE_BYTES: usize = 64;
/// What is signed begins with it, so that no other signature of the same key passes for one of these.
const SIGNED_AS: &[u8] = b"drover credential\0";

/// What a region says of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// The region's name.
    pub region: String,
    /// Which machine, and with that in which role.
    pub peer: Peer,
    /// The Ed25519 public key that the machine proves to have in the handshake.
    pub key: [u8; 32],
}

/// A credential as it travels: the bytes that were signed are kept as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedCredential {
    credential: Vec<u8>,
    signature: Vec<u8>,
}

crate::records! {
    Credential = "credential" 1;
    SignedCredential = "signed credential" 1;
}

impl Credential {
    /// `sign` gives the region's signature of bytes.
    pub fn signed(&self, sign: impl Fn(&[u8]) -> [u8; SIGNATURE_BYTES]) -> SignedCredential {
        let credential = record::encode(self);
        let signature = sign(&signed_bytes(&credential)).to_vec();
        SignedCredential { credential, signature }
    }
}

impl SignedCredential {
    /// What was shown, if it can be read and `is_signed` says of the bytes and the signature that they are the region's.
    pub fn open(bytes: &[u8], is_signed: impl Fn(&[u8], &[u8]) -> bool) -> Result<Credential, LinkRefusal> {
        if bytes.len() > MAX_SIGNED_BYTES {
            return Err(LinkRefusal::Malformed);
        }
        let shown: SignedCredential = record::decode(bytes).map_err(unreadable)?;
        if shown.signature.len() != SIGNATURE_BYTES {
            return Err(LinkRefusal::Malformed);
        }
        // first, so that nothing is made of what a stranger wrote
        if !is_signed(&signed_bytes(&shown.credential), &shown.signature) {
            return Err(LinkRefusal::OtherKey);
        }
        let credential: Credential = record::decode(&shown.credential).map_err(unreadable)?;
        if credential.region.len() > MAX_REGION_BYTES {
            return Err(LinkRefusal::Malformed);
        }
        Ok(credential)
    }
}

fn signed_bytes(credential: &[u8]) -> Vec<u8> {
    [SIGNED_AS, credential].concat()
}

fn unreadable(error: DecodeError) -> LinkRefusal {
    match error {
        DecodeError::Version { .. } => LinkRefusal::Version,
        _ => LinkRefusal::Malformed,
    }
}

/// Why a side closes a link. Append only: the place of each is its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkRefusal {
    /// The process ends.
    Stopping,
    /// The credential is signed by another region key.
    OtherKey,
    OtherRegion,
    /// The credential names another key than the one that the handshake proved.
    StolenCredential,
    /// A node where a server is needed, or a node that says what only servers say.
    WrongRole,
    /// The same process is at both ends.
    SameProcess,
    /// Another process has the same id.
    SameId,
    Malformed,
    /// The build does not know what the other one says.
    Version,
    /// A frame is longer than any may be.
    TooLong,
    /// There is a link already.
    AlreadyLinked,
    /// There are as many links as there may be.
    Busy,
    /// The handshake took too long.
    TooSlow,
    /// A node is linked to another server by now.
    Unused,
    /// A machine wants to join another region.
    TokenOfOtherRegion,
    /// A join token is wrong, expired or used up.
    TokenRefused,
    /// Too many join tokens of one address were wrong.
    TooManyAttempts,
    /// A machine wants to join at a node.
    LetsNobodyIn,
}

impl LinkRefusal {
    const ALL: [LinkRefusal; 18] = [
        LinkRefusal::Stopping,
        LinkRefusal::OtherKey,
        LinkRefusal::OtherRegion,
        LinkRefusal::StolenCredential,
        LinkRefusal::WrongRole,
        LinkRefusal::SameProcess,
        LinkRefusal::SameId,
        LinkRefusal::Malformed,
        LinkRefusal::Version,
        LinkRefusal::TooLong,
        LinkRefusal::AlreadyLinked,
        LinkRefusal::Busy,
        LinkRefusal::TooSlow,
        LinkRefusal::Unused,
        LinkRefusal::TokenOfOtherRegion,
        LinkRefusal::TokenRefused,
        LinkRefusal::TooManyAttempts,
        LinkRefusal::LetsNobodyIn,
    ];

    /// The number that the other side is told.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// `None`: a newer build's.
    pub fn from_code(code: u64) -> Option<LinkRefusal> {
        LinkRefusal::ALL.into_iter().find(|refusal| u64::from(refusal.code()) == code)
    }
}

/// True on both sides of the link.
impl fmt::Display for LinkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkRefusal::Stopping => "the agent is stopping",
            LinkRefusal::OtherKey => {
                "the two have different keys: give all servers of the region the same server.encrypt"
            }
            LinkRefusal::OtherRegion => {
                "the two are of regions with different names: check `region` in both configurations"
            }
            LinkRefusal::StolenCredential => {
                "the credential is of another machine: somebody between the two may be answering in its place"
            }
            LinkRefusal::WrongRole => "a node takes the place of a server: check the addresses of the servers",
            LinkRefusal::SameProcess => "the address is the agent's own",
            LinkRefusal::SameId => {
                "two servers have the same id, or one that was restarted is still taken to be there: if this goes on, a data \
                 directory was copied; stop one of the two and start it with an empty data directory"
            }
            LinkRefusal::Malformed => "what was said cannot be read: check that a drover agent is at the address",
            LinkRefusal::Version => "the two builds do not know each other's protocol: upgrade the older one",
            LinkRefusal::TooLong => "a message was longer than any may be: upgrade the older build",
            LinkRefusal::AlreadyLinked => "the two have another link already",
            LinkRefusal::Busy => "there are too many links or handshakes: it is tried again",
            LinkRefusal::TooSlow => "the handshake took too long: check the line between the two",
            LinkRefusal::Unused => "the node is linked to another server",
            LinkRefusal::TokenOfOtherRegion => {
                "the join token is of another region than the server: check the address, or make a token there"
            }
            LinkRefusal::TokenRefused => "a join token was refused",
            LinkRefusal::TooManyAttempts => {
                "too many join tokens from this address were wrong: it is heard again in five minutes"
            }
            LinkRefusal::LetsNobodyIn => "machines join at servers, and this is none: name a server's address",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential() -> Credential {
        Credential { region: "global".into(), peer: Peer::Server(7), key: [3; 32] }
    }

    /// A signature for tests: what is signed decides each of its bytes.
    fn sign(bytes: &[u8]) -> [u8; 64] {
        [bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(*byte)); 64]
    }

    fn is_signed(bytes: &[u8], signature: &[u8]) -> bool {
        sign(bytes) == signature
    }

    #[test]
    fn a_credential_is_read_where_the_region_signed_it() {
        let bytes = record::encode(&credential().signed(sign));
        assert_eq!(SignedCredential::open(&bytes, is_signed), Ok(credential()));
        let other = SignedCredential::open(&bytes, |_, _| false);
        assert_eq!(other, Err(LinkRefusal::OtherKey), "signed by another key");
    }

    #[test]
    fn what_is_no_credential_is_refused_by_its_reason() {
        let bytes = record::encode(&credential().signed(sign));
        for cut in 0..bytes.len() {
            assert_eq!(SignedCredential::open(&bytes[..cut], is_signed), Err(LinkRefusal::Malformed));
        }
        let newer = [&[9], &bytes[1..]].concat();
        assert_eq!(SignedCredential::open(&newer, is_signed), Err(LinkRefusal::Version));
        let long = Credential { region: "r".repeat(257), ..credential() };
        let refused = SignedCredential::open(&record::encode(&long.signed(sign)), is_signed);
        assert_eq!(refused, Err(LinkRefusal::Malformed));
        assert_eq!(SignedCredential::open(&[1; 513], is_signed), Err(LinkRefusal::Malformed));
        let unsigned = SignedCredential { credential: record::encode(&credential()), signature: vec![] };
        let refused = SignedCredential::open(&record::encode(&unsigned), |_, _| true);
        assert_eq!(refused, Err(LinkRefusal::Malformed));
    }

    #[test]
    fn the_longest_credential_fits_into_its_bound() {
        let long = Credential { region: "r".repeat(256), peer: Peer::Node(Default::default()), key: [9; 32] };
        let bytes = record::encode(&long.signed(sign));
        assert!(bytes.len() <= MAX_SIGNED_BYTES, "{}", bytes.len());
        assert_eq!(SignedCredential::open(&bytes, is_signed), Ok(long));
    }

    #[test]
    fn each_refusal_has_a_number_and_a_sentence_of_its_own() {
        let mut told = std::collections::BTreeSet::new();
        for (at, refusal) in (0..).zip(LinkRefusal::ALL) {
            assert_eq!((refusal.code(), LinkRefusal::from_code(at.into())), (at, Some(refusal)));
            assert!(told.insert(refusal.to_string()), "{refusal}");
        }
        assert_eq!(LinkRefusal::from_code(LinkRefusal::ALL.len() as u64), None);
        assert_eq!(LinkRefusal::from_code(u64::MAX), None);
    }
}
