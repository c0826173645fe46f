//! The scheduler of all jobs (scheduler.md 7, scheduler.md 12): reconcile, find a node for all that is missing,
//! and say what becomes of the evaluation.
//!
//! Refuses to know: how plans are verified and committed, and how often that was tried.

mod desired_updates;
mod preempting;
mod reschedule_tracker;
mod system;
mod update_allocs;
mod versions;

use super::feasibility::{Eligibility, Feasibility};
use super::fleet::FleetSnapshot;
use super::preempt::PreemptionCandidates;
use super::proposal::ProposedAllocs;
use super::reconcile::{
    Changes, Deployments, LOST, MIGRATING, NameIndex, ReconcileInput, Replacement, TaintedNodes, UPDATED,
    Update, reconcile,
};
use super::search::Search;
use super::{Attempt, SchedulerState, finished};
use desired_updates::DesiredUpdates;
use model::alloc::{AllocMetric, Allocation, ClientStatus, DesiredStatus, Health, Transition, alloc_name};
use model::deployment::{Deployment, DeploymentUpdate};
use model::eval::{EvalStatus, Evaluation, Trigger};
use model::id::{AllocId, DeploymentId, EvalId};
use model::job::{Job, JobSpec, JobType, TaskGroup};
use model::node::NodeStatus;
use model::plan::{Decision, GroupChanges, Plan};
use model::random::Stream;
use model::reschedule::Reschedule;
use model::resources::AllocResources;
use model::time::Wall;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BLOCKED: &str = "created to place remaining allocations";

/// What one run works with and does not change.
struct EvalContext<'a> {
    view: &'a dyn SchedulerState,
    fleet: &'a FleetSnapshot,
    eval: &'a Evaluation,
    now: Wall,
    seed: u64,
}

/// The streams of one seed: each id is drawn from one of them.
const ALLOC_IDS: u64 = 0;
const FOLLOWUP_IDS: u64 = 1;
const DEPLOYMENT_IDS: u64 = 2;
const PICKS: u64 = 3;

impl EvalContext<'_> {
    fn deployment_id(&self) -> DeploymentId {
        DeploymentId::from_random(Stream::new(self.seed, DEPLOYMENT_IDS).next_u128())
    }
}

pub fn run(
    view: &dyn SchedulerState,
    fleet: &FleetSnapshot,
    eval: &Evaluation,
    attempt: Attempt,
    now: Wall,
    seed: u64,
) -> Decision {
    let run = EvalContext { view, fleet, eval, now, seed };
    let job = view.job(&eval.job);
    let allocs = view.allocs_by_job(&eval.job);
    let latest = view.latest_deployment(&eval.job);
    let tainted = tainted_nodes(fleet, &allocs);
    let mut proposal = ProposedAllocs::new(fleet, &allocs);
    mark_lost(&allocs, &tainted, &mut proposal);
    let input = ReconcileInput {
        job: job.as_deref(),
        batch: is_batch(job.as_deref(), eval),
        allocs: &allocs,
        tainted: &tainted,
        eval,
        now,
        deployments: Deployments { latest: latest.as_ref(), new_id: run.deployment_id() },
        is_pending: &|eval| view.is_pending(eval),
    };
    let older = versions::older_versions(&run, job.as_deref(), latest.as_ref(), &allocs);
    let mut outcome = EvalOutcome::default();
    match job.as_deref().filter(|j| !j.spec.stop) {
        None => {
            let changes = reconcile(&input, &mut |_| Update::Ignore);
            apply_stops(&changes, &mut proposal);
            outcome.desired = DesiredUpdates::default().with_changes(&changes);
            outcome.deployment_updates = changes.deployment_updates;
        }
        Some(job) => {
            let placer = Placer::new(&run, job, &older);
            outcome = match job.spec.job_type.runs_on_every_node() {
                true => placer.reconcile_system(&input, &mut proposal),
                false => placer.reconcile_and_place(&input, &mut proposal),
            };
        }
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
    desired_updates::count_preemptions(&plan, &mut outcome.desired);
    decide(&run, attempt, plan, outcome, latest.as_ref())
}

/// A job that is gone is treated as its evaluation says.
fn is_batch(job: Option<&Job>, eval: &Evaluation) -> bool {
    job.map_or(eval.job_type, |j| j.spec.job_type) == JobType::Batch
}

/// The nodes, among those that hold the allocations, which are gone, down or disconnected.
fn tainted_nodes(fleet: &FleetSnapshot, allocs: &[Allocation]) -> TaintedNodes {
    let statuses = allocs.iter().map(|a| (a.node_id, fleet.status(a.node_id)));
    statuses.filter(|(_, s)| !matches!(s, Some(NodeStatus::Ready | NodeStatus::Initializing))).collect()
}

/// Marks stopped allocations on nodes that are gone or down as lost: no client will report their end.
fn mark_lost<'a>(allocs: &'a [Allocation], tainted: &TaintedNodes, proposal: &mut ProposedAllocs<'a>) {
    for alloc in allocs {
        let node_gone = matches!(tainted.get(&alloc.node_id), Some(None | Some(NodeStatus::Down)));
        let unreported = matches!(alloc.client, ClientStatus::Pending | ClientStatus::Running);
        if node_gone && unreported && alloc.server_terminal() {
            proposal.stop(alloc, LOST, Some(ClientStatus::Lost));
        }
    }
}

