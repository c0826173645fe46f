//! The region's signing key: its first leader asks for one and proposes it. Refuses to know how keys are made.

use super::context::Context;
use super::effects::Effect;
use super::pending::OnApply;
use model::key::{Seed, SigningKey};
use state::fault::Fault;
use state::view::View;
use wire::command::Command;

pub fn ask_for_signing_key(view: &View, cx: &mut Context<'_>) -> Result<(), Fault> {
    if view.signing_keys()?.is_empty() {
        cx.outbox.effect(Effect::MakeSigningKey);
    }
    Ok(())
}

/// One that comes after another is not used.
pub fn signing_key_made(seed: Seed, public: [u8; 32], cx: &mut Context<'_>) -> Result<(), Fault> {
    if cx.view()?.signing_keys()?.is_empty() {
        let key = SigningKey { id: cx.ids.uuid(), seed, public, created: cx.at, create_index: 0 };
        cx.propose(Command::AddSigningKey { key: Box::new(key) }, OnApply::Nothing);
    }
    Ok(())
}
