//! Client status updates of one allocation: what the servers have acknowledged, and what is still to be reported.

use super::{AcknowledgedReport, AllocRunner};
use crate::disk_full;
use crate::task_runner::Dirty;
use model::alloc::ClientStatus;
use state::client_store::Retention;
use wire::command::AllocUpdate;

impl AllocRunner {
    /// Whether the current state still has to be reported. `Some(true)`: at once.
    pub fn unreported(&self) -> Option<bool> {
        let urgent = self.acknowledged.is_none_or(|t| t.status != self.status.0);
        let same =
            self.acknowledged.is_some_and(|t| t.revision == self.revision()) && self.verdict().is_none();
        (!same && self.record.retention == Retention::Kept).then_some(urgent)
    }

    /// Reports everything again: the servers may have marked this node as down meanwhile.
    pub fn report_again(&mut self) {
        self.acknowledged = None;
    }

    /// The servers have another state: takes their next assignment as newer, and reports everything again.
    pub fn begin_generation(&mut self) {
        self.record.assignment.alloc_modify_index = 0;
        self.record_dirty = Dirty::Durable;
        (self.acknowledged, self.reporting) = (None, None);
    }

    /// The disk is full, or has room again: allocations that wait to start are reported with that reason, or without.
    pub fn disk_space_changed(&mut self) {
        if self.status.0 == ClientStatus::Pending {
            (self.acknowledged, self.reporting) = (None, None);
        }
    }

    /// An end or a health verdict that is not stored yet and so must not be reported.
    pub fn has_unstored_end(&self) -> bool {
        let unstored = self.record_dirty == Dirty::Durable && self.verdict().is_some();
        unstored || self.tasks.iter().any(|t| t.dirty == Dirty::Durable)
    }

    pub fn report(&mut self, disk_has_space: bool) -> AllocUpdate {
        assert!(disk_has_space || !self.has_unstored_end(), "an end is stored before it is reported");
        let waits = !disk_has_space && self.status.0 == ClientStatus::Pending;
        self.reporting = Some(AcknowledgedReport {
            revision: self.revision(),
            status: self.status.0,
            health: self.health_result(),
        });
        AllocUpdate {
            id: self.id(),
            client: self.status.0,
            client_description: if waits { disk_full::WAITING_FOR_SPACE } else { self.status.1 }.to_string(),
            task_states: self.tasks.iter().map(|t| (t.name.clone(), t.local.state.clone())).collect(),
        }
    }

    /// The servers have answered the report in flight, or the answer is lost.
    pub fn reported(&mut self, arrived: bool) {
        let reporting = self.reporting.take();
        if arrived && reporting.is_some() {
            self.acknowledged = reporting;
        }
    }
}
