//! The search for the best node of one group: every node that may run it is scored once, then ranked, and after each
//! step of the plan only the nodes that it touched are scored again. C placements on N nodes cost about N + C·log N.
//!
//! What is the same for many nodes is kept once: `levels` for what spread blocks add, `pools` for what a distinct property
//! closes. Refuses to know: how the plan is made, and other jobs.

mod check_node;
mod levels;
mod pools;
mod preempting;
mod ranked;

use super::demand::{Demand, NodeOffer, Shortage};
use super::distinct::Distinct;
use super::feasibility::{Feasibility, FilterCounts};
use super::fleet::FleetSnapshot;
use super::node_order::place_in_order;
use super::proposal::{ProposedAllocs, TouchedNode};
use super::score::{Fit, NodeScores, job_anti_affinity};
use super::spread::SpreadBlock;
pub use check_node::NodeCheck;
use levels::{Choice, SpreadLevels, insert_best};
use model::alloc::{AllocMetric, NodeScore, Scores};
use model::claims::Claim;
use model::job::{JobSpec, TaskGroup};
use model::random::Stream;
use model::resources::{AllocResources, Amount, Holding};
use model::scheduling::Algorithm;
use pools::PropertyPools;
use preempting::PreemptionScores;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// How many nodes a metric shows the scores of.
const SHOWN_SCORES: usize = 5;
/// How many values of distinct properties a metric names that have no room. There may be as many as there are nodes, and
/// every allocation keeps its metric.
const SHOWN_VALUES: usize = 10;
/// Beyond this number of levels, moving nodes between levels is cheaper than looking at each.
pub const MAX_LEVELS: usize = 512;
/// No preemption: nothing is freed.
const NOTHING: Holding = Holding { amount: Amount::ZERO, claims: Vec::new() };
const DISTINCT_HOSTS: &str = "distinct_hosts";

/// Where a node stands in the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeState {
    /// Filtered, whatever the plan does.
    Filtered,
    HostTaken,
    /// The node's pool has no room for one more.
    PoolClosed,
    Exhausted(Exhaustion),
    Fits,
}

/// How the search ranks feasible nodes.
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions {
    pub algorithm: Algorithm,
    pub seed: u64,
    /// See `SpreadLevels::new`; `MAX_LEVELS` but for tests.
    pub max_levels: usize,
}

/// What a node has too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exhaustion {
    Amount(&'static str),
    Demand(Shortage),
}

pub struct Search<'a> {
    fleet: &'a FleetSnapshot,
    group: &'a TaskGroup,
    ask: Amount,
    /// What an allocation takes that asks for amounts only.
    resources: AllocResources,
    demand: Option<Demand<'a>>,
    distinct: Distinct<'a>,
    fit: Fit,
    /// By slot; empty: the group has none.
    affinity: Vec<f64>,
    pools: PropertyPools<'a>,
    levels: SpreadLevels<'a>,
    /// By slot.
    node_states: Vec<NodeState>,
    filtered: FilterCounts,
    /// Nodes of closed pools.
    closed: FilterCounts,
    exhausted: FilterCounts,
    /// What every metric of this search begins with.
    base: AllocMetric,
    /// How many of the proposal's node changes this search has applied.
    seen: usize,
    /// The scores of exhausted nodes, as far as they were computed.
    preemption_scores: PreemptionScores,
}

