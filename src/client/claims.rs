//! Ports, cores and devices are reused by the next allocation only when the one before has really ended.
//! Refuses to know which allocation gets what: the servers decide.

use super::alloc_runner::AllocRunner;
use model::alloc::DesiredStatus;
use model::claims::Claim;
use state::client_store::Retention;
use std::collections::BTreeSet;

/// The claims of allocations that have not ended and were told to stop, or are unknown to the servers.
pub fn claims_of_ending<'a>(allocs: impl Iterator<Item = &'a AllocRunner>) -> BTreeSet<Claim> {
    let mut claims = BTreeSet::new();
    for alloc in allocs.filter(|a| !a.has_ended() && !is_wanted(a)) {
        claims.extend(alloc.record.assignment.resources.claims());
    }
    claims
}

/// Whether an allocation waits for one of those claims.
pub fn must_wait(alloc: &AllocRunner, claims_of_ending: &BTreeSet<Claim>) -> bool {
    let resources = &alloc.record.assignment.resources;
    is_wanted(alloc)
        && !claims_of_ending.is_empty()
        && resources.claims().any(|claim| claims_of_ending.contains(&claim))
}

fn is_wanted(alloc: &AllocRunner) -> bool {
    let kept = alloc.record.retention == Retention::Kept;
    kept && alloc.record.assignment.desired == DesiredStatus::Run
}
