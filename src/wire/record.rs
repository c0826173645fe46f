//! A record is a schema version byte and the postcard form of that version. postcard has no field names, so a changed
//! struct is a new version with an upgrade from the one before; what no build knows is refused, never guessed.

use super::layout::{self, Change};
use super::rpc::NodeReply;
use model::short_float;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

pub trait Record: Serialize + DeserializeOwned {
    /// What the record is, for error texts.
    const NAME: &'static str;
    /// The version that this build writes.
    const VERSION: u8;

    /// What each version added to the structs of the one before, the newest last. What is older than the first of them cannot
    /// be read any more.
    const CHANGES: &'static [Change] = &[];

    /// Reads an older version. Called with versions below `VERSION` only.
    fn upgrade(version: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        let behind = usize::from(Self::VERSION - version);
        match Self::CHANGES.len().checked_sub(behind) {
            Some(known) => older(Self::NAME, bytes, &Self::CHANGES[known..]),
            None => Err(Malformed::Version { name: Self::NAME, found: version, known: Self::VERSION }),
        }
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
    older(name, bytes, &[])
}

/// The same, written before the changes.
fn older<T: DeserializeOwned>(
    name: &'static str,
    bytes: &[u8],
    changes: &'static [Change],
) -> Result<T, Malformed> {
    match layout::read(bytes, changes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Malformed::Body(name)),
    }
}

/// Nodes had no drains.
pub const DRAINS: Change = &[("Node", 11), ("NodeRow", 9)];
/// Assignments named no deployment, and nothing was found of their health.
pub const HEALTH: Change = &[("Assignment", 13), ("AllocHead", 3)];
/// Nothing was asked for, offered or held beyond cpu, memory and disk.
pub const CLAIMS: Change = &[
    ("TaskGroup", 14),
    ("Task", 17),
    ("TaskResources", 3),
    ("AllocResources", 2),
    ("NodeInfo", 15),
    ("Scores", 5),
];
/// No job made others, or was made by another one.
pub const FAMILIES: Change = &[("JobSpec", 16), ("JobSummary", 3), ("JobRow", 6), ("Assignment", 14)];
/// No job was dispatched.
pub const DISPATCHES: Change = &[("JobSpec", 18), ("Task", 18), ("Assignment", 15)];

/// Nothing made way for anything.
pub const PREEMPTION: Change = &[("Allocation", 30), ("NodeScore", 3), ("Assignment", 16)];
/// No group said how far it may be scaled; counts that are to stay were filled in before a job was proposed.
pub const SCALING: Change = &[("TaskGroup", 15), ("SubmitJob", 3)];
/// Scores were plain floats.
pub const SHORT_SCORES: Change = &[(short_float::NAME, 0)];
/// Versions had no names.
pub const TAGS: Change = &[("VersionRow", 8), ("Job", 9)];
/// No task had actions.
pub const ACTIONS: Change = &[("Task", 19)];
/// Tasks had no scaling policies.
pub const VERTICAL: Change = &[("Task", 20), ("ScalingPolicy", 5)];
/// No end was spared a shutdown delay.
pub const HURRY: Change = &[("Transition", 3), ("Assignment", 17)];
/// No node said how many allocations it takes.
pub const MAX_ALLOCS: Change = &[("NodeInfo", 16)];

/// Declares what is a record: its type, its name in errors, its version.
#[macro_export]
macro_rules! records {
    ($($type:ty = $name:literal $version:literal $(grown by $changes:expr)?;)*) => { $(
        impl $crate::record::Record for $type {
            const NAME: &'static str = $name;
            const VERSION: u8 = $version;
            $(const CHANGES: &'static [$crate::layout::Change] = &$changes;)?
        }
    )* };
}

// The second versions, but for the node's, came with format 2 of the stores: no disk holds their first ones.
records! {
    model::eval::Evaluation = "evaluation" 5 grown by [CLAIMS, PREEMPTION, SHORT_SCORES];
    model::alloc::Allocation = "allocation" 6
        grown by [CLAIMS, PREEMPTION, SHORT_SCORES, HURRY];
    model::job::Job = "job" 9 grown by [CLAIMS, FAMILIES, DISPATCHES, SCALING, TAGS, ACTIONS, VERTICAL];
    model::job::JobSpec = "job version" 8
        grown by [CLAIMS, FAMILIES, DISPATCHES, SCALING, ACTIONS, VERTICAL];
    super::command::Command = "command" 12
        grown by [CLAIMS, FAMILIES, DISPATCHES, PREEMPTION, SCALING, SHORT_SCORES, ACTIONS, VERTICAL, HURRY, MAX_ALLOCS];
    model::job::JobSummary = "job summary" 2 grown by [FAMILIES];
    model::namespace::Namespace = "namespace" 1;
    model::pool::NodePool = "node pool" 1;
    model::scheduling::SchedulerConfig = "scheduler configuration" 1;
    model::submission::Submission = "job submission" 1;
    model::key::SigningKey = "signing key" 1;
    model::node::Node = "node" 4 grown by [DRAINS, CLAIMS, MAX_ALLOCS];
    super::rpc::NodeRequest = "node request" 3 grown by [CLAIMS, MAX_ALLOCS];
    NodeReply = "node reply" 11
        grown by [HEALTH, CLAIMS, FAMILIES, DISPATCHES, PREEMPTION, SCALING, ACTIONS, VERTICAL, HURRY];
    super::ask::NodeAsk = "node ask" 1;
    super::ask::NodeAnswer = "node answer" 1;
    super::ask::Piece = "piece" 1;
    super::ask::SessionInput = "session input" 1;
    super::ask::SessionOutput = "session output" 1;
    super::request::Refusal = "refusal" 1;
    super::keeper::Command = "keeper command" 1;
    super::keeper::Event = "keeper event" 1;
    model::deployment::Deployment = "deployment" 1;
    model::scaling::ScalingPolicy = "scaling policy" 2 grown by [VERTICAL];
    model::scaling::ScalingEvents = "scaling events" 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::job::JobSummary;

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