impl<'a> Search<'a> {
    pub fn new(
        job: &'a JobSpec,
        group: &'a TaskGroup,
        fleet: &'a FleetSnapshot,
        feasibility: &mut Feasibility<'a>,
        proposal: &ProposedAllocs<'a>,
        rules: SearchOptions,
    ) -> Self {
        let SearchOptions { algorithm, seed, max_levels } = rules;
        let (candidates, mut filtered) = feasibility.candidates(group);
        let mut distinct = Distinct::new(job, group);
        let mut pools = PropertyPools::new(std::mem::take(&mut distinct.properties), fleet, proposal);
        let missing = pools.fill(&candidates);
        let class = |slot| fleet.profile_at(slot).map_or("", |p| &p.class);
        for (slot, name) in &missing {
            filtered.add(&format!("missing property {name:?}"), class(*slot));
        }
        let blocks = SpreadBlock::all(job, group, fleet, &candidates.iter().collect::<Vec<_>>());
        let of_group = proposal.all_groups().filter(|(_, g, _)| *g == group.name);
        let present: Vec<(u32, i64)> = of_group.map(|(slot, _, p)| (slot, p.wanted)).collect();
        let order = (0..fleet.slots() as u32).map(|slot| place_in_order(seed, fleet.id_at(slot))).collect();
        let mut node_states = vec![NodeState::Filtered; fleet.slots()];
        let lacking = |slot: &u32| missing.binary_search_by_key(slot, |(s, _)| *s).is_ok();
        let open: Vec<u32> = candidates.iter().filter(|slot| !lacking(slot)).collect();
        open.iter().for_each(|slot| node_states[*slot as usize] = NodeState::Fits);
        let resources = group.resources();
        let mut search = Search {
            levels: SpreadLevels::new(blocks, &candidates, &present, order, max_levels),
            affinity: feasibility.affinities(group, &open),
            fleet,
            group,
            ask: resources.total(),
            resources,
            demand: Demand::of(group),
            distinct,
            fit: Fit::new(algorithm),
            pools,
            node_states,
            filtered,
            closed: FilterCounts::default(),
            exhausted: FilterCounts::default(),
            base: base_metric(feasibility),
            seen: proposal.node_changes().len(),
            preemption_scores: PreemptionScores::new(),
        };
        open.iter().for_each(|slot| search.evaluate(proposal, *slot));
        search
    }

    /// The best node for one more allocation, and how it was found; None: there is none. `penalized`: slots on which
    /// what is to be placed has failed before.
    pub fn select(
        &mut self,
        proposal: &ProposedAllocs<'a>,
        penalized: &BTreeSet<u32>,
    ) -> (Option<u32>, AllocMetric) {
        self.apply_changes(proposal);
        let mut best = self.levels.best(SHOWN_SCORES, penalized);
        for slot in penalized {
            if let Some(scores) = self.scores(*slot, penalized) {
                insert_best(&mut best, self.levels.choice(*slot, NodeScores::of(&scores)), SHOWN_SCORES);
            }
        }
        debug_assert!(
            best.iter().all(|choice| self.node_states[choice.slot as usize] == NodeState::Fits),
            "only a node that fits is chosen"
        );
        let filtered = self.all_filtered();
        assert!(
            filtered.nodes + self.exhausted.nodes + best.len() as u64 <= self.base.nodes_evaluated,
            "each node is filtered, exhausted or fits"
        );
        let metric = AllocMetric {
            scores: best.iter().map(|c| self.shown(c, penalized)).collect(),
            nodes_filtered: filtered.nodes,
            constraint_filtered: filtered.by_reason,
            class_filtered: filtered.by_class,
            nodes_exhausted: self.exhausted.nodes,
            dimension_exhausted: self.exhausted.by_reason.clone(),
            class_exhausted: self.exhausted.by_class.clone(),
            ..self.base.clone()
        };
        (best.first().map(|c| c.slot), metric)
    }

    /// All that is filtered, by reason. Distinct values without room: the first few by name, the others as one.
    fn all_filtered(&self) -> FilterCounts {
        let mut all = self.filtered.clone();
        all.nodes += self.closed.nodes;
        for (class, nodes) in self.closed.by_class.iter() {
            all.by_class.add(class, *nodes);
        }
        let mut unnamed = self.closed.nodes;
        for (reason, nodes) in self.closed.by_reason.iter().take(SHOWN_VALUES) {
            all.by_reason.add(reason, *nodes);
            unnamed -= nodes;
        }
        if unnamed > 0 {
            let others = self.closed.by_reason.len() - SHOWN_VALUES;
            all.by_reason.add(&format!("distinct_property: {others} other values used up"), unnamed);
        }
        all
    }

