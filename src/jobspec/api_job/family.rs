//! The blocks of jobs that make others (reference: jobspec 3.14, 6).

use super::{Decoder, Given};
use crate::model::family::Periodic;

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
}
