//! The blocks of jobs that make others (jobspec.md 3.14).

use super::{Decoder, Given};
use model::family::Periodic;

impl Decoder<'_> {
    pub(super) fn spec_type(&mut self, p: Given<'_>) {
        if let Some(other) = p.text("SpecType").filter(|t| !matches!(*t, "" | Periodic::SPEC_TYPE)) {
            self.checker.wrong(format!("Unknown periodic specification type {other:?}"));
        }
    }

    /// A task's payload file. Empty: it wants none.
    pub(super) fn payload_file(&mut self, t: Given<'_>, path: &str) -> String {
        let Some(block) = t.inner("DispatchPayload") else { return String::new() };
        let file = block.owned("File");
        if file.is_empty() {
            self.checker.wrong(format!("{path}.DispatchPayload.File: a dispatch payload needs a file"));
        }
        file
    }
}
