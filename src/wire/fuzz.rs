//! What holds of any bytes that are taken for a record.

use super::bearer_token::BearerToken;
use super::record::{Record, decode, encode};
use super::{
    client_rpc, command, enrolment, http, keeper, relay, request, rpc, server_rpc, snapshot, stored_identity,
};
use model::{alloc, eval, job, job_summary, key, namespace, node, submission};

/// By the first byte.
const KINDS: [fn(&[u8]); 34] = [
    again::<job::Job>,
    again::<job::JobSpec>,
    again::<job_summary::JobSummary>,
    again::<eval::Evaluation>,
    again::<alloc::Allocation>,
    again::<node::Node>,
    again::<namespace::Namespace>,
    again::<submission::Submission>,
    again::<key::SigningKey>,
    again::<command::Command>,
    again::<rpc::NodeRequest>,
    again::<rpc::NodeReply>,
    again::<client_rpc::ClientRequest>,
    again::<client_rpc::ClientReply>,
    again::<client_rpc::StreamFrame>,
    again::<client_rpc::SessionInput>,
    again::<client_rpc::SessionOutput>,
    again::<request::Refusal>,
    again::<keeper::KeeperCommand>,
    again::<keeper::Event>,
    again::<server_rpc::ServerRequest>,
    again::<server_rpc::ServerReply>,
    again::<snapshot::SnapshotMessage>,
    again::<http::NodeHttpRequest>,
    again::<http::NodeHttpReply>,
    again::<stored_identity::StoredIdentity>,
    again::<enrolment::EnrolHello>,
    again::<enrolment::EnrolWelcome>,
    again::<enrolment::EnrolRequest>,
    again::<enrolment::EnrolAnswer>,
    again::<relay::RelayHeader>,
    again::<relay::RelayWelcome>,
    again::<relay::RelayedRequest>,
    again::<relay::RelayedAnswer>,
];

pub fn record(bytes: &[u8]) {
    if let Some((kind, bytes)) = bytes.split_first() {
        KINDS[usize::from(*kind) % KINDS.len()](bytes);
    }
}

/// A join token's text.
pub fn token(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(token) = BearerToken::parse(text) {
        assert_eq!(token.text(), text.trim(), "a token has one text");
    }
}

/// What can be decoded means the same when it is encoded again.
fn again<R: Record>(bytes: &[u8]) {
    match decode::<R>(bytes) {
        Ok(value) => {
            let written = encode(&value);
            let read = decode::<R>(&written).map(|value| encode(&value));
            assert_eq!(read, Ok(written), "{}", R::NAME);
        }
        Err(why) => assert!(why.to_string().starts_with(R::NAME)),
    }
}
