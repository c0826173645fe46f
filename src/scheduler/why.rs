//! Why a group finds a node or does not: each reason with the nodes that it excludes, and those that it alone excludes; the node where
//! least is missing; the best nodes. Found by the parts that place, on the state as it is.
//!
//! Refuses to know: who asks, names of nodes, and why it came to be so.

use super::SchedulerState;
use super::bitmap::Bitmap;
use super::demand::{Demand, NodeOffer, Shortage};
use super::distinct::Distinct;
use super::feasibility::Feasibility;
use super::fleet::FleetSnapshot;
use super::preempt::PreemptionCandidates;
use super::proposal::ProposedAllocs;
use super::search::{MAX_LEVELS, Search, SearchOptions};
use model::alloc::{Allocation, NodeScore};
use model::id::NodeId;
use model::job::{JobSpec, TaskGroup};
use model::random::Stream;
use model::resources::{Amount, TOO_MANY};
use model::scheduling::Scheduling;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What excludes nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    pub text: String,
    pub nodes: u64,
    pub alone: u64,
    /// For an amount: what is asked for, and the most that some node would have room for.
    pub amount: Option<(i64, Option<i64>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NearestNode {
    pub node: NodeId,
    /// By name: what is missing, and what is asked for.
    pub missing: Vec<(&'static str, i64, i64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementExplanation {
    pub nodes: u64,
    pub feasible: u64,
    pub exclusions: Vec<Exclusion>,
    pub nearest: Option<NearestNode>,
    pub best: Vec<NodeScore>,
}

/// Exclusions are named by their texts; the same text is the same exclusion.
struct ExclusionCounts {
    exclusions: Vec<Exclusion>,
    known: BTreeMap<String, u16>,
    /// By slot: how many exclude it, and the last of them.
    against: Vec<(u16, u16)>,
    /// Nodes that have all that a job wants on each node, and are not asked for more.
    fully_placed: Bitmap,
}

impl ExclusionCounts {
    fn exclusion(&mut self, text: &str) -> u16 {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let number = self.exclusions.len() as u16;
        self.exclusions.push(Exclusion { text: text.into(), nodes: 0, alone: 0, amount: None });
        self.known.insert(text.into(), number);
        number
    }

    fn exclude(&mut self, exclusion: u16, slot: u32) {
        let (count, last) = &mut self.against[slot as usize];
        if (*count > 0 && *last == exclusion) || self.fully_placed.contains(slot) {
            return;
        }
        (*count, *last) = (*count + 1, exclusion);
        self.exclusions[usize::from(exclusion)].nodes += 1;
    }

    fn exclude_all(&mut self, text: &str, slots: &Bitmap) {
        if slots.len() > 0 {
            let exclusion = self.exclusion(text);
            slots.iter().for_each(|slot| self.exclude(exclusion, slot));
        }
    }
}

/// Every dimension of an amount, by the name that metrics use.
fn dimensions(a: Amount) -> [(&'static str, i64); 4] {
    [("cpu", a.cpu_mhz), ("memory", a.memory_mb), ("disk", a.disk_mb), (TOO_MANY, a.allocs)]
}

/// The nodes on which a job that runs on each has as many of the group as it wants there.
fn fully_placed(job: &JobSpec, group: &TaskGroup, fleet: &FleetSnapshot, allocs: &[Allocation]) -> Bitmap {
    let (mut fully_placed, mut live) = (Bitmap::none(fleet.slots()), BTreeMap::new());
    if !job.job_type.runs_on_every_node() {
        return fully_placed;
    }
    for alloc in allocs.iter().filter(|a| a.group == group.name && !a.terminal()) {
        let Some(slot) = fleet.slot(alloc.node_id) else { continue };
        let here = live.entry(slot).or_insert(0);
        *here += 1;
        if *here >= group.count {
            fully_placed.insert(slot);
        }
    }
    fully_placed
}

/// `allocs`: all of the job's. Of a job that is on each node, those that have it are left out.
pub fn explain_placement(
    job: &JobSpec,
    group: &TaskGroup,
    fleet: &FleetSnapshot,
    allocs: &[Allocation],
    scheduling: Scheduling,
    seed: u64,
) -> PlacementExplanation {
    let proposal = ProposedAllocs::new(fleet, allocs);
    let mut feasibility = Feasibility::new(job, fleet);
    let excluded = feasibility.excluded(group);
    let mut tally = ExclusionCounts {
        exclusions: vec![],
        known: BTreeMap::new(),
        against: vec![(0, 0); fleet.slots()],
        fully_placed: fully_placed(job, group, fleet, allocs),
    };
    let mut offers_nothing = Bitmap::none(fleet.slots());
    for (text, is_offer, slots) in &excluded {
        tally.exclude_all(text, slots);
        if *is_offer {
            slots.iter().for_each(|slot| offers_nothing.insert(slot));
        }
    }
    let distinct = Distinct::new(job, group);
    exclude_by_others(&distinct, fleet, &proposal, &mut tally);
    let nearest = exclude_by_room(group, fleet, &proposal, &offers_nothing, &mut tally);
    let asked = || fleet.occupied_slots().filter(|slot| !tally.fully_placed.contains(*slot));
    let feasible = asked().filter(|slot| tally.against[*slot as usize].0 == 0).count() as u64;
    let nodes = asked().count() as u64;
    for slot in fleet.occupied_slots() {
        if let (1, last) = tally.against[slot as usize] {
            tally.exclusions[usize::from(last)].alone += 1;
        }
    }
    let mut exclusions = tally.exclusions;
    exclusions.retain(|b| b.nodes > 0);
    exclusions.sort_by_key(|b| (Reverse(b.nodes), Reverse(b.alone)));
    let mut best = vec![];
    if feasible > 0 && !job.job_type.runs_on_every_node() {
        let rules = SearchOptions { algorithm: scheduling.algorithm, seed, max_levels: MAX_LEVELS };
        let mut search = Search::new(job, group, fleet, &mut feasibility, &proposal, rules);
        best = search.select(&proposal, &BTreeSet::new()).1.scores;
    }
    PlacementExplanation { nodes, feasible, exclusions, nearest, best }
}

/// How many exhausted nodes are read to tell whether preemption would help.
const MAX_EXHAUSTED_READ: usize = 50;

/// On how many exhausted nodes preemption would make room for one more, if it is on for this type of job; and how many were looked at.
pub fn nodes_preemption_would_help(
    view: &dyn SchedulerState,
    fleet: &FleetSnapshot,
    job: &JobSpec,
    group: &TaskGroup,
    allocs: &[Allocation],
    seed: u64,
) -> (u64, u64) {
    let (key, proposal) = (job.key(), ProposedAllocs::new(fleet, allocs));
    let mut feasibility = Feasibility::new(job, fleet);
    let algorithm = view.scheduling(&job.node_pool).algorithm;
    let rules = SearchOptions { algorithm, seed, max_levels: MAX_LEVELS };
    let mut search = Search::new(job, group, fleet, &mut feasibility, &proposal, rules);
    search.nodes_preemption_would_help(
        &proposal,
        &mut PreemptionCandidates::new(view, fleet, job.priority, &key),
        MAX_EXHAUSTED_READ,
    )
}

/// Where the job's other allocations are.
fn exclude_by_others(
    distinct: &Distinct,
    fleet: &FleetSnapshot,
    proposal: &ProposedAllocs,
    tally: &mut ExclusionCounts,
) {
    let used: Vec<_> = distinct.properties.iter().map(|p| p.used(fleet, proposal)).collect();
    for slot in fleet.occupied_slots() {
        if distinct.host_taken(proposal, slot) {
            let exclusion = tally.exclusion("distinct_hosts");
            tally.exclude(exclusion, slot);
        }
        for (property, used) in distinct.properties.iter().zip(&used) {
            let text = match property.value(fleet, slot) {
                None => format!("missing property {:?}", property.name),
                Some(value) if used.get(&value).copied().unwrap_or(0) >= property.allowed => {
                    format!("distinct_property: {}", property.name)
                }
                Some(_) => continue,
            };
            let exclusion = tally.exclusion(&text);
            tally.exclude(exclusion, slot);
        }
    }
}

/// What is free, against what is asked. Gives the node that nothing but amounts excludes, and these least.
fn exclude_by_room(
    group: &TaskGroup,
    fleet: &FleetSnapshot,
    proposal: &ProposedAllocs,
    offers_nothing: &Bitmap,
    tally: &mut ExclusionCounts,
) -> Option<NearestNode> {
    let mut demand = Demand::of(group);
    let plain = group.resources().total();
    let mut nearest: Option<(f64, f64, u32)> = None;
    let mut would_do: BTreeMap<&'static str, i64> = BTreeMap::new();
    let fully_placed = tally.fully_placed.clone();
    let short = |slot: u32, ask: Amount| {
        let free = dimensions(fleet.available_at(slot).minus(proposal.used(slot)));
        let each = dimensions(ask).into_iter().zip(free);
        each.filter(|((_, ask), (_, free))| ask > free).map(|((what, ask), (_, free))| (what, ask, free))
    };
    let ask_at = |demand: &Option<Demand>, slot| match (demand, fleet.unique_at(slot)) {
        (Some(demand), Some(own)) => demand.amount(own),
        _ => plain,
    };
    for slot in fleet.occupied_slots().filter(|slot| !fully_placed.contains(*slot)) {
        if let Some(demand) = &mut demand
            && let Some((profile, own)) = fleet.profile_at(slot).zip(fleet.unique_at(slot))
        {
            let site = NodeOffer { profile, own, taken: proposal.taken(slot) };
            let lack = demand.assign(site, &mut Stream::new(0, 0)).err();
            let known = |lack: &Shortage| matches!(lack, Shortage::PortTaken(_) | Shortage::NoPortLeft);
            if let Some(lack) = lack.filter(|l| known(l) || !offers_nothing.contains(slot)) {
                let exclusion = tally.exclusion(&demand.text(lack));
                tally.exclude(exclusion, slot);
            }
        }
        let others = tally.against[slot as usize].0;
        let lacking: Vec<_> = short(slot, ask_at(&demand, slot)).collect();
        let parts = || lacking.iter().map(|(_, ask, free)| (ask - free) as f64 / (*ask).max(1) as f64);
        let (worst, sum) = (parts().fold(0.0, f64::max), parts().sum());
        let better = nearest.is_none_or(|(w, s, _)| (worst, sum) < (w, s));
        if others == 0 && !lacking.is_empty() && better {
            nearest = Some((worst, sum, slot));
        }
        for (what, _, free) in &lacking {
            let exclusion = tally.exclusion(what);
            tally.exclude(exclusion, slot);
            if others == 0 && lacking.len() == 1 {
                let most = would_do.entry(what).or_insert(*free);
                *most = (*most).max(*free);
            }
        }
    }
    // no group can ask for less than one place
    for (what, asked) in dimensions(plain).into_iter().filter(|(what, _)| *what != TOO_MANY) {
        if let Some(number) = tally.known.get(what) {
            let most = would_do.get(what).copied().filter(|most| *most > 0);
            tally.exclusions[usize::from(*number)].amount = Some((asked, most));
        }
    }
    let (_, _, slot) = nearest?;
    let missing = short(slot, ask_at(&demand, slot)).map(|(what, ask, free)| (what, ask - free, ask));
    Some(NearestNode { node: fleet.id_at(slot), missing: missing.collect() })
}

#[cfg(test)]
mod tests;
