//! Join tokens on their way into the log (server.md 22).
//!
//! Refuses to know: whom a token lets in. That is decided where the log is applied; here a refusal that is known already costs no entry.

use super::context::Context;
use super::pending::OnApply;
use state::fault::Fault;
use state::view::View;
use wire::command::{Command, RedeemJoinTokenCommand, Redemption};
use wire::request::WriteRequest;

/// Takes the writes that concern join tokens, and no others.
pub fn request(token: u64, action: WriteRequest, view: &View, cx: &mut Context<'_>) -> Result<(), Fault> {
    let (at, reply) = (cx.at, OnApply::Reply { token });
    match action {
        WriteRequest::CreateJoinToken { token: spec } => {
            cx.propose(Command::CreateJoinToken { token: spec, at }, reply);
        }
        WriteRequest::RevokeJoinToken { id } => cx.propose(Command::RevokeJoinToken { id }, reply),
        WriteRequest::RedeemJoinToken { id, secret_digest, machine, key } => {
            let order =
                RedeemJoinTokenCommand { id, secret_digest, redemption: Redemption { machine, key, at } };
            match view.redemption_refusal(&order)? {
                Some(refusal) => cx.reply(token, Err(refusal)),
                None => cx.propose(Command::RedeemJoinToken(Box::new(order)), reply),
            }
        }
        _ => unreachable!("other writes are taken elsewhere"),
    }
    Ok(())
}