    fn shown(&self, choice: &Choice, penalized: &BTreeSet<u32>) -> NodeScore {
        let spread = choice.spread;
        let scores = self.scores(choice.slot, penalized).unwrap_or_default();
        NodeScore {
            node_id: self.fleet.id_at(choice.slot),
            scores: Scores { spread: (spread != 0.0).then_some(spread), ..scores },
            normalized: choice.score,
            preemption: 0.0,
        }
    }

    /// The scores of a node that fits, without what the spread blocks add.
    fn scores(&self, slot: u32, penalized: &BTreeSet<u32>) -> Option<Scores> {
        let scores = self.levels.scores(slot)?;
        let reschedule_penalty = if penalized.contains(&slot) { -1.0 } else { 0.0 };
        Some(Scores { reschedule_penalty, ..scores })
    }

    /// Evaluates again the nodes that the plan changed since the last call, and all nodes of a pool that closed or opened.
    fn apply_changes(&mut self, proposal: &ProposedAllocs<'a>) {
        let touched = &proposal.node_changes()[self.seen..];
        self.seen = proposal.node_changes().len();
        for TouchedNode { slot, group, wanted } in touched {
            if *group == self.group.name && *wanted != 0 {
                self.levels.count(*slot, *wanted);
            }
            for pool in self.pools.count(*slot, group, *wanted) {
                self.update_pool(proposal, pool);
            }
            self.preemption_scores.remove(slot);
            if self.node_states[*slot as usize] != NodeState::Filtered {
                self.evaluate(proposal, *slot);
            }
        }
    }

    fn update_pool(&mut self, proposal: &ProposedAllocs<'a>, pool: u32) {
        let closed = self.pools.closed_reason(pool);
        if closed.as_deref() == self.pools.closed_as(pool) {
            return;
        }
        let members = self.pools.members(pool).to_vec();
        members.iter().for_each(|slot| self.uncount(*slot));
        self.pools.set_closed(pool, closed);
        members.iter().for_each(|slot| self.evaluate(proposal, *slot));
    }

    /// Sets a candidate's state and counts it; it is ranked if it fits.
    fn evaluate(&mut self, proposal: &ProposedAllocs<'a>, slot: u32) {
        self.uncount(slot);
        let mut devices = 0.0;
        let node_state = if self.distinct.host_taken(proposal, slot) {
            NodeState::HostTaken
        } else if self.pools.closed(slot).is_some() {
            NodeState::PoolClosed
        } else {
            match self.room(proposal, slot, &NOTHING) {
                Ok(preference) => {
                    devices = preference;
                    NodeState::Fits
                }
                Err(short) => NodeState::Exhausted(short),
            }
        };
        self.count_state(slot, node_state);
        if node_state == NodeState::Fits {
            let scores = Scores { devices, ..self.score_node(proposal, slot) };
            self.levels.rank(slot, scores);
        } else {
            self.levels.unrank(slot);
        }
    }

    /// Whether there is room once `freed` is freed, and the score of the devices.
    fn room(&mut self, proposal: &ProposedAllocs<'a>, slot: u32, freed: &Holding) -> Result<f64, Exhaustion> {
        let mut preference = 0.0;
        if let Some(demand) = &mut self.demand
            && let Some(offer) = node_offer(self.fleet, proposal, slot, &freed.claims)
        {
            let assigned = demand.assign(offer, &mut Stream::new(0, 0)).map_err(Exhaustion::Demand)?;
            preference = assigned.preference;
        }
        let then = proposal.used(slot).minus(freed.amount).plus(self.ask_at(slot));
        self.fleet
            .available_at(slot)
            .lacks(then)
            .map_or(Ok(preference), |short| Err(Exhaustion::Amount(short)))
    }

