//! Allocations that ended here and make room: their directories are removed, then they are forgotten (reference: client 23).

use super::alloc::Alloc;
use super::brain::Client;
use super::effects::Held;
use crate::model::id::AllocId;
use crate::model::time::Now;
use crate::state::local::{Fate, Writes};

/// Ended allocations that are kept for their logs.
const MAX_ENDED: usize = 50;

impl Client {
    /// Makes room: of the ended allocations that the servers know to have ended, the oldest go.
    pub(super) fn collect_ended(&mut self, now: Now, held: &mut Held) {
        let kept = |a: &&mut Alloc| a.head.fate == Fate::Kept && a.is_over();
        let count = self.allocs.values().filter(|a| a.head.fate == Fate::Kept && a.is_over()).count();
        if count <= MAX_ENDED {
            return;
        }
        let mut ended: Vec<_> =
            self.allocs.values_mut().filter(kept).filter(|a| a.untold().is_none()).collect();
        ended.sort_by_key(|a| (a.ended, a.id()));
        let chosen: Vec<AllocId> = ended.iter().take(count - MAX_ENDED).map(|a| a.id()).collect();
        let (mut turn, allocs) = self.lend(now, held);
        for id in chosen {
            if let Some(alloc) = allocs.get_mut(&id) {
                alloc.set_fate(Fate::Collected);
                alloc.advance(&mut turn, false);
            }
        }
    }

    pub(super) fn dir_removed(
        &mut self,
        now: Now,
        id: AllocId,
        result: Result<(), String>,
        writes: &mut Writes,
    ) {
        let Some(alloc) = self.allocs.get_mut(&id).filter(|a| a.head.fate != Fate::Kept && a.is_over())
        else {
            return;
        };
        if result.is_err() {
            return alloc.dir_not_removed(now.mono);
        }
        writes.remove(id, alloc.task_names());
        if alloc.head.fate == Fate::Collected {
            self.forgotten.push(id);
        }
        self.allocs.remove(&id);
    }
}
