//! Requests to a node about its machine and its allocations, and its answers. The agent that has the caller (on its HTTP API)
//! need not be the node's: only these messages cross between the two.
//!
//! Asks, answers, pieces and words are append only. A refusal is a `request::Refusal`.

use super::resource_usage::{AllocResourceUsage, HostStats};
use model::id::AllocId;
use model::time::Wall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ClientRequest {
    /// A task's output. Answered by stream frames.
    Logs {
        alloc: AllocId,
        task: String,
        stream: LogStream,
        from: ReadOffset,
        /// Go on at the end of what there is, until the allocation has ended.
        follow: bool,
    },
    /// Ends tasks and starts them again, whatever their restart policies say. Answered once that is sure to happen.
    Restart {
        alloc: AllocId,
        scope: RestartScope,
    },
    /// `task`: `None` is every task that runs. `signal`: a name of signal(7).
    Signal {
        alloc: AllocId,
        task: Option<String>,
        signal: String,
    },
    /// What is in a directory. Paths count from the allocation's directory.
    List {
        alloc: AllocId,
        path: String,
    },
    Stat {
        alloc: AllocId,
        path: String,
    },
    /// A file's content. Answered by stream frames.
    File {
        alloc: AllocId,
        path: String,
        from: ReadOffset,
        /// At most so many bytes.
        limit: Option<u64>,
        /// Go on at its end, until it is deleted or the allocation has ended.
        follow: bool,
    },
    /// What the tasks that run use; of one, if it is named.
    AllocResourceUsage {
        alloc: AllocId,
        task: Option<String>,
    },
    HostStats,
    /// Removes the directory of an allocation that has ended; `None`: of all of them.
    GarbageCollect {
        alloc: Option<AllocId>,
    },
    Metadata,
    /// `None` unsets a key, also one of the node's configuration.
    SetMetadata {
        changes: BTreeMap<String, Option<String>>,
    },
    /// A command beside a task that runs: with its environment, directory, user and limits. Answered by a session.
    Exec {
        alloc: AllocId,
        task: String,
        command: Vec<String>,
        tty: bool,
    },
    /// The same with the command of one of the task's actions, as the version has it that the node runs.
    Action {
        alloc: AllocId,
        task: String,
        action: String,
        tty: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogStream {
    Stdout,
    Stderr,
}

impl LogStream {
    pub fn as_str(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        }
    }
}

/// Where reading begins, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadOffset {
    FromStart(u64),
    FromEnd(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartScope {
    Task(String),
    /// Every task that runs.
    Running,
    /// Every task, in the order of its lifecycle, also those that have ended.
    All,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ClientReply {
    /// Done, or stored so that it will be done.
    Done,
    Files(Vec<FileInfo>),
    File(FileInfo),
    AllocResourceUsage(AllocResourceUsage),
    HostStats(HostStats),
    Metadata {
        /// The effective metadata.
        meta: BTreeMap<String, String>,
        dynamic: BTreeMap<String, Option<String>>,
        configured: BTreeMap<String, String>,
    },
}

/// What is said to a session's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionInput {
    Stdin(Vec<u8>),
    CloseStdin,
    /// The size of the session's terminal.
    Size {
        rows: u16,
        columns: u16,
    },
}

/// What comes from a session's process. An end is the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionOutput {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// As a shell tells it: 128 and the number for a signal.
    Exited {
        code: i32,
    },
    /// The end of the process was not observed.
    Failed {
        why: String,
    },
}

/// A part of a file's content on its way to a reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamFrame {
    /// `file`: below the allocation's directory. `offset`: the position in it after `bytes`.
    Data { bytes: Vec<u8>, file: String, offset: u64 },
    /// The file is shorter than what was read of it: reading goes on at its beginning.
    Truncated { file: String },
    /// Nothing new: the reader is still there.
    Alive,
    /// Nothing more will come.
    Deleted { file: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    pub name: String,
    pub size: u64,
    /// As stat(2) gives it, type and permissions.
    pub mode: u32,
    pub modified: Wall,
    /// Empty where it was not looked for.
    pub content_type: String,
}
