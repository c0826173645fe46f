//! The scheduler of service and batch jobs (reference: scheduler 7): reconcile, find a node for all that is missing,
//! and say what becomes of the evaluation.
//!
//! Refuses to know: how plans are verified and committed, and how often that was tried.

mod again;
mod desired;

use super::distinct::Distinct;
use super::feasible::{Eligibility, Feasibility};
use super::fleet::Snapshot;
use super::proposal::Proposal;
use super::reconcile::{
    Changes, Deployments, Input, LOST, MIGRATING, NameIndex, Replacement, TaintedNodes, UPDATED, Update,
    reconcile,
};
use super::search::{MOST_LEVELS, Search};
use super::update::tasks_changed;
use super::{Attempt, View, finished};
use crate::model::alloc::{
    AllocMetric, Allocation, ClientStatus, DesiredStatus, Health, Transition, alloc_name,
};
use crate::model::deployment::{Deployment, DeploymentUpdate};
use crate::model::eval::{EvalStatus, Evaluation, Trigger};
use crate::model::gather::Gather;
use crate::model::id::{AllocId, DeploymentId, EvalId};
use crate::model::job::{Job, JobSpec, JobType, TaskGroup};
use crate::model::node::NodeStatus;
use crate::model::plan::{Decision, GroupChanges, Plan};
use crate::model::random::Stream;
use crate::model::reschedule::Reschedule;
use crate::model::time::Wall;
use desired::Desired;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BLOCKED: &str = "created to place remaining allocations";

/// What one run works with and does not change.
struct Run<'a> {
    view: &'a dyn View,
    fleet: &'a Snapshot,
    eval: &'a Evaluation,
    now: Wall,
    seed: u64,
}

/// The streams of one seed: each id is drawn from one of them.
const ALLOC_IDS: u64 = 0;
const FOLLOWUP_IDS: u64 = 1;
const DEPLOYMENT_IDS: u64 = 2;

impl Run<'_> {
    fn deployment_id(&self) -> DeploymentId {
        DeploymentId::from_random(Stream::new(self.seed, DEPLOYMENT_IDS).next_u128())
    }
}

pub fn run(
    view: &dyn View,
    fleet: &Snapshot,
    eval: &Evaluation,
    attempt: Attempt,
    now: Wall,
    seed: u64,
) -> Decision {
    let run = Run { view, fleet, eval, now, seed };
    let job = view.job(&eval.job);
    let allocs = view.allocs_of(&eval.job);
    let tainted = tainted_nodes(fleet, &allocs);
    let mut proposal = Proposal::new(fleet, &allocs);
    mark_lost(&allocs, &tainted, &mut proposal);
    let input = Input {
        job: job.as_deref(),
        batch: is_batch(job.as_deref(), eval),
        allocs: &allocs,
        tainted: &tainted,
        eval,
        now,
        // nobody keeps deployments yet: a changed group is replaced at once
        deployments: Deployments { kept: false, latest: None, new_id: run.deployment_id() },
    };
    let mut outcome = Outcome::default();
    match job.as_deref().filter(|j| !j.spec.stop) {
        None => {
            let changes = reconcile(&input, &mut |_| Update::Ignore);
            apply_stops(&changes, &mut proposal);
            outcome.desired = Desired::default().counted(&changes);
            outcome.deployment_updates = changes.deployment_updates;
        }
        Some(job) => outcome = Placer::new(&run, job).work(&input, &mut proposal),
    }
    for group in job.iter().flat_map(|j| &j.spec.groups) {
        outcome.queued.entry(group.name.clone()).or_default();
    }
    let plan = Plan {
        eval_id: eval.id,
        priority: eval.priority,
        all_at_once: job.as_ref().is_some_and(|j| j.spec.all_at_once),
        nodes: proposal.into_node_plans(),
        snapshot_index: view.index(),
        deployment: outcome.deployment.take(),
        deployment_updates: std::mem::take(&mut outcome.deployment_updates),
    };
    decide(&run, attempt, plan, outcome)
}

/// A job that is gone is treated as its evaluation says.
fn is_batch(job: Option<&Job>, eval: &Evaluation) -> bool {
    job.map_or(eval.job_type, |j| j.spec.job_type) == JobType::Batch
}

/// Of the nodes that hold the allocations, those that are gone, down or disconnected.
fn tainted_nodes(fleet: &Snapshot, allocs: &[Allocation]) -> TaintedNodes {
    let statuses = allocs.iter().map(|a| (a.node_id, fleet.status(a.node_id)));
    statuses.filter(|(_, s)| !matches!(s, Some(NodeStatus::Ready | NodeStatus::Initializing))).gather()
}

