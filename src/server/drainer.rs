//! Drains: which allocations leave their node next (server.md 7). Of a group at most `max_parallel` are stopped at a time, until their
//! replacements are healthy; batch allocations may end by themselves; at the deadline all are stopped, and when none is left the drain
//! is over.
//!
//! Knows no scheduler: it says what is to leave, and evaluations see to it. All of it can be rebuilt from the state. One
//! entry is under way at a time, so that nothing is decided twice.

use super::context::{Context, MAX_EVALS_PER_ENTRY};
use super::pending::OnApply;
use model::alloc::{Allocation, Leave};
use model::drain::{Drain, settles_in};
use model::eval::{Evaluation, Trigger};
use model::id::{AllocId, JobKey, NodeId};
use model::job::{JobType, TaskGroup};
use model::node::Node;
use model::time::{Mono, Span, Wall};
use state::fault::Fault;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::command::{Command, DrainProgress};

/// Nodes that are looked at in one turn; the rest follows in the next.
const NODES_PER_TURN: usize = 16;
/// Allocations of a node that are asked to leave by one entry.
const ALLOCS_PER_STEP: usize = 256;
/// Changes within this time are looked at together.
const SCAN_INTERVAL: Span = Span::millis(200);

#[derive(Default)]
pub struct Drainer {
    nodes: BTreeMap<NodeId, Draining>,
    /// Nodes to look at: something has happened there, or to the jobs that they run.
    due: BTreeSet<NodeId>,
    timers: BTreeSet<(Mono, NodeId)>,
    /// When each allocation counts as healthy, and its modify index when that was computed.
    settling: BTreeMap<JobKey, BTreeMap<AllocId, (u64, Mono)>>,
    next_scan: Mono,
    /// The nodes of the entry that is proposed and not applied yet.
    in_flight: Vec<NodeId>,
}

struct Draining {
    drain: Drain,
    force_at: Option<Mono>,
    /// The jobs of the allocations that are still there.
    jobs: BTreeSet<JobKey>,
}

impl Drainer {
    /// `left`: until the deadline, when everything has to go.
    fn watch(&mut self, node: NodeId, drain: &Drain, left: Option<Span>, now: Mono) {
        let force_at = match self.nodes.get(&node) {
            Some(known) if known.drain == *drain => known.force_at,
            _ => left.map(|left| now.after(left)),
        };
        self.timers.extend(force_at.map(|at| (at, node)));
        self.due.insert(node);
        let jobs = BTreeSet::new();
        self.nodes.insert(node, Draining { drain: drain.clone(), force_at, jobs });
    }

    fn forget(&mut self, node: NodeId) {
        if self.nodes.remove(&node).is_some() {
            self.due.remove(&node);
            self.timers.retain(|(_, n)| *n != node);
            let nodes = &self.nodes;
            self.settling.retain(|job, _| nodes.values().any(|n| n.jobs.contains(job)));
        }
    }

    /// An allocation has changed.
    pub fn alloc_changed(&mut self, job: &JobKey, node: NodeId) {
        let concerned = self.nodes.iter().filter(|(n, d)| **n == node || d.jobs.contains(job));
        self.due.extend(concerned.map(|(n, _)| *n));
    }

    /// The entry that was under way is applied.
    pub fn proposal_done(&mut self) {
        assert!(!self.in_flight.is_empty(), "a step of drains that is done was under way");
        self.in_flight.clear();
    }

    /// That entry is in no log: its nodes are looked at again.
    pub fn proposal_refused(&mut self, now: Mono) {
        self.next_scan = now.after(SCAN_INTERVAL);
        let still_drain = std::mem::take(&mut self.in_flight).into_iter();
        self.due.extend(still_drain.filter(|node| self.nodes.contains_key(node)));
    }