fn apply_stops<'a>(changes: &Changes<'a>, proposal: &mut ProposedAllocs<'a>) {
    for stop in &changes.stops {
        proposal.stop(stop.alloc, stop.description, stop.client);
    }
}

/// What a run could not do, and what is still wanted.
#[derive(Default)]
struct EvalOutcome {
    failed: BTreeMap<String, AllocMetric>,
    /// Groups that no node may run: more room would not help them.
    filtered: BTreeMap<String, AllocMetric>,
    queued: BTreeMap<String, u64>,
    eligibility: Eligibility,
    /// Evaluations that are to look again later.
    followups: Vec<Evaluation>,
    deployment: Option<Deployment>,
    deployment_updates: Vec<DeploymentUpdate>,
    desired: BTreeMap<String, GroupChanges>,
}

/// What becomes of the evaluation if all of the plan is committed.
fn decide(
    run: &EvalContext,
    attempt: Attempt,
    plan: Plan,
    outcome: EvalOutcome,
    latest: Option<&Deployment>,
) -> Decision {
    let EvalOutcome { failed, mut filtered, queued, eligibility, followups, desired, .. } = outcome;
    let short = !failed.is_empty();
    assert!(
        failed.keys().all(|group| queued.get(group).is_some_and(|n| *n > 0)),
        "a group that failed to place has queued allocations"
    );
    let mut eval = finished(run.eval, EvalStatus::Complete, String::new(), run.now);
    eval.failed_groups = failed;
    eval.failed_groups.append(&mut filtered);
    eval.queued = queued;
    eval.snapshot_index = attempt.snapshot_index;
    let active = latest.filter(|d| d.status.is_active()).map(|d| d.id);
    eval.deployment = plan.deployment.as_ref().map(|d| d.id).or(active);
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

/// The blocked evaluation for what `parent` could not place. `parent` holds the index of the state that it saw.
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
    /// Earlier reschedules that the new allocation has to remember.
    reschedules: Vec<Reschedule>,
    canary: bool,
    /// Set when the version is not the newest.
    version: Option<&'a Job>,
}

impl<'a> Placement<'a> {
    fn new(group: &'a TaskGroup, name: String) -> Self {
        Placement { group, name, previous: None, reschedules: Vec::new(), canary: false, version: None }
    }
}