/// Nobody will report the end of what was told to stop on a node that is gone or down.
fn mark_lost<'a>(allocs: &'a [Allocation], tainted: &TaintedNodes, proposal: &mut Proposal<'a>) {
    for alloc in allocs {
        let node_gone = matches!(tainted.get(&alloc.node_id), Some(None | Some(NodeStatus::Down)));
        let unreported = matches!(alloc.client, ClientStatus::Pending | ClientStatus::Running);
        if node_gone && unreported && alloc.server_terminal() {
            proposal.stop(alloc, LOST, Some(ClientStatus::Lost));
        }
    }
}

fn apply_stops<'a>(changes: &Changes<'a>, proposal: &mut Proposal<'a>) {
    for stop in &changes.stops {
        proposal.stop(stop.alloc, stop.description, stop.client);
    }
}

/// What a run could not do, and what is still wanted.
#[derive(Default)]
struct Outcome {
    failed: BTreeMap<String, AllocMetric>,
    queued: BTreeMap<String, u64>,
    eligibility: Eligibility,
    /// Evaluations that are to look again later.
    followups: Vec<Evaluation>,
    deployment: Option<Deployment>,
    deployment_updates: Vec<DeploymentUpdate>,
    desired: BTreeMap<String, GroupChanges>,
}

/// What becomes of the evaluation if all of the plan is committed.
fn decide(run: &Run, attempt: Attempt, plan: Plan, outcome: Outcome) -> Decision {
    let Outcome { failed, queued, eligibility, followups, desired, .. } = outcome;
    let short = !failed.is_empty();
    let mut eval = finished(run.eval, EvalStatus::Complete, String::new(), run.now);
    eval.failed_groups = failed;
    eval.queued = queued;
    eval.snapshot_index = attempt.snapshot_index;
    eval.next_eval = followups.first().map(|f| f.id).or(eval.next_eval);
    let mut created = Vec::new();
    if short && run.eval.status == EvalStatus::Blocked {
        eval.status = EvalStatus::Blocked;
        eval.status_description = run.eval.status_description.clone();
        eval.class_eligibility = eligibility.classes;
        eval.escaped_class = eligibility.escaped;
    } else if short {
        let id = EvalId::from_random(Stream::new(run.seed, ALLOC_IDS).next_u128());
        let blocked = blocked_eval(id, &eval, Trigger::QueuedAllocs, BLOCKED, eligibility, run.now);
        eval.blocked_eval = Some(blocked.id);
        created.push(blocked);
    }
    created.extend(followups);
    Decision { plan, eval, created, desired }
}

/// The evaluation that waits for what `parent` could not do. `parent` says at which index it looked.
pub fn blocked_eval(
    id: EvalId,
    parent: &Evaluation,
    trigger: Trigger,
    description: &str,
    eligibility: Eligibility,
    now: Wall,
) -> Evaluation {
    Evaluation {
        status: EvalStatus::Blocked,
        status_description: description.to_string(),
        job_modify_index: parent.job_modify_index,
        previous_eval: Some(parent.id),
        failed_groups: parent.failed_groups.clone(),
        class_eligibility: eligibility.classes,
        escaped_class: eligibility.escaped,
        snapshot_index: parent.snapshot_index,
        ..Evaluation::pending(id, parent.job.clone(), parent.job_type, parent.priority, trigger, now)
    }
}

/// One allocation to be.
struct Placement<'a> {
    group: &'a TaskGroup,
    name: String,
    previous: Option<&'a Allocation>,
    /// What the new one has to remember.
    reschedules: Vec<Reschedule>,
    canary: bool,
}

impl<'a> Placement<'a> {
    fn new(group: &'a TaskGroup, name: String) -> Self {
        Placement { group, name, previous: None, reschedules: Vec::new(), canary: false }
    }
}

/// One run's work for a job that is wanted.
struct Placer<'a> {
    run: &'a Run<'a>,
    job: &'a Job,
    feasibility: Feasibility<'a>,
    searches: BTreeMap<&'a str, Search<'a>>,
    searched: Vec<&'a TaskGroup>,
    versions: BTreeMap<(u64, u64), Option<Arc<JobSpec>>>,
    ids: Stream,
    outcome: Outcome,
}

impl<'a> Placer<'a> {
    fn new(run: &'a Run<'a>, job: &'a Job) -> Self {
        let mut ids = Stream::new(run.seed, ALLOC_IDS);
        // The first one is the blocked evaluation's.
        ids.next_u128();
        Placer {
            run,
            job,
            feasibility: Feasibility::new(&job.spec, run.fleet),
            searches: BTreeMap::new(),
            searched: Vec::new(),
            versions: BTreeMap::new(),
            ids,
            outcome: Outcome::default(),
        }
    }

