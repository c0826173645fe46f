//! `agent/monitor`: what a reader of the agent's own log asks for (http-api.md 8.6, 3.2).
//!
//! Refuses to know: how lines come to be. A level is what the reader sees at most, whatever the agent itself writes.

use super::response::Response;
use super::{Call, Outcome, agent};

/// Least first: a reader of one level is shown it and all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorRequest {
    pub level: LogLevel,
    /// One JSON object a line instead of text.
    pub json: bool,
    /// Bytes as they are instead of frames.
    pub plain: bool,
}

pub(super) fn request(call: &Call<'_>) -> Result<Outcome, Response> {
    let q = &call.query;
    let present = |name: &str| q.text(name).is_some_and(|v| !v.is_empty());
    if present("node_id") && present("server_id") {
        return Err(Response::text(400, "Cannot target node and server simultaneously"));
    }
    if q.flag("log_include_location", false)? {
        return Err(Response::not_supported("log_include_location"));
    }
    agent::only_this_agent(call)?;
    let level = match q.text("log_level").filter(|l| !l.is_empty()) {
        None => LogLevel::Info,
        Some(text) => level(text).ok_or_else(|| Response::text(400, format!("Unknown log level: {text}")))?,
    };
    Ok(Outcome::Monitor(MonitorRequest {
        level,
        json: q.flag("log_json", false)?,
        plain: q.flag("plain", false)?,
    }))
}

fn level(text: &str) -> Option<LogLevel> {
    Some(match text.to_ascii_uppercase().as_str() {
        "ERROR" | "ERR" => LogLevel::Error,
        "WARN" => LogLevel::Warn,
        "INFO" => LogLevel::Info,
        "DEBUG" => LogLevel::Debug,
        "TRACE" => LogLevel::Trace,
        _ => return None,
    })
}
