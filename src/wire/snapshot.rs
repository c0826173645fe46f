//! Messages between two servers about a snapshot: the leader offers one, the follower pulls it chunk by chunk, and says what
//! became of it. Each transfer has a number of its own, so that nothing of one is taken for a part of another.
//!
//! Refuses to know: rows, and how the bytes of a chunk are made.

use model::id::Uuid;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most that one chunk holds: some eight seconds of a line of 64 kbit/s.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotMessage {
    /// To a follower that the log does not reach any more. Repeated until it is answered.
    Offer(Box<SnapshotOffer>),
    /// Asks for a chunk, from 0 on. Repeated until it comes: what was asked for before has arrived.
    Pull { transfer: u64, chunk: u64 },
    /// At most `CHUNK_BYTES`.
    Chunk { transfer: u64, chunk: u64, bytes: Vec<u8>, last: bool },
    /// The follower has what the snapshot holds, durably.
    Installed { transfer: u64 },
    /// Either side gives up.
    Stopped { transfer: u64, why: StopReason },
}

/// What the rows stand for that can be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotOffer {
    /// Chosen by the leader: another one for each transfer.
    pub transfer: u64,
    pub index: u64,
    pub term: u64,
    /// As raft encodes them.
    pub members: Vec<u8>,
    /// As the store encodes it: index, digest, when each table changed last.
    pub applied_state: Vec<u8>,
    /// The size of the leader's file.
    pub bytes: u64,
    /// Whose state it is.
    pub region_id: Uuid,
}

/// Append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The follower's disk has no room for another state beside its own.
    NoRoom,
    /// The follower takes another snapshot, or still reads what the last one replaced.
    Busy,
    /// What came is not what was announced, or cannot be read.
    Malformed,
    /// The follower's disk failed.
    Disk,
    /// The follower leads, or is no member as of the snapshot.
    Refused,
    /// Nothing came for too long.
    TimedOut,
    /// The sender does not know this transfer, or leads no more.
    Gone,
}

impl SnapshotMessage {
    pub fn transfer(&self) -> u64 {
        match self {
            SnapshotMessage::Offer(offer) => offer.transfer,
            SnapshotMessage::Pull { transfer, .. }
            | SnapshotMessage::Chunk { transfer, .. }
            | SnapshotMessage::Installed { transfer }
            | SnapshotMessage::Stopped { transfer, .. } => *transfer,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopReason::NoRoom => "the follower's disk has no room for it: free some",
            StopReason::Busy => "the follower is busy with another one: it is offered again",
            StopReason::Malformed => "what arrived is not what was announced: it is sent again",
            StopReason::Disk => "the follower's disk failed",
            StopReason::Refused => "the follower leads, or is no member as of it",
            StopReason::TimedOut => "nothing came for too long",
            StopReason::Gone => "the sender knows nothing of it any more",
        })
    }
}
