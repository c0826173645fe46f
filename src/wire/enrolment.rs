//! What a machine that has a join token and a server of the token's region say to each other, on a connection of a protocol of its own:
//! hello, welcome, request, answer. Each is a record behind its length.
//!
//! Refuses to know: connections and signatures. Invariant: the secret is in the request alone, which follows on a welcome that was checked.

use super::bearer_token::TokenSecret;
use super::request::Refusal;
use super::rpc::Peer;
use super::stored_identity::HiddenBytes;
use model::id::Uuid;
use serde::{Deserialize, Serialize};

/// The most that any of them takes.
pub const MAX_MESSAGE_BYTES: usize = 2048;

/// The machine's first word: of which region its token is. A server of another one says nothing of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolHello {
    pub region_key_digest: [u8; 32],
}

/// The server shows who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolWelcome {
    /// A `SignedCredential`.
    pub credential: Vec<u8>,
    pub region_key: [u8; 32],
}

/// The machine shows its token. Its key is the one that it has proved in the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolRequest {
    pub token: Uuid,
    pub secret: TokenSecret,
    /// Who it wants to be, and with that in which role.
    pub machine: Peer,
}

/// Append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnrolAnswer {
    Enrolled {
        /// A `SignedCredential` for the machine and the key that it has proved.
        credential: Vec<u8>,
        /// For servers.
        region_secret: Option<HiddenBytes>,
    },
    Refused(Refusal),
}

/// The longest sentence of a refusal.
const MAX_SENTENCE_CHARS: usize = 400;

impl EnrolAnswer {
    /// A sentence that is too long for a message is cut.
    pub fn bounded(self) -> EnrolAnswer {
        match self {
            EnrolAnswer::Refused(Refusal { kind, message }) => {
                let message = message.chars().take(MAX_SENTENCE_CHARS).collect();
                EnrolAnswer::Refused(Refusal { kind, message })
            }
            enrolled => enrolled,
        }
    }
}

crate::records! {
    EnrolHello = "enrolment hello" 1;
    EnrolWelcome = "enrolment welcome" 1;
    EnrolRequest = "enrolment request" 1;
    EnrolAnswer = "enrolment answer" 1;
}
