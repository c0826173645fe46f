//! A task's state as its client reports it: where it is, what happened to it, how it ended.

use super::time::{Span, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskPhase {
    #[default]
    Pending,
    Running,
    Dead,
}

impl TaskPhase {
    pub fn as_str(self) -> &'static str {
        match self {
            TaskPhase::Pending => "pending",
            TaskPhase::Running => "running",
            TaskPhase::Dead => "dead",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    pub phase: TaskPhase,
    pub failed: bool,
    pub restarts: u64,
    pub last_restart: Wall,
    /// When it was started last.
    pub started_at: Wall,
    /// When the task was dead for the first time.
    pub finished_at: Wall,
    /// Oldest first; at most `MAX_EVENTS`.
    pub events: Vec<TaskEvent>,
}

/// How many events a task keeps; the oldest goes first.
pub const MAX_EVENTS: usize = 10;

impl TaskState {
    pub fn push_event(&mut self, event: TaskEvent) {
        if self.events.len() == MAX_EVENTS {
            self.events.remove(0);
        }
        self.events.push(event);
    }

    pub fn successful(&self) -> bool {
        self.phase == TaskPhase::Dead && !self.failed
    }
}

/// One thing that happened to a task. `kind` is the word that Nomad's API uses ("Started", "Terminated", ...); `details`
/// repeats the typed facts as strings (`exit_code`, `signal`, `restart_reason`, ...).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEvent {
    pub kind: String,
    pub at: Wall,
    /// The sentence shown to people.
    pub message: String,
    pub details: BTreeMap<String, String>,
}

/// How a process ended. `Unknown`: no keeper saw it end, so it is never a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub status: ExitStatus,
    /// The kernel killed it for memory.
    pub oom_killed: bool,
}

impl Exit {
    pub fn successful(self) -> bool {
        self.status == ExitStatus::Code(0)
    }

    /// As a shell and Nomad's API show it: 128 + signal for a signal; -1 when nobody saw the end.
    pub fn code(self) -> i32 {
        match self.status {
            ExitStatus::Code(c) => c,
            ExitStatus::Signal(s) => 128 + s,
            ExitStatus::Unknown => -1,
        }
    }

    pub fn signal(self) -> i32 {
        match self.status {
            ExitStatus::Signal(s) => s,
            ExitStatus::Code(_) | ExitStatus::Unknown => 0,
        }
    }
}

/// A client never waits longer than this for a task that was told to stop, whatever the job says.
pub const DEFAULT_MAX_KILL_TIMEOUT: Span = Span::seconds(30);
