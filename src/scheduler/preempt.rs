//! Preemption: where no node has room for an allocation, allocations of lower priority may be evicted (scheduler.md 18). The candidates
//! are read when they are first needed, and once.
//!
//! Refuses to know: which node is the best one, and what a plan does with what was chosen.
//!
//! Invariants: no allocation of a job with at least nearly the same priority is ever chosen; none of the chosen could stay.

use super::SchedulerState;
use super::fleet::FleetSnapshot;
use model::alloc::Allocation;
use model::claims::Claim;
use model::id::{AllocId, JobKey};
use model::job::Job;
use model::resources::{Amount, Holding};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How much lower the priority of a preempted allocation must be at least.
const MIN_PRIORITY_DELTA: i64 = 10;
/// At most this many nodes are read one by one; beyond, one read of all candidates is cheaper.
const MAX_SINGLE_READS: usize = 8;

/// Whether a priority is high enough above another one.
pub fn may_preempt(own: i64, other: i64) -> bool {
    own.saturating_sub(other) >= MIN_PRIORITY_DELTA
}

/// An allocation that may be preempted.
#[derive(Debug)]
pub struct Candidate {
    pub id: AllocId,
    priority: i64,
    /// What the allocation holds, without whole cores: nothing is preempted for those.
    pub holding: Holding,
    /// Index into `PreemptionCandidates::group_limits`.
    group_limit: usize,
}

/// The allocations of one group of one job.
struct GroupLimit {
    /// `migrate.max_parallel`: how many to preempt at a time where there is a choice; 0: any number.
    max_parallel: i64,
    /// How many of the group the plan preempts so far.
    leaving: i64,
}

/// The allocations that may be preempted for those of one job.
pub struct PreemptionCandidates<'a> {
    view: &'a dyn SchedulerState,
    fleet: &'a FleetSnapshot,
    job: &'a JobKey,
    /// The priority of that job.
    priority: i64,
    /// By slot; each ordered by id.
    allocs: BTreeMap<u32, Vec<Candidate>>,
    all_read: bool,
    /// Allocations that the plan preempts, by slot.
    preempted: BTreeMap<u32, Vec<Candidate>>,
    group_limits: Vec<GroupLimit>,
    jobs: BTreeMap<JobKey, KnownJob>,
}

/// A job, if it still exists, and the limits of its groups by name.
struct KnownJob {
    job: Option<Arc<Job>>,
    group_limits: Vec<(String, usize)>,
}

/// The allocations that are preempted on one node, and what that frees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preemption {
    pub ids: Vec<AllocId>,
    pub freed: Holding,
    pub priorities: Vec<i64>,
}

impl Preemption {
    fn of<'c>(chosen: impl Iterator<Item = &'c Candidate>) -> Preemption {
        let mut preemption = Preemption::default();
        for candidate in chosen {
            preemption.ids.push(candidate.id);
            preemption.priorities.push(candidate.priority);
            add(&mut preemption.freed, &candidate.holding);
        }
        preemption
    }
}

fn freed<'c>(by: impl Iterator<Item = &'c Candidate>) -> Holding {
    let mut sum = Holding::default();
    by.for_each(|candidate| add(&mut sum, &candidate.holding));
    sum
}

fn add(sum: &mut Holding, more: &Holding) {
    sum.amount = sum.amount.plus(more.amount);
    sum.claims.extend_from_slice(&more.claims);
}

impl<'a> PreemptionCandidates<'a> {
    /// `priority`: of the job that is to be placed.
    pub fn new(
        view: &'a dyn SchedulerState,
        fleet: &'a FleetSnapshot,
        priority: i64,
        job: &'a JobKey,
    ) -> Self {
        PreemptionCandidates {
            view,
            fleet,
            job,
            priority,
            allocs: BTreeMap::new(),
            all_read: false,
            preempted: BTreeMap::new(),
            group_limits: Vec::new(),
            jobs: BTreeMap::new(),
        }
    }

