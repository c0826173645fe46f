//! The region's signing key: its first leader asks for one and proposes it. Refuses to know how keys are made.

use super::{Effect, Op, Server};
use model::key::{Seed, SigningKey};
use model::time::Now;
use state::fault::Fault;
use state::view::View;
use wire::command::Command;

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
