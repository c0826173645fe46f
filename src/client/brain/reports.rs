//! Client status updates to the servers: urgent ones at once, others gathered.

use super::Client;
use crate::alloc_runner::AllocRunner;
use crate::effects::PendingEffects;
use model::alloc::ClientStatus;
use model::deployment::Verdict;
use model::id::AllocId;
use model::time::{Mono, Span};
use std::collections::BTreeMap;
use wire::command::AllocUpdate;
use wire::rpc::MAX_UPDATES;

/// How long reports that are not urgent are batched.
const REPORT_PERIOD: Span = Span::seconds(1);

#[derive(Debug)]
pub struct RejectedAlloc {
    pub index: u64,
    pub acknowledged: bool,
    pub reporting: bool,
}

impl Client {
    pub(super) fn report_deadline(&self) -> Option<Mono> {
        self.report_since.and_then(|since| {
            let urgent = self.unreported().any(|(_, urgent)| urgent);
            let wanted = if urgent { since } else { since.after(REPORT_PERIOD) };
            self.servers.report_due().map(|due| due.max(wanted))
        })
    }

    /// Allocations with unreported changes, and whether they are urgent.
    fn unreported(&self) -> impl Iterator<Item = (AllocId, bool)> {
        let may_be_told = |a: &&AllocRunner| self.disk_has_space || !a.has_unstored_end();
        let allocs = self.allocs.values().filter(may_be_told).filter_map(|a| Some((a.id(), a.unreported()?)));
        allocs.chain(self.rejected.iter().filter(|(_, r)| !r.acknowledged).map(|(id, _)| (*id, true)))
    }

    pub(super) fn report(&mut self, now: Mono, effects: &mut PendingEffects) {
        let mut unreported: Vec<_> = self.unreported().collect();
        if unreported.is_empty() {
            self.report_since = None;
            return;
        }
        let since = *self.report_since.get_or_insert(now);
        unreported.sort_by_key(|(id, urgent)| (!urgent, *id));
        let urgent = unreported.first().is_some_and(|(_, urgent)| *urgent);
        if !self.servers.can_report(now) || (!urgent && now < since.after(REPORT_PERIOD)) {
            return;
        }
        let chosen: Vec<AllocId> = unreported.into_iter().map(|(id, _)| id).take(MAX_UPDATES).collect();
        let updates: Vec<_> = chosen.iter().filter_map(|id| self.update_of(*id)).collect();
        let sent = self.servers.report(updates, now, &self.config, effects);
        for id in chosen.iter().skip(sent) {
            if let Some(alloc) = self.allocs.get_mut(id) {
                alloc.reported(false);
            }
            if let Some(rejected) = self.rejected.get_mut(id) {
                rejected.reporting = false;
            }
        }
        self.report_since = Some(now);
    }

    fn update_of(&mut self, id: AllocId) -> Option<(AllocUpdate, Option<Verdict>)> {
        if let Some(alloc) = self.allocs.get_mut(&id) {
            let verdict = alloc.verdict();
            return Some((alloc.report(self.disk_has_space), verdict));
        }
        self.rejected.get_mut(&id)?.reporting = true;
        let update = AllocUpdate {
            id,
            client: ClientStatus::Failed,
            client_description: format!(
                "Unable to add allocation due to error: the node holds {} allocations already",
                self.allocs.len()
            ),
            task_states: BTreeMap::new(),
        };
        Some((update, None))
    }
}