    fn work(mut self, input: &Input<'a>, proposal: &mut Proposal<'a>) -> Outcome {
        let mut desired = Desired::default();
        let mut changes = reconcile(input, &mut |alloc| {
            let update = self.classify(alloc, proposal);
            desired.follows(alloc, update);
            update
        });
        self.outcome.desired = desired.counted(&changes);
        apply_stops(&changes, proposal);
        let names = &mut changes.names;
        for Replacement { group, alloc } in changes.destructive {
            self.replace_or_keep(group, alloc, (UPDATED, Vec::new()), names, proposal);
        }
        for Replacement { group, alloc } in changes.replacements {
            self.replace(group, alloc, alloc.reschedules.clone(), names, proposal);
        }
        for Replacement { group, alloc } in changes.rescheduled {
            let placed =
                self.replace(group, alloc, again::remembered(group, alloc, self.run.now), names, proposal);
            if placed && alloc.client_terminal() {
                proposal.stop(alloc, again::RESCHEDULED, None);
            }
        }
        for (group, indexes) in changes.canaries {
            for index in indexes {
                let name = alloc_name(&self.job.spec.id, &group.name, index);
                self.place(Placement { canary: true, ..Placement::new(group, name) }, proposal);
            }
        }
        for (group, missing) in changes.missing {
            self.fill(group, missing, names, proposal);
        }
        for Replacement { group, alloc } in changes.moving {
            self.replace_or_keep(group, alloc, (MIGRATING, alloc.reschedules.clone()), names, proposal);
        }
        again::amend(&changes.disconnected, &changes.reconnected, self.run.now, proposal);
        self.outcome.followups = again::look(self.run, changes.followups, proposal);
        self.outcome.deployment = changes.deployment;
        self.outcome.deployment_updates = changes.deployment_updates;
        if !self.outcome.failed.is_empty() {
            self.outcome.eligibility = self.feasibility.eligibility(&self.searched);
        }
        self.outcome
    }

    /// How an allocation follows the job (reference: scheduler 11). An update in place is put into the plan at once, so
    /// that the next one sees what it holds.
    fn classify(&mut self, old: &'a Allocation, proposal: &mut Proposal<'a>) -> Update {
        if old.job_modify_index == self.job.job_modify_index {
            return Update::Ignore;
        }
        let spec = self.spec_of(old);
        if spec.is_none_or(|spec| tasks_changed(&spec, &self.job.spec, &old.group)) {
            return Update::Destructive;
        }
        if old.terminal() {
            return Update::Ignore;
        }
        let Some(group) = self.job.spec.group(&old.group) else { return Update::Destructive };
        if !self.still_fits(old, group, proposal) {
            return Update::Destructive;
        }
        proposal.update(old, self.in_place(old, group));
        Update::InPlace
    }

    fn spec_of(&mut self, alloc: &Allocation) -> Option<Arc<JobSpec>> {
        let version = (alloc.job_create_index, alloc.job_version);
        let run = self.run;
        self.versions
            .entry(version)
            .or_insert_with(|| run.view.job_version(&run.eval.job, version.0, version.1))
            .clone()
    }

    /// Whether the group's new spec can stay on the node, the old allocation being out of the way.
    fn still_fits(&mut self, old: &'a Allocation, group: &'a TaskGroup, proposal: &mut Proposal<'a>) -> bool {
        let Some(slot) = self.run.fleet.slot(old.node_id) else { return false };
        if !self.feasibility.targeted(slot) || !self.feasibility.node_passes(group, slot) {
            return false;
        }
        proposal.stop(old, UPDATED, None);
        let distinct = Distinct::new(&self.job.spec, group);
        let then = proposal.used(slot).plus(group.resources().total());
        let fits = distinct.allows(self.run.fleet, proposal, slot)
            && self.run.fleet.available_at(slot).lacks(then).is_none();
        proposal.unstop(old);
        fits
    }

    fn in_place(&self, old: &Allocation, group: &TaskGroup) -> Allocation {
        Allocation {
            job_create_index: self.job.create_index,
            job_version: self.job.version,
            job_modify_index: self.job.job_modify_index,
            eval_id: self.run.eval.id,
            resources: group.resources(),
            modify_time: self.run.now,
            ..old.clone()
        }
    }

