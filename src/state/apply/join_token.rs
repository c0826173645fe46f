//! Join tokens: written, revoked, and used up by the machines that show them (server.md 22).
//!
//! Refuses to know: keys, and what a machine is given. Invariants: a token lets in as many machines as it says and not one more, none after
//! its time, and none in another role; a machine that asks again with the same key, because its answer was lost, uses nothing up.

use super::super::fault::Fault;
use super::super::join_tokens::{
    Redeemable, join_token_key, read_join_tokens, redeemable, redemption_key, redemptions_key,
};
use super::super::tables;
use super::{ApplyTxn, Reply};
use model::id::Uuid;
use model::join_token::{JoinToken, JoinTokenSpec, MAX_TOKENS};
use model::time::{Span, Wall};
use wire::command::RedeemJoinTokenCommand;
use wire::request::{Refusal, RefusalKind, WriteReply};

/// How long a token that has expired stays listed.
const SHOWN: Span = Span::hours(24);
/// Tokens that one entry removes: each has a row for each of its uses.
const MAX_REMOVED: usize = 8;

impl ApplyTxn<'_> {
    /// The entry removes what has been over for a day, too.
    pub(super) fn create_join_token(&mut self, spec: JoinTokenSpec, at: Wall) -> Result<Reply, Fault> {
        let index = self.index();
        let known = read_join_tokens(&self.rows)?;
        if known.iter().any(|token| token.spec.id == spec.id) {
            return refuse(RefusalKind::Conflict, "a join token with this id exists");
        }
        let is_over = |token: &&JoinToken| token.created.is_older_than(token.spec.ttl + SHOWN, at);
        let over: Vec<Uuid> = known.iter().filter(is_over).map(|t| t.spec.id).take(MAX_REMOVED).collect();
        if known.len() - over.len() >= MAX_TOKENS {
            let why = format!("there are {MAX_TOKENS} join tokens already: revoke those that are not needed");
            return refuse(RefusalKind::Conflict, why);
        }
        for id in over {
            self.remove_join_token(id)?;
        }
        let uses_left = spec.uses;
        let token = JoinToken { spec, uses_left, created: at, create_index: index, modify_index: index };
        self.put(&join_token_key(token.spec.id), &token)?;
        Ok(Ok(WriteReply::JoinToken { token: Box::new(token), index }))
    }

    pub(super) fn revoke_join_token(&mut self, id: Uuid) -> Result<Reply, Fault> {
        if !tables::any(&self.rows, &join_token_key(id))? {
            return refuse(RefusalKind::NotFound, "join token not found");
        }
        self.remove_join_token(id)?;
        Ok(Ok(WriteReply::Written { index: self.index() }))
    }

    pub(super) fn redeem_join_token(&mut self, order: RedeemJoinTokenCommand) -> Result<Reply, Fault> {
        let index = self.index();
        let token = match redeemable(&self.rows, &order)? {
            Err(refusal) => return Ok(Err(refusal)),
            Ok(Redeemable::Again(token)) => token,
            Ok(Redeemable::Once(token)) => {
                let token =
                    JoinToken { uses_left: token.uses_left.saturating_sub(1), modify_index: index, ..token };
                self.put(&join_token_key(order.id), &token)?;
                self.put(&redemption_key(order.id, order.redemption.machine), &order.redemption)?;
                token
            }
        };
        Ok(Ok(WriteReply::JoinToken { token: Box::new(token), index }))
    }

    fn remove_join_token(&mut self, id: Uuid) -> Result<(), Fault> {
        for key in tables::keys(&self.rows, &redemptions_key(id))? {
            self.remove(&key)?;
        }
        self.remove(&join_token_key(id))
    }
}

fn refuse(kind: RefusalKind, message: impl Into<String>) -> Result<Reply, Fault> {
    Ok(Err(Refusal::new(kind, message)))
}