    /// Reads the candidates of the whole fleet: by job, because most jobs may have too high a priority; of few nodes by node, which costs
    /// nothing for jobs that are elsewhere or over.
    pub fn read_all(&mut self) {
        if self.all_read {
            return;
        }
        if let Some(few) = self.fleet.slots_if_at_most(MAX_SINGLE_READS) {
            few.into_iter().for_each(|slot| self.read_one(slot));
        } else {
            self.allocs.clear();
            let view = self.view;
            view.allocs_up_to_priority(self.priority.saturating_sub(MIN_PRIORITY_DELTA), &mut |alloc| {
                self.note(alloc)
            });
        }
        self.all_read = true;
        self.allocs.values_mut().for_each(|allocs| allocs.sort_unstable_by_key(|c| c.id));
    }

    /// Reads the candidates on one node; once many nodes were asked for, on all at once.
    pub fn read(&mut self, slot: u32) {
        match self.allocs.len() < MAX_SINGLE_READS || self.allocs.contains_key(&slot) {
            true => self.read_one(slot),
            false => self.read_all(),
        }
    }

    pub fn read_one(&mut self, slot: u32) {
        if self.all_read || self.allocs.contains_key(&slot) {
            return;
        }
        self.allocs.insert(slot, Vec::new());
        let allocs = self.view.allocs_by_node(self.fleet.id_at(slot));
        allocs.into_iter().for_each(|alloc| self.note(alloc));
    }

    fn note(&mut self, alloc: Allocation) {
        if alloc.terminal() || alloc.job == *self.job {
            return;
        }
        let Some(slot) = self.fleet.slot(alloc.node_id) else { return };
        if self.preempted.get(&slot).is_some_and(|preempted| preempted.iter().any(|c| c.id == alloc.id)) {
            return;
        }
        let Some((priority, group_limit)) = self.priority_and_limit(&alloc) else { return };
        if may_preempt(self.priority, priority) {
            let mut holding = alloc.resources.holding();
            holding.claims.retain(|c| !matches!(c, Claim::Core(_)));
            let candidate = Candidate { id: alloc.id, priority, holding, group_limit };
            self.allocs.entry(slot).or_default().push(candidate);
        }
    }

    /// The higher of what its job says now and what it said when the allocation was made; and its group's limit.
    fn priority_and_limit(&mut self, alloc: &Allocation) -> Option<(i64, usize)> {
        let view = self.view;
        if !self.jobs.contains_key(&alloc.job) {
            let known = KnownJob { job: view.job(&alloc.job), group_limits: Vec::new() };
            self.jobs.insert(alloc.job.clone(), known);
        }
        let KnownJob { job, group_limits } = self.jobs.get_mut(&alloc.job)?;
        let job = job.as_ref()?;
        let mut priority = job.spec.priority;
        let current = (job.create_index, job.version) == (alloc.job_create_index, alloc.job_version);
        if !current {
            let own = view.job_version(&alloc.job, alloc.job_create_index, alloc.job_version)?;
            priority = priority.max(own.priority);
        }
        if let Some((_, group_limit)) = group_limits.iter().find(|(group, _)| *group == alloc.group) {
            return Some((priority, *group_limit));
        }
        let group_limit = self.group_limits.len();
        let migrate = job.spec.group(&alloc.group).and_then(|g| g.migrate);
        self.group_limits
            .push(GroupLimit { max_parallel: migrate.map_or(0, |m| m.max_parallel), leaving: 0 });
        group_limits.push((alloc.group.clone(), group_limit));
        Some((priority, group_limit))
    }

    /// Which allocations to preempt on the node so that it `fits`, a closure that gets what that frees. None: even all of them are not enough.
    pub fn preemption(
        &self,
        slot: u32,
        ask: Amount,
        fits: &mut dyn FnMut(&Holding) -> bool,
    ) -> Option<Preemption> {
        let allocs = self.allocs.get(&slot).filter(|allocs| !allocs.is_empty())?;
        if !fits(&freed(allocs.iter())) {
            return None;
        }
        let mut chosen = self.choose_closest(allocs, ask, fits);
        drop_unneeded(&mut chosen, ask, fits);
        assert!(
            chosen.iter().all(|c| may_preempt(self.priority, c.priority)),
            "nothing of nearly the same priority makes way"
        );
        chosen.sort_unstable_by_key(|c| c.id);
        Some(Preemption::of(chosen.into_iter()))
    }