/// One run's work for a job that is wanted.
struct Placer<'a> {
    run: &'a EvalContext<'a>,
    job: &'a Job,
    /// By version: what may have to be placed instead of the newest.
    older: &'a BTreeMap<u64, Job>,
    /// By version.
    feasibility: BTreeMap<u64, Feasibility<'a>>,
    /// By version and group.
    searches: BTreeMap<(u64, &'a str), Search<'a>>,
    /// The groups of the newest version that were searched.
    searched: Vec<&'a TaskGroup>,
    versions: BTreeMap<(u64, u64), Option<Arc<JobSpec>>>,
    ids: Stream,
    /// Where the search for a free port begins.
    picks: Stream,
    /// Allocations that this run has updated in place.
    updated: Vec<&'a Allocation>,
    /// By group.
    deployment_ids: BTreeMap<&'a str, DeploymentId>,
    /// The preemption candidates; None: not read yet.
    candidates: Option<PreemptionCandidates<'a>>,
    outcome: EvalOutcome,
}

impl<'a> Placer<'a> {
    fn new(run: &'a EvalContext<'a>, job: &'a Job, older: &'a BTreeMap<u64, Job>) -> Self {
        let mut ids = Stream::new(run.seed, ALLOC_IDS);
        // The first one is the blocked evaluation's.
        ids.next_u128();
        Placer {
            run,
            job,
            older,
            feasibility: BTreeMap::new(),
            searches: BTreeMap::new(),
            searched: Vec::new(),
            versions: BTreeMap::new(),
            ids,
            picks: Stream::new(run.seed, PICKS),
            updated: Vec::new(),
            deployment_ids: BTreeMap::new(),
            candidates: None,
            outcome: EvalOutcome::default(),
        }
    }

