//! Jobs that make other jobs: when one is launched by itself, what it has to do with those that it made, and how these are
//! named (server.md 10).
//!
//! Refuses to know: what time it is, and who launches.

pub mod dispatch;

use super::cron::{Cron, Schedule, Zones};
use super::job::{JobSpec, JobStatus};
use super::schema::{Hook, Kind, block, maybe, named, nullable};
use super::time::Wall;
use dispatch::Dispatch;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// The most specs of one job: the leader looks at each of them.
pub const MAX_EXPRESSIONS: usize = 64;

block! {
    /// When a job launches a child of itself.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Periodic in named("periodic", "Periodic").hooked(Hook::Periodic) => {
        pub enabled: bool = true => nullable("enabled", "Enabled");
        /// One expression, or else `specs`.
        pub spec: String => nullable("cron", "Spec");
        pub specs: Vec<String> => nullable("crons", "Specs").in_order().zero_for_none();
        pub prohibit_overlap: bool => nullable("prohibit_overlap", "ProhibitOverlap");
        pub time_zone: String = Periodic::UTC.into() => nullable("time_zone", "TimeZone");
    }
    and [maybe("", "SpecType", Kind::Text).constant(Periodic::SPEC_TYPE)]
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

/// What a job has to do with other jobs. Encoded by position: append only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kinship {
    #[default]
    Alone,
    /// It launches children: about those up to `launched` it is decided.
    Periodic { launched: Wall },
    /// It was made by another job of its namespace.
    Child { parent: String },
    /// It is dispatched. `periodic`: what is dispatched launches children.
    Parameterized { periodic: bool },
    /// It was dispatched by a job of its namespace, and launches children.
    PeriodicChild { parent: String, launched: Wall },
}

impl Kinship {
    pub fn of_new(spec: &JobSpec, at: Wall) -> Kinship {
        let (periodic, parent) = (spec.periodic.is_some(), spec.parent.clone());
        match (periodic, parent.is_empty()) {
            _ if spec.is_parameterized() => Kinship::Parameterized { periodic },
            (true, true) => Kinship::Periodic { launched: at },
            (true, false) => Kinship::PeriodicChild { parent, launched: at },
            (false, true) => Kinship::Alone,
            (false, false) => Kinship::Child { parent },
        }
    }

    pub fn is_periodic(&self) -> bool {
        self.launched().is_some() || matches!(self, Kinship::Parameterized { periodic: true })
    }

    pub fn is_parameterized(&self) -> bool {
        matches!(self, Kinship::Parameterized { .. })
    }

    /// Up to when launches are decided. `None`: it has none.
    pub fn launched(&self) -> Option<Wall> {
        match self {
            Kinship::Periodic { launched } | Kinship::PeriodicChild { launched, .. } => Some(*launched),
            _ => None,
        }
    }

    /// Launches up to `moment` are decided now, if it has any.
    pub fn decide_launches(&mut self, moment: Wall) {
        if let Kinship::Periodic { launched } | Kinship::PeriodicChild { launched, .. } = self {
            *launched = moment;
        }
    }

    /// Empty: it has none.
    pub fn parent(&self) -> &str {
        match self {
            Kinship::Child { parent } | Kinship::PeriodicChild { parent, .. } => parent,
            _ => "",
        }
    }

    /// It makes others, and runs nothing itself.
    pub fn is_parent(&self) -> bool {
        self.is_parameterized() || self.launched().is_some()
    }

    /// Why a job cannot become what `spec` says, if it cannot.
    pub fn refuses(&self, spec: &JobSpec) -> Option<String> {
        let changes = |what: &str, is: bool, becomes: bool| {
            let shown = |so: bool| if so { what.to_string() } else { format!("non-{what}") };
            (is != becomes).then(|| format!("cannot update {} job to being {}", shown(is), shown(becomes)))
        };
        changes("periodic", self.is_periodic(), spec.periodic.is_some())
            .or_else(|| changes("parameterized", self.is_parameterized(), spec.is_parameterized()))
    }
}

/// How many children a job has in which state. `dead` does not fall when they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Children {
    pub pending: u64,
    pub running: u64,
    pub dead: u64,
}

impl Children {
    pub fn are_alive(&self) -> bool {
        self.pending + self.running > 0
    }

    /// One of them has moved: `None` before it came and once it is gone.
    pub fn count(&mut self, was: Option<JobStatus>, now: Option<JobStatus>) {
        // what is gone has ended
        let now = now.unwrap_or(JobStatus::Dead);
        if was == Some(now) {
            return;
        }
        if let Some(was) = was {
            let bin = self.bin(was);
            *bin = bin.saturating_sub(1);
        }
        *self.bin(now) += 1;
    }

    fn bin(&mut self, status: JobStatus) -> &mut u64 {
        match status {
            JobStatus::Pending => &mut self.pending,
            JobStatus::Running => &mut self.running,
            JobStatus::Dead => &mut self.dead,
        }
    }
}

/// The child that `parent` launches at that moment.
pub fn launched(parent: &JobSpec, at: Wall) -> JobSpec {
    let id = format!("{}/periodic-{}", parent.id, at.unix_seconds());
    let dispatch = parent.dispatch.as_ref().map(Dispatch::handed_on);
    JobSpec { periodic: None, dispatch, ..child(parent, id) }
}

/// All of the parent, under a name of its own.
pub(super) fn child(parent: &JobSpec, id: String) -> JobSpec {
    JobSpec { name: id.clone(), id, parent: parent.id.clone(), stop: false, ..parent.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_counted_where_they_are_and_the_dead_stay() {
        use JobStatus::{Dead, Pending, Running};
        let mut children = Children::default();
        for (was, now, expected) in [
            (None, Some(Pending), (1, 0, 0)),
            (None, Some(Pending), (2, 0, 0)),
            (Some(Pending), Some(Running), (1, 1, 0)),
            (Some(Running), Some(Running), (1, 1, 0)),
            (Some(Running), Some(Dead), (1, 0, 1)),
            (Some(Dead), None, (1, 0, 1)),
            (Some(Pending), None, (0, 0, 2)),
            (Some(Dead), Some(Running), (0, 1, 1)),
        ] {
            children.count(was, now);
            assert_eq!((children.pending, children.running, children.dead), expected, "{was:?} {now:?}");
            assert_eq!(children.are_alive(), expected.0 + expected.1 > 0);
        }
    }
}
