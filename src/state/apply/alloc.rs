//! Allocations: one way to write and one to remove them, so that indexes, counts and the fleet cannot differ from the
//! rows; and what clients report (server.md 3.2, server.md 3.5). Refuses to know why an allocation is wanted.

use super::super::fault::Fault;
use super::super::tables::{self, CreationKey, JobRow, Kind, Part};
use super::super::view::Table;
use super::{ApplyTxn, FleetEdit, Reply, checked_decrement, deployment, job};
use model::alloc::{Allocation, ClientStatus, Transition};
use model::deployment::Verdict;
use model::eval::Evaluation;
use model::id::{AllocId, JobKey, NodeId};
use model::time::Wall;
use std::sync::Arc;
use wire::change::{AllocChange, Change};
use wire::command::AllocUpdate;
use wire::event::Object;
use wire::record;
use wire::request::{Refusal, RefusalKind};

const STALE_REPORT: &str =
    "a report of this node was applied since, which may be newer: send the present state";

impl ApplyTxn<'_> {
    /// `seen`: what the node had been shown of the state when it wrote this. Where a report of the node was applied later,
    /// nobody can say which of the two is newer, for links and relays may hold one back: the node sends its present state.
    pub(super) fn update_allocs(
        &mut self,
        (node, seen): (NodeId, u64),
        updates: Vec<AllocUpdate>,
        verdicts: Vec<Verdict>,
        evals: Vec<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        if self.last_alloc_update(node)?.is_some_and(|last| last > seen) {
            return Ok(Err(Refusal::new(RefusalKind::Conflict, STALE_REPORT)));
        }
        for update in updates {
            let verdict = verdicts.iter().find(|v| v.alloc == update.id);
            self.update_alloc(node, update, verdict, at)?;
        }
        self.note_alloc_update(node)?;
        self.put_evals(evals, at)?;
        Ok(self.noop())
    }

    /// Takes the client's half of the allocation. One that is unknown, or another node's, is dropped: it was collected
    /// while the report was under way. A reported end is final: it may have been replaced already. A verdict
    /// is for the deployment that it was found in, and does not overrule another.
    fn update_alloc(
        &mut self,
        node: NodeId,
        update: AllocUpdate,
        verdict: Option<&Verdict>,
        at: Wall,
    ) -> Result<(), Fault> {
        let Some(old) = self.alloc(update.id)?.filter(|a| a.node_id == node) else { return Ok(()) };
        if has_ended(old.client) && update.client != old.client {
            return Ok(());
        }
        let mut new = old.clone();
        new.client = update.client;
        new.client_description = update.client_description;
        new.task_states = update.task_states;
        let open = old.health.is_none_or(|h| h.healthy.is_none());
        if let Some(verdict) = verdict.filter(|v| open && v.deployment == old.deployment) {
            new.health = Some(deployment::reported_health(old.health, verdict.healthy, at, self.index()));
        }
        if new == old {
            return Ok(());
        }
        new.modify_index = self.index();
        new.modify_time = at;
        self.write_alloc(Some(&old), new)
    }

    /// Sets transitions. An unknown allocation was collected meanwhile, and is skipped.
    pub(super) fn update_transitions(
        &mut self,
        allocs: Vec<(AllocId, Transition)>,
        evals: Vec<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        for (id, transition) in allocs {
            let Some(old) = self.alloc(id)? else { continue };
            let mut new = old.clone();
            new.transition = old.transition.updated(transition);
            new.modify_index = self.index();
            if new.transition.no_shutdown_delay != old.transition.no_shutdown_delay && old.server_terminal() {
                // the node waits for the shutdown delay already, so it has to be told
                new.alloc_modify_index = self.index();
            }
            new.modify_time = at;
            self.write_alloc(Some(&old), new)?;
        }
        self.put_evals(evals, at)?;
        Ok(self.noop())
    }

    /// Skips the shutdown delays of the job's allocations that have not ended.
    pub(super) fn skip_shutdown_delays(&mut self, key: &JobKey, at: Wall) -> Result<(), Fault> {
        let skip_delay = Transition { no_shutdown_delay: Some(true), ..Transition::default() };
        let mut allocs = Vec::new();
        for index_key in tables::keys(&self.rows, &Part::Alloc.key(&tables::job_bytes(key), &[]))? {
            let creation_key = CreationKey::from_key_end(&index_key)?;
            let alloc: Allocation = tables::must_get(&self.rows, &tables::alloc_key(creation_key))?;
            if !alloc.client_terminal() && alloc.transition.no_shutdown_delay != Some(true) {
                allocs.push((alloc.id, skip_delay));
            }
        }
        self.update_transitions(allocs, vec![], at).map(drop)
    }

    pub(super) fn alloc(&self, id: AllocId) -> Result<Option<Allocation>, Fault> {
        match tables::creation_key_of(&self.rows, Kind::AllocId, id.0)? {
            None => Ok(None),
            Some(creation_key) => tables::must_get(&self.rows, &tables::alloc_key(creation_key)).map(Some),
        }
    }

    /// Writes an allocation whose job and version exist, in place of `old`.
    pub(super) fn write_alloc(&mut self, old: Option<&Allocation>, new: Allocation) -> Result<(), Fault> {
        assert_eq!(new.modify_index, self.index(), "an allocation that is written is modified by this entry");
        assert!(
            old.is_none_or(|old| (old.id, old.create_index) == (new.id, new.create_index)),
            "an allocation stays where it was created"
        );
        if new.create_index > new.alloc_modify_index || new.alloc_modify_index > new.modify_index {
            return Err(Fault::corrupt(format!("the indexes of allocation {} are out of order", new.id)));
        }
        let new = Arc::new(new);
        let creation_key = creation_key(&new);
        self.write_bytes(&tables::alloc_key(creation_key), &record::encode(&*new))?;
        if let Some(old) = old {
            if old.node_id != new.node_id {
                self.remove(&tables::alloc_of_node_key(old.node_id, old.id))?;
            }
            if old.eval_id != new.eval_id {
                self.remove(&tables::alloc_of_eval_key(old.eval_id, creation_key))?;
            }
        } else {
            self.write_bytes(&Kind::AllocId.key(&[new.id.0.as_bytes()]), &new.create_index.to_be_bytes())?;
            self.write_bytes(&Part::Alloc.key(&tables::job_bytes(&new.job), &creation_key.bytes()), &[])?;
        }
        if old.is_none_or(|o| assignment_version(o) != assignment_version(&new)) {
            let wanted = tables::encode_pair(new.create_index, new.alloc_modify_index);
            self.write_bytes(&tables::alloc_of_node_key(new.node_id, new.id), &wanted)?;
        }
        if old.is_none_or(|o| o.eval_id != new.eval_id) {
            self.write_bytes(&tables::alloc_of_eval_key(new.eval_id, creation_key), &[])?;
        }
        self.update_fleet(old, Some(&new));
        if let Some(row) = self.job(&new.job)? {
            if row.versions.iter().all(|v| v.version != new.job_version) {
                let (id, version) = (new.id, new.job_version);
                return Err(Fault::corrupt(format!(
                    "allocation {id} names version {version}, which is not there"
                )));
            }
            update_job_counts(row, old, Some(&new))?;
            job::count(&mut row.summary, &new.group, old.map(|o| o.client), new.client)?;
        }
        self.count_in_deployment(old, &new, new.modify_time)?;
        self.alloc_changed(
            &new,
            old.is_none_or(|o| assignment_version(o) != assignment_version(&new)),
            old.is_some_and(|old| frees(old, &new)),
        );
        self.events.push(Object::Alloc(new));
        Ok(())
    }

    pub(super) fn remove_allocs_of(&mut self, key: &JobKey) -> Result<(), Fault> {
        let prefix = Part::Alloc.key(&tables::job_bytes(key), &[]);
        for index_key in tables::keys(&self.rows, &prefix)? {
            let creation_key = CreationKey::from_key_end(&index_key)?;
            let old: Allocation = tables::must_get(&self.rows, &tables::alloc_key(creation_key))?;
            self.remove_alloc(&old)?;
        }
        Ok(())
    }

    pub(super) fn remove_alloc(&mut self, old: &Allocation) -> Result<(), Fault> {
        let creation_key = creation_key(old);
        self.remove(&Part::Alloc.key(&tables::job_bytes(&old.job), &creation_key.bytes()))?;
        self.remove(&tables::alloc_key(creation_key))?;
        self.remove(&Kind::AllocId.key(&[creation_key.id.as_bytes()]))?;
        self.remove(&tables::alloc_of_node_key(old.node_id, old.id))?;
        self.remove(&tables::alloc_of_eval_key(old.eval_id, creation_key))?;
        self.update_fleet(Some(old), None);
        if let Some(row) = self.job(&old.job)? {
            update_job_counts(row, Some(old), None)?;
            job::uncount(&mut row.summary, &old.group, old.client)?;
        }
        self.alloc_changed(old, true, !old.client_terminal());
        Ok(())
    }

    fn alloc_changed(&mut self, alloc: &Allocation, for_node: bool, freed: bool) {
        self.set_table_index(Table::Allocs);
        self.changes.push(Change::Alloc(AllocChange {
            id: alloc.id,
            job: alloc.job.clone(),
            node: alloc.node_id,
            eval: alloc.eval_id,
            for_node,
            freed,
        }));
    }

    /// An allocation holds its node's room until its client says that it ended, or it is lost or removed.
    fn update_fleet(&mut self, old: Option<&Allocation>, new: Option<&Allocation>) {
        let held = |a: &&Allocation| !a.client_terminal();
        let was = old.filter(held).map(|a| (a.node_id, a.resources.holding()));
        let now = new.filter(held).map(|a| (a.node_id, a.resources.holding()));
        if was == now {
            return;
        }
        self.fleet.extend(was.map(|(node, held)| FleetEdit::Release(node, held)));
        self.fleet.extend(now.map(|(node, held)| FleetEdit::Hold(node, held)));
    }
}