    fn reconcile_and_place(
        mut self,
        input: &ReconcileInput<'a>,
        proposal: &mut ProposedAllocs<'a>,
    ) -> EvalOutcome {
        let mut desired = DesiredUpdates::default();
        let mut changes = reconcile(input, &mut |alloc| {
            let update = self.classify(alloc, proposal);
            desired.count_update(alloc, update);
            update
        });
        self.outcome.desired = desired.with_changes(&changes);
        self.add_updated_to_deployment(&changes, proposal);
        apply_stops(&changes, proposal);
        self.deployment_ids = changes.deployment_ids;
        let names = &mut changes.names;
        for one in changes.destructive {
            self.replace_or_keep(one, (UPDATED, Vec::new()), names, proposal);
        }
        for one in changes.replacements {
            self.replace(one, one.alloc.reschedules.clone(), names, proposal);
        }
        for one in changes.rescheduled {
            let alloc = one.alloc;
            let remembered = reschedule_tracker::next_tracker(one.group, alloc, self.run.now);
            let placed = self.replace(one, remembered, names, proposal);
            if placed && alloc.client_terminal() {
                proposal.stop(alloc, reschedule_tracker::RESCHEDULED, None);
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
        for one in changes.migrating_when_placed {
            self.replace_or_keep(one, (MIGRATING, one.alloc.reschedules.clone()), names, proposal);
        }
        self.withdraw_unneeded_preemptions(proposal);
        reschedule_tracker::record_disconnects(
            &changes.disconnected,
            &changes.reconnected,
            self.run.now,
            proposal,
        );
        self.outcome.followups =
            reschedule_tracker::create_followup_evals(self.run, changes.followups, proposal);
        self.outcome.deployment = changes.deployment;
        self.outcome.deployment_updates = changes.deployment_updates;
        if !self.outcome.failed.is_empty() {
            self.outcome.eligibility = self.eligibility();
        }
        self.outcome
    }

    /// Stops the old allocation only if the new one finds a node.
    fn replace_or_keep(
        &mut self,
        one: Replacement<'a>,
        (why, reschedules): (&'static str, Vec<Reschedule>),
        names: &mut BTreeMap<&'a str, NameIndex>,
        proposal: &mut ProposedAllocs<'a>,
    ) {
        proposal.stop(one.alloc, why, None);
        if !self.replace(one, reschedules, names, proposal) {
            proposal.cancel_stop(one.alloc);
        }
    }

    fn replace(
        &mut self,
        one: Replacement<'a>,
        reschedules: Vec<Reschedule>,
        names: &mut BTreeMap<&'a str, NameIndex>,
        proposal: &mut ProposedAllocs<'a>,
    ) -> bool {
        let old = one.alloc;
        let (version, group) = self.version_for(one);
        let name = self.replacement_name(group, old, names);
        let (previous, canary) = (Some(old), old.is_canary());
        let placement = Placement { previous, canary, reschedules, version, ..Placement::new(group, name) };
        self.place(placement, proposal)
    }

    /// Places what is missing under new names, until one does not fit.
    fn fill(
        &mut self,
        group: &'a TaskGroup,
        missing: u64,
        names: &mut BTreeMap<&'a str, NameIndex>,
        proposal: &mut ProposedAllocs<'a>,
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
    fn place(&mut self, placement: Placement<'a>, proposal: &mut ProposedAllocs<'a>) -> bool {
        let group = placement.group;
        if self.outcome.failed.contains_key(&group.name) {
            self.coalesce(group, 1);
            return false;
        }
        let tried = placement
            .previous
            .map_or_else(BTreeSet::new, |old| reschedule_tracker::penalized_slots(old, self.run.fleet));
        let mut picks = self.picks.clone();
        let search = self.search(group, placement.version, proposal);
        let (slot, mut metric) = search.select(proposal, &tried);
        let held = slot.map(|slot| (slot, search.resources(proposal, slot, &mut picks)));
        self.picks = picks;
        let found = match held {
            Some((slot, held)) => held.map(|held| (slot, self.allowed(group, held), Vec::new())),
            None => self.place_preempting(&placement, &tried, &mut metric, proposal),
        };
        let Some(place) = found else {
            self.outcome.failed.insert(group.name.clone(), metric);
            self.outcome.queued.insert(group.name.clone(), 1);
            return false;
        };
        self.add_to_plan(place, placement, metric, proposal);
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

    /// The replaced allocation's name; but one that another allocation has, too, is given up for a free one.
    fn replacement_name(
        &self,
        group: &'a TaskGroup,
        old: &Allocation,
        names: &mut BTreeMap<&'a str, NameIndex>,
    ) -> String {
        let duplicate = names.get_mut(group.name.as_str()).filter(|n| n.is_duplicate(old.index()));
        let Some(names) = duplicate else { return old.name.clone() };
        names.release(old.index());
        alloc_name(&self.job.spec.id, &group.name, names.next())
    }

    fn allocation(
        &mut self,
        placement: Placement,
        slot: u32,
        resources: AllocResources,
        metrics: AllocMetric,
    ) -> Allocation {
        let run = self.run;
        let job = placement.version.unwrap_or(self.job);
        // an allocation of an older version is no part of the deployment that brings the newest
        let joined =
            placement.version.is_none().then(|| self.deployment_ids.get(placement.group.name.as_str()));
        let deployment = joined.flatten().copied();
        let canary = placement.canary && deployment.is_some();
        Allocation {
            id: AllocId::from_random(self.ids.next_u128()),
            job: run.eval.job.clone(),
            job_create_index: job.create_index,
            job_version: job.version,
            job_modify_index: job.job_modify_index,
            group: placement.group.name.clone(),
            name: placement.name,
            eval_id: run.eval.id,
            node_id: run.fleet.id_at(slot),
            node_name: run.fleet.unique_at(slot).map_or_else(String::new, |own| own.name.to_string()),
            resources,
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
            deployment,
            health: canary.then(|| Health { canary: true, ..Health::default() }),
            states: Vec::new(),
            preempted: Vec::new(),
            preempted_by: None,
        }
    }
}

#[cfg(test)]
mod tests;
