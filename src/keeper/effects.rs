//! What the keeper's brain takes and gives: inputs, effects, and what a turn wants written to the journal.
//!
//! Refuses to know: what is decided, and how effects are carried out. A turn's later effects can only be had for a `Durable`,
//! which the driver makes once the turn's journal bytes are as safe as the turn wants them.

use super::restore::{Adopted, Stray};
use model::id::RunId;
use model::task::Exit;
use std::collections::BTreeMap;
use wire::keeper::{Event, KeeperCommand, RunSpec};

/// A connection, named by the driver; never used twice.
pub type ClientId = u64;

/// The run that each session is beside, by connection: a connection has one at most.
pub type Sessions = BTreeMap<ClientId, RunId>;

#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Command {
        client: ClientId,
        command: KeeperCommand,
    },
    Gone {
        client: ClientId,
    },
    /// A process exists for the run and waits to be released.
    Spawned {
        run: RunId,
        pid: u32,
        start_ticks: u64,
    },
    /// The run's `Waiting` entry is written.
    Journaled {
        run: RunId,
    },
    /// The released process has become the command.
    Executed {
        run: RunId,
    },
    /// There is no process, or it could not become the command.
    SpawnFailed {
        run: RunId,
        message: String,
        retryable: bool,
    },
    /// The main process ended.
    Exited {
        run: RunId,
        exit: Exit,
    },
    /// The session's command could not be executed.
    SessionFailed {
        client: ClientId,
        message: String,
    },
    SessionEnded {
        client: ClientId,
        exit: Exit,
    },
    /// What a sweep found: whether nothing of the run is left.
    Swept {
        run: RunId,
        empty: bool,
    },
    /// The agent that this keeper must not outlive has ended.
    AgentGone,
    /// The journal can (`None`) or cannot be written.
    Journal {
        fault: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make a process that waits for its release. Answered by `Spawned` or `SpawnFailed`.
    Spawn {
        run: RunId,
        spec: Box<RunSpec>,
    },
    /// Asks the driver to confirm that this turn's journal bytes are written. Answered by `Journaled`.
    ConfirmJournaled {
        run: RunId,
    },
    /// Let it become its command. Answered by `Executed` or `SpawnFailed`.
    Release {
        run: RunId,
    },
    /// Make a process beside the run, and give its descriptors to the client. Answered by `SessionFailed` or, when it has
    /// ended, `SessionEnded`.
    Exec {
        client: ClientId,
        run: RunId,
        spec: Box<RunSpec>,
        tty: bool,
    },
    /// SIGKILL to everything of the session.
    EndSession {
        client: ClientId,
    },
    /// Sends a signal to the main process.
    Signal {
        run: RunId,
        signal: i32,
    },
    /// SIGKILL to everything of the run.
    Kill {
        run: RunId,
    },
    /// SIGKILL to what the ended main process left behind, or to all of a stray. Answered by `Swept`.
    Sweep {
        run: RunId,
    },
    /// Nothing of the run is needed any more: take in what its pipes still hold, close and remove them and the cgroup.
    Close {
        run: RunId,
    },
    Send {
        client: ClientId,
        event: Event,
    },
    /// Once all events are sent.
    Disconnect {
        client: ClientId,
    },
    /// Once all events to all clients are sent.
    Exit,
}

/// What to do with the journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    Nothing,
    /// `sync`: something waits for its durability.
    Append {
        bytes: Vec<u8>,
        sync: bool,
    },
    /// Atomically, and durable.
    Replace(Vec<u8>),
}

/// Said by the driver: the turn's journal bytes are written, and on the disk if that is what the turn wanted.
pub struct Durable;

#[must_use]
pub struct TurnOutput {
    /// May be carried out at once.
    pub now: Vec<Effect>,
    pub write: Write,
    pub(super) later: Vec<Effect>,
}

impl TurnOutput {
    /// Nothing has to be made durable, and no effect waits for it.
    pub fn is_idle(&self) -> bool {
        self.write == Write::Nothing && self.later.is_empty()
    }

    pub fn deferred(self, _: Durable) -> Vec<Effect> {
        self.later
    }
}

/// What the driver does first when a keeper starts.
#[derive(Debug, PartialEq)]
pub struct Restored {
    /// To be adopted; a process that is gone is answered by `Exited` with `ExitStatus::Unknown`.
    pub running: Vec<Adopted>,
    /// Runs that are over or never were; what they left behind is to be killed before the keeper answers anyone.
    pub ended: Vec<(RunId, String)>,
    /// Known to be alive, and unknown to the journal. `Sweep` ends them.
    pub strays: Vec<Stray>,
    /// Written before anything else.
    pub write: Write,
    pub lost_bytes: usize,
}