    fn take_due(&mut self, now: Mono) -> Vec<NodeId> {
        while let Some((at, node)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, node));
            self.due.insert(node);
        }
        if !self.in_flight.is_empty() || self.due.is_empty() || now < self.next_scan {
            return vec![];
        }
        self.next_scan = now.after(SCAN_INTERVAL);
        let taken: Vec<NodeId> = self.due.iter().copied().take(NODES_PER_TURN).collect();
        taken.iter().for_each(|node| {
            self.due.remove(node);
        });
        assert!(taken.iter().all(|node| self.nodes.contains_key(node)), "only draining nodes are looked at");
        taken
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        let scan = (self.in_flight.is_empty() && !self.due.is_empty()).then_some(self.next_scan);
        scan.into_iter().chain(self.timers.first().map(|t| t.0)).min()
    }

    /// The nodes that are draining.
    #[cfg(any(test, feature = "testing"))]
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.nodes.keys().copied().collect()
    }

    /// How many of a group's allocations are healthy now; one that is to leave is not counted.
    fn counting(
        &mut self,
        job: &JobKey,
        group: &TaskGroup,
        all: &[Allocation],
        (mono, wall): (Mono, Wall),
    ) -> HealthyCount {
        let Some(policy) = &group.migrate else { return HealthyCount::default() };
        let known = self.settling.entry(job.clone()).or_default();
        let mut counting = HealthyCount::default();
        for alloc in all.iter().filter(|a| a.group == group.name) {
            if alloc.terminal() || alloc.transition.leaves() {
                known.remove(&alloc.id);
                continue;
            }
            let reckoned = || (alloc.modify_index, mono.after(settles_in(alloc, policy, wall)));
            let (index, at) = known.entry(alloc.id).or_insert_with(reckoned);
            if *index != alloc.modify_index {
                (*index, *at) = reckoned();
            }
            if *at <= mono {
                counting.now += 1;
            } else {
                counting.next = Some(counting.next.map_or(*at, |next| next.min(*at)));
            }
        }
        counting
    }
}

#[derive(Default)]
struct HealthyCount {
    now: u64,
    /// When the next one will count.
    next: Option<Mono>,
}

/// What one round decides.
#[derive(Default)]
struct DrainRound {
    steps: Vec<DrainProgress>,
    evals: BTreeMap<JobKey, Evaluation>,
    /// How many of each group were asked to leave by this round.
    leaving: BTreeMap<(JobKey, String), u64>,
}

impl Drainer {
    /// The node's drain as it is now.
    pub fn apply_change(&mut self, node: Option<&Node>, id: NodeId, cx: &Context<'_>) {
        match node.and_then(|n| n.drain.as_ref()) {
            Some(drain) => {
                let left = drain.left(cx.at);
                self.watch(id, drain, left, cx.now);
            }
            None => self.forget(id),
        }
    }

    /// Asks the next allocations to leave.
    pub fn advance(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        let due = if cx.space_free { self.take_due(cx.now) } else { vec![] };
        if due.is_empty() {
            return Ok(());
        }
        let view = cx.view()?;
        let mut round = DrainRound::default();
        for node in due {
            if round.evals.len() >= MAX_EVALS_PER_ENTRY {
                self.due.insert(node);
                continue;
            }
            if let Some(step) = self.next_step(node, &view, &mut round, cx)? {
                round.steps.push(step);
            }
        }
        if !round.steps.is_empty() {
            assert!(self.in_flight.is_empty(), "one step of drains is under way at a time");
            let (at, evals) = (cx.at, round.evals.into_values().collect());
            self.in_flight = round.steps.iter().map(|step| step.node).collect();
            cx.propose(Command::AdvanceDrains { steps: round.steps, evals, at }, OnApply::Drained);
        }
        Ok(())
    }

    fn next_step(
        &mut self,
        node: NodeId,
        view: &View,
        round: &mut DrainRound,
        cx: &mut Context<'_>,
    ) -> Result<Option<DrainProgress>, Fault> {
        let Some(watched) = self.nodes.get(&node) else { return Ok(None) };
        let (drain, force_at) = (watched.drain.clone(), watched.force_at);
        let here = DrainingAllocs::new(node, &drain, view)?;
        let jobs: BTreeSet<JobKey> = here.all().map(|a| a.job.clone()).collect();
        if let Some(watched) = self.nodes.get_mut(&node) {
            watched.jobs.clone_from(&jobs);
        }
        let forced = force_at.is_some_and(|at| at <= cx.now);
        let complete = here.all().next().is_none();
        let at_once = forced || here.others.is_empty();
        let mut leaving = vec![];
        if at_once {
            let asked = |a: &&Allocation| a.transition.migrate == Some(Leave::AtOnce) || a.server_terminal();
            leaving.extend(here.all().filter(|a| !asked(a)).take(ALLOCS_PER_STEP).map(|a| a.id));
        } else {
            for job in &jobs {
                self.next_of_job(job, &here, round, cx, &mut leaving)?;
            }
        }
        if leaving.is_empty() && !complete {
            return Ok(None);
        }
        for alloc in here.all().filter(|a| leaving.contains(&a.id)) {
            evaluate_drained(alloc, &here, round, cx)?;
        }
        let at_once = if complete { forced } else { at_once };
        Ok(Some(DrainProgress { node, drain, leaving, at_once, complete }))
    }