    /// What one allocation of the group takes on this node.
    fn ask_at(&self, slot: u32) -> Amount {
        let Some(demand) = &self.demand else { return self.ask };
        self.fleet.unique_at(slot).map_or(self.ask, |own| demand.amount(own))
    }

    /// What one more allocation of the group holds on a node that has room for it.
    pub fn resources(
        &mut self,
        proposal: &ProposedAllocs<'a>,
        slot: u32,
        picks: &mut Stream,
    ) -> Option<AllocResources> {
        let Some(demand) = &mut self.demand else { return Some(self.resources.clone()) };
        let offer = node_offer(self.fleet, proposal, slot, &[])?;
        let assigned = demand.assign(offer, picks).ok()?;
        Some(demand.resources(&assigned, offer.own))
    }

    fn text(&self, short: Exhaustion) -> Cow<'static, str> {
        match (short, &self.demand) {
            (Exhaustion::Amount(dimension), _) => dimension.into(),
            (Exhaustion::Demand(shortage), Some(demand)) => demand.text(shortage).into(),
            (Exhaustion::Demand(_), None) => Cow::default(),
        }
    }

    fn class(&self, slot: u32) -> &'a str {
        self.fleet.profile_at(slot).map_or("", |p| &p.class)
    }

    fn count_state(&mut self, slot: u32, node_state: NodeState) {
        self.node_states[slot as usize] = node_state;
        let class = || self.class(slot);
        match node_state {
            NodeState::HostTaken => self.filtered.add(DISTINCT_HOSTS, class()),
            NodeState::PoolClosed => self.closed.add(self.pools.closed(slot).unwrap_or_default(), class()),
            NodeState::Exhausted(short) => self.exhausted.add(&self.text(short), class()),
            NodeState::Filtered | NodeState::Fits => {}
        }
    }

    /// Takes back what `count_state` counted. The node fits, as far as the counts go, until it is evaluated again.
    fn uncount(&mut self, slot: u32) {
        let node_state = std::mem::replace(&mut self.node_states[slot as usize], NodeState::Fits);
        assert_ne!(node_state, NodeState::Filtered, "only candidates are evaluated");
        let class = || self.class(slot);
        match node_state {
            NodeState::HostTaken => self.filtered.remove(DISTINCT_HOSTS, class()),
            NodeState::PoolClosed => self.closed.remove(self.pools.closed(slot).unwrap_or_default(), class()),
            NodeState::Exhausted(short) => self.exhausted.remove(&self.text(short), class()),
            NodeState::Filtered | NodeState::Fits => {}
        }
    }

    fn score_node(&mut self, proposal: &ProposedAllocs, slot: u32) -> Scores {
        let there = proposal.of_group(slot, &self.group.name).holding;
        let used_then = proposal.used(slot).plus(self.ask_at(slot));
        Scores {
            binpack: self.fit.of(self.fleet.available_at(slot), used_then),
            job_anti_affinity: job_anti_affinity(there, self.group.count).unwrap_or(0.0),
            node_affinity: self.affinity.get(slot as usize).copied().unwrap_or(0.0),
            ..Scores::default()
        }
    }
}

/// What the node offers, with the claims in `freed` released.
fn node_offer<'s>(
    fleet: &'s FleetSnapshot,
    proposal: &'s ProposedAllocs,
    slot: u32,
    freed: &'s [Claim],
) -> Option<NodeOffer<'s>> {
    let (profile, own) = fleet.profile_at(slot).zip(fleet.unique_at(slot))?;
    Some(NodeOffer { profile, own, taken: proposal.taken(slot).without(freed) })
}

fn base_metric(feasibility: &Feasibility) -> AllocMetric {
    let nodes = feasibility.ready.len();
    let nodes_available = feasibility.ready_by_datacenter.clone();
    AllocMetric { nodes_evaluated: nodes, nodes_in_pool: nodes, nodes_available, ..Default::default() }
}

#[cfg(test)]
mod brute_force;
#[cfg(test)]
mod spread_tests;
#[cfg(test)]
mod tests;
