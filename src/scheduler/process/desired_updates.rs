//! What a run would do to each group, counted (scheduler.md 8.10). Refuses to know whether there is room.

use crate::reconcile::{Changes, MIGRATING, Update};
use model::alloc::Allocation;
use model::plan::{GroupChanges, Plan};
use std::collections::BTreeMap;

/// Counts preemptions by the group of the preempting allocation.
pub fn count_preemptions(plan: &Plan, desired: &mut BTreeMap<String, GroupChanges>) {
    for (alloc, _) in plan.preemptions() {
        desired.entry(alloc.group.clone()).or_default().preemptions += 1;
    }
}

#[derive(Default)]
pub struct DesiredUpdates(BTreeMap<String, GroupChanges>);

impl DesiredUpdates {
    /// Counts the update of one allocation that stays.
    pub fn count_update(&mut self, alloc: &Allocation, update: Update) {
        let group = self.of(&alloc.group);
        match update {
            // an allocation that may not be replaced yet is ignored, too
            Update::Ignore | Update::Destructive => group.ignore += 1,
            Update::InPlace => group.in_place += 1,
        }
    }

    /// Counts an allocation that a canary replaces.
    pub fn count_canary(&mut self, alloc: &Allocation) {
        let group = self.of(&alloc.group);
        group.ignore = group.ignore.saturating_sub(1);
        group.canary += 1;
    }

    /// The counts together with all else that is to be done.
    pub fn with_changes(mut self, changes: &Changes) -> BTreeMap<String, GroupChanges> {
        for stop in &changes.stops {
            let group = self.of(&stop.alloc.group);
            if stop.description == MIGRATING { group.migrate += 1 } else { group.stop += 1 }
        }
        for replaced in &changes.destructive {
            let group = self.of(&replaced.group.name);
            group.ignore = group.ignore.saturating_sub(1);
            group.destructive += 1;
        }
        for replaced in &changes.replacements {
            self.of(&replaced.group.name).place += 1;
        }
        for again in &changes.rescheduled {
            let group = self.of(&again.group.name);
            group.place += 1;
            group.stop += 1;
        }
        for (group, indexes) in &changes.canaries {
            self.of(&group.name).canary += indexes.len() as u64;
        }
        for (group, missing) in &changes.missing {
            let group = self.of(&group.name);
            group.place = group.place.saturating_add(*missing);
        }
        // a migration is one thing, not a stop and a placement
        self.0.values_mut().for_each(|group| group.place = group.place.saturating_sub(group.migrate));
        // these are neither stopped nor placed yet: they move if there is room
        for moving in &changes.migrating_when_placed {
            self.of(&moving.group.name).migrate += 1;
        }
        self.0
    }

    fn of(&mut self, group: &str) -> &mut GroupChanges {
        self.0.entry(group.to_string()).or_default()
    }
}
