//! How many allocations and children of a job are in which state, so that listing jobs counts nothing.
//!
//! Refuses to know: what moved them there.

use super::job::JobStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many allocations of a group are in which state. `complete` and `failed` only ever grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    pub queued: u64,
    pub starting: u64,
    pub running: u64,
    pub failed: u64,
    pub complete: u64,
    pub lost: u64,
    pub unknown: u64,
}

/// Kept beside each job, so that listing jobs counts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    pub groups: BTreeMap<String, GroupSummary>,
    pub create_index: u64,
    pub modify_index: u64,
    pub children: Children,
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
