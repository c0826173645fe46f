//! Allocations that ended here and make room: their directories are removed, then they are forgotten (client.md 23).

use super::alloc::Alloc;
use super::brain::Client;
use super::effects::Held;
use super::runner::Turn;
use model::id::AllocId;
use model::time::Now;
use state::local::{Fate, Writes};
use wire::request::{Refusal, RefusalKind};

impl Client {
    /// Of the ended allocations that the servers know to have ended, the oldest go, until `keep` are left.
    pub(super) fn collect_ended(&mut self, now: Now, keep: usize, held: &mut Held) {
        let kept = |a: &&mut Alloc| a.head.fate == Fate::Kept && a.is_over();
        let count = self.allocs.values().filter(|a| a.head.fate == Fate::Kept && a.is_over()).count();
        if count <= keep {
            return;
        }
        let mut ended: Vec<_> =
            self.allocs.values_mut().filter(kept).filter(|a| a.untold().is_none()).collect();
        ended.sort_by_key(|a| (a.ended, a.id()));
        let chosen: Vec<AllocId> = ended.iter().take(count - keep).map(|a| a.id()).collect();
        let (mut turn, allocs) = self.lend(now, held);
        for id in chosen {
            if let Some(alloc) = allocs.get_mut(&id) {
                alloc.collect(&mut turn);
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

impl Alloc {
    fn collect(&mut self, turn: &mut Turn<'_>) {
        self.set_fate(Fate::Collected);
        self.advance(turn, false);
    }

    pub fn collect_if_ended(&mut self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let why = match (self.is_over(), self.untold()) {
            (false, _) => "the allocation has not ended: stop it first",
            (true, Some(_)) => {
                "the servers have not heard of the allocation's end yet: try again in a second"
            }
            (true, None) => {
                self.collect(turn);
                return Ok(());
            }
        };
        Err(Refusal::new(RefusalKind::Conflict, why))
    }
}
