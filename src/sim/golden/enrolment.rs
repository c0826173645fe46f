//! Golden samples of join tokens, and of what is said with one and kept of it.

use super::Samples;
use model::id::{NodeId, Uuid};
use model::join_token::{JoinRole, JoinToken, JoinTokenSpec, JoiningMachine};
use model::time::{Span, Wall};
use wire::bearer_token::{BearerToken, TokenSecret};
use wire::command::{Command, RedeemJoinTokenCommand, Redemption};
use wire::enrolment::{EnrolAnswer, EnrolHello, EnrolRequest, EnrolWelcome};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;
use wire::stored_identity::{HiddenBytes, StoredIdentity, StoredKey};

const ID: Uuid = Uuid::from_bytes([1; 16]);
const NODE: Peer = Peer::Node(NodeId(Uuid::from_bytes([2; 16])));
const AT: Wall = Wall(300);

pub fn enrolment(s: &mut Samples) {
    kept(s);
    said(s);
    for (what, role) in [("client", JoinRole::Client), ("server", JoinRole::Server)] {
        let spec = JoinTokenSpec { id: ID, secret_digest: [3; 32], role, uses: 200, ttl: Span(1) };
        let create = Command::CreateJoinToken { token: Box::new(spec.clone()), at: AT };
        s.add(&format!("create {what} join token"), &create);
        let token = JoinToken { spec, uses_left: 199, created: AT, create_index: 4, modify_index: 5 };
        s.add(what, &token);
    }
    s.add("revoke join token", &Command::RevokeJoinToken { id: ID });
    let machine = JoiningMachine::Node(NodeId(Uuid::from_bytes([2; 16])));
    let redemption = Redemption { machine, key: [6; 32], at: AT };
    s.add("node", &redemption);
    let order = RedeemJoinTokenCommand { id: ID, secret_digest: [3; 32], redemption };
    s.add("redeem join token", &Command::RedeemJoinToken(Box::new(order)));
}

fn kept(s: &mut Samples) {
    let key = StoredKey { private: HiddenBytes(vec![1, 2, 3]) };
    s.add("node", &key);
    let stored = StoredIdentity { key, credential: vec![4, 5], region_key: [6; 32], region_secret: None };
    s.add("node", &stored);
    s.add("server", &StoredIdentity { region_secret: Some(HiddenBytes(vec![7, 8])), ..stored });
}

fn said(s: &mut Samples) {
    let (region, secret) = ("global".to_string(), TokenSecret([5; 32]));
    let token = BearerToken { region, region_key_digest: [4; 32], role: JoinRole::Client, id: ID, secret };
    s.add("client", &token);
    s.add("hello", &EnrolHello { region_key_digest: [4; 32] });
    s.add("welcome", &EnrolWelcome { credential: vec![1, 2], region_key: [4; 32] });
    s.add("node", &EnrolRequest { token: ID, secret, machine: NODE });
    s.add("server", &EnrolRequest { token: ID, secret, machine: Peer::Server(300) });
    s.add("node", &EnrolAnswer::Enrolled { credential: vec![1, 2], region_secret: None });
    let region_secret = Some(HiddenBytes(vec![7, 8]));
    s.add("server", &EnrolAnswer::Enrolled { credential: vec![1, 2], region_secret });
    s.add("refused", &EnrolAnswer::Refused(Refusal::new(RefusalKind::Busy, "no")));
}
