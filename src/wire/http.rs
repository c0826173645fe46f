//! HTTP requests and their answers as values: what an agent forwards whole to the one that has to answer.
//!
//! Refuses to know: routes, and what a header means.

use super::request::Refusal;
use model::id::{NodeId, NodeSecret};
use model::time::Span;
use serde::{Deserialize, Serialize};

/// The longest that a request may have its own answer held back, as a blocking query does.
pub const MAX_HOLD: Span = Span::seconds(320);

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

/// The answer of another agent, with the headers that it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Why a forwarded request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardFailure {
    /// No server that could answer was reached: nothing was done, and it may be tried again.
    NotDone,
    Refused(Refusal),
    /// The request may have been carried out, or not.
    Unknown,
}

/// What a user asks of a node's agent, and a server is to answer as it answers its own users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeHttpRequest {
    pub node: NodeId,
    pub secret: NodeSecret,
    pub request: Request,
}

/// Append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeHttpReply {
    Answered(ForwardedResponse),
    /// The asked server does not know the node, or could not serve it: nothing was done.
    NotDone,
    /// Nor was it for this reason.
    Refused(Refusal),
}
