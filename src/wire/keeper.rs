//! The keeper's protocol: how an agent asks the keeper to run processes, and what the keeper tells of them.
//!
//! The keeper knows runs, not jobs: a run is one start of one process, named by its `RunId`. Asking twice for the same
//! run starts it once. An exit is kept until the agent says `Forget`, so that no exit is lost whatever dies in between.
//! On the socket each message is a length (4 bytes, little endian) and a record.

use model::id::{RunId, Uuid};
use model::task::Exit;
use model::time::{Span, Wall};
use serde::{Deserialize, Serialize};

/// The protocol's version. A keeper and an agent of different versions refuse each other with a sentence.
pub const PROTOCOL: u32 = 1;
/// The most sessions at a time.
pub const MAX_SESSIONS: usize = 16;
/// The longest message.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// The most runs that one keeper holds, ended and not yet forgotten ones included.
pub const MAX_RUNS: usize = 4096;

/// Agent to keeper. Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum KeeperCommand {
    /// First on a connection. Answered by `Welcome`.
    Hello { protocol: u32 },
    /// Answered by `Started`, `StartFailed` or, if the run is known already, by what it came to.
    Start { run: RunId, spec: Box<RunSpec> },
    /// A signal to the run's main process.
    Signal { run: RunId, signal: i32 },
    /// `signal` now, SIGKILL to everything the run started once `timeout` has passed. Answered by `Exited`.
    Stop { run: RunId, signal: i32, timeout: Span },
    /// The agent has stored the end of this run. A run that has not ended is not forgotten.
    Forget { run: RunId },
    /// Ends every run (`signal`, then SIGKILL after `timeout`), then the keeper itself.
    Shutdown { signal: i32, timeout: Span },
    /// What is `Welcome`d, again.
    List,
    /// A process beside a run that runs: its session, which lasts as long as this connection and the run. `spec` has no logs.
    /// Answered by `SessionStarted` or `Refused`, later by `SessionEnded`.
    Exec { run: RunId, spec: Box<RunSpec>, tty: bool },
}

/// Keeper to agent. Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    Welcome {
        protocol: u32,
        /// The machine's boot id: runs of another boot are gone.
        boot_id: Uuid,
        keeper_pid: u32,
        runs: Vec<RunReport>,
    },
    Started {
        run: RunId,
        pid: u32,
        at: Wall,
    },
    /// The run never existed as a process. `retryable`: the same request may work later.
    StartFailed {
        run: RunId,
        message: String,
        retryable: bool,
    },
    Exited {
        run: RunId,
        exit: Exit,
        at: Wall,
    },
    /// The command was not carried out.
    Refused {
        run: Option<RunId>,
        message: String,
    },
    /// Comes with descriptors (SCM_RIGHTS): its terminal, or the other ends of its stdin, stdout and stderr.
    SessionStarted,
    SessionEnded {
        exit: Exit,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    pub run: RunId,
    pub label: String,
    pub state: RunState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunState {
    Running { pid: u32, since: Wall },
    Exited { exit: Exit, at: Wall },
    StartFailed { message: String, retryable: bool },
}

/// One process to be started. Complete: of its own environment the keeper adds nothing but the run's mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// For people and for the cgroup's name: `<alloc id>.<task>`. `[A-Za-z0-9._-]` only.
    pub label: String,
    pub command: String,
    pub args: Vec<String>,
    /// Looked through for a `command` without a slash, before the `PATH` of `env`.
    pub search: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: String,
    /// Empty: the keeper's own user.
    pub user: String,
    /// `None`: output goes to /dev/null.
    pub logs: Option<RunLogs>,
    /// Relative weight of cpu time, in MHz asked for. 0: not limited.
    pub cpu_mhz: u64,
    /// Hard limit. 0: not limited.
    pub memory_bytes: u64,
    /// So much is left to it while others are short. 0: nothing is promised.
    pub memory_low_bytes: u64,
}

/// Where output goes: `<dir>/<name>.stdout.<n>` and `<dir>/<name>.stderr.<n>`, `n` from 0 and only ever growing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLogs {
    pub dir: String,
    pub name: String,
    pub max_files: u32,
    pub max_file_bytes: u64,
}
