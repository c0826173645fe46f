//! `agent/monitor`: what a reader of the agent's own log asks for (http-api.md 8.6, 3.2).
//!
//! Refuses to know: how lines come to be. A level is what the reader sees at most, whatever the agent itself writes.

/// Least first: a reader of one level is shown it and all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MonitorLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorRequest {
    pub level: MonitorLevel,
    /// One JSON object a line instead of text.
    pub json: bool,
    /// Bytes as they are instead of frames.
    pub plain: bool,
}
