//! The blocks of jobs that make others (jobspec.md 3.14).

use super::{Decoder, Given};
use model::family::Periodic;
use model::family::dispatch::{Parameterized, PayloadRule};

impl Decoder<'_> {
    pub(super) fn periodic(&mut self, p: Given<'_>) -> Periodic {
        if let Some(other) = p.text("SpecType").filter(|t| !matches!(*t, "" | Periodic::SPEC_TYPE)) {
            self.checker.wrong(format!("Unknown periodic specification type {other:?}"));
        }
        let zone = p.text("TimeZone").filter(|z| !z.is_empty()).unwrap_or(Periodic::UTC);
        Periodic {
            enabled: p.flag("Enabled").unwrap_or(true),
            spec: p.owned("Spec"),
            specs: p.texts("Specs"),
            prohibit_overlap: p.flag("ProhibitOverlap").unwrap_or(false),
            time_zone: zone.to_string(),
        }
    }

    pub(super) fn parameterized(&mut self, p: Given<'_>) -> Parameterized {
        let rules = PayloadRule::ALL.map(|rule| (rule.as_str(), rule));
        Parameterized {
            payload: self.one_of(p, "Payload", "ParameterizedJob", &rules, PayloadRule::Optional),
            meta_required: p.texts("MetaRequired"),
            meta_optional: p.texts("MetaOptional"),
        }
    }

    /// Of a task. Empty: it wants none.
    pub(super) fn payload_file(&mut self, t: Given<'_>, path: &str) -> String {
        let Some(block) = t.inner("DispatchPayload") else { return String::new() };
        let file = block.owned("File");
        if file.is_empty() {
            self.checker.wrong(format!("{path}.DispatchPayload.File: a dispatch payload needs a file"));
        }
        file
    }
}
