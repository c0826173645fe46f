//! Machines that have enrolled: they hold their own key and what the region said of it, and no secret of the region.

use super::super::identity::{LinkIdentity, RegionKey};
use super::super::machine_key::MachineKey;
use super::machine::{Machine, region, server};
use model::id::NodeId;
use wire::record;
use wire::rpc::Peer;
use wire::stored_identity::StoredIdentity;

const NODE: Peer = Peer::Node(NodeId(model::id::Uuid::from_bytes([6; 16])));

fn stored(signed_by: &RegionKey) -> StoredIdentity {
    let key = MachineKey::generate().expect("a key");
    StoredIdentity {
        key: key.stored().clone(),
        credential: signed_by.credential_for("global", NODE, key.public()),
        region_key: signed_by.public(),
        region_secret: None,
    }
}

#[test]
fn a_node_with_a_stored_identity_needs_no_secret() {
    let bytes = record::encode(&stored(&region()));
    let (node, other) =
        (|| LinkIdentity::from_stored(&record::decode(&bytes).expect("it is whole")), server(1));
    let identity = node().expect("an identity");
    assert_eq!(
        (identity.peer(), identity.region(), identity.region_key()),
        (NODE, "global", region().public())
    );
    let (a, b) = (Machine::new(identity), Machine::new(other));
    assert_eq!(a.dial(b.address), Ok(Peer::Server(1)));
    assert_eq!((a.up().peer(), b.up().peer()), (Peer::Server(1), NODE));
    // after a restart it is the same machine, and peers forget what is left of its last life
    let (one, same) = (node().expect("an identity"), node().expect("an identity"));
    assert_eq!(one.connection_id_key(), same.connection_id_key());
}

#[test]
fn a_stored_identity_that_does_not_hold_together_is_refused() {
    let (good, other) = (stored(&region()), stored(&region()));
    let refused = |stored: &StoredIdentity| LinkIdentity::from_stored(stored).err().map(|e| e.to_string());
    let mixed = StoredIdentity { credential: other.credential.clone(), ..good.clone() };
    assert_eq!(refused(&mixed).as_deref(), Some("the credential is of another key"));
    let elsewhere = RegionKey::from_secret(&[8; 32]).expect("a key").public();
    assert!(refused(&StoredIdentity { region_key: elsewhere, ..good.clone() }).is_some());
    let mut damaged = good.clone();
    damaged.key.private.0[20] ^= 1;
    assert!(refused(&damaged).is_some());
    assert_eq!(refused(&good), None);
    assert!(!format!("{good:?}").contains(&format!("{:?}", &good.key.private.0[..4])), "no log shows a key");
}
