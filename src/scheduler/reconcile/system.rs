//! What a job that runs on every node should have against what it has (scheduler.md 12). Each node is looked at by
//! itself: what a node loses is never placed on another one, and what has failed is not placed again for that alone.
//!
//! Refuses to know: which nodes could run the job. The `classify` argument decides that for nodes that hold something of it.

use super::rollout::Rollout;
use super::system_rollout::{Fill, GroupProgress, GroupRollout};
use super::tainted::{self, Tainted};
use super::{
    AllocSet, Changes, Followup, MIGRATING, ReconcileInput, Replacement, Stop, Update, by_group,
    is_of_version, reschedule, stop_all, stop_not_needed,
};
use model::alloc::{Allocation, ClientStatus, DesiredStatus};
use model::eval::Trigger;
use model::id::NodeId;
use model::job::{Job, JobType, TaskGroup};
use model::time::Span;
use std::collections::{BTreeMap, BTreeSet};

const ROLLING: &str = "created for the next nodes of a rolling update";

/// What one node should have once: an allocation of a group, by its index.
pub type NodeAllocKey<'a> = (NodeId, &'a str, u64);

#[derive(Default)]
pub struct NodeAllocs<'a> {
    pub existing: BTreeSet<NodeAllocKey<'a>>,
    /// The newest allocation that ran on a node and has ended, or ends.
    pub ended: BTreeMap<NodeAllocKey<'a>, &'a Allocation>,
}

impl<'a> NodeAllocs<'a> {
    fn note_ended(&mut self, key: NodeAllocKey<'a>, alloc: &'a Allocation) {
        let newest = self.ended.entry(key).or_insert(alloc);
        if newest.create_index < alloc.create_index {
            *newest = alloc;
        }
    }
}

/// How an allocation is updated; None: it must stop.
pub type ClassifySystem<'f, 'a> = dyn FnMut(&'a Allocation, &'a TaskGroup) -> Option<Update> + 'f;

/// What there is to do, and how much of it may be done now. The caller reports what it did.
pub struct SystemChanges<'a> {
    /// All changes, with everything outdated, whether or not it may be replaced now.
    pub changes: Changes<'a>,
    pub node_allocs: NodeAllocs<'a>,
    /// By group.
    pub rollouts: BTreeMap<&'a str, GroupRollout>,
    rollout: Rollout<'a>,
}

impl<'a> SystemChanges<'a> {
    /// What is placed there, and the allocation that was there before.
    pub fn fill(&self, key: NodeAllocKey<'a>) -> (Fill, Option<&'a Allocation>) {
        let left = self.node_allocs.ended.get(&key).copied();
        let group_rollout = self.rollouts.get(key.1);
        (group_rollout.map_or(Fill::Nothing, |c| c.fill(left, &self.rollout)), left)
    }

    /// Updates the deployment by what was placed and replaced.
    pub fn finish(self, input: &ReconcileInput<'a>, job: &'a Job) -> Changes<'a> {
        let SystemChanges { mut changes, rollouts, mut rollout, .. } = self;
        let mut complete = rollout.has_healthy_alloc();
        for group in &job.spec.groups {
            let Some(group_rollout) = rollouts.get(group.name.as_str()).filter(|c| c.joined.is_some()) else {
                continue;
            };
            complete &= group_rollout.is_done();
            if let Some(at) = group_rollout.next_batch_at() {
                let (trigger, allocs) = (Trigger::RollingUpdate, Vec::new());
                changes.followups.push(Followup { at, trigger, description: ROLLING, allocs });
            }
            rollout.create(input, job, group, group_rollout.deployment_state());
            rollout.update_state(group, group_rollout.deployment_state());
        }
        rollout.finish(complete, &mut changes);
        changes
    }
}

