//! What two agents say to each other on a relay stream: whom a user's request is for, whether it is taken there, the request and its answer.
//! Each is a record behind its length; what has no end follows on the answer.
//!
//! Refuses to know: streams, routes, and who is linked with whom. Invariant: the request is sent after the welcome alone, so whoever was
//! refused, or heard nothing, may ask elsewhere.

use super::http::{ForwardedResponse, Request};
use super::rpc::Peer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most that a header or a welcome takes.
pub const MAX_HEADER_BYTES: usize = 256;

/// The first word on a relay stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayHeader {
    /// The agent that is to answer, by its node or its server.
    pub to: Peer,
    /// How often the request may still be passed on.
    pub hops: u8,
}

/// Append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayWelcome {
    Taken,
    Refused(RelayRefusal),
}

/// Why an agent does not take a relayed request. Append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayRefusal {
    /// The asked agent is not the one that is meant, and has no link to it.
    NotHere,
    /// As many as it takes at once are under way there.
    Busy,
    /// A node speaks with its own server alone.
    WrongRole,
    /// The header cannot be read by this build.
    Malformed,
}

impl fmt::Display for RelayRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RelayRefusal::NotHere => "the asked agent has no link to the one that is meant",
            RelayRefusal::Busy => {
                "too many logs, sessions and other requests are relayed there: close some, or try again later"
            }
            RelayRefusal::WrongRole => "a node may ask nobody but the server that it is linked to",
            RelayRefusal::Malformed => {
                "the two agents do not understand each other: give both the same build of drover"
            }
        })
    }
}

/// A user's request to another agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayedRequest(pub Request);

/// How the answer begins. Append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayedAnswer {
    Whole(ForwardedResponse),
    /// The stream goes on with the answer's body, to its end.
    Stream {
        content_type: String,
    },
    /// The stream goes on with the words of a session, in both directions.
    Session,
}

crate::records! {
    RelayHeader = "relay header" 1;
    RelayWelcome = "relay welcome" 1;
    RelayedRequest = "relayed request" 1;
    RelayedAnswer = "relayed answer" 1;
}
