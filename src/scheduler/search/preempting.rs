//! The best node with preemption, searched only where no node has room. Each exhausted node is scored once, and again after the plan
//! has touched it.
//!
//! Refuses to know which allocations may be preempted, and why these.

use super::{NodeState, Search};
use crate::preempt::{self, Preemption, PreemptionCandidates};
use crate::proposal::ProposedAllocs;
use crate::score::NodeScores;
use crate::search::SHOWN_SCORES;
use crate::search::levels::{Choice, insert_best};
use model::alloc::{AllocMetric, NodeScore, Scores};
use model::resources::{Amount, Holding};
use std::collections::{BTreeMap, BTreeSet};

/// The scores of an exhausted node as it would be after preemption, and the preemption score.
#[derive(Clone, Copy)]
pub struct PreemptionScore {
    scores: Scores,
    preemption: f64,
}

/// By slot; `None`: preemption can't make enough room there.
pub type PreemptionScores = BTreeMap<u32, Option<PreemptionScore>>;

impl<'a> Search<'a> {
    /// The best node for one more allocation with preemption, and what to preempt. `metric`: of the search that found no room.
    pub fn select_preempting(
        &mut self,
        proposal: &ProposedAllocs<'a>,
        penalized: &BTreeSet<u32>,
        candidates: &mut PreemptionCandidates<'a>,
        metric: &mut AllocMetric,
    ) -> Option<(u32, Preemption)> {
        candidates.read_all();
        let mut best: Vec<Choice> = Vec::with_capacity(SHOWN_SCORES + 1);
        for slot in 0..self.node_states.len() as u32 {
            if let Some(score) = self.preemption_score(proposal, slot, candidates) {
                insert_best(&mut best, self.preempting_choice(slot, score, penalized), SHOWN_SCORES);
            }
        }
        let slot = best.first()?.slot;
        let preemption = self.preemption(proposal, slot, candidates)?;
        metric.scores = best.iter().map(|c| self.preempting_scores(c, penalized)).collect();
        Some((slot, preemption))
    }

    /// On how many exhausted nodes preemption would make room for one more, and how many were looked at: `most` at the most.
    pub fn nodes_preemption_would_help(
        &mut self,
        proposal: &ProposedAllocs<'a>,
        candidates: &mut PreemptionCandidates<'a>,
        most: usize,
    ) -> (u64, u64) {
        let full = |slot: &u32| matches!(self.node_states[*slot as usize], NodeState::Exhausted(_));
        let slots: Vec<u32> = (0..self.node_states.len() as u32).filter(full).take(most).collect();
        let looked_at = slots.len() as u64;
        let nodes_preemption_would_help = slots.into_iter().filter(|slot| {
            candidates.read_one(*slot);
            self.preemption_score(proposal, *slot, candidates).is_some()
        });
        (nodes_preemption_would_help.count() as u64, looked_at)
    }

    /// As `select_preempting`, on one given node.
    pub fn check_node_preempting(
        &mut self,
        proposal: &ProposedAllocs<'a>,
        slot: u32,
        candidates: &mut PreemptionCandidates<'a>,
    ) -> Option<(Preemption, AllocMetric)> {
        candidates.read(slot);
        let score = self.preemption_score(proposal, slot, candidates)?;
        let preemption = self.preemption(proposal, slot, candidates)?;
        let none = BTreeSet::new();
        let choice = self.preempting_choice(slot, score, &none);
        let scores = vec![self.preempting_scores(&choice, &none)];
        Some((preemption, AllocMetric { nodes_evaluated: 1, scores, ..self.base.clone() }))
    }

    fn preemption_score(
        &mut self,
        proposal: &ProposedAllocs<'a>,
        slot: u32,
        candidates: &PreemptionCandidates<'a>,
    ) -> Option<PreemptionScore> {
        if !matches!(self.node_states[slot as usize], NodeState::Exhausted(_)) {
            return None;
        }
        if let Some(known) = self.preemption_scores.get(&slot) {
            return *known;
        }
        let score = self.preemption(proposal, slot, candidates).map(|preemption| {
            let devices = self.room(proposal, slot, &preemption.freed).unwrap_or(0.0);
            let scores = Scores { devices, ..self.score_node(proposal, slot) };
            PreemptionScore { scores, preemption: preempt::score(&preemption.priorities) }
        });
        self.preemption_scores.insert(slot, score);
        score
    }

    fn preemption(
        &mut self,
        proposal: &ProposedAllocs<'a>,
        slot: u32,
        candidates: &PreemptionCandidates<'a>,
    ) -> Option<Preemption> {
        let ask: Amount = self.ask_at(slot);
        candidates.preemption(slot, ask, &mut |freed: &Holding| self.room(proposal, slot, freed).is_ok())
    }

    fn preempting_choice(&self, slot: u32, score: PreemptionScore, penalized: &BTreeSet<u32>) -> Choice {
        let NodeScores { sum, scores } = NodeScores::of(&score.scores_with(slot, penalized));
        self.levels.choice(slot, NodeScores { sum: sum + score.preemption, scores: scores + 1 })
    }

    fn preempting_scores(&self, choice: &Choice, penalized: &BTreeSet<u32>) -> NodeScore {
        let shown = self.shown(choice, penalized);
        let Some(Some(score)) = self.preemption_scores.get(&choice.slot) else { return shown };
        let scores = Scores { spread: shown.scores.spread, ..score.scores_with(choice.slot, penalized) };
        NodeScore { scores, preemption: score.preemption, ..shown }
    }
}

impl PreemptionScore {
    fn scores_with(self, slot: u32, penalized: &BTreeSet<u32>) -> Scores {
        let reschedule_penalty = if penalized.contains(&slot) { -1.0 } else { 0.0 };
        Scores { reschedule_penalty, ..self.scores }
    }
}
