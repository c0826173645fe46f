//! Rows of join tokens, and reads of them.
//!
//! Refuses to know: who may use one.

use super::fault::Fault;
use super::tables::{self, Kind, Rows};
use super::view::View;
use model::id::Uuid;
use model::join_token::JoinToken;
use wire::record;
use wire::rpc::Peer;

impl View {
    /// Ordered by id. Expired ones are among them for a day or longer.
    pub fn join_tokens(&self) -> Result<Vec<JoinToken>, Fault> {
        read_join_tokens(&self.rows)
    }
}

pub(super) fn read_join_tokens(rows: &impl Rows) -> Result<Vec<JoinToken>, Fault> {
    let mut out = Vec::new();
    tables::each(rows, &Kind::JoinToken.key(&[]), None, |_, value| {
        out.push(record::decode::<JoinToken>(value)?);
        Ok(true)
    })?;
    Ok(out)
}

pub(super) fn join_token_key(id: Uuid) -> Vec<u8> {
    Kind::JoinToken.key(&[id.as_bytes()])
}

/// What the keys of all who have used a token begin with.
pub(super) fn redemptions_key(id: Uuid) -> Vec<u8> {
    Kind::Redemption.key(&[id.as_bytes()])
}

pub(super) fn redemption_key(id: Uuid, machine: Peer) -> Vec<u8> {
    Kind::Redemption.key(&[id.as_bytes(), &record::encode_part("peer", &machine)])
}
