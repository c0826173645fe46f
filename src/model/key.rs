//! Keys that the region signs with: what its servers say of tasks can be checked by anyone who has the public half.

use super::id::Uuid;
use super::time::Wall;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An Ed25519 key (RFC 8032).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    pub id: Uuid,
    pub seed: Seed,
    pub public: [u8; 32],
    pub created: Wall,
    pub create_index: u64,
}

/// The private half: in the state and in its replicas' logs, and nowhere that is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(pub [u8; 32]);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(hidden)")
    }
}
