//! What comes into a server's brain, and what shall happen outside of it. Closed sets; `io` and the simulator know them.

use model::eval::Evaluation;
use model::id::{EvalId, EvalToken};
use model::key::Seed;
use model::plan::Decision;
use model::time::Wall;
use scheduler::Attempt;
use wire::request::{Refusal, WriteReply, WriteRequest};
use wire::rpc::Peer;
use wire::snapshot::SnapshotMessage;

#[derive(Debug)]
pub enum Input {
    Frame {
        from: Peer,
        bytes: Vec<u8>,
    },
    /// Answered by exactly one `Effect::Reply` with the same token.
    Request {
        token: u64,
        action: WriteRequest,
    },
    /// A scheduler worker's answer to `Effect::Schedule`. `Err`: it failed or panicked, and why.
    Planned {
        eval: EvalId,
        token: EvalToken,
        result: Result<Box<Decision>, String>,
    },
    /// The answer to `Effect::MakeSigningKey`: the halves of a new Ed25519 key.
    SigningKey {
        seed: Seed,
        public: [u8; 32],
    },
    /// Whether the disk has room for a full turn's writes.
    Space {
        free: bool,
    },
    /// Of a snapshot, from another server of the region.
    Snapshot {
        from: u64,
        message: SnapshotMessage,
    },
}

#[derive(Debug)]
pub enum Effect {
    Send {
        to: Peer,
        bytes: Vec<u8>,
    },
    Reply {
        token: u64,
        result: Result<WriteReply, Refusal>,
    },
    /// To be given to a scheduler worker, with a view of the state at `min_index` or later.
    Schedule(Box<ScheduleTask>),
    /// The region has no signing key, and no brain makes secrets: one is wanted as an input.
    MakeSigningKey,
    /// To another server of the region.
    SendSnapshot {
        to: u64,
        message: SnapshotMessage,
    },
}

#[derive(Clone, Debug)]
pub struct ScheduleTask {
    pub eval: Evaluation,
    pub token: EvalToken,
    pub attempt: Attempt,
    pub min_index: u64,
    pub at: Wall,
    pub seed: u64,
}
