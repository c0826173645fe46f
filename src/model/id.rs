//! Identities: 128-bit ids written as UUID text, and the names that users give. Ids are never made here: the caller
//! brings the random bits, so that a brain's ids come from its seed.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// 128 bits shown as `8-4-4-4-12` lower-case hex. Encoded as 16 raw bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// A version 4 (random) UUID from 128 random bits; the six version and variant bits are overwritten.
    pub fn from_random(bits: u128) -> Self {
        let mut b = bits.to_be_bytes();
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        Uuid(b)
    }

    pub const fn from_bytes(b: [u8; 16]) -> Self {
        Uuid(b)
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The first 8 hex digits: how ids are shown to people.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_string()
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, b) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A server's raft id of 64 random bits: not zero, and below 2^53, so that every JSON tool keeps it as it is.
pub fn server_id(random: u64) -> u64 {
    (random >> 11).max(1)
}

/// The text was not a full UUID (36 characters, hex and dashes in their places).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAUuid(pub String);

impl fmt::Display for NotAUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an id: 36 characters like 00000000-0000-0000-0000-000000000000 are expected",
            self.0
        )
    }
}

impl std::error::Error for NotAUuid {}

impl FromStr for Uuid {
    type Err = NotAUuid;

    fn from_str(s: &str) -> Result<Self, NotAUuid> {
        let bad = || NotAUuid(s.to_string());
        let t = s.as_bytes();
        if t.len() != 36 || [8, 13, 18, 23].iter().any(|&i| t[i] != b'-') {
            return Err(bad());
        }
        let mut digits = t.iter().filter(|c| **c != b'-');
        let mut out = [0u8; 16];
        for byte in &mut out {
            let mut nibble = || {
                let c = digits.next().copied().ok_or_else(bad)?;
                (c as char).to_digit(16).map(|d| d as u8).ok_or_else(bad)
            };
            *byte = nibble()? << 4 | nibble()?;
        }
        if digits.next().is_some() { Err(bad()) } else { Ok(Uuid(out)) }
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub Uuid);

        impl $name {
            pub fn from_random(bits: u128) -> Self {
                $name(Uuid::from_random(bits))
            }

        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAUuid;

            fn from_str(s: &str) -> Result<Self, NotAUuid> {
                s.parse().map($name)
            }
        }
    )* };
}

ids! {
    /// One machine that runs tasks. Chosen once by the client and kept in its data directory.
    NodeId,
    /// A node's proof that it is itself: sent with every request, never shown.
    NodeSecret,
    /// One placement of one task group on one node.
    AllocId,
    /// One unit of scheduling work for one job.
    EvalId,
    /// One version of a job on its way in.
    DeploymentId,
    /// One delivery of an evaluation to a scheduler worker: an answer with another token is refused.
    EvalToken,
    /// How far one group of one job may be scaled.
    ScalingPolicyId,
    /// One start of one task: a restarted task gets a new one. The keeper's key for idempotent starts.
    RunId,
}

/// A job's identity: namespace, then id. Ordered by namespace, then id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey {
    pub namespace: String,
    pub id: String,
}

impl JobKey {
    pub fn new(namespace: impl Into<String>, id: impl Into<String>) -> Self {
        JobKey { namespace: namespace.into(), id: id.into() }
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_round_trip() {
        let id = Uuid::from_random(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "01234567-89ab-4def-8123-456789abcdef");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        assert_eq!(id.short(), "01234567");
    }

    #[test]
    fn malformed_uuids_are_refused() {
        for bad in [
            "",
            "0123",
            "01234567-89ab-4def-8123-456789abcdeg",
            "0123456789ab-4def-8123-456789abcdef----",
            "01234567-89ab-4def-8123-456789abcde-",
        ] {
            assert!(bad.parse::<Uuid>().is_err(), "{bad:?}");
        }
    }
}