fn creation_key(alloc: &Allocation) -> CreationKey {
    CreationKey { create_index: alloc.create_index, id: alloc.id.0 }
}

/// What a node compares to know whether to fetch.
fn assignment_version(alloc: &Allocation) -> (NodeId, u64) {
    (alloc.node_id, alloc.alloc_modify_index)
}

/// Whether the client has reported an end: an allocation that servers call lost may be heard of again.
fn has_ended(client: ClientStatus) -> bool {
    matches!(client, ClientStatus::Complete | ClientStatus::Failed)
}

/// Whether the allocation holds less than before: it has ended or is lost, or it goes on with less.
fn frees(old: &Allocation, new: &Allocation) -> bool {
    if old.client_terminal() || old.resources == new.resources {
        return !old.client_terminal() && new.client_terminal();
    }
    let (was, now) = (old.resources.holding(), new.resources.holding());
    new.client_terminal()
        || now.amount.lacks(was.amount).is_some()
        || was.claims.iter().any(|c| !now.claims.contains(c))
}

/// Keeps the job's count of live allocations and of those that name each version.
fn update_job_counts(
    row: &mut JobRow,
    old: Option<&Allocation>,
    new: Option<&Allocation>,
) -> Result<(), Fault> {
    let live = |a: Option<&Allocation>| u64::from(a.is_some_and(|a| !a.terminal()));
    row.live_allocs = checked_decrement(row.live_allocs + live(new), live(old), "live allocations")?;
    if old.map(|a| a.job_version) == new.map(|a| a.job_version) {
        return Ok(());
    }
    for v in &mut row.versions {
        let names = |a: Option<&Allocation>| u64::from(a.is_some_and(|a| a.job_version == v.version));
        v.allocs = checked_decrement(v.allocs + names(new), names(old), "allocations of a version")?;
    }
    Ok(())
}
