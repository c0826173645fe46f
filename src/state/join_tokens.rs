//! Rows of join tokens, reads of them, and whom one lets in.
//!
//! Refuses to know: the token's text, and how a machine proves who it is.

use super::fault::Fault;
use super::tables::{self, Kind, Rows};
use super::view::View;
use model::id::Uuid;
use model::join_token::{JoinToken, JoiningMachine};
use wire::command::{RedeemJoinTokenCommand, Redemption};
use wire::record;
use wire::request::{Refusal, RefusalKind};

impl View {
    /// Ordered by id. Expired ones are among them for a day or longer.
    pub fn join_tokens(&self) -> Result<Vec<JoinToken>, Fault> {
        read_join_tokens(&self.rows)
    }

    /// Why a machine is not let in, as far as that is known before the log decides: what is refused costs no entry.
    pub fn redemption_refusal(&self, order: &RedeemJoinTokenCommand) -> Result<Option<Refusal>, Fault> {
        Ok(redeemable(&self.rows, order)?.err())
    }
}

/// What redeeming a token comes to.
pub(super) enum Redeemable {
    /// The machine was let in before: nothing changes.
    Again(JoinToken),
    /// The token has one use less afterwards.
    Once(JoinToken),
}

pub(super) fn redeemable(
    rows: &impl Rows,
    order: &RedeemJoinTokenCommand,
) -> Result<Result<Redeemable, Refusal>, Fault> {
    let RedeemJoinTokenCommand { id, secret_digest, redemption } = order;
    let refuse = |kind, why: String| Ok(Err(Refusal::new(kind, why)));
    // both in one sentence: whoever guesses does not hear which of the two was wrong
    let known: Option<JoinToken> = tables::get(rows, &join_token_key(*id))?;
    let Some(token) = known.filter(|token| token.spec.secret_digest == *secret_digest) else {
        return refuse(RefusalKind::Forbidden, UNKNOWN.into());
    };
    if token.spec.role != redemption.machine.role() {
        let why = format!("the join token is for a {}, and not for this machine", token.spec.role);
        return refuse(RefusalKind::Invalid, why);
    }
    if token.is_expired(redemption.at) {
        return refuse(
            RefusalKind::Invalid,
            "the join token has expired: make another with `drover token create`".into(),
        );
    }
    let before: Option<Redemption> = tables::get(rows, &redemption_key(*id, redemption.machine))?;
    match token.uses_left {
        _ if before.is_some_and(|before| before.key == redemption.key) => Ok(Ok(Redeemable::Again(token))),
        0 => refuse(
            RefusalKind::Invalid,
            "the join token is used up: make another with `drover token create`".into(),
        ),
        _ => Ok(Ok(Redeemable::Once(token))),
    }
}

const UNKNOWN: &str = "the join token is not known here: it was revoked, is older than a day, or is of another region; make \
                       another with `drover token create`";

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

pub(super) fn redemption_key(id: Uuid, machine: JoiningMachine) -> Vec<u8> {
    Kind::Redemption.key(&[id.as_bytes(), &record::encode_part("machine", &machine)])
}
