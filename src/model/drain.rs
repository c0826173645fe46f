//! The drain of a node: what was asked for, and how it went.

use super::alloc::{Allocation, ClientStatus};
use super::job::MigratePolicy;
use super::time::{Span, Wall};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A drain that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Zero: there is none. Negative: everything leaves at once.
    pub deadline: Span,
    pub ignore_system: bool,
    pub started: Wall,
    /// When what is left has to go. None: never.
    pub force_at: Option<Wall>,
}

impl Drain {
    /// How long until what is left has to go: whatever the clocks say, not for longer than was asked for.
    pub fn left(&self, now: Wall) -> Option<Span> {
        if self.deadline < Span::ZERO {
            return Some(Span::ZERO);
        }
        self.force_at.map(|at| (at - now).min(self.deadline).max(Span::ZERO))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DrainStatus {
    Draining,
    Complete,
    Canceled,
}

impl DrainStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            DrainStatus::Draining => "draining",
            DrainStatus::Complete => "complete",
            DrainStatus::Canceled => "canceled",
        }
    }
}

/// How the node's newest drain went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastDrain {
    pub started: Wall,
    pub updated: Wall,
    pub status: DrainStatus,
    /// What its user has to say of it.
    pub meta: BTreeMap<String, String>,
}

/// How long until the allocation counts, so that another one of its group may be taken away: until it has run for
/// `min_healthy_time`, or has had its `healthy_deadline` to do so; at once when a deployment has judged it.
pub fn settles_in(alloc: &Allocation, policy: &MigratePolicy, now: Wall) -> Span {
    if alloc.health.is_some_and(|h| h.healthy.is_some()) {
        return Span::ZERO;
    }
    let left = |since: Wall, span: Span| ((since + span) - now).min(span).max(Span::ZERO);
    let given_up = left(alloc.create_time, policy.healthy_deadline);
    match alloc.client {
        ClientStatus::Running => left(alloc.modify_time, policy.min_healthy_time).min(given_up),
        _ => given_up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_end_in_time_whatever_the_clocks_say() {
        let at = |hours| Wall(Span::hours(hours).0);
        let hour = Drain {
            deadline: Span::hours(1),
            ignore_system: false,
            started: at(100),
            force_at: Some(at(101)),
        };
        for (now, left) in [(100, 1), (101, 0), (200, 0), (0, 1)] {
            assert_eq!(hour.left(at(now)), Some(Span::hours(left)), "at {now}");
        }
        let endless = Drain { deadline: Span::ZERO, force_at: None, ..hour.clone() };
        assert_eq!(endless.left(at(200)), None);
        let force = Drain { deadline: Span::seconds(-1), force_at: None, ..hour };
        assert_eq!(force.left(at(0)), Some(Span::ZERO));
    }
}
