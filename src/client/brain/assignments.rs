//! Assignments from the servers: the set of allocations that this node is to run, and the assignments that it fetches (client.md 3).
//!
//! Refuses to know: how the servers are asked.

use super::{Client, MAX_LIVE_ALLOCS, RejectedAlloc};
use crate::alloc_runner::AllocRunner;
use crate::servers::ServerUpdate;
use model::id::AllocId;
use model::time::Now;
use state::client_store::{Retention, WriteBatch};
use std::collections::BTreeMap;
use wire::rpc::{AllocSet, Assignment};

impl Client {
    pub(super) fn apply_server_updates(
        &mut self,
        now: Now,
        server_updates: Vec<ServerUpdate>,
        writes: &mut WriteBatch,
    ) {
        for item in server_updates {
            match item {
                ServerUpdate::Wanted { set, is_other_generation } => {
                    if is_other_generation {
                        self.begin_generation();
                    }
                    writes.set_shown(&self.servers.shown(), is_other_generation);
                    self.apply_alloc_set(now, set, writes);
                }
                ServerUpdate::Listed => writes.set_servers(self.servers.known().listed()),
                ServerUpdate::Fetched(assignments) => self.take_assignments(now, assignments),
                ServerUpdate::Reported(arrived) => {
                    self.allocs.values_mut().for_each(|a| a.reported(arrived));
                    for rejected in self.rejected.values_mut() {
                        rejected.acknowledged |= arrived && rejected.reporting;
                        rejected.reporting = false;
                    }
                }
                ServerUpdate::Reconnected => {
                    tracing::info!(target: "client", "node registration complete");
                    self.allocs.values_mut().for_each(AllocRunner::report_again);
                }
            }
        }
    }

    /// The state of the servers is another: indexes of the one before mean nothing in it, and everything is fetched and reported again.
    fn begin_generation(&mut self) {
        tracing::warn!(target: "client", "the servers' state was restored, or is another region's: it is followed as it is");
        self.allocs.values_mut().for_each(AllocRunner::begin_generation);
        for rejected in self.rejected.values_mut() {
            *rejected = RejectedAlloc { index: 0, acknowledged: false, reporting: false };
        }
    }

    /// Removed, updated, added, in that order (client.md 3.3).
    fn apply_alloc_set(&mut self, now: Now, set: AllocSet, writes: &mut WriteBatch) {
        let wanted: BTreeMap<AllocId, u64> = set.wanted.into_iter().collect();
        for (id, alloc) in &mut self.allocs {
            if !wanted.contains_key(id) {
                alloc.set_retention(Retention::Removed);
            }
        }
        self.rejected.retain(|id, _| wanted.contains_key(id));
        let gone: Vec<AllocId> =
            self.store.ended().iter().filter(|id| !wanted.contains_key(id)).copied().collect();
        for id in gone {
            writes.set_ended(id, false);
        }
        self.take_assignments(now, set.assignments);
        let need = wanted.into_iter().filter(|(id, index)| self.is_newer(*id, *index)).collect();
        self.servers.set_need(need);
    }

    fn is_newer(&self, id: AllocId, index: u64) -> bool {
        if self.store.ended().contains(&id) || self.forgotten.contains(&id) {
            return false;
        }
        let known = self.allocs.get(&id).map(|a| a.record.assignment.alloc_modify_index);
        known.or(self.rejected.get(&id).map(|r| r.index)).is_none_or(|known| known < index)
    }

    fn take_assignments(&mut self, now: Now, assignments: Vec<Assignment>) {
        for assignment in assignments {
            let id = assignment.id;
            if !self.is_newer(id, assignment.alloc_modify_index) || self.shutdown.is_some() {
                continue;
            }
            if let Some(alloc) = self.allocs.get_mut(&id) {
                alloc.update(assignment);
            } else if self.allocs.len() < self.max_allocs() {
                self.rejected.remove(&id);
                self.allocs.insert(id, AllocRunner::new(assignment, now));
            } else {
                let index = assignment.alloc_modify_index;
                self.rejected.insert(id, RejectedAlloc { index, acknowledged: false, reporting: false });
            }
        }
    }

    /// A bound on memory; servers place fewer on a node.
    fn max_allocs(&self) -> usize {
        MAX_LIVE_ALLOCS + self.config.max_ended
    }
}
