//! A frame: one message between peers. `D`, protocol version, kind, request id (8 bytes, little endian), then a record.

use super::http::{NodeHttpReply, NodeHttpRequest};
use super::record::{self, DecodeError};
use super::rpc::{NodeReply, NodeRequest};
use super::server_rpc::{ServerReply, ServerRequest};
use model::id::Uuid;

const MAGIC: u8 = b'D';
const PROTOCOL: u8 = 1;
const HEADER_BYTES: usize = 11;
const RAFT_KIND: u8 = 2;
const APPEND_KIND: u8 = 5;
const HTTP_REQUEST_KIND: u8 = 6;
const HTTP_REPLY_KIND: u8 = 7;

/// The most that one frame may hold: a forwarded request with the largest body (4 MiB), and room for the rest.
pub const MAX_FRAME_BYTES: usize = (4 << 20) + (64 << 10);

#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Chosen by the asker, repeated by the answer. Unique per asker and connection.
    pub request: u64,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Request(NodeRequest),
    Reply(NodeReply),
    /// A raft message, opaque to all but `raft`.
    Raft(Vec<u8>),
    /// Between servers.
    ServerRequest(ServerRequest),
    ServerReply(ServerReply),
    /// A raft message that may be large, opaque as all of them.
    Append(Vec<u8>),
    /// What a node passes on for its agent's users.
    HttpRequest(NodeHttpRequest),
    HttpReply(NodeHttpReply),
}

impl Body {
    /// What it is, for the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Body::Request(_) => "node request",
            Body::Reply(_) => "node reply",
            Body::Raft(_) => "raft message",
            Body::ServerRequest(_) => "server request",
            Body::ServerReply(_) => "server reply",
            Body::Append(_) => "raft append",
            Body::HttpRequest(_) => "forwarded request",
            Body::HttpReply(_) => "forwarded answer",
        }
    }
}

/// What servers say to each other begins with the region of whoever says it; all zero: it has none yet.
const REGION_BYTES: usize = 16;

/// The most that is sent as one piece: a frame, with its sender's region.
pub const MAX_SENT_BYTES: usize = REGION_BYTES + MAX_FRAME_BYTES;

pub fn with_region(region: Uuid, frame: &[u8]) -> Vec<u8> {
    [region.as_bytes(), frame].concat()
}

/// The sender's region, and the frame.
pub fn split_region(bytes: &[u8]) -> Result<(Uuid, &[u8]), DecodeError> {
    let (region, frame) = bytes.split_first_chunk::<REGION_BYTES>().ok_or(DecodeError::Body("frame"))?;
    Ok((Uuid::from_bytes(*region), frame))
}

/// What travels between two machines on a stream of its own, so that nothing waits behind what may take minutes on a slow line. The
/// more urgent come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrafficClass {
    /// Raft's heartbeats, votes and answers: small, and late ones cost a leader its term.
    Consensus,
    /// What users and nodes wait for.
    Requests,
    /// What a node passes on for users, and the answers: up to megabytes, which its own heartbeats do not wait for.
    Forwarded,
    /// Raft's entries: up to megabytes a message.
    Appends,
    /// A state's rows, which are no frames.
    Snapshots,
}

impl TrafficClass {
    pub const ALL: [TrafficClass; 5] = [
        TrafficClass::Consensus,
        TrafficClass::Requests,
        TrafficClass::Forwarded,
        TrafficClass::Appends,
        TrafficClass::Snapshots,
    ];
}

/// The class of a frame between servers, which begins with its sender's region. What cannot be read counts as a request.
pub fn traffic_class(bytes: &[u8]) -> TrafficClass {
    match bytes.get(REGION_BYTES..REGION_BYTES + 3) {
        Some(&[MAGIC, PROTOCOL, RAFT_KIND]) => TrafficClass::Consensus,
        Some(&[MAGIC, PROTOCOL, APPEND_KIND]) => TrafficClass::Appends,
        _ => TrafficClass::Requests,
    }
}

/// The class of a frame between a node and a server. What cannot be read counts as a request.
pub fn traffic_class_of_node(bytes: &[u8]) -> TrafficClass {
    match bytes.get(..3) {
        Some(&[MAGIC, PROTOCOL, HTTP_REQUEST_KIND | HTTP_REPLY_KIND]) => TrafficClass::Forwarded,
        _ => TrafficClass::Requests,
    }
}

