//! A record is a schema version byte and the postcard form of that version. postcard has no field names, so a changed
//! struct is a new version with an upgrade from the one before; what no build knows is refused, never guessed.

use super::rpc::{Assignment2, NodeReply};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

pub trait Record: Serialize + DeserializeOwned {
    /// What the record is, for error texts.
    const NAME: &'static str;
    /// The version that this build writes.
    const VERSION: u8;

    /// Reads an older version. Called with versions below `VERSION` only.
    fn upgrade(version: u8, _body: &[u8]) -> Result<Self, Malformed> {
        Err(Malformed::Version { name: Self::NAME, found: version, known: Self::VERSION })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malformed {
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

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Empty(name) => write!(f, "{name}: no bytes"),
            Malformed::Version { name, found, known } => {
                write!(
                    f,
                    "{name}: written in format {found}, this build reads {known}; use a build that knows it"
                )
            }
            Malformed::Body(name) => write!(f, "{name}: the bytes are damaged or of another kind"),
            Malformed::TooLong { name, bytes, limit } => {
                write!(f, "{name}: {bytes} bytes, at most {limit} are allowed")
            }
        }
    }
}

impl std::error::Error for Malformed {}

/// The version byte, then postcard.
pub fn encode<R: Record>(record: &R) -> Vec<u8> {
    // postcard fails only for types without a length known up front; ours are plain structs (golden tests cover each).
    postcard::to_extend(record, vec![R::VERSION]).unwrap_or_default()
}

pub fn decode<R: Record>(bytes: &[u8]) -> Result<R, Malformed> {
    let (&version, body) = bytes.split_first().ok_or(Malformed::Empty(R::NAME))?;
    if version == R::VERSION {
        self::body(R::NAME, body)
    } else if version < R::VERSION {
        R::upgrade(version, body)
    } else {
        Err(Malformed::Version { name: R::NAME, found: version, known: R::VERSION })
    }
}

/// What postcard wrote, to its last byte.
pub fn body<T: DeserializeOwned>(name: &'static str, bytes: &[u8]) -> Result<T, Malformed> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(|_| Malformed::Body(name))?;
    if rest.is_empty() { Ok(value) } else { Err(Malformed::Body(name)) }
}

/// The second version of a record whose first one lacked what `more` says of its end.
pub fn lengthened<R: Record>(version: u8, more: &[u8], first: &[u8]) -> Result<R, Malformed> {
    match version {
        1 => body(R::NAME, &[first, more].concat()),
        _ => Err(Malformed::Version { name: R::NAME, found: version, known: R::VERSION }),
    }
}

macro_rules! records {
    ($($type:ty = $name:literal $version:literal),* $(,)?) => { $(
        impl Record for $type {
            const NAME: &'static str = $name;
            const VERSION: u8 = $version;
        }
    )* };
}

// The second versions came with format 2 of the stores: no disk holds their first ones.
records! {
    crate::model::eval::Evaluation = "evaluation" 2,
    crate::model::alloc::Allocation = "allocation" 2,
    crate::model::job::Job = "job" 2,
    crate::model::job::JobSpec = "job version" 2,
    super::command::Command = "command" 2,
    crate::model::job::JobSummary = "job summary" 1,
    crate::model::namespace::Namespace = "namespace" 1,
    crate::model::pool::NodePool = "node pool" 1,
    crate::model::scheduling::SchedulerConfig = "scheduler configuration" 1,
    crate::model::submission::Submission = "job submission" 1,
    crate::model::key::SigningKey = "signing key" 1,
    super::rpc::NodeRequest = "node request" 1,
    super::ask::NodeAsk = "node ask" 1,
    super::ask::NodeAnswer = "node answer" 1,
    super::ask::Piece = "piece" 1,
    super::ask::SessionInput = "session input" 1,
    super::ask::SessionOutput = "session output" 1,
    super::request::Refusal = "refusal" 1,
    super::keeper::Command = "keeper command" 1,
    super::keeper::Event = "keeper event" 1,
    crate::model::deployment::Deployment = "deployment" 1,
}

impl Record for NodeReply {
    const NAME: &'static str = "node reply";
    const VERSION: u8 = 3;

    /// Version 2 had assignments that named no deployment.
    fn upgrade(version: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        if version != 2 {
            return Err(Malformed::Version { name: Self::NAME, found: version, known: Self::VERSION });
        }
        Ok(body::<NodeReply<Assignment2>>(Self::NAME, bytes)?.into())
    }
}

impl Record for crate::model::node::Node {
    const NAME: &'static str = "node";
    const VERSION: u8 = 2;

    /// Version 1 ended before the two drains: there was none.
    fn upgrade(version: u8, body: &[u8]) -> Result<Self, Malformed> {
        lengthened(version, &[0, 0], body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::JobSummary;

    #[test]
    fn records_round_trip_and_refuse_what_they_do_not_know() {
        let summary = JobSummary { create_index: 7, ..JobSummary::default() };
        let bytes = encode(&summary);
        assert_eq!(decode(&bytes), Ok(summary));
        assert_eq!(decode::<JobSummary>(&[]), Err(Malformed::Empty("job summary")));
        let mut newer = bytes.clone();
        newer[0] = 9;
        assert!(matches!(decode::<JobSummary>(&newer), Err(Malformed::Version { found: 9, .. })));
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(decode::<JobSummary>(&longer), Err(Malformed::Body("job summary")));
        assert_eq!(decode::<JobSummary>(&bytes[..bytes.len() - 1]), Err(Malformed::Body("job summary")));
    }
}