    /// The lowest priority first, and of these the closest to what is still needed, until it fits.
    fn choose_closest<'c>(
        &self,
        allocs: &'c [Candidate],
        ask: Amount,
        fits: &mut dyn FnMut(&Holding) -> bool,
    ) -> Vec<&'c Candidate> {
        let mut left: Vec<&Candidate> = allocs.iter().collect();
        let mut chosen: Vec<&Candidate> = Vec::new();
        let mut needed = ask;
        while let Some(lowest) = left.iter().map(|c| c.priority).min() {
            let far = |c: &Candidate| distance(needed, c.holding.amount) + self.penalty(c);
            let of_lowest = (0..left.len()).filter(|i| left[*i].priority == lowest);
            let Some(at) = of_lowest.min_by(|a, b| far(left[*a]).total_cmp(&far(left[*b]))) else { break };
            let next = left.remove(at);
            needed = needed.minus(next.holding.amount);
            chosen.push(next);
            if fits(&freed(chosen.iter().copied())) {
                break;
            }
        }
        chosen
    }

    /// Penalty for an allocation of a group with `migrate.max_parallel` or more preempted already.
    fn penalty(&self, candidate: &Candidate) -> f64 {
        let GroupLimit { max_parallel, leaving } = self.group_limits[candidate.group_limit];
        if max_parallel > 0 && leaving >= max_parallel {
            (leaving + 1 - max_parallel) as f64 * 50.0
        } else {
            0.0
        }
    }

    /// Records that the plan preempts them.
    pub fn preempt(&mut self, slot: u32, ids: &[AllocId]) {
        let Some(allocs) = self.allocs.get_mut(&slot) else { return };
        debug_assert!(
            ids.iter().all(|id| allocs.iter().any(|c| c.id == *id)),
            "only a candidate that is still there is preempted"
        );
        for candidate in std::mem::take(allocs) {
            if ids.contains(&candidate.id) {
                self.group_limits[candidate.group_limit].leaving += 1;
                self.preempted.entry(slot).or_default().push(candidate);
            } else {
                allocs.push(candidate);
            }
        }
    }

    /// Everything that the plan preempts, by slot; on each node the highest priority first.
    pub fn take_preempted(&mut self) -> BTreeMap<u32, Vec<Candidate>> {
        let mut preempted = std::mem::take(&mut self.preempted);
        preempted.values_mut().for_each(|preempted| preempted.sort_by_key(|c| Reverse(c.priority)));
        preempted
    }
}

/// Drops what can stay: the highest priority first, and of these the farthest from the ask.
fn drop_unneeded(chosen: &mut Vec<&Candidate>, ask: Amount, fits: &mut dyn FnMut(&Holding) -> bool) {
    let far = |c: &Candidate| distance(ask, c.holding.amount);
    chosen.sort_by(|a, b| b.priority.cmp(&a.priority).then(far(b).total_cmp(&far(a))).then(a.id.cmp(&b.id)));
    loop {
        let before = chosen.len();
        let mut i = 0;
        while i < chosen.len() {
            let one = chosen.remove(i);
            if !fits(&freed(chosen.iter().copied())) {
                chosen.insert(i, one);
                i += 1;
            }
        }
        // which devices are taken depends on which are free: what was needed before may not be any more
        if chosen.len() == before {
            break;
        }
    }
}

/// How far an allocation is from being what is asked for: 0 is all of it, and nothing more.
fn distance(ask: Amount, held: Amount) -> f64 {
    let part = |ask: i64, held: i64| if ask > 0 { (ask - held) as f64 / ask as f64 } else { 0.0 };
    let (cpu, memory) = (part(ask.cpu_mhz, held.cpu_mhz), part(ask.memory_mb, held.memory_mb));
    let disk = part(ask.disk_mb, held.disk_mb);
    (cpu * cpu + memory * memory + disk * disk).sqrt()
}

/// The score of preempting allocations of these priorities: near 1 for few of low priority (scheduler.md 16.7).
pub fn score(priorities: &[i64]) -> f64 {
    let highest = priorities.iter().copied().max().unwrap_or(0) as f64;
    let sum: i64 = priorities.iter().sum();
    let all = highest + if highest > 0.0 { sum as f64 / highest } else { 0.0 };
    1.0 / (1.0 + (0.0048 * (all - 2048.0)).exp())
}

#[cfg(test)]
mod tests;
