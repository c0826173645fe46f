//! Join tokens: written, revoked, and used up by the machines that show them (server.md 22).
//!
//! Refuses to know: keys, and what a machine is given. Invariants: a token lets in as many machines as it says and not one more, none after
//! its time, and none in another role; a machine that asks again with the same key, because its answer was lost, uses nothing up.

use super::super::fault::Fault;
use super::super::join_tokens::{join_token_key, read_join_tokens, redemption_key, redemptions_key};
use super::super::tables;
use super::{ApplyTxn, Reply};
use model::id::Uuid;
use model::join_token::{JoinRole, JoinToken, JoinTokenSpec, MAX_TOKENS};
use model::time::{Span, Wall};
use wire::command::{RedeemJoinTokenCommand, Redemption};
use wire::request::{Refusal, RefusalKind, WriteReply};
use wire::rpc::Peer;

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
        let RedeemJoinTokenCommand { id, secret_digest, redemption } = order;
        let index = self.index();
        // both in one sentence: whoever guesses does not hear which of the two was wrong
        let known: Option<JoinToken> = tables::get(&self.rows, &join_token_key(id))?;
        let Some(token) = known.filter(|token| token.spec.secret_digest == secret_digest) else {
            let why = "the join token is not known here: it was revoked, is older than a day, or is of another region; \
                       make another with `drover token create`";
            return refuse(RefusalKind::Forbidden, why);
        };
        if token.spec.role != role(redemption.machine) {
            let why = format!("the join token is for a {}, and not for this machine", token.spec.role);
            return refuse(RefusalKind::Invalid, why);
        }
        if token.is_expired(redemption.at) {
            let why = "the join token has expired: make another with `drover token create`";
            return refuse(RefusalKind::Invalid, why);
        }
        let key = redemption_key(id, redemption.machine);
        let before: Option<Redemption> = tables::get(&self.rows, &key)?;
        if before.is_some_and(|before| before.key == redemption.key) {
            return Ok(Ok(WriteReply::JoinToken { token: Box::new(token), index }));
        }
        let Some(uses_left) = token.uses_left.checked_sub(1) else {
            let why = "the join token is used up: make another with `drover token create`";
            return refuse(RefusalKind::Invalid, why);
        };
        let token = JoinToken { uses_left, modify_index: index, ..token };
        self.put(&join_token_key(id), &token)?;
        self.put(&key, &redemption)?;
        Ok(Ok(WriteReply::JoinToken { token: Box::new(token), index }))
    }

    fn remove_join_token(&mut self, id: Uuid) -> Result<(), Fault> {
        for key in tables::keys(&self.rows, &redemptions_key(id))? {
            self.remove(&key)?;
        }
        self.remove(&join_token_key(id))
    }
}

fn role(machine: Peer) -> JoinRole {
    match machine {
        Peer::Server(_) => JoinRole::Server,
        Peer::Node(_) => JoinRole::Client,
    }
}

fn refuse(kind: RefusalKind, message: impl Into<String>) -> Result<Reply, Fault> {
    Ok(Err(Refusal::new(kind, message)))
}
