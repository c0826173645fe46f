//! The best node where others make way: looked for only where no node has room. Each node that is short is reckoned once, and
//! again when the plan has touched it.
//!
//! Refuses to know who may have to leave, and why just those.

use super::{Search, Standing};
use crate::preempt::{self, Others, Way};
use crate::proposal::Proposal;
use crate::score::Own;
use crate::search::SHOWN_SCORES;
use crate::search::levels::{Choice, enter};
use model::alloc::{AllocMetric, NodeScore, Scores};
use model::resources::{Amount, Holding};
use std::collections::{BTreeMap, BTreeSet};

/// A node that is short and would not be if others left: its scores then, and what that is worth.
#[derive(Clone, Copy)]
pub struct Over {
    scores: Scores,
    preemption: f64,
}

/// By slot; `None`: nobody could make enough way there.
pub type Overs = BTreeMap<u32, Option<Over>>;

impl<'a> Search<'a> {
    /// The best node for one more allocation where others make way, and who. `metric`: of the search that found no room.
    pub fn select_over(
        &mut self,
        proposal: &Proposal<'a>,
        penalized: &BTreeSet<u32>,
        others: &mut Others<'a>,
        metric: &mut AllocMetric,
    ) -> Option<(u32, Way)> {
        others.read_all();
        let mut best: Vec<Choice> = Vec::with_capacity(SHOWN_SCORES + 1);
        for slot in 0..self.standing.len() as u32 {
            if let Some(over) = self.over(proposal, slot, others) {
                enter(&mut best, self.choice_over(slot, over, penalized), SHOWN_SCORES);
            }
        }
        let slot = best.first()?.slot;
        let way = self.way(proposal, slot, others)?;
        metric.scores = best.iter().map(|c| self.shown_over(c, penalized)).collect();
        Some((slot, way))
    }

    /// On how many of the full nodes others could make way for one more, and of how many: `most` are looked at.
    pub fn ways(&mut self, proposal: &Proposal<'a>, others: &mut Others<'a>, most: usize) -> (u64, u64) {
        let full = |slot: &u32| matches!(self.standing[*slot as usize], Standing::Exhausted(_));
        let slots: Vec<u32> = (0..self.standing.len() as u32).filter(full).take(most).collect();
        let looked_at = slots.len() as u64;
        let ways = slots.into_iter().filter(|slot| {
            others.read_one(*slot);
            self.over(proposal, *slot, others).is_some()
        });
        (ways.count() as u64, looked_at)
    }

    /// As `select_over`, on one given node.
    pub fn look_over(
        &mut self,
        proposal: &Proposal<'a>,
        slot: u32,
        others: &mut Others<'a>,
    ) -> Option<(Way, AllocMetric)> {
        others.read(slot);
        let over = self.over(proposal, slot, others)?;
        let way = self.way(proposal, slot, others)?;
        let none = BTreeSet::new();
        let choice = self.choice_over(slot, over, &none);
        let scores = vec![self.shown_over(&choice, &none)];
        Some((way, AllocMetric { nodes_evaluated: 1, scores, ..self.base.clone() }))
    }

    fn over(&mut self, proposal: &Proposal<'a>, slot: u32, others: &Others<'a>) -> Option<Over> {
        if !matches!(self.standing[slot as usize], Standing::Exhausted(_)) {
            return None;
        }
        if let Some(known) = self.overs.get(&slot) {
            return *known;
        }
        let over = self.way(proposal, slot, others).map(|way| {
            let devices = self.room(proposal, slot, &way.freed).unwrap_or(0.0);
            let scores = Scores { devices, ..self.reckon(proposal, slot) };
            Over { scores, preemption: preempt::score(&way.priorities) }
        });
        self.overs.insert(slot, over);
        over
    }

    fn way(&mut self, proposal: &Proposal<'a>, slot: u32, others: &Others<'a>) -> Option<Way> {
        let ask: Amount = self.ask_at(slot);
        others.way(slot, ask, &mut |freed: &Holding| self.room(proposal, slot, freed).is_ok())
    }

    fn choice_over(&self, slot: u32, over: Over, penalized: &BTreeSet<u32>) -> Choice {
        let Own { sum, scores } = Own::of(&over.scores_with(slot, penalized));
        self.levels.choice(slot, Own { sum: sum + over.preemption, scores: scores + 1 })
    }

    fn shown_over(&self, choice: &Choice, penalized: &BTreeSet<u32>) -> NodeScore {
        let shown = self.shown(choice, penalized);
        let Some(Some(over)) = self.overs.get(&choice.slot) else { return shown };
        let scores = Scores { spread: shown.scores.spread, ..over.scores_with(choice.slot, penalized) };
        NodeScore { scores, preemption: over.preemption, ..shown }
    }
}

impl Over {
    fn scores_with(self, slot: u32, penalized: &BTreeSet<u32>) -> Scores {
        let reschedule_penalty = if penalized.contains(&slot) { -1.0 } else { 0.0 };
        Scores { reschedule_penalty, ..self.scores }
    }
}