    /// Stops the old one only if the new one finds a node.
    fn replace_or_keep(
        &mut self,
        group: &'a TaskGroup,
        old: &'a Allocation,
        (why, reschedules): (&'static str, Vec<Reschedule>),
        names: &mut BTreeMap<&'a str, NameIndex>,
        proposal: &mut Proposal<'a>,
    ) {
        proposal.stop(old, why, None);
        if !self.replace(group, old, reschedules, names, proposal) {
            proposal.unstop(old);
        }
    }

    fn replace(
        &mut self,
        group: &'a TaskGroup,
        old: &'a Allocation,
        reschedules: Vec<Reschedule>,
        names: &mut BTreeMap<&'a str, NameIndex>,
        proposal: &mut Proposal<'a>,
    ) -> bool {
        let name = self.name_after(group, old, names);
        let (previous, canary) = (Some(old), old.is_canary());
        self.place(Placement { previous, canary, reschedules, ..Placement::new(group, name) }, proposal)
    }

    /// Places what is missing under new names, until one does not fit.
    fn fill(
        &mut self,
        group: &'a TaskGroup,
        missing: u64,
        names: &mut BTreeMap<&'a str, NameIndex>,
        proposal: &mut Proposal<'a>,
    ) {
        let names = names.entry(&group.name).or_default();
        for left in (0..missing).rev() {
            let name = alloc_name(&self.job.spec.id, &group.name, names.next());
            if !self.place(Placement::new(group, name), proposal) {
                return self.coalesce(group, left);
            }
        }
    }

    /// Finds a node for one allocation. After one failure in a group, the others of it fail without a search.
    fn place(&mut self, placement: Placement<'a>, proposal: &mut Proposal<'a>) -> bool {
        let group = placement.group;
        if self.outcome.failed.contains_key(&group.name) {
            self.coalesce(group, 1);
            return false;
        }
        let tried = placement.previous.map_or_else(BTreeSet::new, |old| again::tried(old, self.run.fleet));
        let (slot, metric) = self.search(group, proposal).select(proposal, &tried);
        let Some(slot) = slot else {
            self.outcome.failed.insert(group.name.clone(), metric);
            self.outcome.queued.insert(group.name.clone(), 1);
            return false;
        };
        let alloc = self.allocation(placement, slot, metric);
        proposal.place(slot, &group.name, alloc);
        true
    }

    /// `n` more of a group that has failed.
    fn coalesce(&mut self, group: &TaskGroup, n: u64) {
        if let Some(metric) = self.outcome.failed.get_mut(&group.name) {
            metric.coalesced_failures = metric.coalesced_failures.saturating_add(n);
        }
        let queued = self.outcome.queued.entry(group.name.clone()).or_default();
        *queued = queued.saturating_add(n);
    }

    fn search(&mut self, group: &'a TaskGroup, proposal: &Proposal<'a>) -> &mut Search<'a> {
        let (job, run, feasibility) = (self.job, self.run, &mut self.feasibility);
        let searched = &mut self.searched;
        self.searches.entry(&group.name).or_insert_with(|| {
            searched.push(group);
            Search::new(&job.spec, group, run.fleet, feasibility, proposal, run.seed, MOST_LEVELS)
        })
    }

    /// The old one's name; but one that another allocation has, too, is given up for a free one.
    fn name_after(
        &self,
        group: &'a TaskGroup,
        old: &Allocation,
        names: &mut BTreeMap<&'a str, NameIndex>,
    ) -> String {
        let duplicate = names.get_mut(group.name.as_str()).filter(|n| n.is_duplicate(old.index()));
        let Some(names) = duplicate else { return old.name.clone() };
        names.let_go(old.index());
        alloc_name(&self.job.spec.id, &group.name, names.next())
    }

    fn allocation(&mut self, placement: Placement, slot: u32, metrics: AllocMetric) -> Allocation {
        let run = self.run;
        Allocation {
            id: AllocId::from_random(self.ids.next_u128()),
            job: run.eval.job.clone(),
            job_create_index: self.job.create_index,
            job_version: self.job.version,
            job_modify_index: self.job.job_modify_index,
            group: placement.group.name.clone(),
            name: placement.name,
            eval_id: run.eval.id,
            node_id: run.fleet.id_at(slot),
            node_name: run.fleet.own_at(slot).map_or_else(String::new, |own| own.name.to_string()),
            resources: placement.group.resources(),
            desired: DesiredStatus::Run,
            desired_description: String::new(),
            client: ClientStatus::Pending,
            client_description: String::new(),
            task_states: BTreeMap::new(),
            previous: placement.previous.map(|old| old.id),
            next: None,
            metrics,
            create_time: run.now,
            modify_time: run.now,
            create_index: 0,
            modify_index: 0,
            alloc_modify_index: 0,
            reschedules: placement.reschedules,
            followup_eval: None,
            transition: Transition::default(),
            deployment: None,
            health: placement.canary.then(|| Health { canary: true, ..Health::default() }),
            states: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
