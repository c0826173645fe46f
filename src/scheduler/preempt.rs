//! Who makes way: where nothing has room for an allocation, what is less urgent may have to leave (scheduler.md 18). What
//! could leave is read when it is first asked for, and once.
//!
//! Refuses to know: which node is the best one, and what a plan does with what was chosen.
//!
//! Invariants: nothing of a job that is as urgent, or nearly so, is ever chosen; of what is chosen nothing could stay.

use super::View;
use super::fleet::Snapshot;
use model::alloc::Allocation;
use model::claims::Claim;
use model::id::{AllocId, JobKey};
use model::job::Job;
use model::resources::{Amount, Holding};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By how much the priority of what makes way must be lower at least.
const GAP: i64 = 10;
/// So many nodes are read by themselves: then it is cheaper to read what is less urgent everywhere.
const MOST_SINGLE: usize = 8;

/// Whether a priority is high enough above another one.
pub fn may(own: i64, other: i64) -> bool {
    own.saturating_sub(other) >= GAP
}

/// An allocation that may be told to leave.
#[derive(Debug)]
pub struct Candidate {
    pub id: AllocId,
    priority: i64,
    /// But for whole cores, which nothing has to leave for.
    pub holding: Holding,
    /// Of `Others::families`.
    family: usize,
}

/// The allocations of one group of one job.
struct Family {
    /// How many of it are to leave at a time, if that can be; 0: any number.
    max_parallel: i64,
    /// By the plan so far.
    leaving: i64,
}

/// What may make way for the allocations of one job.
pub struct Others<'a> {
    view: &'a dyn View,
    fleet: &'a Snapshot,
    job: &'a JobKey,
    /// Of that job.
    priority: i64,
    /// By slot; each ordered by id.
    there: BTreeMap<u32, Vec<Candidate>>,
    all_read: bool,
    /// Those that are to leave, by slot.
    sent: BTreeMap<u32, Vec<Candidate>>,
    families: Vec<Family>,
    jobs: BTreeMap<JobKey, Known>,
}

/// A job, if it is there, and the families of its groups by their names.
struct Known {
    job: Option<Arc<Job>>,
    families: Vec<(String, usize)>,
}

/// What one node gives up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    pub ids: Vec<AllocId>,
    pub freed: Holding,
    pub priorities: Vec<i64>,
}

