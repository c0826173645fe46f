//! The region's signing keys. Refuses to know what they sign.

use super::super::fault::Fault;
use super::super::tables::{self, Kind};
use super::{ApplyTxn, Reply};
use model::key::SigningKey;

impl ApplyTxn<'_> {
    /// The first key stays: another leader may have proposed one before it had applied the first.
    pub(super) fn add_signing_key(&mut self, key: SigningKey) -> Result<Reply, Fault> {
        if !tables::any(&self.rows, &Kind::SigningKey.key(&[]))? {
            let row = SigningKey { create_index: self.index(), ..key };
            self.put(&Kind::SigningKey.key(&[row.id.as_bytes()]), &row)?;
        }
        Ok(self.noop())
    }
}
