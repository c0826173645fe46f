//! `distinct_hosts` and `distinct_property`: conditions on where the job's other allocations are
//! (scheduler.md 14.5, scheduler.md 14.6). Refuses to know resources and scores.

use super::fleet::FleetSnapshot;
use super::operand::ConstraintTarget;
use super::proposal::ProposedAllocs;
use model::constraint::Constraint;
use model::job::{JobSpec, TaskGroup};
use std::collections::BTreeMap;

/// At most `allowed` allocations on all nodes that share a value of a property.
pub struct Property<'a> {
    pub name: &'a str,
    pub target: ConstraintTarget<'a>,
    pub allowed: i64,
    /// None: all of the job's allocations count.
    group: Option<&'a str>,
}

impl<'a> Property<'a> {
    /// A count that cannot be read allows nothing.
    fn new(constraint: &'a Constraint, group: Option<&'a str>) -> Self {
        let right = constraint.right.trim();
        let allowed = if right.is_empty() { 1 } else { right.parse().unwrap_or(0) };
        Property { name: &constraint.left, target: ConstraintTarget::parse(&constraint.left), allowed, group }
    }

    pub fn counts(&self, group: &str) -> bool {
        self.group.is_none_or(|g| g == group)
    }

    /// None: the node has no such property.
    pub fn value(&self, fleet: &FleetSnapshot, slot: u32) -> Option<String> {
        let (profile, own) = fleet.profile_at(slot).zip(fleet.unique_at(slot))?;
        self.target.resolve(fleet.id_at(slot), profile, own).map(|v| v.into_owned())
    }

    /// By value: how many allocations are there, those included that the plan adds, those excluded that it stops.
    pub fn used(&self, fleet: &FleetSnapshot, proposal: &ProposedAllocs) -> BTreeMap<String, i64> {
        let mut used = BTreeMap::new();
        for (slot, _, presence) in proposal.all_groups().filter(|(_, group, _)| self.counts(group)) {
            if let Some(value) = self.value(fleet, slot) {
                *used.entry(value).or_default() += presence.wanted;
            }
        }
        used
    }
}

pub struct Distinct<'a> {
    group: &'a str,
    job_hosts: bool,
    group_hosts: bool,
    pub properties: Vec<Property<'a>>,
}

impl<'a> Distinct<'a> {
    pub fn new(job: &'a JobSpec, group: &'a TaskGroup) -> Self {
        let hosts = |constraints: &[Constraint]| constraints.iter().any(asks_for_hosts);
        let of = |constraints: &'a [Constraint], scope: Option<&'a str>| {
            let all = constraints.iter().filter(|c| c.operand == "distinct_property");
            all.map(move |c| Property::new(c, scope))
        };
        Distinct {
            group: &group.name,
            job_hosts: hosts(&job.constraints),
            group_hosts: hosts(&group.constraints),
            properties: of(&job.constraints, None).chain(of(&group.constraints, Some(&group.name))).collect(),
        }
    }

    /// Whether another allocation is there that must not be.
    pub fn host_taken(&self, proposal: &ProposedAllocs, slot: u32) -> bool {
        let there = || proposal.of_job(slot).filter(|(_, p)| p.holding > 0);
        (self.job_hosts && there().next().is_some())
            || (self.group_hosts && there().any(|(group, _)| group == self.group))
    }

    /// Whether one node may get one more. For single checks: a search keeps its own counts.
    pub fn allows(&self, fleet: &FleetSnapshot, proposal: &ProposedAllocs, slot: u32) -> bool {
        let free = |p: &Property| {
            p.value(fleet, slot)
                .is_some_and(|v| p.used(fleet, proposal).get(&v).is_none_or(|n| *n < p.allowed))
        };
        !self.host_taken(proposal, slot) && self.properties.iter().all(|p| p.allowed > 0 && free(p))
    }
}

/// Only a plain `false` switches it off.
fn asks_for_hosts(constraint: &Constraint) -> bool {
    let off = matches!(constraint.right.as_str(), "0" | "f" | "F" | "false" | "FALSE" | "False");
    constraint.operand == "distinct_hosts" && !off
}
