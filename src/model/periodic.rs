//! When a job launches children of itself (server.md 10).
//!
//! Refuses to know: what time it is, who launches, and what a child is.

use super::cron::{Cron, Schedule, Zones};
use super::schema::{DecodeHook, ValueKind, block, maybe, named, nullable};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// The most specs of one job: the leader looks at each of them.
pub const MAX_EXPRESSIONS: usize = 64;

block! {
    /// When a job launches a child of itself.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Periodic in named("periodic", "Periodic").hooked(DecodeHook::Periodic) => {
        pub enabled: bool = true => nullable("enabled", "Enabled");
        /// One expression, or else `specs`.
        pub spec: String => nullable("cron", "Spec");
        pub specs: Vec<String> => nullable("crons", "Specs").in_order().zero_for_none();
        pub prohibit_overlap: bool => nullable("prohibit_overlap", "ProhibitOverlap");
        pub time_zone: String = Periodic::UTC.into() => nullable("time_zone", "TimeZone");
    }
    and [maybe("", "SpecType", ValueKind::Text).constant(Periodic::SPEC_TYPE)]
}

impl Periodic {
    pub const UTC: &'static str = "UTC";
    pub const SPEC_TYPE: &'static str = "cron";

    pub fn expressions(&self) -> impl Iterator<Item = &str> {
        let one = Some(self.spec.as_str()).filter(|s| !s.is_empty());
        one.into_iter().chain(self.specs.iter().map(String::as_str))
    }

    pub fn zone(&self, zones: Zones) -> Option<TimeZone> {
        if self.time_zone == Self::UTC { Some(TimeZone::UTC) } else { zones(&self.time_zone) }
    }

    /// `None`: it is switched off, or names no moments that this machine could tell.
    pub fn schedule(&self, zones: Zones) -> Option<Schedule> {
        if !self.enabled {
            return None;
        }
        let crons = self.expressions().map(Cron::parse).collect::<Result<Vec<_>, _>>().ok()?;
        Some(Schedule { crons, zone: self.zone(zones)? })
    }
}
