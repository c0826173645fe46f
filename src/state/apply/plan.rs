//! Plans: the accepted part of one, with the evaluations that go with it (server.md 3.3, scheduler.md 6).
//! Refuses to know whether it fits: the leader has verified it.

use super::super::fault::Fault;
use super::{ApplyTxn, Reply};
use model::alloc::{Allocation, ClientStatus, DesiredStatus, StateChange};
use model::eval::Evaluation;
use model::id::{AllocId, EvalId};
use model::plan::{AllocStop, NodePlan};
use model::time::Wall;

impl ApplyTxn<'_> {
    pub(super) fn apply_plan(
        &mut self,
        eval: EvalId,
        nodes: Vec<NodePlan>,
        evals: Vec<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        if evals.iter().all(|e| e.id != eval) {
            self.bump_eval(eval)?;
        }
        let (stops, places): (Vec<_>, Vec<_>) = nodes.into_iter().map(|n| (n.stops, n.places)).unzip();
        for stop in stops.into_iter().flatten() {
            self.stop_alloc(stop, at)?;
        }
        for alloc in places.into_iter().flatten() {
            self.place_alloc(alloc, at)?;
        }
        self.put_evals(evals, at)?;
        Ok(self.noop())
    }

    /// Stops an allocation, unless it was purged meanwhile. A client's word of how it ended is not overruled.
    fn stop_alloc(&mut self, stop: AllocStop, at: Wall) -> Result<(), Fault> {
        let Some(old) = self.alloc(stop.id)? else { return Ok(()) };
        let mut new = old.clone();
        if old.desired != DesiredStatus::Evict {
            new.desired = DesiredStatus::Stop;
            new.desired_description = stop.description;
        }
        if let Some(client) = stop.client.filter(|_| !old.client_terminal()) {
            new.client = client;
            new.states.push(StateChange { status: client, at });
        }
        self.write_planned_alloc(Some(&old), new, at)
    }

    /// A new allocation, or a change of one that its client keeps running. Placements of a job, or of a version, that
    /// went away while the plan was under way are dropped: nothing could run them.
    fn place_alloc(&mut self, mut alloc: Allocation, at: Wall) -> Result<(), Fault> {
        if !self.spec_exists(&alloc)? {
            return Ok(());
        }
        self.join_deployment(&mut alloc)?;
        let Some(old) = self.alloc(alloc.id)? else {
            alloc.create_index = self.index();
            alloc.create_time = at;
            if let Some(previous) = alloc.previous {
                self.set_next_alloc(previous, alloc.id, at)?;
            }
            for id in &alloc.preempted {
                self.evict(*id, alloc.id, at)?;
            }
            return self.write_planned_alloc(None, alloc, at);
        };
        alloc.create_index = old.create_index;
        alloc.create_time = old.create_time;
        alloc.next = alloc.next.or(old.next);
        alloc.task_states.clone_from(&old.task_states);
        if old.desired == DesiredStatus::Evict {
            // its resources may be in use by another allocation by now
            alloc.desired = old.desired;
            alloc.desired_description.clone_from(&old.desired_description);
        }
        alloc.preempted_by = old.preempted_by;
        // plans ask for none: what was asked for meanwhile still is
        alloc.transition = old.transition;
        if alloc.deployment == old.deployment {
            alloc.health = old.health;
        }
        let servers_say = matches!(alloc.client, ClientStatus::Lost | ClientStatus::Unknown);
        if !servers_say || old.client_terminal() {
            alloc.client = old.client;
            alloc.client_description.clone_from(&old.client_description);
        }
        self.write_planned_alloc(Some(&old), alloc, at)
    }

    /// Preempts an allocation for a new one.
    fn evict(&mut self, id: AllocId, by: AllocId, at: Wall) -> Result<(), Fault> {
        let Some(old) = self.alloc(id)?.filter(|a| !a.terminal()) else { return Ok(()) };
        let mut new = old.clone();
        new.desired = DesiredStatus::Evict;
        new.desired_description = format!("Preempted by alloc ID {by}");
        new.preempted_by = Some(by);
        self.write_planned_alloc(Some(&old), new, at)
    }

    fn spec_exists(&mut self, alloc: &Allocation) -> Result<bool, Fault> {
        Ok(self.job(&alloc.job)?.is_some_and(|row| {
            row.create_index == alloc.job_create_index
                && row.versions.iter().any(|v| v.version == alloc.job_version)
        }))
    }

    /// Readers follow the chain; the node has nothing to do for it.
    fn set_next_alloc(&mut self, previous: AllocId, next: AllocId, at: Wall) -> Result<(), Fault> {
        let Some(old) = self.alloc(previous)? else { return Ok(()) };
        let new = Allocation { next: Some(next), modify_index: self.index(), modify_time: at, ..old.clone() };
        self.write_alloc(Some(&old), new)
    }

    fn write_planned_alloc(
        &mut self,
        old: Option<&Allocation>,
        mut new: Allocation,
        at: Wall,
    ) -> Result<(), Fault> {
        if let Some(old) = old {
            (new.modify_index, new.alloc_modify_index) = (old.modify_index, old.alloc_modify_index);
            new.modify_time = old.modify_time;
            if new == *old {
                return Ok(());
            }
        }
        // what has ended, and is to stay so, gives its node nothing to do
        let node_waits = old.is_none_or(|o| !o.client_terminal() || o.desired != new.desired);
        new.modify_index = self.index();
        if node_waits {
            new.alloc_modify_index = self.index();
        }
        new.modify_time = at;
        self.write_alloc(old, new)
    }
}
