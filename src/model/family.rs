//! Jobs that make other jobs: when one is launched by itself, what it has to do with those that it made, and how these are
//! named (reference: server 10).
//!
//! Refuses to know: what time it is, and who launches.

use super::cron::{Cron, Schedule, Zones};
use super::job::{JobSpec, JobStatus};
use super::time::Wall;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// When a job launches a child of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Periodic {
    pub enabled: bool,
    /// One expression, or else `specs`.
    pub spec: String,
    pub specs: Vec<String>,
    pub prohibit_overlap: bool,
    pub time_zone: String,
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
}

impl Kinship {
    pub fn of_new(spec: &JobSpec, at: Wall) -> Kinship {
        match &spec.periodic {
            Some(_) => Kinship::Periodic { launched: at },
            None if spec.parent.is_empty() => Kinship::Alone,
            None => Kinship::Child { parent: spec.parent.clone() },
        }
    }

    pub fn is_periodic(&self) -> bool {
        matches!(self, Kinship::Periodic { .. })
    }

    /// Empty: it has none.
    pub fn parent(&self) -> &str {
        match self {
            Kinship::Child { parent } => parent,
            _ => "",
        }
    }

    /// It makes others, and runs nothing itself.
    pub fn is_parent(&self) -> bool {
        matches!(self, Kinship::Periodic { .. })
    }

    /// Why a job cannot become what `spec` says, if it cannot.
    pub fn refuses(&self, spec: &JobSpec) -> Option<String> {
        let is = self.is_periodic();
        let shown = |periodic: bool| if periodic { "periodic" } else { "non-periodic" };
        let becomes = spec.periodic.is_some();
        (is != becomes).then(|| format!("cannot update {} job to being {}", shown(is), shown(becomes)))
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
    JobSpec { name: id.clone(), id, periodic: None, parent: parent.id.clone(), stop: false, ..parent.clone() }
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