/// The number of the request that a frame between a node and a server is or answers, without decoding the rest. `None`: it has no
/// whole header.
pub fn request_number(bytes: &[u8]) -> Option<u64> {
    let (&[_, _, _, number @ ..], _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    Some(u64::from_le_bytes(number))
}

pub fn encode(frame: &Frame) -> Vec<u8> {
    let (kind, body) = match &frame.body {
        Body::Request(r) => (0u8, record::encode(r)),
        Body::Reply(r) => (1, record::encode(r)),
        Body::Raft(bytes) => (RAFT_KIND, bytes.clone()),
        Body::ServerRequest(r) => (3, record::encode(r)),
        Body::ServerReply(r) => (4, record::encode(r)),
        Body::Append(bytes) => (APPEND_KIND, bytes.clone()),
        Body::HttpRequest(r) => (HTTP_REQUEST_KIND, record::encode(r)),
        Body::HttpReply(r) => (HTTP_REPLY_KIND, record::encode(r)),
    };
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend_from_slice(&[MAGIC, PROTOCOL, kind]);
    out.extend_from_slice(&frame.request.to_le_bytes());
    out.extend_from_slice(&body);
    out
}

pub fn decode(bytes: &[u8]) -> Result<Frame, DecodeError> {
    const NAME: &str = "frame";
    if bytes.len() > MAX_FRAME_BYTES {
        return Err(DecodeError::TooLong { name: NAME, bytes: bytes.len(), limit: MAX_FRAME_BYTES });
    }
    let Some((&[magic, version, kind, a, b, c, d, e, f, g, h], body)) =
        bytes.split_first_chunk::<HEADER_BYTES>()
    else {
        return Err(DecodeError::Body(NAME));
    };
    if magic != MAGIC {
        return Err(DecodeError::Body(NAME));
    }
    if version != PROTOCOL {
        return Err(DecodeError::Version { name: NAME, found: version, known: PROTOCOL });
    }
    let body = match kind {
        0 => Body::Request(record::decode(body)?),
        1 => Body::Reply(record::decode(body)?),
        RAFT_KIND => Body::Raft(body.to_vec()),
        3 => Body::ServerRequest(record::decode(body)?),
        4 => Body::ServerReply(record::decode(body)?),
        APPEND_KIND => Body::Append(body.to_vec()),
        HTTP_REQUEST_KIND => Body::HttpRequest(record::decode(body)?),
        HTTP_REPLY_KIND => Body::HttpReply(record::decode(body)?),
        _ => return Err(DecodeError::Body(NAME)),
    };
    Ok(Frame { request: u64::from_le_bytes([a, b, c, d, e, f, g, h]), body })
}

#[cfg(test)]
mod tests {
    use super::super::http::{Method, Request};
    use super::*;

    #[test]
    fn a_frame_between_servers_says_whose_region_it_is_of() {
        let bytes = encode(&Frame { request: 8, body: Body::ServerReply(ServerReply::NotLeader) });
        let region = Uuid::from_random(7);
        assert_eq!(split_region(&with_region(region, &bytes)), Ok((region, bytes.as_slice())));
        assert!(split_region(&[0; REGION_BYTES - 1]).is_err());
        assert_eq!(traffic_class(&with_region(region, &bytes)), TrafficClass::Requests);
        let class = |body| traffic_class(&with_region(region, &encode(&Frame { request: 0, body })));
        assert_eq!(class(Body::Raft(vec![1])), TrafficClass::Consensus);
        assert_eq!(class(Body::Append(vec![1])), TrafficClass::Appends);
        assert_eq!(traffic_class(&[0; 3]), TrafficClass::Requests);
    }

    #[test]
    fn a_nodes_forwarded_requests_have_a_traffic_class() {
        let class = |body| traffic_class_of_node(&encode(&Frame { request: 1, body }));
        assert_eq!(class(Body::HttpRequest(forwarded())), TrafficClass::Forwarded);
        assert_eq!(class(Body::HttpReply(NodeHttpReply::NotDone)), TrafficClass::Forwarded);
        assert_eq!(class(Body::Reply(NodeReply::UnknownNode)), TrafficClass::Requests);
        assert_eq!(traffic_class_of_node(&[]), TrafficClass::Requests);
    }

    fn forwarded() -> NodeHttpRequest {
        let request = Request {
            method: Method::Get,
            path: "/v1/jobs".into(),
            query: String::new(),
            body: vec![],
            websocket: false,
        };
        NodeHttpRequest { node: Default::default(), secret: Default::default(), request }
    }

    #[test]
    fn frames_round_trip_and_damage_is_an_error() {
        let frames = [
            Frame { request: 7, body: Body::Reply(NodeReply::Reported { index: 5 }) },
            Frame { request: u64::MAX, body: Body::Raft(vec![1, 2, 3]) },
            Frame { request: 0, body: Body::Append(vec![1, 2, 3]) },
            Frame { request: 8, body: Body::ServerReply(ServerReply::NotLeader) },
            Frame { request: 3, body: Body::HttpRequest(forwarded()) },
            Frame { request: 4, body: Body::HttpReply(NodeHttpReply::NotDone) },
            Frame {
                request: 9,
                body: Body::ServerRequest(ServerRequest::Node {
                    node: Default::default(),
                    request: NodeRequest::Heartbeat { node: Default::default(), secret: Default::default() },
                }),
            },
            Frame {
                request: 0,
                body: Body::Request(NodeRequest::Heartbeat {
                    node: Default::default(),
                    secret: Default::default(),
                }),
            },
        ];
        for frame in frames {
            let bytes = encode(&frame);
            assert_eq!(decode(&bytes), Ok(frame));
            for cut in 0..HEADER_BYTES {
                assert!(decode(&bytes[..cut]).is_err());
            }
            for at in 0..3 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x40;
                assert!(decode(&damaged).is_err());
            }
        }
        assert!(matches!(decode(&vec![0; MAX_FRAME_BYTES + 1]), Err(DecodeError::TooLong { .. })));
    }
}
