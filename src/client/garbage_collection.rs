//! Allocations that ended here and make room: their directories are removed, then they are forgotten (client.md 23).

use super::alloc_runner::AllocRunner;
use super::brain::Client;
use super::effects::PendingEffects;
use super::task_runner::TurnContext;
use model::id::AllocId;
use model::time::Now;
use state::client_store::{Retention, WriteBatch};
use wire::request::{Refusal, RefusalKind};

impl Client {
    /// Removes the oldest ended allocations until `keep` are left, but none whose end the servers do not know yet.
    pub(super) fn garbage_collect(&mut self, now: Now, keep: usize, effects: &mut PendingEffects) {
        let kept = |a: &&mut AllocRunner| a.record.retention == Retention::Kept && a.has_ended();
        let count =
            self.allocs.values().filter(|a| a.record.retention == Retention::Kept && a.has_ended()).count();
        if count <= keep {
            return;
        }
        let mut ended: Vec<_> =
            self.allocs.values_mut().filter(kept).filter(|a| a.unreported().is_none()).collect();
        ended.sort_by_key(|a| (a.ended, a.id()));
        let chosen: Vec<AllocId> = ended.iter().take(count - keep).map(|a| a.id()).collect();
        let (mut ctx, allocs) = self.split_context(now, effects);
        for id in chosen {
            if let Some(alloc) = allocs.get_mut(&id) {
                alloc.mark_collected(&mut ctx);
            }
        }
    }

    pub(super) fn dir_removed(
        &mut self,
        now: Now,
        id: AllocId,
        result: Result<(), String>,
        writes: &mut WriteBatch,
    ) {
        let Some(alloc) =
            self.allocs.get_mut(&id).filter(|a| a.record.retention != Retention::Kept && a.has_ended())
        else {
            return;
        };
        if result.is_err() {
            return alloc.dir_not_removed(now.mono);
        }
        writes.remove(id, alloc.task_names());
        if alloc.record.retention == Retention::Collected {
            self.forgotten.push(id);
        }
        self.allocs.remove(&id);
    }
}

impl AllocRunner {
    fn mark_collected(&mut self, ctx: &mut TurnContext<'_>) {
        self.set_retention(Retention::Collected);
        self.advance(ctx, false);
    }

    pub fn garbage_collect_ended(&mut self, ctx: &mut TurnContext<'_>) -> Result<(), Refusal> {
        let why = match (self.has_ended(), self.unreported()) {
            (false, _) => "the allocation has not ended: stop it first",
            (true, Some(_)) => {
                "the servers have not heard of the allocation's end yet: try again in a second"
            }
            (true, None) => {
                self.mark_collected(ctx);
                return Ok(());
            }
        };
        Err(Refusal::new(RefusalKind::Conflict, why))
    }
}
