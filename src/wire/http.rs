//! HTTP requests and their answers as values: what a server forwards whole to the one that has to answer.
//!
//! Refuses to know: routes, and what a header means.

use serde::{Deserialize, Serialize};

/// Append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    Get,
    Put,
    Post,
    Delete,
    Head,
    Options,
    /// Any other: no route takes it.
    Other,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub method: Method,
    /// As it came: still percent-encoded, without the query.
    pub path: String,
    /// As it came, without the question mark.
    pub query: String,
    pub body: Vec<u8>,
    /// Who asks offers to go on by websocket.
    pub websocket: bool,
}

/// The answer of another server, with the headers that it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}