/// `eligible_nodes`: for each group, how many nodes may run it. `classify` is called once for each allocation that runs or is to run, in order.
pub fn reconcile_system<'a>(
    input: &ReconcileInput<'a>,
    job: &'a Job,
    eligible_nodes: &BTreeMap<&'a str, u64>,
    classify: &mut ClassifySystem<'_, 'a>,
) -> SystemChanges<'a> {
    let mut changes = Changes::default();
    let rollout = Rollout::new(input, &mut changes);
    let mut all =
        SystemChanges { changes, node_allocs: NodeAllocs::default(), rollouts: BTreeMap::new(), rollout };
    let mut matrix = by_group(input);
    for group in &job.spec.groups {
        let name = group.name.as_str();
        let mut named = matrix.remove(name).unwrap_or_default();
        let mut surplus = named.clone();
        let count = group.count.max(0) as u64;
        named.retain(|_, a| a.index() < count);
        surplus.retain(|_, a| a.index() >= count);
        stop_all(input, &surplus, &mut all.changes);
        let eligible_nodes = eligible_nodes.get(name).copied().unwrap_or_default();
        let known = named.values().any(|a| is_of_version(a, job));
        let mut found = GroupProgress::new(eligible_nodes, known);
        let stagger = group.update.map_or(Span::ZERO, |u| u.stagger);
        for alloc in named.values().filter(|a| is_of_version(a, job) && a.previous.is_some()) {
            found.count_replacement(alloc, stagger, input.now);
        }
        for alloc in all.split(input, group, named, &mut found).into_values() {
            all.reconcile_alloc((job, group), alloc, classify, &mut found);
        }
        let group_rollout = GroupRollout::new((job, group), &all.rollout, input.deployments.new_id, found);
        all.rollouts.insert(name, group_rollout);
    }
    matrix.values().for_each(|allocs| stop_all(input, allocs, &mut all.changes));
    let joined = all.rollouts.iter().filter_map(|(name, c)| Some((*name, c.joined?)));
    all.changes.deployment_ids = joined.collect();
    all
}

impl<'a> SystemChanges<'a> {
    /// Handles allocations on tainted nodes; returns the others.
    fn split(
        &mut self,
        input: &ReconcileInput<'a>,
        group: &'a TaskGroup,
        allocs: AllocSet<'a>,
        found: &mut GroupProgress,
    ) -> AllocSet<'a> {
        let Tainted { mut untainted, migrating, lost, disconnecting, mut reconnecting } =
            tainted::split(allocs, Some(group), input);
        let changes = &mut self.changes;
        for alloc in migrating.into_values() {
            self.node_allocs.note_ended(key_of(group, alloc), alloc);
            changes.stops.push(Stop { alloc, description: MIGRATING, client: None });
        }
        changes.stops.extend(lost.into_values().map(tainted::stop_lost));
        let lost_after = group.disconnect.and_then(|d| d.lost_after);
        let expiry =
            lost_after.and_then(|span| reschedule::disconnect_timeout(&disconnecting, &[], input.now + span));
        changes.followups.extend(expiry);
        disconnecting.values().for_each(|a| found.count(a, &self.rollout));
        changes.disconnected.extend(disconnecting.into_values());
        changes.reconnected.extend(reconnecting.values().filter(|a| a.is_known_to_live()));
        untainted.append(&mut reconnecting);
        untainted
    }

    fn reconcile_alloc(
        &mut self,
        (job, group): (&'a Job, &'a TaskGroup),
        alloc: &'a Allocation,
        classify: &mut ClassifySystem<'_, 'a>,
        found: &mut GroupProgress,
    ) {
        let key = key_of(group, alloc);
        if alloc.terminal() {
            found.count(alloc, &self.rollout);
            if is_done(job, alloc) {
                self.node_allocs.existing.insert(key);
            } else {
                self.node_allocs.note_ended(key, alloc);
            }
            return;
        }
        let update = match self.node_allocs.existing.insert(key) {
            true => classify(alloc, group),
            false => None,
        };
        match update {
            None => return self.changes.stops.push(stop_not_needed(alloc)),
            Some(Update::Destructive) => {
                self.changes.destructive.push(Replacement { group, alloc, keeps_version: false });
                found.outdated += 1;
            }
            Some(Update::InPlace) => found.in_place += 1,
            Some(Update::Ignore) => {}
        }
        found.count(alloc, &self.rollout);
    }
}

fn key_of<'a>(group: &'a TaskGroup, alloc: &Allocation) -> NodeAllocKey<'a> {
    (alloc.node_id, &group.name, alloc.index())
}

/// Whether a sysbatch allocation has run on its node, successfully or not, in the current version. Lost ones have not, nor those
/// preempted before they completed.
fn is_done(job: &Job, alloc: &Allocation) -> bool {
    job.spec.job_type == JobType::Sysbatch
        && (alloc.job_create_index, alloc.job_modify_index) == (job.create_index, job.job_modify_index)
        && alloc.client != ClientStatus::Lost
        && (alloc.desired != DesiredStatus::Evict || (alloc.ran_successfully() && !alloc.was_cut_short()))
}
