//! What only one allocation of the node can hold at a time passes from one to the next when the first has really ended.
//! Refuses to know who is to have what: the servers say so.

use super::alloc::Alloc;
use model::alloc::DesiredStatus;
use model::claims::Claim;
use std::collections::BTreeSet;

/// Ports, cores and devices of those that were told to end and have not.
pub fn leaving<'a>(allocs: impl Iterator<Item = &'a Alloc>) -> BTreeSet<Claim> {
    let mut claims = BTreeSet::new();
    for alloc in allocs.filter(|a| !a.is_over() && !is_wanted(a)) {
        claims.extend(alloc.head.assignment.resources.claims());
    }
    claims
}

/// Whether it is to hold some of them next.
pub fn waits(alloc: &Alloc, leaving: &BTreeSet<Claim>) -> bool {
    let resources = &alloc.head.assignment.resources;
    is_wanted(alloc) && !leaving.is_empty() && resources.claims().any(|claim| leaving.contains(&claim))
}

fn is_wanted(alloc: &Alloc) -> bool {
    alloc.head.assignment.desired == DesiredStatus::Run
}