    /// Asks as many of each of the job's groups to leave as may be away now; the others wait for those that are.
    fn next_of_job(
        &mut self,
        key: &JobKey,
        here: &DrainingAllocs<'_>,
        round: &mut DrainRound,
        cx: &mut Context<'_>,
        leaving: &mut Vec<AllocId>,
    ) -> Result<(), Fault> {
        let Some(job) = here.view.job(key)?.filter(|j| j.spec.job_type == JobType::Service && !j.spec.stop)
        else {
            return Ok(());
        };
        let all = here.view.allocs_of_job(key)?;
        for group in &job.spec.groups {
            let Some(policy) = &group.migrate else { continue };
            let counting = self.counting(key, group, &all, (cx.now, cx.at));
            let away = round.leaving.entry((key.clone(), group.name.clone())).or_default();
            let least = group.count.saturating_sub(policy.max_parallel);
            let may = (counting.now as i64).saturating_sub(*away as i64).saturating_sub(least).max(0);
            let stays = |a: &&Allocation| {
                a.group == group.name && a.node_id == here.node && !a.terminal() && !a.transition.leaves()
            };
            let chosen: Vec<AllocId> = all.iter().filter(stays).take(may as usize).map(|a| a.id).collect();
            *away += chosen.len() as u64;
            assert!(
                chosen.is_empty() || counting.now as i64 - *away as i64 >= least,
                "a drain leaves as many of a group as its `migrate` block wants"
            );
            leaving.extend(chosen);
            self.timers.extend(counting.next.map(|at| (at, here.node)));
        }
        Ok(())
    }
}

fn evaluate_drained(
    alloc: &Allocation,
    here: &DrainingAllocs<'_>,
    round: &mut DrainRound,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    if round.evals.contains_key(&alloc.job) {
        return Ok(());
    }
    let Some(job) = here.view.job(&alloc.job)? else { return Ok(()) };
    let (job_type, priority, at) = (job.spec.job_type, job.spec.priority, cx.at);
    let id = cx.ids.eval();
    let eval = Evaluation::pending(id, alloc.job.clone(), job_type, priority, Trigger::NodeDrain, at);
    let (node_id, node_modify_index) = (Some(here.node), here.view.index());
    let job_modify_index = job.job_modify_index;
    round
        .evals
        .insert(alloc.job.clone(), Evaluation { job_modify_index, node_id, node_modify_index, ..eval });
    Ok(())
}

/// The allocations on a draining node that have not ended.
struct DrainingAllocs<'v> {
    view: &'v View,
    node: NodeId,
    /// Allocations of system jobs, unless the drain leaves them.
    system: Vec<Allocation>,
    others: Vec<Allocation>,
}

impl<'v> DrainingAllocs<'v> {
    fn new(node: NodeId, drain: &Drain, view: &'v View) -> Result<DrainingAllocs<'v>, Fault> {
        let (mut system, mut others) = (vec![], vec![]);
        let mut types: BTreeMap<JobKey, Option<JobType>> = BTreeMap::new();
        for alloc in view.allocs_of_node(node)? {
            if alloc.client_terminal() {
                continue;
            }
            let known = types.get(&alloc.job).copied();
            let job_type = match known {
                Some(known) => known,
                None => view.job(&alloc.job)?.map(|j| j.spec.job_type),
            };
            types.insert(alloc.job.clone(), job_type);
            if job_type == Some(JobType::System) { system.push(alloc) } else { others.push(alloc) }
        }
        if drain.ignore_system {
            system.clear();
        }
        Ok(DrainingAllocs { view, node, system, others })
    }

    /// System jobs are the last to go: only at the deadline do they go with the others.
    fn all(&self) -> impl Iterator<Item = &Allocation> {
        self.others.iter().chain(&self.system)
    }
}

#[cfg(test)]
mod tests;
