//! Inputs of a server's brain, and the effects that it asks for. Closed sets; `io` and the simulator know them.

use model::eval::Evaluation;
use model::id::{EvalId, EvalToken, NodeId};
use model::key::Seed;
use model::plan::Decision;
use model::time::Wall;
use scheduler::Attempt;
use wire::frame::{self, Body, Frame};
use wire::http::{ForwardFailure, ForwardedResponse, Request};
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
    /// Answered by exactly one `Effect::ReadConfirmed` with the same token.
    Read {
        token: u64,
    },
    /// A user's request that the leader has to answer. Answered by exactly one `Effect::Forwarded` with the same token.
    Forward {
        token: u64,
        request: Box<Request>,
    },
    /// The answer to `Effect::Serve`. `None`: this server could not serve it any more, and nothing was done.
    Served {
        serving: u64,
        response: Option<ForwardedResponse>,
    },
    /// A new connection to another server, of which nothing is known yet.
    LinkUp {
        peer: u64,
    },
    /// The connection to a server is gone: what was under way on it will not be answered.
    LinkDown {
        peer: u64,
    },
    /// The same of a node.
    NodeLinkDown {
        node: NodeId,
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
    /// A message of another server about a snapshot.
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
    /// Whether the state is known to hold all that was acknowledged before the read.
    ReadConfirmed {
        token: u64,
        confirmed: bool,
    },
    Forwarded {
        token: u64,
        result: Result<ForwardedResponse, ForwardFailure>,
    },
    /// Serve a request that another server or a node has forwarded: `Input::Served` has the answer. `leader_only`: only while this server
    /// leads; otherwise like a request of this server's own users, whichever server has to answer it.
    Serve {
        serving: u64,
        request: Box<Request>,
        leader_only: bool,
    },
    /// To be given to a scheduler worker, with a view of the state at `min_index` or later.
    Schedule(Box<ScheduleTask>),
    /// Make the region's signing key, and return it as an input: no brain makes secrets.
    MakeSigningKey,
    /// A message about a snapshot, for another server of the region.
    SendSnapshot {
        to: u64,
        message: SnapshotMessage,
    },
}

impl Effect {
    /// A frame for another server. `request`: its number, or that of the frame that it answers; 0: none.
    pub fn server_frame(to: u64, request: u64, body: Body) -> Effect {
        Effect::Send { to: Peer::Server(to), bytes: frame::encode(&Frame { request, body }) }
    }
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
