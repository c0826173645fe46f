//! Join tokens against the rows of the machines that have used them.

use super::AllRows;
use crate::tables::Kind;
use model::id::Uuid;
use model::join_token::JoinToken;
use wire::command::Redemption;

impl AllRows {
    pub(super) fn add_join_token(&mut self, key: &[u8], token: JoinToken) -> Result<(), String> {
        if token.spec.id.as_bytes() != key {
            return Err(format!("join token {} lies at {key:02x?}", token.spec.id));
        }
        self.join_tokens.insert(token.spec.id, token);
        Ok(())
    }

    pub(super) fn add_redemption(&mut self, key: &[u8], redemption: &Redemption) -> Result<(), String> {
        let (id, machine) = key.split_first_chunk::<16>().ok_or("the key of a redemption is too short")?;
        if wire::record::encode_part("machine", &redemption.machine) != machine {
            return Err(format!("the redemption by {:?} lies at {key:02x?}", redemption.machine));
        }
        *self.redemptions.entry(Uuid::from_bytes(*id)).or_default() += 1;
        Ok(())
    }

    /// A machine that comes again with another key uses the token up once more, and has one row.
    pub(super) fn join_tokens(&self) -> Result<(), String> {
        for (id, token) in &self.join_tokens {
            let JoinToken { spec, uses_left, create_index, modify_index, .. } = token;
            let used =
                spec.uses.checked_sub(*uses_left).ok_or("a join token has more uses than it began with")?;
            let machines = self.redemptions.get(id).copied().unwrap_or(0);
            if machines > used || (machines == 0) != (used == 0) {
                return Err(format!(
                    "{machines} machines have used join token {id}, which was used {used} times"
                ));
            }
            if create_index > modify_index || *modify_index > self.index {
                return Err(format!("join token {id} is of an index that cannot be: {token:?}"));
            }
        }
        match self.redemptions.keys().find(|id| !self.join_tokens.contains_key(id)) {
            Some(id) => {
                Err(format!("a row of kind {:?} is of join token {id}, which is not there", Kind::Redemption))
            }
            None => Ok(()),
        }
    }
}
