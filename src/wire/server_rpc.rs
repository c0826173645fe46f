//! What servers of one region say to each other beside raft: what one passes on for its users and its nodes, and what the
//! leader answers. A request's number is in its frame's header, and its answer repeats it.

use super::http::{ForwardedResponse, Request};
use super::request::Refusal;
use super::rpc::{NodeReply, NodeRequest};
use model::id::NodeId;
use serde::{Deserialize, Serialize};

/// Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ServerRequest {
    /// A user's request, to be answered by the leader alone.
    Http(Box<Request>),
    /// What a node that is connected to the sender asks, under the node's own number.
    Node { node: NodeId, request: NodeRequest },
}

/// Append only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ServerReply {
    Http(ForwardedResponse),
    /// The asked server does not lead: the request was not carried out.
    NotLeader,
    /// Nor was it for this reason.
    Refused(Refusal),
    /// To be passed on to the node.
    Node {
        node: NodeId,
        reply: NodeReply,
    },
}
