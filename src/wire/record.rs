//! A record is a schema version byte and the postcard form of that version. postcard has no field names, so a changed
//! struct is a new version: the struct as it was stays, under the name of its version, with a `From` to the new one
//! (docs/ondisk.md shows it). What no build knows is refused, never guessed.

use super::rpc::NodeReply;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;

pub trait Record: Serialize + DeserializeOwned {
    /// What the record is, for error texts.
    const NAME: &'static str;
    /// The version that this build writes. The first is 1.
    const VERSION: u8;

    /// The version that this value is written in.
    fn version(&self) -> u8 {
        Self::VERSION
    }

    /// Reads the body of an older version, from 1 to the one before `VERSION`.
    fn upgrade(version: u8, _body: &[u8]) -> Result<Self, DecodeError> {
        Err(unknown_version::<Self>(version))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    Empty(&'static str),
    /// Written by a newer build, or by one too old to upgrade from.
    Version {
        name: &'static str,
        found: u8,
        known: u8,
    },
    /// The bytes are not of this record.
    Body(&'static str),
    TooLong {
        name: &'static str,
        bytes: usize,
        limit: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Empty(name) => write!(f, "{name}: no bytes"),
            DecodeError::Version { name, found, known } => {
                write!(
                    f,
                    "{name}: written in version {found}, this build reads up to {known}; use a build that knows it"
                )
            }
            DecodeError::Body(name) => write!(f, "{name}: the bytes are damaged or of another kind"),
            DecodeError::TooLong { name, bytes, limit } => {
                write!(f, "{name}: {bytes} bytes, at most {limit} are allowed")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// The version byte, then postcard.
pub fn encode<R: Record>(record: &R) -> Vec<u8> {
    const { assert!(R::VERSION > 0, "the first version of a record is 1") };
    encoded(R::NAME, postcard::to_extend(record, vec![record.version()]))
}

/// A part of a record by itself.
pub fn encode_part<T: Serialize>(name: &str, part: &T) -> Vec<u8> {
    encoded(name, postcard::to_extend(part, vec![]))
}

/// How many bytes that takes within a record.
pub fn encoded_bytes<T: Serialize>(name: &str, part: &T) -> usize {
    encode_part(name, part).len()
}

/// Bytes of a type of ours. postcard fails only for types without a length known up front, and for a memory that is full: ours
/// are plain structs, so a failure is a bug, and must not become the bytes of nothing.
fn encoded(name: &str, bytes: postcard::Result<Vec<u8>>) -> Vec<u8> {
    bytes.unwrap_or_else(|e| panic!("{name}: a record of ours cannot be encoded: {e}"))
}

pub fn decode<R: Record>(bytes: &[u8]) -> Result<R, DecodeError> {
    let (&version, body) = bytes.split_first().ok_or(DecodeError::Empty(R::NAME))?;
    match version {
        0 => Err(unknown_version::<R>(version)),
        _ if version == R::VERSION => decode_body(R::NAME, body),
        _ if version < R::VERSION => R::upgrade(version, body),
        _ => Err(unknown_version::<R>(version)),
    }
}

/// What an `upgrade` says of a version that it does not know.
pub fn unknown_version<R: Record>(found: u8) -> DecodeError {
    DecodeError::Version { name: R::NAME, found, known: R::VERSION }
}

/// What postcard wrote, to its last byte.
pub fn decode_body<T: DeserializeOwned>(name: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(DecodeError::Body(name)),
    }
}

/// How the current version of a record begins, without looking at the rest. `None`: it is of another version.
pub fn decode_prefix<'a, R: Record, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<Option<T>, DecodeError> {
    match bytes.split_first() {
        Some((&version, body)) if version == R::VERSION => match postcard::take_from_bytes(body) {
            Ok((value, _)) => Ok(Some(value)),
            Err(_) => Err(DecodeError::Body(R::NAME)),
        },
        _ => Ok(None),
    }
}

/// Declares what is a record: its type, its name in errors, its version. One of a later version implements `Record` itself.
#[macro_export]
macro_rules! records {
    ($($type:ty = $name:literal $version:literal;)*) => { $(
        impl $crate::record::Record for $type {
            const NAME: &'static str = $name;
            const VERSION: u8 = $version;
        }
    )* };
}

records! {
    model::eval::Evaluation = "evaluation" 1;
    model::alloc::Allocation = "allocation" 1;
    model::job::Job = "job" 1;
    model::job::JobSpec = "job version" 1;
    model::job_summary::JobSummary = "job summary" 1;
    model::namespace::Namespace = "namespace" 1;
    model::pool::NodePool = "node pool" 1;
    model::scheduling::SchedulerConfig = "scheduler configuration" 1;
    model::submission::Submission = "job submission" 1;
    model::key::SigningKey = "signing key" 1;
    model::node::Node = "node" 1;
    super::rpc::NodeRequest = "node request" 1;
    NodeReply = "node reply" 1;
    super::server_rpc::ServerRequest = "server request" 1;
    super::server_rpc::ServerReply = "server reply" 1;
    super::http::NodeHttpRequest = "node HTTP request" 1;
    super::http::NodeHttpReply = "node HTTP reply" 1;
    super::client_rpc::ClientRequest = "node ask" 1;
    super::client_rpc::ClientReply = "node answer" 1;
    super::client_rpc::StreamFrame = "piece" 1;
    super::client_rpc::SessionInput = "session input" 1;
    super::client_rpc::SessionOutput = "session output" 1;
    super::request::Refusal = "refusal" 1;
    super::keeper::KeeperCommand = "keeper command" 1;
    super::keeper::Event = "keeper event" 1;
    model::deployment::Deployment = "deployment" 1;
    model::scaling::ScalingPolicy = "scaling policy" 1;
    model::scaling::ScalingEvents = "scaling events" 1;
    super::snapshot::SnapshotMessage = "snapshot message" 1;
    model::member::ServerMember = "server" 1;
    model::member::Founding = "founding" 1;
    model::member::RegionLevel = "feature level" 1;
    model::member::ServerList = "server list" 1;
    model::join_token::JoinToken = "join token" 1;
    super::command::Redemption = "redemption" 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::job_summary::JobSummary;

    #[test]
    fn records_round_trip_and_refuse_unknown_versions() {
        let summary = JobSummary { create_index: 7, ..JobSummary::default() };
        let bytes = encode(&summary);
        assert_eq!(decode(&bytes), Ok(summary));
        assert_eq!(decode::<JobSummary>(&[]), Err(DecodeError::Empty("job summary")));
        let mut newer = bytes.clone();
        newer[0] = 9;
        assert!(matches!(decode::<JobSummary>(&newer), Err(DecodeError::Version { found: 9, .. })));
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(decode::<JobSummary>(&longer), Err(DecodeError::Body("job summary")));
        assert_eq!(decode::<JobSummary>(&bytes[..bytes.len() - 1]), Err(DecodeError::Body("job summary")));
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct PetV1 {
        name: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Pet {
        name: String,
        legs: u8,
    }

    impl From<PetV1> for Pet {
        fn from(PetV1 { name }: PetV1) -> Pet {
            Pet { name, legs: 4 }
        }
    }

    impl Record for PetV1 {
        const NAME: &'static str = "pet";
        const VERSION: u8 = 1;
    }

    impl Record for Pet {
        const NAME: &'static str = "pet";
        const VERSION: u8 = 2;

        fn upgrade(version: u8, body: &[u8]) -> Result<Pet, DecodeError> {
            match version {
                1 => super::decode_body::<PetV1>(Pet::NAME, body).map(Pet::from),
                _ => Err(unknown_version::<Pet>(version)),
            }
        }
    }

    #[test]
    fn a_newer_record_version_upgrades_the_older_one() {
        let first = encode(&PetV1 { name: "Rex".into() });
        assert_eq!(first, b"\x01\x03Rex");
        assert_eq!(decode(&first), Ok(Pet { name: "Rex".into(), legs: 4 }));

        let second = encode(&Pet { name: "Tweety".into(), legs: 2 });
        assert_eq!(second, b"\x02\x06Tweety\x02");
        assert_eq!(decode(&second), Ok(Pet { name: "Tweety".into(), legs: 2 }));
        let refused = decode::<PetV1>(&second).expect_err("an older build does not know it");
        assert_eq!(refused, DecodeError::Version { name: "pet", found: 2, known: 1 });
        assert!(refused.to_string().contains("use a build that knows it"), "{refused}");

        let longer = [first.as_slice(), &[0]].concat();
        assert_eq!(decode::<Pet>(&longer), Err(DecodeError::Body("pet")), "more than the first version had");
        assert_eq!(
            decode::<Pet>(b"\x00\x03Rex"),
            Err(unknown_version::<Pet>(0)),
            "there never was a version 0"
        );
    }

    #[derive(Deserialize)]
    struct Endless;

    impl Serialize for Endless {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(std::iter::repeat_n(0u8, 3).filter(|_| true))
        }
    }

    impl Record for Endless {
        const NAME: &'static str = "endless";
        const VERSION: u8 = 1;
    }

    #[test]
    #[should_panic(expected = "endless: a record of ours cannot be encoded")]
    fn a_record_that_cannot_be_encoded_panics() {
        encode(&Endless);
    }
}
