//! The region's signing key: its first leader asks for one and proposes it. Refuses to know how keys are made.

use super::{Effect, Op, Server};
use crate::model::key::{Seed, SigningKey};
use crate::model::time::Now;
use crate::state::fault::Fault;
use crate::state::view::View;
use crate::wire::command::Command;

impl Server {
    pub(super) fn ask_for_signing_key(&mut self, view: &View) -> Result<(), Fault> {
        if view.signing_keys()?.is_empty() {
            self.out.push(Effect::MakeSigningKey);
        }
        Ok(())
    }

    /// One that comes too late, or after another, is not used.
    pub(super) fn signing_key_made(&mut self, seed: Seed, public: [u8; 32], now: Now) -> Result<(), Fault> {
        if !self.ready || !self.log.reader().view()?.signing_keys()?.is_empty() {
            return Ok(());
        }
        let key = SigningKey { id: self.ids.uuid(), seed, public, created: self.stamp(now), create_index: 0 };
        self.propose(&Command::AddSigningKey { key: Box::new(key) }, Op::Unattended);
        Ok(())
    }
}
