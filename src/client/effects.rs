//! The inputs and effects of the client: all that it receives and asks for.

use model::id::{AllocId, RunId};
use model::node::NodeInfo;
use model::time::Span;
use state::client_store::CommitReceipt;
use wire::client_rpc::{ClientReply, ClientRequest};
use wire::http::{ForwardFailure, ForwardedResponse, Request};
use wire::keeper::{self, RunSpec};
use wire::request::Refusal;
use wire::rpc::Peer;

#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The fingerprint of the machine. The first one registers the node; a different one later registers it again.
    Fingerprint(Box<NodeInfo>),
    Frame {
        from: Peer,
        bytes: Vec<u8>,
    },
    Keeper(keeper::Event),
    /// A new connection to the keeper stands, and `Hello` was said on it. Its `Welcome` follows as an event.
    KeeperUp,
    KeeperDown {
        why: String,
    },
    DirBuilt {
        alloc: AllocId,
        result: Result<(), String>,
    },
    DirRemoved {
        alloc: AllocId,
        result: Result<(), String>,
    },
    /// Whether the disk has room for a full turn's writes. Without, nothing is written until it has.
    Space {
        free: bool,
    },
    /// Answered by `Answer` with the same token.
    Ask {
        token: u64,
        ask: ClientRequest,
    },
    /// A request of a user of this agent that a server has to answer. Answered by exactly one `Forwarded` with the same token.
    Forward {
        token: u64,
        /// For how long the request may block: a blocking query's wait.
        hold: Span,
        request: Box<Request>,
    },
    /// A new connection to a server is there. A node whose configuration names no server by its id hears of the first ones so.
    LinkUp {
        server: u64,
    },
    /// The connection to a server is gone: what users asked over it will not be answered.
    LinkDown {
        server: u64,
    },
    /// The agent stops. With `kill_tasks` every task is stopped first; without, tasks keep running.
    Shutdown {
        kill_tasks: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send {
        to: Peer,
        bytes: Vec<u8>,
    },
    Keeper(keeper::KeeperCommand),
    /// Repeated after every restart of the agent, and after `DIR_TIMEOUT` without an answer: existing files stay as they are, missing
    /// ones (after a reboot, those in memory) are made.
    BuildDir(DirSpec),
    /// A directory that is not there counts as removed.
    RemoveDir {
        alloc: AllocId,
    },
    Answer {
        token: u64,
        result: Result<RequestOutcome, Refusal>,
    },
    Forwarded {
        token: u64,
        result: Result<ForwardedResponse, ForwardFailure>,
    },
    /// After `Shutdown`: the last effect.
    ShutdownComplete,
}

/// `<alloc dir>/<alloc id>` with its shared directory and one for each task (client.md 13.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirSpec {
    pub alloc: AllocId,
    pub tasks: Vec<DirTask>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirTask {
    pub name: String,
    /// Empty: the agent's own.
    pub user: String,
    pub file: Option<DirFile>,
}

/// Below the task's `local/`, before the task may start. One that is there stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirFile {
    pub path: String,
    pub bytes: Vec<u8>,
}

/// The answer to a request, or what the agent may do to answer it.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestOutcome {
    Answer(ClientReply),
    /// The runs whose resource usage is to be measured. `core_mhz`: of one core.
    Runs {
        runs: Vec<RunningTask>,
        core_mhz: f64,
    },
    /// A command to be executed beside a run.
    Session {
        run: RunId,
        spec: Box<RunSpec>,
    },
    /// The allocation's files may be read. `ended`: nothing more will be written to them.
    Files {
        ended: bool,
    },
}

/// A running task: its main process and its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningTask {
    pub task: String,
    pub run: RunId,
    /// The label that the keeper was told.
    pub label: String,
    pub pid: u32,
}

/// Effects that wait for the store's receipt.
#[derive(Debug, Default)]
pub struct PendingEffects(Vec<Effect>);

impl PendingEffects {
    pub fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    pub fn keeper(&mut self, command: keeper::KeeperCommand) {
        self.0.push(Effect::Keeper(command));
    }

    pub fn release(self, _stored: &CommitReceipt) -> Vec<Effect> {
        self.0
    }
}