impl Way {
    fn of<'c>(chosen: impl Iterator<Item = &'c Candidate>) -> Way {
        let mut way = Way::default();
        for candidate in chosen {
            way.ids.push(candidate.id);
            way.priorities.push(candidate.priority);
            add(&mut way.freed, &candidate.holding);
        }
        way
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

impl<'a> Others<'a> {
    /// `priority`: of that job.
    pub fn new(view: &'a dyn View, fleet: &'a Snapshot, priority: i64, job: &'a JobKey) -> Self {
        Others {
            view,
            fleet,
            job,
            priority,
            there: BTreeMap::new(),
            all_read: false,
            sent: BTreeMap::new(),
            families: Vec::new(),
            jobs: BTreeMap::new(),
        }
    }

    /// Of the whole fleet: by job, because most jobs may be too urgent.
    pub fn read_all(&mut self) {
        if std::mem::replace(&mut self.all_read, true) {
            return;
        }
        self.there.clear();
        let view = self.view;
        view.allocs_up_to(self.priority.saturating_sub(GAP), &mut |alloc| self.note(alloc));
        self.there.values_mut().for_each(|there| there.sort_unstable_by_key(|c| c.id));
    }

    /// Of one node; where many are asked for, of all at once.
    pub fn read(&mut self, slot: u32) {
        match self.there.len() < MOST_SINGLE || self.there.contains_key(&slot) {
            true => self.read_one(slot),
            false => self.read_all(),
        }
    }

    pub fn read_one(&mut self, slot: u32) {
        if self.all_read || self.there.contains_key(&slot) {
            return;
        }
        self.there.insert(slot, Vec::new());
        let allocs = self.view.allocs_on(self.fleet.id_at(slot));
        allocs.into_iter().for_each(|alloc| self.note(alloc));
    }

    fn note(&mut self, alloc: Allocation) {
        if alloc.terminal() || alloc.job == *self.job {
            return;
        }
        let Some(slot) = self.fleet.slot(alloc.node_id) else { return };
        if self.sent.get(&slot).is_some_and(|sent| sent.iter().any(|c| c.id == alloc.id)) {
            return;
        }
        let Some((priority, family)) = self.urgency(&alloc) else { return };
        if may(self.priority, priority) {
            let mut holding = alloc.resources.holding();
            holding.claims.retain(|c| !matches!(c, Claim::Core(_)));
            let candidate = Candidate { id: alloc.id, priority, holding, family };
            self.there.entry(slot).or_default().push(candidate);
        }
    }

    /// The higher of what its job says now and what it said when the allocation was made; and its family.
    fn urgency(&mut self, alloc: &Allocation) -> Option<(i64, usize)> {
        let view = self.view;
        if !self.jobs.contains_key(&alloc.job) {
            let known = Known { job: view.job(&alloc.job), families: Vec::new() };
            self.jobs.insert(alloc.job.clone(), known);
        }
        let Known { job, families } = self.jobs.get_mut(&alloc.job)?;
        let job = job.as_ref()?;
        let mut priority = job.spec.priority;
        let current = (job.create_index, job.version) == (alloc.job_create_index, alloc.job_version);
        if !current {
            let own = view.job_version(&alloc.job, alloc.job_create_index, alloc.job_version)?;
            priority = priority.max(own.priority);
        }
        if let Some((_, family)) = families.iter().find(|(group, _)| *group == alloc.group) {
            return Some((priority, *family));
        }
        let family = self.families.len();
        let migrate = job.spec.group(&alloc.group).and_then(|g| g.migrate);
        self.families.push(Family { max_parallel: migrate.map_or(0, |m| m.max_parallel), leaving: 0 });
        families.push((alloc.group.clone(), family));
        Some((priority, family))
    }

    /// What has to leave the node so that it `fits`, which is told what that frees. None: whatever leaves, it does not.
    pub fn way(&self, slot: u32, ask: Amount, fits: &mut dyn FnMut(&Holding) -> bool) -> Option<Way> {
        let there = self.there.get(&slot).filter(|there| !there.is_empty())?;
        if !fits(&freed(there.iter())) {
            return None;
        }
        let mut chosen = self.closest(there, ask, fits);
        spare(&mut chosen, ask, fits);
        chosen.sort_unstable_by_key(|c| c.id);
        Some(Way::of(chosen.into_iter()))
    }

    /// The least urgent first, and of these what is closest to what is still needed, until it fits.
    fn closest<'c>(
        &self,
        there: &'c [Candidate],
        ask: Amount,
        fits: &mut dyn FnMut(&Holding) -> bool,
    ) -> Vec<&'c Candidate> {
        let mut left: Vec<&Candidate> = there.iter().collect();
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

    /// Of a family of which enough are leaving already.
    fn penalty(&self, candidate: &Candidate) -> f64 {
        let Family { max_parallel, leaving } = self.families[candidate.family];
        if max_parallel > 0 && leaving >= max_parallel {
            (leaving + 1 - max_parallel) as f64 * 50.0
        } else {
            0.0
        }
    }

    /// They are to leave, by the plan.
    pub fn leave(&mut self, slot: u32, ids: &[AllocId]) {
        let Some(there) = self.there.get_mut(&slot) else { return };
        for candidate in std::mem::take(there) {
            if ids.contains(&candidate.id) {
                self.families[candidate.family].leaving += 1;
                self.sent.entry(slot).or_default().push(candidate);
            } else {
                there.push(candidate);
            }
        }
    }

    /// All that are to leave, by slot; of each node the most urgent first.
    pub fn take_sent(&mut self) -> BTreeMap<u32, Vec<Candidate>> {
        let mut sent = std::mem::take(&mut self.sent);
        sent.values_mut().for_each(|sent| sent.sort_by_key(|c| Reverse(c.priority)));
        sent
    }
}

/// Leaves out whatever can stay: the most urgent first, and of these what is farthest from the ask.
fn spare(chosen: &mut Vec<&Candidate>, ask: Amount, fits: &mut dyn FnMut(&Holding) -> bool) {
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

/// How good it is to make way by sending such priorities off: near 1 for few of little urgency (scheduler.md 16.7).
pub fn score(priorities: &[i64]) -> f64 {
    let highest = priorities.iter().copied().max().unwrap_or(0) as f64;
    let sum: i64 = priorities.iter().sum();
    let all = highest + if highest > 0.0 { sum as f64 / highest } else { 0.0 };
    1.0 / (1.0 + (0.0048 * (all - 2048.0)).exp())
}

#[cfg(test)]
mod tests;
